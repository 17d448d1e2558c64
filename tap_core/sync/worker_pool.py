"""Thread pool that syncs partitions. Each thread has its own copies of the streams.

- A worker thread has its own `SyncRun` and its own copy of each stream that it syncs. The tap
  object, the stream class and the HTTP session are shared.
- The thread that owns the pool submits jobs. It waits if too many are queued.
- The first error ends all work: no job starts, and each worker stops at its next record and closes
  the tap's generator. Then the owner raises the error.
- All threads end with the pool. The exception is a worker that still waits for a response after a
  signal: the owner waits at most `GRACE_SECONDS` for it, and the worker writes nothing more.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tap_core.sync.plan import get_plan
from tap_core.sync.thread_stop_signal import StopSignal, WorkerStopped

if TYPE_CHECKING:
    from tap_core.incremental.time_windows import ReadInterval
    from tap_core.sync.interfaces import SyncStream
    from tap_core.sync.sync_run import SyncRun
    from tap_core.types import Context

__all__ = ["GRACE_SECONDS", "SyncJob", "WorkerPool"]

GRACE_SECONDS = 2.0
"""Seconds to wait for workers when a signal ends the tap."""

_POLL_SECONDS = 0.1
_JOBS_PER_WORKER = 2
"""Maximum number of queued or running jobs per worker."""


def _do_nothing(*_args: object) -> None:
    """Do nothing and return None. Default of a job's functions."""


@dataclass(frozen=True, slots=True)
class SyncJob:
    """Sync of one partition of a stream, for a worker thread or another process."""

    stream: SyncStream
    context: Context | None
    work: Callable[[Any], object] = _do_nothing
    """Function that a worker thread calls with its copy of the stream.

    Another process syncs the partition without it.
    """
    done: Callable[[], object] = _do_nothing
    """Function to call after success. It is not called after an error."""
    interval: ReadInterval | None = None
    """Time window of the partition to sync; None for the whole partition."""


