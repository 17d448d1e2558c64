"""Selection of the newest state whose records are all drained.

The module is pure. States are numbered as they arrive. A holder (a sink) with undrained
records stores the number of states that arrived before its first record, and blocks all
later states. Of consecutive states that no holder separates, only the newest is kept.
"""

from __future__ import annotations

from collections.abc import Hashable, KeysView
from typing import Generic, TypeVar

__all__ = ["StateWatermark"]

_Holder = TypeVar("_Holder", bound=Hashable)


class StateWatermark(Generic[_Holder]):
    """Queue of encoded states.

    A state can be taken once all records before it are drained (written).

    Holders are the objects that have records which are not drained yet, such as sinks.
    """

    def __init__(self) -> None:
        self._seen = 0
        self._since: dict[_Holder, int] = {}
        self._waiting: list[tuple[int, bytes]] = []

    @property
    def holders(self) -> KeysView[_Holder]:
        """The objects, such as sinks, that have undrained records.

        The result reflects later changes.
        """
        return self._since.keys()

    @property
    def is_waiting(self) -> bool:
        """True if the queue has a state."""
        return bool(self._waiting)

    def add_holder(self, holder: _Holder) -> None:
        """Register a holder: an object, such as a sink, that now has undrained records.

        If it is registered already, nothing changes.
        """
        self._since.setdefault(holder, self._seen)

    def remove_holder(self, holder: _Holder) -> None:
        """Remove a holder, such as a sink, whose records are now all drained."""
        self._since.pop(holder, None)

    def add_state(self, state: bytes) -> None:
        """Add an encoded state to the queue.

        It can be taken once all records before it are drained.
        """
        self._seen += 1
        self._waiting.append((self._seen, state))
        self._drop_superseded()

    def take(self) -> bytes | None:
        """Return the newest state that can be written, or None. Remove it and older states.

        A state can be written if all records before it are drained.
        """
        reached = min(self._since.values(), default=self._seen)
        covered = [state for number, state in self._waiting if number <= reached]
        self._waiting = self._waiting[len(covered) :]
        self._drop_superseded()
        return covered[-1] if covered else None

    def _drop_superseded(self) -> None:
        """Remove the states that `take` would never return.

        Whenever such a state can be taken, a newer one can be taken too.
        """
        starts = set(self._since.values())
        kept = [
            (number, state)
            for (number, state), (following, _) in zip(
                self._waiting, self._waiting[1:], strict=False
            )
            if any(number <= start < following for start in starts)
        ]
        self._waiting = kept + self._waiting[-1:]
