"""Ctrl-C on `target-spark`: the rows received so far are committed, and their states emitted.

The small batches are committed without Spark, by the same loader.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import deltalake
import pytest

from tests.target.cli.test_target_cli import (
    Running,
    read_report,
    record,
    run,
    running,
    schema,
    state,
)

pytestmark = pytest.mark.thorough

WITHOUT_SPARK: dict[str, Any] = {"format": "delta", "small_batches": "delta-rs"}


def read_ids(folder: Path) -> list[int]:
    table = deltalake.DeltaTable(folder / "tables" / "a").to_pyarrow_table()
    return sorted(table.column("id").to_pylist())


def interrupt(target: Running, folder: Path) -> None:
    """Interrupt a target that has received its first rows."""
    locks = folder / "tables" / "_target_spark"
    target.until(lambda: any(locks.glob("*.lease")))
    target.process.send_signal(signal.SIGINT)


@pytest.mark.parametrize("on_interrupt", ["commit", "stop"])
def test_first_control_c_commits_received_rows_unless_a_setting_prevents_it(
    tmp_path: Path, on_interrupt: str
) -> None:
    with running(tmp_path, on_interrupt=on_interrupt, **WITHOUT_SPARK) as target:
        target.send(schema(), record(1), state(1), record(2))
        interrupt(target, tmp_path)
        assert target.end() == 0, target.errors.decode()
        report = read_report(target.errors)
        assert report["outcome"] == "stopped by a signal"
        assert report["complete"] is False
    if on_interrupt == "commit":
        assert target.lines == [b"1\n"]
        assert read_ids(tmp_path) == [1, 2]
    else:
        assert target.lines == []
        assert not (tmp_path / "tables" / "a").exists()


def test_control_c_does_not_overwrite_a_table(tmp_path: Path) -> None:
    options: dict[str, Any] = {**WITHOUT_SPARK, "write_mode": "overwrite"}
    process = run(tmp_path, schema() + record(1) + record(2) + state({"x": 1}), **options)
    assert process.returncode == 0, process.stderr.decode()
    for lease in (tmp_path / "tables" / "_target_spark").glob("*.lease"):
        lease.unlink()
    with running(tmp_path, **options) as target:
        target.send(schema(), record(7), state({"x": 2}))
        interrupt(target, tmp_path)
        assert target.end() == 0, target.errors.decode()
        assert target.lines == []
        assert read_report(target.errors)["complete"] is False
    assert read_ids(tmp_path) == [1, 2]
