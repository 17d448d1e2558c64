"""Reads of tables by `target_spark.open_warehouse`, compared with what Spark reads."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

import target_spark
from target_spark.errors import TableError, UnsupportedError
from tests.peers import missing_reason, peer_python
from tests.target.warehouse import ID, Warehouse, record, schema, state

pytestmark = pytest.mark.spark

READERS = peer_python("readers")

NESTED: dict[str, Any] = {
    **ID,
    "city": {"type": ["null", "string"]},
    "price": {"type": ["null", "number"], "multipleOf": 0.01},
    "at": {"type": ["null", "string"], "format": "date-time"},
    "tags": {"type": ["null", "array"], "items": {"type": "string"}},
    "position": {
        "type": ["null", "object"],
        "properties": {"x": {"type": "number"}, "y": {"type": ["null", "integer"]}},
    },
}


def rows(table: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


def spark_rows(warehouse: Warehouse, table: str) -> list[tuple[Any, ...]]:
    return rows(warehouse.read(table).toArrow())


def test_rows_are_those_that_spark_reads(warehouse: Warehouse) -> None:
    position = {"x": 1.5, "y": 2**53 + 1}
    first = record("orders", id=1, city="Bern", price=9.5, at="2026-01-02T03:04:05.000006Z")
    second = record("orders", id=2, tags=["a", "b"], position=position)
    warehouse.load(schema("orders", NESTED), first, second, state(1))
    opened = target_spark.open_warehouse(warehouse.folder)
    orders = opened["orders"]
    assert orders.format == warehouse.format
    assert rows(orders.to_arrow()) == spark_rows(warehouse, "orders")
    assert orders.to_arrow().schema == orders.schema
    assert rows(orders.to_arrow(["price", "id"])) == [(Decimal("9.50"), 1), (None, 2)]
    assert "orders" in opened
    assert len(opened) == len(list(opened))


def test_at_run_returns_the_rows_that_the_run_left(warehouse: Warehouse) -> None:
    warehouse.load(schema("a", ID), record("a", id=1), state(1))
    wider = {**ID, "name": {"type": ["null", "string"]}}
    warehouse.load(schema("a", wider), record("a", id=2, name="x"), state(2))
    a = target_spark.open_warehouse(warehouse.folder)["a"]
    assert list(a.runs) == ["run2", "run1"]
    assert rows(a.at_run("run1").to_arrow(["id"])) == [(1,)]
    assert a.at_run("run1").schema.names == ["id"]
    assert rows(a.at_run("run2").to_arrow(["id", "name"])) == [(1, None), (2, "x")]
    with pytest.raises(TableError, match="Table a has no commit of run run3"):
        a.at_run("run3")


def test_upserted_rows_are_read_once(delta: Warehouse) -> None:
    delta.load(schema("a", ID, "id"), record("a", id=1), record("a", id=2), state(1))
    delta.load(schema("a", ID, "id"), record("a", id=2), record("a", id=3), state(2))
    a = target_spark.open_warehouse(delta.folder)["a"]
    assert rows(a.to_arrow()) == [(1,), (2,), (3,)]
    assert rows(a.at_run("run1").to_arrow()) == [(1,), (2,)]


def test_overwritten_rows_of_parquet_belong_to_no_run(warehouse: Warehouse) -> None:
    for number in (1, 2):
        warehouse.load(schema("a", ID), record("a", id=number), state(1), write_mode="overwrite")
    a = target_spark.open_warehouse(warehouse.folder)["a"]
    assert rows(a.to_arrow()) == [(2,)]
    assert next(iter(a.runs)) == "run2"
    assert ("run1" in a.runs) == (warehouse.format != "parquet")


@pytest.mark.thorough
@pytest.mark.parametrize("partition_by", [[], ["part"]])
def test_files_with_narrower_types_than_the_table_are_read(
    delta: Warehouse, partition_by: list[str]
) -> None:
    part = {"part": {"type": "string"}}
    small = {**ID, **part, "n": {"type": ["null", "number"], "multipleOf": 0.1, "maximum": 10}}
    large = {**small, "n": {"type": ["null", "number"], "multipleOf": 0.001, "maximum": 10**9}}
    options = {"partition_by": partition_by}
    delta.load(schema("a", small), record("a", id=1, part="ä b", n=1.5), state(1), **options)
    delta.load(schema("a", large), record("a", id=2, part="y", n=2.125), state(2), **options)
    a = target_spark.open_warehouse(delta.folder)["a"]
    assert rows(a.to_arrow()) == spark_rows(delta, "a")
    assert a.to_arrow().schema == a.schema


@pytest.mark.thorough
def test_deleted_rows_and_renamed_columns_of_other_writers_are_respected(delta: Warehouse) -> None:
    delta.load(schema("a", {**ID, "n": {"type": "integer"}}), record("a", id=1, n=1), state(1))
    delta.load(schema("a", ID), record("a", id=2), record("a", id=3), state(2))
    table = f"delta.`{delta.folder}/a`"
    features = "'delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true'"
    delta.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({features})")
    delta.spark.sql(f"ALTER TABLE {table} RENAME COLUMN n TO m")
    delta.spark.sql(f"DELETE FROM {table} WHERE id = 2")  # noqa: S608
    a = target_spark.open_warehouse(delta.folder)["a"]
    assert rows(a.to_arrow()) == spark_rows(delta, "a") == [(1, 1), (3, None)]


@pytest.mark.thorough
@pytest.mark.skipif(READERS is None, reason=missing_reason("readers"))
def test_rows_are_read_into_pandas_without_pyspark(warehouse: Warehouse) -> None:
    nullable = {"id": {"type": ["null", "integer"]}}
    warehouse.load(schema("a", nullable), record("a", id=2**53 + 1), record("a"), state(1))
    program = (
        "import target_spark\n"
        f"table = target_spark.open_warehouse({str(warehouse.folder)!r})['a']\n"
        "print(table.to_pandas()['id'].dropna().tolist(), len(table.to_pandas()), list(table.runs))"
    )
    command = [str(READERS), "-c", program]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.stdout.strip() == f"[{2**53 + 1}] 2 ['run1']", process.stderr


def test_rows_are_read_into_polars_and_duckdb(warehouse: Warehouse) -> None:
    nullable = {"id": {"type": ["null", "integer"]}}
    warehouse.load(schema("a", nullable), record("a", id=2**53 + 1), record("a"), state(1))
    a = target_spark.open_warehouse(warehouse.folder)["a"]
    assert a.to_polars()["id"].drop_nulls().to_list() == [2**53 + 1]
    assert a.to_duckdb().filter("id is not null").fetchall() == [(2**53 + 1,)]
    with duckdb.connect() as connection:
        a.to_duckdb(connection)
        assert connection.sql("SELECT count(*) FROM a").fetchall() == [(2,)]


def test_names_and_columns_that_do_not_exist_are_errors(warehouse: Warehouse) -> None:
    warehouse.load(schema("a", ID), record("a", id=1), state(1))
    opened = target_spark.open_warehouse(warehouse.folder)
    with pytest.raises(KeyError, match=r"no table 'b'.*Tables: a"):
        opened["b"]
    with pytest.raises(KeyError):
        opened["../tables/a"]
    with pytest.raises(TableError, match=r"no column x\. Its columns are: id"):
        opened["a"].to_arrow(["x"])


def test_folders_that_cannot_be_opened_are_errors(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="There is no folder"):
        target_spark.open_warehouse(tmp_path / "missing")
    with pytest.raises(UnsupportedError, match="s3://bucket/tables is not one"):
        target_spark.open_warehouse("s3://bucket/tables")
    (tmp_path / "orders" / "_delta_log").mkdir(parents=True)
    (tmp_path / "orders" / "_delta_log" / f"{0:020}.json").touch()
    with pytest.raises(TableError, match=r"orders is a table\..*open_warehouse\(…\)\['orders'\]"):
        target_spark.open_warehouse(tmp_path / "orders")


def test_spark_is_not_imported(warehouse: Warehouse) -> None:
    warehouse.load(schema("a", ID), record("a", id=1), state(1))
    program = (
        "import sys, target_spark\n"
        f"table = target_spark.open_warehouse({str(warehouse.folder)!r})['a']\n"
        "print(table.to_arrow().num_rows, len(table.runs), 'pyspark' in sys.modules)"
    )
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert process.stdout.split() == ["1", "1", "False"]
