"""AlterTable in Delta Lake and Iceberg: columns, types and keys change without loss of values."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tap_core.events import StreamId
from tap_core.protocols.fivetran.enums import DataType
from target_spark.config.options import LoadOptions, StreamOptions
from target_spark.errors import TableError, UnsupportedError
from target_spark.fivetran.table_metadata import TABLE_PROPERTY, dump_metadata
from target_spark.fivetran.table_schema import FivetranSchema
from target_spark.fivetran.tables import TableService
from target_spark.tables.table import PartitionField
from tests.target.fivetran.test_fivetran_tables import content, fill, get_existing, shape
from tests.target.fivetran.test_fivetran_tables import tables as tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PEOPLE = shape(
    ("id", DataType.INT, True),
    ("name", DataType.STRING),
    ("at", DataType.NAIVE_DATE),
)


def alter(tables: TableService, *columns: tuple[Any, ...], drops: bool = False) -> list[str]:
    return tables.alter(StreamId("t", "s"), shape(*columns), drops=drops)


def make(tables: TableService, fivetran_schema: FivetranSchema, *rows: str) -> None:
    tables.create(StreamId("t", "s"), fivetran_schema)
    if rows:
        fill(tables, *rows)


def commits(tables: TableService) -> int:
    """Return the number of changes to the table, including those of its metadata."""
    ref = get_existing(tables).ref
    query = f"DESCRIBE HISTORY {ref}"
    if tables.format == "iceberg":
        query = f"SELECT * FROM {ref}.metadata_log_entries"  # noqa: S608
    return len(tables.spark.sql(query).collect())


def names(tables: TableService) -> list[str]:
    return [column.name for column in get_existing(tables).fivetran_schema.columns]


# In place


def test_columns_are_added_and_types_widened_in_place(tables: TableService) -> None:
    """F33: AlterTable adds columns, also of types that need a table feature."""
    make(tables, PEOPLE, "(1, 'a', date'1582-10-10')")
    requested: list[tuple[Any, ...]] = [
        ("id", DataType.LONG, True),
        ("name", DataType.JSON),
        ("at", DataType.NAIVE_DATETIME),
        ("local", DataType.NAIVE_DATETIME),
        ("time", DataType.NAIVE_TIME),
        ("small", DataType.SHORT),
        ("price", DataType.DECIMAL, False, (5, 2)),
    ]
    assert len(alter(tables, *requested)) == 7
    assert get_existing(tables).fivetran_schema == shape(*requested)
    assert content(tables) == [(1, "a", datetime(1582, 10, 10), None, None, None, None)]  # noqa: DTZ001
    before = commits(tables)
    assert alter(tables, *requested) == []
    assert commits(tables) == before
    fill(
        tables,
        "(2147483648L, '{}', timestamp_ntz'2024-01-01 00:00:00', NULL, '10:15', 5S, 999.99)",
    )
    requested = [("id", DataType.LONG, True), ("price", DataType.DECIMAL, False, (12, 4))]
    requested += [("small", DataType.DOUBLE), ("time", DataType.STRING), ("name", DataType.STRING)]
    alter(tables, *requested)
    assert get_existing(tables).fivetran_schema.by_name["price"].decimal == (12, 4)
    assert content(tables)[1][3:] == (None, "10:15", 5.0, Decimal("999.9900"))


def test_alter_of_a_missing_table_is_an_error(tables: TableService) -> None:
    with pytest.raises(TableError, match="does not exist"):
        alter(tables, ("id", DataType.INT))
    make(tables, PEOPLE)
    with pytest.raises(TableError, match="has no columns"):
        alter(tables)


# By a rewrite of the rows

TYPES = shape(
    ("key", DataType.BINARY, True),
    ("truth", DataType.BOOLEAN),
    ("short", DataType.SHORT),
    ("long", DataType.LONG),
    ("decimal", DataType.DECIMAL, False, (38, 10)),
    ("float", DataType.FLOAT),
    ("double", DataType.DOUBLE),
    ("day", DataType.NAIVE_DATE),
    ("local", DataType.NAIVE_DATETIME),
    ("instant", DataType.UTC_DATETIME),
    ("time", DataType.NAIVE_TIME),
    ("xml", DataType.XML),
)
FULL = (
    "(X'00ff', true, -32768S, 9223372036854775807L, 0.0000000001, 0.1F, 2.5e-300D,"
    " date'0001-01-01', timestamp_ntz'9999-12-31 23:59:59.999999',"
    " timestamp'1969-12-31 23:59:59.999999Z', '10:15', '<a/>')"
)
EMPTY = f"(X'01'{', NULL' * 11})"
TEXTS = (
    "AP8=",
    "true",
    "-32768",
    "9223372036854775807",
    "0.0000000001",
    "0.1",
    "2.5E-300",
    "0001-01-01",
    "9999-12-31T23:59:59.999999",
    "1969-12-31T23:59:59.999999Z",
    "10:15",
    "<a/>",
)


@pytest.mark.thorough
def test_every_type_converts_to_text_and_back(tables: TableService) -> None:
    """F33: AlterTable changes the type of any column, also of keys, and loses no value.

    The text is the one that Fivetran would write into a file.
    """
    make(tables, TYPES, FULL, EMPTY)
    before = content(tables)
    texts = FivetranSchema(
        tuple(replace(column, type=DataType.STRING, decimal=None) for column in TYPES.columns)
    )
    assert len(tables.alter(StreamId("t", "s"), texts, drops=False)) == len(TYPES.columns)
    assert get_existing(tables).fivetran_schema == texts
    assert content(tables) == [("AP8=", *TEXTS[1:]), ("AQ==", *[None] * 11)]
    assert len(tables.alter(StreamId("t", "s"), TYPES, drops=False)) == len(TYPES.columns)
    assert get_existing(tables).fivetran_schema == TYPES
    assert content(tables) == before
    assert tables.alter(StreamId("t", "s"), TYPES, drops=False) == []


def test_lossy_type_change_is_an_error_and_changes_nothing(tables: TableService) -> None:
    """F33: a type that does not take every value is a Task that names the column, not the value."""
    fivetran_schema = shape(
        ("id", DataType.LONG, True), ("code", DataType.STRING), ("n", DataType.DOUBLE)
    )
    make(tables, fivetran_schema, "(9007199254740993L, '4711x', 0.5D)", "(2L, NULL, 2D)")
    before = content(tables), commits(tables)
    columns = [("id", DataType.DOUBLE, True), ("code", DataType.INT), ("n", DataType.SHORT)]
    with pytest.raises(TableError, match=r"id to DOUBLE .1 of.*code to INT.*n to SHORT") as caught:
        alter(tables, *columns)
    assert "4711" not in str(caught.value)
    assert (content(tables), commits(tables), get_existing(tables).fivetran_schema) == (
        *before,
        fivetran_schema,
    )


def test_short_bounds_are_enforced_in_formats_without_short(tables: TableService) -> None:
    make(tables, PEOPLE, "(32768, 'a', NULL)")
    with pytest.raises(TableError, match="id to SHORT"):
        alter(tables, ("id", DataType.SHORT, True))
    tables.spark.sql(f"UPDATE {get_existing(tables).ref} SET id = 32767")  # noqa: S608
    assert alter(tables, ("id", DataType.SHORT, True)) == ["column id is SHORT, it was INT"]
    assert content(tables) == [(32767, "a", None)]


def test_interrupted_alter_has_no_effect_and_can_be_retried(tables: TableService) -> None:
    """After kill -9 the table is unchanged or complete."""
    make(tables, PEOPLE, "(1, '2', NULL)")
    after = shape(("id", DataType.INT), ("name", DataType.LONG, True), ("at", DataType.NAIVE_DATE))
    metadata = dump_metadata(after, PEOPLE)
    ref = get_existing(tables).ref
    tables.spark.sql(f"ALTER TABLE {ref} SET TBLPROPERTIES ('{TABLE_PROPERTY}' = '{metadata}')")
    assert get_existing(tables).fivetran_schema == PEOPLE
    columns = [("id", DataType.INT), ("name", DataType.LONG, True), ("at", DataType.NAIVE_DATE)]
    assert len(alter(tables, *columns)) == 2
    assert (get_existing(tables).fivetran_schema, content(tables)) == (after, [(1, 2, None)])


@pytest.mark.thorough
def test_columns_are_dropped_only_if_requested(tables: TableService) -> None:
    make(tables, PEOPLE, "(1, 'a', date'2024-01-01')")
    assert alter(tables, ("id", DataType.INT, True)) == []
    assert names(tables) == ["id", "name", "at"]
    changes = alter(tables, ("at", DataType.STRING), ("new", DataType.INT), drops=True)
    assert changes[-3:] == [
        "column id is dropped",
        "column name is dropped",
        "the key is none, it was id",
    ]
    assert content(tables) == [("2024-01-01", None)]
    assert names(tables) == ["at", "new"]


# Keys


def test_keys_are_added_and_removed(tables: TableService) -> None:
    """F33: AlterTable changes the key; a key column that is absent leaves it and stays a column."""
    make(tables, PEOPLE, "(1, 'a', NULL)", "(2, 'a', NULL)")
    before = commits(tables)
    assert alter(tables, ("id", DataType.INT, True), ("name", DataType.STRING, True)) == [
        "the key is id, name, it was id"
    ]
    assert [key.name for key in get_existing(tables).fivetran_schema.keys] == ["id", "name"]
    assert alter(tables, ("id", DataType.INT, True)) == ["the key is id, it was id, name"]
    assert names(tables) == ["id", "name", "at"]
    assert [key.name for key in get_existing(tables).fivetran_schema.keys] == ["id"]
    assert commits(tables) == before + 2
    assert len(content(tables)) == 2


@pytest.mark.parametrize(
    "columns,message",
    [
        ([("id", DataType.INT), ("name", DataType.STRING, True)], "be name: several rows"),
        pytest.param(
            [("id", DataType.INT, True), ("at", DataType.NAIVE_DATE, True)],
            "be id, at: there are",
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            [("id", DataType.INT, True), ("new", DataType.INT, True)],
            "be id, new: there are",
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_key_that_is_not_unique_is_rejected(
    tables: TableService, columns: list[tuple[Any, ...]], message: str
) -> None:
    """F33: several rows with one key, or with none, are a Task, and the table is unchanged."""
    make(tables, PEOPLE, "(1, 'a', NULL)", "(2, 'a', NULL)")
    with pytest.raises(TableError, match=message):
        alter(tables, *columns)
    assert get_existing(tables).fivetran_schema == PEOPLE


# The layout


@pytest.mark.thorough
@pytest.mark.parametrize(
    "table_format,options",
    [
        ("delta", StreamOptions(cluster_by=("id",))),
        ("delta", StreamOptions(partition_by=(PartitionField("at"),))),
        ("delta", StreamOptions(partition_by=(PartitionField("at", "month"),))),
        (
            "iceberg",
            StreamOptions(partition_by=(PartitionField("at", "month"),), sort_by=("name",)),
        ),
    ],
)
def test_rewritten_table_keeps_its_layout(
    spark: SparkSession, tmp_path: Path, table_format: str, options: StreamOptions
) -> None:
    tables = TableService(spark, LoadOptions(str(tmp_path), format=table_format, every=options))
    make(tables, PEOPLE, "(1, '1', date'2024-01-01')")

    def table_schema() -> str:
        ref = get_existing(tables).ref
        if table_format == "iceberg":
            ddl = str(spark.sql(f"SHOW CREATE TABLE {ref}").first()).partition("PARTITIONED")[2]
            return ddl.partition("LOCATION")[0] + str("sort-order" in ddl)
        (detail,) = spark.sql(f"DESCRIBE DETAIL {ref}").collect()
        return f"{detail.partitionColumns} {detail.clusteringColumns}"

    before = table_schema()
    alter(tables, ("id", DataType.INT, True), ("name", DataType.INT), ("at", DataType.NAIVE_DATE))
    assert content(tables)[0][:3] == (1, 1, date(2024, 1, 1))
    fill(tables, "(2, 2, date'2024-02-01')")
    assert None not in content(tables)[1]
    assert table_schema() == before


@pytest.mark.thorough
def test_types_of_a_thousand_columns_change_at_once(tables: TableService) -> None:
    columns = [(f"c{number}", DataType.DOUBLE) for number in range(1000)]
    make(tables, shape(*columns), f"({', '.join(['0.5D'] * 1000)})")
    assert len(alter(tables, *((name, DataType.STRING) for name, _ in columns))) == 1000
    assert content(tables) == [("0.5",) * 1000]


@pytest.mark.thorough
def test_table_with_widened_types_can_be_rewritten(tables: TableService) -> None:
    make(tables, PEOPLE, "(1, 'a', NULL)")
    alter(tables, ("id", DataType.LONG, True))
    alter(tables, ("id", DataType.LONG, True), ("at", DataType.STRING))
    alter(tables, ("id", DataType.STRING, True))
    assert content(tables) == [("1", "a", None)]
    noon = datetime(2024, 1, 1, 12, tzinfo=timezone.utc)
    alter(tables, ("id", DataType.STRING, True), ("_fivetran_synced", DataType.UTC_DATETIME))
    assert tables.truncate(StreamId("t", "s"), "_fivetran_synced", noon, None) == 0


@pytest.mark.thorough
def test_type_of_a_partition_source_column_cannot_change(
    spark: SparkSession, tmp_path: Path
) -> None:
    options = StreamOptions(partition_by=(PartitionField("at", "month"),))
    tables = TableService(spark, LoadOptions(str(tmp_path), every=options))
    make(tables, PEOPLE, "(1, '1', date'2024-01-01')")
    with pytest.raises(UnsupportedError, match="partitioned by _part_month_at"):
        alter(tables, ("id", DataType.INT, True), ("at", DataType.STRING))
    assert get_existing(tables).fivetran_schema == PEOPLE
