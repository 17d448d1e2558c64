"""Spark application that all gRPC calls of a Fivetran destination share, started by the first call.

- Calls with the same Spark settings share Spark. A call with other settings waits until no other
  call uses Spark, and then restarts it. If Spark has died, the next call starts it again.
- Spark encrypts the data that it spills to disk, because Fivetran's rows must not be on disk
  unencrypted. No setting can disable this.
- A JVM of a killed server may still be committing. The next server waits until that JVM has ended.

Source: Fivetran's Partner SDK development guide, "Security".
"""

from __future__ import annotations

import threading
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from target_spark.config import settings
from target_spark.errors import TargetSparkError, UnsupportedError
from target_spark.spark.session import Session, SparkSettings
from target_spark.spark.spark_provider import find_failure
from target_spark.storage.job_lock import JobLock, wait_for_orphaned_jvms
from target_spark.storage.spool import open_spool_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SharedSpark"]

_LOCK_PREFIX: Final = "fivetran-"
"""Prefix of the names of the locks that a server acquires for locations of tables.

The next server uses this prefix to find JVMs that killed servers have left running.
"""

_ENFORCED_CONF: Final = {
    "spark.io.encryption.enabled": "true",
    # By default, Spark replaces ${env:X} in names by an environment variable of this process.
    "spark.sql.variable.substitute": "false",
}
"""Spark settings that a gRPC call cannot change."""

_REFLECTION_FUNCTIONS: Final = ("reflect", "try_reflect", "java_method")
"""SQL functions that can call any Java method. They can occur in views, and in column defaults and
constraints of tables."""


def _raise_permission_error(*_: object) -> str:
    """Raise PermissionError. This function replaces SQL functions that can call Java methods."""
    raise PermissionError("SQL may not call Java in this server.")


class SharedSpark:
    """Spark application that all calls of a Fivetran destination share, with a lock per table."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._users = 0
        self._settings: SparkSettings | None = None
        self._session: Session | None = None
        self._resources = ExitStack()
        self._table_locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._is_closed = False
        self._guarded_sessions: WeakSet[SparkSession] = WeakSet()

    @contextmanager
    def session(self, config: Mapping[str, Any]) -> Iterator[SparkSession]:
        """Context manager that yields a Spark session for a gRPC call, in the thread of the call.

        Spark is started if necessary. If Spark is running with other settings, it is restarted as
        soon as no other call uses it.

        Args:
            config: The settings of the target that the call sent.

        Raises:
            TargetSparkError: Spark cannot be started, or ended while the call used it.
        """
        session = self._acquire_session(config)
        try:
            yield self._disable_reflection(session.thread_session())
        except TargetSparkError:
            raise
        except Exception as error:
            if (failure := find_failure(session, error)) is not None:
                raise failure from error
            raise
        finally:
            with self._changed:
                self._users -= 1
                self._changed.notify_all()

    @contextmanager
    def table_lock(self, table: str) -> Iterator[None]:
        """Context manager that locks a table, so that no other call changes it.

        ``table`` is the `Table.key` of the table.
        """
        with self._changed:
            lock = self._table_locks[table]
        with lock:
            yield

    def close(self) -> None:
        """Stop Spark when the server ends. Calls in progress fail, and later calls are rejected."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._resources.close()

    def _disable_reflection(self, spark: SparkSession) -> SparkSession:
        """Disable SQL functions such as ``reflect`` in a session, and return the session.

        Such functions can call any Java method, and a table's column defaults or constraints may
        use them.
        """
        if spark not in self._guarded_sessions:
            for name in _REFLECTION_FUNCTIONS:
                spark.udf.register(name, _raise_permission_error)
            self._guarded_sessions.add(spark)
        return spark

    def _acquire_session(self, config: Mapping[str, Any]) -> Session:
        """Return a running Spark application with the settings of a gRPC call.

        Start Spark if necessary. If Spark runs with other settings, wait until no call uses it, and
        restart it. The call is counted in ``_users``, so that no other call restarts Spark
        meanwhile.
        """
        location = settings.get_location(config)
        requested = settings.spark_settings(config)
        requested = replace(requested, conf={**requested.conf, **_ENFORCED_CONF})
        with self._changed:
            while self._users and not self._runs_with(requested) and not self._is_closed:
                self._changed.wait()
            if self._is_closed:
                raise TargetSparkError("The server is stopping: try again later.")
            session = self._session
            if session is None or not self._runs_with(requested):
                session = self._replace_session(requested, location, config.get("staging"))
            self._users += 1
            return session

    def _runs_with(self, requested: SparkSettings) -> bool:
        is_running = self._session is not None and self._session.failure is None
        return is_running and self._settings == requested

    def _replace_session(
        self, requested: SparkSettings, location: str, staging: str | None
    ) -> Session:
        """Stop Spark if it runs, and start it with other settings.

        Return before Spark has started; the first use of the session waits until it has.
        ``location`` is the location of the tables, and ``staging`` the folder for Spark's temporary
        data; None for the system's temporary folder.

        Raises:
            UnsupportedError: The settings name a Spark Connect server.
        """
        if requested.remote:
            raise UnsupportedError(
                "Spark's workers decrypt Fivetran's files in memory, which does not work through"
                " Spark Connect (the setting remote). Set master instead."
            )
        self._resources.close()
        self._session = None
        with ExitStack() as stack:
            folder = stack.enter_context(
                closing(open_spool_folder(staging, "Spark's data on disk"))
            )
            wait_for_orphaned_jvms(location, _LOCK_PREFIX)
            lock = JobLock.acquire(location, f"{_LOCK_PREFIX}{uuid.uuid4().hex}")
            stack.callback(lock.release, remove=True)
            session = Session(
                replace(requested, scratch=str(folder.path.absolute())),
                pass_fds=[lock.fileno()],
                on_jvm=lock.record_jvm,
            ).start()
            stack.callback(session.stop)
            self._session, self._settings = session, requested
            self._resources = stack.pop_all()
            return session
