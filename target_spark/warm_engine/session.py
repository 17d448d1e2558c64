"""Spark sessions of a run in an engine (shared Spark process).

The run uses the JVM of the engine, but in separate sessions. If no engine can be used, the run
starts its own Spark. If the engine ends during the run, the run first waits until the JVM of the
engine has ended, because that JVM could still complete a commit, which would then be written twice.
Then the run starts its own Spark.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import Self

from tap_core.config.similar_names import list_names
from tap_core.io.private_files import UntrustedPathError
from target_spark.errors import SparkDiedError, SparkUnavailableError, TargetSparkError
from target_spark.phase_timing import Phases
from target_spark.spark.py4j_logging import restore, silence_disconnects
from target_spark.spark.session import Session, SparkSettings, load_libraries
from target_spark.storage.commit_retry import first_error_line
from target_spark.storage.job_lock import get_start_ticks
from target_spark.warm_engine.engine_folder import (
    EngineFolder,
    has_engines_folder,
    list_engines,
    receive_message,
    send_message,
)
from target_spark.warm_engine.identity import Identity, find_differences
from target_spark.warm_engine.start import connect_engine, start_engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["EngineSession", "looks_for_engine", "may_use_engine"]

logger = logging.getLogger(__name__)

_RESPONSE_SECONDS: Final = 300.0
"""Maximum seconds to wait for the response of an engine, whose Spark may be starting."""

_CONNECT_SECONDS: Final = 10.0
_END_SECONDS: Final = 60.0
"""Maximum seconds to wait for the end of the JVM after its engine has ended."""

_LOSS_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.1
_MAX_LISTED: Final = 5

_OWN_SPARK: Final = "This run starts its own Spark."


def may_use_engine(settings: SparkSettings) -> bool:
    """Return True if a run with these settings may use an engine (shared Spark process).

    That is not possible with a cluster, with Spark Connect, or if the setting ``engine`` is
    "never".
    """
    return (
        settings.engine != "never" and not settings.remote and settings.master.startswith("local")
    )


def looks_for_engine(settings: SparkSettings) -> bool:
    """Return True if a run with these settings looks for an engine (shared Spark process).

    This is the case if it may use one, and either the setting ``engine`` is "keep", so that a
    missing one is started, or the user has started one before.
    """
    return may_use_engine(settings) and (settings.engine == "keep" or has_engines_folder())


@dataclass(frozen=True, slots=True)
class _Attachment:
    """The connection of a run to an engine (shared Spark process).

    Attributes:
        folder: The folder of the engine.
        connection: The connection to the engine, which stays open until the run ends.
        jvm: The process id of the engine's JVM.
        born: The start time of the JVM in kernel ticks; None if unknown.
    """

    folder: EngineFolder
    connection: socket.socket
    jvm: int
    born: str | None

    def is_lost(self) -> bool:
        """Return True if the shared Spark process or its JVM has ended."""
        try:
            data = self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return self.is_jvm_gone()
        except OSError:
            return True
        return not data

    def wait_until_lost(self, seconds: float) -> bool:
        """Return True once the shared Spark process or its JVM ends, or False after ``seconds``."""
        end = time.monotonic() + seconds
        while not (is_lost := self.is_lost()) and time.monotonic() < end:
            time.sleep(_PAUSE_SECONDS)
        return is_lost

    def is_jvm_gone(self) -> bool:
        try:
            os.kill(self.jvm, 0)
        except (ProcessLookupError, PermissionError):
            return True  # without permission, the number belongs to another user's process by now
        return self.born is not None and get_start_ticks(self.jvm) != self.born


class EngineSession:
    """Access of a run to Spark: through an engine (shared Spark process), or else its own JVM.

    Args:
        settings: The Spark settings of the run.
        run: The id of the run; "" to generate one.
        job: The name of the run's job, which the engine shows in its messages.
        locks: File descriptors of the locks of the job. The engine, or the run's own JVM, keeps
            them open until all work for the run has ended.
        on_jvm: A function that is called with the process id of the JVM, before the JVM can write
            to a table.
        on_engine: A function that is called with the path of the engine's folder, before the engine
            can write to a table. It is called with None when the run starts its own Spark.
        phases: The stopwatch for phases of the run, such as the start of Spark, or None.
    """

    def __init__(
        self,
        settings: SparkSettings,
        *,
        run: str = "",
        job: str = "",
        locks: Sequence[int] = (),
        on_jvm: Callable[[int], None] | None = None,
        on_engine: Callable[[str | None], None] | None = None,
        phases: Phases | None = None,
    ) -> None:
        self._settings = settings
        self._phases = phases or Phases()
        self._identity = Identity.of_run(settings)
        self._run_id = f"target-spark-{run or uuid.uuid4().hex}"
        self._job = job
        self._locks = tuple(locks)
        self._on_jvm = on_jvm or (lambda _pid: None)
        self._on_engine = on_engine or (lambda _path: None)
        self._local = threading.local()
        self._guard = threading.RLock()
        self._attachment: _Attachment | None = None
        self._spark: SparkSession | None = None
        self._own_session: Session | None = None
        self._failure: TargetSparkError | None = None
        self._application = ""
        self._log_filter: logging.Filter | None = None
        self._thread = threading.Thread(
            target=self._connect_or_start, name="engine-start", daemon=True
        )

    def start(self) -> Self:
        """Connect to a shared Spark process, or start Spark, in the background. Return at once."""
        self._thread.start()
        return self

    def spark(self) -> SparkSession:
        """Wait until Spark has started, and return the first session of this run.

        Raises:
            SparkUnavailableError: Spark cannot start, or was stopped.
        """
        self._thread.join()
        with self._guard:  # another thread may be replacing the engine
            if self._own_session is not None:
                return self._own_session.spark()
            if self._failure is not None:
                raise self._failure
            if self._spark is None:
                raise SparkUnavailableError("Spark was stopped.")
            return self._spark

    def thread_session(self) -> SparkSession:
        """Return the Spark session of the calling thread; create it at the first call.

        Each thread has one session, with separate settings and temporary views.
        """
        spark = self.spark()
        if self._attachment is not None and self._attachment.is_lost():
            self.replace_lost_engine(0)
        if self._own_session is not None:
            self._local.uses_engine = False
            return self._own_session.thread_session()
        if not getattr(self._local, "uses_engine", False):
            self._local.spark = self._create_session(spark)
            self._local.uses_engine = True
        session: SparkSession = self._local.spark
        return session

    @property
    def application(self) -> str | None:
        """Spark's application id; None until Spark has started."""
        if self._own_session is not None:
            return self._own_session.application
        return None if self._spark is None else self._application

    @property
    def failure(self) -> TargetSparkError | None:
        """Error that prevented the start of Spark or ended it; None if there is no error.

        The end of a shared Spark process is no error, because the run then starts its own Spark.
        """
        own_failure = None if self._own_session is None else self._own_session.failure
        return own_failure or self._failure

    def stop(self) -> None:
        """Disconnect from the shared Spark process, after its work for this run has ended.

        If the run has its own Spark, stop it.
        """
        self._thread.join()
        if self._own_session is not None:
            self._own_session.stop()
        elif self._attachment is not None:
            connection, self._attachment = self._attachment.connection, None
            self._leave_context()
            with contextlib.suppress(OSError):  # the engine has ended
                send_message(connection, {"request": "end"})
                receive_message(connection)
            connection.close()
        if self._log_filter is not None:
            restore(self._log_filter)
            self._log_filter = None

    def kill(self) -> None:
        """Cancel this run's work in the shared Spark process, or kill the run's own JVM.

        A commit in progress may be completed or lost. Other runs continue.
        """
        own_session, attachment = self._own_session, self._attachment
        if own_session is not None:
            own_session.kill()
        elif attachment is not None:  # the engine sees the end and cancels the run's jobs
            attachment.connection.close()

    def replace_lost_engine(self, wait_seconds: float) -> bool:
        """Start the run's own Spark if the shared Spark process (engine) has ended.

        Args:
            wait_seconds: The longest wait for the end of the engine.

        Returns:
            True if the calling thread has used an engine that has ended, so that it can repeat its
            work.

        Raises:
            SparkDiedError: The engine has ended, but its JVM has not ended in time.
        """
        used_engine = getattr(self._local, "uses_engine", False)
        with self._guard:
            if (
                self._own_session is None
                and self._attachment is not None
                and self._attachment.wait_until_lost(wait_seconds)
            ):
                self._replace_engine(self._attachment)
        if self._own_session is None:
            return False
        self._local.uses_engine = False
        return used_engine

    def _replace_engine(self, attachment: _Attachment) -> None:
        """Start a Spark for this run alone, because the shared Spark process has ended.

        First wait until the JVM of that process has ended too, since it may still commit rows.

        Args:
            attachment: The connection of this run to the shared Spark process.

        Raises:
            SparkDiedError: The JVM has not ended in time.
        """
        logger.warning(
            "The engine ended in the middle of the run (its log is %s); this run continues with"
            " its own Spark. A batch whose commit was in progress is written if it is missing.",
            attachment.folder.log,
        )
        end = time.monotonic() + _END_SECONDS
        while not attachment.is_jvm_gone():
            if time.monotonic() > end:
                self._failure = SparkDiedError(
                    f"The engine ended in the middle of the run, but its JVM (process"
                    f" {attachment.jvm}) still runs and may yet commit. Earlier commits are safe,"
                    " and no state is ahead of them; end that process and start again."
                )
                raise self._failure
            time.sleep(_PAUSE_SECONDS)
        attachment.connection.close()
        self._leave_context()
        self._start_own_session()

    def _start_own_session(self) -> None:
        self._on_engine(None)
        self._own_session = Session(
            self._settings, pass_fds=self._locks, on_jvm=self._on_jvm, phases=self._phases
        ).start()

    # Connecting to an engine

    def _connect_or_start(self) -> None:
        """Connect to a shared Spark process; if that is not possible, start the run's own Spark."""
        try:
            with self._phases.run("connecting to an engine"):
                self._attach()
        except UntrustedPathError as error:
            logger.warning(
                "No engine is used: %s. Let only this user enter that folder, or remove it. %s",
                error,
                _OWN_SPARK,
            )
        except Exception as error:  # noqa: BLE001  (the run starts its own Spark)
            text = str(error) if isinstance(error, TargetSparkError) else first_error_line(error)
            logger.warning("The engine cannot be used: %s. %s", text.rstrip("."), _OWN_SPARK)
        if self._spark is None:
            self._leave_context()
            if self._attachment is not None:
                self._attachment.connection.close()
                self._attachment = None
            self._start_own_session()

    def _attach(self) -> None:
        """Connect to the shared Spark process (engine), and create a session in it.

        A missing process is started if the setting ``engine`` is "keep"; else do nothing.

        Raises:
            TargetSparkError: The engine cannot be started or rejects the run.
            UntrustedPathError: Another user has access to the engine's folder.
            OSError: The engine ended during the connection.
        """
        connected = connect_engine(self._identity)
        if connected is None and self._settings.engine == "keep":
            connected = start_engine(self._settings, self._identity)[:2]
        if connected is None:
            self._explain_other_engines()
            return
        folder, connection = connected
        self._on_engine(str(folder.path))
        try:
            response = self._request_gateway(connection)
        except BaseException:
            connection.close()
            raise
        self._attachment = _Attachment(folder, connection, int(response["jvm"]), response["born"])
        self._on_jvm(self._attachment.jvm)
        self._log_filter = silence_disconnects(self._wait_for_loss)
        self._spark = self._create_context(int(response["port"]), str(response["token"]))

    def _request_gateway(self, connection: socket.socket) -> dict[str, Any]:
        """Register this run with the shared Spark process, and pass it the locks of the run's job.

        Return the response: port and token of a py4j server, and the JVM's process id and start
        time.

        Raises:
            SparkUnavailableError: The engine rejects the run.
            OSError: The engine ended, or does not respond.
        """
        connection.settimeout(_RESPONSE_SECONDS)
        message = {"request": "attach", "run": self._run_id, "job": self._job, "pid": os.getpid()}
        send_message(connection, message, self._locks)
        response, _ = receive_message(connection)
        if "error" in response:
            raise SparkUnavailableError(str(response["error"]))
        connection.settimeout(None)
        return response

    def _explain_other_engines(self) -> None:
        """Log, for each running shared Spark process, the settings in which this run differs."""
        for folder in list_engines():
            try:
                folder.connect(_CONNECT_SECONDS).close()
            except OSError:  # it was killed
                continue
            description = folder.read_description()
            names = find_differences(self._identity, description.get("identity", {}))
            logger.info(
                "The engine of process %s is not used, because it was started with another value"
                " of: %s. %s",
                description.get("pid"),
                list_names(names, _MAX_LISTED),
                _OWN_SPARK,
            )

    def _wait_for_loss(self) -> bool:
        """Wait up to ten seconds for the end of the shared Spark process; return True if it ended.

        If this run no longer uses such a process, return True immediately.
        """
        attachment = self._attachment
        return attachment is None or attachment.wait_until_lost(_LOSS_SECONDS)

    # PySpark

    def _create_context(self, port: int, token: str) -> SparkSession:
        """Connect PySpark to the JVM of the shared Spark process, and return a new session.

        ``port`` and ``token`` are those of the py4j server that was started for this run.
        """
        load_libraries()
        from pyspark import SparkConf, SparkContext, java_gateway
        from pyspark.sql import SparkSession

        launch: Any = java_gateway.launch_gateway  # it has no types
        variables = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": token}
        os.environ.update(variables)
        try:
            gateway = launch()
        finally:
            for name in variables:
                del os.environ[name]
        jvm: Any = gateway.jvm
        engine_session = jvm.org.apache.spark.sql.classic.SparkSession.getDefaultSession().get()
        if engine_session.sparkContext().isStopped():
            raise SparkUnavailableError("the Spark of the engine was stopped")
        context = SparkContext(
            conf=SparkConf(_jconf=engine_session.sparkContext().conf()),
            gateway=gateway,
            jsc=jvm.JavaSparkContext.fromSparkContext(engine_session.sparkContext()),
        )
        self._application = context.applicationId
        # The first session becomes the JVM's default, which must not have settings of a run.
        return self._create_session(SparkSession(context, engine_session))

    def _create_session(self, spark: SparkSession) -> SparkSession:
        """Return a new session, and tag its JVM thread and Spark jobs with the run's id."""
        context: Any = spark.sparkContext
        name = threading.current_thread().name
        context._jvm.java.lang.Thread.currentThread().setName(f"{self._run_id} {name}")  # noqa: SLF001
        context.addJobTag(self._run_id)
        context.setLocalProperty("spark.scheduler.pool", name)
        return spark.newSession()

    def _leave_context(self) -> None:
        """Remove PySpark's references to the JVM of the shared Spark process, which still runs."""
        self._spark = None
        if self._log_filter is None:  # this run has not connected PySpark to that JVM
            return
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        context: Any = SparkContext._active_spark_context  # noqa: SLF001
        gateway: Any = SparkContext._gateway  # noqa: SLF001
        if context is not None:
            context._accumulatorServer.shutdown()  # noqa: SLF001
            context._jsc = None  # noqa: SLF001
        SparkContext._active_spark_context = None  # noqa: SLF001
        SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
        SparkSession._instantiatedSession = SparkSession._activeSession = None  # noqa: SLF001
        if gateway is not None:
            with contextlib.suppress(Exception):  # the JVM has ended
                gateway.shutdown()  # only the py4j server of this run
