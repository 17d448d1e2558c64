"""Rows, commit metadata and a table schema that the tests of the writers share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from target_spark.columns import Column, Integer, TableSchema, Text, Timestamp
from target_spark.tables.commit_metadata import CommitMetadata
from target_spark.writers import MergeKeys

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LAYOUT = TableSchema(
    (Column("id", "id", Integer()), Column("name", "name", Text()), Column("n", "n", Integer()))
)
DELETING = TableSchema(
    (
        Column("id", "id", Integer()),
        Column("name", "name", Text()),
        Column("_sdc_deleted_at", "_sdc_deleted_at", Timestamp()),
    )
)
KEYS = MergeKeys(("id",), order="at")


def marker(
    batch: int, state: str | None = None, *, run: str = "r1", started: int = 1
) -> CommitMetadata:
    return CommitMetadata("job", run, started, batch, batch * 10 if state else 0, state)


def rows(spark: SparkSession, *values: tuple[int, str, int]) -> DataFrame:
    """Return rows of (id, name, n); built in SQL, since a list would start Python workers."""
    listed = ", ".join(f"({a}L, {b!r}, {c}L)" for a, b, c in values)
    return spark.sql(f"SELECT * FROM VALUES {listed} AS t(id, name, n)")  # noqa: S608


def batch(spark: SparkSession, *values: tuple[int, str, int]) -> DataFrame:
    """Return rows with n as their order, as a spool gives them to an upsert."""
    return rows(spark, *values).selectExpr("*", "n AS at")
