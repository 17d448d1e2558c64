"""Reader of an Iceberg table's snapshots through Spark, and checks before and after a commit.

The table is not changed. Its new files are read, and flushed to disk. The snapshots of a table in a
local folder come from `target_spark.tables.iceberg_metadata`, without a Spark job; those of other
tables from Spark's metadata tables.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from target_spark.errors import CommitLostError, ConflictError, TableError
from target_spark.storage.hadoop_fs import flush_table, is_remote_session
from target_spark.storage.uris import to_local_folder
from target_spark.tables.iceberg_metadata import (
    IcebergSnapshot,
    find_metadata_file,
    read_local_snapshots,
    read_metadata,
    trace_ancestors,
)
from target_spark.tables.table import Table
from target_spark.writers.iceberg.catalog import catalog_table_exists, load, resolve_table
from target_spark.writers.parquet_footers import describe_file_fault
from target_spark.writers.sql_statements import check_folder_is_empty
from target_spark.writers.table_properties import get_table_properties

__all__ = [
    "check_can_create",
    "check_files",
    "get_commit_time",
    "get_manifest_list",
    "get_table_uuid",
    "iterate_added_files",
    "prepare_merge",
    "snapshots",
]

_CATALOG_METADATA = re.compile(r"\d{5}-.*metadata\.json")
"""Pattern of the name of a metadata file if the table is in a catalog. Files of other tables are
named like ``v1.metadata.json``."""

_ALLOWED_SUBFOLDERS = re.compile("metadata|data")

_DATA_FILE = 0
"""Iceberg's content id of a data file; delete files have other ids."""

_READS: Final = 20
"""Maximum number of times that the snapshots of a catalog table are read."""
_ISOLATION = "write.merge.isolation-level"
_SERIALIZABLE = "serializable"
_ACCEPT_ANY = "write.spark.accept-any-schema"
_DISTRIBUTION_CONF: Final = "spark.sql.iceberg.distribution-mode"


def check_can_create(folder: Path) -> None:
    """Check that an Iceberg table can be created in a local folder.

    The subfolders ``metadata`` and ``data`` are accepted even without a metadata file, because a
    run may have been killed while it created the table.

    Raises:
        TableError: The folder has other files, or a table of another catalog.
    """
    metadata = folder / "metadata"
    if metadata.is_dir() and any(_CATALOG_METADATA.match(file.name) for file in metadata.iterdir()):
        raise TableError(
            f"{folder} is an Iceberg table of a catalog, and only the catalog may change it. Set"
            " catalog and database to that catalog, or set path to another folder."
        )
    check_folder_is_empty(folder, "Iceberg", allowed=_ALLOWED_SUBFOLDERS)


def snapshots(spark: SparkSession, table: Table) -> Iterator[IcebergSnapshot]:
    """Yield the current snapshot of an Iceberg table and its ancestors, newest first."""
    folder = table.local_folder
    yield from (
        read_local_snapshots(folder)
        if folder is not None
        else trace_ancestors(*_query_snapshots(spark, table))
    )


def get_table_uuid(spark: SparkSession, table: Table) -> str | None:
    """Return the uuid of an Iceberg table, or None if there is no table.

    Return "" for a catalog table with Spark Connect, which cannot read the uuid.
    """
    folder = table.local_folder
    if folder is not None:
        metadata = read_metadata(folder)
        return None if metadata is None else metadata.table_uuid or ""
    table_ref = resolve_table(spark, table)
    if not catalog_table_exists(spark, table_ref):
        return None
    return "" if is_remote_session(spark) else str(load(spark, table_ref).uuid())


def check_files(spark: SparkSession, table: Table, snapshot: IcebergSnapshot) -> None:
    """Check the files that a snapshot adds to a table in a local folder, and flush them to disk.

    Tables in a catalog or at a remote URL are not checked. If another program has expired the
    snapshot meanwhile, its files may be gone, because the program has compacted them.

    Raises:
        CommitLostError: A file is missing, or its size or row count differs from the snapshot.
    """
    folder = table.local_folder
    if folder is None or is_remote_session(spark):
        return
    try:
        _check_added_files(spark, table, folder, snapshot)
    except Exception:
        metadata = read_metadata(folder)
        stored = () if metadata is None else metadata.snapshots
        if metadata is None or any(
            stored_snapshot.snapshot_id == snapshot.id for stored_snapshot in stored
        ):
            raise


def _check_added_files(
    spark: SparkSession, table: Table, folder: Path, snapshot: IcebergSnapshot
) -> None:
    files = [find_metadata_file(folder)]
    for location, file in iterate_added_files(load(spark, resolve_table(spark, table)), snapshot):
        path = to_local_folder(location)
        files.append(path)
        if file is None or path is None:
            continue
        rows = file.recordCount() if file.content().id() == _DATA_FILE else None
        if fault := describe_file_fault(path, file.fileSizeInBytes(), rows):
            raise CommitLostError(
                f"Snapshot {snapshot.id} of table {table.name} names the file {path}, which"
                f" {fault}. No state that covers its rows is emitted; restore the file, or start"
                " again from a state before this commit."
            )
    flush_table(folder, filter(None, files), [folder / "metadata" / "version-hint.text"])


