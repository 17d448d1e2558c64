"""Lazy cache of a stream's partitions, which partition routers generate.

A context, a dict of partition values, identifies each partition. It is generated when the parent
stream yields its record, so the first slice is read before the last parent record. All contexts are
cached, because they are iterated over again at the end of the run, and in the product of several
routers.
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
    """Lazy cache of a stream's partitions; each is a context (a dict of partition values).

    Several threads may iterate over it. The first iteration yields the contexts with their extra
    fields, which do not identify a partition. Later iterations yield plain dicts without them,
    unless ``keeps_extra_fields`` is True.
    """

    def __init__(self, contexts: Iterator[Context], *, keeps_extra_fields: bool = False) -> None:
        self._contexts = contexts
        self._keeps_extra_fields = keeps_extra_fields
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
            self._cached.append(context if self._keeps_extra_fields else dict(context))
        return context


def cartesian_product(routers: Sequence[Callable[[], Iterable[Context]]]) -> Iterator[Context]:
    """Yield all combinations of the slices of several partition routers, as merged contexts.

    A context is a dict of partition values. The last router varies fastest. If several routers have
    a value or an extra field of one name, the first router's value is used, as in airbyte-cdk.

    Args:
        routers: One function for each router, which yields the contexts of the router; at least
            one.
    """
    first, *others = routers
    if not others:
        yield from first()
        return
    combinations = PartitionCache(cartesian_product(others), keeps_extra_fields=True)
    for context in first():
        extra_fields = getattr(context, "extra_fields", None)
        partition = PartitionSlice(context, extra_fields=extra_fields)
        for combination in combinations:
            yield partition.merge(combination)
