"""Unusual input of other people's taps: it loads, or ends with an error that names the line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tap_core.exceptions import InvalidInputLine, SingerSDKError
from tap_core.protocols.singer.reader import SingerReader
from target_spark.errors import UnsupportedError
from target_spark.storage.uris import to_spark_uri
from tests.target.loader.unusual_messages import (
    GOOD_START,
    LOADING,
    REFUSED,
    Case,
    encode_cases,
    record,
    schema,
)
from tests.target.warehouse import ID, Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.spark.session import Session

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

ROOT = Path(__file__).parents[3]
TARGET = "from target_spark.target import TargetSpark; TargetSpark.cli()"


def run(folder: Path, data: bytes) -> subprocess.CompletedProcess[bytes]:
    """Run the target in its own process with these bytes as input."""
    config = {
        "path": str(folder / "tables"),
        "master": "local[2]",
        "small_runs": True,
        "report": str(folder / "report.json"),
    }
    (folder / "config.json").write_text(json.dumps(config))
    return subprocess.run(
        [sys.executable, "-c", TARGET, "--config", "config.json"],
        input=data,
        capture_output=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        timeout=600,
        check=False,
    )


def test_unusual_input_loads_in_one_run(spark: SparkSession, tmp_path: Path) -> None:
    truncated = b'{"type": "STATE", "value": {"at": 2}}'
    data = b"\xef\xbb\xbf" + encode_cases(
        *LOADING, Case("", ({"type": "STATE", "value": {"at": 1}},), [])
    )
    process = run(tmp_path, data + truncated)
    errors = process.stderr.decode()
    assert process.returncode == 0, errors
    assert process.stdout.splitlines()[-1] == b'{"at": 2}'
    streams = json.loads((tmp_path / "report.json").read_text())["streams"]
    faults = {}
    for case in LOADING:
        folder = f"{tmp_path}/tables/{streams[case.stream]['table']}"
        rows = read_rows(spark, folder, case)
        if rows != (sorted(case.rows, key=repr), case.quarantined):
            faults[case.stream] = rows
    assert faults == {}
    assert errors.count("which JSON does not allow") == 1


def read_rows(spark: SparkSession, folder: str, case: Case) -> tuple[list[tuple[Any, ...]], int]:
    """Return the rows of a case's table, and the number of rows in its quarantine."""
    table = spark.read.format("delta").load(to_spark_uri(folder))
    rows = (table.selectExpr(*case.columns) if case.columns else table).collect()
    quarantined = Path(f"{folder}__quarantine")
    count = 0
    if quarantined.exists():
        count = spark.read.format("delta").load(to_spark_uri(str(quarantined))).count()
    return sorted(map(tuple, rows), key=repr), count


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_input_is_an_error_that_names_the_cause(
    name: str, spark_session: Session, spark: SparkSession, tmp_path: Path
) -> None:
    lines, expected_error = REFUSED[name]
    loader, spool = Warehouse(spark_session, spark, tmp_path / "tables").open()
    events = SingerReader().feed(encode_cases(Case("a", (*GOOD_START, *lines), [])))
    for _ in GOOD_START:
        loader.process_event(next(events))
    with pytest.raises((InvalidInputLine, SingerSDKError, UnsupportedError), match=expected_error):
        deque(map(loader.process_event, events))
    loader.close()
    spool.close()


def test_rows_before_a_truncated_line_are_committed(spark: SparkSession, tmp_path: Path) -> None:
    data = encode_cases(Case("a", GOOD_START, []))
    process = run(tmp_path, data + b'{"type": "RECORD", "stream": "a", "rec')
    assert process.returncode == 1
    assert process.stdout == b'{"at": 1}\n'
    assert "The input ended within a message. Line 4" in process.stderr.decode()
    assert spark.read.format("delta").load(to_spark_uri(f"{tmp_path}/tables/a")).count() == 1


def test_input_without_messages_or_without_rows_succeeds(delta: Warehouse, tmp_path: Path) -> None:
    assert run(tmp_path, b"").returncode == 0
    assert not (tmp_path / "tables").exists()
    assert delta.load() == []
    assert delta.load(schema("a", ID), schema("a", ID)) == []


def test_input_without_states_is_loaded(delta: Warehouse) -> None:
    assert delta.load(schema("a", ID), record("a", {"id": 1})) == []
    assert delta.rows("a") == [(1,)]


def test_missing_time_extracted_is_replaced_by_the_arrival_time(delta: Warehouse) -> None:
    (case,) = (c for c in LOADING if c.stream == "times")
    delta.load(*case.lines, add_record_metadata=True)
    rows = {row.id: row for row in delta.read("times").collect()}
    extracted = {n: row["_sdc_extracted_at"] for n, row in rows.items()}
    assert str(extracted[0]).startswith("2024-01-01")
    assert extracted[4] == rows[4]["_sdc_received_at"]


def test_undeclared_properties_are_reported(delta: Warehouse) -> None:
    extra = {f"more_{n:02}": n for n in range(12)}
    delta.load(
        schema("a", ID),
        record("a", {"id": 1, **extra}),
        record("a", {"id": 2, "late": 1}),
        schema("a", {**ID, "text": {"type": "string"}}),
        record("a", {"id": 3, "text": "x", "other": 1}),
    )
    assert [note for note in delta.report.as_dict()["streams"]["a"]["notes"] if "not" in note] == [
        "has properties that its schema does not declare and that are not loaded: "
        + ", ".join(sorted(extra)[:10])
        + " and 2 more",
        "has properties that its schema does not declare and that are not loaded: other",
    ]


@pytest.fixture
def delta(spark_session: Session, spark: SparkSession, tmp_path: Path) -> Warehouse:
    return Warehouse(spark_session, spark, tmp_path / "in_process")
