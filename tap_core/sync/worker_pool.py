"""Threads that sync partitions, each on copies of its own.

Rules of the room: a worker is a branch of a run and has a copy of each stream that it
syncs, made for it; what hangs on the tap, the class or the HTTP session is shared. The
owner of a crew gives out work and waits; it waits too when much is outstanding. The first
error ends the work of all: nothing new begins, a worker stops at its next record, and its
author's generator is closed. Then the owner raises that error. No thread outlives its
crew, but for one: who leaves on a signal does not wait long for a worker that waits for
an answer, and from then on nothing of that worker goes out.
"""

from __future__ import annotations

import copy
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tap_core.sync.plan import get_plan

if TYPE_CHECKING:
    from tap_core.incremental.windows import ReadInterval
    from tap_core.sync.interfaces import SyncStream
    from tap_core.sync.sync_run import SyncRun
    from tap_core.types import Context

__all__ = ["GRACE_SECONDS", "Job", "WorkerPool", "WorkerStopped"]

GRACE_SECONDS = 2.0
"""How long workers are waited for when a signal ends the tap."""

_LOOK_SECONDS = 0.1
_OUTSTANDING = 2
"""Jobs that wait, for each worker."""


class WorkerStopped(BaseException):
    """The work of this thread has ended; no ``except Exception`` of an author takes it."""


@dataclass(frozen=True, slots=True)
class Job:
    """What one worker does at a time: ``work`` is called with its copy of ``stream``."""

    stream: SyncStream
    context: Context | None
    work: Callable[[Any], object]
    done: Callable[[], object] = bool
    """Called when it is done; not after an error."""
    interval: ReadInterval | None = None
    """The one window of the context that it is about, where it is not about all of it."""


