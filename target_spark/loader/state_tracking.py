"""States on their way: those that wait for rows, and the form in which they leave.

Rules of the room: pure. A state is of one stream, its scope, or of all; of each scope the
newest counts. A state of all takes the place of every one before it. Between two first
ordinals of batches only the newest of a scope is kept: no frontier can ever lie between
them. What stands in a state is its protocol's business, so the form is handed in.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final, Protocol

import msgspec

__all__ = ["CoveredState", "GlobalStateFormat", "PendingStates", "StateFormat", "merge_states"]

_decode_list: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


@dataclass(frozen=True, slots=True)
class CoveredState:
    """A state, as it came in, and the ordinal at which it stood in the input.

    ``scope`` is the stream that it is of (None: all), ``rows`` how many rows of its scope
    had come before it in the run.
    """

    ordinal: int
    state: bytes
    scope: Hashable = None
    rows: int = 0


class StateFormat(Protocol):
    """How the states of a protocol leave, and how commits keep them."""

    def leaving(self, covered: CoveredState) -> bytes:
        """Return the line by which a state leaves. Called once for each, in their order."""

    def kept(self, states: Sequence[CoveredState]) -> bytes:
        """Return what a commit keeps of these states, the newest of each scope, in order."""

    def rejected(self, stream: Hashable, rows: int) -> None:
        """Note that rows of a stream were committed to its quarantine."""


class GlobalStateFormat:
    """States that are always of all streams, and leave as they came."""

    def leaving(self, covered: CoveredState) -> bytes:
        """Return the state."""
        return covered.state

    def kept(self, states: Sequence[CoveredState]) -> bytes:
        """Return the last one."""
        return states[-1].state

    def rejected(self, stream: Hashable, rows: int) -> None:
        """Say nothing of it."""


def merge_states(before: str, after: str) -> str:
    """Return what is kept once ``after`` is, and ``before`` was.

    Of states that are of all streams that is the later one. Lists have one of each stream, and
    a run that does not speak of a stream leaves that stream where it was.
    """
    if not (before.startswith("[") and after.startswith("[")):
        return after
    from tap_core.protocols.airbyte.reader import get_stream_id

    try:
        found = [bytes(state) for text in (before, after) for state in _decode_list(text)]
    except msgspec.DecodeError:  # none of ours
        return after
    newest: dict[Hashable, bytes] = {}
    for state in found:
        scope = get_stream_id(state)
        if scope is None:
            newest.clear()
        newest.pop(scope, None)  # so that the order is that of the newest
        newest[scope] = state
    return "[" + b",".join(newest.values()).decode() + "]"


class PendingStates:
    """The states that wait, oldest first, and the last of each scope that left."""

    def __init__(self) -> None:
        """Begin without any."""
        self._waiting: dict[int, CoveredState] = {}
        self._newest: dict[Hashable, int] = {}
        self._left: dict[Hashable, CoveredState] = {}

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._waiting)

    def arrived(self, state: CoveredState, last_first: int) -> None:
        """Take the newest state; ``last_first`` is the last first ordinal of a batch."""
        before = self._newest.get(state.scope)
        if before is not None and before >= last_first:
            self._waiting.pop(before, None)
        self._waiting[state.ordinal] = state
        self._newest[state.scope] = state.ordinal

    def leave(self, frontier: int | None) -> list[CoveredState]:
        """Return the newest of each scope before the frontier, in order; they wait no more."""
        before = self._before(frontier)
        if not before:
            return []
        for each in before:
            del self._waiting[each.ordinal]
        leaving = _newest_of_each(before)
        self._left = {
            each.scope: each for each in _newest_of_each([*self._left.values(), *leaving])
        }
        return leaving

    def covered(self, frontier: int | None) -> list[CoveredState]:
        """Return what counts of the states that left or lie before the frontier, in order."""
        newest = _newest_of_each([*self._left.values(), *self._before(frontier)])
        of_all = [place for place, each in enumerate(newest) if each.scope is None]
        return newest[of_all[-1] :] if of_all else newest

    def thin(self, firsts: Sequence[int]) -> None:
        """Keep, between two of these first ordinals (sorted), only the newest of each scope."""
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
    """Return the newest of each scope; the states are in order, and so is what is returned."""
    newest: dict[Hashable, CoveredState] = {}
    for each in states:
        newest.pop(each.scope, None)  # so that the order is that of the newest
        newest[each.scope] = each
    return list(newest.values())
