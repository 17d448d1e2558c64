"""Process of an engine (shared Spark process): it starts Spark, serves runs, and ends when idle.

- A run stays connected to the engine's socket until it ends, so the engine notices the end of a run
  even if the run was killed.
- Each run gets a separate py4j server on the loopback interface. Its token is sent over the socket.
- A run passes the file descriptors of its job's locks to the engine. The engine closes them when
  the JVM has ended all work for the run, so that no other run of the job can start before.
- The JVM ends with this process, because its standard input is a pipe from this process.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tap_core.redaction import collect_secrets, register_secrets
from target_spark.errors import TargetSparkError
from target_spark.spark.session import Session, SparkSettings
from target_spark.storage.commit_retry import first_error_line
from target_spark.storage.job_lock import get_start_ticks
from target_spark.storage.spool import open_spool_folder
from target_spark.warm_engine.engine_folder import (
    EngineFolder,
    check_peer,
    receive_message,
    send_message,
)

__all__ = ["EngineServer", "main"]

logger = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.5
_PAUSE_SECONDS: Final = 0.02
_REQUEST_SECONDS: Final = 30.0
_STOPPING: Final = "The engine is stopping."


@dataclass(frozen=True, slots=True)
class _Run:
    """A run that is connected to this shared Spark process (engine).

    Attributes:
        id: The id of the run, which is part of the names of its JVM threads and tags its Spark
            jobs.
        pid: The process id of the run.
        job: The name of the run's job.
        started: The time at which the run connected, in seconds since 1970.
    """

    id: str
    pid: int
    job: str
    started: float

    def describe(self) -> str:
        """Return a text about the run, such as "job a, process 12, since 2024-01-01T00:00:00Z"."""
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.started))
        return f"job {self.job or 'without a name'}, process {self.pid}, since {since}"


class EngineServer:
    """Server in a shared Spark process (engine), which lets several runs use its Spark.

    Args:
        session: The Spark session, which may still be starting.
        idle_seconds: The engine ends after this number of seconds without a run.
    """

    def __init__(self, session: Session, idle_seconds: float) -> None:
        self._session = session
        self._idle_seconds = idle_seconds
        self._started = time.time()
        self._runs: dict[str, _Run] = {}
        self._guard = threading.Lock()
        self._idle_since = time.monotonic()
        self._is_closing = False
        self._stop = threading.Event()

    def serve(self, listener: socket.socket) -> int:
        """Let runs use this Spark process until it is stopped, idle too long, or its JVM ends.

        Args:
            listener: The listening Unix socket of the engine.

        Returns:
            The exit code: 0, or 1 if Spark did not start or its JVM ended.
        """
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        while not self._may_end():
            failure = self._session.failure
            if failure is not None:
                logger.error("The engine ends: %s", failure)
                time.sleep(_POLL_SECONDS)  # for the responses to runs that wait for the start
                return 1
            self._stop.wait(_POLL_SECONDS)
            if self._stop.is_set():  # then the wait above returns at once
                time.sleep(_PAUSE_SECONDS)
        logger.info("The engine ends.")
        return 0

    def request_stop(self) -> None:
        """Reject new runs, and end this Spark process when its last run has ended."""
        self._is_closing = True
        self._stop.set()

    def _may_end(self) -> bool:
        """Return True if no run is connected, and a stop was requested or the idle time is over."""
        with self._guard:
            if self._runs:
                return False
            if not self._is_closing:
                idle = time.monotonic() - self._idle_since
                self._is_closing = idle > self._idle_seconds
            return self._is_closing

    def _accept(self, listener: socket.socket) -> None:
        while listener.fileno() >= 0:
            try:
                connection, _ = listener.accept()
            except OSError:  # such as too many open files
                time.sleep(_PAUSE_SECONDS)
                continue
            threading.Thread(target=self._respond, args=(connection,), daemon=True).start()

    def _respond(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError, ValueError):
            connection.settimeout(_REQUEST_SECONDS)
            check_peer(connection)
            message, files = receive_message(connection)
            try:
                self._handle(connection, message)
            finally:
                for file in files:  # the locks of the run's job
                    os.close(file)

    def _handle(self, connection: socket.socket, message: Mapping[str, Any]) -> None:
        if message["request"] == "attach":
            self._serve_run(connection, message)
        elif message["request"] == "stop":
            send_message(connection, self._stop_if_unused())
        else:  # a request for the engine's state
            if message.get("wait"):
                with contextlib.suppress(TargetSparkError):
                    self._session.spark()
            send_message(connection, self._describe())

    def _stop_if_unused(self) -> dict[str, Any]:
        with self._guard:
            if not self._runs:
                self.request_stop()
            return {"runs": [run.describe() for run in self._runs.values()]}

    def _describe(self) -> dict[str, Any]:
        failure = self._session.failure
        with self._guard:
            runs = [run.describe() for run in self._runs.values()]
            idle = 0 if runs else round(time.monotonic() - self._idle_since)
        return {
            "pid": os.getpid(),
            "jvm": self._session.jvm_pid,
            "started": self._started,
            "application": self._session.application,
            "runs": runs,
            "idle": idle,
            "idle_limit": self._idle_seconds,
            "error": None if failure is None else str(failure),
        }

    # Runs

    def _serve_run(self, connection: socket.socket, message: Mapping[str, Any]) -> None:
        """Let a run use this Spark process, wait for the run's end, and cancel its remaining work.

        ``message`` is the run's first message, with its id, process id and job name. The run keeps
        the connection open until it ends.
        """
        run = _Run(str(message["run"]), int(message["pid"]), str(message["job"]), time.time())
        with self._guard:
            if self._is_closing:
                send_message(connection, {"error": _STOPPING})
                return
            self._runs[run.id] = run
        gateway: Any = None
        try:
            gateway = self._open_gateway(connection)
            if gateway is not None:
                send_message(connection, self._describe_gateway(gateway))
                connection.settimeout(None)
                with contextlib.suppress(OSError):  # the run was killed
                    receive_message(connection)
        finally:
            if gateway is not None:
                self._end_run(run, gateway)
            with self._guard:
                del self._runs[run.id]
                self._idle_since = time.monotonic()
        send_message(connection, {"ended": True})

    def _open_gateway(self, connection: socket.socket) -> Any:
        """Start a py4j server in the JVM for a run, and return its Java object.

        If Spark did not start, send the error to the run and return None.
        """
        try:
            spark: Any = self._session.spark()
            context = spark.sparkContext
            gateway = context._jvm.org.apache.spark.api.python.Py4JServer(context._jsc.sc().conf())  # noqa: SLF001
            gateway.start()
        except Exception as error:  # noqa: BLE001  (the run starts its own Spark)
            text = str(error) if isinstance(error, TargetSparkError) else first_error_line(error)
            send_message(connection, {"error": text})
            return None
        return gateway

    def _describe_gateway(self, gateway: Any) -> dict[str, Any]:
        """Return data that a run needs to connect to its py4j server and notice the JVM's end."""
        jvm = self._session.jvm_pid
        return {
            "port": gateway.getListeningPort(),
            "token": gateway.secret(),
            "jvm": jvm,
            "born": None if jvm is None else get_start_ticks(jvm),
        }

    def _end_run(self, run: _Run, gateway: Any) -> None:
        """Cancel the Spark jobs that are left of a run that has ended, and wait until they stop.

        Return immediately if the JVM has ended.
        """
        try:
            spark: Any = self._session.spark()
            jvm = spark.sparkContext._jvm  # noqa: SLF001
            gateway.shutdown()
            # `EngineSession` names the JVM threads of a run after its id.
            while run.id in jvm.java.lang.Thread.getAllStackTraces().keySet().toString():
                spark.sparkContext.cancelJobsWithTag(run.id)
                time.sleep(_PAUSE_SECONDS)
            if spark.sparkContext._jsc.sc().isStopped():  # noqa: SLF001
                self.request_stop()
        except Exception:  # the JVM has ended, or is ending
            if self._session.failure is None:
                logger.exception(
                    "The Spark jobs of an ended run (%s) could not be cancelled and may continue."
                    " To end them, stop this engine: target-spark engine stop --config FILE",
                    run.describe(),
                )


