"""Iceberg tables: batch, metadata and rows are one snapshot, also if the response is lost."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.functions import udf

from target_spark.columns import (
    Column,
    Integer,
    SchemaChange,
    TableSchema,
)
from target_spark.errors import CommitLostError, TableError
from target_spark.storage.commit_retry import FailureKind, classify_failure
from target_spark.tables.iceberg_metadata import (
    METADATA_PROPERTY,
    IcebergSnapshot,
    encode_metadata,
    parse_summary,
)
from target_spark.tables.table import CommitStats, Table, TableLayout
from target_spark.writers.base import VersionDelete
from target_spark.writers.iceberg.catalog import resolve_table
from target_spark.writers.iceberg.writer import IcebergWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.spark.session import Session


from tests.target.writers.iceberg_rows import content, line
from tests.target.writers.sample_rows import DELETING, KEYS, LAYOUT, batch, marker, rows

pytestmark = pytest.mark.spark


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Table:
    new_table = Table(str(tmp_path / "people"), "people")
    IcebergWriter().create(spark, new_table, LAYOUT, TableLayout())
    return new_table


# ------------------------------------------------------------------ commits and markers


def test_batch_and_metadata_are_one_snapshot(spark, table):
    writer = IcebergWriter()
    effect = writer.append(table, rows(spark, (1, "a", 1)), marker(1, '{"x": 1}'))

    (snapshot,) = line(spark, table)
    assert snapshot.marker == marker(1, '{"x": 1}')
    assert snapshot.summary["added-records"] == "1"
    assert writer.get_last_metadata(spark, table) == marker(1, '{"x": 1}')
    assert (effect.inserted, effect.updated, effect.deleted, effect.files) == (1, 0, 0, 1)
    assert effect.nbytes > 0


def test_merge_carries_metadata_and_returns_its_counts(spark, table):
    writer = IcebergWriter()
    writer.append(table, rows(spark, (1, "a", 1), (2, "b", 1)), marker(1))
    effect = writer.upsert(
        table, batch(spark, (1, "c", 2), (3, "d", 2), (4, "e", 2)), KEYS, marker(2, "{}")
    )

    assert line(spark, table)[0].marker == marker(2, "{}")
    assert content(spark, table) == [(1, "c", 2), (2, "b", 1), (3, "d", 2), (4, "e", 2)]
    assert (effect.inserted, effect.updated, effect.deleted) == (2, 1, 0)


def test_repeated_batch_is_recognized_and_not_written_again(spark, table):
    IcebergWriter().append(table, rows(spark, (1, "a", 1)), marker(1))

    retry = IcebergWriter()  # has no result of the first try, as after an exception
    effect = retry.append(table, rows(spark, (1, "a", 1)), marker(1))
    retry.upsert(table, batch(spark, (2, "b", 2)), KEYS, marker(2))
    IcebergWriter().upsert(table, batch(spark, (2, "b", 2)), KEYS, marker(2))
    IcebergWriter().commit_empty(spark, table, marker(2))

    assert effect.inserted == 1
    assert content(spark, table) == [(1, "a", 1), (2, "b", 2)]
    assert len(line(spark, table)) == 2


@pytest.mark.every_nth_case(2)
@pytest.mark.parametrize("method", ["append", "upsert", "replace", "commit_empty"])
def test_exception_after_the_commit_does_not_duplicate_the_batch(spark, table, method):
    """The commit is made, then its response is lost; the same call is repeated."""
    answers = iter([ConnectionError("lost"), None])

    class LostResponseWriter(IcebergWriter):
        def _verify(self, *args: Any) -> list[IcebergSnapshot]:
            snapshots = super()._verify(*args)
            error = next(answers, None)
            if error is not None:
                raise error
            return snapshots

    IcebergWriter().append(table, rows(spark, (1, "a", 1)), marker(1))
    writer = LostResponseWriter()
    arguments = {
        "append": [table, rows(spark, (2, "b", 2))],
        "replace": [table, rows(spark, (2, "b", 2))],
        "upsert": [table, batch(spark, (2, "b", 2)), KEYS],
        "commit_empty": [spark, table],
    }[method]
    with pytest.raises(ConnectionError):
        getattr(writer, method)(*arguments, marker(2))
    before = len(line(spark, table))
    getattr(writer, method)(*arguments, marker(2))
    assert len(line(spark, table)) == before == 2
    after = {"replace": [(2, "b", 2)], "commit_empty": [(1, "a", 1)]}
    assert content(spark, table) == after.get(method, [(1, "a", 1), (2, "b", 2)])


@pytest.mark.every_nth_case(2)
@pytest.mark.parametrize(
    "method", ["append", "replace", "upsert", "commit_empty", "delete_versions"]
)
def test_batch_number_that_does_not_increase_is_an_error(spark, table, method):
    writer = IcebergWriter()
    writer.append(table, rows(spark, (1, "a", 1)), marker(1))
    writer.append(table, rows(spark, (2, "b", 2)), marker(2))

    for iceberg_writer, number in ((writer, 2), (writer, 1), (IcebergWriter(), 1)):
        arguments = {
            "append": [table, rows(spark, (3, "c", 3))],
            "replace": [table, rows(spark, (3, "c", 3))],
            "upsert": [table, batch(spark, (3, "c", 3)), KEYS],
            "commit_empty": [spark, table],
            "delete_versions": [spark, table, VersionDelete(1, None, datetime.now(timezone.utc))],
        }[method]
        with pytest.raises(CommitLostError, match="Batch"):
            getattr(iceberg_writer, method)(*arguments, marker(number))
    assert content(spark, table) == [(1, "a", 1), (2, "b", 2)]


def test_commit_with_other_metadata_is_an_error(spark, table):
    """A user's setting for all commits replaces the metadata."""

    class OtherMetadataWriter(IcebergWriter):
        def _commit(self, spark, table, commit, write, **options):
            def forgetting(ref: str, _: str) -> None:
                write(ref, "{}")

            return super()._commit(spark, table, commit, forgetting, **options)

    with pytest.raises(CommitLostError, match="was written without an error"):
        OtherMetadataWriter().append(table, rows(spark, (2, "b", 2)), marker(1))


