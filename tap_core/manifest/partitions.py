"""Lazy cache of the contexts of a stream's slices, which partition routers generate.

A context is generated when the parent stream yields its record, so the first slice is read before
the last parent record. All contexts are stored, because the end of the run iterates over them
again.
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
    """Lazy cache of a stream's partitions, each a context (a dict of partition values).

    Several threads may iterate over it. The first iteration yields contexts with their extra
    fields, later iterations yield plain dicts.
    """

    def __init__(self, contexts: Iterator[Context]) -> None:
        self._contexts = contexts
        self._cached: list[Context] = []
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[Context]:
        for index in itertools.count():
            with self._lock:
                context = self._get_context(index)
            if context is None:
                return
            yield context

    def _get_context(self, index: int) -> Context | None:
        if index < len(self._cached):
            return self._cached[index]
        context = next(self._contexts, None)
        if context is not None:
            self._cached.append(dict(context))
        return context


def cartesian_product(routers: Sequence[Callable[[], Iterable[Context]]]) -> Iterator[Context]:
    """Yield all combinations of the contexts of several partition routers; the last varies fastest.

    Each item of ``routers`` is a function that yields the contexts of one router.
    """
    if not routers:
        yield {}
        return
    first, *others = routers
    if not others:
        yield from first()
        return
    combinations = PartitionCache(cartesian_product(others))
    for context in first():
        for combination in combinations:
            yield PartitionSlice(combination).merge(context)
