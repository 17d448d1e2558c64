"""The table of runs: one row for each stream of a run, however the run ends."""

from __future__ import annotations

import json
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from deltalake import DeltaTable
from deltalake.schema import Field, PrimitiveType, Schema

from target_spark.cli.last_state import find_recoverable_tables
from target_spark.cli.table_overview import list_runs
from target_spark.config import settings
from target_spark.config.options import RunInfo
from target_spark.errors import UnsupportedError
from target_spark.loader.report import COMPLETE, NOT_COMPLETE, STOPPED, Report
from target_spark.loader.runs_table_writer import append_run, find_versions
from target_spark.spark.spark_provider import SparkProvider
from target_spark.tables.runs_table import SCHEMA, build_rows
from target_spark.tables.table import RUNS
from tests.target.cli.test_target_cli import environment, run, running
from tests.target.warehouse import (
    ID,
    SharedEngine,
    Warehouse,
    feed,
    record,
    schema,
    state,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.spark.session import Session

STARTED = 1_700_000_000_000


def make_report(outcome: str = COMPLETE, *, job: str = "job", number: int = 0) -> dict[str, Any]:
    """Return the report of a run with the streams a and b."""
    report = Report()
    report.add_facts(job=job, run=f"{job}-{number}", started=STARTED + number, format="delta")
    for stream in ("a", "b"):
        report.record_table(stream, stream, f"/lake/{stream}")
        report.count_received(stream, 3, 30)
        report.count_commit(stream, 2, 1, 0.5)
    report.record_column_change("b", "name", "string", "add")
    report.record_outcome(outcome)
    return report.as_dict()


def make_rows(outcome: str = COMPLETE, **report: Any) -> list[dict[str, Any]]:
    return build_rows(make_report(outcome, **report), (None, '{"at": 1}'), find_versions("delta"))


def append(folder: Path, rows: list[dict[str, Any]], **config: Any) -> None:
    """Append rows to the table of runs through an engine that never starts Spark."""
    options = {"path": str(folder), "format": "delta", **config}
    run_info = RunInfo(rows[0]["job"], rows[0]["run"], STARTED)
    engine = SparkProvider(settings.spark_settings(options), None, run_info)
    append_run(engine, settings.load_options(options), run_info, rows)


def list_rows(folder: Path, **options: Any) -> list[dict[str, Any]]:
    return list_runs({"path": str(folder), "format": "delta"}, **{"limit": 100, **options})


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (COMPLETE, (COMPLETE, None)),
        (STOPPED, (STOPPED, None)),
        ("The disk is full.", (NOT_COMPLETE, "The disk is full.")),
    ],
)
def test_row_has_the_outcome_and_the_error_of_its_run(
    outcome: str, expected: tuple[str, str | None]
) -> None:
    rows = make_rows(outcome)
    assert [(row["outcome"], row["error"]) for row in rows] == [expected] * 2


def test_row_has_the_counts_of_its_stream() -> None:
    first, second = make_rows()
    assert (first["stream"], first["received"], first["written"]) == ("a", 3, 2)
    assert (first["quarantined"], first["bytes"], first["commits"]) == (1, 30, 1)
    assert first["schema_changes"] is None
    assert json.loads(second["schema_changes"])[0]["column"] == "name"
    assert first["started"] == datetime.fromtimestamp(STARTED / 1000, timezone.utc)
    assert set(first) == set(SCHEMA.types)


def test_large_states_are_not_repeated_in_each_row() -> None:
    state_after = "x" * (3 << 20)
    rows = build_rows(make_report(), (None, state_after), find_versions("delta"))
    assert [row["state_after"] for row in rows] == [None, None]


