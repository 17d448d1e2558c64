"""One Spark for the whole run, started in the background, and gone with the process.

Rules of the room: this is the only place that reaches below Spark's public interface.
The JVM has a process group of its own, so that a signal to ours leaves it a commit to
finish; it reads its standard input and ends when that closes, which the kernel does
for us however this process dies. Its standard output is our standard error: ours
carries states and nothing else. Each thread that writes has a session of its own,
since settings of a session are shared by all threads that use it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from target_spark.errors import (
    SparkDiedError,
    SparkUnavailableError,
    TargetSparkError,
    UnsupportedError,
)
from target_spark.spark.access_protection import (
    is_local_master,
    loopback_environment,
    protective_conf,
    warn_if_open,
)
from target_spark.spark.exact_value_conf import describe_conflict, exact_conf, find_conflicts
from target_spark.spark.jars import format_conf, jars_hint, resolve_lock, uses_s3, with_fetched
from target_spark.spark.jvm import LAUNCHER_OPTIONS, archive_file, jvm_options, spark_home
from target_spark.spark.launch_files import launch_environment
from target_spark.spark.py4j_logging import restore, silence_disconnects
from target_spark.storage.shared_check import check_shared
from target_spark.storage.uris import to_spark_uri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "MIN_JAVA_VERSION",
    "Session",
    "SparkSettings",
    "check_java",
    "load_libraries",
    "spark_conf",
]

MIN_JAVA_VERSION = 17
_JAVA_WAY_OUT = (
    f"Spark needs Java {MIN_JAVA_VERSION} or newer. Install it (Debian, Ubuntu: apt-get install"
    " openjdk-17-jre-headless; macOS: brew install openjdk@17; any system:"
    " https://adoptium.net) and put java on PATH, or set JAVA_HOME to its folder."
)
_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
_LIBRARIES = threading.Lock()

_MEMORY = "spark.driver.memory"
_END_WITHOUT_MEMORY = "-XX:+ExitOnOutOfMemoryError"
"""Else a thread that Spark cannot do without may end, and the run would wait for ever."""

_LARGE_ROWS = {
    "spark.hadoop.parquet.page.size.row.check.min": "1",
    "spark.hadoop.parquet.block.size.row.check.min": "1",
}
"""Else a writer of Parquet holds a hundred rows before it looks how large they are."""

_OUT_OF_MEMORY = {3, 52}
"""Exit codes: Java's own with that option, and Spark's."""

_LOCAL = re.compile(r"local(?:\[(\w+|\*)\])?")
_TRIES = 2
_STILL_WAITING = (
    "The run was told to stop before the cluster had given it executors. Nothing was begun, and no"
    " state was let out; look in the cluster's pages for who has its cores and its memory."
)
_DEATH_SECONDS = 10.0
"""How long a JVM whose connection broke may take to be gone."""

_STOPPED = "stopped SparkContext"
"""What Spark says of itself where a cluster has refused it, or has ended it."""

_ENDED = (
    "The cluster ended Spark's application in the middle of the run; the words of Spark stand"
    " on standard error. What was committed before stands, and no state is ahead of it; start"
    " again."
)

_LEAST_PROBES, _MOST_PROBES = 8, 256
"""Tasks that try a folder: all executors should come to one."""

_PRINTED_TWICE = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""PySpark's loggers of errors that it raises as well."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """What a run asks of Spark.

    ``master`` as Spark writes it, ``conf`` any ``spark.*`` keys (they win over ours, but for
    those that values depend on),
    ``jars`` local jars of the table format, instead of resolving them. ``addresses`` are
    those that the run reaches: a storage may need jars as well. ``small_runs``
    tells the JVM to start fast rather than to become fast. ``remote`` is a Spark
    Connect address. ``scratch`` is a private folder for what a Spark on this machine
    puts down on the way: rows that are sorted or joined stand there in plain text.
    ``shared`` are folders of this machine that executors elsewhere must see, by setting.
    """

    master: str = "local[*]"
    remote: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    format: str = "delta"
    small_runs: bool = False
    jars: Sequence[str] = ()
    addresses: Sequence[str] = ()
    app_name: str = "target-spark"
    scratch: str = ""
    shared: Mapping[str, str] = field(default_factory=dict)

    def patient(self) -> SparkSettings:
        """Return settings by which a task that fails is tried again on one machine, too.

        A cluster does so anyway; a local master has its number of tries in its name.
        """
        local = _LOCAL.fullmatch(self.master)
        return replace(self, master=f"local[{local[1] or 1},{_TRIES}]") if local else self


def load_libraries(*, connect: bool = False) -> None:
    """Import Spark's Python libraries, one thread at a time; with ``connect`` also its client's.

    Their modules import each other in circles: two threads at it would each see the
    other's half.
    """
    with _LIBRARIES:
        import pyspark.logger
        import pyspark.sql.functions

        for name in _PRINTED_TWICE:
            pyspark.logger.PySparkLogger.getLogger(name).disabled = True
        if connect:
            import pyspark.sql.connect.session
        elif find_spec("py4j") is not None:  # a client of Spark Connect alone has no bridge
            import pyspark.java_gateway


def check_java(environ: Mapping[str, str] | None = None) -> str:
    """Return the path of the Java that Spark will take.

    Raises:
        SparkUnavailableError: there is none, it does not run, or it is too old.
    """
    env = os.environ if environ is None else environ
    home = env.get("JAVA_HOME")
    java = (
        str(Path(home, "bin", "java")) if home else shutil.which("java", path=env.get("PATH", ""))
    )
    if java is None:
        raise SparkUnavailableError(
            f"No Java was found: JAVA_HOME is not set and PATH has no java. {_JAVA_WAY_OUT}"
        )
    try:
        answer = subprocess.run(  # noqa: S603  (the same program that Spark starts)
            [java, "-version"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise SparkUnavailableError(
            f"Java does not run: {java} -version: {error}. {_JAVA_WAY_OUT}"
        ) from error
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if found is None:
        first = (answer.stderr + answer.stdout).strip().partition("\n")[0]
        raise SparkUnavailableError(
            f"{java} does not tell its version ({first!r}). {_JAVA_WAY_OUT}"
        )
    if int(found[1]) < MIN_JAVA_VERSION:
        raise SparkUnavailableError(f"Java {found[1]} is too old: {java}. {_JAVA_WAY_OUT}")
    return java


def spark_conf(
    settings: SparkSettings, spark_version: str, archive: Path | None = None
) -> dict[str, str]:
    """Return every setting that Spark is started with.

    `settings.conf` wins over ours, but for what values depend on. ``archive`` is where an archive
    of Spark's classes may be.
    """
    conf = _lean(settings.master) | _upload_buffers(settings)
    conf["spark.sql.warehouse.dir"] = _default_database(settings.scratch)
    conf |= settings.conf
    conf |= exact_conf()
    conf |= format_conf(
        settings.format, settings.conf, settings.jars, spark_version, settings.addresses
    )
    conf["spark.app.name"] = settings.conf.get("spark.app.name", settings.app_name)
    conf["spark.master"] = settings.master
    key = "spark.driver.extraJavaOptions"
    given = settings.conf.get(key) or ""
    speed = jvm_options(given, small_runs=settings.small_runs, archive=archive)
    log = f'-Dlog4j2.configurationFile="{_LOG_SETTINGS.as_uri()}"'
    conf[key] = " ".join([log, _END_WITHOUT_MEMORY, *speed, given]).strip()
    return conf


def _lean(master: str) -> dict[str, str]:
    """Return what makes a Spark small."""
    conf = {
        _MEMORY: "1g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.scheduler.mode": "FAIR",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.databricks.delta.snapshotPartitions": "2",
        **_LARGE_ROWS,
        **protective_conf(master),
    }
    if is_local_master(master):  # a machine's own name may lead elsewhere
        conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if master.startswith("local"):
        conf["spark.sql.shuffle.partitions"] = str(min(8, max(2, os.cpu_count() or 2)))
    return conf


def _default_database(scratch: str) -> str:
    """Return the folder of Spark's default database, which no table goes to.

    Spark makes the folder at its start. Without a private one, it is given a folder that exists.
    """
    folder = Path(scratch, "warehouse") if scratch else Path(__file__).parent
    return to_spark_uri(str(folder))


def _upload_buffers(settings: SparkSettings) -> dict[str, str]:
    """Return where what goes to object storage is put down first; Hadoop's own choice all may read.

    On a cluster it is the executors' to choose.
    """
    is_fit = (
        settings.scratch and "," not in settings.scratch and settings.master.startswith("local")
    )
    if not is_fit or not uses_s3(settings.addresses, settings.conf):
        return {}
    return {"spark.hadoop.fs.s3a.buffer.dir": settings.scratch}


def _scratch(settings: SparkSettings) -> dict[str, str]:
    """Return where Spark puts things down, as it reads it; its own choice all may read."""
    is_fit = settings.scratch and "," not in settings.scratch  # which Spark would divide
    is_set = "spark.local.dir" in settings.conf or "SPARK_LOCAL_DIRS" in os.environ
    if not is_fit or is_set or not settings.master.startswith("local"):
        return {}
    return {"SPARK_LOCAL_DIRS": settings.scratch}


class Session:
    """A Spark that starts in the background: `start`, then `spark()` waits for it."""

    def __init__(
        self,
        settings: SparkSettings,
        *,
        pass_fds: Sequence[int] = (),
        on_jvm: Callable[[int], None] | None = None,
    ) -> None:
        self._settings = settings
        self._pass_fds = tuple(pass_fds)
        self._on_jvm = on_jvm
        self._local = threading.local()
        self._gateway: Any = None
        self._spark: SparkSession | None = None
        self._failure: TargetSparkError | None = None
        self._application: str | None = None
        self._quiet: logging.Filter | None = None
        self._closing = self._is_waiting = False
        self._thread = threading.Thread(target=self._run, name="spark-start", daemon=True)

    @classmethod
    def start(
        cls,
        settings: SparkSettings,
        *,
        pass_fds: Sequence[int] = (),
        on_jvm: Callable[[int], None] | None = None,
    ) -> Session:
        """Begin to start Spark and return at once.

        ``pass_fds`` are open files that live as long as the JVM does (a lock, say);
        ``on_jvm`` is called with the JVM's process id before Spark can write anything.
        """
        session = cls(settings, pass_fds=pass_fds, on_jvm=on_jvm)
        session._thread.start()
        return session

    def spark(self) -> SparkSession:
        """Return the Spark session, waiting until it is up.

        Raises:
            SparkUnavailableError: it cannot come up, and why.
        """
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        if self._spark is None:
            raise SparkUnavailableError("Spark was stopped.")
        return self._spark

    def thread_session(self) -> SparkSession:
        """Return this thread's own session: settings and temporary views are not shared."""
        spark = self.spark()
        mine: SparkSession | None = getattr(self._local, "spark", None)
        if mine is None:
            mine = self._local.spark = spark.newSession()
            spark.sparkContext.setLocalProperty(
                "spark.scheduler.pool", threading.current_thread().name
            )
        return mine

    @property
    def jvm_pid(self) -> int | None:
        """The JVM's process id; None before it runs."""
        process = self._process()
        return None if process is None else process.pid

    @property
    def application(self) -> str | None:
        """What Spark calls this run; known once it is up, and ever after."""
        return self._application

    @property
    def failure(self) -> TargetSparkError | None:
        """Why Spark cannot come up or is gone, as far as that is known by now; never waits."""
        process = self._process()
        if self._failure is None and self._spark is not None and process is not None:
            code = process.poll()
            if code is not None:
                self._failure = _death(code, self._settings)
            elif self._is_ended():
                self._failure = SparkDiedError(_ENDED)
        return self._failure

    def stop(self, wait_seconds: float = 30) -> None:
        """End Spark and its JVM, and wait until it is gone; a JVM that stays is killed."""
        self._thread.join()
        self._closing = True
        if self._spark is not None:
            context = self._spark.sparkContext
            with contextlib.suppress(Exception):  # a JVM that is gone cannot be asked
                self._spark.stop()
            with contextlib.suppress(Exception):  # and this ends what that broke off
                context.stop()
        self._forget()
        process = self._process()
        if process is None:
            return
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(wait_seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            process.wait()

    def kill(self) -> None:
        """End the JVM at once; what it was committing may or may not be in the tables."""
        pid = self.jvm_pid
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)

    def give_up_waiting(self) -> None:
        """End the JVM if it still waits for a cluster's executors: nothing was begun."""
        if self._is_waiting:
            self._failure = SparkUnavailableError(_STILL_WAITING)
            self.kill()

    def _is_ended(self) -> bool:
        """Tell whether a cluster has ended the application, whose JVM lives on without it."""
        spark = self._spark
        if spark is None or self._closing or self._settings.master.startswith("local"):
            return False
        context: Any = spark.sparkContext
        try:
            return bool(context._jsc.sc().isStopped())  # noqa: SLF001
        except Exception:  # noqa: BLE001  (a JVM that is just ending: it is asked for next time)
            return False

    def _process(self) -> Any:
        return getattr(self._gateway, "proc", None)

    def _is_gone(self) -> bool:
        """Tell whether the JVM has ended; its connection broke, so it may be about to."""
        try:
            self._process().wait(_DEATH_SECONDS)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _run(self) -> None:
        try:
            self._spark = self._start()
            self._application = self._spark.sparkContext.applicationId
            self._check_shared(self._spark)
        except TargetSparkError as error:
            self._failure = self._failure or (SparkDiedError(_ENDED) if self._is_ended() else error)
        except Exception as error:  # noqa: BLE001  (it is raised where Spark is asked for)
            self._failure = SparkUnavailableError(
                f"Spark did not start: {_explain_failure(error, self._settings.master)}"
            )
            self._failure.__cause__ = error

    def _start(self) -> SparkSession:
        try:
            version = metadata.version("pyspark")
        except metadata.PackageNotFoundError as error:
            raise SparkUnavailableError(
                "PySpark is not installed: pip install 'tap-core-sdk[spark]'"
            ) from error
        load_libraries()
        java = check_java()
        home = spark_home(self._settings.master, version)
        conf = with_fetched(spark_conf(self._settings, version, archive_file(java, home)), home)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LAUNCHER_OPTS", LAUNCHER_OPTIONS)
        warn_if_open(self._settings.master, conf)
        with _environment(**_workers_python(conf)):
            self._launch(conf, home, java)
            return self._connect(conf)

    def _check_shared(self, spark: SparkSession) -> None:
        """Let the executors of a cluster try the folders that they must see."""
        if not self._settings.shared:
            return
        context: Any = spark.sparkContext
        self._is_waiting = True
        try:
            check_shared(
                spark.newSession(),
                self._settings.shared,
                lambda: int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1,  # noqa: SLF001
                min(_MOST_PROBES, max(_LEAST_PROBES, 2 * context.defaultParallelism)),
            )
        finally:
            self._is_waiting = False

    def _launch(self, conf: Mapping[str, str], home: Path, java: str) -> None:
        """Start the JVM, whose command line shows none of the settings."""
        from pyspark import java_gateway
        from pyspark.errors import PySparkRuntimeError

        launch: Any = java_gateway.launch_gateway  # it has no types
        popen: dict[str, Any] = {
            "stdout": _stderr_or_nothing(),
            "start_new_session": True,
            "pass_fds": self._pass_fds,
        }
        private = _scratch(self._settings) | loopback_environment(self._settings.master)
        try:
            with (
                resolve_lock(conf),
                launch_environment(conf, java) as arguments,
                _environment(SPARK_HOME=str(home), **private, **arguments),
            ):
                self._gateway = launch(None, popen)
        except PySparkRuntimeError as error:
            raise SparkUnavailableError(
                "Spark's JVM ended before it was up; its own words stand on standard error."
                + (
                    jars_hint(self._settings.format, conf)
                    or " Check master and the spark settings."
                )
            ) from error
        self._quiet = silence_disconnects(self._is_gone)
        pid = self.jvm_pid
        if pid is not None and self._on_jvm is not None:
            self._on_jvm(pid)

    def _connect(self, conf: Mapping[str, str]) -> SparkSession:
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession

        context = SparkContext(
            conf=SparkConf(loadDefaults=False).setAll(list(conf.items())), gateway=self._gateway
        )
        try:
            _check_values(dict(context.getConf().getAll()))
        except UnsupportedError:
            context.stop()
            raise
        return SparkSession.builder.getOrCreate()

    def _forget(self) -> None:
        """Make pyspark forget the JVM, so that a later session starts its own."""
        self._spark = None
        if self._gateway is None:
            return
        from pyspark import SparkContext

        with contextlib.suppress(Exception):  # the JVM may be gone already
            self._gateway.shutdown()
        if self._quiet is not None:
            restore(self._quiet)
        if SparkContext._gateway is self._gateway:  # noqa: SLF001
            SparkContext._gateway = None  # noqa: SLF001
            SparkContext._jvm = None  # noqa: SLF001


