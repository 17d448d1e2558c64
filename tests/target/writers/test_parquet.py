"""Parquet folders: only parts listed in the manifest count, and no row is duplicated."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from target_spark.columns import Column, Integer, SchemaChange, Struct, TableSchema, Text
from target_spark.errors import CommitLostError, ConflictError, TableError, UnsupportedError
from target_spark.tables.commit_metadata import CommitMetadata
from target_spark.tables.parquet_manifest import CommitManifest
from target_spark.tables.table import Table, TableLayout
from target_spark.writers import MergeKeys, parquet
from target_spark.writers.parquet import ParquetWriter
from target_spark.writers.sql_statements import check_folder_is_empty

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

LAYOUT = TableSchema(
    (
        Column("id", "id", Integer()),
        Column("a.b", "a.b", Text()),
        Column("o", "o", Struct((Column("x y", "x_y", Integer()),))),
    )
)


def marker(
    batch: int, state: str | None = None, *, run: str = "r1", started: int = 1
) -> CommitMetadata:
    return CommitMetadata("job", run, started, batch, batch * 10 if state else 0, state)


def rows(spark: SparkSession, first: int, count: int = 1) -> DataFrame:
    return spark.range(first, first + count, 1, 1).selectExpr(
        "id", "CAST(id AS STRING) AS `a.b`", "named_struct('x_y', id) AS o"
    )


def ids(spark: SparkSession, table: Table) -> list[int]:
    """Return the ids that a reader finds by listing the folder."""
    return sorted(row.id for row in spark.read.parquet(f"file://{table.path}").collect())


def parts(table: Table) -> set[str]:
    return {file.name for file in Path(table.path).glob("*.parquet")}


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Table:
    new_table = Table(str(tmp_path / "a table"), "t")
    ParquetWriter().create(spark, new_table, LAYOUT, TableLayout())
    return new_table


def test_empty_table_can_be_read(spark, table):
    assert ids(spark, table) == []
    types = {"id": "bigint", "a.b": "string", "o": "struct<`x_y`: bigint>"}
    assert ParquetWriter().get_column_types(spark, table) == types
    assert ParquetWriter().get_last_metadata(spark, table) is None


def test_parts_are_numbered_and_listed_in_the_manifest(spark, table):
    writer = ParquetWriter()
    writer.append(table, rows(spark, 0), marker(1, '{"é": 1}'))
    writer.append(table, rows(spark, 1).repartition(2), marker(2))

    manifest = json.loads(Path(table.path, "_manifest.json").read_text(encoding="utf-8"))
    assert set(manifest["parts"]) == parts(table)
    assert "part-00000002-00000.parquet" in parts(table)
    assert manifest["marker"]["batch"] == 2
    assert manifest["marker"]["state"] == '{"é": 1}'  # the second batch had no state
    assert writer.get_last_metadata(spark, table) == replace(marker(1, '{"é": 1}'), batch=2)
    assert ids(spark, table) == [0, 1]
    other_files = {file.name for file in Path(table.path).iterdir()} - parts(table)
    assert other_files == {"_manifest.json", "_target_spark"}


def test_repeated_batch_is_not_written_again(spark, table):
    ParquetWriter().append(table, rows(spark, 0), marker(1))
    ParquetWriter().append(table, rows(spark, 0), marker(1))  # its response was lost
    assert ids(spark, table) == [0]
    ParquetWriter().replace(table, rows(spark, 5), marker(2))
    ParquetWriter().replace(table, rows(spark, 5), marker(2))
    assert ids(spark, table) == [5]
    ParquetWriter().commit_empty(spark, table, marker(3))
    ParquetWriter().commit_empty(spark, table, marker(3))
    assert ids(spark, table) == [5]


def test_batch_number_that_does_not_increase_is_an_error(spark, table):
    writer = ParquetWriter()
    writer.append(table, rows(spark, 0), marker(1))
    writer.append(table, rows(spark, 1), marker(2))
    for parquet_writer, number in ((writer, 2), (writer, 1), (ParquetWriter(), 1)):
        with pytest.raises(CommitLostError):
            parquet_writer.append(table, rows(spark, 9), marker(number))
        with pytest.raises(CommitLostError):
            parquet_writer.replace(table, rows(spark, 9), marker(number))
        with pytest.raises(CommitLostError):
            parquet_writer.commit_empty(spark, table, marker(number))
    assert ids(spark, table) == [0, 1]
    writer.append(table, rows(spark, 2), marker(1, run="r2", started=2))
    assert ids(spark, table) == [0, 1, 2]


@pytest.mark.every_nth_case(3)
@pytest.mark.parametrize("method", ["append", "replace"])
@pytest.mark.parametrize("breaks_at", ["staging", "moving", "manifest", "after"])
def test_interrupted_commit_is_removed_or_complete(spark, table, monkeypatch, method, breaks_at):
    """Killed at any step, the next run finds the table unchanged, or with the whole batch."""
    ParquetWriter().append(table, rows(spark, 0), marker(1, "{}"))
    real = Path.replace

    def breaking(self: Path, target: Path) -> Path:
        """Raise SystemExit, as a kill -9 would end the process, at one rename of a commit."""
        if breaks_at == "manifest" and target.name == "_manifest.json":
            raise SystemExit(9)
        moved = real(self, target)
        if breaks_at == "moving" and target.name.endswith("-00000.parquet"):
            raise SystemExit(9)
        if breaks_at == "after" and target.name == "_manifest.json":
            raise SystemExit(9)
        return moved

    def unwritten(*_: object) -> list[str]:
        raise SystemExit(9)

    if breaks_at == "staging":
        monkeypatch.setattr("target_spark.writers.parquet._move_files", unwritten)
    monkeypatch.setattr(Path, "replace", breaking)
    with pytest.raises(SystemExit):
        getattr(ParquetWriter(), method)(table, rows(spark, 1, 3).repartition(2), marker(2))
    monkeypatch.undo()

    before = ParquetWriter().get_last_metadata(spark, table)
    assert before.batch == (2 if breaks_at == "after" else 1)
    assert len(list(Path(table.path).iterdir())) > 2  # reading removes nothing
    getattr(ParquetWriter(), method)(table, rows(spark, 1, 3), marker(2))
    ParquetWriter().append(table, rows(spark, 4), marker(3))

    assert ids(spark, table) == ([0, 1, 2, 3, 4] if method == "append" else [1, 2, 3, 4])
    assert set(CommitManifest.read(Path(table.path)).parts) == parts(table)
    assert not Path(table.path, "_staging").exists()


def test_manifest_is_not_written_through_a_symbolic_link(tmp_path: Path) -> None:
    """Another user who may write the folder of a table can create a link there."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    folder = tmp_path / "t"
    folder.mkdir()
    (folder / "_manifest.json.new").symlink_to(victim)
    table = Table(str(folder), "t")
    ParquetWriter().commit_empty(None, table, marker(1))
    assert CommitManifest.read(folder).marker == marker(1)
    assert not (folder / "_manifest.json.new").is_symlink()
    assert victim.read_text() == "precious"


