"""What the doctor sees: each thing a run needs, tried, and what to do where it is not well."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from target_spark.cli import doctor
from target_spark.errors import SparkUnavailableError
from target_spark.spark.session import Session
from target_spark.storage.job_lock import JobLock, get_lock_holder
from target_spark.target import TargetSpark
from tests.target.warehouse import ID, Warehouse, record, schema, state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]


def written(folder: Path, **config: Any) -> str:
    path = folder / "config.json"
    given = {"path": str(folder / "tables"), "format": "parquet", "job": "job", **config}
    path.write_text(json.dumps({name: value for name, value in given.items() if value is not None}))
    return str(path)


def examined(
    capsys: pytest.CaptureFixture[str], config: str, *words: str
) -> tuple[int, dict[str, str], str]:
    """Return the exit code, the worst verdict of each check, and all that was said."""
    code = TargetSpark.cli.main(["doctor", "--config", config, *words], standalone_mode=False)
    said = capsys.readouterr().out
    verdicts: dict[str, str] = {}
    for line in said.splitlines() if not words else ():
        verdict, name = line[:8].strip(), line[9:23].strip()
        verdicts[name] = verdict if verdicts.get(name, "ok") == "ok" else verdicts[name]
    return code, verdicts, said


@pytest.fixture
def shared(spark_session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the doctor have the tests' Spark: a process has one."""
    monkeypatch.setattr(Session, "start", classmethod(lambda *_args, **_more: spark_session))
    monkeypatch.setattr(Session, "stop", lambda _self: None)


# Without Spark


def test_every_fault_of_the_settings_is_told_and_the_rest_needs_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = written(tmp_path, flush_rows=0, write_mode="upsert", report=str(tmp_path / "r.json"))
    code, verdicts, said = examined(capsys, config)
    assert code == 1
    assert verdicts["configuration"] == "failed"
    assert "flush_rows" in said
    assert "parquet cannot replace" in said
    assert verdicts["java"] == "ok"
    assert verdicts["the rest"] == "skipped"
    assert not (tmp_path / "r.json").exists()


def test_a_configuration_that_is_none_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, verdicts, said = examined(capsys, str(tmp_path / "none.json"))
    assert (code, verdicts["configuration"]) == (1, "failed")
    assert "does not exist" in said


def test_a_machine_without_java_folders_and_jars_is_told_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    config = written(
        tmp_path,
        format="delta",
        path=str(tmp_path / "file" / "tables"),
        staging=str(tmp_path / "file"),
        jars=[str(tmp_path / "delta-spark_4.1_2.13-4.4.0.jar")],
        spark={"spark.hadoop.fs.s3a.secret.key": "file/tables"},
    )
    program = "from target_spark.target import TargetSpark; TargetSpark.cli()"
    done = subprocess.run(
        [sys.executable, "-c", program, "doctor", "--config", config, "--json"],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT), "PATH": "/nowhere"},
        check=False,
    )
    assert done.returncode == 1
    assert "file/tables" not in done.stdout  # the value of a secret, whatever it is
    told = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert {name: check["verdict"] for name, check in told.items()} == {
        "configuration": "ok",
        "java": "failed",
        "pyspark": "ok",
        "jars": "failed",
        "staging": "failed",
        "path": "failed",
        "lease": "failed",
        "spark": "skipped",
    }
    assert "Install it" in told["java"]["text"]
    assert "do not exist" in told["jars"]["text"]
    assert "Set staging to a folder" in told["staging"]["text"]


def test_little_disk_space_and_an_active_run_are_warnings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_args: Any, **_more: Any) -> str:
        raise SparkUnavailableError("No Java.")

    monkeypatch.setattr(doctor, "check_java", refused)
    monkeypatch.setattr(doctor, "_ROOM", 1 << 60)
    config = written(tmp_path, max_spool_bytes=1 << 60)
    assert get_lock_holder(str(tmp_path / "tables"), "job") is None
    lease = JobLock.acquire(str(tmp_path / "tables"), "job")
    try:
        _, verdicts, said = examined(capsys, config)
        assert f"process {os.getpid()}" in said
    finally:
        lease.release()
    assert get_lock_holder(str(tmp_path / "tables"), "job") is None
    assert [verdicts[name] for name in ("staging", "path", "lease")] == ["warning"] * 3
    assert verdicts["spark"] == "skipped"
    monkeypatch.setattr(doctor.os, "access", lambda *_args: False)
    _, verdicts, said = examined(capsys, config)
    assert [verdicts[name] for name in ("staging", "path")] == ["failed"] * 2
    assert "cannot be written by this user" in said