def _check_values(conf: Mapping[str, str]) -> None:
    """Refuse settings in force, also of ``spark-defaults.conf``, that would falsify values."""
    found = [describe_conflict(key, conf[key], why) for key, why in find_conflicts(conf)]
    if found:
        raise UnsupportedError(f"Spark's settings would falsify values: {'; '.join(found)}.")


def _explain_failure(error: Exception, master: str) -> str:
    """Say why no application came up, without the stacks of the JVM."""
    text = str(error)
    if _STOPPED not in text or master.startswith("local"):
        return text.partition("\n\tat ")[0]
    return (
        f"{master} (the setting master) took no application. A master of the same line of Spark"
        " must run there, and it and its workers must reach this machine (spark.driver.host, in"
        " the setting spark); Spark's own words stand on standard error."
    )


def _death(code: int, settings: SparkSettings) -> SparkDiedError:
    """Say how the JVM ended, by its exit code."""
    memory = settings.conf.get(_MEMORY) or _lean(settings.master)[_MEMORY]
    if code in _OUT_OF_MEMORY:
        why = f"it ran out of memory: {_MEMORY} is {memory}. Set more of it (in spark)"
        why += ", or a smaller flush_bytes or flush_rows"
    elif code == -signal.SIGKILL:
        why = (
            f"it was killed, perhaps by the system for want of memory ({_MEMORY} is {memory});"
            " give the machine or the container more, or Spark less"
        )
    else:
        why = f"signal {-code}" if code < 0 else f"exit code {code}"
        why += "; its own words stand on standard error"
    return SparkDiedError(
        f"Spark's JVM ended in the middle of the run: {why}. What was committed before"
        " stands, and no state is ahead of it; start again."
    )


def _workers_python(conf: Mapping[str, str]) -> dict[str, str]:
    """Return which Python executors start, as pyspark reads it; ours where nothing is said."""
    python = conf.get("spark.pyspark.python")
    return {"PYSPARK_PYTHON": python} if python else {}


@contextlib.contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Say it as pyspark and Spark read it, and only while they do."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _stderr_or_nothing() -> int:
    """Return where the JVM's standard output goes: our standard error, if there is one."""
    try:
        os.fstat(2)
    except OSError:
        return subprocess.DEVNULL
    return 2
