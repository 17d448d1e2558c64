"""A Spark that runs elsewhere, reached through Spark Connect, in the shape of one of our own.

Rules of the room: the server is somebody else's. What can be set for one session is set in
each of ours, what cannot is checked before anything is written, and what is wrong is said
with the way out. A session may end without us: the server restarts, or forgets one that was
idle. So each thread's session is asked before it is used, and made anew where it is gone; of
a session that is given up the server is told to end whatever it still does. The address may
hold a token, which no message repeats.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tap_core.redaction import Secrets
from target_spark.errors import SparkUnavailableError, TargetSparkError, UnsupportedError
from target_spark.spark.connect_checks import check_server
from target_spark.spark.exact_value_conf import ZONE, ZONE_KEY, exact_conf, find_conflicts
from target_spark.spark.session import SparkSettings, load_libraries
from target_spark.storage.retry import first_error_line
from target_spark.storage.shared_check import check_shared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ConnectSession", "redact_address"]

logger = logging.getLogger(__name__)

_MODE: Final = "SPARK_CONNECT_MODE_ENABLED"
"""By this variable PySpark knows, in every thread, that a function means Connect's."""

_TRIES: Final = 4
"""How often PySpark itself repeats a call that nobody answers, within some seconds. Longer
patience is `target_spark.storage.retry`'s."""

_TALKATIVE: Final = r"pyspark\.(sql\.connect|logger)\."
"""What warns of each call that is not repeated any more; who gives up says so himself."""

_KILL_SECONDS: Final = 1.0
_END_SECONDS: Final = 2.0
"""What a server does for a session is interrupted when that is ended, and stops soon after."""

_LEAN: Final = {"spark.databricks.delta.snapshotPartitions": "2"}
"""Delta makes fifty tasks of each look at a log, which for ours are forty-eight too many."""

_OF_A_START: Final = ("spark.master", "spark.app.name", "spark.remote")
"""Settings of Spark that mean nothing here."""
_OF_SERVER: Final = ("spark.hadoop.", "spark.jars", "spark.driver.", "spark.executor.")


