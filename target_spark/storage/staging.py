"""Rows that wait in files of Spark's until their commit is made.

Rules of the room: what is put here is gone when the commit is made or has failed. A file
that cannot be read is an error, not fewer rows, whatever the session says.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from target_spark.frames import WHOLE_FILES
from target_spark.storage.retry import disk_full_context
from target_spark.storage.staging_upload import StagingArea

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["stage_frame", "temporary_location", "translate_write_errors"]


@contextmanager
def temporary_location(spark: SparkSession, reach: StagingArea, name: str) -> Iterator[str]:
    """Give a free address for rows that wait; nothing of it is left afterwards."""
    address = reach.new_address(name)
    try:
        yield address
    finally:
        reach.forget(spark, address)


def translate_write_errors(reach: StagingArea) -> AbstractContextManager[None]:
    """Name the folder of the rows that wait where it has no room for more.

    Raises:
        DiskFullError: what is done here found a disk full.
    """
    return disk_full_context(f"rows that wait ({reach.place})", "Make room there, or set staging")


@contextmanager
def stage_frame(spark: SparkSession, reach: StagingArea, df: DataFrame) -> Iterator[DataFrame]:
    """Give rows that are evaluated once, whatever is done with them after.

    Raises:
        DiskFullError: there is no room for them.
    """
    with temporary_location(spark, reach, "staged") as address:
        with translate_write_errors(reach):
            df.write.parquet(address)
        yield spark.read.schema(df.schema).options(**WHOLE_FILES).parquet(address)
