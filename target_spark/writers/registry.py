"""Names of the table formats, and creation of their writers.

A writer is created for one run and keeps state about the tables of that run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from target_spark.errors import UnsupportedError
from target_spark.writers.base import Writer
from target_spark.writers.delta.writer import DeltaWriter
from target_spark.writers.dry_run import DryRunWriter
from target_spark.writers.iceberg.writer import IcebergWriter
from target_spark.writers.parquet import ParquetWriter

__all__ = ["FORMATS", "get_writer"]

_MAKERS: Final[Mapping[str, Callable[[], Writer]]] = {
    "delta": DeltaWriter,
    "iceberg": IcebergWriter,
    "parquet": ParquetWriter,
}

FORMATS = tuple(_MAKERS)


def get_writer(format: str, *, dry: bool = False) -> Writer:
    """Return a new writer for a table format.

    Args:
        format: The name of the format, such as ``delta``.
        dry: True for a dry run: the writer reads tables but changes nothing. False for a normal
            writer.

    Raises:
        UnsupportedError: There is no format of that name.
    """
    create = _MAKERS.get(format)
    if create is None:
        raise UnsupportedError(f"Unknown format {format!r}; supported: {', '.join(FORMATS)}.")
    return DryRunWriter(create()) if dry else create()
