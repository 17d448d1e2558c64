"""Loads into target-spark from airbyte-cdk sources, shell pipes and PyAirbyte."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.airbyte.models import model_faults, needs_models
from tests.airbyte.pyairbyte import ask_pyairbyte, needs_pyairbyte, write_executable
from tests.airbyte.rules import write_faults
from tests.airbyte.running import PROGRAMS, TAP_SHOP, TOKEN, Run, airbyte, configured, environment
from tests.peers import missing_reason, peer_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TARGET = (sys.executable, "-m", "target_spark")
CDK = peer_python("airbyte_cdk") or peer_python("pyairbyte")  # which brings airbyte-cdk
STREAMS = {"colours": 3, "orders": 7, "readings": 21, "shops": 2, "visits": 14}
"""The number of rows of each stream after seven days."""

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.thorough]


def rows(spark: SparkSession, folder: Path, table: str) -> list[dict[str, Any]]:
    table_rows = spark.read.format("delta").load(str(folder / "warehouse" / table)).collect()
    return [row.asDict(recursive=True) for row in table_rows]


def write(folder: Path, catalog: Any, feed: bytes) -> Run:
    """Let target-spark write to Delta Lake, and check its output."""
    config = {"path": str(folder / "warehouse")}
    run = airbyte(TARGET, "write", folder, feed=feed, config=config, catalog=catalog)
    assert run.code == 0, run.output.decode()[-3000:] + run.log
    assert write_faults(feed, run.output, run.code) == []
    return run


@pytest.mark.skipif(CDK is None, reason=missing_reason("airbyte_cdk"))
@pytest.mark.peer
@needs_models
def test_airbyte_cdk_source_is_loaded_and_resumes_from_its_states(
    tmp_path: Path, spark: SparkSession
) -> None:
    """D1, D3, D4, D6, D7: logs and statuses are ignored; states are emitted unchanged."""
    source = (str(CDK), str(PROGRAMS / "cdk_source.py"))
    discovered = airbyte(source, "discover", tmp_path, config={"count": 3})
    catalog = configured(discovered.of_type("CATALOG")[0])
    states: list[Any] = []
    for count, new in ((3, 3), (5, 2)):
        config = {"count": count}
        read = airbyte(source, "read", tmp_path, config=config, catalog=catalog, state=states)
        assert read.code == 0, read.log
        assert len(read.records("players")) == new
        answered = write(tmp_path, catalog, read.output)
        assert model_faults(answered.output) == []
        newest = {state["stream"]["stream_descriptor"]["name"]: state for state in answered.states}
        assert set(newest) == {"teams", "players"}
        states = list(newest.values())
    teams = sorted(rows(spark, tmp_path, "teams"), key=lambda row: row["code"])
    assert [(row["code"], row["colour"]) for row in teams] == [("a", "red"), ("b", None)]
    players = sorted(rows(spark, tmp_path, "players"), key=lambda row: row["number"])
    assert [row["number"] for row in players] == [1, 2, 3, 4, 5]
    assert players[4]["goals"] == 50_000_000_000
    assert players[4]["height"] == 181.25
    assert str(players[4]["born"]) == "2000-01-05"
    assert players[4]["nicknames"] == ["x", None]
    assert players[4]["address"] == {"city": "Bern"}
    assert "surprise" not in players[4]
    assert players[4]["_airbyte_extracted_at"] is not None


def test_shell_pipe_resumes_from_the_states_that_it_printed(
    tmp_path: Path, spark: SparkSession
) -> None:
    """D4, D5, ST12: `read | write >> state.jsonl`, then `read --state state.jsonl`."""
    [catalog] = airbyte(TAP_SHOP, "discover", tmp_path, config={"token": TOKEN}).of_type("CATALOG")
    selected = configured(catalog, mode="incremental")
    (tmp_path / "catalog.json").write_text(json.dumps(selected))
    (tmp_path / "target.json").write_text(json.dumps({"path": str(tmp_path / "warehouse")}))
    write_executable(tmp_path / "tap-shop", TAP_SHOP)
    write_executable(tmp_path / "target-spark", TARGET)
    read = "./tap-shop read --config config.json --catalog catalog.json"
    load = "./target-spark write --config target.json --catalog catalog.json"
    for days, option in ((5, ""), (7, "--state state.jsonl ")):
        (tmp_path / "config.json").write_text(json.dumps({"token": TOKEN, "days": days}))
        pipe = f"{read} {option}| tee read.jsonl | {load} >> state.jsonl"
        process = subprocess.run(
            ["sh", "-c", pipe], cwd=tmp_path, env=environment(), capture_output=True, check=False
        )
        assert process.returncode == 0, process.stderr.decode()
    fed = Run(0, (tmp_path / "read.jsonl").read_bytes(), "")
    # A cursor is inclusive: the newest rows come again, and none of those before them.
    assert [len(fed.records(name)) for name in ("orders", "readings", "visits")] == [3, 9, 6]
    counts = {name: len(rows(spark, tmp_path, name)) for name in sorted(STREAMS)}
    assert counts == STREAMS


@needs_pyairbyte
@pytest.mark.peer
def test_pyairbyte_writes_twice_and_resumes_from_stored_states(
    tmp_path: Path, spark: SparkSession
) -> None:
    """D3, ST9, ST12: the second write continues from the states of the first.

    The third write sends everything from PyAirbyte's cache, with times in seconds and
    PyAirbyte's own columns; no row is duplicated.
    """
    names = ["colours", "orders", "readings"]
    answer = ask_pyairbyte(
        tmp_path,
        source=write_executable(tmp_path / "tap-shop", TAP_SHOP),
        destination=write_executable(tmp_path / "target-spark", TARGET),
        destination_config={"path": str(tmp_path / "warehouse")},
        cache=str(tmp_path / "cache.duckdb"),
        configs=[{"token": TOKEN, "days": 5}, {"token": TOKEN, "days": 7}],
        streams=names,
    )
    first, second, cached = answer["write"]
    assert (first["counted"], second["counted"]) == (3 + 5 + 15, 3 + 3 + 9)
    assert cached["counted"] == 3 + 7 + 21
    assert set(second["states"]) == set(names)
    assert first["states"]["orders"] != second["states"]["orders"]
    for name in names:
        table_rows = rows(spark, tmp_path, name)
        assert len(table_rows) == STREAMS[name]
        assert [row for row in table_rows if json.loads(row["_airbyte_meta"])["changes"]] == []