def test_new_run_numbers_its_batches_from_one(spark, table):
    IcebergWriter().append(table, rows(spark, (1, "a", 1)), marker(5))
    second = marker(1, run="r2", started=2)
    IcebergWriter().append(table, rows(spark, (2, "b", 2)), second)
    assert content(spark, table) == [(1, "a", 1), (2, "b", 2)]


def test_commit_without_a_state_repeats_the_earlier_state(spark, table):
    IcebergWriter().append(table, rows(spark, (1, "a", 1)), marker(3, '{"s": 1}'))
    second = marker(1, run="r2", started=2)
    IcebergWriter().append(table, rows(spark, (2, "b", 2)), second)
    assert IcebergWriter().get_last_metadata(spark, table) == replace(
        marker(3, '{"s": 1}'), run="r2", batch=1, uncovered_since=2
    )


def test_replace_is_one_snapshot_with_its_metadata(spark, table):
    writer = IcebergWriter()
    writer.append(table, rows(spark, (1, "a", 1), (3, "c", 3)), marker(1))
    effect = writer.replace(table, rows(spark, (2, "b", 2)), marker(2, "{}"))
    assert len(line(spark, table)) == 2
    assert IcebergWriter().get_last_metadata(spark, table) == marker(2, "{}")
    assert content(spark, table) == [(2, "b", 2)]
    assert (effect.inserted, effect.updated, effect.deleted) == (1, 0, 2)


def test_failed_replace_leaves_the_old_rows(spark, table):
    writer = IcebergWriter()
    writer.append(table, rows(spark, (1, "a", 1)), marker(1))
    broken = spark.sql("SELECT 2L AS id, CAST(raise_error('boom') AS STRING) AS name, 1L AS n")
    with pytest.raises(Exception, match="boom"):
        writer.replace(table, broken, marker(2))
    assert content(spark, table) == [(1, "a", 1)]
    assert IcebergWriter().get_last_metadata(spark, table) == marker(1)


def test_merge_leaves_no_settings_in_the_session(spark, table):
    writer = IcebergWriter()
    writer.append(table, rows(spark, (1, "a", 1)), marker(1))
    writer.upsert(table, batch(spark, (1, "b", 2)), KEYS, marker(2))
    broken = spark.sql(
        "SELECT 1L AS id, CAST(raise_error('boom') AS STRING) AS name, 1L AS n, 1L AS at"
    )
    with pytest.raises(Exception, match="boom"):
        writer.upsert(table, broken, KEYS, marker(3))
    assert spark.catalog.listTables() == []
    rows(spark, (5, "e", 5)).writeTo(resolve_table(spark, table).ref).append()
    assert line(spark, table)[0].marker is None


