"""Commits to Iceberg tables on a file system whose renames fail before or after their effect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from target_spark.errors import CommitLostError, StorageError
from target_spark.storage import commit_retry
from target_spark.storage.commit_retry import FailureKind, classify_failure, retry_transient
from target_spark.tables.table import CommitStats, Table, TableLayout
from target_spark.writers.iceberg.catalog import resolve_table
from target_spark.writers.iceberg.writer import IcebergWriter
from tests.server_thread import serve_in_thread
from tests.target.storage.webhdfs import FileSystem
from tests.target.writers.iceberg_rows import content, line
from tests.target.writers.sample_rows import KEYS, LAYOUT, batch, marker, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

STEPS: dict[str, Callable[[IcebergWriter, SparkSession, Table], CommitStats]] = {
    "append": lambda w, s, t: w.append(t, rows(s, (2, "b", 2)), marker(2)),
    "upsert": lambda w, s, t: w.upsert(t, batch(s, (2, "b", 2)), KEYS, marker(2)),
}


@pytest.fixture
def hdfs(tmp_path: Path) -> Iterator[FileSystem]:
    with serve_in_thread(FileSystem(tmp_path)) as server:
        yield server


@pytest.fixture(autouse=True)
def short_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the pauses before retries."""
    for fault, pauses in commit_retry.BACKOFF_SECONDS.items():
        monkeypatch.setitem(commit_retry.BACKOFF_SECONDS, fault, tuple(0.01 for _ in pauses))


@pytest.mark.parametrize("step", list(STEPS))
@pytest.mark.parametrize("before", ["no rows", "rows"])
@pytest.mark.parametrize("faults", [["after"], ["after", "after"], ["before"] * 4 + ["after"]])
def test_batch_whose_commit_rename_fails_is_stored_once(
    spark: SparkSession, hdfs: FileSystem, step: str, before: str, faults: list[str]
) -> None:
    """Iceberg tries a commit five times, and removes the files of a failed one."""
    table, writer = Table(f"{hdfs.address}/tables/people", "people"), IcebergWriter()
    writer.create(spark, table, LAYOUT, TableLayout())
    if before == "rows":
        writer.append(table, rows(spark, (1, "a", 1)), marker(1))
    hdfs.faults = list(faults)
    effect = retry_transient(lambda: STEPS[step](writer, spark, table), "people")
    assert (effect.inserted, effect.updated, effect.deleted) == (1, 0, 0)
    hdfs.faults.clear()  # an append that was already written is not renamed again
    writer.append(table, rows(spark, (3, "c", 3)), marker(3))
    expected = [(1, "a", 1)] if before == "rows" else []
    assert content(spark, table) == [*expected, (2, "b", 2), (3, "c", 3)]
    assert [commit.marker for commit in line(spark, table)].count(marker(2)) == 1


def test_table_is_readable_after_a_run_whose_renames_all_fail_after_their_effect(
    spark: SparkSession, hdfs: FileSystem
) -> None:
    table, writer = Table(f"{hdfs.address}/tables/people", "people"), IcebergWriter()
    writer.create(spark, table, LAYOUT, TableLayout())
    writer.append(table, rows(spark, (1, "a", 1)), marker(1))
    hdfs.faults = ["after"] * 1000
    with pytest.raises(StorageError, match=r"Tried 5 times.*Start again when"):
        retry_transient(lambda: STEPS["upsert"](writer, spark, table), "people")
    hdfs.faults.clear()
    assert content(spark, table) == [(1, "a", 1)]
    STEPS["upsert"](IcebergWriter(), spark, table)
    assert content(spark, table) == [(1, "a", 1), (2, "b", 2)]


def test_commit_without_its_files_below_a_newer_commit_is_an_error(
    spark: SparkSession, hdfs: FileSystem
) -> None:
    table, writer = Table(f"{hdfs.address}/tables/people", "people"), IcebergWriter()
    writer.create(spark, table, LAYOUT, TableLayout())
    writer.append(table, rows(spark, (1, "a", 1)), marker(1))
    before = set(hdfs.root.rglob("*.parquet"))
    hdfs.faults, hdfs.deletes = ["after"], False
    with pytest.raises(Exception, match="conflicting files") as failed:
        STEPS["upsert"](writer, spark, table)
    assert classify_failure(failed.value) is FailureKind.CONFLICT
    rows(spark, (7, "theirs", 0)).writeTo(resolve_table(spark, table).ref).append()
    (ours,) = set(hdfs.root.rglob("*.parquet")) - before - {find_newest(hdfs.root)}
    ours.unlink()
    files = sorted(hdfs.root.rglob("*"))
    with pytest.raises(CommitLostError, match="Others have committed since"):
        STEPS["upsert"](writer, spark, table)
    assert sorted(hdfs.root.rglob("*")) == files


def find_newest(folder: Path) -> Path:
    return max(folder.rglob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
