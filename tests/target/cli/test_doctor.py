"""The command `target-spark doctor`: it tries each thing that a load needs and prints remedies."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from target_spark.cli import doctor
from target_spark.errors import SparkUnavailableError
from target_spark.spark.session import Session, find_pyspark_version, load_libraries
from target_spark.storage.job_lock import JobLock, get_lock_holder
from target_spark.target import TargetSpark
from tests.other_user import set_home
from tests.target.warehouse import ID, Warehouse, record, schema, state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]


def write_config(folder: Path, **config: Any) -> str:
    path = folder / "config.json"
    settings = {"path": str(folder / "tables"), "format": "parquet", "job": "job", **config}
    path.write_text(
        json.dumps({name: value for name, value in settings.items() if value is not None})
    )
    return str(path)


def run_doctor(
    capsys: pytest.CaptureFixture[str], config: str, *arguments: str
) -> tuple[int, dict[str, str], str]:
    """Return the exit code, the worst verdict of each check, and the output."""
    code = TargetSpark.cli.main(["doctor", "--config", config, *arguments], standalone_mode=False)
    output = capsys.readouterr().out
    verdicts: dict[str, str] = {}
    for line in output.splitlines() if not arguments else ():
        verdict, name = line[:8].strip(), line[9:23].strip()
        verdicts[name] = verdict if verdicts.get(name, "ok") == "ok" else verdicts[name]
    return code, verdicts, output


@pytest.fixture
def shared_session(spark_session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the doctor the tests' Spark session, since a process can have only one."""
    monkeypatch.setattr(Session, "start", lambda _session: spark_session)
    monkeypatch.setattr(Session, "stop", lambda _self: None)


# Without Spark


def test_all_invalid_settings_are_listed_and_dependent_checks_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_config(
        tmp_path, flush_rows=0, write_mode="upsert", report=str(tmp_path / "r.json")
    )
    code, verdicts, output = run_doctor(capsys, config)
    assert code == 1
    assert verdicts["configuration"] == "failed"
    assert "flush_rows" in output
    assert "parquet cannot replace" in output
    assert verdicts["java"] == "ok"
    assert verdicts["the rest"] == "skipped"
    assert not (tmp_path / "r.json").exists()


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs Linux")
def test_folder_that_cannot_be_created_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: True)  # as for root
    [check] = doctor._check_path({"path": "/proc/none/tables", "format": "parquet"})
    assert (check.name, check.verdict) == ("path", "failed")
    assert check.text.startswith("no folder can be created in /proc: ")


def test_missing_configuration_file_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, verdicts, output = run_doctor(capsys, str(tmp_path / "none.json"))
    assert (code, verdicts["configuration"]) == (1, "failed")
    assert "does not exist" in output


