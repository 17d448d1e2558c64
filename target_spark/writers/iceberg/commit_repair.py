"""Repair of Iceberg commits that succeeded although the storage reported a failure.

A file system can complete a rename and still report a failure. Iceberg then removes the files of
the commit, although the table already refers to them, and the table becomes unreadable. This module
rolls the table back to the parent of such a snapshot, unless another commit followed. No rows of
other writers are lost, because the rollback fails if the table has changed since it was read.
"""

from __future__ import annotations

import itertools
from typing import Any

from pyspark.sql import SparkSession

from target_spark.storage.hadoop_fs import is_remote_session
from target_spark.tables.iceberg_metadata import IcebergSnapshot
from target_spark.tables.model import Table
from target_spark.writers.iceberg.catalog import load, resolve_table

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
    java_snapshot, io = java_table.snapshot(snapshot.id), java_table.io()
    manifest_list = java_snapshot.manifestListLocation()
    if not _file_exists(io, manifest_list):
        return str(manifest_list)
    manifests = [
        file.path() for file in java_snapshot.allManifests(io) if file.snapshotId() == snapshot.id
    ]
    manifest = next((path for path in manifests if not _file_exists(io, path)), None)
    if manifest is not None:
        return str(manifest)
    files = itertools.chain(java_snapshot.addedDataFiles(io), java_snapshot.addedDeleteFiles(io))
    paths = (file.location() for file in files)
    return next((str(path) for path in paths if not _file_exists(io, path)), None)


def roll_back_snapshot(spark: SparkSession, table: Table, snapshot: IcebergSnapshot) -> bool:
    """Undo the newest snapshot of a table: roll the table back to the snapshot's parent.

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


def _file_exists(io: Any, path: str) -> bool:
    return bool(io.newInputFile(path).exists())
