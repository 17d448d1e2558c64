"""Killed loads of a PostgreSQL log: no change is missing and none is applied twice."""

from __future__ import annotations

import hashlib
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest

from target_spark.storage.uris import to_spark_uri
from tests.samples.log_crash import TABLES, LogCrash
from tests.samples.postgres_log import log_source

pytestmark = pytest.mark.thorough

COMPARED = ("_sdc_lsn", "v", "n", "big")
Rows = list[dict[str, Any]]


@pytest.mark.parametrize("hard", [False, True], ids=["marked", "removed"])
def test_killed_loads_end_with_the_rows_of_the_source(hard: bool, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    target = {"format": "delta", "small_batches": "delta-rs", "hard_delete": hard}
    for table, expected in load(tmp_path, target, rounds=6, longest=5.0).items():
        folder = tmp_path / "tables" / table
        table_rows = DeltaTable(folder).to_pyarrow_table().to_pylist()
        current_rows = [row for row in table_rows if row["_sdc_deleted_at"] is None]
        assert get_values(current_rows) == expected
        assert not hard or current_rows == table_rows


@pytest.mark.parametrize("format_", ["iceberg", "delta"])
@pytest.mark.parametrize("mode", ["upsert", "scd2"])
def test_killed_loads_through_spark_end_with_the_rows_of_the_source(
    format_: str, mode: str, tmp_path: Path, spark: Any
) -> None:
    target = {"format": format_, "write_mode": mode}
    for table, expected in load(tmp_path, target, rounds=3, longest=30.0).items():
        folder = to_spark_uri(str(tmp_path / "tables" / table))
        table_rows = [row.asDict() for row in spark.read.format(format_).load(folder).collect()]
        if mode == "scd2":
            check_history(table_rows)
        is_kept = "_sdc_is_current" if mode == "scd2" else "_sdc_deleted_at"
        current_rows = [row for row in table_rows if row[is_kept] in {True, None}]
        assert get_values(current_rows) == expected


def load(
    folder: Path, target: dict[str, Any], rounds: int, longest: float
) -> dict[str, list[tuple[Any, ...]]]:
    """Load with kills while the source changes, then to the end; return the source's rows.

    The keys of the result are the names of the loaded tables.
    """
    with log_source(folder) as source:
        crash = LogCrash(source, folder, target, seed=rounds)
        with crash.writing():
            for _ in range(rounds):
                crash.run_randomly(longest)
        for _ in range(2):  # the second run confirms the first one and reads nothing
            assert crash.run(None) == (0, 0), crash.get_logs()
        return {f"public-{table}": crash.get_source_rows(table) for table in TABLES}


def get_values(rows: Rows) -> list[tuple[Any, ...]]:
    """Return the values of rows by key, with the digests of large values."""
    return sorted(
        (row["id"], row["v"], row["n"], hashlib.md5(row["big"].encode()).hexdigest())  # noqa: S324
        for row in rows
    )


def check_history(rows: Rows) -> None:
    """Check that the versions of a key do not overlap, and that there are no duplicates.

    An update that changes no value is a version, too, because its position differs.
    """

    def start(row: dict[str, Any]) -> tuple[Any, ...]:
        return row["id"], row["_sdc_valid_from"]

    for _, versions in groupby(sorted(rows, key=start), key=lambda row: row["id"]):
        for before, after in pairwise(versions):
            assert not before["_sdc_is_current"]
            assert before["_sdc_valid_to"] <= after["_sdc_valid_from"]
            assert [before[name] for name in COMPARED] != [after[name] for name in COMPARED]
