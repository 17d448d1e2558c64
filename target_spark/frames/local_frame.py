"""Small batches as DataFrames whose rows are part of Spark's plan.

The rows are converted in Python (`target_spark.frames.arrow_batch`), so Spark reads and parses no
file and plans a commit with fewer jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from target_spark.columns import (
    Boolean,
    Date,
    Decimal,
    Integer,
    TableSchema,
    Text,
    Timestamp,
)
from target_spark.frames.spool_frame import BatchMetadata, Counts

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from target_spark.frames.arrow_batch import ArrowBatch

__all__ = [
    "MAX_LOCAL_BYTES",
    "MAX_LOCAL_ROWS",
    "LocalFrame",
    "create_local_frame",
    "read_local_frame",
]

MAX_LOCAL_ROWS: Final = 20_000
"""The most rows of a batch that is converted in Python; Spark converts more rows faster."""

MAX_LOCAL_BYTES: Final = 4 * 1024 * 1024
"""The most bytes of spooled rows of a batch that is converted in Python."""

_COMPARED_EXACTLY: Final = (Boolean, Date, Decimal, Integer, Text, Timestamp)
"""Types of keys whose values are equal in Spark exactly if they are equal in Arrow."""


@dataclass(frozen=True, slots=True)
class LocalFrame:
    """The rows of a batch as part of Spark's plan. All of them fit their columns.

    Attributes:
        df: The rows, with the columns that the target fills in table order and the ordinal.
        counts: The counts of the rows.
        has_unique_keys: True if the table has keys, and no two rows have the same key. False if
            there may be such rows.
    """

    df: DataFrame
    counts: Counts
    has_unique_keys: bool


def read_local_frame(
    spark: SparkSession, paths: Sequence[str], table_schema: TableSchema, metadata: BatchMetadata
) -> LocalFrame | None:
    """Read the rows of a small batch from spool files, without a Spark job.

    Args:
        spark: The session. It must not be a session of Spark Connect.
        paths: The spool files.
        table_schema: The schema that the rows must fit.
        metadata: The values of the metadata columns.

    Returns:
        The rows. None if a row does not fit its columns, or if only Spark can read the rows.
    """
    from target_spark.frames.arrow_batch import UnsupportedBatchError, read_arrow_batch

    try:
        batch = read_arrow_batch(paths, table_schema, metadata)
    except UnsupportedBatchError:
        return None
    counts = Counts(batch.table.num_rows, batch.zoneless)
    df = create_local_frame(spark, batch.table)
    return LocalFrame(df, counts, _has_unique_keys(batch, table_schema))


def create_local_frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Return Arrow rows as a DataFrame, without a Spark job.

    The session must not be a session of Spark Connect.
    """
    from pyspark.sql.pandas.conversion import SparkConversionMixin

    # The method of SparkSession imports pandas first, which takes half a second of CPU time.
    return SparkConversionMixin.createDataFrame(spark, rows)


def _has_unique_keys(batch: ArrowBatch, table_schema: TableSchema) -> bool:
    types = {column.name: column.type for column in table_schema.columns}
    keys = list(table_schema.keys)
    if not keys or not all(isinstance(types[key], _COMPARED_EXACTLY) for key in keys):
        return False
    distinct = batch.table.group_by(keys).aggregate([])
    return bool(distinct.num_rows == batch.table.num_rows)
