"""A real standalone Spark cluster: a master and workers from PySpark's own package.

All programs listen on loopback, on ports that the system chose, and work in one folder. Each
program is the child of a supervisor process, which kills it and all that it started once the pipe
to the starting process closes; so nothing outlives a test run. The caller waits until the master
has registered the workers.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from typing_extensions import Self

__all__ = ["StandaloneCluster", "Worker", "list_descendants"]

_MASTER: Final = "org.apache.spark.deploy.master.Master"
_WORKER: Final = "org.apache.spark.deploy.worker.Worker"
_EXECUTOR: Final = b"CoarseGrainedExecutorBackend"
_PYTHON_WORKER: Final = b"pyspark.daemon"
_JAVA_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_MASTER_URL: Final = re.compile(r"Starting Spark master at (spark://[\d.]+:\d+)")
_WEB_UI_URL: Final = re.compile(r"Bound MasterWebUI to [^\n]* started at (http://[\w.-]+:\d+)")
_WAIT_SECONDS: Final = 300.0
_STOP_SECONDS: Final = 60.0
_CHILD_SUBREAPER: Final = 36
"""Option of prctl: an orphaned grandchild becomes this process's child."""


@dataclass
class Worker:
    """One worker, running or dead; ``folder`` has the files of it and its executors."""

    folder: Path
    command_prefix: Sequence[str] = ()
    supervisor: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """The log file of the worker."""
        return self.folder / "log"

    @property
    def alive(self) -> bool:
        """Return True if the supervisor, and so the worker, runs."""
        return self.supervisor is not None and self.supervisor.poll() is None

    def executors(self) -> list[int]:
        """Return the process ids of its executors' JVMs, the oldest first."""
        return self._find_processes(_EXECUTOR)

    def pythons(self) -> list[int]:
        """Return the process ids of its executors' Python workers, and of their parents."""
        return self._find_processes(_PYTHON_WORKER)

    def _find_processes(self, command_part: bytes) -> list[int]:
        if self.supervisor is None:
            return []
        return sorted(
            pid
            for pid in list_descendants(self.supervisor.pid)
            if command_part in _read_command_line(pid)
        )


