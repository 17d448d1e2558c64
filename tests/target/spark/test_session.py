"""The Spark session: its JVM has its own process group, no output, and the end of the run."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import SimpleNamespace

import pytest

import target_spark
from target_spark.errors import JobLockError, SparkDiedError, SparkUnavailableError
from target_spark.spark.arrow_workers import map_in_arrow
from target_spark.spark.launch_files import launch_environment
from target_spark.spark.session import (
    JAVA_VERSIONS,
    Session,
    SparkSettings,
    _build_scratch_environment,
    _get_output_descriptor,
    build_start_conf,
    check_java,
    plan_launch,
)
from target_spark.spark.spark_provider import find_failure, start_spark
from target_spark.storage.job_lock import JobLock
from tests.ended_processes import wait_for_end

# ----------------------------------------------------------------------------- real Spark


LIFECYCLE = """
import os, pathlib, signal, sys
from target_spark.spark.session import Session, SparkSettings

conf = {"spark.hadoop.fs.s3a.secret.key": "TOP-SECRET", "spark.sql.shuffle.partitions": "1"}
pids = []
lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
session = Session(
    SparkSettings(master="local[1]", conf=conf, format="delta", small_runs=True),
    pass_fds=[lock],
    on_jvm=pids.append,
).start()
assert session.failure is None
spark = session.spark()
pid = session.jvm_pid
assert pids == [pid]
assert os.getpgid(pid) == pid != os.getpgid(0)
command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
assert b"TOP-SECRET" not in command
assert spark.sparkContext.getConf().get("spark.hadoop.fs.s3a.secret.key") == "TOP-SECRET"
assert os.path.samefile(f"/proc/{pid}/fd/{lock}", sys.argv[1])

spark.sparkContext._jvm.java.lang.System.out.println("NOISE OF THE JVM")
try:
    spark.sql("SELECT raise_error('BAD_ROWS')").collect()
    raise SystemExit("no error")
except Exception as error:
    assert "BAD_ROWS" in str(error)
try:
    spark.sql("SELECT nothing FROM nowhere")
except Exception as error:
    assert "nowhere" in str(error)
folder = sys.argv[1] + ".out"
try:
    spark.sql("SELECT raise_error('BAD_ROWS') AS x").write.parquet(folder)
except Exception as error:
    assert "BAD_ROWS" in str(error)
print("QUIET UNTIL HERE", file=sys.stderr, flush=True)

signals = []
signal.signal(signal.SIGTERM, lambda *_: signals.append(1))
signal.signal(signal.SIGINT, lambda *_: signals.append(2))
os.killpg(0, signal.SIGTERM)
os.killpg(0, signal.SIGINT)
assert sorted(signals) == [1, 2]
assert spark.range(10).count() == 10
assert not os.path.exists("spark-warehouse")

session.kill()
session.stop()
session.stop()
try:
    os.kill(pid, 0)
    raise SystemExit("the JVM lives")
except ProcessLookupError:
    pass
try:
    session.spark()
    raise SystemExit("a stopped session returned a Spark")
except Exception as error:
    assert "stopped" in str(error)

invalid = Session(SparkSettings(master="local[x]", format="parquet", small_runs=True)).start()
try:
    invalid.spark()
    raise SystemExit("a Spark without a master")
except Exception as error:
    assert str(error).endswith("Could not parse Master URL: 'local[x]'"), error
invalid.stop()

second = Session(SparkSettings(master="local[1]", format="parquet", small_runs=True)).start()
assert second.spark().range(3).count() == 3
assert second.jvm_pid != pid
print("STATE", flush=True)
print(second.jvm_pid, file=sys.stderr, flush=True)
"""


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.slow
def test_session_starts_stops_and_restarts(tmp_path):
    process = subprocess.run(
        [sys.executable, "-c", LIFECYCLE, str(tmp_path / "lock")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout == "STATE\n"
    log_before, _, _ = process.stderr.partition("QUIET UNTIL HERE")
    lines = [line for line in log_before.splitlines() if "incubator" not in line]
    assert lines == ["NOISE OF THE JVM"]
    assert wait_for_end(int(process.stderr.split()[-1]))


def test_session_of_a_notebook_is_not_used(monkeypatch):
    """PySpark would report the other session only after the start of a second JVM."""
    context = SimpleNamespace(appName="notebook")
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", context)
    session = Session(SparkSettings(format="parquet")).start()
    with pytest.raises(SparkUnavailableError, match=r"session \('notebook'\).* with subprocess"):
        session.spark()
    assert session.jvm_pid is None
    session.stop()


WAITING_PROGRAM = """
import sys, time
from target_spark.storage.job_lock import JobLock
from target_spark.spark.session import Session, SparkSettings

