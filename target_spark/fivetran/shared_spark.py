"""The one Spark of a server: started by the first call that needs it, shared by all.

Rules of the room: a process has one JVM. Calls with the same settings of Spark share it; a call
with others waits until nobody uses it, and then there is another. A Spark that has died is not
the server's end: the next call starts one. What Spark puts down on the way is encrypted, with a
key that is made with the session and never leaves it, because rows of Fivetran may not stand on
a disk in plain text; no setting takes that away. A server that was killed may leave a JVM that
is still in a commit: the next server waits for its end before it looks at any table. Source:
Fivetran's Partner SDK development guide, "Security".
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
from target_spark.storage.job_lock import JobLock, wait_for_orphaned_jvms
from target_spark.storage.spool import open_spool_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SharedSpark"]

_SERVERS: Final = "fivetran-"
"""What the names of the servers' leases begin with."""

_ENFORCED: Final = {
    "spark.io.encryption.enabled": "true",
    # Else ${env:X} in the name of a table or column is replaced by a variable of this process.
    "spark.sql.variable.substitute": "false",
}
"""Settings of Spark that no call changes."""

_REFLECTION: Final = ("reflect", "try_reflect", "java_method")
"""Functions of SQL that call any method of Java; a table or view can have them in its text."""


def _refuse_reflection(*_: object) -> str:
    """Stand for a function of SQL that calls methods of Java."""
    raise PermissionError("SQL may not call Java in this server.")


class SharedSpark:
    """The Spark that a server has now, and whose turn it is at each table."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._users = 0
        self._wanted: SparkSettings | None = None
        self._session: Session | None = None
        self._closing = ExitStack()
        self._tables: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._is_closed = False
        self._are_guarded: WeakSet[SparkSession] = WeakSet()

    @contextmanager
    def session(self, config: Mapping[str, Any]) -> Iterator[SparkSession]:
        """Give the calling thread's session of a Spark with these settings.

        Raises:
            TargetSparkError: Spark cannot come up, or has died meanwhile.
        """
        session = self._taken(config)
        try:
            yield self._guarded(session.thread_session())
        except TargetSparkError:
            raise
        except Exception as error:
            if session.failure is not None:
                raise session.failure from error
            raise
        finally:
            with self._changed:
                self._users -= 1
                self._changed.notify_all()

    @contextmanager
    def alone_at(self, table: str) -> Iterator[None]:
        """Let one call at a time change a table; ``table`` is its key."""
        with self._changed:
            lock = self._tables[table]
        with lock:
            yield

    def close(self) -> None:
        """End Spark; a call that still uses it fails."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._closing.close()

    def _guarded(self, spark: SparkSession) -> SparkSession:
        """Return the session, in which no text of SQL calls Java.

        The caller chooses the tables, and a table of theirs can have a default or a constraint.
        """
        if spark not in self._are_guarded:
            for name in _REFLECTION:
                spark.udf.register(name, _refuse_reflection)
            self._are_guarded.add(spark)
        return spark

    def _taken(self, config: Mapping[str, Any]) -> Session:
        """Count a user of the Spark that fits, which is started where there is none."""
        place = settings.get_location(config)
        asked = settings.spark_settings(config)
        asked = replace(asked, conf={**asked.conf, **_ENFORCED})
        with self._changed:
            while self._users and not self._fits(asked) and not self._is_closed:
                self._changed.wait()
            if self._is_closed:
                raise TargetSparkError("The server is stopping: try again later.")
            session = self._session
            if session is None or not self._fits(asked):
                session = self._started(asked, place, config.get("staging"))
            self._users += 1
            return session

    def _fits(self, asked: SparkSettings) -> bool:
        alive = self._session is not None and self._session.failure is None
        return alive and self._wanted == asked

    def _started(self, asked: SparkSettings, place: str, staging: str | None) -> Session:
        """Start a Spark in the place of the one that is there, without waiting until it is up.

        Raises:
            UnsupportedError: Spark is to be reached through Spark Connect.
        """
        if asked.remote:
            raise UnsupportedError(
                "Fivetran's files are opened by Spark's own workers, in memory, which cannot be"
                " had through Spark Connect (the setting remote). Set master instead."
            )
        self._closing.close()
        self._session = None
        with ExitStack() as stack:
            folder = stack.enter_context(
                closing(open_spool_folder(staging, "what Spark puts down"))
            )
            wait_for_orphaned_jvms(place, _SERVERS)
            lease = JobLock.take(place, f"{_SERVERS}{uuid.uuid4().hex}")
            stack.callback(lease.release, remove=True)
            session = Session.start(
                replace(asked, scratch=str(folder.path.absolute())),
                pass_fds=[lease.fileno()],
                on_jvm=lease.jvm_started,
            )
            stack.callback(session.stop)
            self._session, self._wanted = session, asked
            self._closing = stack.pop_all()
            return session
