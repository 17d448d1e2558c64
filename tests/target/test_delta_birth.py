"""Delta tables that their first rows make: one commit, and like any other table ever after."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from target_spark.columns import Change, Column, Integer, Layout, Text
from target_spark.columns.types import LocalTimestamp
from target_spark.places import spark_address
from target_spark.tables import Care, Design, Partition, Table
from target_spark.writers.delta import DeltaWriter
from target_spark.writers.delta_log import commits
from tests.target.test_delta import KEYS, LAYOUT, batch, content, marker, rows
from tests.target.test_loader import ID, ID_AND_NAME, Warehouse, record, schema, state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.session import Session

pytestmark = pytest.mark.spark


@pytest.fixture
def delta(spark_session: Session, spark: SparkSession, tmp_path: Path) -> Warehouse:
    return Warehouse(spark_session, spark, tmp_path / "tables")


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(str(tmp_path / "people"), "people")


def logged(folder: Path, version: int) -> list[dict[str, Any]]:
    text = (folder / "_delta_log" / f"{version:020}.json").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def versions(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "_delta_log").glob("*.json"))


def test_rows_batch_and_table_are_one_commit(spark: SparkSession, table: Table) -> None:
    writer, folder = DeltaWriter(), Path(table.path)
    left = folder / "_first-1" / "_temporary"  # by a run that died here
    left.mkdir(parents=True)
    writer.create(spark, table, LAYOUT, Design(), has_rows=True)
    assert [path.name for path in folder.iterdir()] == ["_first-1"]
    assert writer.is_empty(spark, table)
    effect = writer.append(spark, table, rows(spark, (1, "a", 1)), marker(1, '{"x": 1}'))
    assert (effect.inserted, effect.files, effect.nbytes > 0) == (1, 1, True)
    assert versions(folder) == [f"{0:020}.json"]
    kinds = [next(iter(action)) for action in logged(folder, 0)]
    assert kinds == ["commitInfo", "protocol", "metaData", "add", "txn"]
    assert writer.last_marker(spark, table) == marker(1, '{"x": 1}')
    assert [path.name for path in folder.iterdir() if path.name[0] != "."].count("_delta_log") == 1
    assert not list(folder.glob("_first-*"))
    assert content(spark, table) == [(1, "a", 1)]


def by_us(folder: Path) -> list[bool]:
    """Return of each commit whether it was made without Delta."""
    infos = (logged(folder, version)[0] for version in range(len(versions(folder))))
    return [info["commitInfo"]["engineInfo"] == "target-spark" for info in infos]


def test_later_batches_are_commits_like_the_first(spark: SparkSession, table: Table) -> None:
    """Up to the one with which Delta makes its checkpoint; then all are Delta's."""
    writer, folder = DeltaWriter(), Path(table.path)
    writer.create(spark, table, LAYOUT, Design(), has_rows=True)
    for number in range(1, 14):
        data = rows(spark, (number, "a", 1)) if number % 5 else None
        if data is None:
            writer.commit_empty(spark, table, marker(number, f'{{"x": {number}}}'))
        else:
            effect = writer.append(spark, table, data, marker(number))
            assert (effect.inserted, effect.files) == (1, 1)
    assert by_us(folder) == [True] * 10 + [False] * 3
    assert list((folder / "_delta_log").glob(f"{10:020}.checkpoint*"))
    assert [row[0] for row in content(spark, table)] == [n for n in range(1, 14) if n % 5]
    last = writer.last_marker(spark, table)
    assert last is not None
    assert (last.batch, last.state) == (13, '{"x": 10}')


def test_another_writers_commit_between_batches_ends_it(spark: SparkSession, table: Table) -> None:
    """Its rows and ours are there once, and nothing is left of the try that came too late."""
    writer, folder = DeltaWriter(), Path(table.path)
    writer.create(spark, table, LAYOUT, Design(), has_rows=True)
    for number in (1, 2):
        writer.append(spark, table, rows(spark, (number, "a", 1)), marker(number))
    theirs = rows(spark, (7, "b", 2)).write.format("delta").mode("append")
    theirs.save(spark_address(table.path))
    for number in (3, 4):
        writer.append(spark, table, rows(spark, (number, "a", 1)), marker(number))
    assert by_us(folder) == [True, True, False, False, False]
    assert [row[0] for row in content(spark, table)] == [1, 2, 3, 4, 7]
    added = [
        action["add"]["path"]
        for version in range(5)
        for action in logged(folder, version)
        if "add" in action
    ]
    assert sorted(added) == sorted(path.name for path in folder.glob("*.parquet"))


