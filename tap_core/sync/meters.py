"""What is counted and timed while streams are synced.

Rules of the room: one count and one time for a stream and run, whether its contexts are
partitions, or those of a child, or are synced in several threads.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tap_core.metrics import Counter, Timer
    from tap_core.sync.contract import SyncStream
    from tap_core.sync.run import Run
    from tap_core.types import Context

__all__ = ["Tally", "metered"]


class Tally:
    """Counts the records of one stream in all threads; it takes a counter's place."""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._lock = threading.Lock()
        self._since_state = 0

    def with_context(self, value: Context | None) -> None:
        """Say nothing: there are several contexts at once."""

    def increment(self, value: int = 1) -> None:
        """Count ``value`` more."""
        with self._lock:
            self._since_state += value
            self._counter.increment(value)

    def is_due(self, frequency: int) -> bool:
        """Return whether so many records were counted since this was last true."""
        with self._lock:
            if self._since_state < frequency:
                return False
            self._since_state %= frequency
            return True


@contextmanager
def metered(stream: SyncStream, run: Run) -> Iterator[tuple[Counter | Tally, Timer | Tally]]:
    """Count and time a stream; the contexts of a child share one measurement."""
    if run.leader is not None and not run.leader.leads and run.meter_stack is not None:
        with run.outbox.lock:
            pair = run.meters.get(stream.name) or _enter_meters(stream, run, run.meter_stack)
        yield run.leader.meters(stream.name, pair)
    elif stream.name in run.meters:
        yield run.meters[stream.name]
    elif run.meter_stack is not None:
        yield _enter_meters(stream, run, run.meter_stack)
    else:
        with ExitStack() as stack:
            run.meter_stack = stack
            try:
                yield _enter_meters(stream, run, stack)
            finally:
                run.meter_stack = None
                run.meters.clear()


def _enter_meters(stream: SyncStream, run: Run, stack: ExitStack) -> tuple[Counter, Timer]:
    pair = (
        stack.enter_context(stream.get_record_counter()),
        stack.enter_context(stream.get_sync_timer()),
    )
    run.meters[stream.name] = pair
    return pair
