"""States that wait for their rows to be committed, and the interface for their output format.

A state has a scope: one stream, or all streams (None). The newest state of a scope counts; a state
of all streams replaces every earlier one. Between the first ordinals of two consecutive batches
only the newest state of a scope is kept, because the frontier is always a first ordinal. The
content of a state depends on the protocol, so the caller provides the format.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Protocol

__all__ = ["CoveredState", "GlobalStateFormat", "PendingStates", "StateFormat"]


@dataclass(frozen=True, slots=True)
class CoveredState:
    """A received state and its position in the input.

    Attributes:
        ordinal: Position in the input; the state covers all rows with a smaller ordinal.
        state: The state as received, as JSON.
        scope: The stream that the state belongs to; None means all streams.
        rows: Number of rows of the scope that this run received before the state.
    """

    ordinal: int
    state: bytes
    scope: Hashable = None
    rows: int = 0


class StateFormat(Protocol):
    """Encoding of a protocol's states, for the output and for storage in commits."""

    def format_output(self, covered: CoveredState) -> bytes:
        """Return the line to write to standard output for a state.

        Called once for each emitted state, in order.
        """

    def format_stored(self, states: Sequence[CoveredState]) -> bytes:
        """Return the text that a commit stores for the newest state of each scope.

        ``states`` has one state per scope, in input order.
        """

    def count_rejected(self, stream: Hashable, rows: int) -> None:
        """Record the number of rows of a stream that were committed to its quarantine table."""


class GlobalStateFormat:
    """State format of Singer: each state covers all streams and is emitted unchanged."""

    def format_output(self, covered: CoveredState) -> bytes:
        """Return the received state unchanged."""
        return covered.state

    def format_stored(self, states: Sequence[CoveredState]) -> bytes:
        """Return the newest state, which covers all streams."""
        return states[-1].state

    def count_rejected(self, stream: Hashable, rows: int) -> None:
        """Do nothing, since Singer states do not report quarantined rows."""


class PendingStates:
    """Collection of the states that wait for their rows, and the last emitted state per scope."""

    def __init__(self) -> None:
        """Create a collection without states."""
        self._waiting: dict[int, CoveredState] = {}
        self._newest: dict[Hashable, int] = {}
        self._emitted: dict[Hashable, CoveredState] = {}

    def __len__(self) -> int:
        """Return the number of waiting states."""
        return len(self._waiting)

    def add(self, state: CoveredState, last_first: int) -> None:
        """Add a state that was just received.

        ``last_first`` is the first ordinal of the newest batch. An older waiting state of the same
        scope after that ordinal is dropped, since both can only be released together.
        """
        before = self._newest.get(state.scope)
        if before is not None and before >= last_first:
            self._waiting.pop(before, None)
        self._waiting[state.ordinal] = state
        self._newest[state.scope] = state.ordinal

    def take_releasable(self, frontier: int | None) -> list[CoveredState]:
        """Remove and return the states to emit: the newest of each scope before the frontier.

        ``frontier`` is the first ordinal of the oldest uncommitted batch; None if there is none.
        """
        before = self._before(frontier)
        if not before:
            return []
        for each in before:
            del self._waiting[each.ordinal]
        released = _newest_of_each(before)
        self._emitted = {
            each.scope: each for each in _newest_of_each([*self._emitted.values(), *released])
        }
        return released

    def covered(self, frontier: int | None) -> list[CoveredState]:
        """Return the newest state per scope that was emitted or may be emitted, in input order.

        ``frontier`` is the first ordinal of the oldest uncommitted batch; None if there is none.
        """
        newest = _newest_of_each([*self._emitted.values(), *self._before(frontier)])
        global_positions = [position for position, each in enumerate(newest) if each.scope is None]
        return newest[global_positions[-1] :] if global_positions else newest

    def drop_replaced(self, firsts: Sequence[int]) -> None:
        """Drop states that can only be released together with a newer state of their scope.

        ``firsts`` are the sorted first ordinals of the uncommitted batches.
        """
        if len(self._waiting) < 2:  # noqa: PLR2004
            return
        newest = {
            (bisect_right(firsts, each.ordinal), each.scope): each
            for each in self._waiting.values()
        }
        if len(newest) < len(self._waiting):
            kept = sorted(newest.values(), key=lambda each: each.ordinal)
            self._waiting = {each.ordinal: each for each in kept}

    def _before(self, frontier: int | None) -> list[CoveredState]:
        if frontier is None:
            return list(self._waiting.values())
        return list(takewhile(lambda each: each.ordinal < frontier, self._waiting.values()))


def _newest_of_each(states: Sequence[CoveredState]) -> list[CoveredState]:
    """Return the newest state of each scope; input and result are ordered by ordinal."""
    newest: dict[Hashable, CoveredState] = {}
    for each in states:
        newest.pop(each.scope, None)  # so that the newest state is last
        newest[each.scope] = each
    return list(newest.values())
