"""Staging of rows in Parquet files until their commit is made.

Staged files are deleted when the commit succeeds or fails. An unreadable file raises an error
regardless of the session's settings, so that no rows are lost.
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
def temporary_location(spark: SparkSession, staging_area: StagingArea, name: str) -> Iterator[str]:
    """Context manager: yield an unused URL for temporary files, which are deleted at the end."""
    address = staging_area.new_address(name)
    try:
        yield address
    finally:
        staging_area.delete(spark, address)


def translate_write_errors(staging_area: StagingArea) -> AbstractContextManager[None]:
    """Return a context manager that adds the staging location to the message of disk-full errors.

    Raises:
        DiskFullError: The block failed because a disk is full.
    """
    return disk_full_context(
        f"rows that wait ({staging_area.location})",
        "Free space there, or set staging",
    )


@contextmanager
def stage_frame(
    spark: SparkSession, staging_area: StagingArea, df: DataFrame
) -> Iterator[DataFrame]:
    """Context manager: write a DataFrame to temporary files, and yield a DataFrame that reads them.

    The rows of ``df`` are thus computed only once, even if the yielded DataFrame is read
    repeatedly. The files are deleted when the block ends.

    Raises:
        DiskFullError: There is no space for the rows.
    """
    with temporary_location(spark, staging_area, "staged") as address:
        with translate_write_errors(staging_area):
            df.write.parquet(address)
        yield spark.read.schema(df.schema).options(**WHOLE_FILES).parquet(address)