class ConnectSession:
    """A session on a server, begun in the background: `start`, then `spark()` waits for it."""

    def __init__(
        self,
        settings: SparkSettings,
        *,
        left: Sequence[str] = (),
        on_sessions: Callable[[Sequence[str]], None] | None = None,
    ) -> None:
        self._settings = settings
        self._on_sessions = on_sessions
        self._hide = _collect_parameters(settings.remote or "").hide
        self._local = threading.local()
        self._sessions: list[SparkSession] = []
        self._guard = threading.Lock()
        self._lost = list(left)
        self._is_up = False
        self._failure: TargetSparkError | None = None
        self._application: str | None = None
        self.version = ""
        self._thread = threading.Thread(target=self._run, name="spark-start", daemon=True)

    @classmethod
    def start(
        cls,
        settings: SparkSettings,
        *,
        left: Sequence[str] = (),
        on_sessions: Callable[[Sequence[str]], None] | None = None,
    ) -> ConnectSession:
        """Begin to connect and return at once.

        ``left`` are sessions of a run that was killed, which are ended first;
        ``on_sessions`` is told of all that may be at work whenever they change.
        """
        session = cls(settings, left=left, on_sessions=on_sessions)
        session._thread.start()
        return session

    def spark(self) -> SparkSession:
        """Return the calling thread's session, waiting until the server has answered.

        Raises:
            SparkUnavailableError: there is no server, or not one that can load, and why.
            UnsupportedError: the settings ask for what only the server can be told.
        """
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        if not self._is_up:
            raise SparkUnavailableError("Spark was stopped.")
        mine: SparkSession | None = getattr(self._local, "spark", None)
        if mine is not None and not _is_usable(mine):
            self._give_up(mine)
            logger.warning("The session on the Spark Connect server has ended; a new one begins.")
            self._local.spark = mine = None
        if mine is None:
            mine = self._local.spark = self._new()
        return mine

    def thread_session(self) -> SparkSession:
        """Return the calling thread's session: every thread has one of its own."""
        return self.spark()

    @property
    def jvm_pid(self) -> None:
        """No process of this machine."""
        return

    @property
    def application(self) -> str | None:
        """What the server's Spark calls itself; known once it has answered."""
        return self._application

    @property
    def failure(self) -> TargetSparkError | None:
        """Why there is no session, as far as that is known by now; never waits."""
        return self._failure

    def stop(self, wait_seconds: float = 30) -> None:  # noqa: ARG002  (nothing here takes long)
        """End all sessions; the server stays."""
        self._thread.join()
        self._is_up = False
        with self._guard:
            sessions = list(self._sessions)
        for session in sessions:
            self._give_up(session)
        os.environ.pop(_MODE, None)

    def kill(self) -> None:
        """Have the server end at once what it does for us, as far as it can be told."""
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
            self._begin()
        except TargetSparkError as error:
            self._failure = error
        except ImportError as error:
            self._failure = SparkUnavailableError(
                f"What Spark Connect (the setting remote) needs is not installed ({error}):"
                " pip install 'tap-core-sdk[connect]'"
            )
        except Exception as error:  # noqa: BLE001  (it is raised where Spark is asked for)
            self._failure = SparkUnavailableError(
                f"The Spark Connect server at {redact_address(self._settings.remote or '')} (the"
                f" setting remote) cannot be used: {self._hide(first_error_line(error))}. Check the"
                " address, and that the server runs and lets this machine in."
            )
            self._failure.__cause__ = error if str(error) == self._hide(str(error)) else None

    def _begin(self) -> None:
        load_libraries(connect=True)
        os.environ[_MODE] = "1"
        warnings.filterwarnings("ignore", module=_TALKATIVE)
        spark = self._new()
        try:
            self._application, self.version = spark.conf.get("spark.app.id", None), spark.version
            check_server(spark, self._settings.format)
            check_shared(spark, self._settings.shared)
        finally:
            self._give_up(spark)  # it is this thread's alone
        self._is_up = True

    def _new(self) -> SparkSession:
        """Make a session with the settings under which values are exact, and the user's."""
        spark = self._connected(self._settings.remote or "")
        with self._guard:
            self._sessions.append(spark)
            self._tell()
        try:
            self._furnish(spark)
        except BaseException:
            self._give_up(spark)
            raise
        return spark

    def _furnish(self, spark: SparkSession) -> None:
        for key, value in {**exact_conf(), **_LEAN}.items():
            spark.conf.set(key, value)
        refused = list(_refused(spark, self._settings.conf))
        fixed = {key: needed.value for key, needed in find_conflicts(spark.conf.getAll)}
        unfit = list(_refused(spark, fixed))
        if unfit:
            raise UnsupportedError(
                f"The Spark Connect server would falsify values: {', '.join(unfit)} must be"
                f" {', '.join(fixed[key] for key in unfit)}, and no session can change that."
                " Start the server without it."
            )
        if refused:
            raise UnsupportedError(
                f"The setting spark has {', '.join(refused)}, which one session of a Spark"
                " Connect server cannot have for itself. Take them away here, and start the"
                " server with them."
            )
        self._end_lost()

    def _connected(self, url: str) -> SparkSession:
        from pyspark.sql import SparkSession
        from pyspark.sql.connect.client import retries

        builder: Any = SparkSession.builder  # PySpark's types take it for a method
        policy: Any = retries.DefaultPolicy
        spark: SparkSession = builder.remote(url).create()
        client = _get_client(spark)
        client.set_retry_policies([policy(max_retries=_TRIES)])
        return spark

    def _give_up(self, spark: SparkSession) -> None:
        """End a session; one whose server cannot be told now is remembered."""
        with self._guard:
            if spark in self._sessions:
                self._sessions.remove(spark)
        client = _get_client(spark)
        client.set_retry_policies([])
        try:
            client.release_session()
        except Exception:  # noqa: BLE001  (its server may be gone, and it with it)
            with self._guard:
                self._lost.append(_get_session_name(spark))
        with self._guard:
            self._tell()
        with contextlib.suppress(Exception):
            client.close()

    def _tell(self) -> None:
        if self._on_sessions is not None:
            self._on_sessions([*self._lost, *map(_get_session_name, self._sessions)])

    def _end_lost(self) -> None:
        """End, on a server that answers again, what was lost from sight.

        What still writes there would do so beside us, who are about to do it again.
        """
        with self._guard:
            lost = list(self._lost)
        url = (self._settings.remote or "").rstrip("/;")
        joint = ";" if "/;" in url else "/;"
        for name in lost:
            session = self._connected(f"{url}{joint}session_id={name}")
            with self._guard:
                if name not in self._lost:  # another thread was faster
                    continue
                self._lost.remove(name)
            self._give_up(session)
        if lost:
            time.sleep(_END_SECONDS)


def _is_usable(spark: SparkSession) -> bool:
    """Tell whether a session answers and is there as it was made."""
    try:
        return spark.conf.get(ZONE_KEY, None) == ZONE
    except Exception:  # noqa: BLE001  (the next one has a connection of its own, and tells why)
        return False


def _get_client(spark: Any) -> Any:
    """Return what a session calls its server with."""
    return spark.client


def _get_session_name(spark: Any) -> str:
    """Return what the server calls a session."""
    return str(spark.session_id)


def redact_address(url: str) -> str:
    """Return the address of a server without what else it is told: a token may be among it."""
    return url.partition("/;")[0].partition(";")[0]


def _collect_parameters(url: str) -> Secrets:
    """Return the parameters of a server's address, a token among them, as secrets."""
    _, _, parameters = url.partition(";")
    return Secrets.from_values(each.partition("=")[2] for each in parameters.split(";"))


def _refused(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[str]:
    """Set a user's settings for a session; yield those that it cannot have."""
    from pyspark.errors import PySparkException

    for key, value in conf.items():
        if key in _OF_A_START:
            continue
        if key.startswith(_OF_SERVER):  # a session takes it, and nobody reads it there
            yield key
            continue
        try:
            if spark.conf.get(key, None) != value:
                spark.conf.set(key, value)
        except PySparkException as error:
            if "CANNOT_MODIFY" not in (error.getCondition() or ""):
                raise
            yield key
