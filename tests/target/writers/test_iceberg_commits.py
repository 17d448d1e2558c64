"""Commits to Iceberg tables that other writers write, replace and remove, and their checks."""

from __future__ import annotations

import errno
import os
import re
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812

from target_spark.columns import Boolean, Column, SchemaChange, TableSchema, Timestamp
from target_spark.errors import CommitLostError, RowCountError, TableError
from target_spark.storage.commit_retry import FailureKind, classify_failure
from target_spark.tables.commit_metadata import NO_METADATA
from target_spark.tables.iceberg_metadata import IcebergSnapshot, encode_metadata
from target_spark.tables.table import (
    CommitStats,
    MaintenanceOptions,
    PartitionField,
    Table,
    TableLayout,
)
from target_spark.writers import MergeKeys
from target_spark.writers.iceberg import snapshot_reader
from target_spark.writers.iceberg import writer as iceberg
from target_spark.writers.iceberg.catalog import IcebergTableRef, resolve_table
from target_spark.writers.iceberg.writer import IcebergWriter
from tests.target.writers.iceberg_rows import content, line
from tests.target.writers.sample_rows import KEYS, LAYOUT, batch, marker, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(params=["folder", "catalog"])
def table(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Table:
    """Return a table that does not exist yet, in a folder or in a user's catalog."""
    if request.param == "folder":
        return Table(str(tmp_path / "db" / "people"), "people")
    key = "spark.sql.catalog.lake"
    spark.conf.set(key, "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set(f"{key}.type", "hadoop")
    spark.conf.set(f"{key}.warehouse", str(tmp_path))
    return Table("", "people", ("lake", "db", "people"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of the table's files."""
    return tmp_path / "db" / "people"


def create_writer(
    spark: SparkSession, table: Table, layout: TableLayout | None = None
) -> IcebergWriter:
    writer = IcebergWriter()
    writer.create(spark, table, LAYOUT, layout or TableLayout())
    return writer


def append_as_other_tool(spark: SparkSession, table: Table, *ids: int) -> None:
    """Append rows, or an empty snapshot, as another tool does."""
    frame = rows(spark, *((id_, "theirs", 0) for id_ in ids or (0,)))
    frame.where(f"{bool(ids)}").writeTo(resolve_table(spark, table).ref).append()


def test_first_rows_with_keys_are_merged_with_concurrently_added_rows(
    spark: SparkSession, table: Table
) -> None:
    """A key in both batches is in the table once."""
    writer = create_writer(spark, table)
    assert writer.is_empty(spark, table)
    append_as_other_tool(spark, table, 1, 3)
    data = batch(spark, (1, "ours", 1), (2, "ours", 1))
    with pytest.raises(Exception, match="conflicting files") as failed:
        writer.upsert(table, data, KEYS, marker(1))
    assert classify_failure(failed.value) is FailureKind.CONFLICT
    writer.upsert(table, data, KEYS, marker(1))
    assert content(spark, table) == [(1, "ours", 1), (2, "ours", 1), (3, "theirs", 0)]


@pytest.mark.parametrize("meanwhile", [False, True])
def test_commit_after_one_of_another_run_of_the_job_is_an_error(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: bool
) -> None:
    """With ``meanwhile`` the other run commits when this one has already read the table."""
    table = Table(str(tmp_path / "people"), "people")
    writer, ours = create_writer(spark, table), replace(marker(1), earlier=NO_METADATA)
    write = iceberg._append_nothing

    def commit_theirs() -> None:
        IcebergWriter().commit_empty(spark, table, marker(1, run="r2"))

    def write_after_theirs(*arguments: Any) -> None:
        monkeypatch.setattr(iceberg, "_append_nothing", write)
        commit_theirs()
        write(*arguments)

    if meanwhile:
        monkeypatch.setattr(iceberg, "_append_nothing", write_after_theirs)
    else:
        commit_theirs()
    with pytest.raises(TableError, match=r"was none, and is now commit 1 of run r2\. Another run"):
        writer.commit_empty(spark, table, ours)
    assert len(line(spark, table)) == 1 + meanwhile


def test_metadata_of_expired_snapshots_are_those_that_the_run_has_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a rollback to the first snapshot there are none."""
    unused: Any = None
    table, writer = Table("db.t", "t"), IcebergWriter()
    newest_first = [IcebergSnapshot(3, 2, {})]
    monkeypatch.setattr(iceberg, "snapshots", lambda *_: newest_first)
    for _ in range(2):  # a retry reads them again
        assert writer.get_last_metadata(unused, table, marker(1, "[1]")) == marker(1, "[1]")
    assert writer.get_last_metadata(unused, table) == marker(1, "[1]")
    newest_first[:] = [IcebergSnapshot(1, None, {})]
    assert writer.get_last_metadata(unused, table) is None


def test_maintenance_repeats_the_metadata_of_expired_snapshots(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without them, the next run would find no state in the table."""
    unused: Any = None
    table, writer, added = Table("", "t", ("c", "db", "t")), IcebergWriter(), []
    monkeypatch.setattr(iceberg, "snapshots", lambda *_: iter([IcebergSnapshot(3, 2, {})]))
    monkeypatch.setattr(iceberg, "get_table_uuid", lambda *_: "1")
    monkeypatch.setattr(iceberg, "resolve_table", lambda *_: IcebergTableRef("c", ("db",), "t"))
    monkeypatch.setattr(iceberg, "_append_nothing", lambda *arguments: added.append(arguments[-1]))
    writer.get_last_metadata(unused, table, marker(1, "[1]"))
    writer.maintain(unused, table, MaintenanceOptions())
    assert added == [encode_metadata(marker(1, "[1]"))]


@pytest.mark.parametrize("has_parent", [True, False])
def test_missing_manifest_list_is_an_error_that_says_how_to_roll_back(
    spark: SparkSession, table: Table, folder: Path, has_parent: bool
) -> None:
    """The later commit of another run cannot repair the table."""
    writer, commit = create_writer(spark, table), marker(1, run="r2", started=2)
    for number in range(1, 2 + has_parent):
        writer.append(table, rows(spark, (number, "a", 1)), marker(number))
    newest = line(spark, table)[0]
    next(folder.rglob(f"snap-{newest.id}-*.avro")).unlink()
    remedy = f"rollback_to_snapshot('db.people', {newest.parent})" if has_parent else "no parent"
    writer, name = IcebergWriter(), resolve_table(spark, table)
    spark.sql(f"ALTER TABLE {name.ref} ADD COLUMN _sdc_is_current BOOLEAN")
    for write in (
        lambda: writer.append(table, rows(spark, (3, "c", 1)), commit),
        lambda: writer.upsert(table, batch(spark, (3, "c", 1)), KEYS, commit),
        lambda: writer.history(table, batch(spark, (3, "c", 1)), KEYS, commit),
    ):
        with pytest.raises(CommitLostError, match=rf"snapshot {newest.id}.*{re.escape(remedy)}"):
            write()
    if has_parent:
        spark.sql(f"CALL {name.procedures}.{remedy}")
        IcebergWriter().upsert(table, batch(spark, (3, "c", 1)), KEYS, commit)
        assert content(spark, table) == [(1, "a", 1, None), (3, "c", 1, None)]


@pytest.mark.every_nth_case(4)
@pytest.mark.parametrize("before", ["nothing", "no rows", "deleted rows"])
@pytest.mark.parametrize("meanwhile", ["nothing", "no rows", "rows"])
def test_first_rows_are_appended_only_if_the_table_has_no_rows(
    spark: SparkSession, tmp_path: Path, before: str, meanwhile: str
) -> None:
    table = Table(str(tmp_path / "people"), "people")
    create_writer(spark, table)
    if before != "nothing":
        append_as_other_tool(spark, table, *([] if before == "no rows" else [9]))
        spark.sql(f"DELETE FROM {resolve_table(spark, table).ref}")  # noqa: S608
    writer = IcebergWriter()
    assert writer.is_empty(spark, table)
    if meanwhile != "nothing":
        append_as_other_tool(spark, table, *([] if meanwhile == "no rows" else [1]))
    data = batch(spark, (1, "ours", 1))
    if meanwhile == "rows":
        with pytest.raises(Exception, match="conflicting files"):
            writer.upsert(table, data, KEYS, marker(1))
        assert content(spark, table) == [(1, "theirs", 0)]
    writer.upsert(table, data, KEYS, marker(1))
    assert content(spark, table) == [(1, "ours", 1)]
    is_merged = any(key.startswith("spark.merge") for key in line(spark, table)[0].summary)
    assert is_merged == (meanwhile == "rows")


@pytest.mark.every_nth_case(2)
@pytest.mark.parametrize("layout", [TableLayout(), TableLayout((PartitionField("name"),))])
def test_rows_added_while_the_first_rows_are_written_are_a_conflict(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: TableLayout
) -> None:
    """Another writer adds rows after the table was found empty, while Spark computes the batch."""
    table = Table(str(tmp_path / "people"), "people")
    writer = create_writer(spark, table, layout)
    started, count = threading.Event(), iceberg.counted
    is_filled = tmp_path / "is filled"

    def counted(*args: Any) -> Any:
        started.set()
        return count(*args)

    def fill() -> None:
        started.wait(60)
        append_as_other_tool(other, table, 1)
        is_filled.touch()

    @F.udf("boolean")
    def wait_until_filled(_id):  # with type hints Spark would import pandas
        deadline = time.monotonic() + 60
        while not is_filled.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        return True

    monkeypatch.setattr(iceberg, "counted", counted)
    other = spark.newSession()
    thread = threading.Thread(target=fill)
    # One partition, so that the waiting task leaves a core to the other writer.
    quick = spark.range(0, 1_000, 1, 1).selectExpr(
        "id", "substr(sha2(repeat(id, 500), 512), 1, 1) AS name", "1L AS n", "id AS at"
    )
    slow = quick.where(wait_until_filled("id"))
    thread.start()
    try:
        with pytest.raises(Exception, match="conflicting files"):
            writer.upsert(table, slow, KEYS, marker(1))
    finally:
        started.set()
        thread.join()
    writer.upsert(table, quick, KEYS, marker(1))
    stored = writer.rows(spark, table)
    assert (stored.count(), stored.select("id").distinct().count()) == (1_000, 1_000)


def upsert_during_insert(
    spark: SparkSession, table: Table, writer: IcebergWriter, folder: Path
) -> None:
    """Upsert a new key that another writer adds after the MERGE has read the table."""
    folder.mkdir()
    started, finished, other = folder / "begun", folder / "done", spark.newSession()

    def fill() -> None:
        if wait_for_file(started):
            append_as_other_tool(other, table, 2)
            finished.touch()

    def wait(name: Any) -> Any:  # runs in a process that cannot import these tests
        started.touch()
        end = time.monotonic() + 60
        while not finished.exists() and time.monotonic() < end:
            time.sleep(0.02)
        return name

    writer.append(table, rows(spark, (1, "a", 1)), marker(1))
    slow = F.udf(wait, "string", useArrow=False)
    data = batch(spark, (2, "ours", 2)).withColumn("name", slow("name"))
    thread = threading.Thread(target=fill)
    thread.start()
    try:
        writer.upsert(table, data, KEYS, marker(2))
    finally:
        started.touch()
        thread.join()


def wait_for_file(file: Path) -> bool:
    end = time.monotonic() + 60
    while not file.exists() and time.monotonic() < end:
        time.sleep(0.02)
    return file.exists()


def test_key_added_by_another_writer_during_a_merge_is_a_conflict(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = Table(str(tmp_path / "people"), "people")
    writer = create_writer(spark, table)
    with pytest.raises(Exception, match="conflicting files") as failed:
        upsert_during_insert(spark, table, writer, tmp_path / "signs")
    assert classify_failure(failed.value) is FailureKind.CONFLICT
    writer.upsert(table, batch(spark, (2, "ours", 2)), KEYS, marker(2))
    assert content(spark, table) == [(1, "a", 1), (2, "ours", 2)]


@pytest.mark.parametrize("level", ["snapshot", "SNAPSHOT"])
def test_table_with_snapshot_isolation_for_merges_is_rejected(
    spark: SparkSession, tmp_path: Path, level: str
) -> None:
    """With it, concurrently added keys would be in the table twice."""
    table = Table(str(tmp_path / "people"), "people")
    writer = create_writer(
        spark, table, TableLayout(properties=(("write.merge.isolation-level", level),))
    )
    expected = rf"write\.merge\.isolation-level = '{level}'.*Set the property to 'serializable'"
    with pytest.raises(TableError, match=expected):
        upsert_during_insert(spark, table, writer, tmp_path / "signs")
    assert (1, "a", 1) in content(spark, table)
    assert (2, "ours", 2) not in content(spark, table)


def test_upsert_into_a_table_that_accepts_any_schema_is_rejected(
    spark: SparkSession, tmp_path: Path
) -> None:
    """With the property, Spark does not resolve the columns of a MERGE."""
    table = Table(str(tmp_path / "people"), "people")
    accepting = TableLayout(properties=(("write.spark.accept-any-schema", "true"),))
    writer = create_writer(spark, table, accepting)
    writer.append(table, rows(spark, (1, "a", 1)), marker(1))
    with pytest.raises(TableError, match=r"accept-any-schema = 'true'.*Remove the property"):
        writer.upsert(table, batch(spark, (1, "b", 2)), KEYS, marker(2))
    writer.append(table, rows(spark, (2, "b", 1)), marker(2))
    assert content(spark, table) == [(1, "a", 1), (2, "b", 1)]


# --------------------------------------------------------------------------------- counts


@pytest.mark.parametrize("step", ["append", "replace"])
def test_different_row_count_in_the_snapshot_is_an_error(
    spark: SparkSession, table: Table, step: str
) -> None:
    writer = create_writer(spark, table)
    data = rows(spark, (1, "a", 1), (2, "b", 1))
    with pytest.raises(RowCountError, match=r"3 rows were to be written, but snapshot \d+ has 2"):
        getattr(writer, step)(table, data, marker(1), 3)
    getattr(create_writer(spark, table), step)(table, data, marker(2), 2)


@pytest.mark.every_nth_case(3)
@pytest.mark.parametrize("step", ["append", "replace", "first upsert", "upsert"])
def test_snapshot_with_fewer_rows_than_computed_is_an_error(
    spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """For example the output of a task vanishes."""
    writer = create_writer(spark, table)
    if step == "upsert":
        writer.append(table, rows(spark, (1, "a", 1)), marker(1))
    effect_of = iceberg.parse_summary

    def with_one_row_less(snapshot: IcebergSnapshot, *, merged: bool) -> CommitStats:
        stats = effect_of(snapshot, merged=merged)
        return CommitStats(stats.inserted - 1, stats.updated, stats.deleted)

    monkeypatch.setattr(iceberg, "parse_summary", with_one_row_less)
    values = ((1, "a", 1), (2, "b", 1))
    arguments = [batch(spark, *values), KEYS] if "upsert" in step else [rows(spark, *values)]
    commit = getattr(writer, step.removeprefix("first "))
    with pytest.raises(RowCountError, match=r"2 rows were to be written, but snapshot .* 1\. No"):
        commit(table, *arguments, marker(2))


def test_merge_into_a_table_with_duplicate_keys_is_counted(
    spark: SparkSession, table: Table
) -> None:
    writer = create_writer(spark, table)
    append_as_other_tool(spark, table, 1, 1, 2)
    effect = IcebergWriter().upsert(table, batch(spark, (1, "b", 2), (3, "c", 2)), KEYS, marker(1))
    assert (effect.inserted, effect.updated) == (1, 2)
    assert writer.rows(spark, table).where("name = 'b'").count() == 2


@pytest.mark.parametrize("fault", ["gone", "cut"])
def test_snapshot_with_missing_or_truncated_files_is_an_error(
    spark: SparkSession, tmp_path: Path, fault: str
) -> None:
    table = Table(str(tmp_path / "people"), "people")

    class FailingVerifyWriter(IcebergWriter):
        def _verify(self, *args: Any) -> list[IcebergSnapshot]:
            (file,) = Path(table.path).glob("data/*.parquet")
            if fault == "gone":
                file.unlink()
            else:
                file.write_bytes(file.read_bytes()[:-9])
            return super()._verify(*args)

    writer = FailingVerifyWriter()
    writer.create(spark, table, LAYOUT, TableLayout())
    with pytest.raises(CommitLostError, match=r"Snapshot \d+ of table people names the file"):
        writer.append(table, rows(spark, (1, "a", 1)), marker(1))


@pytest.mark.parametrize("step", ["append", "upsert", "commit_empty"])
def test_files_and_folders_of_a_commit_are_fsynced(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    table = Table(str(tmp_path / "tables" / "people"), "people")
    writer = create_writer(spark, table, TableLayout((PartitionField("name"),)))
    writer.append(table, rows(spark, (1, "a", 1), (3, "c", 1)), marker(1))
    synced: set[Path] = set()
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    monkeypatch.setattr(
        os, "fsync", lambda file: synced.add(Path(f"/proc/self/fd/{file}").readlink())
    )
    STEPS[step](writer, spark, table)
    made_now = {path for path in tmp_path.rglob("*") if path.is_file()} - before
    assert {path.suffix for path in made_now} == {
        *(".avro", ".crc", ".json"),
        *([] if step == "commit_empty" else [".parquet"]),
    }
    folders = {folder for path in made_now for folder in path.parents}
    folders &= {tmp_path / "tables", *(tmp_path / "tables").rglob("*")}
    assert made_now | folders | {Path(table.path, "metadata", "version-hint.text")} <= synced


# ------------------------------------------------------------------ replaced tables

STEPS: dict[str, Callable[[IcebergWriter, SparkSession, Table], object]] = {
    "append": lambda w, s, t: w.append(t, rows(s, (2, "b", 1)), marker(2)),
    "upsert": lambda w, s, t: w.upsert(t, batch(s, (2, "b", 1)), KEYS, marker(2)),
    "replace": lambda w, s, t: w.replace(t, rows(s, (2, "b", 1)), marker(2)),
    "alter": lambda w, s, t: w.alter(s, t, [SchemaChange("add", ("more",), "STRING")]),
    "care": lambda w, s, t: w.maintain(s, t, MaintenanceOptions(compact=True)),
    "commit_empty": lambda w, s, t: w.commit_empty(s, t, marker(2, "{}")),
}


@pytest.mark.every_nth_case(5)
@pytest.mark.parametrize("step", list(STEPS))
@pytest.mark.parametrize("is_replaced", [True, False])
def test_replaced_or_removed_table_is_not_changed(
    spark: SparkSession, table: Table, folder: Path, step: str, is_replaced: bool
) -> None:
    writer = create_writer(spark, table)
    writer.append(table, rows(spark, (1, "a", 1)), marker(1))
    shutil.rmtree(folder)
    if is_replaced:
        create_writer(spark.newSession() if table.path else spark, table)
        append_as_other_tool(spark, table, 7)
    before = sorted(folder.rglob("*"))
    expected = "was replaced by another table" if is_replaced else "was removed while it was loaded"
    with pytest.raises(TableError, match=expected):
        STEPS[step](writer, spark, table)
    assert sorted(folder.rglob("*")) == before


def test_table_recreated_with_the_same_uuid_is_not_changed(
    spark: SparkSession, table: Table
) -> None:
    """CREATE OR REPLACE TABLE keeps the uuid."""
    writer = create_writer(spark, table)
    writer.append(table, rows(spark, (1, "a", 1)), marker(1))
    ref = resolve_table(spark, table).ref
    query = "SELECT 7L AS id, 'theirs' AS name, 0L AS n"
    spark.sql(f"CREATE OR REPLACE TABLE {ref} USING iceberg AS {query}")
    with pytest.raises(TableError, match="was removed while it was loaded"):
        writer.append(table, rows(spark, (2, "b", 1)), marker(2))
    assert content(spark, table) == [(7, "theirs", 0)]


def test_table_replaced_during_a_write_is_not_changed(spark: SparkSession, tmp_path: Path) -> None:
    """Iceberg rejects the commit; the error explains it."""
    table = Table(str(tmp_path / "people"), "people")
    writer = create_writer(spark, table)
    writer.append(table, rows(spark, (1, "a", 1)), marker(1))
    finished = threading.Event()

    def swap() -> None:
        while not (finished.is_set() or len(list(Path(table.path).glob("data/*.parquet"))) > 1):
            finished.wait(0.02)
        Path(table.path).rename(
            tmp_path / "aside"
        )  # unlike a removal, a rename cannot race with a new file
        create_writer(spark.newSession(), table)

    thread = threading.Thread(target=swap)
    slow = spark.range(0, 100_000, 1, 20).repartition(20)
    slow = slow.selectExpr("id", "sha2(repeat(id, 2000), 512) AS name", "1L AS n")
    thread.start()
    try:
        with pytest.raises(TableError, match=r"was (replaced by another table|removed)"):
            writer.append(table, slow, marker(2))
    finally:
        finished.set()
        thread.join()
    assert content(spark, table) == []


# ------------------------------------------------------------------------- late commits


def test_late_commit_to_a_folder_is_made_once(spark: SparkSession, tmp_path: Path) -> None:
    """The rename of a metadata file fails, and is done after the batch was committed again."""
    table = Table(str(tmp_path / "people"), "people")
    metadata, aside = tmp_path / "people" / "metadata", tmp_path / "aside.json"
    late: list[Path] = []

    class LostResponseWriter(IcebergWriter):
        def _verify(self, *args: Any) -> list[IcebergSnapshot]:
            if args[-1].batch == 2 and not late:
                late.append(metadata / "v3.metadata.json")
                late[0].rename(aside)
                (metadata / "version-hint.text").write_text("2")
                raise OSError(errno.ETIMEDOUT, "Connection timed out")
            return super()._verify(*args)

    writer = LostResponseWriter()
    writer.create(spark, table, LAYOUT, TableLayout())
    writer.append(table, rows(spark, (1, "a", 1)), marker(1))
    data = rows(spark, (2, "b", 2))
    with pytest.raises(OSError, match="timed out"):
        writer.append(table, data, marker(2))
    writer.append(table, data, marker(2))
    aside.rename(late[0])
    writer.append(table, rows(spark, (3, "c", 3)), marker(3))
    assert content(spark, table) == [(1, "a", 1), (2, "b", 2), (3, "c", 3)]
    assert [snapshot.marker for snapshot in line(spark, table)].count(marker(2)) == 1


def test_batch_is_not_repeated_if_its_snapshot_may_have_expired(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The response is lost; another program compacts the table, and expires all other snapshots."""
    table = Table(str(tmp_path / "people"), "people")
    lost = iter([OSError(errno.ETIMEDOUT, "Connection timed out")])

    class LostResponseWriter(IcebergWriter):
        def _verify(self, *args: Any) -> list[IcebergSnapshot]:
            if args[-1].batch == 2 and (error := next(lost, None)):
                raise error
            return super()._verify(*args)

    writer = LostResponseWriter()
    writer.create(spark, table, LAYOUT, TableLayout())
    writer.append(table, rows(spark, (1, "a", 1)), marker(1))
    data, table_ref = rows(spark, (2, "b", 2)), resolve_table(spark, table)
    with pytest.raises(OSError, match="timed out"):
        writer.append(table, data, marker(2))
    compact_and_expire(spark, table_ref)
    with pytest.raises(CommitLostError, match="Batch 2 of table people may be committed"):
        writer.append(table, data, marker(2))
    assert content(spark, table) == [(1, "a", 1), (2, "b", 2)]


@pytest.mark.parametrize("moment", ["before it is loaded", "after it was loaded"])
def test_snapshot_that_expires_before_its_files_are_checked_is_committed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Another program compacts the table and expires all other snapshots during the check."""
    table = Table(str(tmp_path / "people"), "people")
    writer = create_writer(spark, table)
    writer.append(table, rows(spark, (1, "a", 1)), marker(1))
    load = snapshot_reader.load

    def load_and_expire(session: SparkSession, table_ref: IcebergTableRef) -> Any:
        loaded = load(session, table_ref)
        monkeypatch.undo()
        compact_and_expire(session, table_ref)
        return loaded if moment.startswith("after") else load(session, table_ref)

    monkeypatch.setattr(snapshot_reader, "load", load_and_expire)
    assert writer.append(table, rows(spark, (2, "b", 2)), marker(2)).inserted == 1
    writer.append(table, rows(spark, (3, "c", 3)), marker(3))
    assert content(spark, table) == [(1, "a", 1), (2, "b", 2), (3, "c", 3)]


def compact_and_expire(spark: SparkSession, table_ref: IcebergTableRef) -> None:
    of_table = f"table => '{table_ref.ref}'"
    for call in (
        "rewrite_data_files({}, options => map('rewrite-all', 'true'))",
        "expire_snapshots({}, older_than => TIMESTAMP '2100-01-01', retain_last => 1)",
    ):
        spark.sql(f"CALL {table_ref.procedures}.{call.format(of_table)}")


# --------------------------------------------------------------------------------- history

HISTORY = TableSchema(
    (
        *LAYOUT.columns,
        Column("_sdc_valid_from", "_sdc_valid_from", Timestamp()),
        Column("_sdc_valid_to", "_sdc_valid_to", Timestamp()),
        Column("_sdc_is_current", "_sdc_is_current", Boolean()),
    )
)
VERSIONS = MergeKeys(("id",), order="at", compared=("name",))


def version(spark: SparkSession, id_: int, name: str, day: int) -> DataFrame:
    return batch(spark, (id_, name, day)).selectExpr(
        "id",
        "name",
        "n",
        f"TIMESTAMP '2024-01-{day:02}' AS _sdc_valid_from",
        "CAST(NULL AS TIMESTAMP) AS _sdc_valid_to",
        "true AS _sdc_is_current",
        "at",
    )


@pytest.mark.parametrize(
    "other_change",
    [
        pytest.param("nothing", marks=pytest.mark.thorough),
        pytest.param("another key", marks=pytest.mark.thorough),
        "the same key",
    ],
)
def test_concurrently_changed_history_has_one_current_version_per_key(
    spark: SparkSession, tmp_path: Path, other_change: str
) -> None:
    """The versions of a batch are computed from the table, and then inserted by a MERGE."""
    table = Table(str(tmp_path / "people"), "people")
    ref = resolve_table(spark, table).ref

    class ConcurrentlyChangedWriter(IcebergWriter):
        def rows(self, spark: SparkSession, table: Table) -> DataFrame:
            history = super().rows(spark, table)
            history.schema  # noqa: B018  (the table is looked up)
            if other_change != "nothing" and self._tables[table.key].is_converted:
                key = 1 if other_change == "the same key" else 7
                new = version(spark, key, "theirs", 2).drop("at")
                if key == 1:
                    spark.sql(f"DELETE FROM {ref} WHERE id = 1")  # noqa: S608
                new.writeTo(ref).append()
            return history

    first = IcebergWriter()
    first.create(spark, table, HISTORY, TableLayout())
    first.history(table, version(spark, 1, "a", 1), VERSIONS, marker(1))
    writer = ConcurrentlyChangedWriter()
    writer.history(table, version(spark, 1, "b", 3), VERSIONS, marker(2))
    history = IcebergWriter().rows(spark, table)
    current = history.where("_sdc_is_current").select("id", "name").collect()
    expected = [(1, "b")] if other_change != "another key" else [(1, "b"), (7, "theirs")]
    assert sorted(map(tuple, current)) == expected
    ended = {"nothing": "a", "another key": "a", "the same key": "theirs"}[other_change]
    assert [row.name for row in history.where("NOT _sdc_is_current").collect()] == [ended]
