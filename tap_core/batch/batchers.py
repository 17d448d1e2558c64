"""The batchers of JSON Lines, Parquet and other packages, for authors who make batches.

Rules of the room: one file per manifest; a chunk of records is pulled whole, written, and
the file closed before its manifest is yielded. ``jsonl`` and ``parquet`` are always those
of this room; other names are looked up among the entry points that installed packages
declare, in the groups `BATCH_ENCODERS`. Streams that leave it all to the SDK do not pass
here: their encoded rows go straight into files.
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
"""Groups of entry points: a format's name to its `BaseBatcher`."""


class _FileBatcher(BaseBatcher):
    format: str

    def get_batches(self, records: Iterator[Record]) -> Iterator[list[str]]:
        """Write the records into files of at most ``batch_size`` each; yield their addresses.

        Raises:
            BatchFileError: a file cannot be written.
        """
        config = self.batch_config
        kind = get_format(BaseBatchFileEncoding(self.format, config.encoding.compression))
        names = FileNamer(self.tap_name, self.stream_name, config.storage)
        for chunk in lazy_chunked_generator(records, config.batch_size):
            file = BatchFileWriter(config, kind, names, {})
            file.write([encode_row(record) for record in chunk])
            yield [file.close()]


class JSONLinesBatcher(_FileBatcher):
    """Makes files of JSON Lines."""

    format = "jsonl"


class ParquetBatcher(_FileBatcher):
    """Makes Parquet files; a column's type is that of its values in the file."""

    format = "parquet"


_BUILT_IN: Final[dict[str, type[BaseBatcher]]] = {
    "jsonl": JSONLinesBatcher,
    "parquet": ParquetBatcher,
}


class Batcher(BaseBatcher):
    """Makes files in the format that the settings name."""

    def get_batches(self, records: Iterator[Record]) -> Iterator[list[str]]:
        """Yield the addresses of the files of one batch after the other.

        Raises:
            ValueError: nobody knows the format.
        """
        kind = self.get_batcher(self.batch_config.encoding.format)
        batcher = kind(self.tap_name, self.stream_name, self.batch_config)
        return batcher.get_batches(records)

    @classmethod
    def get_batcher(cls, name: str) -> type[BaseBatcher]:
        """Return what makes files of a format.

        Raises:
            ValueError: nobody knows it.
        """
        return _BUILT_IN.get(name) or _installed(name)


def _installed(name: str) -> type[BaseBatcher]:
    from importlib.metadata import entry_points

    for group in BATCH_ENCODERS:
        for found in entry_points(group=group, name=name):
            kind: Any = found.load()
            encoder: type[BaseBatcher] = kind
            return encoder
    raise ValueError(f"Unsupported batcher: {name}")
