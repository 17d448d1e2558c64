"""The sample project under Meltano: two runs with a kept state."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from target_spark.config.settings import with_defaults
from target_spark.spark.jvm import cache_folder
from target_spark.target import TargetSpark
from tests.peers import missing_reason, peer_python
from tests.samples.cut_flights import january, read_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
MELTANO = peer_python("meltano")
FIRST_UNTIL, SECOND_UNTIL = "2013-01-03T00:00:00Z", "2013-01-05T00:00:00Z"

pytestmark = [
    pytest.mark.peer,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(MELTANO is None, reason=missing_reason("meltano")),
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("meltano")
    shutil.copy(ROOT / "samples" / "meltano.yml", folder)
    return folder


def meltano(project: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Meltano offline, with the project's programs on its PATH."""
    assert MELTANO is not None
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MELTANO_", "TAP_", "TARGET_", "PYTHON"))
    }
    process = subprocess.run(
        [str(MELTANO.parent / "meltano"), *arguments],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={
            **inherited,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "MELTANO_AUTO_INSTALL": "false",
            "MELTANO_CLI_DISABLE_VERSION_CHECK": "1",
            "MELTANO_HUB_URL": "http://127.0.0.1:9",
            "MELTANO_SEND_ANONYMOUS_USAGE_STATS": "false",
            "NO_COLOR": "1",
            "PYTHONPATH": str(january()),
            **variables,
        },
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process


def state(project: Path) -> dict[str, Any]:
    output = meltano(project, "state", "get", "dev:tap-flights-to-target-spark").stdout
    document: dict[str, Any] = json.loads(output[output.index("{") :])
    return document["singer_state"]


def bookmarks(project: Path, stream: str) -> dict[str, str]:
    partitions = state(project)["bookmarks"][stream]["partitions"]
    return {entry["context"]["origin"]: entry["replication_key_value"] for entry in partitions}


def rows(spark: SparkSession, project: Path) -> dict[str, int]:
    """Return the number of rows of each hourly table, counted by Spark."""
    return {
        name: spark.read.format("delta").load(str(project / "warehouse" / name)).count()
        for name in ("flights", "weather")
    }


@pytest.mark.thorough
def test_second_run_resumes_from_the_stored_state(spark: SparkSession, project: Path) -> None:
    meltano(project, "run", "tap-flights", "target-spark", TAP_FLIGHTS_UNTIL=FIRST_UNTIL)
    first_marks = bookmarks(project, "flights")
    assert set(first_marks) == {"EWR", "JFK", "LGA"}
    assert all(value < FIRST_UNTIL for value in first_marks.values())

    process = meltano(project, "run", "tap-flights", "target-spark", TAP_FLIGHTS_UNTIL=SECOND_UNTIL)
    second_marks = bookmarks(project, "flights")
    assert all(first_marks[origin] < second_marks[origin] for origin in first_marks)
    assert rows(spark, project) == {
        "flights": rows_before("flights", SECOND_UNTIL),
        "weather": rows_before("weather", SECOND_UNTIL),
    }
    assert "planes" not in state(project)["bookmarks"]
    assert "Run completed" in process.stdout + process.stderr


@pytest.mark.thorough
def test_runs_of_meltano_share_an_engine(project: Path, tmp_path: Path) -> None:
    cache = tmp_path / "target-spark"
    cache.mkdir(mode=0o700)
    (cache / "ivy").symlink_to(cache_folder() / "ivy")
    variables = {
        "XDG_CACHE_HOME": str(tmp_path),
        "TARGET_SPARK_PATH": str(tmp_path / "tables"),
        "TARGET_SPARK_ENGINE": "keep",
        "TARGET_SPARK_ENGINE_IDLE_SECONDS": "60",
    }
    applications = []
    for until in (FIRST_UNTIL, SECOND_UNTIL):
        command = ["run", "--full-refresh", "tap-flights", "target-spark"]
        process = meltano(project, *command, TAP_FLIGHTS_UNTIL=until, **variables)
        applications += re.findall(r'"application": ?"([^"]+)"', process.stdout + process.stderr)
    assert len(applications) == 2
    assert applications[0] == applications[1]
    for engine in cache.glob("engines/*/engine.json"):
        os.kill(json.loads(engine.read_bytes())["pid"], signal.SIGTERM)


def rows_before(table: str, until: str) -> int:
    """Count the rows of the source files, independently of the code under test."""
    return sum(row["time_hour"] < until for row in read_table(table))


def test_meltano_reads_the_taps_capabilities_and_settings(project: Path) -> None:
    process = meltano(project, "invoke", "tap-flights", "--about", "--format=json")
    about = json.loads(process.stdout[process.stdout.index("{") :])
    assert about["name"] == "tap-flights"
    assert {"catalog", "discover", "state"} <= set(about["capabilities"])
    assert {"folder", "until"} <= set(about["settings"]["properties"])


@pytest.mark.thorough
def test_meltano_passes_defaults_and_converts_variables_by_kind(project: Path) -> None:
    """The configuration of the sample is the one that target-spark has without Meltano."""
    variables = {
        "TARGET_SPARK_FLUSH_SECONDS": "60",
        "TARGET_SPARK_RUN_HISTORY": "false",
        "TARGET_SPARK_PARTITION_BY": '["month(day)"]',
        "TARGET_SPARK_STREAMS": '{"weather": {"write_mode": "append"}}',
        "TARGET_SPARK_MAX_QUARANTINED": "1%",
        "TARGET_SPARK_WRITE_MODE": "scd2",
    }
    process = meltano(project, "config", "print", "target-spark", **variables)
    settings = {
        "path": "warehouse",
        "format": "delta",
        "small_runs": True,
        "job": "flights",
        "flush_seconds": 60,
        "run_history": False,
        "partition_by": ["month(day)"],
        "streams": {"weather": {"write_mode": "append"}},
        "max_quarantined": "1%",
        "write_mode": "scd2",
    }
    printed = json.loads(process.stdout)
    assert printed == with_defaults(settings)
    assert TargetSpark(config=printed).config == TargetSpark(config=settings).config


@pytest.mark.thorough
def test_meltano_refuses_unknown_options_and_hides_secrets(project: Path) -> None:
    with pytest.raises(AssertionError, match="'orc' is not a valid choice for 'format'"):
        meltano(project, "config", "print", "target-spark", TARGET_SPARK_FORMAT="orc")
    hook = {"TARGET_SPARK_WEBHOOK": "https://hooks.example/hunter2"}
    assert "hunter2" not in meltano(project, "config", "list", "target-spark", **hook).stdout


@pytest.mark.thorough
def test_printed_definition_adds_target_spark_to_a_project(tmp_path: Path) -> None:
    (tmp_path / "meltano.yml").write_text("project_id: definition\n")
    printed = subprocess.run(
        [sys.executable, "-m", "target_spark", "--about", "--format=meltano"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    (tmp_path / "target-spark.yml").write_text(printed.stdout)
    arguments = ("--no-install", "--from-ref", "target-spark.yml", "target-spark")
    meltano(tmp_path, "add", *arguments)
    output = meltano(tmp_path, "config", "list", "target-spark", "--all").stdout
    assert "Group 1: path\n" in output
    assert "TARGET_SPARK_WRITE_MODE" in output
    assert "The table format." in output


def test_selection_in_the_project_file_reaches_the_tap(project: Path) -> None:
    output = meltano(project, "select", "tap-flights", "--list", "--all").stdout
    selection = {name: kind for kind, name in re.findall(r"\[(\w+) *\] ([\w.]+)", output)}
    assert selection["flights.time_hour"] == "automatic"
    assert selection["flights.dep_delay"] == "selected"
    assert selection["planes.tailnum"] == "excluded"
