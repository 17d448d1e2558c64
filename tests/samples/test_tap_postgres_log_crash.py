"""Killed loads of a PostgreSQL log: no change is missing and none is applied twice."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from tests.samples.log_crash import TABLES, LogCrash
from tests.samples.postgres_log import log_source

ROUNDS = 8


@pytest.mark.thorough
@pytest.mark.parametrize("hard", [False, True], ids=["marked", "removed"])
def test_killed_loads_end_with_the_rows_of_the_source(hard: bool, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    target = {"format": "delta", "small_batches": "delta-rs", "hard_delete": hard}
    with log_source(tmp_path) as source:
        crash = LogCrash(source, tmp_path, target, seed=1)
        with crash.writing():
            for _ in range(ROUNDS):
                crash.run_randomly(longest=6.0)
        for _ in range(2):  # the second confirms and reads nothing
            assert crash.run(None) == (0, 0), crash.get_logs()
        for table in TABLES:
            [folder] = (tmp_path / "tables").glob(f"*{table}")
            found = DeltaTable(folder).to_pyarrow_table().to_pylist()
            assert current(found) == crash.get_source_rows(table)
            assert not hard or len(found) == len(current(found))


def current(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return the rows that are not marked as deleted, by key, with the digests of large values."""
    rows = [row for row in found if row["_sdc_deleted_at"] is None]
    return sorted(
        (row["id"], row["v"], row["n"], hashlib.md5(row["big"].encode()).hexdigest())  # noqa: S324
        for row in rows
    )
