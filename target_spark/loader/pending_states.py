"""States that wait for their rows to be committed, and the interface for their output format.

A state has a scope: one stream, or all streams (None). Only the newest state of a scope is needed,
and a state of all streams replaces every earlier one. If no batch begins between two states of a
scope, only the newer one is kept, because both would be emitted at the same time. The content of a
state depends on the protocol (Singer or Airbyte), so the caller provides a `StateFormat`.
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
        ordinal: Position in the input. The state includes the progress of all rows before this
            position.
        state: The state as received, as JSON.
        scope: The stream whose progress the state records; None means all streams.
        rows: Number of rows of the stream (or of all streams) that this run received before the
            state.
    """

    ordinal: int
    state: bytes
    scope: Hashable = None
    rows: int = 0


class StateFormat(Protocol):
    """Encoder of states in the format of an input protocol (Singer or Airbyte).

    States are encoded for standard output, and for the metadata of commits.
    """

    def format_output(self, covered: CoveredState) -> bytes:
        """Return a state as one line of text for standard output.

        The method is called once for each emitted state, in input order.
        """

    def format_stored(self, states: Sequence[CoveredState]) -> bytes:
        """Return the text to store in a commit, which represents the current states of all streams.

        Args:
            states: The newest states in input order, at most one for each stream and one for all
                streams together.
        """

    def count_rejected(self, stream: Hashable, rows: int) -> None:
        """Count quarantined rows of a stream. Airbyte's states report this number."""


class GlobalStateFormat:
    """State format of Singer, where each state is for all streams. States are emitted unchanged."""

    def format_output(self, covered: CoveredState) -> bytes:
        """Return the line to write for a state whose rows are committed: the state itself."""
        return covered.state

    def format_stored(self, states: Sequence[CoveredState]) -> bytes:
        """Return the last of the states, since each Singer state includes all streams."""
        return states[-1].state

    def count_rejected(self, stream: Hashable, rows: int) -> None:
        """Do nothing, since Singer states do not report quarantined rows."""


class PendingStates:
    """Collection of the states that are held back until all rows before them are committed.

    The last emitted state of each stream, and of all streams together, is kept too, to store it in
    later commits.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, CoveredState] = {}
        self._newest: dict[Hashable, int] = {}
        self._emitted: dict[Hashable, CoveredState] = {}

    def add(self, state: CoveredState, newest_batch: int) -> None:
        """Add a state that was just received.

        If no batch began since the previous state of the same scope (one stream, or all streams
        together), the previous state is dropped, because both would be emitted at the same time.

        Args:
            state: The state.
            newest_batch: The input position at which the newest batch begins; -1 for none.
        """
        previous = self._newest.get(state.scope)
        if previous is not None and previous >= newest_batch:
            self._waiting.pop(previous, None)
        self._waiting[state.ordinal] = state
        self._newest[state.scope] = state.ordinal

    def take_releasable(self, frontier: int | None) -> list[CoveredState]:
        """Remove the states whose rows are all committed, and return the newest one of each scope.

        A scope is one stream, or all streams together. ``frontier`` is the input position of the
        first uncommitted row: all states before it are removed. None removes all states.
        """
        before = self._before(frontier)
        if not before:
            return []
        for state in before:
            del self._waiting[state.ordinal]
        released = _newest_of_each(before)
        self._emitted = {
            state.scope: state for state in _newest_of_each([*self._emitted.values(), *released])
        }
        return released

    def covered(self, frontier: int | None) -> list[CoveredState]:
        """Return the newest state of each scope whose rows are all committed, in input order.

        A scope is one stream, or all streams together; a state of all streams replaces all earlier
        states. Emitted states are included. ``frontier`` is the input position of the first
        uncommitted row, or None if all rows are committed.
        """
        newest = _newest_of_each([*self._emitted.values(), *self._before(frontier)])
        global_positions = [
            position for position, state in enumerate(newest) if state.scope is None
        ]
        return newest[global_positions[-1] :] if global_positions else newest

    def drop_replaced(self, batch_starts: Sequence[int]) -> None:
        """Drop each state that would be emitted together with a newer state of the same stream.

        Two states are emitted together if no batch begins between them. ``batch_starts`` are the
        sorted input positions at which the uncommitted batches begin. States of all streams are
        compared with each other only.
        """
        if len(self._waiting) < 2:  # noqa: PLR2004
            return
        newest = {
            (bisect_right(batch_starts, state.ordinal), state.scope): state
            for state in self._waiting.values()
        }
        if len(newest) < len(self._waiting):
            remaining = sorted(newest.values(), key=lambda state: state.ordinal)
            self._waiting = {state.ordinal: state for state in remaining}

    def _before(self, frontier: int | None) -> list[CoveredState]:
        if frontier is None:
            return list(self._waiting.values())
        return list(takewhile(lambda state: state.ordinal < frontier, self._waiting.values()))


def _newest_of_each(states: Sequence[CoveredState]) -> list[CoveredState]:
    """Return the newest state of each scope: of each stream, and of all streams together.

    Both ``states`` and the result are in input order.
    """
    newest: dict[Hashable, CoveredState] = {}
    for state in states:
        newest.pop(state.scope, None)  # so that the newest state is last
        newest[state.scope] = state
    return list(newest.values())