# ---------------------------------------------------------------------------- snapshots


def test_metadata_is_found_below_foreign_snapshots(spark, table):
    IcebergWriter().append(table, rows(spark, (1, "a", 1)), marker(1, "{}"))
    ref = resolve_table(spark, table).ref
    for text in ("not json", "[1]", '{"target_spark": {"job": 1}}'):
        write = rows(spark, (9, "z", 9)).writeTo(ref)
        write.option("snapshot-property.target-spark", text).append()
    spark.sql(f"DELETE FROM {ref} WHERE id = 9")  # noqa: S608

    writer = IcebergWriter()
    assert writer.get_last_metadata(spark, table) == marker(1, "{}")
    writer.append(table, rows(spark, (2, "b", 2)), marker(2))
    assert IcebergWriter().get_last_metadata(spark, table) == replace(marker(1, "{}"), batch=2)


@pytest.mark.parametrize("expires", [False, True])
def test_rolled_back_snapshots_are_ignored(spark, table, expires):
    """A rollback during a run is an error, also in a table whose first snapshots have expired."""
    table_ref = resolve_table(spark, table)
    if expires:
        rows(spark, (0, "a", 1)).where("false").writeTo(table_ref.ref).append()
    writer = IcebergWriter()
    for number in (1, 2):
        writer.append(table, rows(spark, (number, "a", 1)), marker(number, f"[{number}]"))
        if expires and number == 1:
            all_but_the_last = "older_than => TIMESTAMP '2100-01-01', retain_last => 1"
            of_table = f"table => '{table_ref.ref}'"
            spark.sql(
                f"CALL {table_ref.procedures}.expire_snapshots({of_table}, {all_but_the_last})"
            )
    first = line(spark, table)[-1]
    assert (first.parent is not None) == expires
    call = f"{table_ref.procedures}.rollback_to_snapshot('{table_ref.ref}', {first.id})"
    spark.sql(f"CALL {call}")
    assert IcebergWriter().get_last_metadata(spark, table) == marker(1, "[1]")
    assert content(spark, table) == [(1, "a", 1)]
    # The run has counted rows as committed that are no longer in the table.
    with pytest.raises(TableError, match="removed while it was loaded"):
        writer.append(table, rows(spark, (3, "c", 1)), marker(3))


def test_snapshots_are_the_same_from_files_and_from_spark(spark, table, tmp_path, monkeypatch):
    writer = IcebergWriter()
    for number in range(1, 4):
        writer.commit_empty(spark, table, marker(number, f"[{number}]"))
    by_files = line(spark, table)
    monkeypatch.setattr(Table, "local_folder", None)
    by_spark = line(spark, table)
    assert [(snapshot.id, snapshot.parent) for snapshot in by_spark] == [
        (snapshot.id, snapshot.parent) for snapshot in by_files
    ]
    for by_query, by_file in zip(by_spark, by_files, strict=True):
        assert {"operation": "append", **by_query.summary} == by_file.summary
    assert [snapshot.marker for snapshot in by_files] == [marker(n, f"[{n}]") for n in (3, 2, 1)]
    assert line(spark, table.with_suffix("_none")) == []
    assert IcebergWriter().get_column_types(spark, table.with_suffix("_none")) is None


def test_metadata_files_are_read_by_the_iceberg_specification(tmp_path):
    folder = tmp_path / "t" / "metadata"
    folder.mkdir(parents=True)
    table = Table(str(tmp_path / "t"), "t")
    assert line(None, table) == []
    (folder / "v1.metadata.json").write_text('{"current-snapshot-id": -1}')
    (folder / "version-hint.text").write_text("1")
    assert line(None, table) == []
    known = [
        {"snapshot-id": 5, "summary": {"operation": "append", "target-spark": marker(1).to_json()}},
        {"snapshot-id": 6, "parent-snapshot-id": 5},
        {"snapshot-id": 7, "parent-snapshot-id": 4},
        {"snapshot-id": 8, "parent-snapshot-id": 6, "summary": {}},
    ]
    document = {"current-snapshot-id": 8, "snapshots": known, "more": 1}
    packed = gzip.compress(json.dumps(document).encode())
    (folder / "v10.gz.metadata.json").write_bytes(packed)
    (folder / "v9.metadata.json").write_text("{}")
    assert [snapshot.id for snapshot in line(None, table)] == [8, 6, 5]
    assert IcebergWriter().get_last_metadata(None, table) == marker(1)


