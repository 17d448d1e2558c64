"""Appends to Delta tables in local folders: Spark writes the files, deltalake commits them."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from target_spark.columns import Column, Integer, SchemaChange, TableSchema, Text
from target_spark.columns.types import LocalTimestamp
from target_spark.errors import CommitLostError, ConflictError, RowCountError, TableError
from target_spark.storage.uris import to_spark_uri
from target_spark.tables.table import MaintenanceOptions, PartitionField, Table, TableLayout
from target_spark.writers.delta import data_files
from target_spark.writers.delta.log_reader import commits
from target_spark.writers.delta.writer import DeltaWriter
from tests.target.warehouse import ID, ID_AND_NAME, Warehouse, record, schema, state
from tests.target.writers.sample_rows import KEYS, LAYOUT, batch, marker, rows
from tests.target.writers.test_delta import content

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.spark


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(str(tmp_path / "people"), "people")


def read_log_entries(folder: Path, version: int) -> list[dict[str, Any]]:
    text = (folder / "_delta_log" / f"{version:020}.json").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def versions(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "_delta_log").glob("*.json"))


def engines(folder: Path) -> list[str]:
    """Return the implementation of the Delta protocol that made each commit."""
    infos = (read_log_entries(folder, version)[0] for version in range(len(versions(folder))))
    return [info["commitInfo"]["engineInfo"].partition(":")[0] for info in infos]


def list_added_files(folder: Path) -> list[str]:
    """Return the files that the commits of a table add."""
    lines = (
        line
        for version in range(len(versions(folder)))
        for line in read_log_entries(folder, version)
    )
    return sorted(line["add"]["path"] for line in lines if "add" in line)


def create_writer(spark: SparkSession, table: Table) -> DeltaWriter:
    writer = DeltaWriter()
    writer.create(spark, table, LAYOUT, TableLayout(), has_rows=True)
    return writer


def append_as_other_tool(table: Table, *ids: int) -> None:
    """Append rows as another tool does."""
    names = pa.array(["theirs"] * len(ids), pa.string())
    numbers = pa.array([0] * len(ids), pa.int64())
    fields = {"id": pa.array(ids, pa.int64()), "name": names, "n": numbers}
    write_deltalake(table.path, pa.table(fields), mode="append")


def test_append_is_one_commit_with_metadata_and_transaction(
    spark: SparkSession, table: Table
) -> None:
    writer, folder = create_writer(spark, table), Path(table.path)
    assert writer.is_empty(spark, table)
    effect = writer.append(table, rows(spark, (1, "a", 1)), marker(1, '{"x": 1}'))
    assert (effect.inserted, effect.files, effect.nbytes > 0) == (1, 1, True)
    assert engines(folder) == ["delta-rs", "delta-rs"]
    kinds = [next(iter(action)) for action in read_log_entries(folder, 1)]
    assert sorted(kinds) == ["add", "commitInfo", "txn"]
    assert writer.get_last_metadata(spark, table) == marker(1, '{"x": 1}')
    assert list_added_files(folder) == [path.name for path in folder.glob("*.parquet")]
    assert [path.name for path in folder.glob(".*")] == []
    assert content(spark, table) == [(1, "a", 1)]


def test_later_batches_and_runs_are_committed_by_deltalake(
    spark: SparkSession, table: Table
) -> None:
    """This includes commits after version 10, at which Delta writes its first checkpoint."""
    folder = Path(table.path)
    writer = create_writer(spark, table)
    for number in range(1, 14):
        if number % 5:
            effect = writer.append(table, rows(spark, (number, "a", 1)), marker(number))
            assert (effect.inserted, effect.files) == (1, 1)
        else:
            writer.commit_empty(spark, table, marker(number, f'{{"x": {number}}}'))
    second_writer = DeltaWriter()
    assert second_writer.get_column_types(spark, table) == {
        "id": "bigint",
        "name": "string",
        "n": "bigint",
    }
    second_writer.append(table, rows(spark, (21, "b", 1)), marker(1, run="r2", started=2))
    assert set(engines(folder)) == {"delta-rs"}
    assert [row[0] for row in content(spark, table)] == [n for n in (*range(1, 14), 21) if n % 5]
    last = writer.get_last_metadata(spark, table)
    assert last is not None
    assert (last.batch, last.state) == (1, '{"x": 10}')


@pytest.mark.thorough
def test_rows_of_another_writer_between_batches_are_kept(spark: SparkSession, table: Table) -> None:
    writer, folder = create_writer(spark, table), Path(table.path)
    writer.append(table, rows(spark, (1, "a", 1)), marker(1))
    append_as_other_tool(table, 7)
    spark_rows = rows(spark, (8, "b", 2)).write.format("delta").mode("append")
    spark_rows.save(to_spark_uri(table.path))
    writer.append(table, rows(spark, (2, "a", 1)), marker(2))
    assert [row[0] for row in content(spark, table)] == [1, 2, 7, 8]
    assert list_added_files(folder) == sorted(path.name for path in folder.glob("*.parquet"))


def before_the_commit(
    monkeypatch: pytest.MonkeyPatch, action: Callable[[], object], *, times: int = 1
) -> None:
    """Run an action between the writing of a batch's files and its commit."""
    commit = DeltaTable.create_write_transaction
    remaining = [times]

    def replaced(self: DeltaTable, *args: Any, **named: Any) -> None:
        if named["commit_properties"].app_transactions and remaining[0]:
            remaining[0] -= 1
            action()
        commit(self, *args, **named)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", replaced)


