"""Reader of an Iceberg table's snapshots, newest first, and of the commit metadata in them.

Only the current snapshot and its ancestors are returned, not snapshots that were rolled back. Older
snapshots may be expired, and snapshots of other writers may have any summary. For a table in a
local folder, the metadata file is read without Spark (Iceberg table specification, "Table
Metadata"). Other tables are read through their metadata tables.
"""

from __future__ import annotations

import base64
import gzip
import itertools
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from pyspark.sql import SparkSession

from target_spark.errors import CommitLostError, TableError
from target_spark.storage.hadoop_fs import is_remote_session, sync_table
from target_spark.storage.uris import to_local_folder
from target_spark.tables.commit_metadata import CommitMetadata
from target_spark.tables.model import CommitStats, Table
from target_spark.writers.iceberg.catalog import catalog_table_exists, load, resolve_table
from target_spark.writers.parquet_footers import describe_file_fault
from target_spark.writers.sql import check_folder_is_empty
from target_spark.writers.table_properties import get_table_properties

__all__ = [
    "PROPERTY",
    "IcebergSnapshot",
    "check_files",
    "check_is_iceberg",
    "check_isolation",
    "find_latest_metadata",
    "get_commit_time",
    "get_table_uuid",
    "parse_summary",
    "read_local_snapshots",
    "snapshot_properties",
    "snapshots",
    "table_exists",
    "table_folder",
]

PROPERTY = "target-spark"
"""Summary property of a snapshot that holds the commit metadata."""

_LONG = 4096
_PACKED = "zlib:"

_METADATA = re.compile(r"v(\d+)(?:\.gz)?\.metadata\.json(?:\.gz)?")
_OF_CATALOGS = re.compile(r"\d{5}-.*metadata\.json")
"""Names of metadata files that only a catalog points to: they have no `v<number>`."""

_ISOLATION = "write.merge.isolation-level"
_SERIALIZABLE = "serializable"

_MERGED = "spark.merge-into.num-target-rows-"


@dataclass(frozen=True, slots=True)
class IcebergSnapshot:
    """A snapshot (commit) of an Iceberg table.

    Attributes:
        id: The snapshot id.
        parent: The id of the parent snapshot, or None for the first snapshot.
        summary: The summary properties, such as ``{"added-records": "10"}``.
    """

    id: int
    parent: int | None
    summary: Mapping[str, str]

    @property
    def marker(self) -> CommitMetadata | None:
        """The commit metadata in the summary, or None if another program made the snapshot."""
        text = self.summary.get(PROPERTY)
        if text is None or not text.startswith(_PACKED):
            return CommitMetadata.from_json(text)
        try:
            packed = base64.b64decode(text.removeprefix(_PACKED), validate=True)
            return CommitMetadata.from_json(zlib.decompress(packed).decode())
        except (ValueError, zlib.error):
            return None

    @property
    def changes_rows(self) -> bool:
        """True if the commit added or removed rows; False for a compaction, for example."""
        names = ("added-data-files", "deleted-data-files", "added-delete-files")
        has_changes = any(int(self.summary.get(name, "0")) for name in names)
        return has_changes and self.summary.get("operation") != "replace"

    @property
    def counts_merged(self) -> bool:
        """True if the summary has the numbers of rows that a MERGE inserted and updated.

        Spark writes these numbers from version 4.1 on.
        """
        return f"{_MERGED}inserted" in self.summary


def snapshot_properties(marker: CommitMetadata) -> str:
    """Return commit metadata as the text to store in a snapshot's summary.

    The text is JSON. From 4 KiB on, it is compressed, because each commit writes the summaries of
    all snapshots again.
    """
    text = marker.to_json()
    if len(text) < _LONG:
        return text
    return _PACKED + base64.b64encode(zlib.compress(text.encode())).decode()


class _MetadataSnapshot(msgspec.Struct, rename="kebab"):
    """A snapshot as stored in an Iceberg table's metadata file."""

    snapshot_id: int
    parent_snapshot_id: int | None = None
    timestamp_ms: int | None = None
    summary: dict[str, str] = {}


class _TableMetadata(msgspec.Struct, rename="kebab"):
    """The fields of an Iceberg table's metadata file that this module reads.

    In files of old Iceberg versions, ``current-snapshot-id`` is -1 if there is no snapshot.
    """

    table_uuid: str | None = None
    current_snapshot_id: int | None = None
    snapshots: list[_MetadataSnapshot] = []