def test_runs_of_several_jobs_are_kept_newest_first(tmp_path: Path) -> None:
    for number, job in enumerate(("first", "second", "first")):
        append(tmp_path, make_rows(job=job, number=number))
    rows = list_rows(tmp_path)
    assert [(row["run"], row["stream"]) for row in rows] == [
        (run_id, stream) for run_id in ("first-2", "second-1", "first-0") for stream in ("a", "b")
    ]
    assert [row["run"] for row in list_rows(tmp_path, limit=1)] == ["first-2"] * 2
    assert {row["stream"] for row in list_rows(tmp_path, stream="b")} == {"b"}
    assert rows[0]["state_after"] == '{"at": 1}'
    assert rows[0]["started"] == datetime.fromtimestamp((STARTED + 2) / 1000, timezone.utc)


def test_table_of_runs_is_no_table_of_a_job(tmp_path: Path) -> None:
    append(tmp_path, make_rows())
    options = settings.load_options({"path": str(tmp_path), "format": "delta"})
    assert find_recoverable_tables(options, lambda: pytest.fail("Spark was used.")) == []


def test_runs_that_end_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    jobs = "abcdefgh"
    barrier = threading.Barrier(len(jobs))

    def end_runs(job: str) -> None:
        barrier.wait()
        for number in range(2):
            append(tmp_path, make_rows(job=job, number=number))

    with ThreadPoolExecutor(len(jobs)) as pool:
        list(pool.map(end_runs, jobs))
    expected = sorted(f"{job}-{number}" for job in jobs for number in range(2) for _ in "ab")
    assert sorted(row["run"] for row in list_rows(tmp_path)) == expected


def test_new_columns_are_added_to_an_older_table_of_runs(tmp_path: Path) -> None:
    """A table of another release: it lacks columns, and has one that this release does not fill."""
    text = PrimitiveType("string")
    fields = [Field("job", text), Field("run", text), Field("of_a_later_release", text)]
    DeltaTable.create(tmp_path / RUNS, Schema(fields))
    append(tmp_path, make_rows())
    rows = DeltaTable(tmp_path / RUNS).to_pyarrow_table().to_pylist()
    assert [(row["stream"], row["of_a_later_release"]) for row in rows] == [
        ("a", None),
        ("b", None),
    ]


def test_log_of_the_table_of_runs_gets_checkpoints(tmp_path: Path) -> None:
    """Without them, each run would read every earlier commit several times."""
    log = tmp_path / RUNS / "_delta_log"
    append(tmp_path, make_rows(number=0))
    append(tmp_path, make_rows(number=1))
    text = (log / f"{2:020}.json").read_text()
    for number in range(3, 10):  # the commits of seven more runs
        (log / f"{number:020}.json").write_text(text)
    append(tmp_path, make_rows(number=2))
    assert [file.name for file in log.glob("*.checkpoint.parquet")] == [
        f"{10:020}.checkpoint.parquet"
    ]
    assert [row["run"] for row in list_rows(tmp_path, limit=1)] == ["job-2"] * 2


def test_stream_cannot_be_loaded_into_the_table_of_runs(tmp_path: Path) -> None:
    no_spark = cast("Any", None)
    warehouse = Warehouse(no_spark, no_spark, tmp_path / "tables")
    loader, spool = warehouse.open(database="lake", table_prefix="_")
    with (
        closing(spool),
        closing(loader),
        pytest.raises(UnsupportedError, match=r"target_spark_runs cannot .* the table of runs"),
    ):
        feed(loader, schema("target_spark_runs", ID))


def test_stream_of_the_same_name_has_another_folder() -> None:
    from tap_core.events import StreamId

    options = settings.load_options({"path": "tables"})
    assert options.runs_table.path == f"tables/{RUNS}"
    assert options.table(StreamId(RUNS)).path != options.runs_table.path


# Processes


