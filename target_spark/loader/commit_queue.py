"""Threads that commit while the input is read: one lane per table, a few lanes at a time.

Rules of the room:

- The jobs of a lane run one after the other, in the order they came; two lanes may run
  side by side. So one table is never written by two threads.
- After the first failure, and after `stop`, no further job starts; the one that runs is
  let finish.
- Whoever waits here can be interrupted by a signal: waits are short and repeated.
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
class _Waiting:
    job: _Job
    nbytes: int


class KeyedExecutor:
    """Runs jobs in ``threads`` threads, which start when there is something to do."""

    def __init__(self, threads: int) -> None:
        self._changed = threading.Condition()
        self._queues: dict[Hashable, deque[_Waiting]] = {}
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
        """How many bytes the jobs that have not ended stand for."""
        return self._nbytes

    @property
    def failure(self) -> BaseException | None:
        """The first exception of a job."""
        return self._failure

    def submit(self, lane: Hashable, job: _Job, nbytes: int = 0) -> None:
        """Append a job to a lane."""
        with self._changed:
            queue = self._queues.get(lane)
            if queue is None:
                queue = self._queues[lane] = deque()
                self._ready.append(lane)
            queue.append(_Waiting(job, nbytes))
            self._nbytes += nbytes
            if len(self._threads) < self._limit:
                name = f"writer-{len(self._threads) + 1}"
                thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()
            self._changed.notify_all()

    def wait(self, until: Callable[[], bool]) -> None:
        """Return when ``until()`` holds, a job has failed, or nothing is left to run."""
        with self._changed:
            while not (until() or self._failure or self._idle()):
                self._changed.wait(_WAIT_SECONDS)

    def stop(self) -> None:
        """Start no further job."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def close(self) -> None:
        """Stop, wait for the jobs that run, and end the threads."""
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
            except BaseException as error:  # noqa: BLE001  raised by whoever waits
                failure = error
            self._done(lane, waiting, failure)

    def _take(self) -> tuple[Hashable, _Waiting] | None:
        """Wait for the next job of a lane that does not run; None at the end."""
        with self._changed:
            while self._stopped or not self._ready:
                if self._closed:
                    return None
                self._changed.wait()
            lane = self._ready.popleft()
            self._running += 1
            return lane, self._queues[lane].popleft()

    def _done(self, lane: Hashable, waiting: _Waiting, failure: BaseException | None) -> None:
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
