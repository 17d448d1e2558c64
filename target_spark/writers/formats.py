"""The table formats by name.

Rules of the room: a writer is made for one run and remembers what it wrote in it.
"""

from __future__ import annotations

from target_spark.errors import UnsupportedError
from target_spark.writers.base import Writer
from target_spark.writers.delta import DeltaWriter
from target_spark.writers.parquet import ParquetWriter

__all__ = ["FORMATS", "writer_for"]

FORMATS = ("delta", "parquet")


def writer_for(format: str) -> Writer:
    """Return a new writer of a table format.

    Raises:
        UnsupportedError: there is none of that name.
    """
    if format == "delta":
        return DeltaWriter()
    if format == "parquet":
        return ParquetWriter()
    raise UnsupportedError(f"Unknown format {format!r}; there are {', '.join(FORMATS)}.")
