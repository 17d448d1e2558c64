"""Start of Spark together with the job lock, only when there is something to load.

The lock is taken before the JVM starts and is released after it ends. Writer threads that request a
session wait for Spark; the input reader never waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from target_spark.config.options import RunInfo
from target_spark.errors import TargetSparkError
from target_spark.spark.connect_session import ConnectSession
from target_spark.spark.session import Session, SparkSettings
from target_spark.storage.hadoop_fs import is_remote_session
from target_spark.storage.job_lock import JobLock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LeasedSpark", "collect_garbage", "start_spark"]


def start_spark(
    settings: SparkSettings,
    *,
    pass_fds: Sequence[int] = (),
    on_jvm: Callable[[int], None] | None = None,
    leftover_sessions: Sequence[str] = (),
    on_sessions: Callable[[Sequence[str]], None] | None = None,
) -> Session | ConnectSession:
    """Start a local Spark, or connect to a Spark Connect server. Return at once.

    The start continues in the background.

    Args:
        settings: The Spark settings of the run. If ``remote`` is set, it is the server to connect
            to.
        pass_fds: File descriptors that a local JVM inherits, such as the descriptor of a lock.
        on_jvm: A function called with the process id of a local JVM.
        leftover_sessions: Ids of sessions that remain on the server from a run that was killed.
            They are ended first.
        on_sessions: A function called with the ids of the current sessions on the server, whenever
            a session begins or ends.
    """
    if settings.remote:
        return ConnectSession.start(
            settings, leftover_sessions=leftover_sessions, on_sessions=on_sessions
        )
    return Session.start(settings, pass_fds=pass_fds, on_jvm=on_jvm)


class LeasedSpark:
    """The Spark of a run, together with the lock of the job. Spark starts when it is first needed.

    The lock prevents two runs of the same job at the same time.

    Args:
        settings: The Spark settings of the run.
        warehouse: The location of the tables. None if the run writes to no table and needs no lock.
        run: The job and the id of the run.
    """

    def __init__(self, settings: SparkSettings, warehouse: str | None, run: RunInfo) -> None:
        self._settings = settings
        self._warehouse = warehouse
        self._run = run
        self._leases: list[JobLock] = []
        self._session: Session | ConnectSession | None = None

    @property
    def started(self) -> bool:
        """True if `begin` has been called."""
        return self._session is not None

    @property
    def application(self) -> str | None:
        """Spark's application id. It is None until Spark has started."""
        return None if self._session is None else self._session.application

    @property
    def version(self) -> str:
        """Spark's version, such as ``4.1.1``. It is available once Spark has started."""
        if isinstance(self._session, ConnectSession):
            return self._session.version
        from pyspark.version import __version__

        return __version__

    @property
    def failure(self) -> TargetSparkError | None:
        """The error that prevented the start of Spark or ended Spark; None if no error is known."""
        return None if self._session is None else self._session.failure

    def begin(self) -> None:
        """Acquire the job's lock and start Spark in the background.

        If this method has been called before, nothing happens.

        Raises:
            JobLockError: Another run of the job is active.
            TableError: The folder of the tables cannot be written.
        """
        if self._session is not None:
            return
        if self._warehouse is None:
            self._session = start_spark(self._settings)
            return
        run = self._run
        for job in run.jobs:  # an earlier release may be running under a former name
            lease = JobLock.acquire(self._warehouse, job, run=run.id, started=run.started)
            self._leases.append(lease)
        self._session = start_spark(
            self._settings,
            pass_fds=[lease.fileno() for lease in self._leases],
            on_jvm=self._record_jvm,
            leftover_sessions=[name for lease in self._leases for name in lease.leftover_sessions],
            on_sessions=self._record_sessions,
        )

    def _record_jvm(self, pid: int) -> None:
        for lease in self._leases:
            lease.record_jvm(pid)

    def _record_sessions(self, names: Sequence[str]) -> None:
        for lease in self._leases:
            lease.record_sessions(names)

    def spark(self) -> SparkSession:
        """Return the calling thread's session. Wait until Spark has started.

        Raises:
            SparkUnavailableError: Spark cannot start; the message has the reason.
            RuntimeError: `begin` was not called before.
        """
        if self._session is None:
            raise RuntimeError("Spark was requested before begin() was called.")
        return self._session.thread_session()

    def close(self) -> None:
        """Stop the local Spark, or end the sessions on the server. Then release the job's lock."""
        if self._session is not None:
            self._session.stop()
        while self._leases:
            self._leases.pop().release()

    def stop_waiting(self) -> None:
        """Kill the JVM if it is still waiting for the executors of its cluster.

        If Spark has already started, nothing happens.
        """
        if isinstance(self._session, Session):
            self._session.stop_waiting()

    def kill(self) -> None:
        """Kill the JVM, or interrupt the run's operations on the Spark Connect server.

        This happens even if a commit is in progress.
        """
        if self._session is not None:
            self._session.kill()


def collect_garbage(spark: SparkSession) -> None:
    """Run the JVM's garbage collector, to free the memory that large rows of earlier batches used.

    With Spark Connect nothing happens.
    """
    if not is_remote_session(spark):
        spark.sparkContext._jvm.java.lang.System.gc()  # type: ignore[union-attr]  # noqa: SLF001