def test_long_metadata_is_compressed_and_foreign_metadata_ignored():
    short, long = marker(1, "{}"), marker(2, json.dumps([f"é😀{n}" for n in range(2000)]))
    assert encode_metadata(short) == short.to_json()
    assert len(encode_metadata(long)) < len(long.to_json()) / 2
    for known in (short, long):
        assert IcebergSnapshot(1, None, {METADATA_PROPERTY: encode_metadata(known)}).marker == known
    for foreign in (
        {},
        {METADATA_PROPERTY: "zlib:?"},
        {METADATA_PROPERTY: "zlib:aaaa"},
        {METADATA_PROPERTY: "x"},
    ):
        assert IcebergSnapshot(1, None, foreign).marker is None


def test_commit_statistics_are_read_from_the_snapshot_summary():
    summary = {"added-records": "9", "deleted-records": "5", "added-data-files": "2"}
    assert parse_summary(IcebergSnapshot(1, None, summary), merged=False) == CommitStats(
        9, 0, 5, 2, 0
    )
    assert parse_summary(IcebergSnapshot(1, None, summary), merged=True) == CommitStats(
        4, 0, 0, 2, 0
    )
    of_merge = {f"spark.merge-into.num-target-rows-{kind}": "3" for kind in ("inserted", "updated")}
    of_merge["spark.merge-into.num-target-rows-deleted"] = "-1"
    stats = parse_summary(IcebergSnapshot(1, None, {**summary, **of_merge}), merged=True)
    assert stats == CommitStats(3, 3, 0, 2, 0)


# ---------------------------------------------------------------------------- upserting


def test_first_rows_of_an_empty_table_are_appended(spark, table):
    writer = IcebergWriter()
    data = batch(spark, (1, "old", 1), (1, "new", 3), (2, "x", 2))
    writer.upsert(table, data, KEYS, marker(1))
    assert line(spark, table)[0].summary["added-records"] == "2"
    assert not any(key.startswith("spark.merge") for key in line(spark, table)[0].summary)
    writer.upsert(table, batch(spark, (2, "y", 4), (3, "z", 5)), KEYS, marker(2))
    assert any(key.startswith("spark.merge") for key in line(spark, table)[0].summary)
    assert content(spark, table) == [(1, "new", 3), (2, "y", 4), (3, "z", 5)]


def test_upsert_keeps_columns_absent_from_the_batch(spark, table):
    writer = IcebergWriter()
    writer.append(table, rows(spark, (1, "a", 1)), marker(1))
    writer.alter(spark, table, [SchemaChange("add", ("extra",), "string", comment="it's more")])
    spark.sql(f"UPDATE {resolve_table(spark, table).ref} SET extra = 'kept'")  # noqa: S608
    writer.upsert(table, batch(spark, (1, "b", 2), (2, "c", 3)), KEYS, marker(2))
    assert content(spark, table) == [(1, "b", 2, "kept"), (2, "c", 3, None)]
    assert writer.rows(spark, table).schema["extra"].metadata == {"comment": "it's more"}


VERSIONED = TableSchema((*LAYOUT.columns, *DELETING.columns[2:]))


@pytest.mark.every_nth_case(2)
@pytest.mark.parametrize("soft", [False, True])
def test_old_versions_are_deleted_in_one_snapshot_with_its_metadata(spark, tmp_path, soft):
    table = Table(str(tmp_path / "t"), "t")
    columns = (*VERSIONED.columns, Column("v", "_sdc_table_version", Integer()))
    writer = IcebergWriter()
    writer.create(spark, table, TableSchema(columns), TableLayout())
    values = "(1L, 5L), (2L, 4L), (3L, NULL)"
    data = spark.sql(
        "SELECT id, 'a' AS name, 1L AS n, CAST(NULL AS TIMESTAMP) AS _sdc_deleted_at,"  # noqa: S608
        f" v AS _sdc_table_version FROM VALUES {values} AS t(id, v)"
    )
    writer.append(table, data, marker(1))
    deleted_at = datetime(2024, 5, 1, tzinfo=timezone.utc)
    version_delete = VersionDelete(5, "_sdc_deleted_at" if soft else None, deleted_at)
    effect = writer.delete_versions(spark, table, version_delete, marker(2, "[2]"))
    assert IcebergWriter().get_last_metadata(spark, table) == marker(2, "[2]")
    assert len(line(spark, table)) == 2
    undeleted = writer.rows(spark, table).where("_sdc_deleted_at IS NULL")
    assert [row.id for row in undeleted.collect()] == [1]
    assert writer.rows(spark, table).count() == (3 if soft else 1)
    assert (effect.updated, effect.deleted) == ((2, 0) if soft else (0, 2))
    # Iceberg drops whole files without our metadata; a delete without rows is a commit too.
    effect = writer.delete_versions(spark, table, version_delete, marker(3, "[3]"))
    assert (effect.updated, effect.deleted) == (0, 0)
    writer.delete_versions(spark, table, replace(version_delete, version=6), marker(4, "[4]"))
    assert IcebergWriter().get_last_metadata(spark, table) == marker(4, "[4]")