class WorkerPool:
    """Pool of threads that sync partitions or streams.

    Args:
        owner: `SyncRun` of the thread that submits the jobs. Each worker thread gets a `SyncRun`
            branched from it.
        size: Maximum number of threads.
        streams: Streams that the jobs sync.
        may_create_pools: True if the threads sync whole streams and may create worker pools.
    """

    def __init__(
        self,
        owner: SyncRun,
        size: int,
        streams: Sequence[SyncStream],
        *,
        may_create_pools: bool = False,
    ) -> None:
        self.owner = owner
        self.stop_signal = StopSignal(owner.stop_signal)
        self._may_create_pools = may_create_pools
        self._size = size
        self._streams = streams
        self._condition = threading.Condition()
        self._jobs: deque[SyncJob] = deque()
        self._outstanding = 0
        self._idle = 0
        self._threads: list[threading.Thread] = []
        self._branches: list[SyncRun] = []
        self._ended = False

    # The owner's side

    def __enter__(self) -> WorkerPool:  # noqa: PYI034  Self needs Python 3.11
        for stream in self._streams:
            _prepare(stream, self._size)
        return self

    def submit(self, job: SyncJob) -> None:
        """Queue a job for the worker threads. If too many jobs are queued, wait for a free place.

        Raises:
            BaseException: The first error of a worker.
        """
        with self._condition:
            self._wait_until(lambda: self._outstanding < _JOBS_PER_WORKER * self._size)
            self._jobs.append(job)
            self._outstanding += 1
            if self._idle < len(self._jobs) and len(self._threads) < self._size:
                self._start_thread()
            self._condition.notify_all()

    def drain(self) -> None:
        """Wait until the worker threads have done all jobs.

        Raises:
            BaseException: The first error of a worker.
        """
        with self._condition:
            self._wait_until(lambda: not self._outstanding)

    def check(self) -> None:
        """Raise the first error of a worker thread, if any.

        Raises:
            WorkerStopped: No worker has failed, but the threads must stop.
        """
        self.stop_signal.check()

    def _wait_until(self, is_true: Callable[[], bool]) -> None:
        self.check()
        while not is_true():
            self._condition.wait(_POLL_SECONDS)
            self.check()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wait for the threads to end, and raise the first error of a worker.

        If the ``with`` block failed, the threads stop at their next record. After a signal, such as
        SIGTERM, the wait ends after `GRACE_SECONDS`. Table versions and sync costs in the threads'
        copies of streams are transferred to the original streams.
        """
        is_interrupted = (  # by a signal in this thread, not by the error of a worker
            error is not None
            and not isinstance(error, (Exception, WorkerStopped))
            and error is not self.stop_signal.error
        )
        with self._condition:
            if error is not None:
                self.stop_signal.has_owner_failed = True
            self._ended = True
            self._condition.notify_all()
        self._join_threads(GRACE_SECONDS if is_interrupted else None)
        for branch in self._branches:
            for thread_copy in branch.get_stream_copies():
                _merge_copy(thread_copy, self.owner.get_thread_stream(thread_copy._origin))
        if error is None:
            self.check()

    def _join_threads(self, timeout: float | None) -> None:
        """Wait at most ``timeout`` seconds for the worker threads to end; None means no limit."""
        end = None if timeout is None else time.monotonic() + timeout
        try:
            for thread in self._threads:
                while thread.is_alive() and (end is None or time.monotonic() < end):
                    thread.join(_POLL_SECONDS)
        finally:  # runs also when a second signal interrupts the wait
            self.stop_signal.is_abandoned = any(thread.is_alive() for thread in self._threads)
        if self.stop_signal.is_abandoned:
            for branch in self._branches:  # the bookmarks cover the rows already sent
                branch.settle_bookmarks()
            names = ", ".join(sorted({f"'{stream.name}'" for stream in self._streams}))
            self._log("Workers of %s still wait for a response; the tap ends without them.", names)

    def _start_thread(self) -> None:
        branch = self.owner.branch(self.stop_signal, may_create_pools=self._may_create_pools)
        for stream in self._streams:
            branch.get_thread_stream(stream)
        name = f"tap-core-worker-{self._streams[0].name}-{len(self._threads)}"
        thread = threading.Thread(target=self._work, args=(branch,), name=name, daemon=True)
        self._branches.append(branch)
        self._threads.append(thread)
        thread.start()

    def _log(self, message: str, *values: Any, level: int = logging.WARNING) -> None:
        self._streams[0].logger.log(level, message, *values)

    # The worker's side

    def _work(self, branch: SyncRun) -> None:
        with branch.entered():
            while (job := self._next()) is not None:
                try:
                    job.work(branch.get_thread_stream(job.stream))
                    branch.settle_bookmarks()
                    job.done()
                except BaseException as error:  # noqa: BLE001  the owner raises it
                    self._fail(error, job)
                with self._condition:
                    self._outstanding -= 1
                    self._condition.notify_all()
            try:
                branch.flush()
            except BaseException as error:  # noqa: BLE001  the owner raises it
                self._fail(error, None)

    def _next(self) -> SyncJob | None:
        """Wait for a queued job, and return it. Return None if the worker thread must end."""
        with self._condition:
            self._idle += 1
            try:
                while not self._jobs and not self._ended and not self.stop_signal.is_set:
                    self._condition.wait(_POLL_SECONDS if self.stop_signal.outer else None)
                return None if self.stop_signal.is_set or not self._jobs else self._jobs.popleft()
            finally:
                self._idle -= 1

    def _fail(self, error: BaseException, job: SyncJob | None) -> None:
        with self._condition:
            is_first = not self.stop_signal.is_set
            if is_first and not isinstance(error, WorkerStopped):
                self.stop_signal.error = error
            self._condition.notify_all()
        if is_first and job is not None and not self.owner.is_broken:
            where = dict(job.context) if job.context else "without a context"
            self._log(
                "Stream '%s', %s: %s: %s. The other workers stop at their next record.",
                job.stream.name,
                where,
                type(error).__name__,
                error,
                level=logging.ERROR,
            )


# Copies of streams


def _prepare(stream: Any, threads: int) -> None:
    """Create the objects of a stream that its copies in ``threads`` threads will share.

    Examples are its HTTP session and its stream maps. The same is done for child streams.
    """
    _ = stream.state_manager
    get_plan(stream)  # also makes the stream maps
    stream._prepare_for_threads(threads)
    for child in stream.child_streams:
        _prepare(child, threads)


def _merge_copy(thread_copy: Any, stream: Any) -> None:
    """Transfer the table version and sync costs from a thread's copy of a stream to the stream."""
    if thread_copy._stream_version is not None:
        stream._stream_version = thread_copy._stream_version
    for kind, cost in thread_copy._sync_costs.items():
        stream._sync_costs[kind] = stream._sync_costs.get(kind, 0) + cost
