"""`ChangeLog`: interface of a source's log, from which LOG_BASED streams are read."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from tap_core.types import Record

__all__ = ["Change", "ChangeLog", "LogEntry", "Position", "SchemaUpdate"]


@dataclass(frozen=True, slots=True)
class Change:
    """Entry of a change log for a row of a stream that was inserted, updated or deleted."""

    stream: str
    record: Record
    """Record to write; that of a deletion has the keys and ``_sdc_deleted_at``."""


@dataclass(frozen=True, slots=True)
class SchemaUpdate:
    """Entry of a change log for a changed schema of a stream.

    The `ChangeLog` has set ``schema`` of the stream before it yields this entry.
    """

    stream: str


@dataclass(frozen=True, slots=True)
class Position:
    """Entry of a change log for a position at which a later sync can resume.

    All changes before it were yielded.
    """

    value: int


LogEntry: TypeAlias = Change | SchemaUpdate | Position


class ChangeLog(abc.ABC):
    """Base class for the log of a source (such as a database) with the changes of its rows.

    A stream is read from a log if its ``change_log`` is a `ChangeLog` and its replication method is
    LOG_BASED. Its ``replication_key`` names the property with the position of a record, and its
    ``get_records`` reads the snapshot. Positions are integers that grow with the log.
    """

    @abc.abstractmethod
    def begin(self, starts: Mapping[str, int | None]) -> int:
        """Prepare the log for a run, and return its end: the position up to which the run reads.

        A snapshot that begins after this method has returned contains all changes before the end.

        Args:
            starts: Position from which each stream is read, by its name; None for a new stream.

        Raises:
            Exception: The log no longer has the changes since one of the positions, or does not
                have those of a stream.
        """

    @abc.abstractmethod
    def confirm(self, position: int) -> None:
        """Tell the source that it may discard the changes before a position."""

    @abc.abstractmethod
    def read(self, starts: Mapping[str, int], end: int) -> Iterator[LogEntry]:
        """Yield the changes from each stream's start to the end, in the order of the log.

        Args:
            starts: Position of each stream's first change, by its name.
            end: Position after the last change.
        """