# ------------------------------------------------------------------------- other writers


def run_concurrently(*steps: Callable[[], None]) -> list[BaseException]:
    errors: list[BaseException] = []
    barrier = threading.Barrier(len(steps))

    def run(step: Callable[[], None]) -> None:
        try:
            barrier.wait(60)
            step()
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=run, args=(step,)) for step in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def test_concurrent_appends_are_both_kept(spark_session, spark, table):
    ref = resolve_table(spark, table).ref

    def ours() -> None:
        session = spark_session.thread_session()
        writer = IcebergWriter()
        for number in range(1, 5):
            writer.append(table, rows(session, (number, "ours", 1)), marker(number))

    def theirs() -> None:
        session = spark_session.thread_session()
        resolve_table(session, table)
        for number in range(4):
            rows(session, (number, "theirs", 1)).writeTo(ref).append()

    assert run_concurrently(ours, theirs) == []
    assert len(content(spark, table)) == 8
    assert IcebergWriter().get_last_metadata(spark, table) == marker(4)


def test_merge_with_a_concurrent_update_conflicts_and_succeeds_on_retry(spark, table, tmp_path):
    """A conflict that Iceberg cannot retry itself is classified as a conflict, which is retried."""
    writer = IcebergWriter()
    writer.append(table, rows(spark, (1, "a", 1)), marker(1))
    ref = resolve_table(spark, table).ref
    other = spark.newSession()
    resolve_table(other, table)
    reads, changed = tmp_path / "reads", tmp_path / "changed"

    def wait(name):
        """Wait for the other writer's update while the MERGE reads its source."""
        reads.touch()
        while not changed.exists():
            time.sleep(0.05)
        return name

    slow = batch(spark, (1, "b", 2)).withColumn("name", udf(wait, "string", useArrow=False)("name"))
    failures: list[BaseException] = []

    def merge() -> None:
        try:
            writer.upsert(table, slow, KEYS, marker(2))
        except Exception as error:  # noqa: BLE001
            failures.append(error)
            writer.upsert(table, batch(spark, (1, "b", 2)), KEYS, marker(2))

    def change() -> None:
        while not reads.exists():
            time.sleep(0.05)
        other.sql(f"UPDATE {ref} SET n = 77")  # noqa: S608
        changed.touch()

    assert run_concurrently(merge, change) == []
    assert [classify_failure(error) for error in failures] == [FailureKind.CONFLICT]
    assert content(spark, table) == [(1, "b", 2)]
    assert IcebergWriter().get_last_metadata(spark, table) == marker(2)


@pytest.mark.thorough
def test_concurrent_merges_carry_only_their_own_metadata(spark_session: Session, tmp_path: Path):
    """The threads of a session share its settings, so each thread has its own session."""
    count, rounds = 4, 2
    tables = [Table(str(tmp_path / f"t{i}"), f"t{i}") for i in range(count)]

    def load(i: int) -> None:
        spark = spark_session.thread_session()
        writer = IcebergWriter()
        writer.create(spark, tables[i], LAYOUT, TableLayout())
        first, *later = (
            replace(marker(number, f'"{i}-{number}"'), job=f"job{i}")
            for number in range(1, 2 + rounds)
        )
        writer.append(tables[i], rows(spark, (i, "a", 1)), first)
        for metadata in later:
            writer.upsert(tables[i], batch(spark, (i, "b", metadata.batch)), KEYS, metadata)

    assert run_concurrently(*(lambda i=i: load(i) for i in range(count))) == []
    spark = spark_session.spark()
    for i, table in enumerate(tables):
        states = [snapshot.marker.state for snapshot in line(spark, table)]
        assert states == [f'"{i}-{number}"' for number in range(1 + rounds, 0, -1)]
        assert content(spark, table) == [(i, "b", 1 + rounds)]
