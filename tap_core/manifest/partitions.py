"""The slices of a stream: contexts that routers give, each once asked for and then known.

Rules of the room: contexts come as parents have records, so the first slice is read before the
last parent is. What came is kept for the run, since its end looks at all of them once more.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from tap_core.manifest.components.partition_routers import PartitionSlice

if TYPE_CHECKING:
    from tap_core.types import Context

__all__ = ["PartitionCache", "cartesian_product"]


class PartitionCache(Iterable["Context"]):
    """Contexts that are made when they are first asked for; any number may iterate at once.

    Who comes first gets the slice with all that is known of it, later ones its context.
    """

    def __init__(self, contexts: Iterator[Context]) -> None:
        self._coming = contexts
        self._known: list[Context] = []
        self._turn = threading.Lock()

    def __iter__(self) -> Iterator[Context]:
        for number in itertools.count():
            with self._turn:
                found = self._at(number)
            if found is None:
                return
            yield found

    def _at(self, number: int) -> Context | None:
        if number < len(self._known):
            return self._known[number]
        found = next(self._coming, None)
        if found is not None:
            self._known.append(dict(found))
        return found


def cartesian_product(parts: Sequence[Callable[[], Iterable[Context]]]) -> Iterator[Context]:
    """Yield every combination of the contexts of several routers, the last turning fastest."""
    if not parts:
        yield {}
        return
    first, *others = parts
    if not others:
        yield from first()
        return
    rest = PartitionCache(cartesian_product(others))
    for context in first():
        for more in rest:
            yield PartitionSlice(more).joined(context)