def test_where_files_cannot_have_two_names_commits_are_deltas(
    spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No such file system is here: its answer is made up."""

    def refused(*_: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    writer, folder = DeltaWriter(), Path(table.path)
    writer.create(spark, table, LAYOUT, Design(), has_rows=True)
    for number in (1, 2):
        writer.append(spark, table, rows(spark, (number, "a", 1)), marker(number))
    assert not any(by_us(folder))
    assert content(spark, table) == [(1, "a", 1), (2, "a", 1)]
    assert len(list(folder.glob("*.parquet"))) == 2


@pytest.mark.parametrize("number", [errno.EEXIST, errno.ETIMEDOUT])
def test_a_commit_whose_answer_was_lost_is_made(
    spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """As a file server may say it; there is none here, so its answer is made up."""
    link = os.link

    def lost(here: Path, there: Path) -> None:
        link(here, there)
        if there.suffix == ".json":
            raise OSError(number, "lost")

    writer, folder = DeltaWriter(), Path(table.path)
    writer.create(spark, table, LAYOUT, Design(), has_rows=True)
    monkeypatch.setattr(os, "link", lost)
    for each in (1, 2):
        writer.append(spark, table, rows(spark, (each, "a", 1)), marker(each))
    assert by_us(folder) == [True, True]
    assert content(spark, table) == [(1, "a", 1), (2, "a", 1)]


@pytest.mark.parametrize("step", ["alter", "upsert", "replace", "care"])
def test_what_changes_a_table_is_deltas_and_all_after_it(
    spark: SparkSession, table: Table, step: str
) -> None:
    writer, folder = DeltaWriter(), Path(table.path)
    writer.create(spark, table, LAYOUT, Design(), has_rows=True)
    for number in (1, 2):
        writer.append(spark, table, rows(spark, (number, "a", 1)), marker(number))
    if step == "alter":
        writer.alter(spark, table, [Change("add", ("more",), "STRING")])
    elif step == "upsert":
        writer.upsert(spark, table, batch(spark, (2, "b", 9)), KEYS, marker(3))
    elif step == "replace":
        writer.replace(spark, table, rows(spark, (9, "b", 9)), marker(3))
    else:
        writer.care(spark, table, Care(compact=True))
    writer.append(spark, table, rows(spark, (4, "a", 1)), marker(4))
    assert by_us(folder) == [True, True, False, False]
    assert writer.last_marker(spark, table) == marker(4)
    found = {row.id for row in writer.rows(spark, table).collect()}
    assert found == ({4, 9} if step == "replace" else {1, 2, 4})


def test_it_is_a_table_like_any_other_afterwards(spark: SparkSession, table: Table) -> None:
    writer = DeltaWriter()
    writer.create(spark, table, LAYOUT, Design(), has_rows=True)
    writer.upsert(
        spark, table, batch(spark, (1, "a", 1), (1, "b", 2), (3, "c", 1)), KEYS, marker(1)
    )
    writer.upsert(spark, table, batch(spark, (1, "d", 3), (2, "e", 1)), KEYS, marker(2))
    DeltaWriter().append(spark, table, rows(spark, (4, "f", 1)), marker(1, run="r2", started=2))
    assert content(spark, table) == [(1, "d", 3), (2, "e", 1), (3, "c", 1), (4, "f", 1)]
    ref = f"delta.`{spark_address(table.path)}`"
    spark.sql(f"OPTIMIZE {ref}")
    spark.sql(f"ALTER TABLE {ref} ADD COLUMNS (more STRUCT<x: BIGINT>)")
    spark.sql(f"DELETE FROM {ref} WHERE id = 4")  # noqa: S608
    assert spark.table(ref).where("more IS NULL").count() == 3
    told = [row.operation for row in spark.sql(f"DESCRIBE HISTORY {ref}").collect()]
    assert (told[0], told[-1]) == ("DELETE", "WRITE")


def test_a_state_right_after_the_first_rows_is_one_commit_too(
    spark: SparkSession, table: Table
) -> None:
    writer = DeltaWriter()
    writer.create(spark, table, LAYOUT, Design(), has_rows=True)
    writer.append(spark, table, rows(spark, (1, "a", 1)), marker(1))
    writer.commit_empty(spark, table, marker(2, '{"x": 2}'))
    assert [next(iter(action)) for action in logged(Path(table.path), 1)] == ["commitInfo", "txn"]
    DeltaWriter().commit_empty(spark, table, marker(2, '{"x": 2}'))  # its answer was lost
    assert len(list(commits(spark, table))) == 2
    writer.append(spark, table, rows(spark, (2, "b", 2)), marker(3))
    writer.commit_empty(spark, table, marker(4, '{"x": 4}'))
    assert writer.last_marker(spark, table) == marker(4, '{"x": 4}')
    assert content(spark, table) == [(1, "a", 1), (2, "b", 2)]


def test_a_table_that_another_made_meanwhile_is_appended_to(
    spark: SparkSession, table: Table
) -> None:
    writer = DeltaWriter()
    writer.create(spark, table, LAYOUT, Design(), has_rows=True)
    DeltaWriter().create(spark, table, LAYOUT, Design())
    writer.append(spark, table, rows(spark, (1, "a", 1)), marker(1))
    writer.commit_empty(spark, table, marker(2, "{}"))
    assert content(spark, table) == [(1, "a", 1)]
    assert len(list(commits(spark, table))) == 3
    files = [path for path in Path(table.path).glob("*.parquet") if path.stat().st_size]
    kept = {add["add"]["path"] for add in logged(Path(table.path), 1) if "add" in add}
    assert kept <= {file.name for file in files}


def test_a_state_after_anothers_commit_is_deltas_own(spark: SparkSession, table: Table) -> None:
    writer = DeltaWriter()
    writer.create(spark, table, LAYOUT, Design(), has_rows=True)
    writer.append(spark, table, rows(spark, (1, "a", 1)), marker(1))
    theirs = rows(spark, (2, "b", 2)).write.format("delta").mode("append")
    theirs.save(spark_address(table.path))
    writer.commit_empty(spark, table, marker(2, "{}"))
    assert writer.last_marker(spark, table) == marker(2, "{}")
    assert content(spark, table) == [(1, "a", 1), (2, "b", 2)]


@pytest.mark.parametrize(
    ("layout", "design"),
    [
        (LAYOUT, Design(partition_by=(Partition("name"),))),
        (LAYOUT, Design(cluster_by=("id",))),
        (Layout((*LAYOUT.columns, Column("at", "at", LocalTimestamp()))), Design()),
    ],
)
def test_what_the_first_protocol_does_not_know_is_made_by_delta(
    spark: SparkSession, table: Table, layout: Layout, design: Design
) -> None:
    DeltaWriter().create(spark, table, layout, design, has_rows=True)
    assert versions(Path(table.path)) == [f"{0:020}.json"]


@pytest.mark.parametrize("key", ["properties.defaults.appendOnly", "optimizeWrite.enabled"])
def test_a_users_settings_for_delta_are_deltas_to_keep(
    spark: SparkSession, table: Table, key: str
) -> None:
    key = f"spark.databricks.delta.{key}"
    spark.conf.set(key, "true")
    try:
        DeltaWriter().create(spark, table, LAYOUT, Design(), has_rows=True)
    finally:
        spark.conf.unset(key)
    assert logged(Path(table.path), 0)


def test_comments_properties_and_nulls_are_as_in_a_table_made_before_its_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    layout = Layout(
        (Column("id", "id", Integer(), comment="it's ☃"), Column("b.c", "b", Text())), keys=("id",)
    )
    found = []
    for name in ("before", "with"):
        table, writer = Table(str(tmp_path / name), name), DeltaWriter()
        writer.create(spark, table, layout, Design(), has_rows=name == "with")
        data = spark.sql("SELECT 1L AS id, 'x' AS b")
        writer.append(spark, table, data, marker(1))
        ref = f"delta.`{spark_address(table.path)}`"
        ours = spark.sql(f"SHOW TBLPROPERTIES {ref}").collect()
        kept = {row.key: row.value for row in ours}
        found.append((spark.table(ref).schema.jsonValue(), kept, writer.sources(spark, table)))
    assert found[0] == found[1]


def test_a_run_that_died_between_its_rows_and_their_commit_is_no_hindrance(
    delta: Warehouse,
) -> None:
    folder = delta.folder / "a"
    (folder / "_delta_log").mkdir(parents=True)
    (folder / "part-00000-dead.snappy.parquet").write_bytes(b"PAR1")
    assert delta.load(schema("a", ID), record("a", id=1), state(1)) == [1]
    assert delta.rows("a") == [(1,)]


def test_rows_that_do_not_fit_leave_nothing_behind_in_a_new_table(delta: Warehouse) -> None:
    messages = [schema("a", ID_AND_NAME, "id"), record("a", id=1, name="a"), record("a", id="x")]
    assert delta.load(*messages, state(1)) == [1]
    assert delta.rows("a") == [(1, "a")]
    assert delta.counts("a")["quarantined"] == 1
    files = {path.name for path in (delta.folder / "a").glob("*.parquet")}
    assert files == {add["add"]["path"] for add in logged(delta.folder / "a", 0) if "add" in add}
