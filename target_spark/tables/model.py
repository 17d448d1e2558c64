"""Which table a stream goes to, how it is asked to be laid out, and what a commit did to it.

Rules of the room: words only, without Spark. A table is a folder, or a name in a catalog;
whoever writes it refers to it in one way alone, so that nothing in between has to know
which of the two it is.
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
"""What follows a table's name in that of its quarantine."""

Transform: TypeAlias = Literal["identity", "year", "month", "day", "hour"]
"""What a partition is made of: a column's value, or the part of a date or an instant."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table: the address of its folder, and its name within the job.

    ``identifier`` (catalog, database, name; or the last ones of these) is how a catalog
    knows it. With one, ``path`` may be empty: the catalog says where the files are.
    """

    path: str
    name: str
    identifier: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """What tells it from every other table of a run."""
        return ".".join(self.identifier) or self.path

    @property
    def places(self) -> tuple[str, ...]:
        """Where it is, in a catalog (to which case does not count) and as a folder."""
        return tuple(filter(None, (".".join(self.identifier).lower(), self.path)))

    def beside(self, suffix: str) -> Table:
        """Return the table of the same place with a longer name."""
        path = self.path and f"{self.path}{suffix}"
        name = self.identifier[-1:] and (f"{self.identifier[-1]}{suffix}",)
        return Table(path, f"{self.name}{suffix}", (*self.identifier[:-1], *name))


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One part of how a table's files are divided: a property of the stream, or a part of it."""

    source: str
    transform: Transform = "identity"


@dataclass(frozen=True, slots=True)
class TableLayout:
    """How the files of a table are laid out; what a format cannot do it refuses at start.

    ``partition_by``, ``cluster_by`` and ``sort_by`` name properties of the stream, not
    columns. ``file_bytes`` is the size to aim at. ``properties`` are names and texts that
    a new table has beside those that the format needs.
    """

    partition_by: tuple[PartitionField, ...] = ()
    cluster_by: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    file_bytes: int | None = None
    properties: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class MaintenanceOptions:
    """What is done for a table after the last commit of a run.

    ``compact`` makes few large files of many small ones, of ``file_bytes`` where that is
    given; what no longer belongs to the table and is older than ``retain_days`` is removed.
    """

    compact: bool = False
    retain_days: float | None = None
    file_bytes: int | None = None

    @property
    def wanted(self) -> bool:
        """Whether there is anything to be done."""
        return self.compact or self.retain_days is not None


@dataclass(frozen=True, slots=True)
class CommitStats:
    """What a commit did, as the table's own metadata say: rows, and files that it added.

    ``nbytes`` are the bytes of those files. Rows that an overwrite took away are not
    counted: a table knows only their files.
    """

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    files: int = 0
    nbytes: int = 0
