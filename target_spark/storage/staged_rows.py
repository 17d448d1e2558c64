"""Temporary Parquet files that keep the rows of a DataFrame until their commit.

The files are deleted when the commit succeeds or fails. An unreadable file always raises an error,
even if the Spark session ignores missing or corrupt files, so that no rows are lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from target_spark.frames import WHOLE_FILES
from target_spark.storage.commit_retry import disk_full_context
from target_spark.storage.staging_area import StagingArea

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["stage_frame", "temporary_location", "translate_write_errors"]


@contextmanager
def temporary_location(spark: SparkSession, staging_area: StagingArea, name: str) -> Iterator[str]:
    """Context manager: yield an unused URL, and delete the files below it at the end of the block.

    Args:
        spark: The session that deletes the files.
        staging_area: The folder or remote URL for temporary files.
        name: The prefix of the last component of the URL.
    """
    address = staging_area.new_address(name)
    try:
        yield address
    finally:
        staging_area.delete(spark, address)


def translate_write_errors(staging_area: StagingArea) -> AbstractContextManager[None]:
    """Return a context manager that raises a `DiskFullError` if its block fails on a full disk.

    The message names the folder or URL of ``staging_area``.
    """
    return disk_full_context(
        f"uncommitted rows ({staging_area.location})",
        "Free space there, or set staging",
    )


@contextmanager
def stage_frame(
    spark: SparkSession, staging_area: StagingArea, df: DataFrame
) -> Iterator[DataFrame]:
    """Context manager: write ``df`` to temporary Parquet files, and yield a DataFrame of the files.

    Thus Spark computes ``df`` only once, even if the yielded DataFrame is used repeatedly. The
    files are deleted when the block ends.

    Raises:
        DiskFullError: The disk has no space for the files.
    """
    with temporary_location(spark, staging_area, "staged") as address:
        with translate_write_errors(staging_area):
            df.write.parquet(address)
        yield spark.read.schema(df.schema).options(**WHOLE_FILES).parquet(address)
