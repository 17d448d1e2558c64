"""The report of a run, as JSON and as text; its metrics."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tap_core.redaction import make_redactor
from target_spark.loader.report import COMPLETE, Report
from target_spark.tables.table import CommitStats
from tests.target.warehouse import ID_AND_NAME, Warehouse, record, schema, state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.spark.session import Session

ROOT = Path(__file__).parents[3]
PROGRAM = "from target_spark.target import TargetSpark; TargetSpark.cli()"


def make_report() -> Report:
    report = Report()
    report.record_table("orders", "orders_1", "/lake/orders_1")
    report.count_received("orders", 1200, 5_000_000)
    report.count_received("orders", 34, 1)
    effect = CommitStats(inserted=1230, files=3, nbytes=70)
    report.count_commit("orders", 1230, 4, 1.5, effect, 5_000_001)
    report.count_zoneless("orders", {"at": 2})
    report.count_zoneless("orders", {"at": 3, "on": 1})
    report.record_column_change("orders", "n__string", "string", "add", "n")
    report.count_state()
    report.count_released_state()
    assert report.add_stream_remark("orders", "odd")
    assert not report.add_stream_remark("orders", "odd")
    report.record_outcome(COMPLETE)
    return report


# As JSON


def test_report_file_is_private_and_symbolic_links_are_not_followed(
    tmp_path: Path,
) -> None:
    """A link under the name of the temporary file is not followed either."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    report = tmp_path / "report.json"
    for name in (report.name, f".{report.name}.{os.getpid()}"):
        (tmp_path / name).symlink_to(victim)
    before = os.umask(0)
    try:
        make_report().save(report)
    finally:
        os.umask(before)
    assert victim.read_text() == "precious"
    assert not report.is_symlink()
    assert report.stat().st_mode & 0o777 == 0o600
    assert json.loads(report.read_text())["complete"] is True


def test_report_contains_all_counts(tmp_path: Path) -> None:
    make_report().save(tmp_path / "deep" / "report.json")
    (file,) = (tmp_path / "deep").iterdir()
    document = json.loads(file.read_text())
    assert (document["outcome"], document["complete"]) == ("complete", True)
    assert (document["states_received"], document["states"], document["last_state_released"]) == (
        1,
        1,
        True,
    )
    assert document["streams"]["orders"] == {
        "table": "orders_1",
        "place": "/lake/orders_1",
        "received": 1234,
        "written": 1230,
        "quarantined": 4,
        "nulled": 0,
        "bytes": 5_000_001,
        "commits": 1,
        "seconds": 1.5,
        "inserted": 1230,
        "updated": 0,
        "deleted": 0,
        "files": 3,
        "table_bytes": 70,
        "waiting": 0,
        "changes": [
            {"column": "n__string", "type": "string", "kind": "add", "beside": "n", "old": None}
        ],
        "zoneless": {"at": 5, "on": 1},
        "notes": ["odd"],
        "quarantine": None,
        "withheld": None,
    }


def test_report_names_job_run_and_application() -> None:
    report = Report()
    report.add_facts(job="j", run="r")
    report.add_facts(application="local-1")
    assert report.as_dict()["job"] == "j"
    assert report.lines()[0] == "job j, run r, application local-1"


def test_report_shows_an_unreleased_last_state() -> None:
    report = Report()
    assert report.as_dict()["last_state_released"] is None
    report.count_state()
    report.count_released_state()
    report.count_state()
    assert report.as_dict()["last_state_released"] is False
    assert report.lines()[-1].endswith("states: 2 received, 1 emitted, without the last")


def test_failed_run_is_not_complete() -> None:
    report = Report()
    report.record_outcome("Line 3 is not a message")
    assert report.as_dict()["complete"] is False
    assert report.lines()[0].startswith("not complete after")


# As text


def test_report_text_is_a_table_with_remarks() -> None:
    ended, head, row, *notes = make_report().lines()
    assert ended.startswith("complete after")
    assert ended.endswith("states: 1 received, 1 emitted, including the last")
    assert len(head) == len(row)
    assert head.split() == [
        *("stream", "received", "written", "quarantined", "MB", "files", "commits", "seconds")
    ]
    assert row.split() == ["orders", "1,234", "1,230", "4", "5.0", "3", "1", "1.5"]
    assert notes == [  # the remark about the stream is in the log already
        "orders: column at: 5 date-times without a zone were read as UTC",
        "orders: column on: 1 date-times without a zone were read as UTC",
    ]


