"""Which state may leave: the newest whose records are all drained.

Rules of the room: pure. States are counted as they come; a holder (a sink) that has
records remembers how many states had come before the first of them, and holds back all
that came later. Between two states that no holder tells apart only the newer is kept.
"""

from __future__ import annotations

from collections.abc import Hashable, KeysView
from typing import Generic, TypeVar

__all__ = ["StateWatermark"]

_Holder = TypeVar("_Holder", bound=Hashable)


class StateWatermark(Generic[_Holder]):
    """States that wait for the records before them; a state is its bytes."""

    def __init__(self) -> None:
        self._seen = 0
        self._since: dict[_Holder, int] = {}
        self._waiting: list[tuple[int, bytes]] = []

    @property
    def holders(self) -> KeysView[_Holder]:
        """Who has records that are not safe, at any moment; the view is alive."""
        return self._since.keys()

    @property
    def is_waiting(self) -> bool:
        """Whether a state is held back."""
        return bool(self._waiting)

    def began(self, holder: _Holder) -> None:
        """Note that a holder has records; those it had before count on."""
        self._since.setdefault(holder, self._seen)

    def settled(self, holder: _Holder) -> None:
        """Note that all records of a holder are safe."""
        self._since.pop(holder, None)

    def arrived(self, state: bytes) -> None:
        """Take a state that covers everything before it."""
        self._seen += 1
        self._waiting.append((self._seen, state))
        self._thin_out()

    def take(self) -> bytes | None:
        """Return the newest state that is covered, once; None where there is none."""
        reached = min(self._since.values(), default=self._seen)
        covered = [state for number, state in self._waiting if number <= reached]
        self._waiting = self._waiting[len(covered) :]
        self._thin_out()
        return covered[-1] if covered else None

    def _thin_out(self) -> None:
        """Drop each state that cannot be covered without the next one being covered too."""
        starts = set(self._since.values())
        kept = [
            (number, state)
            for (number, state), (following, _) in zip(
                self._waiting, self._waiting[1:], strict=False
            )
            if any(number <= start < following for start in starts)
        ]
        self._waiting = kept + self._waiting[-1:]
