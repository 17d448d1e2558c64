"""Sessions on a Spark Connect server, with the same interface as a local `Session`.

Settings that a client can change are set in each session. The others are checked before anything is
written. A session may end early because the server restarts or drops idle sessions. Therefore each
thread's session is tested before use, and replaced if it has ended. Messages never contain the
parameters of the server address, which may include a token. Source: Spark documentation, "Spark
Connect Overview".
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import Self

from tap_core.redaction import Secrets
from target_spark.errors import SparkUnavailableError, TargetSparkError, UnsupportedError
from target_spark.phase_timing import START, Phases
from target_spark.spark.connect_checks import check_server
from target_spark.spark.exact_value_conf import ZONE, ZONE_KEY, exact_conf, find_conflicts
from target_spark.spark.session import SparkSettings, load_libraries
from target_spark.storage.commit_retry import first_error_line
from target_spark.storage.shared_storage_check import check_shared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ConnectSession", "redact_address"]

logger = logging.getLogger(__name__)

_MODE: Final = "SPARK_CONNECT_MODE_ENABLED"
"""Environment variable that makes PySpark's functions use Spark Connect in every thread."""

_MAX_RETRIES: Final = 4
"""Maximum number of times that PySpark repeats a failed call to the server, within some seconds.
Afterwards `target_spark.storage.commit_retry` repeats the work for a longer time."""

_NOISY_MODULES: Final = r"pyspark\.(sql\.connect|logger)\."
"""Regular expression for the PySpark modules whose warnings about failed calls are suppressed. The
target itself reports such failures."""

_KILL_SECONDS: Final = 1.0
"""Seconds after which `ConnectSession.kill` returns, even if the server has not responded."""

_END_SECONDS: Final = 2.0
"""Seconds to wait until the server has stopped the operations of an ended session."""

_SMALL_TABLE_SETTINGS: Final = {"spark.databricks.delta.snapshotPartitions": "2"}
"""Spark setting for the number of tasks that read the log of a Delta table. Delta's default of 50
is slow for small tables."""

_START_SETTINGS: Final = ("spark.master", "spark.app.name", "spark.remote")
"""Spark settings that are not set in a session on a server, where they have no effect."""

_SERVER_SETTINGS: Final = ("spark.hadoop.", "spark.jars", "spark.driver.", "spark.executor.")
"""Prefixes of the Spark settings that have an effect only if they are set when a server starts."""


