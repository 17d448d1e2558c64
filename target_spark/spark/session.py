"""Spark driver of a run: a JVM that starts in the background and ends with this process.

- The JVM has a separate process group, so that a signal to this process does not interrupt a
  commit. It ends when its standard input closes, which happens even if this process is killed.
- The JVM's standard output is redirected to standard error, because this process writes only
  states to standard output.
- Each writer thread has a separate session, because threads that share a session share its
  settings.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pwd
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

from typing_extensions import Self

from target_spark.errors import (
    SparkDiedError,
    SparkUnavailableError,
    TargetSparkError,
    UnsupportedError,
)
from target_spark.phase_timing import FETCH, START, Phases
from target_spark.spark.access_protection import (
    loopback_environment,
    protective_conf,
    runs_on_this_machine,
    warn_if_open,
)
from target_spark.spark.exact_value_conf import describe_conflict, exact_conf, find_conflicts
from target_spark.spark.jars import (
    find_class_path_jars,
    format_conf,
    jars_hint,
    resolve_lock,
    uses_s3,
    with_fetched,
)
from target_spark.spark.jvm import (
    LAUNCHER_OPTIONS,
    archive_file,
    archive_options,
    find_exit_seconds,
    jvm_options,
    spark_home,
)
from target_spark.spark.launch_files import launch_environment
from target_spark.spark.py4j_logging import restore, silence_disconnects
from target_spark.storage.shared_storage_check import check_shared
from target_spark.storage.uris import to_spark_uri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "JAVA_VERSIONS",
    "Launch",
    "Session",
    "SparkSettings",
    "build_start_conf",
    "check_java",
    "check_packages",
    "find_missing_package",
    "find_pyspark_version",
    "load_libraries",
    "plan_launch",
]

JAVA_VERSIONS = range(17, 23)
"""Versions of Java on which Spark 4.1 runs. Its Hadoop 3.4 calls ``Subject.getSubject``, which
fails from Java 23 on."""
_JAVA_REMEDY = (
    f"Spark needs Java {JAVA_VERSIONS[0]} to {JAVA_VERSIONS[-1]}. Install it (Debian, Ubuntu:"
    " apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17; any system:"
    " https://adoptium.net) and put java on PATH, or set JAVA_HOME to its folder."
)
_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
_IMPORT_LOCK = threading.Lock()
_PACKAGES = {"pyspark": "PySpark", "pyarrow": "PyArrow", "deltalake": "deltalake"}
_NOT_INSTALLED = "{} is not installed: pip install 'tap-core-sdk[spark]'"

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_MEMORY = "spark.driver.memory"
_END_WITHOUT_MEMORY = "-XX:+ExitOnOutOfMemoryError"
"""JVM option that ends the JVM if memory runs out. Without it, only a thread of Spark might end,
and the run would wait forever."""

_LARGE_ROWS = {
    "spark.hadoop.parquet.page.size.row.check.min": "1",
    "spark.hadoop.parquet.block.size.row.check.min": "1",
}
"""Settings that make a Parquet writer check the size of its buffer after each row. By default it
first buffers 100 rows, which may exceed the memory if rows are large."""

_OUT_OF_MEMORY = {3, 52}
"""Exit codes of a JVM that ran out of memory: 3 from Java (``ExitOnOutOfMemoryError``), 52 from
Spark."""

_LOCAL = re.compile(r"local(?:\[(\w+|\*)\])?")
"""Regular expression for a local master URL; group 1 is the number of threads, or ``*``."""

_TASK_ATTEMPTS = 2
"""Number of attempts to run a task, with a local master."""

_STILL_WAITING = (
    "The run was stopped before the cluster had assigned executors. Nothing was written, and no"
    " state was emitted; check in the cluster's UI which applications use its cores and memory."
)
_DEATH_SECONDS = 10.0
"""Seconds to wait for the JVM to end after the connection to it broke."""

_STOP_SECONDS = 120.0
"""Seconds that Spark has to stop, before its JVM is killed. On a cluster it may upload its event
log then."""

_STOPPED = "stopped SparkContext"
"""Text in the errors that Spark raises after a cluster has rejected or ended the application."""

_APPLICATION_ENDED = (
    "The cluster ended Spark's application in the middle of the run; Spark's messages are on"
    " standard error. Earlier commits are safe, and no state is ahead of them; start again."
)

_MIN_PROBES, _MAX_PROBES = 8, 256
"""Minimum and maximum number of Spark tasks that test if executors can access a folder. Each
executor should run at least one of them."""

_PYTHON_VARIABLES = {"PYTHONSAFEPATH": "1"}
"""Environment variable that keeps Spark's Python workers from importing modules from the working
directory (since Python 3.11)."""

_DUPLICATE_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Names of PySpark loggers that are disabled, because PySpark also raises the errors they log."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """Spark settings of a run.

    Attributes:
        master: Spark's master URL.
        remote: The connection string of a Spark Connect server; None for a local JVM.
        conf: The user's ``spark.*`` settings, which override the target's defaults. A setting that
            would change stored values is rejected.
        format: The table format.
        small_runs: True to optimize the JVM for a fast start; False to optimize it for long runs.
        jars: Paths of local jars for the table format, used instead of downloaded ones.
        addresses: The addresses of the run's tables and files; S3 addresses need further jars.
        app_name: The name of the application in Spark.
        scratch: A private folder for temporary files of a local Spark, which contain rows in plain
            text; "" for Spark's default.
        engine: ``auto`` to use a running engine that fits these settings, ``keep`` to start one if
            there is none, or ``never``. An engine is a Spark process that keeps running between
            runs.
        engine_idle_seconds: Idle seconds until an engine ends, if this run starts it.
        shared: Folders of this machine that remote executors must be able to access, by the name of
            the setting that has the folder.
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
    engine: str = "never"
    engine_idle_seconds: float = 1800

    def with_task_retries(self) -> SparkSettings:
        """Return settings with which Spark retries failed tasks and is not shared with other runs.

        For a local master, the number of attempts is part of the master URL: ``local[4]`` becomes
        ``local[4,2]``. A cluster retries by default.
        """
        settings = replace(self, engine="never")  # the tasks run a tap
        local = _LOCAL.fullmatch(self.master)
        if local is None:
            return settings
        return replace(settings, master=f"local[{local[1] or 1},{_TASK_ATTEMPTS}]")