def make_lines(*messages: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def load(folder: Path, *messages: dict[str, Any], end: bytes = b"", **config: Any) -> int:
    """Load messages in a process that has no Java; return its exit code."""
    data = make_lines(*messages) + end
    options = {"format": "delta", "small_batches": "delta-rs", "job": "job", **config}
    env = environment(JAVA_HOME=str(folder / "no-java"))
    return run(folder, data, env=env, **options).returncode


@pytest.mark.thorough
def test_run_is_recorded_however_it_ends(tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    assert load(tmp_path, schema("a", ID, "id")) == 0
    assert load(tmp_path, schema("a", ID), record("a", id=1), run_history=False) == 0
    assert not (tables / RUNS).exists()  # neither a run without rows nor a refused one

    assert load(tmp_path, schema("a", ID), record("a", id=1), state(1)) == 0
    secret = "https://user:s3cr3t@host"
    invalid = b'{"type": "RECORD", "stream": "unknown", "record": {"at": "%s"}}\n' % secret.encode()
    assert load(tmp_path, schema("a", ID), record("a", id=2), end=invalid) == 1
    failed, complete = list_rows(tables)
    assert (complete["outcome"], complete["error"], complete["written"]) == (COMPLETE, None, 1)
    assert (complete["state_before"], complete["state_after"]) == (None, '{"at": 1}')
    assert (failed["outcome"], failed["received"]) == (NOT_COMPLETE, 1)
    assert "stream unknown" in failed["error"]
    assert "s3cr3t" not in failed["error"]
    assert (failed["state_before"], failed["state_after"]) == ('{"at": 1}', None)
    assert complete["started"] <= complete["ended"] <= failed["ended"]


@pytest.mark.thorough
def test_run_that_a_signal_stops_is_recorded_with_its_state(tmp_path: Path) -> None:
    options = {"format": "delta", "small_batches": "delta-rs", "flush_rows": 1}
    with running(tmp_path, **options) as target:
        target.send(make_lines(schema("a", ID), record("a", id=1), state(1)))
        target.until(lambda: bool(target.lines))
        target.process.send_signal(signal.SIGTERM)
        assert target.end() == 0
    (row,) = list_rows(tmp_path / "tables")
    assert (row["outcome"], row["error"], row["written"]) == (STOPPED, None, 1)
    assert row["state_after"] == '{"at": 1}'


@pytest.mark.thorough
def test_failed_append_changes_neither_the_run_nor_its_states(tmp_path: Path) -> None:
    folder = tmp_path / "tables" / RUNS
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("not a table")
    data = make_lines(schema("a", ID), record("a", id=1), state(1))
    env = environment(JAVA_HOME=str(tmp_path / "no-java"))
    process = run(tmp_path, data, env=env, format="delta", small_batches="delta-rs")
    assert (process.returncode, process.stdout) == (0, b'{"at": 1}\n')
    assert (
        process.stderr.count(f"This run is not in the table {RUNS} (setting run_history)".encode())
        >= 1
    )


@pytest.mark.thorough
def test_error_of_the_run_is_not_repeated_for_the_table_of_runs(tmp_path: Path) -> None:
    data = make_lines(schema("a", ID), record("a", id=1), state(1))
    env = environment(JAVA_HOME=str(tmp_path / "no-java"))
    process = run(tmp_path, data, env=env, format="parquet")
    assert process.returncode == 1
    assert (
        b"(setting run_history): the error that ended the run prevents this, too." in process.stderr
    )


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.parametrize("table_format", ["iceberg", "parquet"])
def test_spark_appends_to_the_table_of_runs(
    table_format: str, spark_session: Session, spark: SparkSession, tmp_path: Path
) -> None:
    warehouse = Warehouse(spark_session, spark, tmp_path / "tables", table_format)
    options = settings.load_options({"path": str(warehouse.folder), "format": table_format})
    engine = cast("SparkProvider", SharedEngine(spark_session))
    for number in range(2):
        rows = make_rows(number=number)
        append_run(engine, options, RunInfo("job", f"job-{number}", STARTED), rows)
    columns = ("run", "stream", "received", "state_after")
    assert warehouse.rows(RUNS, *columns) == [
        (f"job-{number}", stream, 3, '{"at": 1}') for number in range(2) for stream in "ab"
    ]
    assert find_recoverable_tables(options, lambda: spark) == []
