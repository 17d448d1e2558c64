"""What is handed over where contexts are synced elsewhere, and what comes back.

Rules of the room: plain values, so that they can travel to another process. A part is one
context, or one window of it, with all that is known of it.
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
    """One context to be synced by itself, as plain values.

    ``number`` is its place among those that are handed over together, ``is_child`` whether a
    parent's record gave the context. ``versions`` are the table versions that rows carry, and
    ``bookmarks`` the states, of its stream and of those below it, as in a state document.
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
    """What became of a part: the states after it, and how many rows each stream has of it.

    Counts are by the names under which rows go out. ``error`` says in words why it failed; None:
    it did not.
    """

    number: int
    bookmarks: Mapping[str, Any] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True, slots=True)
class WorkResults:
    """What came of parts: their rows as events, and a result for each."""

    events: Sequence[Event]
    results: Sequence[WorkResult]


class WorkDistributor(Protocol):
    """Whoever syncs parts elsewhere. An outlet that has one names it ``spreader``."""

    most: int
    """How many parts it takes at once."""

    def refuses(self, stream: Any, /) -> str | None:
        """Say why it does not take a stream; None: it does."""

    def sync(self, parts: Sequence[WorkUnit], /, *, in_order: bool) -> WorkResults:
        """Sync parts; ``sort_rows`` ones have no rows of those behind the first that failed."""
