"""The rows of tables in a local folder, counted without the code that wrote them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

__all__ = ["check_counts", "count_rows"]


def count_rows(folder: Path) -> dict[str, int]:
    """Return the rows of each table in a folder; names of hidden ones are left out."""
    tables = folder.iterdir() if folder.is_dir() else ()
    return {
        table.name: _count(table)
        for table in tables
        if table.is_dir() and not table.name.startswith((".", "_"))
    }


def check_counts(report: dict[str, Any], before: dict[str, int], folder: Path) -> None:
    """Hold what a load that ended well says of its rows against what its tables have.

    Raises:
        AssertionError: rows are missing, or are there twice.
    """
    now = count_rows(folder)
    for stream, told in report["streams"].items():
        assert told["received"] == told["written"] + told["quarantined"], (stream, told)
        name = Path(told["table"]).name
        if told["commits"] and name in now:
            more = now[name] - before.get(name, 0)
            is_told = more == told["inserted"] - told["deleted"]
            was_replaced = now[name] == told["inserted"]
            assert is_told or was_replaced, (stream, told, before, now)


def _count(table: Path) -> int:
    if (table / "_delta_log").is_dir():
        from deltalake import DeltaTable

        if next(table.glob("_delta_log/*.json"), None) is None:
            return 0
        return int(DeltaTable(table).to_pyarrow_dataset().count_rows())
    if (table / "metadata").is_dir():
        return _count_iceberg(table)
    files = table.rglob("*.parquet")
    return sum(
        pq.ParquetFile(file).metadata.num_rows
        for file in files
        if not any(part.startswith((".", "_")) for part in file.relative_to(table).parts)
    )


def _count_iceberg(table: Path) -> int:
    newest = max(
        (table / "metadata").glob("v*.metadata.json"),
        key=lambda path: int(path.name[1:].split(".")[0]),
    )
    metadata = json.loads(newest.read_text())
    current = metadata.get("current-snapshot-id")
    summaries = {each["snapshot-id"]: each["summary"] for each in metadata.get("snapshots", ())}
    return int(summaries[current]["total-records"]) if current in summaries else 0