class WorkerPool:
    """At most ``size`` threads for the streams of one run; hired when there is work.

    ``leads`` is whether they sync whole streams, and may have crews of their own.
    """

    def __init__(
        self, owner: SyncRun, size: int, streams: Sequence[SyncStream], *, leads: bool = False
    ) -> None:
        self.owner = owner
        self.leads = leads
        self._size = size
        self._streams = streams
        self._turn = threading.Condition()
        self._jobs: deque[Job] = deque()
        self._outstanding = 0
        self._idle = 0
        self._threads: list[threading.Thread] = []
        self._branches: list[SyncRun] = []
        self._error: BaseException | None = None
        self._ended = self._is_over = self._abandoned = False

    # The owner's side

    def __enter__(self) -> WorkerPool:  # noqa: PYI034  Self is of 3.11
        for stream in self._streams:
            _prepare(stream, self._size)
        return self

    def submit(self, job: Job) -> None:
        """Give out a job, as soon as not too many are outstanding.

        Raises:
            BaseException: the first error of a worker.
        """
        with self._turn:
            self._wait_until(lambda: self._outstanding < _OUTSTANDING * self._size)
            self._jobs.append(job)
            self._outstanding += 1
            if self._idle < len(self._jobs) and len(self._threads) < self._size:
                self._hire()
            self._turn.notify_all()

    def drain(self) -> None:
        """Wait until all jobs are done.

        Raises:
            BaseException: the first error of a worker.
        """
        with self._turn:
            self._wait_until(lambda: not self._outstanding)

    def check(self) -> None:
        """Raise the first error of a worker; or `Stopped`, where the work ended elsewhere."""
        if self._error is not None:
            raise self._error
        if self.is_stopped:
            raise WorkerStopped

    def _wait_until(self, holds: Callable[[], bool]) -> None:
        self.check()
        while not holds():
            self._turn.wait(_LOOK_SECONDS)
            self.check()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        leaves = error is not None and not isinstance(error, (Exception, WorkerStopped))
        with self._turn:
            self._is_over = error is not None or self._is_over
            self._ended = True
            self._turn.notify_all()
        self._dismiss(GRACE_SECONDS if leaves and error is not self._error else None)
        for branch in self._branches:
            for made in branch.copies():
                _give_back(made, self.owner.own(made._origin))
        if error is None:
            self.check()

    def _dismiss(self, patience: float | None) -> None:
        """Wait for the threads to end, in seconds, or for as long as it takes."""
        until = None if patience is None else time.monotonic() + patience
        try:
            for thread in self._threads:
                while thread.is_alive() and (until is None or time.monotonic() < until):
                    thread.join(_LOOK_SECONDS)
        finally:  # a second signal is not kept waiting
            self._abandoned = any(thread.is_alive() for thread in self._threads)
        if self._abandoned:
            for branch in self._branches:  # what they sent is not to be sent again
                branch.settle_bookmarks()
            names = ", ".join(sorted({f"'{stream.name}'" for stream in self._streams}))
            self._log("Workers of %s still wait for an answer; they are left behind.", names)

    def _hire(self) -> None:
        branch = self.owner.branch(self)
        for stream in self._streams:
            branch.own(stream)
        name = f"tap-core-worker-{self._streams[0].name}-{len(self._threads)}"
        thread = threading.Thread(target=self._work, args=(branch,), name=name, daemon=True)
        self._branches.append(branch)
        self._threads.append(thread)
        thread.start()

    def _log(self, message: str, *values: Any, level: int = logging.WARNING) -> None:
        self._streams[0].logger.log(level, message, *values)

    # The worker's side

    @property
    def is_stopped(self) -> bool:
        """Whether a worker is to stop: by an error, or because the owner has ended."""
        outer = self.owner.leader
        return self._error is not None or self._is_over or (outer is not None and outer.is_stopped)

    def check_output(self) -> None:
        """Raise `Stopped` when nobody waits for this thread's rows any more."""
        outer = self.owner.leader
        if self._abandoned:
            raise WorkerStopped
        if outer is not None:
            outer.check_output()

    def until_stopped(self, records: Iterable[Any]) -> Iterator[Any]:
        """Yield records until the work has ended; then close what they come from."""
        try:
            for record in records:
                if self.is_stopped:
                    raise WorkerStopped
                yield record
        finally:
            close = getattr(records, "close", None)
            if close is not None:
                close()

    def copy(self, stream: SyncStream) -> Any:
        """Return a copy of a stream for one thread; its children are still the old ones."""
        made: Any = copy.copy(stream)
        made._origin = made._origin or stream
        made._plan = None
        made._sync_costs = {}
        return made

    def _work(self, branch: SyncRun) -> None:
        with branch.entered():
            while (job := self._next()) is not None:
                try:
                    job.work(branch.own(job.stream))
                    branch.settle_bookmarks()
                    job.done()
                except BaseException as error:  # noqa: BLE001  the owner raises it
                    self._fail(error, job)
                with self._turn:
                    self._outstanding -= 1
                    self._turn.notify_all()
            try:
                branch.flush()
            except BaseException as error:  # noqa: BLE001  the owner raises it
                self._fail(error, None)

    def _next(self) -> Job | None:
        """Wait for a job; None when there will be none."""
        with self._turn:
            self._idle += 1
            try:
                while not self._jobs and not self._ended and not self.is_stopped:
                    self._turn.wait(_LOOK_SECONDS if self.owner.leader else None)
                return None if self.is_stopped or not self._jobs else self._jobs.popleft()
            finally:
                self._idle -= 1

    def _fail(self, error: BaseException, job: Job | None) -> None:
        with self._turn:
            is_first = not self.is_stopped
            if is_first and not isinstance(error, WorkerStopped):
                self._error = error
            self._turn.notify_all()
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
    """Make what all copies are to share before there are any."""
    _ = stream.state_manager
    get_plan(stream)  # and with it the stream maps
    stream._prepare_for_threads(threads)
    for child in stream.child_streams:
        _prepare(child, threads)


def _give_back(made: Any, stream: Any) -> None:
    """Add to a stream what its copy has counted, and the version that it has begun."""
    if made._stream_version is not None:
        stream._stream_version = made._stream_version
    for kind, cost in made._sync_costs.items():
        stream._sync_costs[kind] = stream._sync_costs.get(kind, 0) + cost