# Compiled at import: msgspec crashes if two writer threads use a type for the first time at once.
_decode_metadata: Final = msgspec.json.Decoder(_TableMetadata).decode


def table_folder(table: Table) -> Path | None:
    """Return the local folder of a table, or None for a table in a catalog or at a remote URL."""
    return None if table.identifier else to_local_folder(table.path)


def table_exists(folder: Path) -> bool:
    """Return True if a local folder contains the metadata of an Iceberg table."""
    return _newest_metadata(folder) is not None


def check_is_iceberg(folder: Path) -> None:
    """Check that an Iceberg table can be created in a local folder.

    The subfolders ``metadata`` and ``data`` are accepted even without a metadata file, because a
    run may have been killed while it created the table.

    Raises:
        TableError: The folder has other files, or a table of another catalog.
    """
    metadata = folder / "metadata"
    if metadata.is_dir() and any(_OF_CATALOGS.match(file.name) for file in metadata.iterdir()):
        raise TableError(
            f"{folder} is an Iceberg table of a catalog, and only the catalog may change it. Set"
            " catalog and database to that catalog, or set path to another folder."
        )
    check_folder_is_empty(folder, "Iceberg", allowed={"metadata", "data"})


def snapshots(spark: SparkSession, table: Table) -> Iterator[IcebergSnapshot]:
    """Yield the current snapshot of an Iceberg table and its ancestors, newest first."""
    folder = table_folder(table)
    yield from (
        read_local_snapshots(folder) if folder is not None else _line(*_by_query(spark, table))
    )


def read_local_snapshots(folder: Path) -> Iterator[IcebergSnapshot]:
    """Yield the snapshots of an Iceberg table in a local folder, newest first, without Spark."""
    yield from _line(*_in_files(folder))


def _line(current: int | None, by_id: Mapping[int, IcebergSnapshot]) -> Iterator[IcebergSnapshot]:
    while current is not None and (snapshot := by_id.get(current)) is not None:
        yield snapshot
        current = snapshot.parent


def get_table_uuid(spark: SparkSession, table: Table) -> str | None:
    """Return the uuid of an Iceberg table, or None if there is no table.

    Return "" for a catalog table with Spark Connect, which cannot read the uuid.
    """
    folder = table_folder(table)
    if folder is not None:
        metadata = _read_metadata(folder)
        return None if metadata is None else metadata.table_uuid or ""
    table_ref = resolve_table(spark, table)
    if not catalog_table_exists(spark, table_ref):
        return None
    return "" if is_remote_session(spark) else str(load(spark, table_ref).uuid())


def check_files(spark: SparkSession, table: Table, snapshot: IcebergSnapshot) -> None:
    """Check the files that a snapshot adds to a table in a local folder, and flush them to disk.

    Tables in a catalog or at a remote URL are not checked.

    Raises:
        CommitLostError: A file is missing, or its size or row count differs from the snapshot.
    """
    folder = table_folder(table)
    if folder is None or is_remote_session(spark):
        return
    java_table = load(spark, resolve_table(spark, table))
    java_snapshot, io = java_table.snapshot(snapshot.id), java_table.io()
    paths = [java_snapshot.manifestListLocation()]
    paths += [
        file.path() for file in java_snapshot.allManifests(io) if file.snapshotId() == snapshot.id
    ]
    for file in itertools.chain(
        java_snapshot.addedDataFiles(io), java_snapshot.addedDeleteFiles(io)
    ):
        path, size, rows = (
            to_local_folder(file.location()),
            file.fileSizeInBytes(),
            file.recordCount(),
        )
        is_data = file.content().id() == 0
        fault = path and describe_file_fault(path, size, rows if is_data else None)
        if fault:
            raise CommitLostError(
                f"Snapshot {snapshot.id} of table {table.name} names the file {path}, which"
                f" {fault}. No state that covers its rows is emitted; restore the file, or start"
                " again from a state before this commit."
            )
        paths.append(file.location())
    files = (_newest_metadata(folder), *map(to_local_folder, paths))
    sync_table(folder, filter(None, files), [folder / "metadata" / "version-hint.text"])


