"""Maintenance of an Iceberg table after a run: compaction, snapshot expiry, orphan file removal.

Files that readers may need within the retention period are kept. Orphan files are removed only from
the data folder of a table that is not in a user's catalog and whose folder contains no other table,
because no other program writes there.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from pyspark.sql import SparkSession

from target_spark.storage.hadoop_fs import list_folders
from target_spark.storage.uris import to_spark_uri
from target_spark.tables.identifiers import sql_literal
from target_spark.tables.table import Table
from target_spark.writers.iceberg.catalog import IcebergTableRef
from target_spark.writers.table_properties import get_table_properties

__all__ = ["compact", "expire_snapshots", "remove_orphan_files"]


def compact(spark: SparkSession, table_ref: IcebergTableRef) -> None:
    """Merge an Iceberg table's small files into large ones, sorted by the table's sort order."""
    is_sorted = "sort-order" in get_table_properties(spark, table_ref.ref)
    strategy = "sort" if is_sorted else "binpack"
    spark.sql(
        f"CALL {table_ref.procedures}.rewrite_data_files(table => {sql_literal(table_ref.ref)},"
        f" strategy => '{strategy}')"
    )


def expire_snapshots(spark: SparkSession, table_ref: IcebergTableRef, days: float) -> None:
    """Remove an Iceberg table's snapshots older than ``days`` days, except the newest snapshot."""
    spark.sql(
        f"CALL {table_ref.procedures}.expire_snapshots(table => {sql_literal(table_ref.ref)},"
        f" {_older(days)}, retain_last => 1)"
    )


def remove_orphan_files(
    spark: SparkSession, table: Table, table_ref: IcebergTableRef, days: float
) -> None:
    """Remove files from an Iceberg table's data folder that no snapshot refers to.

    Only files older than ``days`` days are removed. Nothing is removed if the table is in a
    user's catalog, or if its folder contains another table.
    """
    data = f"{table.path.rstrip('/')}/data"
    if table.identifier or "metadata" in list_folders(spark, data):
        return
    spark.sql(
        f"CALL {table_ref.procedures}.remove_orphan_files(table => {sql_literal(table_ref.ref)},"
        f" {_older(days)}, location => {sql_literal(to_spark_uri(data))})"
    )


def _older(days: float) -> str:
    before = datetime.now(timezone.utc) - timedelta(days=days)
    return f"older_than => TIMESTAMP '{before:%Y-%m-%d %H:%M:%S}Z'"