def test_append_succeeds_after_concurrent_commits(
    spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of the append are not written again, and no rows are lost."""
    writer, folder = create_writer(spark, table), Path(table.path)
    before_the_commit(monkeypatch, lambda: append_as_other_tool(table, 7), times=3)
    writer.append(table, rows(spark, (1, "a", 1)), marker(1))
    assert sorted(row[0] for row in content(spark, table)) == [1, 7, 7, 7]
    assert list_added_files(folder) == sorted(path.name for path in folder.glob("*.parquet"))


def test_first_rows_with_keys_are_merged_with_concurrently_added_rows(
    spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key in both batches is in the table once."""
    writer = create_writer(spark, table)
    before_the_commit(monkeypatch, lambda: append_as_other_tool(table, 1, 3))
    data = batch(spark, (1, "ours", 1), (2, "ours", 1))
    with pytest.raises(ConflictError):
        writer.upsert(table, data, KEYS, marker(1))
    writer.upsert(table, data, KEYS, marker(1))
    assert content(spark, table) == [(1, "ours", 1), (2, "ours", 1), (3, "theirs", 0)]


@pytest.mark.thorough
def test_first_rows_of_a_partitioned_table_are_merged_with_added_rows(
    spark: SparkSession, table: Table
) -> None:
    """Spark commits them, and merges if the table has rows of others."""
    writer = DeltaWriter()
    writer.create(spark, table, LAYOUT, TableLayout(partition_by=(PartitionField("name"),)))
    append_as_other_tool(table, 1, 3)
    data = batch(spark, (1, "ours", 1), (2, "ours", 1))
    with pytest.raises(ConflictError):
        writer.upsert(table, data, KEYS, marker(1))
    writer.upsert(table, data, KEYS, marker(1))
    writer.upsert(table, batch(spark, (2, "more", 2)), KEYS, marker(2))
    assert content(spark, table) == [(1, "ours", 1), (2, "more", 2), (3, "theirs", 0)]


@pytest.mark.thorough
def test_first_rows_of_a_partitioned_table_duplicate_no_key(
    spark: SparkSession, table: Table
) -> None:
    writer = DeltaWriter()
    writer.create(spark, table, LAYOUT, TableLayout(partition_by=(PartitionField("name"),)))
    finished = threading.Event()

    def fill() -> None:
        while not (finished.is_set() or list(Path(table.path).glob("name=*/*.parquet"))):
            finished.wait(0.02)
        append_as_other_tool(table, 1)
        finished.set()

    thread = threading.Thread(target=fill)
    thread.start()
    slow = spark.range(0, 400_000, 1, 40).selectExpr(
        "id", "sha2(repeat(id, 500), 512) AS name", "1 AS n", "id AS at"
    )
    slow = slow.selectExpr("id", "substr(name, 1, 1) AS name", "CAST(n AS BIGINT) AS n", "at")
    try:
        writer.upsert(table, slow, KEYS, marker(1))
    except Exception as error:
        if "DELTA_CONCURRENT_APPEND" not in str(error):
            raise
    finished.set()
    thread.join()
    writer.upsert(table, slow, KEYS, marker(1))
    stored = spark.read.format("delta").load(to_spark_uri(table.path))
    assert (stored.count(), stored.select("id").distinct().count()) == (400_000, 400_000)


@pytest.mark.parametrize(
    "when",
    [
        pytest.param("never", marks=pytest.mark.thorough),
        "made",
        pytest.param("late", marks=pytest.mark.thorough),
    ],
)
def test_commit_whose_response_is_an_error_is_made_once(
    spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """The commit failed, or was made despite the error, or is made while the batch is retried."""
    writer, folder = create_writer(spark, table), Path(table.path)
    writer.append(table, rows(spark, (1, "a", 1)), marker(1))
    commit = DeltaTable.create_write_transaction
    waiting: list[Callable[[], None]] = []
    failures = [OSError(110, "Connection timed out")]

    def unclear(self: DeltaTable, *args: Any, **named: Any) -> None:
        if failures:
            if when == "made":
                commit(self, *args, **named)
            if when == "late":
                waiting.append(lambda: commit(self, *args, **named))
            raise failures.pop()
        while waiting:
            waiting.pop()()
        commit(self, *args, **named)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", unclear)
    data = rows(spark, (2, "b", 2))
    with pytest.raises(OSError, match="timed out"):
        writer.append(table, data, marker(2))
    effect = writer.append(table, data, marker(2))
    assert effect.inserted == 1
    assert content(spark, table) == [(1, "a", 1), (2, "b", 2)]
    assert all((folder / name).is_file() for name in list_added_files(folder))
    writer.append(table, rows(spark, (3, "c", 3)), marker(3))
    assert len(content(spark, table)) == 3


def test_files_with_missing_rows_are_not_committed(
    spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example the output of a task vanishes, which Spark takes for a task without rows."""
    writer, folder = create_writer(spark, table), Path(table.path)
    with pytest.raises(RowCountError, match=r"3 rows were to be written, but .* have 2"):
        writer.append(table, rows(spark, (1, "a", 1), (2, "b", 1)), marker(1), 3)
    file_of = data_files._data_file
    monkeypatch.setattr(data_files, "_data_file", lambda path: without_rows(file_of(path)))
    with pytest.raises(RowCountError, match=r"1 rows were to be written, but .* have 0"):
        writer.upsert(table, batch(spark, (1, "a", 1)), KEYS, marker(1))
    monkeypatch.undo()
    assert list_added_files(folder) == []
    assert list(folder.glob("*.parquet")) == []
    writer.append(table, rows(spark, (1, "a", 1)), marker(1), 1)


def without_rows(file: data_files.DataFile) -> data_files.DataFile:
    return data_files.DataFile(file.path, 0, file.size, file.modified, file.statistics)


@pytest.mark.parametrize("fault", ["gone", "cut"])
def test_commit_with_missing_or_truncated_files_is_an_error(
    spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    writer, folder = create_writer(spark, table), Path(table.path)

    def spoil() -> None:
        (file,) = folder.glob("*.parquet")
        if fault == "gone":
            file.unlink()
        else:
            file.write_bytes(file.read_bytes()[:-9])

    before_the_commit(monkeypatch, spoil)
    with pytest.raises(CommitLostError, match=r"Commit 1 of table people names the file part-"):
        writer.append(table, rows(spark, (1, "a", 1)), marker(1))


@pytest.mark.parametrize("step", ["append", "upsert", "replace", "maintain", "commit_empty"])
def test_table_that_replaced_the_expected_one_is_not_changed(
    spark: SparkSession, table: Table, step: str
) -> None:
    writer, folder = create_writer(spark, table), Path(table.path)
    writer.append(table, rows(spark, (1, "a", 1)), marker(1))
    shutil.rmtree(folder)
    write_deltalake(folder, pa.table({"id": ["x"], "s": [0.5]}))
    steps: dict[str, Callable[[], object]] = {
        "append": lambda: writer.append(table, rows(spark, (2, "b", 1)), marker(2)),
        "upsert": lambda: writer.upsert(table, batch(spark, (2, "b", 1)), KEYS, marker(2)),
        "replace": lambda: writer.replace(table, rows(spark, (2, "b", 1)), marker(2)),
        "maintain": lambda: writer.maintain(spark, table, MaintenanceOptions(compact=True)),
        "commit_empty": lambda: writer.commit_empty(spark, table, marker(2, "{}")),
    }
    with pytest.raises(TableError, match="was replaced by another table"):
        steps[step]()
    assert versions(folder) == [f"{0:020}.json"]


def test_staged_files_of_a_killed_run_of_the_job_are_removed(
    spark: SparkSession, table: Table
) -> None:
    """A run of another job may be active, so its files are kept."""
    writer, folder = create_writer(spark, table), Path(table.path)
    ours = folder / f"{data_files._staging_prefix('job')}1" / "_temporary"
    other_job = folder / f"{data_files._staging_prefix('other')}1"
    for staging in (ours, other_job):
        staging.mkdir(parents=True)
        (staging / "part-0.parquet").write_bytes(b"PAR1")
    writer.upsert(table, batch(spark, (1, "a", 1)), KEYS, marker(1))
    assert [path.name for path in folder.glob(".target-spark-*")] == [other_job.name]


@pytest.mark.parametrize(
    "step",
    [
        "alter",
        "upsert",
        pytest.param("replace", marks=pytest.mark.thorough),
        pytest.param("maintain", marks=pytest.mark.thorough),
    ],
)
def test_appends_continue_after_commits_by_spark(
    spark: SparkSession, table: Table, step: str
) -> None:
    writer = create_writer(spark, table)
    for number in (1, 2):
        writer.append(table, rows(spark, (number, "a", 1)), marker(number))
    if step == "alter":
        writer.alter(spark, table, [SchemaChange("add", ("more",), "STRING")])
    elif step == "upsert":
        writer.upsert(table, batch(spark, (2, "b", 9)), KEYS, marker(3))
    elif step == "replace":
        writer.replace(table, rows(spark, (9, "b", 9)), marker(3))
    else:
        writer.maintain(spark, table, MaintenanceOptions(compact=True))
    writer.append(table, rows(spark, (4, "a", 1)), marker(4))
    assert engines(Path(table.path))[-1] == "delta-rs"
    assert writer.get_last_metadata(spark, table) == marker(4)
    row_ids = {row.id for row in writer.rows(spark, table).collect()}
    assert row_ids == ({4, 9} if step == "replace" else {1, 2, 4})


@pytest.mark.thorough
def test_spark_can_optimize_alter_and_delete_afterwards(spark: SparkSession, table: Table) -> None:
    writer = create_writer(spark, table)
    first = batch(spark, (1, "a", 1), (1, "b", 2), (3, "c", 1))
    writer.upsert(table, first, KEYS, marker(1))
    writer.upsert(table, batch(spark, (1, "d", 3), (2, "e", 1)), KEYS, marker(2))
    DeltaWriter().append(table, rows(spark, (4, "f", 1)), marker(1, run="r2", started=2))
    assert content(spark, table) == [(1, "d", 3), (2, "e", 1), (3, "c", 1), (4, "f", 1)]
    ref = f"delta.`{to_spark_uri(table.path)}`"
    spark.sql(f"OPTIMIZE {ref}")
    spark.sql(f"ALTER TABLE {ref} ADD COLUMNS (more STRUCT<x: BIGINT>)")
    spark.sql(f"DELETE FROM {ref} WHERE id = 4")  # noqa: S608
    assert spark.table(ref).where("more IS NULL").count() == 3


def test_state_without_rows_is_one_commit(spark: SparkSession, table: Table) -> None:
    writer = create_writer(spark, table)
    writer.append(table, rows(spark, (1, "a", 1)), marker(1))
    writer.commit_empty(spark, table, marker(2, '{"x": 2}'))
    assert [next(iter(action)) for action in read_log_entries(Path(table.path), 2)] == [
        "commitInfo",
        "txn",
    ]
    DeltaWriter().commit_empty(spark, table, marker(2, '{"x": 2}'))  # its answer was lost
    assert len(list(commits(spark, table))) == 3
    assert writer.get_last_metadata(spark, table) == marker(2, '{"x": 2}')


def test_table_just_created_by_another_run_is_appended_to(
    spark: SparkSession, table: Table
) -> None:
    writer = create_writer(spark, table)
    create_writer(spark, table)
    writer.append(table, rows(spark, (1, "a", 1)), marker(1))
    assert len(list(commits(spark, table))) == 2
    assert content(spark, table) == [(1, "a", 1)]


@pytest.mark.every_nth_case(3)
@pytest.mark.parametrize(
    "layout",
    [
        TableLayout(partition_by=(PartitionField("name"),)),
        TableLayout(cluster_by=("id",)),
        TableLayout(properties=(("delta.appendOnly", "true"),)),
    ],
)
def test_table_with_partitions_clusters_or_properties_is_created_by_spark(
    spark: SparkSession, table: Table, layout: TableLayout
) -> None:
    writer = DeltaWriter()
    writer.create(spark, table, LAYOUT, layout)
    writer.append(table, rows(spark, (1, "a", 1)), marker(1))
    assert engines(Path(table.path))[0].startswith("Apache-Spark")
    assert content(spark, table) == [(1, "a", 1)]


@pytest.mark.parametrize(
    "clause",
    [
        "ADD CONSTRAINT positive CHECK (n > 0)",
        pytest.param(
            "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')", marks=pytest.mark.thorough
        ),
        pytest.param(
            "SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')",
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            "SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')", marks=pytest.mark.thorough
        ),
        pytest.param(
            "SET TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_table_features_that_deltalake_lacks_are_committed_by_spark(
    spark: SparkSession, table: Table, clause: str
) -> None:
    """Spark commits to tables that deltalake cannot write to, or not with all features."""
    writer = create_writer(spark, table)
    ref = f"delta.`{to_spark_uri(table.path)}`"
    spark.sql(f"ALTER TABLE {ref} {clause}")
    writer.append(table, rows(spark, (1, "a", 1)), marker(1))
    assert engines(Path(table.path))[-1].startswith("Apache-Spark")
    assert content(spark, table) == [(1, "a", 1)]
    if "CHECK" in clause:
        with pytest.raises(Exception, match="DELTA_VIOLATE_CONSTRAINT"):
            writer.append(table, rows(spark, (2, "a", -1)), marker(2))


def test_timestamp_ntz_columns_are_committed_by_deltalake(
    spark: SparkSession, table: Table
) -> None:
    writer = DeltaWriter()
    table_schema = TableSchema((*LAYOUT.columns, Column("at", "at", LocalTimestamp())))
    writer.create(spark, table, table_schema, TableLayout())
    data = rows(spark, (1, "a", 1)).selectExpr("*", "TIMESTAMP_NTZ'2024-01-01 12:00:00' AS at")
    writer.append(table, data, marker(1))
    assert engines(Path(table.path)) == ["delta-rs", "delta-rs"]
    assert str(content(spark, table)[0][-1]) == "2024-01-01 12:00:00"


@pytest.mark.parametrize("key", ["properties.defaults.appendOnly", "optimizeWrite.enabled"])
def test_table_with_user_settings_for_delta_is_created_by_spark(
    spark: SparkSession, table: Table, key: str
) -> None:
    key = f"spark.databricks.delta.{key}"
    spark.conf.set(key, "true")
    try:
        DeltaWriter().create(spark, table, LAYOUT, TableLayout(), has_rows=True)
    finally:
        spark.conf.unset(key)
    assert engines(Path(table.path))[0].startswith("Apache-Spark")


def test_comments_properties_and_nullability_match_those_of_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    table_schema = TableSchema(
        (Column("id", "id", Integer(), comment="it's ☃"), Column("b.c", "b", Text())), keys=("id",)
    )
    descriptions = []
    for name in ("spark", "deltalake"):
        table, writer = Table(str(tmp_path / name), name), DeltaWriter()
        writer._has_own_settings = name == "spark"
        writer.create(spark, table, table_schema, TableLayout())
        writer.append(table, spark.sql("SELECT 1L AS id, 'x' AS b"), marker(1))
        ref = f"delta.`{to_spark_uri(table.path)}`"
        properties = {
            row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES {ref}").collect()
        }
        descriptions.append(
            (spark.table(ref).schema.jsonValue(), properties, writer.sources(spark, table))
        )
        assert engines(Path(table.path))[0].startswith("Apache" if name == "spark" else "delta-rs")
    assert descriptions[0] == descriptions[1]


def test_files_of_a_run_that_died_before_its_commit_are_ignored(
    delta: Warehouse,
) -> None:
    folder = delta.folder / "a"
    (folder / "_delta_log").mkdir(parents=True)
    (folder / "part-00000-dead.snappy.parquet").write_bytes(b"PAR1")
    assert delta.load(schema("a", ID), record("a", id=1), state(1)) == [1]
    assert delta.rows("a") == [(1,)]


@pytest.mark.thorough
def test_quarantined_rows_leave_no_files_in_a_new_table(delta: Warehouse) -> None:
    messages = [schema("a", ID_AND_NAME, "id"), record("a", id=1, name="a"), record("a", id="x")]
    assert delta.load(*messages, state(1)) == [1]
    assert delta.rows("a") == [(1, "a")]
    assert delta.counts("a")["quarantined"] == 1
    files = {path.name for path in (delta.folder / "a").glob("*.parquet")}
    assert files == set(list_added_files(delta.folder / "a"))