def test_report_text_omits_columns_without_values() -> None:
    report = Report()
    report.record_table("a", "a", "/lake/a")
    assert report.lines()[1].split() == ["stream", "received", "written", "commits"]
    report.count_commit("a", 3, 0, 0.1, CommitStats(inserted=1, updated=2))
    assert report.lines()[1].split()[3:5] == ["inserted", "updated"]


def test_progress_text_is_one_line() -> None:
    assert Report().progress() == "nothing received yet"
    assert make_report().progress() == "orders: 1,234 received, 1,230 written, 4 quarantined"


# Secrets


def test_redactor_hides_values_of_secret_settings() -> None:
    config = {
        "spark": {"spark.hadoop.fs.s3a.secret.key": "s3cr3t", "spark.x.access.key": "AKIA"},
        "streams": {"tokens": {"write_mode": "append"}},
        "passwords": ["one1", "x"],
        "path": "s3a://bucket",
    }
    hide = make_redactor(config)
    text = "append s3cr3t AKIA one1 x at https://user:pass@host/?token=abc&b=1 (s3a://bucket)"
    assert hide(text) == "append *** *** *** x at https://***@host/?token=***&b=1 (s3a://bucket)"
    assert make_redactor({})("nothing") == "nothing"


def run(folder: Path, data: bytes, **config: Any) -> subprocess.CompletedProcess[bytes]:
    options = {"path": "tables", "format": "parquet", "report": "report.json", **config}
    (folder / "config.json").write_text(json.dumps(options))
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, "--config", "config.json"],
        input=data,
        capture_output=True,
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "/nowhere", "PYTHONWARNINGS": "error"},
        check=False,
    )


ROW = b"".join(
    json.dumps(message).encode() + b"\n"
    for message in (schema("a", {}), record("a", id=1), state(1))
)


def test_run_with_invalid_settings_writes_a_report(tmp_path: Path) -> None:
    process = run(tmp_path, b"", flush_rows=0)
    assert process.returncode == 1
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["complete"] is False
    assert "flush_rows" in report["outcome"]


def test_run_without_java_writes_a_report_without_secrets(tmp_path: Path) -> None:
    secret = {"spark.hadoop.fs.s3a.secret.key": "nowhere"}  # no message contains it
    process = run(tmp_path, ROW, spark=secret, job="nowhere's")
    assert process.returncode == 1
    report = json.loads((tmp_path / "report.json").read_text())
    assert "No Java" in report["outcome"]
    assert (report["states_received"], report["states"], report["last_state_released"]) == (
        1,
        0,
        False,
    )
    assert report["streams"]["a"]["received"] == 1
    metrics = [line for line in process.stderr.decode().splitlines() if "METRIC: " in line]
    point = json.loads(metrics[-1].partition("METRIC: ")[2])
    assert (point["metric"], point["tags"]["status"]) == ("job_duration", "failed")


# A real run


@pytest.mark.thorough
@pytest.mark.spark
def test_run_reports_changes_and_logs_commit_metrics(
    spark_session: Session,
    spark: SparkSession,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    warehouse = Warehouse(spark_session, spark, tmp_path / "tables")
    first = schema("a", {"id": {"type": "integer"}, "name": {"type": "integer"}}, "id")
    warehouse.load(first, record("a", id=1, name=1), record("a", id=2, name=2))
    warehouse.load(
        schema("a", ID_AND_NAME, "id"),
        record("a", id=2, name="two"),
        record("a", id=3, name="three"),
        state(1),
    )
    counts = warehouse.counts("a")
    assert (counts["inserted"], counts["updated"], counts["deleted"]) == (1, 1, 0)
    assert counts["files"] > 0
    assert counts["waiting"] == 0
    (change,) = counts["changes"]
    assert (change["column"], change["type"].lower(), change["beside"]) == (
        *("name__string", "string", "name"),
    )
    report = warehouse.report.as_dict()
    assert (report["states_received"], report["last_state_released"]) == (1, True)
    points = [json.loads(text[8:]) for text in caplog.messages if text.startswith("METRIC: ")]
    counted = [p["value"] for p in points if p["metric"] == "record_count"]
    assert counted == [2, 2]
    timed = [p for p in points if p["metric"] == "batch_processing_time"]
    assert all(p["tags"]["stream"] == "a" and p["tags"]["status"] == "succeeded" for p in timed)
    assert len(timed) == 2
