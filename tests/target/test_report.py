"""The figures of a run, as data and as text."""

from __future__ import annotations

import json
from pathlib import Path

from target_spark.report import COMPLETE, Report


def filled() -> Report:
    report = Report()
    report.described("orders", "orders_1")
    report.received("orders", 1200, 5_000_000)
    report.received("orders", 34, 1)
    report.committed("orders", 1230, 4, 1.5)
    report.zoneless("orders", {"at": 2})
    report.zoneless("orders", {"at": 3, "on": 1})
    report.released()
    assert report.note("orders", "odd")
    assert not report.note("orders", "odd")
    report.ended(COMPLETE)
    return report


def test_everything_that_was_counted_is_told_as_data(tmp_path: Path) -> None:
    filled().save(tmp_path / "deep" / "report.json")
    (file,) = (tmp_path / "deep").iterdir()
    told = json.loads(file.read_text())
    assert (told["outcome"], told["complete"], told["states"]) == ("complete", True, 1)
    assert told["streams"]["orders"] == {
        "table": "orders_1",
        "received": 1234,
        "written": 1230,
        "quarantined": 4,
        "bytes": 5_000_001,
        "commits": 1,
        "seconds": 1.5,
        "zoneless": {"at": 5, "on": 1},
        "notes": ["odd"],
    }


def test_it_is_told_as_a_table_with_remarks() -> None:
    head, row, *notes = filled().lines()
    assert len(head) == len(row)
    assert row.split() == ["orders", "1,234", "1,230", "4", "5.0", "1", "1.5"]
    assert notes == [
        "orders: odd",
        "orders: column at: 5 date-times without a zone were read as UTC",
        "orders: column on: 1 date-times without a zone were read as UTC",
    ]


def test_progress_is_one_line() -> None:
    assert Report().progress() == "nothing received yet"
    assert filled().progress() == "orders: 1,234 received, 1,230 written, 4 quarantined"


def test_a_run_that_went_wrong_is_not_complete() -> None:
    report = Report()
    report.ended("Line 3 is not a message")
    assert report.as_dict()["complete"] is False
