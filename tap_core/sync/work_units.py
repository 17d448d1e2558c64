"""Data types exchanged with the processes that sync contexts elsewhere.

They hold plain values, so that they can be sent to another process. A work unit is one
context, or one window of it, with all information needed to sync it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tap_core.events import Event
    from tap_core.incremental.windows import ReadInterval

__all__ = ["WorkDistributor", "WorkResult", "WorkResults", "WorkUnit"]


@dataclass(frozen=True, slots=True)
class WorkUnit:
    """One context of a stream, to be synced in another process. All values can be pickled.

    ``number`` is its index in its batch of work units. ``is_child`` is True if the context comes
    from a parent's record. ``versions`` has the table versions and ``bookmarks`` the states of the
    stream and its descendants, both by stream name.
    """

    number: int
    stream: str
    context: Mapping[str, Any] | None
    is_child: bool = False
    interval: ReadInterval | None = None
    versions: Mapping[str, int] = field(default_factory=dict)
    bookmarks: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkResult:
    """Result of a work unit: the new states, and the number of rows by output name.

    ``error`` describes the failure; None means success.
    """

    number: int
    bookmarks: Mapping[str, Any] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True, slots=True)
class WorkResults:
    """Results of several work units: events with the written rows, and one result per work unit."""

    events: Sequence[Event]
    results: Sequence[WorkResult]


class WorkDistributor(Protocol):
    """Object that syncs work units in other processes.

    A protocol writer that supports this provides it as its attribute ``distributor``.
    """

    most: int
    """Maximum number of work units per call of `sync`."""

    def refuses(self, stream: Any, /) -> str | None:
        """Return the reason why a stream cannot be synced in other processes.

        Return None if it can.
        """

    def sync(self, parts: Sequence[WorkUnit], /, *, in_order: bool) -> WorkResults:
        """Sync work units in other processes.

        With ``in_order`` True, the rows of all units after the first failed one are discarded.
        """
