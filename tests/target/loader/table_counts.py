"""The rows of tables in a local folder, counted without the code that wrote them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["EndedRun", "check_counts", "checked_counts", "count_rows"]

_REPORT: Final = "REPORT: "


def count_rows(folder: Path) -> dict[str, int]:
    """Return the number of rows of each table in a folder; hidden tables are left out."""
    tables = folder.iterdir() if folder.is_dir() else ()
    return {
        table.name: _count(table)
        for table in tables
        if table.is_dir() and not table.name.startswith((".", "_"))
    }


def check_counts(report: dict[str, Any], before: dict[str, int], folder: Path) -> None:
    """Check the report of a complete load against the rows of its tables.

    Raises:
        AssertionError: rows are missing or duplicated.
    """
    now = count_rows(folder)
    for stream, counts in report["streams"].items():
        assert counts["received"] == counts["written"] + counts["quarantined"], (stream, counts)
        name = Path(counts["table"]).name
        if counts["commits"] and name in now:
            if (folder / name / "_manifest.json").exists():
                assert sorted(_listed_files(folder / name)) == sorted(_parquet_files(folder / name))
            added = now[name] - before.get(name, 0)
            is_counted = added == counts["inserted"] - counts["deleted"]
            was_replaced = now[name] == counts["inserted"]
            assert is_counted or was_replaced, (stream, counts, before, now)


@dataclass
class EndedRun:
    """The exit code and the standard error of a process of target-spark."""

    code: int | None = None
    errors: str = field(default="", repr=False)


@contextmanager
def checked_counts(folder: Path) -> Iterator[EndedRun]:
    """Check the report of a process against the tables of a folder, if its load is complete.

    The caller fills in how the process ended. A load that failed, was stopped by a signal or
    wrote no tables (a dry run, another command) is not checked.

    Raises:
        AssertionError: as `check_counts`; or a process with exit code 0 has two reports.
    """
    before = count_rows(folder)
    run = EndedRun()
    yield run
    lines = [line for line in run.errors.splitlines() if line.startswith(_REPORT)]
    if run.code == 0 and lines:
        (line,) = lines
        report = json.loads(line.removeprefix(_REPORT))
        if report["complete"] and not report.get("dry_run"):
            check_counts(report, before, folder)


def _count(table: Path) -> int:
    if (table / "_delta_log").is_dir():
        return _count_delta(table)
    if (table / "metadata").is_dir():
        return _count_iceberg(table)
    return sum(pq.ParquetFile(file).metadata.num_rows for file in _parquet_files(table))


def _count_delta(table: Path) -> int:
    from deltalake import DeltaTable, QueryBuilder

    if next(table.glob("_delta_log/*.json"), None) is None:
        return 0
    delta = DeltaTable(table)
    if "deletionVectors" in (delta.protocol().reader_features or ()):
        counts = QueryBuilder().register("t", delta).execute("SELECT count(*) AS n FROM t")
        return int(pa.table(counts)["n"][0].as_py())
    paths = pa.table(delta.get_add_actions(flatten=True))["path"].to_pylist()
    return sum(pq.ParquetFile(table / unquote(path)).metadata.num_rows for path in paths)


def _parquet_files(table: Path) -> list[Path]:
    """Return the committed files of a table."""
    manifest = table / "_manifest.json"
    if manifest.exists():
        return [table / name for name in json.loads(manifest.read_text())["parts"]]
    return _listed_files(table)


def _listed_files(table: Path) -> list[Path]:
    """Return the files that a reader finds by listing the folder."""
    return [
        file
        for file in table.rglob("*.parquet")
        if not any(part.startswith((".", "_")) for part in file.relative_to(table).parts)
    ]


def _count_iceberg(table: Path) -> int:
    newest = max(
        (table / "metadata").glob("v*.metadata.json"),
        key=lambda path: int(path.name[1:].split(".")[0]),
        default=None,
    )
    if newest is None:
        return 0
    metadata = json.loads(newest.read_text())
    current = metadata.get("current-snapshot-id")
    summaries = {
        snapshot["snapshot-id"]: snapshot["summary"] for snapshot in metadata.get("snapshots", ())
    }
    return int(summaries[current]["total-records"]) if current in summaries else 0
