"""Selection of the newest state that a target may write, because all earlier records are stored.

States are numbered as they arrive. A sink with unwritten records is called a holder. It stores the
number of states that arrived before its first such record; later states must wait for it. Of
consecutive states that wait for the same holders, only the newest is kept. This module does no I/O.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, KeysView
from typing import Generic, TypeVar

__all__ = ["StateWatermark"]

_Holder = TypeVar("_Holder", bound=Hashable)


class StateWatermark(Generic[_Holder]):
    """Queue of encoded states. Each state waits until all records before it are written.

    A holder is an object with unwritten records, such as a sink.
    """

    def __init__(self) -> None:
        self._seen = 0
        self._since: dict[_Holder, int] = {}
        self._waiting: list[tuple[int, bytes]] = []

    @property
    def holders(self) -> KeysView[_Holder]:
        """Objects with unwritten records, such as sinks, as a view that follows later changes."""
        return self._since.keys()

    @property
    def is_waiting(self) -> bool:
        """True if the queue contains a state."""
        return bool(self._waiting)

    def add_holder(self, holder: _Holder) -> None:
        """Register an object, such as a sink, that now has unwritten records.

        Nothing changes if it is already registered.
        """
        self._since.setdefault(holder, self._seen)

    def remove_holder(self, holder: _Holder) -> None:
        """Remove an object, such as a sink, because all its records are now written."""
        self._since.pop(holder, None)

    def add_state(self, state: bytes) -> None:
        """Add an encoded state to the queue of states that wait for earlier records."""
        self._seen += 1
        self._waiting.append((self._seen, state))
        self._drop_superseded()

    def take(self) -> bytes | None:
        """Return the newest state for which all earlier records are written, or None.

        Remove this state and all older states from the queue.
        """
        reached = min(self._since.values(), default=self._seen)
        covered = [state for number, state in self._waiting if number <= reached]
        self._waiting = self._waiting[len(covered) :]
        self._drop_superseded()
        return covered[-1] if covered else None

    def _drop_superseded(self) -> None:
        """Remove each state that waits for the same objects (sinks) as the next state.

        `take` would return only the next one. Two states wait for the same objects if no object was
        registered between them.
        """
        starts = sorted(self._since.values())
        remaining = [
            (number, state)
            for (number, state), (following, _) in zip(
                self._waiting, self._waiting[1:], strict=False
            )
            if bisect_left(starts, number) < bisect_left(starts, following)
        ]
        self._waiting = remaining + self._waiting[-1:]
