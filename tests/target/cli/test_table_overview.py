"""The commands `target-spark runs` and `target-spark show`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from target_spark.cli.table_overview import show_table, to_json
from target_spark.config import settings
from target_spark.errors import TableError
from target_spark.tables.table import QUARANTINE
from tests.target.cli.test_last_state import run_command
from tests.target.loader.test_run_history import append, make_rows
from tests.target.warehouse import ID, Warehouse, record, schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.spark.session import Session

RECEIVED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)


def write_config(folder: Path, **overrides: Any) -> list[str]:
    options = {"path": str(folder / "tables"), "format": "delta", **overrides}
    (folder / "config.json").write_text(json.dumps(options))
    return ["--config", str(folder / "config.json")]


def write_table(folder: Path, stream: str) -> None:
    """Write a table and its quarantine, as deltalake writes them."""
    times = pa.array([RECEIVED, None], pa.timestamp("us", "UTC"))
    write_deltalake(folder / stream, pa.table({"id": [1, 2], "_sdc_received_at": times}))
    reasons = [["id: too large", "name: no text"], ["id: too large"]]
    write_deltalake(folder / f"{stream}{QUARANTINE}", pa.table({"reasons": reasons}))


def test_json_has_no_character_that_a_terminal_interprets() -> None:
    names = {"stream": "a\x9b2J\u202e\x7f", "columns": {"\x1b[5mb\x9c": "é"}}
    text = to_json({}, names)
    assert text.isascii()
    assert "\x1b" not in text
    assert json.loads(text) == names


def test_runs_are_listed_with_their_streams(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_config(tmp_path)
    append(tmp_path / "tables", make_rows(number=0))
    append(tmp_path / "tables", make_rows("It failed at https://me:s3cr3t@host", number=1))
    code, out, _ = run_command(capsys, "runs", *config)
    lines = out.splitlines()
    assert code == 0
    assert lines[0].startswith("2023-11-14T22:13:20Z  not complete after ")
    assert lines[1] == "  a: 3 received, 2 written, 1 quarantined"
    assert lines[4].startswith("  error: It failed at https://")
    assert "complete after" in lines[5]
    assert "s3cr3t" not in out


def test_runs_as_json_has_every_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = write_config(tmp_path)
    append(tmp_path / "tables", make_rows())
    code, out, _ = run_command(capsys, "runs", *config, "--format", "json", "--stream", "b")
    (row,) = json.loads(out)
    assert code == 0
    assert (row["stream"], row["state_after"]) == ("b", '{"at": 1}')
    assert row["started"] == "2023-11-14T22:13:20Z"


def test_output_that_is_closed_by_its_reader_causes_no_message(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    append(tmp_path / "tables", make_rows(number=0))
    read, write = os.pipe()
    os.close(read)  # as `head` does when it has read enough
    command = [sys.executable, "-m", "target_spark", "runs", *config]
    process = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (process.returncode, process.stderr) == (1, "")


as_reader_without_rights = pytest.mark.skipif(
    os.geteuid() == 0 and not which("setpriv"), reason="root may read all files"
)


def run_without_rights(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of target-spark; as root, without root's right to read all files."""
    as_user = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    command = [*(as_user if os.geteuid() == 0 else ()), sys.executable, "-m", "target_spark"]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)


@as_reader_without_rights
@pytest.mark.parametrize("command", ["runs", "last-state"])
def test_table_that_this_user_may_not_read_is_one_sentence(tmp_path: Path, command: str) -> None:
    config = write_config(tmp_path)
    append(tmp_path / "tables", make_rows(number=0))
    write_table(tmp_path / "tables", "a")
    for table in (tmp_path / "tables").iterdir():
        table.chmod(0)
    process = run_without_rights(command, *config)
    for table in (tmp_path / "tables").iterdir():
        table.chmod(0o700)
    assert (process.returncode, process.stdout) == (1, "")
    (line,) = process.stderr.splitlines()
    assert line.startswith(f"{tmp_path}/tables/")
    assert "cannot be opened: Permission denied. Run the command as a user with access" in line