def find_pyspark_version() -> str:
    """Return the version of the installed PySpark.

    Raises:
        SparkUnavailableError: PySpark is not installed, or Databricks Connect replaces it.
    """
    # If a package is missing, `metadata.version` ends its block before the block raises or returns.
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version("pyspark")
    with contextlib.suppress(metadata.PackageNotFoundError):
        raise SparkUnavailableError(
            f"Databricks Connect {metadata.version('databricks-connect')} is installed instead"
            " of PySpark. Install target-spark in a separate environment, without"
            " databricks-connect: pip install 'tap-core-sdk[spark]'"
        )
    with contextlib.suppress(metadata.PackageNotFoundError):
        raise SparkUnavailableError(
            f"Only pyspark-client {metadata.version('pyspark-client')} is installed, the client of"
            " Spark Connect."
            " Set remote to the address of a Spark Connect server, or install target-spark in a"
            " separate environment, without pyspark-client: pip install 'tap-core-sdk[spark]'"
        )
    raise SparkUnavailableError(_NOT_INSTALLED.format("PySpark"))


def find_missing_package() -> str:
    """Return instructions to install a package that loads need and that is missing, else ""."""
    missing = next((name for name in _PACKAGES if find_spec(name) is None), "")
    return missing and _NOT_INSTALLED.format(_PACKAGES[missing])


def check_packages() -> None:
    """Check that the Python packages that every load needs are installed.

    Raises:
        SparkUnavailableError: A package is missing.
    """
    if missing := find_missing_package():
        raise SparkUnavailableError(missing)


