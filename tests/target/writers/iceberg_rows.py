"""Content and snapshots of tables, and catalogs, for the Iceberg tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from target_spark.tables.iceberg_metadata import IcebergSnapshot
from target_spark.tables.table import Table
from target_spark.writers.iceberg.snapshot_reader import snapshots
from target_spark.writers.iceberg.writer import IcebergWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