class ConnectSession:
    """Connection to a Spark Connect server, with a separate session for each thread.

    Args:
        settings: The Spark settings of the run.
        leftover_sessions: Ids of sessions that a killed run left on the server. They are ended
            first.
        on_sessions: Function that is called whenever a session begins or ends, with the ids of all
            sessions that may still run operations on the server.
        phases: Recorder of the run's phases, or None.
    """

    def __init__(
        self,
        settings: SparkSettings,
        *,
        leftover_sessions: Sequence[str] = (),
        on_sessions: Callable[[Sequence[str]], None] | None = None,
        phases: Phases | None = None,
    ) -> None:
        self._settings = settings
        self._phases = phases or Phases()
        self._on_sessions = on_sessions
        self._hide = _collect_parameters(settings.remote or "").hide
        self._local = threading.local()
        self._sessions: list[SparkSession] = []
        self._guard = threading.Lock()
        self._unreachable = list(leftover_sessions)
        self._is_up = False
        self._failure: TargetSparkError | None = None
        self._application: str | None = None
        self.version = ""
        self._thread = threading.Thread(target=self._run, name="spark-start", daemon=True)

    def start(self) -> Self:
        """Connect to the server in the background, and return at once; `spark` waits for it."""
        self._thread.start()
        return self

    def spark(self) -> SparkSession:
        """Return the calling thread's session, after waiting for the connection to the server.

        If the thread's session has ended, create a new one.

        Raises:
            SparkUnavailableError: The server cannot be used; the message has the reason.
            UnsupportedError: A configured Spark setting can be set only on the server.
        """
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        if not self._is_up:
            raise SparkUnavailableError("Spark was stopped.")
        session: SparkSession | None = getattr(self._local, "spark", None)
        if session is not None and not _is_usable(session):
            self._end_session(session)
            logger.warning("The session on the Spark Connect server has ended; a new one begins.")
            self._local.spark = session = None
        if session is None:
            session = self._local.spark = self._create_session()
        return session

    def thread_session(self) -> SparkSession:
        """Return the calling thread's session, as `spark` does.

        In the class `Session` for a local Spark, the two methods return different sessions, so
        callers use this method.
        """
        return self.spark()

    @property
    def application(self) -> str | None:
        """Spark application id of the server; None until the server has responded."""
        return self._application

    @property
    def failure(self) -> TargetSparkError | None:
        """Error that prevented the connection, or None. Reading it never waits for the server."""
        return self._failure

    def stop(self) -> None:
        """End all sessions of this run on the Spark Connect server, which continues to run."""
        self._thread.join()
        self._is_up = False
        with self._guard:
            sessions = list(self._sessions)
        for session in sessions:
            self._end_session(session)
        os.environ.pop(_MODE, None)

    def kill(self) -> None:
        """Interrupt this run's operations on the Spark Connect server; return within a second."""
        with self._guard:
            sessions = list(self._sessions)

        def interrupt() -> None:
            for session in sessions:
                with contextlib.suppress(Exception):
                    session.interruptAll()

        thread = threading.Thread(target=interrupt, daemon=True)
        thread.start()
        thread.join(_KILL_SECONDS)

    def _run(self) -> None:
        try:
            with self._phases.run(START):
                self._begin()
        except TargetSparkError as error:
            self._failure = error
        except ImportError as error:
            self._failure = SparkUnavailableError(
                f"A package that Spark Connect (the setting remote) needs is missing ({error}):"
                " pip install 'tap-core-sdk[connect]'"
            )
        except Exception as error:  # noqa: BLE001  (`spark` raises it)
            self._failure = SparkUnavailableError(
                f"The Spark Connect server at {redact_address(self._settings.remote or '')} (the"
                f" setting remote) cannot be used: {self._hide(first_error_line(error))}. Check the"
                " address, and that the server runs and accepts this machine."
            )
            # A cause with a secret in its text is left out, because logs show it.
            self._failure.__cause__ = error if str(error) == self._hide(str(error)) else None

    def _begin(self) -> None:
        load_libraries(connect=True)
        os.environ[_MODE] = "1"
        warnings.filterwarnings("ignore", module=_NOISY_MODULES)
        spark = self._create_session()
        try:
            self._application, self.version = spark.conf.get("spark.app.id", None), spark.version
            check_server(spark, self._settings.format)
            check_shared(spark, self._settings.shared)
        finally:
            self._end_session(spark)  # only this thread uses it
        self._is_up = True

    def _create_session(self) -> SparkSession:
        """Create a session with the user's settings and those that keep stored values unchanged."""
        spark = self._connect(self._settings.remote or "")
        with self._guard:
            self._sessions.append(spark)
            self._report_sessions()
        try:
            self._apply_settings(spark)
        except BaseException:
            self._end_session(spark)
            raise
        return spark

    def _apply_settings(self, spark: SparkSession) -> None:
        for key, value in {**exact_conf(), **_SMALL_TABLE_SETTINGS}.items():
            spark.conf.set(key, value)
        rejected = _set_user_conf(spark, self._settings.conf)
        needed_values = {key: needed.value for key, needed in find_conflicts(spark.conf.getAll)}
        unchangeable = _set_user_conf(spark, needed_values)
        if unchangeable:
            raise UnsupportedError(
                "With the settings of the Spark Connect server, stored values would change:"
                f" {', '.join(unchangeable)} must be"
                f" {', '.join(needed_values[key] for key in unchangeable)}, which a session cannot"
                " set. Start the server without these settings."
            )
        if rejected:
            raise UnsupportedError(
                f"The setting spark has {', '.join(rejected)}, which a single session of a Spark"
                " Connect server cannot set. Remove them here, and start the server with them."
            )
        self._end_unreachable_sessions()

    def _connect(self, url: str) -> SparkSession:
        from pyspark.sql import SparkSession
        from pyspark.sql.connect.client import retries

        builder: Any = SparkSession.builder  # typed as a method in PySpark
        policy: Any = retries.DefaultPolicy
        spark: SparkSession = builder.remote(url).create()
        client = _get_client(spark)
        client.set_retry_policies([policy(max_retries=_MAX_RETRIES)])
        return spark

    def _end_session(self, spark: SparkSession) -> None:
        """End a session on the server. If this fails, `_end_unreachable_sessions` tries again."""
        with self._guard:
            if spark in self._sessions:
                self._sessions.remove(spark)
        client = _get_client(spark)
        client.set_retry_policies([])
        try:
            client.release_session()
        except Exception:  # noqa: BLE001  (the server may have ended with the session)
            with self._guard:
                self._unreachable.append(_get_session_id(spark))
        with self._guard:
            self._report_sessions()
        with contextlib.suppress(Exception):
            client.close()

    def _report_sessions(self) -> None:
        """Pass the ids of the open sessions to `on_sessions`. The caller holds `_guard`."""
        if self._on_sessions is not None:
            self._on_sessions([*self._unreachable, *map(_get_session_id, self._sessions)])

    def _end_unreachable_sessions(self) -> None:
        """End the sessions that did not end before, because the server did not respond.

        A write that still runs in such a session could conflict with its retry in another session.
        """
        with self._guard:
            unreachable = list(self._unreachable)
        url = (self._settings.remote or "").rstrip("/;")
        separator = ";" if "/;" in url else "/;"
        for name in unreachable:
            session = self._connect(f"{url}{separator}session_id={name}")
            with self._guard:
                if name not in self._unreachable:  # another thread was faster
                    continue
                self._unreachable.remove(name)
            self._end_session(session)
        if unreachable:
            time.sleep(_END_SECONDS)