def test_late_rename_of_a_manifest_has_no_effect(tmp_path: Path, monkeypatch) -> None:
    """A try whose response was lost may be done after the next one has removed its parts."""
    table, late = Table(str(tmp_path / "t"), "t"), []
    rename = Path.replace

    def lost(self: Path, target: Path) -> None:
        late.append(lambda: rename(self, target))
        raise TimeoutError(110, "Connection timed out")

    monkeypatch.setattr(Path, "replace", lost)
    for run in ("r1", "r2"):
        with pytest.raises(TimeoutError):
            ParquetWriter().commit_empty(None, table, marker(1, run=run))
    with pytest.raises(FileNotFoundError):
        late[0]()
    late[1]()
    assert CommitManifest.read(tmp_path / "t").marker == marker(1, run="r2")


def test_retry_after_another_runs_commit_is_a_conflict(spark, table) -> None:
    """The other run has replaced the metadata of the batch whose response was lost."""
    ours, theirs = ParquetWriter(), ParquetWriter()
    ours.get_column_types(spark, table)
    real = CommitManifest.write

    def write(self: CommitManifest, folder: Path) -> None:
        real(self, folder)
        raise TimeoutError(110, "Connection timed out")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CommitManifest, "write", write)
        with pytest.raises(TimeoutError):
            ours.append(table, rows(spark, 0), marker(1))
    theirs.append(table, rows(spark, 1), replace(marker(1), job="another", former=("job",)))
    with pytest.raises(ConflictError):
        ours.append(table, rows(spark, 0), marker(1))
    assert ids(spark, table) == [0, 1]


def test_parts_of_a_dead_run_are_removed_and_foreign_files_kept(spark, table):
    ParquetWriter().append(table, rows(spark, 0), marker(1))
    folder = Path(table.path)
    (folder / "part-00000009-00000.parquet").write_bytes(b"torn")
    (folder / "_staging").mkdir()
    (folder / "_staging" / "x").write_bytes(b"torn")
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    ParquetWriter().commit_empty(spark, table, marker(2, "{}"))
    assert ids(spark, Table(f"{table.path}/*.parquet", "t")) == [0]
    assert (folder / "notes.txt").exists()
    assert not (folder / "_staging").exists()


def test_replace_replaces_the_rows_and_keeps_the_columns(spark, table):
    writer = ParquetWriter()
    writer.append(table, rows(spark, 0, 2), marker(1, "{}"))
    types = writer.get_column_types(spark, table)
    writer.replace(table, rows(spark, 7).selectExpr("id", "1 AS new"), marker(2))
    assert ids(spark, table) == [7]
    assert writer.get_column_types(spark, table) == {**types, "new": "int"}
    assert writer.get_last_metadata(spark, table).state == "{}"


