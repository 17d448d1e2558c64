"""Data types for syncing partitions in other processes, such as Spark executors.

A work unit is one context (a partition or parent record) of a stream, or one time window of a
context, with all information needed to sync it. All values can be pickled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tap_core.events import Event
    from tap_core.incremental.time_windows import ReadInterval

__all__ = ["WorkDistributor", "WorkResult", "WorkResults", "WorkUnit"]


@dataclass(frozen=True, slots=True)
class WorkUnit:
    """Part of a stream to sync in another process: one context (partition or parent record).

    All values can be pickled.

    Attributes:
        number: Index of the unit in its group of work units.
        stream: Name of the stream.
        context: Context to sync.
        is_child: True if the context was generated from a record of a parent stream.
        interval: Time window to sync; None for the whole context.
        versions: Table versions of the stream and its descendants, by stream name.
        bookmarks: States of the stream and its descendants, by stream name.
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
    """Result of a work unit (a partition of a stream) that another process has synced.

    Attributes:
        number: Number of the work unit.
        bookmarks: New states by stream name.
        counts: Number of rows by output stream.
        error: Description of the failure; None if the sync succeeded.
    """

    number: int
    bookmarks: Mapping[str, Any] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True, slots=True)
class WorkResults:
    """Results of work units that other processes have synced.

    ``events`` pass the rows of these work units to the output.
    """

    events: Sequence[Event]
    results: Sequence[WorkResult]


class WorkDistributor(Protocol):
    """Interface of an object that syncs work units (partitions) in other processes.

    A protocol writer that supports other processes has one as its attribute ``distributor``.
    """

    max_units: int
    """Maximum number of work units per call of `sync`."""

    def explain_refusal(self, stream: Any, /) -> str | None:
        """Return the reason if a stream cannot be synced in other processes, or None if it can."""

    def sync(self, units: Sequence[WorkUnit], /, *, in_order: bool) -> WorkResults:
        """Sync work units in other processes, and return their results when all are done.

        If ``in_order`` is True, the rows of all units after the first failed one are discarded.
        """
