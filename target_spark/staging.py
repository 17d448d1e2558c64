"""Rows that wait in files of Spark's until their commit is made.

Rules of the room: what is put here is gone when the commit is made or has failed. A file
that cannot be read is an error, not fewer rows, whatever the session says.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING

from target_spark.frames import WHOLE_FILES
from target_spark.places import spark_address
from target_spark.retries import writing_to
from target_spark.spool import SpoolFolder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["putting_down", "staged", "waiting"]


@contextmanager
def waiting(folder: SpoolFolder, name: str) -> Iterator[Path]:
    """Give a free path for rows that wait; nothing of it is left afterwards."""
    path = folder.new_path(name)
    try:
        yield path
    finally:
        rmtree(path, ignore_errors=True)


def putting_down(folder: SpoolFolder) -> AbstractContextManager[None]:
    """Name the folder of the rows that wait where it has no room for more.

    Raises:
        DiskFullError: what is done here found a disk full.
    """
    return writing_to(f"rows that wait ({folder.path})", "Make room there, or set staging")


@contextmanager
def staged(spark: SparkSession, folder: SpoolFolder, df: DataFrame) -> Iterator[DataFrame]:
    """Give rows that are evaluated once, whatever is done with them after.

    Raises:
        DiskFullError: there is no room for them.
    """
    with waiting(folder, "staged") as path:
        address = spark_address(str(path))
        with putting_down(folder):
            df.write.parquet(address)
        yield spark.read.schema(df.schema).options(**WHOLE_FILES).parquet(address)
