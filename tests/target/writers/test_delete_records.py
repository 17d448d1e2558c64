"""Delete records that are merged into tables, in each format that can delete rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from target_spark.tables.table import Table, TableLayout
from target_spark.writers import MergeKeys, get_writer
from tests.target.writers.sample_rows import DELETING, marker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def changes(spark: SparkSession, *values: tuple[int, str | None, bool]) -> DataFrame:
    """Return rows of (id, name, deleted), in order."""
    listed = ", ".join(
        f"({i}L, {id_}L, {'NULL' if name is None else repr(name)}, {str(deleted).upper()})"
        for i, (id_, name, deleted) in enumerate(values)
    )
    frame = spark.sql(f"SELECT * FROM VALUES {listed} AS t(at, id, name, d)")  # noqa: S608
    return frame.selectExpr(
        "id",
        "CAST(name AS STRING) AS name",
        "IF(d, TIMESTAMP '2024-01-01', NULL) AS _sdc_deleted_at",
        "at",
    )


@pytest.mark.every_nth_case(3)
@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("empty_at_first", [False, True])
def test_delete_record_keeps_the_values_of_a_soft_deleted_row(
    spark: SparkSession, tmp_path: Path, table_format: str, hard: bool, empty_at_first: bool
) -> None:
    table = Table(str(tmp_path / "t"), "t")
    writer = get_writer(table_format)
    keys = MergeKeys(("id",), "at", deleted="_sdc_deleted_at", hard_delete=hard)
    before = [(1, "one", False), (2, "two", False), (3, "three", True)]
    after = [
        (1, None, True),  # deleted
        (2, "2", False),
        (2, None, True),  # changed, then deleted
        (3, "again", False),  # comes back
        (4, "four", False),
        (4, None, True),  # inserted and deleted in one batch
        (5, None, True),  # never seen
        (6, None, True),
        (6, "six", False),  # deleted, then inserted
    ]
    writer.create(spark, table, DELETING, TableLayout())
    if empty_at_first:
        writer.upsert(table, changes(spark, *before, *after), keys, marker(1))
    else:
        writer.upsert(table, changes(spark, *before), keys, marker(1))
        effect = writer.upsert(table, changes(spark, *after), keys, marker(2))
        assert effect.deleted == (2 if hard else 0)

    actual = {
        id_: (name, deleted_at is not None)
        for id_, name, deleted_at in writer.rows(spark, table).collect()
    }
    expected = {3: ("again", False), 6: ("six", False)}
    deleted = {1: ("one", True), 2: ("2", True), 4: ("four", True), 5: (None, True)}
    assert actual == (expected if hard else expected | deleted)
