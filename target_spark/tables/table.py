"""Data classes that describe a table, its configured layout, and the effect of a commit.

A table is a folder or a name in a catalog. `Table` represents both, so other modules need not
distinguish them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from target_spark.storage.uris import to_local_folder

__all__ = [
    "QUARANTINE",
    "RUNS",
    "CommitStats",
    "MaintenanceOptions",
    "PartitionField",
    "Table",
    "TableLayout",
    "Transform",
]

QUARANTINE: Final = "__quarantine"
"""The suffix that turns a table's name into the name of its quarantine table."""

RUNS: Final = "_target_spark_runs"
"""The name of the table with one row per run and stream. No stream can be loaded into it."""

Transform: TypeAlias = Literal["identity", "year", "month", "day", "hour"]
"""Partition transforms: the value of a column, or the year, month, day or hour of a date or
timestamp."""


@dataclass(frozen=True, slots=True)
class Table:
    """Reference to a table by its folder, its name in a catalog, or both.

    Attributes:
        path: Path or URL of the table's folder; "" if the catalog chooses the location of the
            files.
        name: The name of the table without catalog and database.
        identifier: The name in a catalog, as a tuple of catalog, database and table. The catalog,
            or the catalog and the database, may be missing. Empty for a table without a catalog.
    """

    path: str
    name: str
    identifier: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Unique key of the table: its name in the catalog, or its path if it is in no catalog."""
        return ".".join(self.identifier) or self.path

    @property
    def local_folder(self) -> Path | None:
        """The table's folder; None for a table in a catalog or at a remote URL."""
        return None if self.identifier else to_local_folder(self.path)

    @property
    def locations(self) -> tuple[str, ...]:
        """Lower-case catalog name and path, if any. No other table may have either of them."""
        return tuple(filter(None, (".".join(self.identifier).lower(), self.path)))

    def with_suffix(self, suffix: str) -> Table:
        """Return a reference to another table: ``suffix`` is appended to the name and path."""
        path = self.path and f"{self.path}{suffix}"
        identifier = self.identifier and (*self.identifier[:-1], f"{self.identifier[-1]}{suffix}")
        return Table(path, f"{self.name}{suffix}", identifier)


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One partition field of a table: a property, or the year, month, day or hour of a property.

    Attributes:
        source: The name of the stream's property.
        transform: ``identity`` for the value of the property; ``year``, ``month``, ``day`` or
            ``hour`` for a date or timestamp truncated to this unit.
    """

    source: str
    transform: Transform = "identity"


@dataclass(frozen=True, slots=True)
class TableLayout:
    """Configured partitioning, clustering, sort order and file size of a table.

    Attributes:
        partition_by: The partition fields, which refer to properties of the stream.
        cluster_by: Properties of the stream to cluster by.
        sort_by: Properties of the stream to sort the rows of each file by.
        file_bytes: Target size of files in bytes; None means the format's default.
        properties: Names and values of additional table properties for a new table.
    """

    partition_by: tuple[PartitionField, ...] = ()
    cluster_by: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    file_bytes: int | None = None
    properties: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class MaintenanceOptions:
    """Options for the maintenance of a table after the last commit of a run.

    Attributes:
        compact: True to merge many small files into large ones; False to leave the files as they
            are.
        retain_days: Number of days to keep files that the newest table version does not use. None
            to keep them without limit.
        file_bytes: Target size of compacted files in bytes; None means the format's default.
    """

    compact: bool = False
    retain_days: float | None = None
    file_bytes: int | None = None

    @property
    def is_configured(self) -> bool:
        """True if compaction or the deletion of old files is configured."""
        return self.compact or self.retain_days is not None


@dataclass(frozen=True, slots=True)
class CommitStats:
    """Statistics of a commit, read from the metadata of the table format.

    Rows that an overwrite removes are not counted, because the metadata records only their files.

    Attributes:
        inserted: Rows inserted.
        updated: Rows updated.
        deleted: Rows deleted.
        files: Files added.
        nbytes: Total size of the added files in bytes.
    """

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    files: int = 0
    nbytes: int = 0
