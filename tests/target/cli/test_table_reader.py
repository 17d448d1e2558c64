"""Reads of tables for the commands of a user, of tables that other writers have changed."""

from __future__ import annotations

import pytest

from target_spark.cli.table_reader import TableReader
from target_spark.tables.table import Table
from tests.target.warehouse import ID, Warehouse, record, schema, state

pytestmark = pytest.mark.spark


def test_mapped_columns_are_read_by_their_current_names(delta: Warehouse) -> None:
    """The file still has the values of the dropped column, under the name of the new one."""
    delta.load(schema("a", {**ID, "n": {"type": "integer"}}), record("a", id=1, n=5), state(1))
    table = f"delta.`{delta.folder}/a`"
    mapping = "'delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2'"
    for change in (f"SET TBLPROPERTIES ({mapping})", "DROP COLUMN n", "ADD COLUMN n BIGINT"):
        delta.spark.sql(f"ALTER TABLE {table} {change}")
    reader = TableReader("delta", lambda: delta.spark)
    assert reader.read_rows(Table(f"{delta.folder}/a", "a")) == [{"id": 1, "n": None}]


@pytest.mark.thorough
def test_size_of_a_table_that_spark_reads_is_that_of_its_files(delta: Warehouse) -> None:
    delta.load(schema("a", ID), record("a", id=1), record("a", id=2), state(1))
    table = f"delta.`{delta.folder}/a`"
    delta.spark.sql(
        f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    reader = TableReader("delta", lambda: delta.spark)
    files = (delta.folder / "a").glob("*.parquet")
    size = reader.measure_size(Table(f"{delta.folder}/a", "a"))
    assert size == sum(file.stat().st_size for file in files)
