"""Reader of an Iceberg table's metadata file, and of the snapshots and commit metadata in it.

This module does not import Spark. It reads tables in local folders. Only the current snapshot and
its ancestors are read, not snapshots that were rolled back. Old ancestors may be missing because
they have expired. Snapshots of other writers may have any summary. Source: Iceberg table
specification, "Table Metadata".
"""

from __future__ import annotations

import base64
import gzip
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from target_spark.tables.commit_metadata import CommitMetadata
from target_spark.tables.table import CommitStats

__all__ = [
    "METADATA_PROPERTY",
    "IcebergMetadata",
    "IcebergSnapshot",
    "encode_metadata",
    "find_metadata_file",
    "parse_summary",
    "read_local_snapshots",
    "read_metadata",
    "table_exists",
    "trace_ancestors",
]

METADATA_PROPERTY = "target-spark"
"""Name of the snapshot summary property with the commit metadata of target-spark."""

_COMPRESSED_FROM = 4096
_COMPRESSED_PREFIX = "zlib:"
_METADATA_FILE = re.compile(r"v(\d+)(?:\.gz)?\.metadata\.json(?:\.gz)?")
_MERGE_COUNT_PREFIX = "spark.merge-into.num-target-rows-"


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
        """The metadata that target-spark stored in the snapshot's summary.

        None if another program made the snapshot.
        """
        text = self.summary.get(METADATA_PROPERTY)
        if text is None or not text.startswith(_COMPRESSED_PREFIX):
            return CommitMetadata.from_json(text)
        try:
            packed = base64.b64decode(text.removeprefix(_COMPRESSED_PREFIX), validate=True)
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
    def has_merge_counts(self) -> bool:
        """True if the snapshot's summary has the row counts of a MERGE, such as inserted rows.

        Spark writes these counts from version 4.1 on.
        """
        return f"{_MERGE_COUNT_PREFIX}inserted" in self.summary


def encode_metadata(marker: CommitMetadata) -> str:
    """Return commit metadata as the text to store in a snapshot's summary.

    The text is JSON. From 4 KiB on, it is compressed, because each commit writes the summaries of
    all snapshots again.
    """
    text = marker.to_json()
    if len(text) < _COMPRESSED_FROM:
        return text
    return _COMPRESSED_PREFIX + base64.b64encode(zlib.compress(text.encode())).decode()


class _MetadataSnapshot(msgspec.Struct, rename="kebab"):
    """A snapshot as stored in an Iceberg table's metadata file."""

    snapshot_id: int
    parent_snapshot_id: int | None = None
    timestamp_ms: int | None = None
    summary: dict[str, str] = {}


class IcebergMetadata(msgspec.Struct, rename="kebab"):
    """The fields of an Iceberg table's metadata file that this module reads.

    In files of old Iceberg versions, ``current-snapshot-id`` is -1 if there is no snapshot.
    """

    table_uuid: str | None = None
    current_snapshot_id: int | None = None
    snapshots: list[_MetadataSnapshot] = []


# Compiled at import: msgspec crashes if two writer threads use a type for the first time at once.
_decode_metadata: Final = msgspec.json.Decoder(IcebergMetadata).decode


def table_exists(folder: Path) -> bool:
    """Return True if a local folder contains the metadata of an Iceberg table."""
    return find_metadata_file(folder) is not None


def find_metadata_file(folder: Path) -> Path | None:
    """Return the metadata file with the highest version, or None if there is no Iceberg table.

    The file `version-hint.text` is not used, because it may be outdated.
    """
    versions: dict[int, Path] = {}
    try:
        for file in (folder / "metadata").iterdir():
            if match := _METADATA_FILE.fullmatch(file.name):
                versions[int(match[1])] = file
    except (FileNotFoundError, NotADirectoryError):
        return None
    return versions[max(versions)] if versions else None


def read_metadata(folder: Path) -> IcebergMetadata | None:
    """Return the newest metadata of a table in a local folder, or None if there is no table."""
    file = find_metadata_file(folder)
    if file is None:
        return None
    content = file.read_bytes()
    if ".gz" in file.suffixes:
        content = gzip.decompress(content)
    return _decode_metadata(content)


def read_local_snapshots(folder: Path) -> Iterator[IcebergSnapshot]:
    """Yield the snapshots of an Iceberg table in a local folder, newest first, without Spark."""
    metadata = read_metadata(folder)
    if metadata is None:
        return
    by_id = {
        stored.snapshot_id: IcebergSnapshot(
            stored.snapshot_id, stored.parent_snapshot_id, stored.summary
        )
        for stored in metadata.snapshots
    }
    yield from trace_ancestors(metadata.current_snapshot_id, by_id)


def trace_ancestors(
    current: int | None, by_id: Mapping[int, IcebergSnapshot]
) -> Iterator[IcebergSnapshot]:
    """Yield the current snapshot and its ancestors, newest first, until ``by_id`` lacks one.

    Args:
        current: The id of the current snapshot; None for a table without snapshots.
        by_id: Snapshots by id.
    """
    while current is not None and (snapshot := by_id.get(current)) is not None:
        yield snapshot
        current = snapshot.parent


def parse_summary(snapshot: IcebergSnapshot, *, merged: bool) -> CommitStats:
    """Return the statistics of a commit, read from the summary of its snapshot.

    Args:
        snapshot: The snapshot of the commit.
        merged: True for a MERGE; False for an append or overwrite. Before Spark 4.1, the summary of
            a MERGE counts every row of a rewritten file as added, even an unchanged one. The result
            then has the growth of the table as ``inserted``, and 0 as ``updated``.
    """
    added, removed = _get_count(snapshot, "added-records"), _get_count(snapshot, "deleted-records")
    updated = 0
    if merged and snapshot.has_merge_counts:
        added = _get_count(snapshot, f"{_MERGE_COUNT_PREFIX}inserted")
        updated = _get_count(snapshot, f"{_MERGE_COUNT_PREFIX}updated")
        removed = _get_count(snapshot, f"{_MERGE_COUNT_PREFIX}deleted")
    elif merged:
        added, removed = max(0, added - removed), max(0, removed - added)
    return CommitStats(
        inserted=added,
        updated=updated,
        deleted=removed,
        files=_get_count(snapshot, "added-data-files"),
        nbytes=_get_count(snapshot, "added-files-size"),
    )


def _get_count(snapshot: IcebergSnapshot, name: str) -> int:
    return max(0, int(snapshot.summary.get(name, "0")))
