"""Concurrent writers of the loader's tables: conflicts are retried, changes are noticed."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from target_spark.errors import StorageError, TableError
from target_spark.loader.loader import Loader
from target_spark.storage import commit_retry
from target_spark.storage.commit_retry import FailureKind
from target_spark.storage.uris import to_spark_uri
from target_spark.tables.table import Table
from target_spark.writers.iceberg.catalog import resolve_table
from target_spark.writers.merge_statement import Merge
from tests.target.warehouse import ID, ID_AND_NAME, Warehouse, feed, record, schema, state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.spark.session import Session

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

PATIENCE = 200


@contextmanager
def loading(warehouse: Warehouse, **config: Any) -> Iterator[Loader]:
    loader, spool = warehouse.open(**config)
    try:
        yield loader
    finally:
        loader.close()
        spool.close()


def until_state(warehouse: Warehouse, loader: Loader, value: Any) -> None:
    end = time.monotonic() + PATIENCE
    while value not in warehouse.states:
        loader.poll()
        assert time.monotonic() < end
        time.sleep(0.02)


def ref(warehouse: Warehouse, table: str) -> str:
    return f"delta.`{to_spark_uri(f'{warehouse.folder}/{table}')}`"


@pytest.mark.parametrize("delta", ["delta"], indirect=True)  # only Spark's MERGE conflicts
def test_conflict_with_a_concurrent_update_is_retried(
    delta: Warehouse, spark_session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    """Another session updates the table continuously until the first conflict."""
    schema_message = schema("a", ID_AND_NAME, "id")
    delta.load(schema_message, record("a", id=-1, name="theirs"), record("a", id=0, name="ours"))
    stop, failures = threading.Event(), []
    update = f"UPDATE {ref(delta, 'a')} SET name = concat(name, '.') WHERE id = -1"  # noqa: S608

    def has_conflict() -> bool:
        return any("is repeated in" in text for text in caplog.messages)

    def update_repeatedly() -> None:
        theirs = spark_session.spark().newSession()
        while not stop.is_set() and not failures and not has_conflict():
            try:
                theirs.sql(update)
            except Exception as error:  # noqa: BLE001, PERF203  (they lose some of the races, too)
                if "Concurrent" not in str(error):
                    failures.append(error)

    caplog.set_level(logging.WARNING, "target_spark.storage.commit_retry")
    thread = threading.Thread(target=update_repeatedly)
    with loading(delta, flush_rows=1) as loader:
        feed(loader, schema_message)
        thread.start()
        try:
            for number in range(1, 30):
                feed(loader, record("a", id=0, name=f"ours {number}"), state(number))
                until_state(delta, loader, number)
                if has_conflict():
                    break
        finally:
            stop.set()
            thread.join(PATIENCE)
        loader.finish(whole=True)
    assert not failures
    assert has_conflict()
    rows = dict(delta.rows("a"))
    assert rows[0] == f"ours {number}"
    assert set(rows) == {0, -1}
    assert rows[-1].rstrip(".") == "theirs"


@pytest.mark.parametrize("delta", ["delta"], indirect=True)  # only Spark's MERGE conflicts
def test_repeated_conflict_is_an_error_after_five_tries(
    delta: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Merge.run
    tries: list[int] = []

    def run(*_given: Any) -> None:
        tries.append(1)
        raise RuntimeError("io.delta.exceptions.ConcurrentAppendException: [DELTA] files added")

    delta.load(schema("a", ID, "id"), record("a", id=0))  # the first rows meet none
    monkeypatch.setitem(commit_retry.BACKOFF_SECONDS, FailureKind.CONFLICT, (0, 0, 0, 0))
    monkeypatch.setattr(Merge, "run", run)
    with pytest.raises(StorageError, match=r"writer repeatedly changed the table.*Tried 5 times"):
        delta.load(schema("a", ID, "id"), record("a", id=1), state(1))
    assert len(tries) == 5
    assert delta.states == []
    monkeypatch.setattr(Merge, "run", real)
    assert delta.load(schema("a", ID, "id"), record("a", id=1), state(1)) == [1]


def test_concurrent_appends_and_deletes_are_kept(delta: Warehouse) -> None:
    with loading(delta, flush_rows=1) as loader:
        feed(loader, schema("a", ID), record("a", id=1), state(1))
        until_state(delta, loader, 1)
        delta.spark.sql(f"INSERT INTO {ref(delta, 'a')} VALUES (10), (11)")  # noqa: S608
        delta.spark.sql(f"DELETE FROM {ref(delta, 'a')} WHERE id = 10")  # noqa: S608
        feed(loader, record("a", id=2), state(2))
        loader.finish(whole=True)
    assert delta.states == [1, 2]
    assert delta.rows("a") == [(1,), (11,), (2,)]
    marker = delta.marker("a")
    assert marker is not None
    assert marker.state == '{"at": 2}'


@pytest.mark.parametrize("keys", [(), ("id",)])
def test_column_dropped_during_the_run_is_added_again(
    delta: Warehouse, keys: tuple[str, ...]
) -> None:
    with loading(delta, flush_rows=1) as loader:
        feed(loader, schema("a", ID_AND_NAME, *keys), record("a", id=1, name="x"), state(1))
        until_state(delta, loader, 1)
        remaining = delta.read("a").select("id")
        overwriting = (
            remaining.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        )
        overwriting.save(to_spark_uri(f"{delta.folder}/a"))
        feed(loader, record("a", id=2, name="y"), state(2))
        loader.finish(whole=True)
    assert delta.states == [1, 2]
    assert delta.rows("a", "id", "name") == [(1, None), (2, "y")]


@pytest.mark.parametrize("keys", [(), ("name",)])
def test_column_type_changed_during_the_run_is_noticed(
    delta: Warehouse, keys: tuple[str, ...]
) -> None:
    with loading(delta, flush_rows=1) as loader:
        feed(loader, schema("a", ID_AND_NAME, *keys), record("a", id=1, name="x"), state(1))
        until_state(delta, loader, 1)
        changed = delta.read("a").selectExpr("CAST(id AS STRING) AS id", "name")
        overwriting = changed.write.format("delta").mode("overwrite")
        overwriting.option("overwriteSchema", "true").save(to_spark_uri(f"{delta.folder}/a"))
        feed(loader, record("a", id=2, name="y"), state(2))
        loader.finish(whole=True)
    assert delta.states == [1, 2]
    rows = [
        (row["name"], row["id"] or str(row["id__bigint"]))
        for row in delta.read("a").orderBy("name").collect()
    ]
    assert rows == [("x", "1"), ("y", "2")]


@pytest.mark.parametrize("form", ["delta", "iceberg"])
@pytest.mark.parametrize("keys", [(), ("id",)])
def test_values_are_not_rounded_to_the_type_of_a_column_replaced_during_the_run(
    spark_session: Session, spark: SparkSession, tmp_path: Path, form: str, keys: tuple[str, ...]
) -> None:
    """Another writer replaces a column by one with a narrower type, which Spark would round to."""
    exact = {**ID, "n": {"type": "number", "multipleOf": 1e-9}}
    warehouse = Warehouse(spark_session, spark, tmp_path / "tables", form)
    with loading(warehouse, flush_rows=1) as loader:
        feed(loader, schema("a", exact, *keys), record("a", id=1, n=1.5), state(1))
        until_state(warehouse, loader, 1)
        if form == "delta":
            changed = warehouse.read("a").selectExpr("id", "CAST(n AS DECIMAL(10, 2)) AS n")
            overwriting = changed.write.format("delta").mode("overwrite")
            overwriting.option("overwriteSchema", "true").save(
                to_spark_uri(f"{warehouse.folder}/a")
            )
        else:
            table = resolve_table(spark, Table(f"{warehouse.folder}/a", "a")).ref
            for clause in ("DROP COLUMN n", "ADD COLUMN n DECIMAL(10, 2)"):
                spark.sql(f"ALTER TABLE {table} {clause}")
        feed(loader, record("a", id=2, n=1.123456789), state(2))
        loader.finish(whole=True)
    assert warehouse.states == [1, 2]
    (row,) = warehouse.read("a").where("id = 2").collect()
    values = [value for name, value in row.asDict().items() if name.startswith("n")]
    assert [value for value in values if value is not None] == [Decimal("1.123456789")]


@pytest.mark.parametrize("form", ["delta", "parquet"])
def test_table_removed_during_the_run_is_an_error(
    spark_session: Session, spark: SparkSession, tmp_path: Path, form: str
) -> None:
    """The table is not created again, because rows that emitted states cover would be missing."""
    warehouse = Warehouse(spark_session, spark, tmp_path / "tables", form)
    with loading(warehouse, flush_rows=1) as loader:
        feed(loader, schema("a", ID), record("a", id=1), state(1))
        until_state(warehouse, loader, 1)
        (warehouse.folder / "a").rename(tmp_path / "away")
        feed(loader, record("a", id=2), state(2))
        with pytest.raises(TableError, match="was removed while it was loaded"):
            loader.finish(whole=True)
    assert warehouse.states == [1]
    assert not (warehouse.folder / "a").exists()


@pytest.mark.parametrize("keys", [(), ("id",)])
def test_table_replaced_during_the_run_is_an_error(delta: Warehouse, keys: tuple[str, ...]) -> None:
    with loading(delta, flush_rows=1) as loader:
        feed(loader, schema("a", ID, *keys), record("a", id=1), state(1))
        until_state(delta, loader, 1)
        feed(loader, record("a", id=2), state(2))
        until_state(delta, loader, 2)
        (delta.folder / "a").rename(delta.folder / "away")
        delta.spark.sql(f"CREATE TABLE {ref(delta, 'a')} (id BIGINT) USING delta")
        feed(loader, record("a", id=3), state(3))
        with pytest.raises(TableError, match="was replaced by another table while it was loaded"):
            loader.finish(whole=True)
    assert delta.states == [1, 2]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_unwritable_table_is_an_error_without_a_state(delta: Warehouse) -> None:
    delta.load(schema("a", ID), record("a", id=1), state(1))
    for folder in (delta.folder / "a", delta.folder / "a" / "_delta_log"):
        folder.chmod(0o555)
    try:
        with pytest.raises(Exception, match="Permission denied"):
            delta.load(schema("a", ID), record("a", id=2), state(2))
    finally:
        for folder in (delta.folder / "a", delta.folder / "a" / "_delta_log"):
            folder.chmod(0o755)
    assert delta.states == []
    assert delta.rows("a") == [(1,)]
