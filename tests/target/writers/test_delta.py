"""Delta tables: batch, metadata and rows are one commit, and a skipped write is an error."""

from __future__ import annotations

import json
import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql.types import ArrayType, DecimalType, MapType, StringType, StructField, StructType

from target_spark.columns import (
    Column,
    Decimal,
    Integer,
    SchemaChange,
    Struct,
    TableSchema,
    Text,
)
from target_spark.errors import CommitLostError, TableError, UnsupportedError
from target_spark.storage.uris import to_spark_uri
from target_spark.tables.commit_metadata import NO_METADATA, CommitMetadata, txn_app_id
from target_spark.tables.identifiers import quote
from target_spark.tables.table import Table, TableLayout
from target_spark.writers import MergeKeys, get_writer
from target_spark.writers.delta.log_reader import (
    Commit,
    commits,
    read_last_metadata,
)
from target_spark.writers.delta.writer import DeltaWriter
from target_spark.writers.spark_types import to_ddl
from target_spark.writers.type_widening import delta_widens
from tests.target.writers.sample_rows import KEYS, LAYOUT, batch, marker, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.spark.session import Session

pytestmark = pytest.mark.spark


def content(spark: SparkSession, table: Table) -> list[tuple[object, ...]]:
    read = spark.read.format("delta").load(to_spark_uri(table.path))
    return sorted(tuple(row) for row in read.collect())


