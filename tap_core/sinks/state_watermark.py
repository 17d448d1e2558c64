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
    """Queue of states, as bytes, that wait until their records are drained."""

    def __init__(self) -> None:
        self._seen = 0
        self._since: dict[_Holder, int] = {}
        self._waiting: list[tuple[int, bytes]] = []

    @property
    def holders(self) -> KeysView[_Holder]:
        """A live view of the holders that have undrained records."""
        return self._since.keys()

    @property
    def is_waiting(self) -> bool:
        """True if a state is waiting."""
        return bool(self._waiting)

    def began(self, holder: _Holder) -> None:
        """Register that a holder has undrained records; an earlier registration is kept."""
        self._since.setdefault(holder, self._seen)

    def settled(self, holder: _Holder) -> None:
        """Register that all records of a holder are drained."""
        self._since.pop(holder, None)

    def arrived(self, state: bytes) -> None:
        """Add a state that covers all records before it."""
        self._seen += 1
        self._waiting.append((self._seen, state))
        self._thin_out()

    def take(self) -> bytes | None:
        """Remove and return the newest state whose records are all drained, or None."""
        reached = min(self._since.values(), default=self._seen)
        covered = [state for number, state in self._waiting if number <= reached]
        self._waiting = self._waiting[len(covered) :]
        self._thin_out()
        return covered[-1] if covered else None

    def _thin_out(self) -> None:
        """Drop each waiting state that a later state always replaces."""
        starts = set(self._since.values())
        kept = [
            (number, state)
            for (number, state), (following, _) in zip(
                self._waiting, self._waiting[1:], strict=False
            )
            if any(number <= start < following for start in starts)
        ]
        self._waiting = kept + self._waiting[-1:]
