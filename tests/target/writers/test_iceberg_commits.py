"""Commits to Iceberg tables that others write, replace and remove: what is checked around each."""

from __future__ import annotations

import errno
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812

from target_spark.columns import Boolean, Column, SchemaChange, TableSchema, Timestamp
from target_spark.errors import CommitLostError, RowCountError, TableError
from target_spark.storage.retry import FailureKind, classify_failure
from target_spark.tables.model import (
    CommitStats,
    MaintenanceOptions,
    PartitionField,
    Table,
    TableLayout,
)
from target_spark.writers import MergeKeys
from target_spark.writers.iceberg import writer as iceberg
from target_spark.writers.iceberg.catalog import resolve_table
from target_spark.writers.iceberg.snapshots import IcebergSnapshot
from target_spark.writers.iceberg.writer import IcebergWriter
from tests.target.writers.iceberg_rows import KEYS, LAYOUT, batch, content, line, marker, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(params=["folder", "catalog"])
def table(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Table:
    """A table that is not there yet, in a folder or in a catalog of the user's."""
    if request.param == "folder":
        return Table(str(tmp_path / "db" / "people"), "people")
    key = "spark.sql.catalog.lake"
    spark.conf.set(key, "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set(f"{key}.type", "hadoop")
    spark.conf.set(f"{key}.warehouse", str(tmp_path))
    return Table("", "people", ("lake", "db", "people"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return where the files of the table are."""
    return tmp_path / "db" / "people"


def made(spark: SparkSession, table: Table, layout: TableLayout | None = None) -> IcebergWriter:
    writer = IcebergWriter()
    writer.create(spark, table, LAYOUT, layout or TableLayout())
    return writer


def theirs(spark: SparkSession, table: Table, *ids: int) -> None:
    """Append rows, or none, as another tool does."""
    named = rows(spark, *((id_, "theirs", 0) for id_ in ids or (0,)))
    named.where(f"{bool(ids)}").writeTo(resolve_table(spark, table).ref).append()


def test_the_first_rows_of_a_keyed_table_are_merged_when_others_came_in_between(
    spark: SparkSession, table: Table
) -> None:
    """Else a key that both have would be in the table twice."""
    writer = made(spark, table)
    assert writer.is_empty(spark, table)
    theirs(spark, table, 1, 3)
    data = batch(spark, (1, "ours", 1), (2, "ours", 1))
    with pytest.raises(Exception, match="conflicting files") as failed:
        writer.upsert(spark, table, data, KEYS, marker(1))
    assert classify_failure(failed.value) is FailureKind.CONFLICT
    writer.upsert(spark, table, data, KEYS, marker(1))
    assert content(spark, table) == [(1, "ours", 1), (2, "ours", 1), (3, "theirs", 0)]


@pytest.mark.parametrize("before", ["nothing", "no rows", "deleted rows"])
@pytest.mark.parametrize("meanwhile", ["nothing", "no rows", "rows"])
def test_first_rows_follow_only_a_table_without_rows(
    spark: SparkSession, tmp_path: Path, before: str, meanwhile: str
) -> None:
    table = Table(str(tmp_path / "people"), "people")
    made(spark, table)
    if before != "nothing":
        theirs(spark, table, *([] if before == "no rows" else [9]))
        spark.sql(f"DELETE FROM {resolve_table(spark, table).ref}")  # noqa: S608
    writer = IcebergWriter()
    assert writer.is_empty(spark, table)
    if meanwhile != "nothing":
        theirs(spark, table, *([] if meanwhile == "no rows" else [1]))
    data = batch(spark, (1, "ours", 1))
    if meanwhile == "rows":
        with pytest.raises(Exception, match="conflicting files"):
            writer.upsert(spark, table, data, KEYS, marker(1))
        assert content(spark, table) == [(1, "theirs", 0)]
    writer.upsert(spark, table, data, KEYS, marker(1))
    assert content(spark, table) == [(1, "ours", 1)]
    is_merged = any(key.startswith("spark.merge") for key in line(spark, table)[0].summary)
    assert is_merged == (meanwhile == "rows")


@pytest.mark.parametrize("layout", [TableLayout(), TableLayout((PartitionField("name"),))])
def test_rows_that_others_add_while_the_first_are_written_are_a_conflict(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: TableLayout
) -> None:
    """They come when the table was seen to be empty, while Spark makes the rows."""
    table = Table(str(tmp_path / "people"), "people")
    writer = made(spark, table, layout)
    begun, count = threading.Event(), iceberg.counted
    is_filled = tmp_path / "is filled"

    def counted(*args: Any) -> Any:
        begun.set()
        return count(*args)

    def fill() -> None:
        begun.wait(60)
        theirs(other, table, 1)
        is_filled.touch()

    @F.udf("boolean")
    def wait_until_filled(_id):  # with type hints Spark would look for pandas
        deadline = time.monotonic() + 60
        while not is_filled.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        return True

    monkeypatch.setattr(iceberg, "counted", counted)
    other = spark.newSession()
    thread = threading.Thread(target=fill)
    # Of one partition: the task that waits leaves a core to the other writer.
    quick = spark.range(0, 1_000, 1, 1).selectExpr(
        "id", "substr(sha2(repeat(id, 500), 512), 1, 1) AS name", "1L AS n", "id AS at"
    )
    slow = quick.where(wait_until_filled("id"))
    thread.start()
    try:
        with pytest.raises(Exception, match="conflicting files"):
            writer.upsert(spark, table, slow, KEYS, marker(1))
    finally:
        begun.set()
        thread.join()
    writer.upsert(spark, table, quick, KEYS, marker(1))
    found = writer.rows(spark, table)
    assert (found.count(), found.select("id").distinct().count()) == (1_000, 1_000)


def meet_theirs(spark: SparkSession, table: Table, writer: IcebergWriter, folder: Path) -> None:
    """Upsert a new key; another writer adds it when the MERGE has read the table."""
    folder.mkdir()
    begun, done, other = folder / "begun", folder / "done", spark.newSession()

    def fill() -> None:
        if waited_for(begun):
            theirs(other, table, 2)
            done.touch()

    def wait(name: Any) -> Any:  # in a process of its own, which does not have these tests
        begun.touch()
        end = time.monotonic() + 60
        while not done.exists() and time.monotonic() < end:
            time.sleep(0.02)
        return name

    writer.append(spark, table, rows(spark, (1, "a", 1)), marker(1))
    slow = F.udf(wait, "string", useArrow=False)
    data = batch(spark, (2, "ours", 2)).withColumn("name", slow("name"))
    thread = threading.Thread(target=fill)
    thread.start()
    try:
        writer.upsert(spark, table, data, KEYS, marker(2))
    finally:
        begun.touch()
        thread.join()


def waited_for(file: Path) -> bool:
    end = time.monotonic() + 60
    while not file.exists() and time.monotonic() < end:
        time.sleep(0.02)
    return file.exists()


def test_a_key_that_another_writer_adds_during_a_merge_is_a_conflict(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = Table(str(tmp_path / "people"), "people")
    writer = made(spark, table)
    with pytest.raises(Exception, match="conflicting files") as failed:
        meet_theirs(spark, table, writer, tmp_path / "signs")
    assert classify_failure(failed.value) is FailureKind.CONFLICT
    writer.upsert(spark, table, batch(spark, (2, "ours", 2)), KEYS, marker(2))
    assert content(spark, table) == [(1, "a", 1), (2, "ours", 2)]


@pytest.mark.parametrize("level", ["snapshot", "SNAPSHOT"])
def test_a_table_whose_merges_do_not_see_keys_that_others_add_is_refused(
    spark: SparkSession, tmp_path: Path, level: str
) -> None:
    """Without the refusal the key would be in the table twice."""
    table = Table(str(tmp_path / "people"), "people")
    writer = made(spark, table, TableLayout(properties=(("write.merge.isolation-level", level),)))
    words = rf"write\.merge\.isolation-level = '{level}'.*Set the property to 'serializable'"
    with pytest.raises(TableError, match=words):
        meet_theirs(spark, table, writer, tmp_path / "signs")
    assert (1, "a", 1) in content(spark, table)
    assert (2, "ours", 2) not in content(spark, table)


# --------------------------------------------------------------------------------- counts


@pytest.mark.parametrize("step", ["append", "replace"])
def test_other_rows_than_were_given_are_an_error(
    spark: SparkSession, table: Table, step: str
) -> None:
    writer = made(spark, table)
    data = rows(spark, (1, "a", 1), (2, "b", 1))
    with pytest.raises(RowCountError, match=r"3 rows were to be written, but snapshot \d+ has 2"):
        getattr(writer, step)(spark, table, data, marker(1), 3)
    getattr(made(spark, table), step)(spark, table, data, marker(2), 2)


@pytest.mark.parametrize("step", ["append", "replace", "first upsert", "upsert"])
def test_a_snapshot_that_says_fewer_rows_than_were_seen_is_an_error(
    spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """As when the output of a task vanishes."""
    writer = made(spark, table)
    if step == "upsert":
        writer.append(spark, table, rows(spark, (1, "a", 1)), marker(1))
    effect_of = iceberg.parse_summary

    def without_one(snapshot: IcebergSnapshot, *, merged: bool) -> CommitStats:
        found = effect_of(snapshot, merged=merged)
        return CommitStats(found.inserted - 1, found.updated, found.deleted)

    monkeypatch.setattr(iceberg, "parse_summary", without_one)
    values = ((1, "a", 1), (2, "b", 1))
    given = [batch(spark, *values), KEYS] if "upsert" in step else [rows(spark, *values)]
    commit = getattr(writer, step.removeprefix("first "))
    with pytest.raises(RowCountError, match=r"2 rows were to be written, but snapshot .* 1\. No"):
        commit(spark, table, *given, marker(2))


def test_a_merge_into_a_table_that_has_a_key_twice_is_counted(
    spark: SparkSession, table: Table
) -> None:
    writer = made(spark, table)
    theirs(spark, table, 1, 1, 2)
    effect = IcebergWriter().upsert(
        spark, table, batch(spark, (1, "b", 2), (3, "c", 2)), KEYS, marker(1)
    )
    assert (effect.inserted, effect.updated) == (1, 2)
    assert writer.rows(spark, table).where("name = 'b'").count() == 2


@pytest.mark.parametrize("fault", ["gone", "cut"])
def test_a_snapshot_whose_files_are_not_there_is_an_error(
    spark: SparkSession, tmp_path: Path, fault: str
) -> None:
    table = Table(str(tmp_path / "people"), "people")

    class Spoiling(IcebergWriter):
        def _verify(self, *args: Any) -> IcebergSnapshot:
            (file,) = Path(table.path).glob("data/*.parquet")
            if fault == "gone":
                file.unlink()
            else:
                file.write_bytes(file.read_bytes()[:-9])
            return super()._verify(*args)

    writer = Spoiling()
    writer.create(spark, table, LAYOUT, TableLayout())
    with pytest.raises(CommitLostError, match=r"Snapshot \d+ of table people names the file"):
        writer.append(spark, table, rows(spark, (1, "a", 1)), marker(1))


@pytest.mark.parametrize("step", ["append", "upsert", "commit_empty"])
def test_all_files_and_folders_of_a_commit_are_on_the_disk_when_it_is_done(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    table = Table(str(tmp_path / "tables" / "people"), "people")
    writer = made(spark, table, TableLayout((PartitionField("name"),)))
    writer.append(spark, table, rows(spark, (1, "a", 1), (3, "c", 1)), marker(1))
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


# ------------------------------------------------------------------ tables of others in place

STEPS: dict[str, Callable[[IcebergWriter, SparkSession, Table], object]] = {
    "append": lambda w, s, t: w.append(s, t, rows(s, (2, "b", 1)), marker(2)),
    "upsert": lambda w, s, t: w.upsert(s, t, batch(s, (2, "b", 1)), KEYS, marker(2)),
    "replace": lambda w, s, t: w.replace(s, t, rows(s, (2, "b", 1)), marker(2)),
    "alter": lambda w, s, t: w.alter(s, t, [SchemaChange("add", ("more",), "STRING")]),
    "care": lambda w, s, t: w.maintain(s, t, MaintenanceOptions(compact=True)),
    "commit_empty": lambda w, s, t: w.commit_empty(s, t, marker(2, "{}")),
}


@pytest.mark.parametrize("step", list(STEPS))
@pytest.mark.parametrize("is_there", [True, False])
def test_a_table_in_the_place_of_ours_is_left_alone(
    spark: SparkSession, table: Table, folder: Path, step: str, is_there: bool
) -> None:
    writer = made(spark, table)
    writer.append(spark, table, rows(spark, (1, "a", 1)), marker(1))
    shutil.rmtree(folder)
    if is_there:
        made(spark.newSession() if table.path else spark, table)
        theirs(spark, table, 7)
    before = sorted(folder.rglob("*"))
    words = "was replaced by another table" if is_there else "was removed while it was loaded"
    with pytest.raises(TableError, match=words):
        STEPS[step](writer, spark, table)
    assert sorted(folder.rglob("*")) == before


def test_a_table_that_is_made_anew_under_the_same_uuid_is_left_alone(
    spark: SparkSession, table: Table
) -> None:
    """CREATE OR REPLACE TABLE keeps the uuid."""
    writer = made(spark, table)
    writer.append(spark, table, rows(spark, (1, "a", 1)), marker(1))
    ref = resolve_table(spark, table).ref
    theirs_ = "SELECT 7L AS id, 'theirs' AS name, 0L AS n"
    spark.sql(f"CREATE OR REPLACE TABLE {ref} USING iceberg AS {theirs_}")
    with pytest.raises(TableError, match="was removed while it was loaded"):
        writer.append(spark, table, rows(spark, (2, "b", 1)), marker(2))
    assert content(spark, table) == [(7, "theirs", 0)]


def test_a_table_that_is_replaced_during_a_write_is_left_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Iceberg itself refuses the commit; the reason is told."""
    table = Table(str(tmp_path / "people"), "people")
    writer = made(spark, table)
    writer.append(spark, table, rows(spark, (1, "a", 1)), marker(1))
    done = threading.Event()

    def swap() -> None:
        while not (done.is_set() or len(list(Path(table.path).glob("data/*.parquet"))) > 1):
            done.wait(0.02)
        Path(table.path).rename(tmp_path / "aside")  # unlike a removal it cannot meet a new file
        made(spark.newSession(), table)

    thread = threading.Thread(target=swap)
    slow = spark.range(0, 100_000, 1, 20).repartition(20)
    slow = slow.selectExpr("id", "sha2(repeat(id, 2000), 512) AS name", "1L AS n")
    thread.start()
    try:
        with pytest.raises(TableError, match=r"was (replaced by another table|removed)"):
            writer.append(spark, table, slow, marker(2))
    finally:
        done.set()
        thread.join()
    assert content(spark, table) == []


# ------------------------------------------------------------------------- late commits


def test_a_commit_to_a_folder_that_is_made_late_is_made_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The rename of a metadata file fails, and is done after the batch was committed again."""
    table = Table(str(tmp_path / "people"), "people")
    metadata, aside = tmp_path / "people" / "metadata", tmp_path / "aside.json"
    late: list[Path] = []

    class Failing(IcebergWriter):
        def _verify(self, *args: Any) -> IcebergSnapshot:
            if args[-1].batch == 2 and not late:
                late.append(metadata / "v3.metadata.json")
                late[0].rename(aside)
                (metadata / "version-hint.text").write_text("2")
                raise OSError(errno.ETIMEDOUT, "Connection timed out")
            return super()._verify(*args)

    writer = Failing()
    writer.create(spark, table, LAYOUT, TableLayout())
    writer.append(spark, table, rows(spark, (1, "a", 1)), marker(1))
    data = rows(spark, (2, "b", 2))
    with pytest.raises(OSError, match="timed out"):
        writer.append(spark, table, data, marker(2))
    writer.append(spark, table, data, marker(2))
    aside.rename(late[0])
    writer.append(spark, table, rows(spark, (3, "c", 3)), marker(3))
    assert content(spark, table) == [(1, "a", 1), (2, "b", 2), (3, "c", 3)]
    assert [each.marker for each in line(spark, table)].count(marker(2)) == 1


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


@pytest.mark.parametrize("theirs_", ["nothing", "another key", "the same key"])
def test_a_history_that_others_change_when_it_is_read_has_one_current_version_of_a_key(
    spark: SparkSession, tmp_path: Path, theirs_: str
) -> None:
    """Versions of a batch are found by reading the table, and put in by a MERGE after that."""
    table = Table(str(tmp_path / "people"), "people")
    ref = resolve_table(spark, table).ref

    class Late(IcebergWriter):
        def rows(self, spark: SparkSession, table: Table) -> DataFrame:
            found = super().rows(spark, table)
            found.schema  # noqa: B018  (the table is looked up)
            if theirs_ != "nothing" and self._tables[table.key].adopted:
                key = 1 if theirs_ == "the same key" else 7
                new = version(spark, key, "theirs", 2).drop("at")
                if key == 1:
                    spark.sql(f"DELETE FROM {ref} WHERE id = 1")  # noqa: S608
                new.writeTo(ref).append()
            return found

    first = IcebergWriter()
    first.create(spark, table, HISTORY, TableLayout())
    first.history(spark, table, version(spark, 1, "a", 1), VERSIONS, marker(1))
    writer = Late()
    writer.history(spark, table, version(spark, 1, "b", 3), VERSIONS, marker(2))
    found = IcebergWriter().rows(spark, table)
    current = found.where("_sdc_is_current").select("id", "name").collect()
    expected = [(1, "b")] if theirs_ != "another key" else [(1, "b"), (7, "theirs")]
    assert sorted(map(tuple, current)) == expected
    ended = {"nothing": "a", "another key": "a", "the same key": "theirs"}[theirs_]
    assert [row.name for row in found.where("NOT _sdc_is_current").collect()] == [ended]
