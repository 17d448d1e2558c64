"""Reading of time windows or partitions ahead, in several threads, with results in order.

Each thread reads one window or partition at a time, at most a few batches of records ahead of the
consumer. Records and errors are returned in the order of a sequential read. The threads belong to a
worker pool and end with it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from tap_core.sync.thread_stop_signal import StopSignal, WorkerStopped
from tap_core.sync.worker_pool import SyncJob, WorkerPool

if TYPE_CHECKING:
    from tap_core.sync.interfaces import SyncStream

__all__ = ["prefetch_in_order"]

_POLL_SECONDS = 0.1
_BATCH_SIZE = 100
"""Number of records that a thread passes on at once; fewer if the consumer waits for a record."""
_MAX_BATCHES = 10
"""Number of queued batches at which a reading thread waits for the consumer."""

_Part = TypeVar("_Part")


def prefetch_in_order(
    pool: WorkerPool,
    stream: SyncStream,
    size: int,
    parts: Iterable[_Part],
    read: Callable[[Any, _Part], Iterable[Any]],
) -> Iterator[tuple[_Part, Iterator[Any]]]:
    """Read several time windows or partitions of a stream ahead, in threads.

    Yield each window or partition with an iterator of its records, in the order of ``parts``. The
    consumer must exhaust the iterator before it requests the next pair.

    Args:
        pool: Worker pool whose threads read.
        stream: Stream to read.
        size: Number of windows or partitions to read in parallel.
        parts: The time windows or partitions.
        read: Function that returns the records of a window or partition. It is called with a
            thread's copy of the stream, and the window or partition.
    """
    started: deque[tuple[_Part, _Pipe]] = deque()
    remaining = iter(parts)
    while True:
        for part in islice(remaining, size - len(started)):
            started.append((part, _begin(pool, stream, part, read)))
        if not started:
            return
        part, pipe = started[0]
        yield part, pipe.records()
        started.popleft()


def _begin(
    pool: WorkerPool, stream: SyncStream, part: _Part, read: Callable[[Any, _Part], Iterable[Any]]
) -> _Pipe:
    """Start to read a window or partition in a thread. Return the queue of its records."""
    pipe = _Pipe(pool.stop_signal)
    pool.submit(SyncJob(stream, None, lambda stream: pipe.fill(read(stream, part))))
    return pipe


class _Pipe:
    """Queue of limited size that passes batches of records from one thread to another."""

    def __init__(self, stop_signal: StopSignal) -> None:
        self._stop_signal = stop_signal
        self._condition = threading.Condition()
        self._batches: deque[list[Any]] = deque()
        self._error: Exception | None = None
        self._has_ended = False
        self._is_awaited = False

    def fill(self, records: Iterable[Any]) -> None:
        """Add all records to the queue; called by the reading thread.

        An error of the iterable is stored, and `records` raises it in the other thread.
        """
        batch: list[Any] = []
        try:
            for record in self._stop_signal.until_set(records):
                batch.append(record)
                if self._is_awaited or len(batch) >= _BATCH_SIZE:
                    self._push_batch(batch)
                    batch = []
        except Exception as error:  # noqa: BLE001  the consumer raises it
            self._error = error
        with self._condition:
            self._batches.append(batch)
            self._has_ended = True
            self._condition.notify_all()

    def _push_batch(self, batch: list[Any]) -> None:
        with self._condition:
            self._batches.append(batch)
            self._is_awaited = False
            self._condition.notify_all()
            while len(self._batches) >= _MAX_BATCHES:
                if self._stop_signal.is_set:
                    raise WorkerStopped
                self._condition.wait(_POLL_SECONDS)

    def records(self) -> Iterator[Any]:
        """Yield the records as they arrive from the reading thread.

        Raises:
            Exception: The error of the reading thread, after the records read before it.
        """
        while (batch := self._next_batch()) is not None:
            yield from batch
        if self._error is not None:
            raise self._error

    def _next_batch(self) -> list[Any] | None:
        """Wait for the next batch of records, and return it. Return None after the last batch."""
        with self._condition:
            while not self._batches and not self._has_ended:
                self._is_awaited = True
                self._condition.wait(_POLL_SECONDS)
                self._stop_signal.check()
            self._is_awaited = False
            batch = self._batches.popleft() if self._batches else None
            self._condition.notify_all()
        return batch
