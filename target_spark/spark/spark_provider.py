"""Start of Spark for a load, and acquisition of its job lock, once there is something to load.

The lock is acquired before the JVM starts and released after it ends. Spark starts in the
background: writer threads that request a session wait for it, the input reader does not.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from target_spark.config.options import RunInfo
from target_spark.errors import EngineLostError, JobLockError, TargetSparkError
from target_spark.phase_timing import Phases
from target_spark.spark.connect_session import ConnectSession
from target_spark.spark.session import Session, SparkSettings
from target_spark.storage.commit_retry import FailureKind, classify_failure
from target_spark.storage.hadoop_fs import is_remote_session
from target_spark.storage.job_lock import JobLock
from target_spark.warm_engine.engine_folder import wait_for_engine
from target_spark.warm_engine.session import EngineSession, looks_for_engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "SparkProvider",
    "collect_garbage",
    "find_failure",
    "make_lazy_session",
    "start_spark",
    "start_spark_on_demand",
]

_AnySession: TypeAlias = Session | ConnectSession | EngineSession
"""Type of the object that starts Spark or connects to it: a local Spark, a Spark Connect server, or
an engine (a Spark that several runs use)."""

_T = TypeVar("_T")
_LOSS_SECONDS: Final = 10.0
"""Seconds to wait for a JVM or an engine (a shared Spark) to end after the connection to it
broke."""

_LEFTOVER_SECONDS: Final = 60.0
"""Maximum seconds to wait until the JVM of a killed engine (a shared Spark) has ended."""


def start_spark(
    settings: SparkSettings,
    *,
    run: RunInfo | None = None,
    locks: Sequence[JobLock] = (),
    phases: Phases | None = None,
) -> _AnySession:
    """Start a local Spark, or connect to a Spark Connect server or an engine, in the background.

    An engine is a local Spark process that keeps running between runs.

    Args:
        settings: The Spark settings of the run. ``remote`` is the Spark Connect server, if any.
        run: The job and the id of the run, which an engine records; None for no job.
        locks: The locks of the job. A local JVM inherits their open files. The process id of the
            JVM, the sessions on the Spark Connect server, and the folder of the engine are stored
            in them before Spark can write.
        phases: Recorder of the run's phases, or None.
    """
    if settings.remote:
        return ConnectSession(
            settings,
            leftover_sessions=[name for lock in locks for name in lock.leftover_sessions],
            on_sessions=_record_in(locks, JobLock.record_sessions),
            phases=phases,
        ).start()
    open_files = [lock.fileno() for lock in locks]
    on_jvm = _record_in(locks, JobLock.record_jvm)
    if looks_for_engine(settings):
        return EngineSession(
            settings,
            run=run.id if run else "",
            job=run.job if run else "",
            locks=open_files,
            on_jvm=on_jvm,
            on_engine=_record_in(locks, JobLock.record_engine),
            phases=phases,
        ).start()
    return Session(settings, pass_fds=open_files, on_jvm=on_jvm, phases=phases).start()


def _record_in(
    locks: Sequence[JobLock], record: Callable[[JobLock, _T], None]
) -> Callable[[_T], None]:
    """Return a function that calls ``record`` with each of the locks and its own argument."""

    def record_fact(fact: _T) -> None:
        for lock in locks:
            record(lock, fact)

    return record_fact


class SparkProvider:
    """Manager of a run's Spark and job lock. The lock prevents two runs of a job at the same time.

    Args:
        settings: The Spark settings of the run.
        warehouse: The location of the tables, or None if the run writes no table and needs no lock.
        run: The job and the id of the run.
        starts_on_demand: True to start Spark when a session is first used; False to start it in
            `begin`.
        phases: Recorder of the run's phases, or None.
    """

    def __init__(
        self,
        settings: SparkSettings,
        warehouse: str | None,
        run: RunInfo,
        *,
        starts_on_demand: bool = False,
        phases: Phases | None = None,
    ) -> None:
        self._settings = settings
        self._warehouse = warehouse
        self._run = run
        self._starts_on_demand = starts_on_demand
        self._phases = phases or Phases()
        self._starting = threading.Lock()
        self._has_begun = False
        self._locks: list[JobLock] = []
        self._session: _AnySession | None = None

    @property
    def started(self) -> bool:
        """True if `begin` has been called, which starts Spark or lets it start on demand."""
        return self._has_begun

    @property
    def application(self) -> str | None:
        """Spark's application id, or None before Spark has started."""
        return None if self._session is None else self._session.application

    @property
    def version(self) -> str:
        """Version of the run's Spark, such as ``4.1.1``; "" before a server has responded."""
        if isinstance(self._session, ConnectSession):
            return self._session.version
        from pyspark.version import __version__

        return __version__

    @property
    def failure(self) -> TargetSparkError | None:
        """Error that prevented the start of Spark or ended it; None if there is no such error."""
        return None if self._session is None else self._session.failure

    def begin(self) -> None:
        """Acquire the job lock and start Spark in the background, unless it starts on demand.

        Later calls do nothing.

        Raises:
            JobLockError: Another run of the job is active.
            TableError: The folder of the tables cannot be written.
        """
        if self._has_begun:
            return
        if self._warehouse is not None:
            with self._phases.run("waiting for the lock of the job"):
                self._acquire_locks(self._warehouse)
        self._has_begun = True
        if not self._starts_on_demand:
            self._start()

    def _acquire_locks(self, warehouse: str) -> None:
        run = self._run
        for job in run.jobs:  # includes former names, under which an earlier release may be running
            lock = JobLock.acquire(warehouse, job, run=run.id, started=run.started)
            self._locks.append(lock)
            _wait_for_leftover_engine(lock, job)

    def _start(self) -> _AnySession:
        """Start Spark in the background unless it has been started, and return its session."""
        with self._starting:
            if self._session is None:
                self._session = start_spark(
                    self._settings, run=self._run, locks=self._locks, phases=self._phases
                )
            return self._session

    def raise_if_engine_lost(self, error: BaseException) -> None:
        """Raise an error if the run's engine (shared Spark process) has ended.

        Before that, the run's own Spark is started, so that the caller can repeat its work.
        ``error`` is the error of this work. If it is a broken connection, wait up to ten seconds
        for the engine to end.

        Raises:
            EngineLostError: The engine has ended.
        """
        if not isinstance(self._session, EngineSession):
            return
        is_jvm_lost = classify_failure(error) is FailureKind.JVM_LOST
        seconds = _LOSS_SECONDS if is_jvm_lost else 0
        if self._session.replace_lost_engine(seconds):
            raise EngineLostError(
                "The engine ended in the middle of the run. Earlier commits are safe, and no state"
                " is ahead of them. The run continues with its own Spark; if it fails with this"
                " error, start it again."
            ) from error

    def spark(self) -> SparkSession:
        """Return the calling thread's session, after waiting until Spark has started.

        Raises:
            SparkUnavailableError: Spark cannot start; the message has the reason.
            RuntimeError: `begin` has not been called.
        """
        if not self._has_begun:
            raise RuntimeError("Spark was requested before begin() was called.")
        return self._start().thread_session()

    def spark_on_demand(self) -> SparkSession:
        """Return a session for the calling thread, if possible without starting Spark.

        If Spark has not been started and is to be started on demand, the session is a proxy. It
        starts Spark when one of its attributes is accessed.
        """
        if self._starts_on_demand and self._session is None:
            return self.lazy_spark()
        return self.spark()

    def lazy_spark(self) -> SparkSession:
        """Return a proxy session that starts Spark, or waits for it, on first attribute access."""
        return make_lazy_session(self.spark)

    def close(self) -> None:
        """Stop the run's Spark, or end its sessions on a server; then release the job lock."""
        if self._session is not None:
            with self._phases.run("stopping Spark"):
                self._session.stop()
        while self._locks:
            self._locks.pop().release()

    def stop_waiting(self) -> None:
        """Kill a local JVM that is still waiting for the executors of its cluster.

        If Spark has started, do nothing.
        """
        if isinstance(self._session, Session):
            self._session.stop_waiting()

    def kill(self) -> None:
        """Kill the run's JVM, or cancel its work on a Spark Connect server or shared Spark process.

        A commit in progress may be completed or lost.
        """
        if self._session is not None:
            self._session.kill()


