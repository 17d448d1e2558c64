"""Properties named like internal columns keep their values, in all formats and modes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from target_spark.columns import (
    Column,
    ColumnOptions,
    ColumnSource,
    Integer,
    Text,
    schema_from_json_schema,
)
from target_spark.config.options import LoadOptions
from target_spark.fivetran.batch_request import FileKind
from target_spark.fivetran.tables import TableService
from target_spark.tables.identifiers import is_internal, quote
from tests.target.columns.widening_of_all_types import diff_with_table
from tests.target.fivetran.fivetran_writes import DestinationTables, make_schema
from tests.target.warehouse import Warehouse, record, schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.spark.session import Session

SOURCES = Path(__file__).parents[3] / "target_spark"
FOUND = sorted(
    {
        name
        for path in SOURCES.rglob("*.py")
        for name in re.findall(r'"(__(?:target_spark|fivetran)_\w+)', path.read_text("utf-8"))
    }
)
"""The names of internal columns in the source code."""

NAMES = [*FOUND, "__fivetran_kept_n", "__TARGET_SPARK_Rank", "__target_spark_", "___fivetran_op"]
PROPERTIES = {name: {"type": "string"} for name in NAMES}


def test_names_of_internal_columns_are_recognized() -> None:
    assert "__target_spark_rank" in FOUND
    assert "__fivetran_op" in FOUND
    assert len(FOUND) > 25
    assert all(map(is_internal, FOUND))


def values(version: int) -> dict[str, str]:
    return {name: f"{name} {version}" for name in NAMES}


@pytest.mark.spark
@pytest.mark.parametrize(
    ("table_format", "mode"),
    [
        ("delta", "upsert"),
        pytest.param("delta", "scd2", marks=pytest.mark.thorough),
        ("iceberg", "upsert"),
        ("parquet", "append"),
    ],
)
def test_properties_named_like_internal_columns_keep_their_values(
    spark_session: Session, spark: SparkSession, tmp_path: Path, table_format: str, mode: str
) -> None:
    """Values are kept in the first rows of a table and in rows that are merged."""
    warehouse = Warehouse(spark_session, spark, tmp_path / "tables", table_format)
    schema_message = schema("a", {"id": {"type": "integer"}, **PROPERTIES}, "id")
    config: dict[str, Any] = {"write_mode": mode, "add_record_metadata": True}
    for version in (1, 2):
        warehouse.load(schema_message, record("a", id=1, **values(version)), **config)
    last = {"upsert": "true", "scd2": "_sdc_is_current", "append": f"{quote('id')} = 1"}[mode]
    rows = warehouse.read("a").where(last).collect()
    texts = {value for row in rows for value in row.asDict().values() if isinstance(value, str)}
    assert texts >= set(values(2).values())
    assert warehouse.counts("a")["quarantined"] == 0


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_fivetran_batches_keep_values_of_such_columns(
    spark: SparkSession, tmp_path: Path, table_format: str
) -> None:
    """Rows are replaced and then updated."""
    (tmp_path / "files").mkdir()
    tables = TableService(spark, LoadOptions(str(tmp_path / "lake"), format=table_format))
    destination = DestinationTables(tables, tmp_path / "files")
    table = make_schema(id="*LONG", n="INT", **dict.fromkeys(NAMES, "STRING"))
    destination.make("a", table)
    columns = [column.name for column in table.columns]
    first = destination.file(FileKind.REPLACE, columns, [("1", "1", *values(1).values())])
    destination.write("a", table, first)
    new = {**values(1), NAMES[0]: "new"}
    update = destination.file(FileKind.UPDATE, columns, [("1", "2", *new.values())])
    destination.write("a", table, update)
    names = [column.column for column in table.columns]
    assert destination.rows("a", *names) == [(1, 2, *new.values())]


def test_existing_column_with_an_internal_name_is_not_used() -> None:
    """The property gets another column, which the next run finds again."""
    name, table = "__target_spark_rank", {"id": "bigint", "__target_spark_rank": "string"}
    stream_schema = schema_from_json_schema(
        {"properties": {"id": {"type": "integer"}, name: {}}}, ["id"], ColumnOptions()
    )
    for sources in ({}, None):
        merged, changes = diff_with_table(stream_schema, table, sources=sources)
        assert [change.path for change in changes] == [("___target_spark_rank",)]
        grown = {**table, "___target_spark_rank": "string"}
        merged_again, changes = diff_with_table(stream_schema, grown, sources=merged.sources)
        assert changes == ()
        assert merged_again.columns == merged.columns
        fed = [
            column.name for column in merged_again.columns if column.feed is ColumnSource.PROPERTY
        ]
        assert fed == ["id", "___target_spark_rank"]
    assert Column("id", "id", Integer()) in stream_schema.columns
    assert Column(name, "___target_spark_rank", Text()) in stream_schema.columns
