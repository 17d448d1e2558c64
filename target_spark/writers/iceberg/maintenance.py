"""What is done for an Iceberg table after a run: few large files, and no old snapshots.

Rules of the room: nothing is removed that a reader of the last days may need. Files that
belong to no snapshot are looked for only where nobody but the table writes: in the folder
of its data, when the table's folder is ours and no other table lies in it.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from pyspark.sql import SparkSession

from target_spark.storage.hadoop_fs import list_folders
from target_spark.storage.uris import to_spark_uri
from target_spark.tables.identifiers import sql_literal
from target_spark.tables.model import Table
from target_spark.writers.iceberg.catalog import IcebergTableRef

__all__ = ["compact", "expire_snapshots", "remove_orphan_files"]


def compact(spark: SparkSession, place: IcebergTableRef) -> None:
    """Make few large files of many small ones, sorted where the table is."""
    properties = spark.sql(f"SHOW TBLPROPERTIES {place.ref}").collect()
    is_sorted = any(row[0] == "sort-order" for row in properties)
    strategy = "sort" if is_sorted else "binpack"
    spark.sql(
        f"CALL {place.procedures}.rewrite_data_files(table => {sql_literal(place.ref)},"
        f" strategy => '{strategy}')"
    )


def expire_snapshots(spark: SparkSession, place: IcebergTableRef, days: float) -> None:
    """Remove snapshots older than this, but never the newest, and the files of no other."""
    spark.sql(
        f"CALL {place.procedures}.expire_snapshots(table => {sql_literal(place.ref)},"
        f" {_older(days)}, retain_last => 1)"
    )


def remove_orphan_files(
    spark: SparkSession, table: Table, place: IcebergTableRef, days: float
) -> None:
    """Remove files of data older than this that belong to no snapshot, where that is safe."""
    data = f"{table.path.rstrip('/')}/data"
    if table.identifier or "metadata" in list_folders(spark, data):
        return
    spark.sql(
        f"CALL {place.procedures}.remove_orphan_files(table => {sql_literal(place.ref)},"
        f" {_older(days)}, location => {sql_literal(to_spark_uri(data))})"
    )


def _older(days: float) -> str:
    before = datetime.now(timezone.utc) - timedelta(days=days)
    return f"older_than => TIMESTAMP '{before:%Y-%m-%d %H:%M:%S}Z'"
