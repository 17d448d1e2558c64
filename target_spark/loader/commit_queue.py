"""Thread pool that runs commits while the input is read: one queue per table.

- Jobs of one queue run one after the other in order of submission; jobs of different queues may run
  at the same time. So two threads never write the same table.
- After the first failure, and after `KeyedExecutor.stop`, no further job starts; running jobs
  finish.
- Waits are short and repeated, so a signal can interrupt the waiting thread.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, TypeAlias

__all__ = ["KeyedExecutor"]

_WAIT_SECONDS: Final = 0.2

_Job: TypeAlias = Callable[[], None]


@dataclass(frozen=True)
class _QueuedJob:
    job: _Job
    nbytes: int


class KeyedExecutor:
    """Runs jobs in at most ``threads`` threads, which are started when jobs arrive."""

    def __init__(self, threads: int) -> None:
        self._changed = threading.Condition()
        self._queues: dict[Hashable, deque[_QueuedJob]] = {}
        self._ready: deque[Hashable] = deque()
        self._running = 0
        self._nbytes = 0
        self._stopped = False
        self._closed = False
        self._failure: BaseException | None = None
        self._limit = threads
        self._threads: list[threading.Thread] = []

    @property
    def nbytes(self) -> int:
        """The number of bytes held by jobs that have not ended."""
        return self._nbytes

    @property
    def failure(self) -> BaseException | None:
        """The first exception raised by a job, or None."""
        return self._failure

    def submit(self, lane: Hashable, job: _Job, nbytes: int = 0) -> None:
        """Append a job to the queue of a key; ``nbytes`` is the size of the data it holds."""
        with self._changed:
            queue = self._queues.get(lane)
            if queue is None:
                queue = self._queues[lane] = deque()
                self._ready.append(lane)
            queue.append(_QueuedJob(job, nbytes))
            self._nbytes += nbytes
            if len(self._threads) < self._limit:
                name = f"writer-{len(self._threads) + 1}"
                thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()
            self._changed.notify_all()

    def wait(self, until: Callable[[], bool]) -> None:
        """Return when ``until()`` is True, a job has failed, or no job is left to run."""
        with self._changed:
            while not (until() or self._failure or self._idle()):
                self._changed.wait(_WAIT_SECONDS)

    def stop(self) -> None:
        """Prevent further jobs from starting."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def close(self) -> None:
        """Stop, wait for the running jobs, and end the threads."""
        self.stop()
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            while thread.is_alive():
                thread.join(_WAIT_SECONDS)

    def _idle(self) -> bool:
        return not self._running and (self._stopped or not self._queues)

    def _work(self) -> None:
        while (taken := self._take()) is not None:
            lane, waiting = taken
            failure: BaseException | None = None
            try:
                waiting.job()
            except BaseException as error:  # noqa: BLE001  raised in the waiting thread
                failure = error
            self._done(lane, waiting, failure)

    def _take(self) -> tuple[Hashable, _QueuedJob] | None:
        """Wait for the next job of a queue with no running job; return None after `close`."""
        with self._changed:
            while self._stopped or not self._ready:
                if self._closed:
                    return None
                self._changed.wait()
            lane = self._ready.popleft()
            self._running += 1
            return lane, self._queues[lane].popleft()

    def _done(self, lane: Hashable, waiting: _QueuedJob, failure: BaseException | None) -> None:
        with self._changed:
            self._running -= 1
            self._nbytes -= waiting.nbytes
            if failure is not None:
                self._failure = self._failure or failure
                self._stopped = True
            if self._queues[lane]:
                self._ready.append(lane)
            else:
                del self._queues[lane]
            self._changed.notify_all()
