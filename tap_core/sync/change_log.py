"""`ChangeLog`: interface of a source's change log, from which LOG_BASED streams are read."""

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
    """Entry of a change log: the insertion, update or deletion of a row."""

    stream: str
    record: Record
    """Record to write. For a deletion, it contains the keys and ``_sdc_deleted_at``."""


@dataclass(frozen=True, slots=True)
class SchemaUpdate:
    """Entry of a change log: the change of a stream's schema.

    The `ChangeLog` sets ``schema`` of the stream before it yields this entry.
    """

    stream: str


@dataclass(frozen=True, slots=True)
class Position:
    """Entry of a change log: a position at which a later sync can resume.

    All changes before the position were yielded.
    """

    value: int


LogEntry: TypeAlias = Change | SchemaUpdate | Position


class ChangeLog(abc.ABC):
    """Base class for the change log of a source, such as a database.

    A stream is read from the log if its ``change_log`` is a `ChangeLog` and its replication method
    is LOG_BASED. Its ``replication_key`` names the property that contains the log position of a
    record. Its ``get_records`` reads the snapshot. Positions are integers that grow with the log.
    """

    @abc.abstractmethod
    def begin(self, starts: Mapping[str, int | None]) -> int:
        """Prepare this change log for a run; return the position up to which it is read (the end).

        A snapshot that begins after this call contains all changes before the end.

        Args:
            starts: Position from which each stream is read, by stream name; None for a new stream.

        Raises:
            Exception: The log no longer has the changes since one of the positions, or it has no
                changes of one of the streams.
        """

    @abc.abstractmethod
    def confirm(self, position: int) -> None:
        """Tell the source that it may discard the changes before a position."""

    @abc.abstractmethod
    def read(self, starts: Mapping[str, int], end: int) -> Iterator[LogEntry]:
        """Yield the changes of all streams up to ``end``, in the order of the log.

        Args:
            starts: Position of each stream's first change, by stream name.
            end: Position after the last change.
        """
