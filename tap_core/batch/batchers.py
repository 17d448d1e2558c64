"""Batchers for JSON Lines, Parquet and formats of other packages.

They are for authors who write batches themselves: one file per manifest, and each file is
closed before its manifest is yielded. ``jsonl`` and ``parquet`` always use this module;
other formats are loaded from the entry points of installed packages, in the groups of
`BATCH_ENCODERS`. Streams that use the SDK's default batching do not use this module: their
encoded rows are written to files directly.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tap_core.batch.base import BaseBatcher, lazy_chunked_generator
from tap_core.batch.encodings import BaseBatchFileEncoding
from tap_core.batch.writer import BatchFileWriter, FileNamer, encode_row, get_format
from tap_core.types import Record

__all__ = ["BATCH_ENCODERS", "Batcher", "JSONLinesBatcher", "ParquetBatcher"]

BATCH_ENCODERS: Final = ("tap_core.batch_encoders", "singer_sdk.batch_encoders")
"""Entry point groups that map a format's name to its `BaseBatcher`."""


class _FileBatcher(BaseBatcher):
    format: str

    def get_batches(self, records: Iterator[Record]) -> Iterator[list[str]]:
        """Write files of at most ``batch_size`` records each, and yield the URL of each file.

        Raises:
            BatchFileError: A file cannot be written.
        """
        config = self.batch_config
        kind = get_format(BaseBatchFileEncoding(self.format, config.encoding.compression))
        names = FileNamer(self.tap_name, self.stream_name, config.storage)
        for chunk in lazy_chunked_generator(records, config.batch_size):
            file = BatchFileWriter(config, kind, names, {})
            file.write([encode_row(record) for record in chunk])
            yield [file.close()]


class JSONLinesBatcher(_FileBatcher):
    """Batcher that writes JSON Lines files."""

    format = "jsonl"


class ParquetBatcher(_FileBatcher):
    """Batcher that writes Parquet files; column types are inferred from each file's values."""

    format = "parquet"


_BUILT_IN: Final[dict[str, type[BaseBatcher]]] = {
    "jsonl": JSONLinesBatcher,
    "parquet": ParquetBatcher,
}


class Batcher(BaseBatcher):
    """Batcher that writes the file format of the setting ``batch_config``."""

    def get_batches(self, records: Iterator[Record]) -> Iterator[list[str]]:
        """Yield the manifest of each batch: a list of the URLs of its files.

        Raises:
            ValueError: The format is not supported.
        """
        kind = self.get_batcher(self.batch_config.encoding.format)
        batcher = kind(self.tap_name, self.stream_name, self.batch_config)
        return batcher.get_batches(records)

    @classmethod
    def get_batcher(cls, name: str) -> type[BaseBatcher]:
        """Return the batcher class of a format.

        Raises:
            ValueError: The format is not supported.
        """
        return _BUILT_IN.get(name) or _installed(name)


def _installed(name: str) -> type[BaseBatcher]:
    """Return the batcher class that an installed package provides for a format.

    Raises:
        ValueError: No package provides the format.
    """
    from importlib.metadata import entry_points

    for group in BATCH_ENCODERS:
        for entry_point in entry_points(group=group, name=name):
            kind: Any = entry_point.load()
            encoder: type[BaseBatcher] = kind
            return encoder
    raise ValueError(f"Unsupported batcher: {name}")