def log(table: Table) -> list[dict[str, dict[str, object]]]:
    """Return the actions of the newest commit, read from its file."""
    newest = max(Path(table.path, "_delta_log").glob("*.json"))
    return [json.loads(line) for line in newest.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Table:
    new_table = Table(str(tmp_path / "people"), "people")
    DeltaWriter().create(spark, new_table, LAYOUT, TableLayout())
    return new_table


# ------------------------------------------------------------------ commits and markers


def test_batch_and_metadata_are_one_commit(spark, table):
    writer = DeltaWriter()
    writer.append(table, rows(spark, (1, "a", 1)), marker(1, '{"x": 1}'))

    actions = log(table)
    assert CommitMetadata.from_json(actions[0]["commitInfo"]["userMetadata"]) == marker(
        1, '{"x": 1}'
    )
    assert [a["txn"]["version"] for a in actions if "txn" in a] == [1]
    assert [a["txn"]["appId"] for a in actions if "txn" in a] == ["target-spark:job:people:r1"]
    assert sum("add" in a for a in actions) == 1
    assert writer.get_last_metadata(spark, table) == marker(1, '{"x": 1}')


def test_merge_commit_carries_metadata_and_transaction(spark, table):
    writer = DeltaWriter()
    writer.append(table, rows(spark, (1, "a", 1)), marker(1))
    writer.upsert(table, batch(spark, (1, "b", 2)), KEYS, marker(2, "{}"))

    actions = log(table)
    assert actions[0]["commitInfo"]["operation"] == "MERGE"
    assert CommitMetadata.from_json(actions[0]["commitInfo"]["userMetadata"]) == marker(2, "{}")
    assert [a["txn"]["version"] for a in actions if "txn" in a] == [2]
    assert content(spark, table) == [(1, "b", 2)]


def test_repeated_batch_is_recognized_and_not_written_again(spark, table):
    first = DeltaWriter()
    first.append(table, rows(spark, (1, "a", 1)), marker(1))

    retry = DeltaWriter()  # has no result of the first try, as after an exception
    retry.append(table, rows(spark, (1, "a", 1)), marker(1))
    retry.upsert(table, batch(spark, (2, "b", 2)), KEYS, marker(2))
    second_retry = DeltaWriter()
    second_retry.upsert(table, batch(spark, (2, "b", 2)), KEYS, marker(2))

    assert content(spark, table) == [(1, "a", 1), (2, "b", 2)]
    assert len(list(commits(spark, table))) == 3  # create, append, merge


def test_exception_after_the_commit_does_not_duplicate_the_batch(spark, table):
    """The commit is made, then its response is lost; the same call is repeated."""
    answers = iter([ConnectionError("lost"), None])

    class LostResponseWriter(DeltaWriter):
        def _verify(self, *args):
            snapshot = super()._verify(*args)
            error = next(answers)
            if error is not None:
                raise error
            return snapshot

    writer = LostResponseWriter()
    data = rows(spark, (1, "a", 1), (2, "b", 2))
    with pytest.raises(ConnectionError):
        writer.append(table, data, marker(1, "{}"))
    writer.append(table, data, marker(1, "{}"))
    assert content(spark, table) == [(1, "a", 1), (2, "b", 2)]


@pytest.mark.parametrize(
    "method",
    [
        "append",
        pytest.param("replace", marks=pytest.mark.thorough),
        pytest.param("upsert", marks=pytest.mark.thorough),
        "commit_empty",
    ],
)
def test_batch_number_that_does_not_increase_is_an_error(spark, table, method):
    writer = DeltaWriter()
    writer.append(table, rows(spark, (1, "a", 1)), marker(1))
    writer.append(table, rows(spark, (2, "b", 2)), marker(2))

    for delta_writer, number in ((writer, 2), (writer, 1), (DeltaWriter(), 1)):
        arguments = {
            "append": [table, rows(spark, (3, "c", 3))],
            "replace": [table, rows(spark, (3, "c", 3))],
            "upsert": [table, batch(spark, (3, "c", 3)), KEYS],
            "commit_empty": [spark, table],
        }[method]
        with pytest.raises(CommitLostError, match="Batch"):
            getattr(delta_writer, method)(*arguments, marker(number))
    assert content(spark, table) == [(1, "a", 1), (2, "b", 2)]


@pytest.mark.parametrize("mode", ["append", pytest.param("overwrite", marks=pytest.mark.thorough)])
def test_batch_that_delta_skips_is_an_error(spark, table, mode):
    """A commit without metadata has used a higher version of the same transaction id."""
    app_id = txn_app_id("job", "people", "r1")
    foreign = rows(spark, (1, "a", 1)).write.format("delta").mode("append")
    foreign.options(txnAppId=app_id, txnVersion=7).save(to_spark_uri(table.path))

    writer = DeltaWriter()
    write = writer.append if mode == "append" else writer.replace
    with pytest.raises(CommitLostError, match="was written without an error"):
        write(table, rows(spark, (2, "b", 2)), marker(1))
    with pytest.raises(CommitLostError):
        writer.upsert(table, batch(spark, (2, "b", 2)), KEYS, marker(2))
    assert content(spark, table) == [(1, "a", 1)]


def test_new_run_numbers_its_batches_from_one(spark, table):
    DeltaWriter().append(table, rows(spark, (1, "a", 1)), marker(5))
    DeltaWriter().append(table, rows(spark, (2, "b", 2)), marker(1, run="r2", started=2))
    assert content(spark, table) == [(1, "a", 1), (2, "b", 2)]


def test_commit_without_a_state_repeats_the_earlier_state(spark, table):
    DeltaWriter().append(table, rows(spark, (1, "a", 1)), marker(3, '{"s": 1}'))
    DeltaWriter().append(table, rows(spark, (2, "b", 2)), marker(1, run="r2", started=2))

    metadata = DeltaWriter().get_last_metadata(spark, table)
    assert metadata == replace(marker(3, '{"s": 1}'), run="r2", batch=1, uncovered_since=2)


def test_state_can_be_committed_without_rows(spark, table):
    writer = DeltaWriter()
    writer.append(table, rows(spark, (1, "a", 1)), marker(1))
    writer.commit_empty(spark, table, marker(2, '{"last": true}'))
    assert writer.get_last_metadata(spark, table) == marker(2, '{"last": true}')
    assert content(spark, table) == [(1, "a", 1)]
    DeltaWriter().commit_empty(spark, table, marker(2, '{"last": true}'))  # its response was lost


def test_replace_is_one_commit_with_its_metadata(spark, table):
    writer = DeltaWriter()
    writer.append(table, rows(spark, (1, "a", 1)), marker(1))
    writer.replace(table, rows(spark, (2, "b", 2)), marker(2, "{}"))
    actions = log(table)
    assert actions[0]["commitInfo"]["operationParameters"]["mode"] == "Overwrite"
    assert {next(iter(a)) for a in actions} == {"commitInfo", "txn", "add", "remove"}
    assert content(spark, table) == [(2, "b", 2)]


# ----------------------------------------------------------------------------- history


@pytest.mark.thorough
def test_metadata_is_found_below_foreign_commits(spark, table):
    DeltaWriter().append(table, rows(spark, (1, "a", 1)), marker(1, "{}"))
    address = to_spark_uri(table.path)
    for metadata in ("not json", "[1]", '{"target_spark": {"job": 1}}', '{"target_spark": null}'):
        write = rows(spark, (9, "z", 9)).write.format("delta").mode("append")
        write.option("userMetadata", metadata).save(address)
    spark.sql(f"OPTIMIZE delta.`{address}`").collect()
    spark.sql(f"DELETE FROM delta.`{address}` WHERE id = 9").collect()  # noqa: S608

    writer = DeltaWriter()
    assert writer.get_last_metadata(spark, table) == marker(1, "{}")
    writer.append(table, rows(spark, (2, "b", 2)), marker(2))
    assert DeltaWriter().get_last_metadata(spark, table) == replace(marker(1, "{}"), batch=2)


@pytest.mark.thorough
def test_metadata_is_read_from_a_log_without_its_old_commits(spark, table):
    writer = DeltaWriter()
    properties = "('delta.checkpointInterval' = '2')"
    spark.sql(f"ALTER TABLE delta.`{table.path}` SET TBLPROPERTIES {properties}").collect()
    for number in range(1, 4):
        writer.append(table, rows(spark, (number, "a", 1)), marker(number, f"[{number}]"))
    folder = Path(table.path, "_delta_log")
    checkpoint = max(int(file.name[:20]) for file in folder.glob("*.checkpoint*.parquet"))
    for file in folder.glob("*.json"):
        if file.stem.isdigit() and int(file.stem) < checkpoint:
            file.unlink()

    assert DeltaWriter().get_last_metadata(spark, table) == marker(3, "[3]")
    fresh = DeltaWriter()
    fresh.append(table, rows(spark, (4, "a", 1)), marker(4))
    assert len(content(spark, table)) == 4
    for file in folder.glob("*.json"):
        file.unlink()
    assert DeltaWriter().get_last_metadata(spark, table) is None


def test_log_files_are_read_by_the_delta_protocol(tmp_path):
    folder = tmp_path / "_delta_log"
    folder.mkdir()
    ours = json.dumps({"commitInfo": {"userMetadata": marker(1).to_json()}})
    files = {
        f"{0:020}.json": f'{{"protocol":{{}}}}\n{ours}\n',
        f"{1:020}.json": '{"commitInfo":{"operation":"WRITE"}}\n',
        f"{2:020}.json": '{"add":{}}\n',
        f"{1:020}.{2:020}.compacted.json": ours,
        "x.json": ours,
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / f"{3:020}.json").symlink_to(tmp_path / "cleaned away")

    commits_read = list(commits(None, Table(str(tmp_path), "t")))
    assert [commit[:2] for commit in commits_read] == [
        (3, None),
        (2, None),
        (1, None),
        (0, marker(1)),
    ]
    assert DeltaWriter().get_last_metadata(None, Table(str(tmp_path), "t")) == marker(1)


@pytest.mark.parametrize(
    ("parameters", "last"),
    [
        ({"version": 1, "timestamp": None}, 1),
        ({"version": "1"}, 1),
        ({"version": None, "timestamp": "1970-01-01 00:00:01.500"}, 1),
        ({"version": None, "timestamp": "1970-01-01T00:00:03+00:00"}, 3),
        ({"datetime": "2999"}, 2),
        ({"timestamp": "not a time"}, None),
        (None, None),
    ],
)
def test_commits_that_a_restore_has_undone_do_not_count(tmp_path, parameters, last):
    restore = {"operation": "RESTORE", "operationParameters": parameters}
    written = [{"userMetadata": marker(n, f"[{n}]").to_json()} for n in range(4)]
    folder = tmp_path / "_delta_log"
    folder.mkdir()
    for version, info in enumerate([*written, restore, {"operation": "OPTIMIZE"}]):
        file = folder / f"{version:020}.json"
        file.write_text(json.dumps({"commitInfo": info}), encoding="utf-8")
        os.utime(file, (version, version))

    metadata = DeltaWriter().get_last_metadata(None, Table(str(tmp_path), "t"))
    assert metadata == read_last_metadata(tmp_path)
    assert metadata == (None if last is None else marker(last, f"[{last}]"))


def test_restore_during_a_run_is_an_error_and_stores_no_state(tmp_path):
    table, writer = Table(str(tmp_path / "t"), "t"), DeltaWriter(avoids_spark=True)
    writer.create(None, table, LAYOUT, TableLayout())
    for number in (1, 2):
        writer.commit_empty(None, table, marker(number, f"[{number}]"))
    DeltaTable(table.path).restore(1)

    with pytest.raises(TableError, match="an earlier version of it was restored"):
        writer.commit_empty(None, table, marker(3, "[3]"))
    assert read_last_metadata(Path(table.path)) == marker(1, "[1]")


def test_commit_right_after_one_of_another_run_of_the_job_is_an_error(monkeypatch):
    """The other run has committed after this one has read the table, and before its commit."""
    ours, theirs = replace(marker(1), earlier=NO_METADATA), marker(1, run="r2")
    history = [Commit(2, ours), Commit(1, theirs), Commit(0)]
    monkeypatch.setattr("target_spark.writers.delta.writer.commits", lambda *_: iter(history))
    with pytest.raises(TableError, match="is now commit 1 of run r2"):
        DeltaWriter()._verify(None, Table("s3a://bucket/t", "t"), ours)


def test_unreachable_location_is_an_error_and_not_an_empty_table(spark):
    table = Table("nosuch://host/t", "t")
    for ask in (DeltaWriter().get_last_metadata, DeltaWriter().get_column_types):
        with pytest.raises(Exception, match="nosuch"):
            ask(spark, table)


def test_field_names_in_type_ddl_are_quoted():
    struct = StructType([StructField("a`b", DecimalType(10, 2))])
    assert to_ddl(MapType(StringType(), ArrayType(struct))) == (
        "map<string, array<struct<`a``b`: decimal(10,2)>>>"
    )


def test_commits_are_the_same_from_files_and_from_spark(spark, table, monkeypatch):
    writer = DeltaWriter()
    for number in range(1, 5):
        writer.commit_empty(spark, table, marker(number, f"[{number}]"))
    by_files = list(commits(spark, table))
    monkeypatch.setattr(Table, "local_folder", None)
    monkeypatch.setattr("target_spark.writers.delta.log_reader._HISTORY_LIMITS", (2, 3))
    assert list(commits(spark, table)) == by_files
    assert len(by_files) == 5
    assert DeltaWriter().get_last_metadata(spark, table.with_suffix("_none")) is None


@pytest.mark.parametrize("is_remote", [False, True])
def test_missing_table_has_no_metadata_and_no_types(spark, tmp_path, monkeypatch, is_remote):
    if is_remote:
        monkeypatch.setattr(Table, "local_folder", None)
    table = Table(str(tmp_path / "none"), "none")
    assert DeltaWriter().get_last_metadata(spark, table) is None
    assert DeltaWriter().get_column_types(spark, table) is None
    Path(table.path, "_delta_log").mkdir(parents=True)
    assert DeltaWriter().get_column_types(spark, table) is None


def test_folder_with_foreign_files_is_an_error(spark, tmp_path):
    (tmp_path / "data.csv").write_text("a,b", encoding="utf-8")
    with pytest.raises(TableError, match=r"data\.csv"):
        DeltaWriter().get_column_types(spark, Table(str(tmp_path), "x"))


# ---------------------------------------------------------------------------- upserting


@pytest.mark.thorough
def test_first_rows_of_an_empty_table_are_appended(spark, tmp_path):
    table = Table(str(tmp_path / "t"), "t")
    writer = DeltaWriter()
    writer.create(spark, table, LAYOUT, TableLayout())
    data = batch(spark, (1, "old", 1), (1, "new", 3), (2, "x", 2))
    writer.upsert(table, data, KEYS, marker(1))
    assert log(table)[0]["commitInfo"]["operation"] == "WRITE"
    assert content(spark, table) == [(1, "new", 3), (2, "x", 2)]
    writer.upsert(table, batch(spark, (2, "y", 4), (3, "z", 5)), KEYS, marker(2))
    assert log(table)[0]["commitInfo"]["operation"] == "MERGE"
    assert content(spark, table) == [(1, "new", 3), (2, "y", 4), (3, "z", 5)]


def test_upsert_keeps_columns_absent_from_the_batch(spark, table):
    writer = DeltaWriter()
    writer.append(table, rows(spark, (1, "a", 1)), marker(1))
    writer.alter(spark, table, [SchemaChange("add", ("extra",), "string")])
    address = f"delta.`{to_spark_uri(table.path)}`"
    spark.sql(f"UPDATE {address} SET extra = 'kept'").collect()  # noqa: S608
    writer.upsert(table, batch(spark, (1, "b", 2), (2, "c", 3)), KEYS, marker(2))
    assert content(spark, table) == [(1, "b", 2, "kept"), (2, "c", 3, None)]


@pytest.mark.thorough
def test_special_characters_in_column_field_and_key_names_are_supported(spark, tmp_path):
    names = ["a.b", "😀", "select", "Ä-b", "it's"]
    columns = tuple(Column(name, name, Integer()) for name in names)
    nested = Column("o.o", "o.o", Struct((Column("x.y", "x.y", Integer()),)))
    table = Table(str(tmp_path / "odd 'table'"), "odd")
    writer = DeltaWriter()
    writer.create(spark, table, TableSchema((*columns, nested)), TableLayout())
    values = ", ".join(f"1L AS {quote(name)}" for name in names)
    data = spark.sql(f"SELECT {values}, named_struct('x.y', 1L) AS `o.o`, 1L AS `or.der`")
    keys = MergeKeys(("a.b", "😀"), order="or.der")
    writer.upsert(table, data, keys, marker(1))
    writer.upsert(table, data, keys, marker(2))
    writer.alter(spark, table, [SchemaChange("add", ("o.o", "n.w"), "bigint")])
    assert content(spark, table) == [(1, 1, 1, 1, 1, (1, None))]
    assert writer.get_column_types(spark, table) == {
        **dict.fromkeys(names, "bigint"),
        "o.o": "struct<`x.y`: bigint, `n.w`: bigint>",
    }
    reader, writer_version = protocol(table)
    assert (reader, writer_version) == (1, 2)


def protocol(table: Table) -> tuple[int, int]:
    for file in sorted(Path(table.path, "_delta_log").glob("*.json"), reverse=True):
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.startswith('{"protocol"'):
                versions = json.loads(line)["protocol"]
                return versions["minReaderVersion"], versions["minWriterVersion"]
    raise AssertionError(table)


# ----------------------------------------------------------------------------- evolution


def test_schema_changes_are_applied_and_repeat_the_metadata(spark, tmp_path):
    table_schema = TableSchema(
        (
            Column("id", "id", Integer(32)),
            Column("d", "d", Decimal(10, 2)),
            Column("o", "o", Struct((Column("x", "x", Decimal(10, 2)),))),
        )
    )
    table = Table(str(tmp_path / "t"), "t")
    writer = DeltaWriter()
    writer.create(spark, table, table_schema, TableLayout())
    data = spark.sql(
        "SELECT 1 AS id, 1.50BD::decimal(10,2) AS d, named_struct('x', 2.25BD::decimal(10,2)) AS o"
    )
    writer.append(table, data, marker(1, "{}"))
    steps = [
        SchemaChange("add", ("new",), "string"),
        SchemaChange("add", ("o", "y"), "array<struct<`k`: bigint>>"),
        SchemaChange("add", ("o", "y", "element", "m"), "bigint"),
        SchemaChange("widen", ("id",), "bigint"),
        SchemaChange("widen", ("d",), "decimal(38,6)"),
        SchemaChange("widen", ("o", "x"), "decimal(20,2)"),
    ]
    DeltaWriter().alter(spark, table, steps[:2])
    DeltaWriter().alter(spark, table, steps[2:])

    assert writer.get_column_types(spark, table) == {
        "id": "bigint",
        "d": "decimal(38,6)",
        "o": "struct<`x`: decimal(20,2), `y`: array<struct<`k`: bigint, `m`: bigint>>>",
        "new": "string",
    }
    history = list(commits(spark, table))
    assert [commit.marker for commit in history[:-1]] == [marker(1, "{}")] * (len(history) - 1)
    assert len(history) > 5
    assert [str(value) for value in content(spark, table)[0][:2]] == ["1", "1.500000"]
    writer.append(table, spark.table(f"delta.`{table.path}`"), marker(2))
    assert len(content(spark, table)) == 2


WIDENINGS = [
    ("int", "bigint", True),
    ("tinyint", "int", True),
    ("bigint", "int", False),
    ("int", "decimal(10,0)", True),
    ("int", "decimal(11,2)", False),
    ("bigint", "decimal(20,0)", True),
    ("bigint", "decimal(22,2)", True),
    ("bigint", "decimal(19,0)", False),
    ("decimal(10,2)", "decimal(20,2)", True),
    ("decimal(10,2)", "decimal(24,6)", True),
    ("decimal(10,2)", "decimal(12,6)", False),
    ("decimal(10,2)", "decimal(10,2)", False),
    ("decimal(20,2)", "double", False),
    ("float", "double", True),
    ("int", "double", True),
    ("bigint", "double", False),
    ("bigint", "string", False),
    ("date", "timestamp", False),
]


@pytest.fixture(scope="module")
def widened(spark_session, tmp_path_factory) -> str:
    """Return the address of a table with the columns c0, c1 … of the old types in WIDENINGS."""
    address = f"delta.`{to_spark_uri(str(tmp_path_factory.mktemp('widened') / 't'))}`"
    columns = ", ".join(f"c{number} {old}" for number, (old, _, _) in enumerate(WIDENINGS))
    spark_session.spark().sql(
        f"CREATE TABLE {address} ({columns}) USING delta"
        " TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
    )
    return address


@pytest.mark.parametrize("number, old, new, possible", [(n, *c) for n, c in enumerate(WIDENINGS)])
def test_can_widen_agrees_with_delta(spark, widened, number, old, new, possible):
    assert DeltaWriter().can_widen(old, new) is possible
    if old == new:
        return
    statement = f"ALTER TABLE {widened} ALTER COLUMN c{number} TYPE {new}"
    if possible:
        spark.sql(statement)
    else:
        with pytest.raises(AnalysisException, match=r"NOT_SUPPORTED|UNSUPPORTED"):
            spark.sql(statement)


def test_delta_widens_is_false_for_structs_and_text():
    assert not delta_widens("struct<`a`: int>", "struct<`a`: bigint>")
    assert not delta_widens("string", "decimal(10,2)")


def test_created_table_has_comments_and_transaction_retention(spark, tmp_path):
    table = Table(str(tmp_path / "t"), "t")
    comment = 'it\'s \\ "so"\n`x`'
    DeltaWriter().create(
        spark, table, TableSchema((Column("a", "a", Text(), comment),)), TableLayout()
    )
    assert spark.table(f"delta.`{table.path}`").schema["a"].metadata == {"comment": comment}
    detail = spark.sql(f"DESCRIBE DETAIL delta.`{table.path}`").collect()[0]
    assert detail["properties"]["delta.setTransactionRetentionDuration"] == "interval 14 days"
    DeltaWriter().create(spark, table, LAYOUT, TableLayout())  # an existing table is not changed
    assert DeltaWriter().get_column_types(spark, table) == {"a": "string"}


# ------------------------------------------------------------------------------- threads


@pytest.mark.thorough
def test_concurrent_merges_carry_only_their_own_metadata(spark_session: Session, tmp_path: Path):
    """The threads of a session share its settings, so each thread has its own session."""
    count, rounds = 6, 2
    tables = [Table(str(tmp_path / f"t{i}"), f"t{i}") for i in range(count)]
    errors: list[BaseException] = []
    barrier = threading.Barrier(count)

    def load(i: int) -> None:
        try:
            spark = spark_session.thread_session()
            writer = DeltaWriter()
            writer.create(spark, tables[i], LAYOUT, TableLayout())
            first = replace(marker(1, f'"{i}-1"'), job=f"job{i}")
            writer.append(tables[i], rows(spark, (i, "a", 1)), first)
            barrier.wait(120)
            for number in range(2, 2 + rounds):
                metadata = replace(marker(number, f'"{i}-{number}"'), job=f"job{i}")
                writer.upsert(tables[i], batch(spark, (i, "b", number)), KEYS, metadata)
        except BaseException as error:  # noqa: BLE001
            errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=load, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    spark = spark_session.spark()
    for i, table in enumerate(tables):
        states = [commit.marker.state for commit in commits(spark, table) if commit.marker]
        assert states == [f'"{i}-{number}"' for number in range(1 + rounds, 0, -1)]
        assert content(spark, table) == [(i, "b", 1 + rounds)]


def test_each_thread_keeps_a_session_with_its_own_settings(spark_session):
    spark = spark_session.thread_session()
    assert spark_session.thread_session() is spark
    spark.conf.set("spark.sql.target_spark.test", "mine")
    results: list[object] = []

    def use_session() -> None:
        other = spark_session.thread_session()
        results.extend([other is spark, other.conf.get("spark.sql.target_spark.test", None)])

    thread = threading.Thread(target=use_session)
    thread.start()
    thread.join()
    spark.conf.unset("spark.sql.target_spark.test")
    assert results == [False, None]


@pytest.mark.thorough
def test_merge_leaves_no_settings_in_the_session(spark, table):
    writer = DeltaWriter()
    writer.append(table, rows(spark, (1, "a", 1)), marker(1))
    writer.upsert(table, batch(spark, (1, "b", 2)), KEYS, marker(2))
    broken = spark.sql(
        "SELECT 1L AS id, CAST(raise_error('boom') AS STRING) AS name, 1L AS n, 1L AS at"
    )
    with pytest.raises(Exception, match="boom"):
        writer.upsert(table, broken, KEYS, marker(3))
    assert spark.catalog.listTables() == []
    rows(spark, (5, "e", 5)).write.format("delta").mode("append").save(to_spark_uri(table.path))
    actions = log(table)
    assert "userMetadata" not in actions[0]["commitInfo"]
    assert not any("txn" in action for action in actions)


def test_write_to_a_removed_table_is_an_error(spark, table):
    writer = DeltaWriter()
    writer.append(table, rows(spark, (1, "a", 1)), marker(1))
    shutil.rmtree(table.path)
    with pytest.raises(TableError, match="was removed while it was loaded"):
        writer.upsert(table, batch(spark, (1, "b", 2)), KEYS, marker(2))


def test_get_writer_selects_by_format():
    assert get_writer("delta").keeps_batch
    assert not get_writer("iceberg").keeps_batch
    with pytest.raises(UnsupportedError, match="delta, iceberg, parquet"):
        get_writer("csv")