@as_reader_without_rights
def test_commit_that_this_user_may_not_read_is_one_sentence(tmp_path: Path) -> None:
    """The library deltalake raises an OSError without a number, with a text of several lines."""
    config = write_config(tmp_path)
    write_table(tmp_path / "tables", "a")
    (commit,) = (tmp_path / "tables" / "a" / "_delta_log").glob("*.json")
    commit.chmod(0)
    process = run_without_rights("show", "a", *config)
    assert (process.returncode, process.stdout) == (1, "")
    (line,) = process.stderr.splitlines()
    assert line.startswith("A file cannot be read or written: ")
    assert f"{commit}: Permission denied (os error 13)" in line


def test_runs_without_a_table_of_runs_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run_command(capsys, "runs", *write_config(tmp_path))
    assert (code, out) == (1, "")
    assert "There is no table of runs" in err


def test_runs_of_an_unknown_stream_are_reported_as_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    append(tmp_path / "tables", make_rows(number=0))
    code, out, _ = run_command(capsys, "runs", "--stream", "nope", *write_config(tmp_path))
    assert (code, out) == (0, "The table of runs has no run of this stream.\n")


def test_command_without_settings_names_the_option(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run_command(capsys, "show", "orders")
    assert (code, out) == (1, "")
    assert err.endswith("No settings were passed: name their file with --config FILE.\n")


def test_show_has_rows_times_quarantine_and_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, tables = write_config(tmp_path), tmp_path / "tables"
    write_table(tables, "a")
    append(tables, make_rows())
    code, out, _ = run_command(capsys, "show", "a", *config)
    assert code == 0
    assert out.startswith(f"stream a, delta table {tables}/a\nrows: 2\nlast commit: 20")
    assert "newest row received: 2026-01-02T03:04:05Z\n" in out
    assert f"quarantine: 2 rows in {tables}/a{QUARANTINE}\n  2 rows: id: too large\n" in out
    assert "  id bigint\n  _sdc_received_at timestamp\n" in out
    assert "  a: 3 received, 2 written, 1 quarantined\n" in out
    assert "  b: 3 received" not in out
    code, out, _ = run_command(capsys, "show", "a", *config, "--format", "json")
    assert json.loads(out)["quarantine"]["reasons"][0] == {"reason": "id: too large", "rows": 2}


def test_show_of_a_stream_without_a_table_is_an_error(tmp_path: Path) -> None:
    options = {"path": str(tmp_path), "format": "delta"}
    with pytest.raises(TableError, match=r"Stream ns\.x has no table: .*/ns\.x nor .*/ns__x"):
        show_table(options, "ns.x")


def test_show_of_a_misspelled_stream_suggests_one_of_the_last_runs(tmp_path: Path) -> None:
    append(tmp_path, [row | {"stream": "orders"} for row in make_rows()])
    with pytest.raises(TableError, match=r"/order\. Did you mean 'orders'\? Check the name"):
        show_table({"path": str(tmp_path), "format": "delta"}, "order")


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.parametrize("table_format", ["iceberg", "parquet", "delta"])
def test_show_reads_the_tables_of_every_format(
    table_format: str,
    spark_session: Session,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spark_session, "stop", lambda: None)  # the session is that of all tests
    monkeypatch.setattr("target_spark.spark.spark_provider.start_spark", lambda _: spark_session)
    warehouse = Warehouse(spark_session, spark, tmp_path / "tables", table_format)
    warehouse.load(
        schema("a", ID),
        record("a", id=1),
        record("a", id="x"),
        add_record_metadata=True,
    )
    before = datetime.now(timezone.utc)
    overview = show_table({"path": str(warehouse.folder), "format": table_format}, "a")
    assert (overview["rows"], overview["quarantine"]["rows"], overview["job"]) == (1, 1, "job")
    assert len(overview["quarantine"]["reasons"]) == 1
    assert overview["bytes"] > 0
    assert overview["newest_row"] < overview["last_commit"] < before
    assert settings.find_faults({"path": "x", "run_history": False}) == []