def test_user_without_home_folder_and_name_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The lock of a job with tables in object storage is in the home folder."""
    config = write_config(tmp_path, format="delta", path="s3a://bucket/tables")
    set_home(monkeypatch, None)
    code, verdicts, output = run_doctor(capsys, config)
    assert code == 1
    assert (verdicts["java"], verdicts["lock"], verdicts["spark"]) == (
        "failed",
        "failed",
        "skipped",
    )
    assert "no entry in /etc/passwd" in output
    assert "this user has no home folder" in output


def test_missing_java_folders_and_jars_are_reported_with_remedies(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    config = write_config(
        tmp_path,
        format="delta",
        path=str(tmp_path / "file" / "tables"),
        staging=str(tmp_path / "file"),
        jars=[str(tmp_path / "delta-spark_4.1_2.13-4.4.0.jar")],
        spark={"spark.hadoop.fs.s3a.secret.key": "file/tables"},
    )
    program = "from target_spark.target import TargetSpark; TargetSpark.cli()"
    process = subprocess.run(
        [sys.executable, "-c", program, "doctor", "--config", config, "--json"],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT), "PATH": "/nowhere"},
        check=False,
    )
    assert process.returncode == 1
    assert "file/tables" not in process.stdout  # a secret value is masked wherever it occurs
    checks = {check["name"]: check for check in json.loads(process.stdout)["checks"]}
    assert {name: check["verdict"] for name, check in checks.items()} == {
        "configuration": "ok",
        "java": "failed",
        "pyspark": "ok",
        "jars": "failed",
        "engine": "ok",
        "staging": "failed",
        "path": "failed",
        "lock": "failed",
        "spark": "skipped",
    }
    assert "Install it" in checks["java"]["text"]
    assert "do not exist" in checks["jars"]["text"]
    assert "Set staging to a folder" in checks["staging"]["text"]


def test_low_disk_space_and_an_active_run_are_warnings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_connection(*_args: Any, **_more: Any) -> str:
        raise SparkUnavailableError("No Java.")

    monkeypatch.setattr(doctor, "check_java", refuse_connection)
    monkeypatch.setattr(doctor, "_MIN_FREE_BYTES", 1 << 60)
    config = write_config(tmp_path, max_spool_bytes=1 << 60)
    assert get_lock_holder(str(tmp_path / "tables"), "job") is None
    lease = JobLock.acquire(str(tmp_path / "tables"), "job")
    try:
        _, verdicts, output = run_doctor(capsys, config)
        assert f"process {os.getpid()}" in output
    finally:
        lease.release()
    assert get_lock_holder(str(tmp_path / "tables"), "job") is None
    assert [verdicts[name] for name in ("staging", "path", "lock")] == ["warning"] * 3
    assert verdicts["spark"] == "skipped"
    monkeypatch.setattr(doctor.os, "access", lambda *_args: False)
    _, verdicts, output = run_doctor(capsys, config)
    assert [verdicts[name] for name in ("staging", "path")] == ["failed"] * 2
    assert "cannot be written by this user" in output


def test_jars_check_names_the_source_of_the_jars(tmp_path: Path) -> None:
    jar = tmp_path / "delta-spark_4.1_2.13-4.4.0.jar"
    jar.write_bytes(b"")
    settings = {"path": "x", "jars": [str(jar)]}
    assert "on this machine" in doctor._describe_jars(settings)
    ivy = {"spark.jars.ivy": str(tmp_path / "empty")}
    assert "Spark downloads it" in doctor._describe_jars({"path": "x", "spark": ivy})
    assert doctor._describe_jars({"path": "x", "format": "parquet"}) == "parquet needs none"


def test_missing_pyspark_is_reported_with_the_install_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> str:
        raise doctor.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor.metadata, "version", missing)
    check = doctor._make_check("pyspark", doctor._get_pyspark_version)
    assert (check.verdict, "pip install" in check.text) == ("failed", True)


def test_missing_pyspark_is_explained_by_databricks_connect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def version(name: str) -> str:
        if name == "databricks-connect":
            return "17.3.0"
        raise doctor.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor.metadata, "version", version)
    check = doctor._make_check("pyspark", doctor._describe_pyspark)
    assert check.verdict == "failed"
    assert "Databricks Connect 17.3.0 is installed instead of PySpark" in check.text


def test_missing_pyspark_beside_the_client_of_spark_connect_is_explained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def version(name: str) -> str:
        if name == "pyspark-client":
            return "4.1.4"
        raise doctor.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor.metadata, "version", version)
    with pytest.raises(SparkUnavailableError) as exc_info:
        find_pyspark_version()
    assert str(exc_info.value).startswith(
        "Only pyspark-client 4.1.4 is installed, the client of Spark"
    )
    assert "Set remote" in str(exc_info.value)


@pytest.mark.parametrize("package", ["pyspark", "pyarrow", "deltalake"])
def test_missing_package_is_named_with_the_way_to_install_it(
    monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    remedy = f"{package} is not installed: pip install 'tap-core-sdk[spark]'"
    with pytest.raises(SparkUnavailableError) as exc_info:
        load_libraries()
    assert str(exc_info.value).lower() == remedy
    check = doctor._make_check("pyspark", doctor._describe_pyspark)
    assert (check.verdict, check.text) == ("failed", str(exc_info.value))


@pytest.mark.parametrize("command", [("runs",), ("replay", "a", "--schema", "-")])
def test_command_that_reads_tables_names_a_missing_package(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: tuple[str, ...],
) -> None:
    for module in ("table_overview", "table_reader", "replay"):
        monkeypatch.delitem(sys.modules, f"target_spark.cli.{module}", raising=False)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(schema("a", ID))))
    with pytest.raises(SystemExit) as ended:
        TargetSpark.cli([*command, "--config", write_config(tmp_path)])
    message = "PySpark is not installed: pip install 'tap-core-sdk[spark]'\n"
    assert (ended.value.code, *capsys.readouterr()) == (1, "", message)


@pytest.mark.thorough
@pytest.mark.parametrize("command", [("doctor",), ()])
def test_command_without_pyspark_ends_with_the_way_to_install_it(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    """The environment has all packages but PySpark, which a finder of modules hides."""
    program = f"""
import sys
from importlib import metadata

