"""Rows, commit metadata and tables that the Iceberg tests share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from target_spark.columns import (
    Column,
    Integer,
    TableSchema,
    Text,
)
from target_spark.tables.commit_metadata import CommitMetadata
from target_spark.tables.iceberg_metadata import IcebergSnapshot
from target_spark.tables.table import Table
from target_spark.writers import MergeKeys
from target_spark.writers.iceberg.snapshot_reader import snapshots
from target_spark.writers.iceberg.writer import IcebergWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


LAYOUT = TableSchema(
    (Column("id", "id", Integer()), Column("name", "name", Text()), Column("n", "n", Integer()))
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


def content(spark: SparkSession, table: Table) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in IcebergWriter().rows(spark, table).collect())


def line(spark: SparkSession, table: Table) -> list[IcebergSnapshot]:
    return list(snapshots(spark, table))


def add_catalog(spark: SparkSession, name: str, **options: str) -> None:
    """Configure a catalog in a session, as a user's settings do."""
    key = f"spark.sql.catalog.{name}"
    spark.conf.set(key, "org.apache.iceberg.spark.SparkCatalog")
    for option, value in {"cache-enabled": "false", **options}.items():
        spark.conf.set(f"{key}.{option.replace('_', '-')}", value)
