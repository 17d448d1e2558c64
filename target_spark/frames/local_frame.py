"""DataFrames of small batches, created from local data without a Spark job.

The rows are read and converted in Python by `target_spark.frames.arrow_batch`, which is faster for
small batches than a Spark job that reads files.
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
"""Maximum number of rows of a batch that is converted in Python. Spark is faster for more rows."""

MAX_LOCAL_BYTES: Final = 4 * 1024 * 1024
"""Maximum size in bytes of the spool files of a batch that is converted in Python."""

_COMPARED_EXACTLY: Final = (Boolean, Date, Decimal, Integer, Text, Timestamp)
"""Types of key columns for which Spark and Arrow agree on whether two values are equal."""


@dataclass(frozen=True, slots=True)
class LocalFrame:
    """Rows of a small batch in a DataFrame, which Python converted without a Spark job.

    Attributes:
        df: The rows, converted to the column types. The columns are those that the loader fills,
            followed by the ordinal, the row's position in the input.
        counts: The number of rows, and for each column the number of date-times without a zone.
        has_unique_keys: True if the table has keys, and all rows have different keys. False if two
            rows may have the same key, or the table has no keys.
    """

    df: DataFrame
    counts: Counts
    has_unique_keys: bool


def read_local_frame(
    spark: SparkSession, paths: Sequence[str], table_schema: TableSchema, metadata: BatchMetadata
) -> LocalFrame | None:
    """Read the rows of a small batch from spool files, without a Spark job.

    Spool files keep rows on disk until they are committed, with one row per line as JSON.

    Args:
        spark: The session. It must not be a session of Spark Connect.
        paths: The paths of the spool files.
        table_schema: The schema with the column types of the converted values.
        metadata: Times and ids of the batch, which fill the metadata columns.

    Returns:
        The rows. None if a value does not fit its column, or if only Spark can read the rows.
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
    """Create a DataFrame from an Arrow table, without a Spark job and without importing pandas.

    ``spark`` must not be a session of Spark Connect.
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