find = metadata.MetadataPathFinder.find_distributions
metadata.MetadataPathFinder.find_distributions = staticmethod(
    lambda context: () if context.name == "pyspark" else find(context)
)
sys.argv = ["target-spark", *{command!r}, "--config", {write_config(tmp_path, format="delta")!r}]
from target_spark.target import TargetSpark
TargetSpark.cli()
"""
    messages = "".join(
        json.dumps(message) + "\n" for message in (schema("a", ID), record("a", id=1))
    )
    process = subprocess.run(
        [sys.executable, "-c", program], input=messages, capture_output=True, text=True, check=False
    )
    assert process.returncode == 1
    assert (
        "PySpark is not installed: pip install 'tap-core-sdk[spark]'"
        in process.stdout + process.stderr
    )
    assert "Traceback" not in process.stdout + process.stderr


@pytest.mark.parametrize(
    "variables, verdict, start",
    [
        ({"DATABRICKS_RUNTIME_VERSION": "17.3"}, "ok", "Databricks (DATABRICKS_RUNTIME_VERSION"),
        ({"EMR_RELEASE_LABEL": "emr-7.1.0"}, "ok", "Amazon EMR (EMR_RELEASE_LABEL=emr-7.1.0)"),
        ({"GLUE_VERSION": "5.1", "SPARK_HOME": "/x"}, "warning", "AWS Glue (GLUE_VERSION=5.1): SP"),
        ({"AZURE_SERVICE": "Microsoft.ProjectArcadia"}, "ok", "Microsoft Fabric or Azure Synapse"),
        ({"AZURE_SERVICE": "another"}, None, ""),
        ({"SPARK_HOME": "/x"}, None, ""),
    ],
)
def test_managed_platform_is_named(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], verdict: str | None, start: str
) -> None:
    """The Spark of a platform, in place of PySpark's, is a warning."""
    for _, variable, _ in doctor._PLATFORMS:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    checks = list(doctor._check_platform())
    assert [check.verdict for check in checks] == ([verdict] if verdict else [])
    assert all(check.text.startswith(start) for check in checks)
    is_named = "SPARK_HOME (/x)" in doctor._describe_pyspark()
    assert is_named == ("SPARK_HOME" in variables)


# With Spark


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.parametrize("form", ["delta", "iceberg", "parquet"])
def test_successful_checks_leave_no_files(
    shared_session: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    code, verdicts, output = run_doctor(capsys, write_config(tmp_path, format=form))
    assert (code, set(verdicts.values())) == (0, {"ok"})
    assert list(verdicts) == [
        *("configuration", "java", "pyspark", "jars", "staging", "path", "lock"),
        *("engine", "spark", "storage", "tables"),
    ]
    kind = "an iceberg" if form == "iceberg" else f"a {form}"
    assert f"{kind} table in {tmp_path}/tables was made, written, read, removed" in output
    assert [file.name for file in tmp_path.iterdir()] == ["config.json"]


@pytest.mark.thorough
@pytest.mark.spark
def test_tables_check_distinguishes_own_foreign_and_other_jobs_tables(
    shared_session: None,
    spark_session: Session,
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    warehouse = Warehouse(spark_session, spark, tmp_path / "tables")
    warehouse.load(schema("a", ID), record("a", id=1), state(1))
    code, verdicts, output = run_doctor(capsys, write_config(tmp_path, format="delta"))
    assert (code, verdicts["tables"]) == (0, "ok")
    assert "1 of this job; the last state is of run run1" in output
    path = str(tmp_path / "tables" / "foreign")
    spark.range(1).write.format("delta").save(path)
    _, verdicts, output = run_doctor(capsys, write_config(tmp_path, format="delta"))
    assert verdicts["tables"] == "warning"
    assert "foreign: rows that target-spark did not write" in output
    code, verdicts, output = run_doctor(capsys, write_config(tmp_path, format="delta", job="other"))
    assert (code, verdicts["tables"]) == (0, "warning")
    assert "a is loaded by another job" in output
    assert "tables" in verdicts
    assert (tmp_path / "tables" / "a").is_dir()


@pytest.mark.thorough
@pytest.mark.spark
def test_storage_check_names_the_location_and_failed_step(
    shared_session: None, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = {"catalog": "nowhere", "database": "there"}
    streams = {"a": {"database": "made_and_gone"}, "b": nowhere, "c": nowhere}
    catalogs = {"spark.sql.catalog.nowhere": "no.such.Catalog"}
    config = write_config(tmp_path, format="delta", streams=streams, spark=catalogs)
    code, verdicts, output = run_doctor(capsys, config)
    assert (code, verdicts["storage"]) == (1, "failed")
    assert "in nowhere.there could not be made" in output
    assert "in made_and_gone was made, written, read, removed" in output
    assert not spark.catalog.databaseExists("made_and_gone")
    assert output.count("could not be made") == 1  # each place once
    assert f"{tmp_path}/tables was made, written, read, removed" in output


@pytest.mark.thorough
@pytest.mark.spark
def test_storage_check_fails_if_the_written_row_is_not_read_back(
    shared_session: None,
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from target_spark.writers.delta.writer import DeltaWriter

    monkeypatch.setattr(DeltaWriter, "rows", lambda _self, spark, _table: spark.range(2))
    _, verdicts, output = run_doctor(capsys, write_config(tmp_path, format="delta"))
    assert verdicts["storage"] == "failed"
    assert "could not be read (done before: made, written)" in output
    assert not (tmp_path / "tables").exists()


def test_spark_that_does_not_start_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, verdicts, output = run_doctor(
        capsys, write_config(tmp_path, remote="sc://127.0.0.1:1", staging="/tmp")
    )
    assert (code, verdicts["spark"], verdicts["storage"]) == (1, "failed", "skipped")
    assert "the setting remote" in output