def test_columns_can_be_added_and_types_not_changed(spark, table):
    writer = ParquetWriter()
    writer.append(table, rows(spark, 0), marker(1))
    writer.alter(
        spark,
        table,
        [SchemaChange("add", ("new",), "string"), SchemaChange("add", ("o", "n"), "int")],
    )
    data = rows(spark, 1).selectExpr(
        "id", "`a.b`", "named_struct('x_y', id, 'n', 1) AS o", "'v' AS new"
    )
    writer.append(table, data, marker(2))
    merged = spark.read.option("mergeSchema", "true").parquet(f"file://{table.path}")
    assert [row.new for row in merged.orderBy("id").collect()] == [None, "v"]
    assert writer.get_column_types(spark, table)["o"] == "struct<`x_y`: bigint, `n`: int>"

    assert not writer.can_widen("int", "bigint")
    with pytest.raises(UnsupportedError, match="cannot change the type of id"):
        writer.alter(spark, table, [SchemaChange("widen", ("id",), "decimal(38,0)")])


def test_upsert_is_rejected_with_a_remedy(spark, table):
    with pytest.raises(UnsupportedError, match="format to delta, or write_mode to append"):
        ParquetWriter().upsert(table, rows(spark, 0), MergeKeys(("id",), "id"), marker(1))


def test_folder_with_foreign_parquet_files_is_an_error(spark, tmp_path):
    assert ParquetWriter().get_column_types(spark, Table(str(tmp_path / "none"), "x")) is None
    assert ParquetWriter().get_column_types(spark, Table(str(tmp_path), "x")) is None
    (tmp_path / "_hidden").write_text("", encoding="utf-8")
    assert ParquetWriter().get_column_types(spark, Table(str(tmp_path), "x")) is None
    (tmp_path / "part-00000-6a3f.snappy.parquet").write_text("", encoding="utf-8")
    with pytest.raises(TableError, match="is not a table in Parquet format"):
        ParquetWriter().get_column_types(spark, Table(str(tmp_path), "x"))


@pytest.mark.parametrize(
    "sign, table_format", [("_delta_log", "delta"), ("_manifest.json", "parquet")]
)
def test_table_in_another_format_is_an_error_that_names_the_setting(tmp_path, sign, table_format):
    (tmp_path / "a.parquet").touch()
    (tmp_path / sign).touch()
    with pytest.raises(TableError, match=f"Set format to {table_format}, or path to another"):
        check_folder_is_empty(tmp_path, "Iceberg")


@pytest.mark.parametrize("text", ["{", "[]", '{"commit": 1}', '{"commit":1,"marker":3,"parts":[]}'])
def test_invalid_manifest_is_an_error(spark, tmp_path, text):
    (tmp_path / "_manifest.json").write_text(text, encoding="utf-8")
    with pytest.raises(TableError, match=r"_manifest\.json is not a manifest"):
        ParquetWriter().get_column_types(spark, Table(str(tmp_path), "x"))


def test_object_store_address_is_rejected_with_a_remedy(spark):
    with pytest.raises(UnsupportedError, match="Set format to delta"):
        ParquetWriter().append(Table("s3a://b/t", "t"), spark.range(1), marker(1))


def test_file_uri_and_relative_path_are_the_same_folder(spark, table):
    ParquetWriter().append(table, rows(spark, 0), marker(1))
    same = Table(f"file://{table.path}", "t")
    assert ParquetWriter().get_last_metadata(spark, same) == marker(1)
    relative = Table(os.path.relpath(table.path), "t")
    ParquetWriter().append(relative, rows(spark, 1), marker(2))
    assert ids(spark, table) == [0, 1]


def test_two_runs_commit_to_one_folder_one_at_a_time(spark, tmp_path, monkeypatch):
    """Without the lock, the second run would remove uncommitted files of the first."""
    table = Table(str(tmp_path / "t"), "t")
    first, second = ParquetWriter(), ParquetWriter()
    for writer in (first, second):
        writer.create(spark, table, LAYOUT, TableLayout(), has_rows=True)
    move, threads = parquet._move_files, []

    def with_another(*args):
        monkeypatch.setattr(parquet, "_move_files", move)
        names = move(*args)
        batch = rows(spark, 10, 2)
        commit = partial(second.append, table, batch, marker(1, run="r2"), 2)
        threads.append(Thread(target=commit))
        threads[0].start()
        threads[0].join(2)
        return names

    monkeypatch.setattr(parquet, "_move_files", with_another)
    first.append(table, rows(spark, 0, 2), marker(1), 2)
    threads[0].join()
    assert ids(spark, table) == [0, 1, 10, 11]
    with pytest.raises(ConflictError, match="Another run has written"):
        first.append(table, rows(spark, 2), marker(2), 1)
    first.append(table, rows(spark, 2), marker(2), 1)
    assert ids(spark, table) == [0, 1, 2, 10, 11]
