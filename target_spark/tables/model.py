"""Values that describe a table, its wanted layout, and the effect of a commit.

This module does not import Spark. A table is a folder or a name in a catalog; both are addressed
through `Table`, so other modules need not distinguish them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

__all__ = [
    "QUARANTINE",
    "CommitStats",
    "MaintenanceOptions",
    "PartitionField",
    "Table",
    "TableLayout",
    "Transform",
]

QUARANTINE: Final = "__quarantine"
"""The suffix of a table's name that makes the name of its quarantine."""

Transform: TypeAlias = Literal["identity", "year", "month", "day", "hour"]
"""Partition transforms: a column's value, or a part of a date or timestamp."""


@dataclass(frozen=True, slots=True)
class Table:
    """Reference to a table: the address of its folder, and its name within the job.

    ``identifier`` (catalog, database, name; or the last parts of these) is its name in a catalog.
    With an identifier ``path`` may be empty: the catalog chooses the location of the files.
    """

    path: str
    name: str
    identifier: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The unique key of the table within a run."""
        return ".".join(self.identifier) or self.path

    @property
    def places(self) -> tuple[str, ...]:
        """The table's locations: its catalog name in lower case, and its folder."""
        return tuple(filter(None, (".".join(self.identifier).lower(), self.path)))

    def with_suffix(self, suffix: str) -> Table:
        """Return the table at the same location with ``suffix`` appended to its name."""
        path = self.path and f"{self.path}{suffix}"
        name = self.identifier[-1:] and (f"{self.identifier[-1]}{suffix}",)
        return Table(path, f"{self.name}{suffix}", (*self.identifier[:-1], *name))


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One partition field of a table: a property of the stream, or a part of its value."""

    source: str
    transform: Transform = "identity"


@dataclass(frozen=True, slots=True)
class TableLayout:
    """Wanted partitioning, clustering, sort order and file size of a table.

    ``partition_by``, ``cluster_by`` and ``sort_by`` name properties of the stream, not columns.
    ``file_bytes`` is the target size of files. ``properties`` are additional properties of a new
    table.
    """

    partition_by: tuple[PartitionField, ...] = ()
    cluster_by: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    file_bytes: int | None = None
    properties: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class MaintenanceOptions:
    """Maintenance of a table after the last commit of a run.

    ``compact`` merges many small files into large ones, of ``file_bytes`` if set. Files that no
    longer belong to the table and are older than ``retain_days`` are deleted.
    """

    compact: bool = False
    retain_days: float | None = None
    file_bytes: int | None = None

    @property
    def wanted(self) -> bool:
        """True if any maintenance is configured."""
        return self.compact or self.retain_days is not None


@dataclass(frozen=True, slots=True)
class CommitStats:
    """Statistics of a commit from the table's own metadata: rows, and files that it added.

    ``nbytes`` is the size of those files. Rows that an overwrite removed are not counted, because a
    table records only their files.
    """

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    files: int = 0
    nbytes: int = 0