@dataclass
class StandaloneCluster:
    """A master and ``workers`` workers of ``cores`` cores each, as a context manager.

    ``memory`` is what a worker offers to executors. ``environ`` is added to the workers'
    environment; ``command_prefix`` is put before the command of each worker; ``hosts``
    are the addresses of the workers in rotation, which Spark takes for different machines.
    ``conf`` goes to the ``spark-defaults.conf`` of the master and the workers. ``folder`` is
    created; the caller removes it.
    """

    folder: Path
    workers: int = 2
    cores: int = 2
    memory: str = "4g"
    environ: Mapping[str, str] = field(default_factory=dict)
    command_prefix: Sequence[str] = ()
    python: str = sys.executable
    conf: Mapping[str, str] = field(default_factory=dict)
    hosts: Sequence[str] = ("127.0.0.1",)
    started_workers: list[Worker] = field(default_factory=list, init=False)
    master: str = field(default="", init=False)
    _web_ui: str = field(default="", init=False)
    _supervisor: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        """Start all programs, and wait until the master has registered every worker."""
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def small_application_conf(self) -> dict[str, str]:
        """Settings for a small application that starts quickly."""
        return {
            "spark.executor.memory": "640m",
            "spark.executor.extraJavaOptions": _JAVA_OPTIONS,
            "spark.sql.shuffle.partitions": "2",
        }

    @property
    def log(self) -> Path:
        """The log file of the master."""
        return self.folder / "master" / "log"

    def executors(self) -> list[int]:
        """Return the process ids of all executors' JVMs."""
        return [pid for worker in self.started_workers for pid in worker.executors()]

    def pythons(self) -> list[int]:
        """Return the process ids of all executors' Python workers, and of their parents."""
        return [pid for worker in self.started_workers for pid in worker.pythons()]

    def wait_for_executors(self, count: int = 1, seconds: float = _WAIT_SECONDS) -> list[int]:
        """Wait for ``count`` executors; return their process ids."""
        return _wait_until(
            lambda: pids if len(pids := self.executors()) >= count else None, seconds
        )

    def kill_executor(self, index: int = 0) -> int:
        """Kill one executor with SIGKILL; return its process id."""
        pid = self.wait_for_executors(index + 1)[index]
        os.kill(pid, signal.SIGKILL)
        _wait_until(lambda: pid not in self.executors())
        return pid

    def kill_worker(self, index: int = 0) -> None:
        """Kill a worker and all that it started, as if its machine had failed."""
        worker = self.started_workers[index]
        if worker.supervisor is not None:
            _stop_supervisor(worker.supervisor)
        worker.supervisor = None

    def add_worker(self, *, command_prefix: Sequence[str] = ()) -> Worker:
        """Start one more worker, perhaps with a command prefix, and wait for its registration."""
        worker = self._create_worker(command_prefix)
        self.wait_for_workers()
        return worker

    def restart_worker(self, index: int = 0) -> None:
        """Restart a worker, and wait for its registration."""
        self.kill_worker(index)
        self._start_worker(self.started_workers[index])
        self.wait_for_workers()

    def wait_for_workers(self, seconds: float = _WAIT_SECONDS) -> None:
        """Wait until the master has registered all running workers."""
        count = sum(worker.alive for worker in self.started_workers)
        _wait_until(lambda: len(self._list_alive_workers()) == count, seconds, self._read_log)

    def applications(self) -> list[str]:
        """Return the names of the applications that the master runs now."""
        return [app["name"] for app in self.state()["activeapps"]]

    def state(self) -> dict[str, Any]:
        """Return the master's status: workers, activeapps, completedapps."""
        with urllib.request.urlopen(f"{self._web_ui}/json/", timeout=10) as response:  # noqa: S310
            state_document: dict[str, Any] = json.load(response)
        return state_document

    def stop(self) -> None:
        """End all programs."""
        for index in range(len(self.started_workers)):
            self.kill_worker(index)
        if self._supervisor is not None:
            _stop_supervisor(self._supervisor)
        self._supervisor = None

    def _start(self) -> None:
        folder = self.folder / "master"
        folder.mkdir(parents=True)
        self._configure(folder)
        arguments = [_MASTER, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        self._supervisor = _start_supervised(
            [str(_get_spark_home() / "bin" / "spark-class"), *arguments], folder, {}
        )
        self.master = _wait_until(
            lambda: find_in_log(_MASTER_URL, self.log), read_log=self._read_log
        )
        self._web_ui = _wait_until(
            lambda: find_in_log(_WEB_UI_URL, self.log), read_log=self._read_log
        )
        for _ in range(self.workers):
            self._create_worker(self.command_prefix)
        self.wait_for_workers()

    def _configure(self, folder: Path) -> None:
        """Write ``conf`` into the folder in which a program looks for it."""
        conf_file = folder / "spark-defaults.conf"
        conf_file.touch(0o600)
        conf_file.write_text("".join(f"{key} {value}\n" for key, value in self.conf.items()))

    def _create_worker(self, command_prefix: Sequence[str]) -> Worker:
        worker = Worker(self.folder / f"worker-{len(self.started_workers)}", tuple(command_prefix))
        worker.folder.mkdir()
        self._configure(worker.folder)
        self.started_workers.append(worker)
        self._start_worker(worker)
        return worker

    def _start_worker(self, worker: Worker) -> None:
        host = self.hosts[self.started_workers.index(worker) % len(self.hosts)]
        arguments = [_WORKER, self.master, "--host", host, "--webui-port", "0"]
        arguments += ["--cores", str(self.cores), "--memory", self.memory]
        arguments += ["--work-dir", str(worker.folder / "work")]
        environ = {"SPARK_LOCAL_DIRS": str(worker.folder / "local"), **self.environ}
        command = [
            *worker.command_prefix,
            str(_get_spark_home() / "bin" / "spark-class"),
            *arguments,
        ]
        environ.setdefault("PYSPARK_PYTHON", self.python)
        worker.supervisor = _start_supervised(command, worker.folder, environ)

    def _list_alive_workers(self) -> list[Any]:
        return [worker for worker in self.state()["workers"] if worker["state"] == "ALIVE"]

    def _read_log(self) -> str:
        logs = [self.log, *(worker.log for worker in self.started_workers)]
        texts = (log.read_text(errors="replace")[-2000:] for log in logs if log.exists())
        return "\n".join(texts)


def _get_spark_home() -> Path:
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def _start_supervised(command: Sequence[str], folder: Path, environ: Mapping[str, str]) -> Any:
    """Start a program below its own supervisor; its output goes to ``log`` in the folder."""
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "SPARK_HOME": str(_get_spark_home()),
        "SPARK_CONF_DIR": str(folder),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": _JAVA_OPTIONS,
        "SPARK_LAUNCHER_OPTS": _JAVA_OPTIONS,
        "LC_ALL": "C.UTF-8",
    }
    if "JAVA_HOME" in os.environ:
        environment["JAVA_HOME"] = os.environ["JAVA_HOME"]
    return subprocess.Popen(
        [sys.executable, __file__, "--supervise", str(folder), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env={**environment, **environ},
        start_new_session=True,  # Ctrl-C goes to the tests, which end their cluster
    )


def _stop_supervisor(supervisor: subprocess.Popen[bytes]) -> None:
    assert supervisor.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        supervisor.stdin.close()
    supervisor.wait(_STOP_SECONDS)


def find_in_log(pattern: re.Pattern[str], log: Path) -> str | None:
    match = pattern.search(log.read_text(errors="replace")) if log.exists() else None
    return match and match[1]


def _wait_until(condition: Any, seconds: float = _WAIT_SECONDS, read_log: Any = str) -> Any:
    """Wait until a condition is true; return its value."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"The condition was not met within {seconds:.0f} s.\n{read_log()}")
        time.sleep(0.05)
    return value


# ------------------------------------------------------------------------------ processes
def list_descendants(pid: int) -> list[int]:
    """Return the processes that a process started, directly or indirectly."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    pids = {pid}
    while children := {child for child, parent in parents.items() if parent in pids} - pids:
        pids |= children
    return sorted(pids - {pid})


def _read_command_line(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


# -------------------------------------------------------------------------- the supervisor
def _supervise(folder: Path, command: list[str]) -> int:
    """Run a program until standard input or the program ends; leave no process behind."""
    ctypes.CDLL(None).prctl(_CHILD_SUBREAPER, 1, 0, 0, 0)
    with (folder / "log").open("wb") as log:
        child = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    signals: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda signum, _: signals.append(signum))
    while not signals and child.poll() is None and not select.select([0], [], [], 0.2)[0]:
        pass
    _kill_descendants()
    return 0


def _kill_descendants() -> None:
    """Kill all descendants of this process, repeatedly until there is none."""
    while pids := list_descendants(os.getpid()):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.01)


if __name__ == "__main__":
    assert sys.argv[1] == "--supervise"
    sys.exit(_supervise(Path(sys.argv[2]), sys.argv[3:]))
