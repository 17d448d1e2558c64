"""The end of a run on a terminal: tables, a command that prints one, and advice."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from target_spark.loader import terminal_summary
from target_spark.loader.report import Report
from target_spark.loader.terminal_summary import suggest_faster_start, summarize_tables
from target_spark.phase_timing import FETCH, START


def make_report(*locations: str, config: Sequence[str] = ()) -> Report:
    report = Report(config)
    for number, location in enumerate(locations):
        report.record_table(f"s{number}", "t", location)
        report.count_received(f"s{number}", 2, 10)
        report.count_commit(f"s{number}", 2, 0, 0.1)
    return report


@pytest.mark.parametrize("form", ["delta", "parquet"])
def test_printed_command_prints_a_local_table(tmp_path: Path, form: str) -> None:
    folder = tmp_path / "a table"
    folder.mkdir()
    rows = pa.table({"name": ["Ada", "Grace"]})
    if form == "delta":
        deltalake.write_deltalake(folder, rows)
    else:
        pq.write_table(rows, folder / "part.parquet")
    table, command = summarize_tables(make_report(str(folder)), {"format": form})
    assert table == f"table of s0: {folder}"
    line = command.removeprefix("to print a table: ")
    process = subprocess.run(shlex.split(line), capture_output=True, text=True, check=True)
    assert "Ada" in process.stdout
    assert "Grace" in process.stdout


def test_tables_elsewhere_are_named_with_the_command_that_shows_one() -> None:
    locations = [f"lake.sales.t{number}" for number in range(11)]
    lines = list(summarize_tables(make_report(*locations, "s3a://b/t"), {"format": "delta"}))
    assert lines[0] == "table of s0: lake.sales.t0"
    show = "to show a table: target-spark show s0 --config config.json"
    assert lines[10:] == ["and 2 more tables", show]
    assert list(summarize_tables(make_report("/t"), {"dry_run": True})) == []
    assert list(summarize_tables(Report(), {})) == []


def test_iceberg_table_is_shown_with_the_settings_files_of_the_run(tmp_path: Path) -> None:
    report = make_report(str(tmp_path), config=["my settings.json"])
    lines = list(summarize_tables(report, {"format": "iceberg"}))
    show = "to show a table: target-spark show s0 --config 'my settings.json'"
    assert lines == [f"table of s0: {tmp_path}", show]


LOCAL = {"path": "/lake"}
READY = {"small_batches": "delta-rs", "engine": "keep", "small_runs": True}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (LOCAL, {"small_batches", "engine", "class_archive", "small_runs"}),
        ({**LOCAL, **READY}, {"class_archive"}),
        ({**LOCAL, "format": "iceberg"}, {"engine", "class_archive iceberg", "small_runs"}),
        ({**LOCAL, "format": "parquet"}, {"engine", "class_archive", "small_runs"}),
        ({"path": "s3a://lake/x"}, {"engine", "class_archive", "small_runs"}),
        ({**LOCAL, "master": "spark://x:7077"}, set()),
        ({**LOCAL, "remote": "sc://x"}, set()),
    ],
    ids=str,
)
def test_advice_names_the_settings_that_fit_and_are_not_set(
    config: dict[str, Any], expected: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal_summary, "_MIN_SECONDS", 0)
    monkeypatch.setattr(terminal_summary, "has_class_archive", lambda: False)
    report = make_report("/lake/t")
    with report.phases.run(START):
        time.sleep(0.1)
    advice = "".join(suggest_faster_start(report, config))
    names = {"small_batches", "engine", "class_archive", "class_archive iceberg", "small_runs"}
    suggested = {name for name in names if f"{name} " in advice}
    assert suggested - {"class_archive"} == expected - {"class_archive"}
    assert ("class_archive" in advice) == any("class_archive" in name for name in expected)
    assert bool(advice) == bool(expected)


def test_no_advice_after_a_short_start_or_a_download_of_jars(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    short = make_report("/lake/t")
    with short.phases.run(START):
        pass
    assert list(suggest_faster_start(short, LOCAL)) == []
    monkeypatch.setattr(terminal_summary, "_MIN_SECONDS", 0)
    fetching = make_report("/lake/t")
    with fetching.phases.run(START), fetching.phases.run(FETCH):
        time.sleep(0.1)
    assert list(suggest_faster_start(fetching, LOCAL)) == []
