"""Snapshots of an Iceberg table in a catalog, read while another program commits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from target_spark.errors import ConflictError
from target_spark.tables.table import Table
from target_spark.writers.iceberg import snapshot_reader

FIRST, SECOND = (1, None, {"a": "1"}), (2, 1, {"a": "2"})


def current(snapshot: int) -> tuple[Any, ...]:
    return (snapshot, None, None)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[list[tuple[Any, ...]]]:
    """Return the list of results of the next queries, which the test fills."""
    table_ref = SimpleNamespace(ref="`c`.`db`.`t`")
    monkeypatch.setattr(snapshot_reader, "resolve_table", lambda *_: table_ref)
    monkeypatch.setattr(snapshot_reader, "catalog_table_exists", lambda *_: True)
    return []


def read(reads: list[list[tuple[Any, ...]]]) -> list[int]:
    results = iter(reads)
    spark: Any = SimpleNamespace(sql=lambda _: SimpleNamespace(collect=lambda: next(results)))
    table = Table("", "t", ("c", "db", "t"))
    return [snapshot.id for snapshot in snapshot_reader.snapshots(spark, table)]


def test_snapshots_are_read_again_after_a_commit_between_two_reads(
    reads: list[list[tuple[Any, ...]]],
) -> None:
    reads += [[FIRST, current(2)], [FIRST, SECOND, current(2)]]
    assert read(reads) == [2, 1]


def test_table_that_changes_faster_than_it_is_read_is_a_conflict(
    reads: list[list[tuple[Any, ...]]],
) -> None:
    reads += [[FIRST, current(2)]] * 50
    with pytest.raises(ConflictError, match="faster than it is read"):
        read(reads)
