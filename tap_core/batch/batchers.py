"""Batchers, which write records to batch files in JSON Lines, Parquet or another format.

These classes are for authors of taps who override `Stream.get_batches`. Other packages can register
batchers for further formats as entry points in the groups `BATCH_ENCODERS`. Without such an
override, the SDK writes ``jsonl`` and ``parquet`` files and does not use these classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tap_core.batch.base import BaseBatcher, lazy_chunked_generator
from tap_core.batch.encodings import BaseBatchFileEncoding
from tap_core.batch.writer import BatchFileWriter, FileNamer, encode_row, get_format
from tap_core.types import Record

__all__ = ["BATCH_ENCODERS", "Batcher", "JSONLinesBatcher", "ParquetBatcher"]

BATCH_ENCODERS: Final = ("tap_core.batch_encoders", "singer_sdk.batch_encoders")
"""Entry point groups in which packages register batchers.

The name of an entry is a format, and its object is a subclass of `BaseBatcher`.
"""


class _FileBatcher(BaseBatcher):
    """Base class of the batchers for the built-in formats; subclasses set ``format``."""

    format: str

    def get_batches(self, records: Iterator[Record]) -> Iterator[list[str]]:
        """Write batch files of at most ``batch_size`` records; yield ``[URL]`` for each file.

        Raises:
            BatchFileError: A file cannot be written.
        """
        config = self.batch_config
        kind = get_format(BaseBatchFileEncoding(self.format, config.encoding.compression))
        names = FileNamer(self.tap_name, self.stream_name, config.storage)
        for chunk in lazy_chunked_generator(records, config.batch_size):
            bodies = [encode_row(record) for record in chunk]  # may fail, so before the file
            file = BatchFileWriter(config, kind, names, {})
            file.write(bodies)
            yield [file.close()]


class JSONLinesBatcher(_FileBatcher):
    """Batcher that writes JSON Lines files, one file per batch."""

    format = "jsonl"


class ParquetBatcher(_FileBatcher):
    """Batcher that writes Parquet files; each file's column types are inferred from its records."""

    format = "parquet"


_BUILT_IN: Final[dict[str, type[BaseBatcher]]] = {
    "jsonl": JSONLinesBatcher,
    "parquet": ParquetBatcher,
}


class Batcher(BaseBatcher):
    """Batcher that writes batch files in the format that ``batch_config`` specifies."""

    def get_batches(self, records: Iterator[Record]) -> Iterator[list[str]]:
        """Write records to batch files, and yield a list of file URLs for each completed batch.

        Raises:
            ValueError: The format is not supported.
        """
        kind = self.get_batcher(self.batch_config.encoding.format)
        batcher = kind(self.tap_name, self.stream_name, self.batch_config)
        return batcher.get_batches(records)

    @classmethod
    def get_batcher(cls, name: str) -> type[BaseBatcher]:
        """Return the batcher class for the format ``name``, such as ``jsonl``.

        Raises:
            ValueError: The format is not supported.
        """
        return _BUILT_IN.get(name) or _load_installed(name)


def _load_installed(name: str) -> type[BaseBatcher]:
    """Return the batcher class that an installed package registers for the format ``name``.

    Raises:
        ValueError: No installed package supports the format.
    """
    from importlib.metadata import entry_points

    for group in BATCH_ENCODERS:
        for entry_point in entry_points(group=group, name=name):
            batcher: type[BaseBatcher] = entry_point.load()
            return batcher
    raise ValueError(f"Unsupported batcher: {name}")