def load_libraries(*, connect: bool = False) -> None:
    """Import Spark's Python libraries under a lock.

    Without the lock, two threads that import them at the same time could see partly initialized
    modules, because the libraries import each other.

    Args:
        connect: True to import the Spark Connect client; False to import the libraries for a local
            JVM.

    Raises:
        SparkUnavailableError: A package is missing.
    """
    check_packages()
    with _IMPORT_LOCK:
        import pyspark.logger
        import pyspark.sql.functions

        for name in _DUPLICATE_LOGGERS:
            pyspark.logger.PySparkLogger.getLogger(name).disabled = True
        if connect:
            import pyspark.sql.connect.session
        elif find_spec("py4j") is not None:  # missing in the Spark Connect client package
            import pyspark.java_gateway


def check_java(environ: Mapping[str, str] | None = None) -> str:
    """Check the Java program that Spark will use, and the user; return the program's path.

    Args:
        environ: The environment variables to read; None for those of this process.

    Raises:
        SparkUnavailableError: Java is missing, does not run, or Spark does not run on its version;
            or the user of this process has no name.
    """
    env = os.environ if environ is None else environ
    home = env.get("JAVA_HOME")
    java = (
        str(Path(home, "bin", "java")) if home else shutil.which("java", path=env.get("PATH", ""))
    )
    if java is None:
        raise SparkUnavailableError(
            f"No Java was found: JAVA_HOME is not set and PATH has no java. {_JAVA_REMEDY}"
        )
    try:
        result = subprocess.run(  # noqa: S603  (the same program that Spark starts)
            [java, "-version"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise SparkUnavailableError(
            f"Java does not run: {java} -version: {_describe_java_failure(error)}. {_JAVA_REMEDY}"
        ) from error
    match = re.search(r'version "(?:1\.)?(\d+)', result.stderr + result.stdout)
    if match is None:
        first_line = (result.stderr + result.stdout).strip().partition("\n")[0]
        raise SparkUnavailableError(
            f"{java} does not print its version ({first_line!r}). {_JAVA_REMEDY}"
        )
    if (version := int(match[1])) not in JAVA_VERSIONS:
        fault = "old" if version < JAVA_VERSIONS[0] else "new"
        raise SparkUnavailableError(f"Java {version} is too {fault}: {java}. {_JAVA_REMEDY}")
    _check_user()
    return java


def _check_user() -> None:
    """Check that the user of this process has a name, which Hadoop needs.

    Raises:
        SparkUnavailableError: The user has no name, as in a container with any user id.
    """
    uid = os.geteuid()
    try:
        pwd.getpwuid(uid)
    except KeyError:
        raise SparkUnavailableError(
            f"Spark does not start for the user id {uid}, which has no entry in /etc/passwd. Create"
            f" the user in the container's image (useradd --uid {uid} loader), or run the container"
            " as a user that the image has."
        ) from None


def _describe_java_failure(error: OSError | subprocess.SubprocessError) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        return f"exit code {error.returncode} {error.stderr.strip().partition(chr(10))[0]}".strip()
    return getattr(error, "strerror", None) or str(error)


def build_start_conf(settings: SparkSettings, spark_version: str) -> dict[str, str]:
    """Return all settings for the start of a local Spark or of a cluster's driver.

    Args:
        settings: The settings of the run. The user's ``conf`` overrides the target's defaults, but
            not settings such as the time zone, without which Spark would change values.
        spark_version: The version of Spark.
    """
    conf = _build_default_conf(settings.master) | _build_upload_buffer_conf(settings)
    conf["spark.sql.warehouse.dir"] = _get_default_database(settings.scratch)
    conf |= settings.conf
    conf |= exact_conf()
    conf |= format_conf(
        settings.format, settings.conf, settings.jars, spark_version, settings.addresses
    )
    conf["spark.app.name"] = settings.conf.get("spark.app.name", settings.app_name)
    conf["spark.master"] = settings.master
    user_options = settings.conf.get(_JAVA_OPTIONS) or ""
    speed = jvm_options(user_options, small_runs=settings.small_runs)
    log = f'-Dlog4j2.configurationFile="{_LOG_SETTINGS.as_uri()}"'
    conf[_JAVA_OPTIONS] = " ".join([log, _END_WITHOUT_MEMORY, *speed, user_options]).strip()
    return conf


@dataclass(frozen=True, slots=True)
class Launch:
    """Parameters for the start of a Spark JVM.

    Attributes:
        conf: All Spark settings. The jars of table formats in them are local files.
        home: The installation folder of Spark.
        archive: The path of the class archive for this JVM, a file of loaded Java classes that
            shortens the start. ``conf`` refers to it if it exists.
    """

    conf: Mapping[str, str]
    home: Path
    archive: Path


def plan_launch(settings: SparkSettings, spark_version: str, java: str) -> Launch:
    """Download missing jars, and return the parameters for the start of Spark.

    Args:
        settings: The settings of the run.
        spark_version: The version of Spark.
        java: The path of the Java program.

    Raises:
        SparkUnavailableError: A jar cannot be downloaded, or differs from the published one.
    """
    home = spark_home(settings.master, spark_version)
    conf = with_fetched(build_start_conf(settings, spark_version), home)
    jars = find_class_path_jars(settings.format, conf, spark_version)
    if jars:
        home = spark_home(settings.master, spark_version, jars)
        if all((home / "jars" / Path(jar).name).is_file() for jar in jars):
            conf["spark.jars"] = ""  # the JVM loads all jars in this folder
    archive = archive_file(java, home)
    options = conf[_JAVA_OPTIONS]
    conf[_JAVA_OPTIONS] = " ".join([*archive_options(options, archive), options])
    return Launch(conf, home, archive)


def _build_default_conf(master: str) -> dict[str, str]:
    """Return the target's default Spark settings, which are suited to small loads.

    The settings are 1 GB of driver memory, no web UI and, for a local master, 2 to 8 shuffle
    partitions.
    """
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
    if runs_on_this_machine(master):  # the machine's host name may resolve to another address
        conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if master.startswith("local"):
        conf["spark.sql.shuffle.partitions"] = str(min(8, max(2, os.cpu_count() or 2)))
    return conf


def _get_default_database(scratch: str) -> str:
    """Return the URL of the folder for Spark's default database, which must exist but stays empty.

    It is a folder inside ``scratch``, the private folder for temporary files. If ``scratch`` is "",
    an existing folder is used, so that Spark creates none in the working directory.
    """
    folder = Path(scratch, "warehouse") if scratch else Path(__file__).parent
    return to_spark_uri(str(folder))


def _get_scratch(settings: SparkSettings) -> str:
    """Return the run's private folder for temporary files; "" on a cluster, or without a folder.

    It replaces the default folders of Spark and Hadoop, which all users can read.
    """
    is_usable = settings.master.startswith("local") and "," not in settings.scratch
    return settings.scratch if is_usable else ""  # a comma would separate two folders


def _build_upload_buffer_conf(settings: SparkSettings) -> dict[str, str]:
    """Return the Spark setting that buffers uploads to S3 in the private folder, if there is one.

    The result is empty if the run does not use S3.
    """
    scratch = _get_scratch(settings)
    is_used = scratch and uses_s3(settings.addresses, settings.conf)
    return {"spark.hadoop.fs.s3a.buffer.dir": scratch} if is_used else {}


def _build_scratch_environment(settings: SparkSettings) -> dict[str, str]:
    """Return ``SPARK_LOCAL_DIRS``, which moves Spark's temporary files to the private folder.

    The result is empty if there is no private folder, or if the user has configured a folder.
    """
    scratch = _get_scratch(settings)
    is_set = "spark.local.dir" in settings.conf or "SPARK_LOCAL_DIRS" in os.environ
    return {"SPARK_LOCAL_DIRS": scratch} if scratch and not is_set else {}


class Session:
    """Spark driver in a JVM on this machine, which the method `start` starts in the background.

    Args:
        settings: The Spark settings of the run.
        pass_fds: File descriptors that the JVM inherits. If one belongs to a lock, the lock is held
            until the JVM ends.
        on_jvm: Function that is called with the JVM's process id before Spark can write.
        phases: Recorder of the run's phases, or None.
    """

    def __init__(
        self,
        settings: SparkSettings,
        *,
        pass_fds: Sequence[int] = (),
        on_jvm: Callable[[int], None] | None = None,
        phases: Phases | None = None,
    ) -> None:
        self._settings = settings
        self._phases = phases or Phases()
        self._pass_fds = tuple(pass_fds)
        self._on_jvm = on_jvm
        self._local = threading.local()
        self._gateway: Any = None
        self._spark: SparkSession | None = None
        self._failure: TargetSparkError | None = None
        self._application: str | None = None
        self._log_filter: logging.Filter | None = None
        self._closing = False
        self._is_waiting = False
        self._thread = threading.Thread(target=self._run, name="spark-start", daemon=True)

    def start(self) -> Self:
        """Start Spark in the background and return at once; the method `spark` waits for it."""
        self._thread.start()
        return self

    def spark(self) -> SparkSession:
        """Return the main Spark session, after waiting until Spark has started.

        Raises:
            SparkUnavailableError: Spark cannot start; the message has the reason.
        """
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        if self._spark is None:
            raise SparkUnavailableError("Spark was stopped.")
        return self._spark

    def thread_session(self) -> SparkSession:
        """Return the Spark session of the calling thread, and create it at the first call.

        The sessions of threads have separate settings and temporary views.
        """
        spark = self.spark()
        session: SparkSession | None = getattr(self._local, "spark", None)
        if session is None:
            session = self._local.spark = spark.newSession()
            spark.sparkContext.setLocalProperty(
                "spark.scheduler.pool", threading.current_thread().name
            )
        return session

    @property
    def jvm_pid(self) -> int | None:
        """Process id of the JVM; None before the JVM has started."""
        process = self._get_process()
        return None if process is None else process.pid

    @property
    def application(self) -> str | None:
        """Spark's application id; None until Spark has started."""
        return self._application

    @property
    def failure(self) -> TargetSparkError | None:
        """Error that prevented the start of Spark or ended it, or None. Reading it never waits."""
        process = self._get_process()
        if self._failure is None and self._spark is not None and process is not None:
            code = process.poll()
            if code is not None:
                self._failure = _explain_jvm_exit(code, self._settings)
            elif self._is_application_ended():
                self._failure = SparkDiedError(_APPLICATION_ENDED)
        return self._failure

    def stop(self) -> None:
        """Stop Spark and wait until its JVM has ended.

        Kill the JVM if Spark has not stopped after 120 seconds, or if the JVM has not ended 30
        seconds later (900 if it writes an archive of Java classes).
        """
        self._thread.join()
        self._closing = True
        killer = threading.Timer(_STOP_SECONDS, self.kill)  # a JVM that hangs never responds
        killer.daemon = True
        killer.start()
        if self._spark is not None:
            context = self._spark.sparkContext
            with contextlib.suppress(Exception):  # the JVM may have ended
                self._spark.stop()
            with contextlib.suppress(Exception):  # if stopping the session failed halfway
                context.stop()
        self._reset_gateway()
        killer.cancel()
        process = self._get_process()
        if process is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
            try:
                process.wait(find_exit_seconds(self._settings.conf.get(_JAVA_OPTIONS, "")))
            except subprocess.TimeoutExpired:
                self.kill()
                process.wait()
        if self._log_filter is not None:
            restore(self._log_filter)

    def kill(self) -> None:
        """Kill the JVM at once. A commit in progress may be completed or lost."""
        pid = self.jvm_pid
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)

    def stop_waiting(self) -> None:
        """Kill the JVM if Spark still waits for a cluster's executors, so that this run can end."""
        if self._is_waiting:
            self._failure = SparkUnavailableError(_STILL_WAITING)
            self.kill()

    def _is_application_ended(self) -> bool:
        """Return True if the cluster has ended the Spark application while the JVM still runs."""
        spark = self._spark
        if spark is None or self._closing or self._settings.master.startswith("local"):
            return False
        context: Any = spark.sparkContext
        try:
            return bool(context._jsc.sc().isStopped())  # noqa: SLF001
        except Exception:  # noqa: BLE001  (the JVM is ending; the next call sees it)
            return False

    def _get_process(self) -> Any:
        """Return the `subprocess.Popen` object of the JVM; None before the JVM has started."""
        return getattr(self._gateway, "proc", None)

    def _is_disconnect_expected(self) -> bool:
        """Return True if the connection to the JVM broke because the JVM has ended.

        Unless this run is stopping the JVM, wait up to ten seconds for its end.
        """
        if self._closing:
            return True
        try:
            self._get_process().wait(_DEATH_SECONDS)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _run(self) -> None:
        try:
            with self._phases.run(START):
                self._spark = self._start()
            self._application = self._spark.sparkContext.applicationId
            with self._phases.run("waiting for executors"):
                self._check_shared(self._spark)
        except TargetSparkError as error:
            self._failure = self._failure or (
                SparkDiedError(_APPLICATION_ENDED) if self._is_application_ended() else error
            )
        except Exception as error:  # noqa: BLE001  (`spark` raises it)
            self._failure = SparkUnavailableError(
                f"Spark did not start: {_explain_failure(error, self._settings.master)}"
            )
            self._failure.__cause__ = error

    def _start(self) -> SparkSession:
        version = find_pyspark_version()
        load_libraries()
        _check_other_session()
        java = check_java()
        with self._phases.run(FETCH):
            launch = plan_launch(self._settings, version, java)
        conf = launch.conf
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LAUNCHER_OPTS", LAUNCHER_OPTIONS)
        warn_if_open(self._settings.master, conf)
        with _set_environment(**_get_executor_python(conf)):
            self._launch(conf, launch.home, java)
            return self._connect(conf)

    def _check_shared(self, spark: SparkSession) -> None:
        """Check that a cluster's executors can access the folders in `SparkSettings.shared`.

        Raises:
            TableError: An executor cannot access a folder.
        """
        if not self._settings.shared:
            return
        context: Any = spark.sparkContext
        self._is_waiting = True
        try:
            check_shared(
                spark.newSession(),
                self._settings.shared,
                lambda: int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1,  # noqa: SLF001  (one is the driver)
                min(_MAX_PROBES, max(_MIN_PROBES, 2 * context.defaultParallelism)),
            )
        finally:
            self._is_waiting = False

    def _launch(self, conf: Mapping[str, str], home: Path, java: str) -> None:
        """Start the JVM; pass its settings in private files, which other users cannot read.

        Raises:
            SparkUnavailableError: The JVM ended before it was ready.
        """
        from pyspark import java_gateway
        from pyspark.errors import PySparkRuntimeError

        launch: Any = java_gateway.launch_gateway  # has no type annotations
        popen: dict[str, Any] = {
            "stdout": _get_output_descriptor(),
            "start_new_session": True,
            "pass_fds": self._pass_fds,
        }
        private = _build_scratch_environment(self._settings) | loopback_environment(
            self._settings.master
        )
        try:
            with (
                resolve_lock(conf),
                launch_environment(conf, java) as arguments,
                _set_environment(SPARK_HOME=str(home), **_PYTHON_VARIABLES, **private, **arguments),
            ):
                self._gateway = launch(None, popen)
        except PySparkRuntimeError as error:
            raise SparkUnavailableError(
                "Spark's JVM ended while it started; its messages are on standard error."
                + (
                    jars_hint(self._settings.format, conf)
                    or " Check master and the spark settings."
                )
            ) from error
        self._log_filter = silence_disconnects(self._is_disconnect_expected)
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

    def _reset_gateway(self) -> None:
        """Remove PySpark's reference to the JVM, so that a later session starts a new JVM."""
        self._spark = None
        if self._gateway is None:
            return
        from pyspark import SparkContext

        with contextlib.suppress(Exception):  # the JVM may be gone already
            self._gateway.shutdown()
        if SparkContext._gateway is self._gateway:  # noqa: SLF001
            SparkContext._gateway = None  # noqa: SLF001
            SparkContext._jvm = None  # noqa: SLF001


def _check_other_session() -> None:
    """Check that this process has no Spark session, such as the one of a notebook.

    Raises:
        SparkUnavailableError: It has one; PySpark supports only one in a process.
    """
    from pyspark import SparkContext

    context = SparkContext._active_spark_context  # noqa: SLF001
    if context is not None:
        raise SparkUnavailableError(
            f"This process already has a Spark session ('{context.appName}'), and PySpark supports"
            " only one in a process. Run target-spark as a program, for example with subprocess, or"
            " end the session first, with its method stop."
        )


def _check_values(conf: Mapping[str, str]) -> None:
    """Check that no Spark setting, even in ``spark-defaults.conf``, would change stored values.

    Raises:
        UnsupportedError: A setting would change stored values; the message names it.
    """
    conflicts = [describe_conflict(key, conf[key], needed) for key, needed in find_conflicts(conf)]
    if conflicts:
        raise UnsupportedError(f"Spark's settings would change values: {'; '.join(conflicts)}.")


def _explain_failure(error: Exception, master: str) -> str:
    """Return a message that says why Spark did not start, without a stack trace."""
    text = str(error)
    if _STOPPED not in text or master.startswith("local"):
        return text.partition("\n\tat ")[0]
    return (
        f"{master} (the setting master) accepted no application. A master of the same Spark version"
        " must run there, and it and its workers must reach this machine (spark.driver.host, in"
        " the setting spark); Spark's messages are on standard error."
    )


def _explain_jvm_exit(code: int, settings: SparkSettings) -> SparkDiedError:
    """Return the error for a JVM that ended during a run with the exit code ``code``.

    Its message explains the code, such as lack of memory. A negative code is the number of the
    signal that ended the JVM.
    """
    memory = settings.conf.get(_MEMORY) or _build_default_conf(settings.master)[_MEMORY]
    if code in _OUT_OF_MEMORY:
        reason = (
            f"it ran out of memory: {_MEMORY} is {memory}. Increase it (in the setting spark), or"
            " decrease flush_bytes or flush_rows"
        )
    elif code == -signal.SIGKILL:
        reason = (
            f"it was killed, perhaps by the system for lack of memory ({_MEMORY} is {memory});"
            " give the machine or the container more, or Spark less"
        )
    else:
        reason = f"signal {-code}" if code < 0 else f"exit code {code}"
        reason += "; its messages are on standard error"
    return SparkDiedError(
        f"Spark's JVM ended in the middle of the run: {reason}. Earlier commits are safe,"
        " and no state is ahead of them; start again."
    )


def _get_executor_python(conf: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variable ``PYSPARK_PYTHON``, the Python program of executors.

    The value comes from the Spark setting ``spark.pyspark.python``. Return {} without the setting.
    """
    python = conf.get("spark.pyspark.python")
    return {"PYSPARK_PYTHON": python} if python else {}


@contextlib.contextmanager
def _set_environment(**values: str) -> Iterator[None]:
    """Context manager: set environment variables, and restore the previous values at the end."""
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


def _get_output_descriptor() -> int:
    """Return the file descriptor for the JVM's output: standard error, or DEVNULL if closed."""
    try:
        os.fstat(2)
    except OSError:
        return subprocess.DEVNULL
    return 2