lease = JobLock.acquire(sys.argv[1], "job")
session = Session(
    SparkSettings(master="local[1]", format="delta", small_runs=True),
    pass_fds=[lease.fileno()],
    on_jvm=lease.record_jvm,
).start()
session.spark()
print(session.jvm_pid, flush=True)
time.sleep(600)
"""


@pytest.mark.spark
def test_kill_9_ends_the_jvm_and_then_releases_the_lock(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING_PROGRAM, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    pid = int(process.stdout.readline())
    archive = plan_launch(SparkSettings(), version("pyspark"), check_java()).archive
    if archive.is_file():  # `make test` creates it
        assert str(archive) in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")
    os.kill(pid, signal.SIGSTOP)  # a busy JVM does not notice that its input has ended
    process.kill()
    process.wait()
    process.stdout.close()
    with pytest.raises(JobLockError, match=rf"has ended.*JVM {pid}"):
        JobLock.acquire(str(tmp_path), "job", wait_seconds=0.5)
    os.kill(pid, signal.SIGCONT)
    JobLock.acquire(str(tmp_path), "job").release()
    assert wait_for_end(pid)


@pytest.mark.thorough
@pytest.mark.spark
def test_unavailable_jars_are_an_error_with_remedies(tmp_path):
    """The only repository is an empty folder."""
    (tmp_path / "empty").mkdir()
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="only"/><resolvers><filesystem name="only"'
        f' m2compatible="true"><artifact pattern="{tmp_path}/empty/[artifact]-[revision].[ext]"/>'
        "</filesystem></resolvers></ivysettings>",
        encoding="utf-8",
    )
    conf = {"spark.jars.ivy": str(tmp_path / "ivy"), "spark.jars.ivySettings": str(settings)}
    code = (
        "import sys\nfrom target_spark.spark.session import Session, SparkSettings\n"
        f"session = Session(SparkSettings(master='local[1]', conf={conf!r})).start()\n"
        "try:\n    session.spark()\nexcept Exception as error:\n"
        "    print(type(error).__name__, error)\n    assert session.failure is error\n"
        "session.stop()\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith("SparkUnavailableError Spark's jars could not be fetched (")
    for text in ("delta-spark_4.1", "setting jars", "format to parquet", "Maven Central"):
        assert text in process.stdout
    assert "unresolved dependency" in process.stderr


@pytest.mark.spark
@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 has no safe path")
def test_python_workers_import_no_module_of_the_working_folder(spark_session):
    """SEC18: another user can write to a working folder such as /tmp."""

    def read_flag(batches):
        import pyarrow as pa

        for _ in batches:
            yield pa.record_batch({"is_safe": [bool(sys.flags.safe_path)]})

    rows = spark_session.spark().range(1)
    assert map_in_arrow(rows, read_flag, "is_safe boolean", "read_flag").first().is_safe


@pytest.mark.spark
def test_local_session_has_exact_value_settings_and_no_web_ui(spark_session):
    spark = spark_session.spark()
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.caseSensitive") == "true"
    assert spark.sql("SELECT '${env:PATH}' AS v").first()["v"] == "${env:PATH}"  # SEC22
    assert spark.conf.get("spark.sql.parquet.datetimeRebaseModeInWrite") == "CORRECTED"
    assert spark.conf.get("spark.sql.parquet.outputTimestampType") == "TIMESTAMP_MICROS"
    assert spark.sparkContext.getConf().get("spark.scheduler.mode") == "FAIR"
    assert spark.sparkContext.uiWebUrl is None
    assert os.environ["PYSPARK_PYTHON"]
    assert spark_session.failure is None


# ----------------------------------------------------------------------------------- Java


def write_fake_java(folder: Path, body: str) -> str:
    script = folder / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(folder)


def print_version(version: str) -> str:
    return f"echo 'openjdk version \"{version}\" 2024-01-01' >&2"


@pytest.mark.parametrize("version", ["17", "17.0.15", "21.0.2", "22-ea"])
def test_supported_java_version_is_accepted(tmp_path, version):
    home = write_fake_java(tmp_path, print_version(version))
    assert check_java({"JAVA_HOME": home, "PATH": ""}) == f"{home}/bin/java"
    assert check_java({"PATH": f"{home}/bin"}) == f"{home}/bin/java"


@pytest.mark.parametrize(
    "version, reason",
    [
        ("1.8.0_402", "8 is too old"),
        ("11.0.2", "11 is too old"),
        ("16", "16 is too old"),
        ("23.0.1", "23 is too new"),
        ("25-ea", "25 is too new"),
        ("117", "117 is too new"),
    ],
)
def test_unsupported_java_version_is_an_error_with_its_path(tmp_path, version, reason):
    home = write_fake_java(tmp_path, print_version(version))
    with pytest.raises(SparkUnavailableError, match=rf"Java {reason}: {home}"):
        check_java({"JAVA_HOME": home})


@pytest.mark.parametrize(
    "body, reason",
    [
        ("echo no memory >&2; exit 3", r"does not run: \S+ -version: exit code 3 no memory\."),
        ("echo hello", r"does not print its version"),
        ("kill -9 $$", r"does not run: \S+ -version: exit code -9\."),
    ],
)
def test_java_that_does_not_run_is_an_error(tmp_path, body, reason):
    home = write_fake_java(tmp_path, body)
    with pytest.raises(SparkUnavailableError, match=f"{reason}.*needs Java {JAVA_VERSIONS[0]} to"):
        check_java({"JAVA_HOME": home, "PATH": os.environ["PATH"]})


def test_user_without_a_name_is_an_error_with_its_id(monkeypatch):
    """A container may run with any user id, as on OpenShift."""
    monkeypatch.setattr("os.geteuid", lambda: 4_000_000_000)
    with pytest.raises(SparkUnavailableError, match=r"id 4000000000, .*--uid 4000000000"):
        check_java()


def test_java_home_without_java_is_an_error_despite_java_on_the_path(tmp_path):
    with pytest.raises(SparkUnavailableError, match=f"{tmp_path}/bin/java -version: No such file"):
        check_java({"JAVA_HOME": str(tmp_path), "PATH": os.environ["PATH"]})


@pytest.mark.parametrize(
    "environ, variables",
    [
        ({}, {"LC_ALL": "C.UTF-8"}),
        ({"LC_ALL": "C", "LANG": "de_DE.UTF-8"}, {"LC_ALL": "C.UTF-8"}),
        ({"LC_ALL": "", "LC_CTYPE": "POSIX"}, {"LC_ALL": "C.UTF-8"}),
        ({"LC_ALL": "de_DE.UTF-8", "LANG": "C"}, {}),
        ({"LANG": "C.UTF-8"}, {}),
    ],
)
def test_jvm_gets_a_locale_with_utf8_paths(environ, variables):
    with launch_environment({}, "java", environ) as environment:
        assert {name: environment[name] for name in environment if name == "LC_ALL"} == variables


def test_end_of_the_jvm_is_found_although_its_connection_broke_first():
    session = Session(SparkSettings())
    code = "import time; time.sleep(0.5); raise SystemExit(7)"
    with subprocess.Popen([sys.executable, "-c", code]) as jvm:
        session._gateway, session._spark = SimpleNamespace(proc=jvm), object()
        assert find_failure(session, ValueError("no broken connection")) is None
        failure = find_failure(session, ConnectionResetError("the connection broke"))
    assert isinstance(failure, SparkDiedError)
    assert "exit code 7" in str(failure)


def test_jvm_that_hangs_while_spark_stops_is_killed(monkeypatch):
    monkeypatch.setattr("target_spark.spark.session._STOP_SECONDS", 0.2)
    session = Session(SparkSettings())
    monkeypatch.setattr(session, "_thread", SimpleNamespace(join=lambda: None))
    with subprocess.Popen(["sleep", "20"], stdin=subprocess.PIPE, start_new_session=True) as jvm:
        session._gateway = SimpleNamespace(proc=jvm, shutdown=lambda: None)
        session._spark = SimpleNamespace(sparkContext=SimpleNamespace(stop=jvm.wait), stop=jvm.wait)
        session.stop()
        assert jvm.returncode == -signal.SIGKILL


@pytest.mark.parametrize("environ", [{}, {"PATH": ""}, {"PATH": "/nowhere"}])
def test_missing_java_is_an_error_with_install_instructions(environ):
    with pytest.raises(SparkUnavailableError, match=r"No Java was found.*openjdk-17.*JAVA_HOME"):
        check_java(environ)


def test_session_without_java_fails_at_first_use(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", write_fake_java(tmp_path, print_version("11.0.1")))
    session = Session(SparkSettings(format="parquet")).start()
    for get_spark in (session.spark, session.thread_session):
        with pytest.raises(SparkUnavailableError, match="Java 11 is too old"):
            get_spark()
    assert isinstance(session.failure, SparkUnavailableError)
    assert session.jvm_pid is None
    session.kill()
    session.stop()


def test_missing_pyspark_is_an_error_that_names_the_extra(monkeypatch):
    def raise_not_found(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", raise_not_found)
    with pytest.raises(SparkUnavailableError, match=r"pip install 'tap-core-sdk\[spark\]'"):
        Session(SparkSettings()).start().spark()


def test_jvm_stderr_is_discarded_without_standard_error():
    assert _get_output_descriptor() == 2
    code = (
        "import os, subprocess, sys\n"
        "from target_spark.spark.session import _get_output_descriptor\n"
        "os.close(2)\nsys.exit(_get_output_descriptor() != subprocess.DEVNULL)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_unreachable_spark_connect_server_is_an_error_that_names_the_setting():
    session = start_spark(SparkSettings(remote="sc://127.0.0.1:1"))
    with pytest.raises(SparkUnavailableError, match="the setting remote"):
        session.spark()
    session.stop()
    assert "SPARK_CONNECT_MODE_ENABLED" not in os.environ


# ------------------------------------------------------------------------------- settings


def test_user_settings_override_and_extend_the_defaults(tmp_path):
    user_conf = {
        "spark.driver.memory": "3g",
        "spark.driver.extraJavaOptions": "-Dmine=1",
        "spark.sql.extensions": "org.example.Mine",
        "spark.jars": "/mine.jar",
        "spark.app.name": "mine",
        "spark.jars.ivy": str(tmp_path),
        "spark.sql.shuffle.partitions": "7",
    }
    conf = build_start_conf(
        SparkSettings(master="local[3]", conf=user_conf, small_runs=True), "4.1.4"
    )
    assert conf["spark.master"] == "local[3]"
    assert conf["spark.driver.memory"] == "3g"
    assert conf["spark.sql.shuffle.partitions"] == "7"
    assert conf["spark.app.name"] == "mine"
    options = conf["spark.driver.extraJavaOptions"]
    assert options.endswith("-Dmine=1")
    assert "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" in options
    assert conf["spark.sql.extensions"].endswith("DeltaSparkSessionExtension,org.example.Mine")
    assert conf["spark.jars"] == "/mine.jar"
    assert conf["spark.jars.packages"] == "io.delta:delta-spark_4.1_2.13:4.4.0"


def test_cluster_session_keeps_cluster_defaults_and_jit_compiler():
    conf = build_start_conf(SparkSettings(master="spark://host:7077", format="parquet"), "4.3.0")
    assert "TieredStopAtLevel" not in conf["spark.driver.extraJavaOptions"]
    assert "spark.driver.host" not in conf
    assert "spark.sql.shuffle.partitions" not in conf
    assert "spark.sql.extensions" not in conf
    assert conf["spark.driver.memory"] == "1g"


@pytest.mark.parametrize("scratch", ["", "/private folder"])
def test_default_database_folder_cannot_be_created_by_other_users(
    scratch: str,
) -> None:
    """A name below the system's temporary folder can be guessed."""
    conf = build_start_conf(SparkSettings(scratch=scratch, format="parquet"), "4.1.4")
    folder = conf["spark.sql.warehouse.dir"].removeprefix("file://")
    assert Path(folder).parent != Path(tempfile.gettempdir())
    assert folder.startswith(scratch or str(Path(target_spark.__file__).parent))


def test_local_spark_uses_the_scratch_folder_unless_set(monkeypatch):
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    assert _build_scratch_environment(SparkSettings(scratch="/s")) == {"SPARK_LOCAL_DIRS": "/s"}
    assert _build_scratch_environment(SparkSettings()) == {}
    assert _build_scratch_environment(SparkSettings(scratch="/one,two")) == {}
    assert (
        _build_scratch_environment(SparkSettings(scratch="/s", conf={"spark.local.dir": "/mine"}))
        == {}
    )
    assert _build_scratch_environment(SparkSettings(scratch="/s", master="spark://host:7077")) == {}
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/mine")
    assert _build_scratch_environment(SparkSettings(scratch="/s")) == {}


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local", "local[1,2]"),
        ("local[*]", "local[*,2]"),
        ("local[8]", "local[8,2]"),
        ("local[8,5]", "local[8,5]"),
        ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
        ("spark://localhost:7077", "spark://localhost:7077"),
    ],
)
def test_local_master_gets_task_retries_on_request(master: str, expected: str):
    """A number of tries that a user set is kept, and clusters have their own."""
    assert SparkSettings(master=master).with_task_retries().master == expected
