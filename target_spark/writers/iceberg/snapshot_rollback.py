"""Repair of Iceberg commits that succeeded although the storage reported a failure.

A file system can complete a rename and still report a failure. Iceberg then removes the files of
the commit, although the table already refers to them, and the table becomes unreadable. This module
rolls the table back to the parent of such a snapshot, unless another commit followed. No rows of
other writers are lost, because the rollback fails if the table has changed since it was read.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from target_spark.storage.hadoop_fs import is_remote_session
from target_spark.tables.iceberg_metadata import IcebergSnapshot
from target_spark.tables.table import Table
from target_spark.writers.iceberg.catalog import load, resolve_table
from target_spark.writers.iceberg.snapshot_reader import iterate_added_files

__all__ = ["find_missing_file", "roll_back_snapshot"]

_MAIN = "main"


def find_missing_file(spark: SparkSession, table: Table, snapshot: IcebergSnapshot) -> str | None:
    """Return the path of a file that a snapshot added and that no longer exists, or None.

    With Spark Connect, data files are not checked, but a missing metadata file raises an error of
    Spark.
    """
    table_ref = resolve_table(spark, table)
    if is_remote_session(spark):
        spark.sql(f"SELECT * FROM {table_ref.ref}.files").count()  # noqa: S608  (it is quoted)
        return None
    java_table = load(spark, table_ref)
    io = java_table.io()
    locations = (location for location, _ in iterate_added_files(java_table, snapshot))
    return next((str(each) for each in locations if not io.newInputFile(each).exists()), None)


def roll_back_snapshot(spark: SparkSession, table: Table, snapshot: IcebergSnapshot) -> bool:
    """Undo a snapshot by rolling an Iceberg table back to the snapshot's parent.

    Returns:
        True if the table was rolled back. False if another commit has followed ``snapshot``; then
        nothing is changed.
    """
    session: Any = spark
    jvm = session._jvm  # noqa: SLF001
    operations = load(spark, resolve_table(spark, table)).operations()
    base = operations.current()
    if base.currentSnapshot().snapshotId() != snapshot.id:
        return False
    builder = jvm.org.apache.iceberg.TableMetadata.buildFrom(base)
    if snapshot.parent is None:
        builder.removeRef(_MAIN)
    else:
        builder.setBranchSnapshot(snapshot.parent, _MAIN)
    removed_ids = jvm.java.util.HashSet()
    removed_ids.add(snapshot.id)
    operations.commit(base, builder.removeSnapshots(removed_ids).build())
    return True
