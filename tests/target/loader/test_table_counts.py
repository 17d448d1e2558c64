"""The row-count check finds missing rows, duplicate rows and unlisted files."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.target.loader.table_counts import checked_counts

REPORTED = {"table": "a", "received": 2, "written": 2, "quarantined": 0, "commits": 1}


def load(folder: Path, rows: int, *, listed: bool = True, code: int = 0, **reported: int) -> None:
    """Add rows to a table and report two of them, as a process of the target."""
    counts = {**REPORTED, "inserted": 2, "deleted": 0, **reported}
    with checked_counts(folder) as ended:
        table = folder / "a"
        table.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": range(rows)}), table / f"{len([*table.iterdir()])}.parquet")
        if listed:
            parts = [file.name for file in table.glob("*.parquet")]
            (table / "_manifest.json").write_text(json.dumps({"parts": parts}))
        ended.code = code
        ended.errors = f"REPORT: {json.dumps({'complete': not code, 'streams': {'a': counts}})}\n"


def test_matching_counts_pass(tmp_path: Path) -> None:
    for _ in range(2):
        load(tmp_path, 2)


@pytest.mark.parametrize("rows", [1, 3])
def test_missing_or_additional_rows_are_found(tmp_path: Path, rows: int) -> None:
    load(tmp_path, 2)
    with pytest.raises(AssertionError):
        load(tmp_path, rows)


def test_received_but_unwritten_rows_are_found(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        load(tmp_path, 2, received=3)


def test_files_missing_from_the_manifest_are_found(tmp_path: Path) -> None:
    load(tmp_path, 2)
    with pytest.raises(AssertionError):
        load(tmp_path, 2, listed=False)


def test_failed_load_is_not_checked(tmp_path: Path) -> None:
    load(tmp_path, 7, code=1)
