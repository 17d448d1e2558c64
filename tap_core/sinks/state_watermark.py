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
    """Queue of encoded states. A state may be written once all records before it are drained.

    A holder is an object with undrained records, such as a sink.
    """

    def __init__(self) -> None:
        self._seen = 0
        self._since: dict[_Holder, int] = {}
        self._waiting: list[tuple[int, bytes]] = []

    @property
    def holders(self) -> KeysView[_Holder]:
        """The holders (objects, such as sinks) with undrained records, as a live view."""
        return self._since.keys()

    @property
    def is_waiting(self) -> bool:
        """True if a state is waiting."""
        return bool(self._waiting)

    def began(self, holder: _Holder) -> None:
        """Register a holder (an object, such as a sink) that now has undrained records.

        A holder that is registered already keeps its position in the queue.
        """
        self._since.setdefault(holder, self._seen)

    def settled(self, holder: _Holder) -> None:
        """Register that all records of a holder (an object, such as a sink) are drained."""
        self._since.pop(holder, None)

    def arrived(self, state: bytes) -> None:
        """Add an encoded state to the queue.

        It can be taken once all records that came before it are drained.
        """
        self._seen += 1
        self._waiting.append((self._seen, state))
        self._drop_superseded()

    def take(self) -> bytes | None:
        """Remove and return the newest state whose records are all drained, or None."""
        reached = min(self._since.values(), default=self._seen)
        covered = [state for number, state in self._waiting if number <= reached]
        self._waiting = self._waiting[len(covered) :]
        self._drop_superseded()
        return covered[-1] if covered else None

    def _drop_superseded(self) -> None:
        """Drop the states that are never the newest one ready, and so would not be returned."""
        starts = set(self._since.values())
        kept = [
            (number, state)
            for (number, state), (following, _) in zip(
                self._waiting, self._waiting[1:], strict=False
            )
            if any(number <= start < following for start in starts)
        ]
        self._waiting = kept + self._waiting[-1:]
