"""Rows, markers and tables that the tests of Iceberg share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from target_spark.columns import (
    Column,
    Integer,
    Layout,
    Text,
)
from target_spark.ledger import Marker
from target_spark.tables import Table
from target_spark.writers import Keys
from target_spark.writers.iceberg import IcebergWriter
from target_spark.writers.iceberg_log import Snapshot, snapshots

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


LAYOUT = Layout(
    (Column("id", "id", Integer()), Column("name", "name", Text()), Column("n", "n", Integer()))
)
KEYS = Keys(("id",), order="at")


def marker(batch: int, state: str | None = None, *, run: str = "r1", started: int = 1) -> Marker:
    return Marker("job", run, started, batch, batch * 10 if state else 0, state)


def rows(spark: SparkSession, *values: tuple[int, str, int]) -> DataFrame:
    """Rows of (id, name, n); built in SQL, since a list would start Python workers."""
    listed = ", ".join(f"({a}L, {b!r}, {c}L)" for a, b, c in values)
    return spark.sql(f"SELECT * FROM VALUES {listed} AS t(id, name, n)")  # noqa: S608


def batch(spark: SparkSession, *values: tuple[int, str, int]) -> DataFrame:
    """Rows with n as their order too, as a spool gives them to an upsert."""
    return rows(spark, *values).selectExpr("*", "n AS at")


def content(spark: SparkSession, table: Table) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in IcebergWriter().rows(spark, table).collect())


def line(spark: SparkSession, table: Table) -> list[Snapshot]:
    return list(snapshots(spark, table))


def know(spark: SparkSession, name: str, **options: str) -> None:
    """Tell a session of a catalog, as a user's settings do."""
    key = f"spark.sql.catalog.{name}"
    spark.conf.set(key, "org.apache.iceberg.spark.SparkCatalog")
    for option, value in {"cache-enabled": "false", **options}.items():
        spark.conf.set(f"{key}.{option.replace('_', '-')}", value)
