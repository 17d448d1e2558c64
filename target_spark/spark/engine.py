"""Spark and the right to commit, taken together, and only when there is something to load.

Rules of the room: the lease comes before the JVM and outlives it. Whoever asks for a
session waits for Spark here; the reader of the input never does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from target_spark.config.options import RunInfo
from target_spark.errors import TargetSparkError
from target_spark.spark.connect_session import ConnectSession
from target_spark.spark.session import Session, SparkSettings
from target_spark.storage.job_lock import JobLock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LeasedSpark", "SparkProvider", "start_spark"]


def start_spark(
    settings: SparkSettings,
    *,
    pass_fds: Sequence[int] = (),
    on_jvm: Callable[[int], None] | None = None,
    left: Sequence[str] = (),
    on_sessions: Callable[[Sequence[str]], None] | None = None,
) -> Session | ConnectSession:
    """Begin to start a Spark of one's own, or to connect to a server, and return at once.

    ``pass_fds`` and ``on_jvm`` are for a JVM of one's own: see `Session.start`; ``left`` and
    ``on_sessions`` for a server: see `ConnectSession.start`.
    """
    if settings.remote:
        return ConnectSession.start(settings, left=left, on_sessions=on_sessions)
    return Session.start(settings, pass_fds=pass_fds, on_jvm=on_jvm)


class SparkProvider(Protocol):
    """What the loader needs of Spark."""

    @property
    def started(self) -> bool:
        """Whether `begin` was called."""
        ...

    @property
    def failure(self) -> TargetSparkError | None:
        """Why Spark did not come up or is gone, as soon as that is known."""
        ...

    def begin(self) -> None:
        """Start, without waiting for it; a second call does nothing."""
        ...

    def spark(self) -> SparkSession:
        """Return the calling thread's session, waiting until Spark is up."""
        ...

    def close(self) -> None:
        """End what `begin` began."""
        ...


class LeasedSpark:
    """The lease of a job, and a Spark of one's own.

    Without a ``warehouse`` there is no lease: the run writes to no table.
    """

    def __init__(self, settings: SparkSettings, warehouse: str | None, run: RunInfo) -> None:
        self._settings = settings
        self._warehouse = warehouse
        self._run = run
        self._leases: list[JobLock] = []
        self._session: Session | ConnectSession | None = None

    @property
    def started(self) -> bool:
        """Whether `begin` was called."""
        return self._session is not None

    @property
    def application(self) -> str | None:
        """What Spark calls this run; None if it never came up."""
        return None if self._session is None else self._session.application

    @property
    def version(self) -> str:
        """Spark's version; asked for once it is up."""
        if isinstance(self._session, ConnectSession):
            return self._session.version
        from pyspark.version import __version__

        return __version__

    @property
    def failure(self) -> TargetSparkError | None:
        """Why Spark did not come up or is gone, as soon as that is known."""
        return None if self._session is None else self._session.failure

    def begin(self) -> None:
        """Take the leases of the job's names and start Spark; a second call does nothing.

        Raises:
            LeaseError: another run of the job is alive.
            TableError: the folder of the tables cannot be written.
        """
        if self._session is not None:
            return
        if self._warehouse is None:
            self._session = start_spark(self._settings)
            return
        run = self._run
        for job in run.jobs:  # under a former name an earlier release may be at work
            lease = JobLock.take(self._warehouse, job, run=run.id, started=run.started)
            self._leases.append(lease)
        self._session = start_spark(
            self._settings,
            pass_fds=[lease.fileno() for lease in self._leases],
            on_jvm=self._jvm_started,
            left=[name for lease in self._leases for name in lease.left],
            on_sessions=self._sessions_are,
        )

    def _jvm_started(self, pid: int) -> None:
        for lease in self._leases:
            lease.jvm_started(pid)

    def _sessions_are(self, names: Sequence[str]) -> None:
        for lease in self._leases:
            lease.sessions_are(names)

    def spark(self) -> SparkSession:
        """Return the calling thread's session, waiting until Spark is up.

        Raises:
            SparkUnavailableError: it cannot come up, and why.
        """
        if self._session is None:
            raise RuntimeError("Spark was asked for before it was begun.")
        return self._session.thread_session()

    def close(self) -> None:
        """End the JVM, then the leases."""
        if self._session is not None:
            self._session.stop()
        while self._leases:
            self._leases.pop().release()

    def give_up_waiting(self) -> None:
        """End a JVM that a cluster has not given executors yet."""
        if isinstance(self._session, Session):
            self._session.give_up_waiting()

    def kill(self) -> None:
        """End the JVM at once, whatever it is doing."""
        if self._session is not None:
            self._session.kill()