@contextmanager
def start_spark_on_demand(settings: SparkSettings) -> Iterator[Callable[[], SparkSession]]:
    """Context manager: yield a function that returns a session and starts Spark on its first call.

    Spark, if it was started, is stopped at the end of the block.
    """
    started: list[_AnySession] = []

    def get_spark() -> SparkSession:
        if not started:
            started.append(start_spark(settings))
        return started[0].spark()

    try:
        yield get_spark
    finally:
        for session in started:
            session.stop()


def make_lazy_session(get_spark: Callable[[], SparkSession]) -> SparkSession:
    """Return a proxy that calls ``get_spark`` for the Spark session on each attribute access."""
    return cast("SparkSession", _SessionOnDemand(get_spark))


class _SessionOnDemand:
    """Proxy of a `SparkSession` that gets the session from a function on each attribute access."""

    def __init__(self, get_spark: Callable[[], SparkSession]) -> None:
        self._get_spark = get_spark

    def __getattr__(self, name: str) -> Any:
        return getattr(self._get_spark(), name)


def _wait_for_leftover_engine(lock: JobLock, job: str) -> None:
    """Wait until the engine that a killed run of the job used has ended or accepts connections.

    An engine is a shared Spark process. While it ends, its JVM could still commit. ``lock``, the
    lock of the job, contains the folder of the engine.

    Raises:
        JobLockError: The JVM still runs after 60 seconds.
    """
    folder = lock.leftover_engine
    if folder is None:
        return
    if not wait_for_engine(folder, _LEFTOVER_SECONDS):
        raise JobLockError(
            f"The last run of job {job!r} and its engine were killed, but the engine's JVM still"
            f" runs after {_LEFTOVER_SECONDS:g} s and may yet commit. End that JVM and start"
            f" again. (The engine's folder is {folder}.)"
        )
    lock.record_engine(None)


def find_failure(spark: SparkProvider | Session, error: BaseException) -> TargetSparkError | None:
    """Return the error that ended Spark, or None, after work that used Spark raised ``error``.

    If ``error`` is a broken connection, first wait up to ten seconds for the JVM's end: the system
    closes the connections of a JVM some time before its process has ended.
    """
    is_jvm_lost = classify_failure(error) is FailureKind.JVM_LOST
    end = time.monotonic() + (_LOSS_SECONDS if is_jvm_lost else 0)
    while (failure := spark.failure) is None and time.monotonic() < end:
        time.sleep(_LOSS_SECONDS / 100)
    return failure


def collect_garbage(spark: SparkSession) -> None:
    """Run the garbage collector of a local JVM, to free the memory of earlier batches.

    With Spark Connect, do nothing.
    """
    if not is_remote_session(spark):
        spark.sparkContext._jvm.java.lang.System.gc()  # type: ignore[union-attr]  # noqa: SLF001