def check_isolation(spark: SparkSession, ref: str) -> None:
    """Check that a table's isolation level makes a MERGE fail if another writer adds rows.

    Raises:
        TableError: The isolation level is not ``serializable``, so that the MERGE would succeed and
            a key could be in the table twice.
    """
    level = get_table_properties(spark, ref).get(_ISOLATION, _SERIALIZABLE)
    if level.lower() != _SERIALIZABLE:
        raise TableError(
            f"Table {ref} has the property {_ISOLATION} = {level!r}: a MERGE would not see the rows"
            " that another writer adds meanwhile, and keys could be in the table twice. Nothing was"
            f" written. Set the property to {_SERIALIZABLE!r}, or remove it."
        )


def find_latest_metadata(spark: SparkSession, table: Table) -> CommitMetadata | None:
    """Return the newest commit metadata of target-spark in an Iceberg table, or None."""
    markers = (snapshot.marker for snapshot in snapshots(spark, table))
    return next((marker for marker in markers if marker is not None), None)


def get_commit_time(spark: SparkSession, table: Table) -> int | None:
    """Return the time of an Iceberg table's last snapshot, in milliseconds since 1970.

    Snapshots of all programs count. Return None if there is no snapshot. The table must exist.
    """
    folder = table_folder(table)
    if folder is not None:
        metadata = _read_metadata(folder)
        stored = () if metadata is None else metadata.snapshots
        return max((each.timestamp_ms or 0 for each in stored), default=None)
    ref = resolve_table(spark, table).ref
    row = spark.table(f"{ref}.snapshots").selectExpr("unix_millis(max(committed_at)) AS at").first()
    return None if row is None else row["at"]


def parse_summary(snapshot: IcebergSnapshot, *, merged: bool) -> CommitStats:
    """Return the statistics of a commit, read from the summary of its snapshot.

    Args:
        snapshot: The snapshot of the commit.
        merged: True for a MERGE; False for an append or overwrite. A MERGE also rewrites unchanged
            rows, which the summary counts as added before Spark 4.1. For such a summary, the growth
            of the table is returned as the number of inserted rows.
    """
    added, removed = _number(snapshot, "added-records"), _number(snapshot, "deleted-records")
    updated = 0
    if merged and snapshot.counts_merged:
        added = _number(snapshot, f"{_MERGED}inserted")
        updated = _number(snapshot, f"{_MERGED}updated")
        removed = _number(snapshot, f"{_MERGED}deleted")
    elif merged:
        added, removed = max(0, added - removed), max(0, removed - added)
    return CommitStats(
        inserted=added,
        updated=updated,
        deleted=removed,
        files=_number(snapshot, "added-data-files"),
        nbytes=_number(snapshot, "added-files-size"),
    )


def _number(snapshot: IcebergSnapshot, name: str) -> int:
    return max(0, int(snapshot.summary.get(name, "0")))


def _newest_metadata(folder: Path) -> Path | None:
    """Return the metadata file with the highest version, or None if there is no Iceberg table.

    The file `version-hint.text` is not used, because it may be outdated.
    """
    versions: dict[int, Path] = {}
    try:
        for file in (folder / "metadata").iterdir():
            if match := _METADATA.fullmatch(file.name):
                versions[int(match[1])] = file
    except (FileNotFoundError, NotADirectoryError):
        return None
    return versions[max(versions)] if versions else None


def _in_files(folder: Path) -> tuple[int | None, dict[int, IcebergSnapshot]]:
    metadata = _read_metadata(folder)
    if metadata is None:
        return None, {}
    return metadata.current_snapshot_id, {
        stored.snapshot_id: IcebergSnapshot(
            stored.snapshot_id, stored.parent_snapshot_id, stored.summary
        )
        for stored in metadata.snapshots
    }


def _read_metadata(folder: Path) -> _TableMetadata | None:
    file = _newest_metadata(folder)
    if file is None:
        return None
    content = file.read_bytes()
    if ".gz" in file.suffixes:
        content = gzip.decompress(content)
    return _decode_metadata(content)


def _by_query(spark: SparkSession, table: Table) -> tuple[int | None, dict[int, IcebergSnapshot]]:
    table_ref = resolve_table(spark, table)
    if not catalog_table_exists(spark, table_ref):
        return None, {}
    ref = table_ref.ref
    rows = spark.sql(  # every name in it is quoted
        f"SELECT snapshot_id, parent_id, summary FROM {ref}.snapshots"  # noqa: S608
        f" UNION ALL SELECT snapshot_id, NULL, NULL FROM {ref}.refs WHERE name = 'main'"
    ).collect()
    current = next((row[0] for row in rows if row[2] is None), None)
    return current, {row[0]: IcebergSnapshot(*row) for row in rows if row[2] is not None}