def main(arguments: Mapping[str, Any]) -> None:
    """Run an engine (shared Spark process) in this process until it ends, and exit.

    One line is written to standard output: ``ready`` once the engine accepts connections, or
    ``exists`` if another engine with the same identity is running. In the messages that this
    process logs, the secrets of the settings are redacted.

    Args:
        arguments: The engine's folder (``folder``), the parts of its identity (``identity``), its
            Spark settings (``settings``) and its working folder (``cwd``).
    """
    folder = EngineFolder(Path(arguments["folder"]))
    folder.check()
    lock = folder.lock()
    if lock is None:
        os.write(1, b"exists\n")
        sys.exit(0)
    output = _redirect_output(folder)
    os.chdir(arguments["cwd"])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s | %(levelname)-8s | %(message)s")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    scratch = open_spool_folder(None, "Spark's temporary files")
    settings = SparkSettings(**arguments["settings"], scratch=str(scratch.path.absolute()))
    register_secrets(main, collect_secrets({"spark": settings.conf}))
    session = Session(settings, pass_fds=[lock]).start()
    server = EngineServer(session, settings.engine_idle_seconds)

    signal.signal(signal.SIGTERM, lambda _signum, _frame: server.request_stop())
    listener = folder.listen()
    folder.describe(
        pid=os.getpid(), born=get_start_ticks(os.getpid()), identity=arguments["identity"]
    )
    with contextlib.suppress(OSError):  # the process that started the engine may have ended
        os.write(output, b"ready\n")
    os.close(output)
    try:
        code = server.serve(listener)
    finally:
        folder.remove_socket()
        listener.close()
        session.stop()
        scratch.close()
    sys.exit(code)


def _redirect_output(folder: EngineFolder) -> int:
    """Redirect standard output and error of this shared Spark process to its log file.

    Return a file descriptor of the previous standard output.
    """
    former = os.dup(1)
    log = folder.open_log()
    for target in (1, 2):
        os.dup2(log, target)
    os.close(log)
    return former