def iterate_added_files(
    java_table: Any, snapshot: IcebergSnapshot
) -> Iterator[tuple[str, Any | None]]:
    """Yield the files that a snapshot added, the metadata files first.

    Each item is a tuple of the file's location and Iceberg's Java object for a data or delete file;
    None for a metadata file. A metadata file is read only after its location was yielded.

    Args:
        java_table: Iceberg's Java object for the table.
        snapshot: A snapshot of the table.
    """
    java_snapshot, io = java_table.snapshot(snapshot.id), java_table.io()
    if java_snapshot is None:  # another program has expired it
        return
    yield java_snapshot.manifestListLocation(), None
    for manifest in java_snapshot.allManifests(io):
        if manifest.snapshotId() == snapshot.id:
            yield manifest.path(), None
    for file in itertools.chain(
        java_snapshot.addedDataFiles(io), java_snapshot.addedDeleteFiles(io)
    ):
        yield file.location(), file


def prepare_merge(spark: SparkSession, ref: str) -> Mapping[str, str]:
    """Check the properties of an Iceberg table before a MERGE, and return Spark settings for it.

    Spark computes the rows of a MERGE twice to distribute them by ranges of a sort order, and
    Iceberg then reports twice the number of changed rows. The returned settings prevent this.

    Raises:
        TableError: The isolation level is not ``serializable``, so that the MERGE would succeed and
            a key could be in the table twice. Or the table accepts any schema, and Spark then
            supports no MERGE.
    """
    properties = get_table_properties(spark, ref)
    if properties.get(_ACCEPT_ANY, "false").lower() == "true":
        raise TableError(
            f"Table {ref} has the property {_ACCEPT_ANY} = 'true', with which Spark can only append"
            " or overwrite rows. Nothing was written. Remove the property; target-spark adds"
            " columns without it."
        )
    level = properties.get(_ISOLATION, _SERIALIZABLE)
    if level.lower() != _SERIALIZABLE:
        raise TableError(
            f"Table {ref} has the property {_ISOLATION} = {level!r}: a MERGE would not see the rows"
            " that another writer adds meanwhile, and keys could be in the table twice. Nothing was"
            f" written. Set the property to {_SERIALIZABLE!r}, or remove it."
        )
    default = properties.get("write.distribution-mode", "range")
    mode = properties.get("write.merge.distribution-mode", default)
    return {_DISTRIBUTION_CONF: "hash"} if "sort-order" in properties and mode == "range" else {}


def get_commit_time(spark: SparkSession, table: Table) -> int | None:
    """Return the time of an Iceberg table's last snapshot, in milliseconds since 1970.

    Snapshots of all programs count. Return None if there is no snapshot. The table must exist.
    """
    folder = table.local_folder
    if folder is not None:
        metadata = read_metadata(folder)
        stored = () if metadata is None else metadata.snapshots
        return max((snapshot.timestamp_ms or 0 for snapshot in stored), default=None)
    ref = resolve_table(spark, table).ref
    times = spark.table(f"{ref}.snapshots").selectExpr("unix_millis(max(committed_at)) AS millis")
    row = times.first()
    return None if row is None else row["millis"]


def get_manifest_list(spark: SparkSession, table: Table, snapshot: IcebergSnapshot) -> str | None:
    """Return the location of a snapshot's manifest list, or None if the snapshot has expired."""
    ref = resolve_table(spark, table).ref
    row = spark.table(f"{ref}.snapshots").where(F.col("snapshot_id") == snapshot.id).first()
    return None if row is None else row["manifest_list"]


def _query_snapshots(
    spark: SparkSession, table: Table
) -> tuple[int | None, dict[int, IcebergSnapshot]]:
    """Return the id of a catalog table's current snapshot, or None, and its snapshots by id.

    Iceberg loads the table once for the snapshots and once for the current one. If another program
    commits in between, the current snapshot is not among the snapshots, and both are read again.
    """
    table_ref = resolve_table(spark, table)
    if not catalog_table_exists(spark, table_ref):
        return None, {}
    ref = table_ref.ref
    query = (  # every name in it is quoted
        f"SELECT snapshot_id, parent_id, summary FROM {ref}.snapshots"  # noqa: S608
        f" UNION ALL SELECT snapshot_id, NULL, NULL FROM {ref}.refs WHERE name = 'main'"
    )
    for _ in range(_READS):
        rows = spark.sql(query).collect()
        current = next((id_ for id_, _, summary in rows if summary is None), None)
        by_id = {
            id_: IcebergSnapshot(id_, parent, summary)
            for id_, parent, summary in rows
            if summary is not None
        }
        if current is None or current in by_id:
            return current, by_id
    raise ConflictError(f"Table {table.name}: other programs commit to it faster than it is read")