def _is_usable(spark: SparkSession) -> bool:
    """Return True if a session on a Spark Connect server responds and still has its settings.

    Return False if the server has dropped the session, or replaced it by one without settings.
    """
    try:
        return spark.conf.get(ZONE_KEY, None) == ZONE
    except Exception:  # noqa: BLE001  (the next session raises the reason)
        return False


def _get_client(spark: Any) -> Any:
    """Return the gRPC client of a Spark Connect session."""
    return spark.client


def _get_session_id(spark: Any) -> str:
    return str(spark.session_id)


def redact_address(url: str) -> str:
    """Return a connection string without its parameters: ``sc://host/;token=x`` -> ``sc://host``."""
    return url.partition("/;")[0].partition(";")[0]


def _collect_parameters(url: str) -> Secrets:
    """Return the values of a connection string's parameters, such as its token, to redact them."""
    _, _, parameters = url.partition(";")
    return Secrets.from_values(parameter.partition("=")[2] for parameter in parameters.split(";"))


def _set_user_conf(spark: SparkSession, conf: Mapping[str, str]) -> list[str]:
    """Set the user's Spark settings in a Spark Connect session.

    Return the names of the settings that a session cannot set, since they can be set only when the
    server is started.
    """
    from pyspark.errors import PySparkException

    rejected: list[str] = []
    for key, value in conf.items():
        if key in _START_SETTINGS:
            continue
        if key.startswith(_SERVER_SETTINGS):  # a session accepts it, but it has no effect there
            rejected.append(key)
            continue
        try:
            if spark.conf.get(key, None) != value:
                spark.conf.set(key, value)
        except PySparkException as error:
            if "CANNOT_MODIFY" not in (error.getCondition() or ""):
                raise
            rejected.append(key)
    return rejected