def test_jars_are_given_or_kept_or_fetched(tmp_path: Path) -> None:
    jar = tmp_path / "delta-spark_4.1_2.13-4.4.0.jar"
    jar.write_bytes(b"")
    given = {"path": "x", "jars": [str(jar)]}
    assert "on this machine" in doctor._jars(given)
    ivy = {"spark.jars.ivy": str(tmp_path / "empty")}
    assert "Spark downloads it" in doctor._jars({"path": "x", "spark": ivy})
    assert doctor._jars({"path": "x", "format": "parquet"}) == "parquet needs none"


def test_without_pyspark_it_is_told_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise doctor.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor.metadata, "version", missing)
    check = doctor._tried("pyspark", doctor._version)
    assert (check.verdict, "pip install" in check.text) == ("failed", True)


# With Spark


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.parametrize("form", ["delta", "iceberg", "parquet"])
def test_a_machine_that_is_well_is_left_as_it_was(
    shared: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    code, verdicts, said = examined(capsys, written(tmp_path, format=form))
    assert (code, set(verdicts.values())) == (0, {"ok"})
    assert list(verdicts) == [
        *("configuration", "java", "pyspark", "jars", "staging", "path", "lease"),
        *("spark", "storage", "tables"),
    ]
    assert f"a {form} table in {tmp_path}/tables was made, written, read, removed" in said
    assert [file.name for file in tmp_path.iterdir()] == ["config.json"]


@pytest.mark.thorough
@pytest.mark.spark
def test_tables_are_told_by_whose_they_are(
    shared: None,
    spark_session: Session,
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    warehouse = Warehouse(spark_session, spark, tmp_path / "tables")
    warehouse.load(schema("a", ID), record("a", id=1), state(1))
    code, verdicts, said = examined(capsys, written(tmp_path, format="delta"))
    assert (code, verdicts["tables"]) == (0, "ok")
    assert "1 of this job; the last state is of run run1" in said
    place = str(tmp_path / "tables" / "foreign")
    spark.range(1).write.format("delta").save(place)
    _, verdicts, said = examined(capsys, written(tmp_path, format="delta"))
    assert verdicts["tables"] == "warning"
    assert "foreign: rows that target-spark did not write" in said
    code, verdicts, said = examined(capsys, written(tmp_path, format="delta", job="other"))
    assert (code, verdicts["tables"]) == (0, "warning")
    assert "a is loaded by another job" in said
    assert "tables" in verdicts
    assert (tmp_path / "tables" / "a").is_dir()


@pytest.mark.thorough
@pytest.mark.spark
def test_a_place_that_cannot_be_written_is_told_with_the_step(
    shared: None, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = {"catalog": "nowhere", "database": "there"}
    streams = {"a": {"database": "made_and_gone"}, "b": nowhere, "c": nowhere}
    catalogs = {"spark.sql.catalog.nowhere": "no.such.Catalog"}
    config = written(tmp_path, format="delta", streams=streams, spark=catalogs)
    code, verdicts, said = examined(capsys, config)
    assert (code, verdicts["storage"]) == (1, "failed")
    assert "in nowhere.there could not be made" in said
    assert "in made_and_gone was made, written, read, removed" in said
    assert not spark.catalog.databaseExists("made_and_gone")
    assert said.count("could not be made") == 1  # each place once
    assert f"{tmp_path}/tables was made, written, read, removed" in said


@pytest.mark.thorough
@pytest.mark.spark
def test_a_row_that_does_not_come_back_is_a_failure(
    shared: None,
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from target_spark.writers.delta.writer import DeltaWriter

    monkeypatch.setattr(DeltaWriter, "rows", lambda _self, spark, _table: spark.range(2))
    _, verdicts, said = examined(capsys, written(tmp_path, format="delta"))
    assert verdicts["storage"] == "failed"
    assert "could not be read (done before: made, written)" in said
    assert not (tmp_path / "tables").exists()


def test_a_spark_that_does_not_start_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, verdicts, said = examined(
        capsys, written(tmp_path, remote="sc://127.0.0.1:1", staging="/tmp")
    )
    assert (code, verdicts["spark"], verdicts["storage"]) == (1, "failed", "skipped")
    assert "the setting remote" in said
