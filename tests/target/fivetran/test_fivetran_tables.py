"""DescribeTable, CreateTable and Truncate, in Delta Lake and Iceberg."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tap_core.events import StreamId
from tap_core.protocols.fivetran.enums import DataType
from target_spark.config.options import LoadOptions, StreamOptions
from target_spark.errors import TableError, UnsupportedError
from target_spark.fivetran.existing_table import ExistingTable
from target_spark.fivetran.table_schema import DestinationColumn, FivetranSchema
from target_spark.fivetran.tables import TableService
from target_spark.storage.uris import to_spark_uri
from target_spark.tables.identifiers import RESERVED, quote, sanitize_names
from target_spark.tables.table import PartitionField
from tests.target.writers.iceberg_rows import add_catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.spark.session import Session

pytestmark = pytest.mark.spark

ODD = ["select", "a.b", "Größe", "größe", "😀'", 'a"b', "x;{y}", "_pos", " lead"]


def shape(*columns: tuple[Any, ...]) -> FivetranSchema:
    """Return the schema of a request; each column is (name, type, is_key, digits)."""
    result = [DestinationColumn(*column) for column in columns]
    names = sanitize_names([column.name for column in result], RESERVED["iceberg"])
    return FivetranSchema(tuple(replace(column, column=names[column.name]) for column in result))


ROWS = shape(
    ("id", DataType.INT, True),
    ("name", DataType.STRING),
    ("_fivetran_synced", DataType.UTC_DATETIME),
)


@pytest.fixture(params=["delta", "iceberg"])
def tables(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> TableService:
    return TableService(spark, LoadOptions(str(tmp_path / "lake 'x'"), format=request.param))


def get_existing(tables: TableService, name: str = "t", schema: str = "s") -> ExistingTable:
    existing = tables.describe(StreamId(name, schema))
    assert existing is not None
    return existing


def fill(tables: TableService, *rows: str, name: str = "t") -> None:
    existing = get_existing(tables, name)
    columns = ", ".join(map(quote, existing.types))
    tables.spark.sql(f"INSERT INTO {existing.ref} ({columns}) VALUES {', '.join(rows)}")  # noqa: S608


def content(tables: TableService, name: str = "t") -> list[tuple[Any, ...]]:
    ref = get_existing(tables, name).ref
    return sorted(tuple(row) for row in tables.spark.table(ref).collect())


# Describe and create


def test_every_type_is_described_as_created(tables: TableService) -> None:
    """F31: DescribeTable returns all columns, with types, decimal digits and keys.

    Also types that are one type in Spark, system columns, and names that no format allows.
    """
    types = [type_ for type_ in DataType if type_ is not DataType.UNSPECIFIED]
    created = shape(
        *((type_.name.lower(), type_) for type_ in types),
        *((name, DataType.JSON) for name in ODD),
        ("small", DataType.DECIMAL, False, (5, 0)),
        ("wide", DataType.DECIMAL, False, (38, 37)),
        ("id", DataType.LONG, True),
        ("part", DataType.NAIVE_TIME, True),
        ("_fivetran_synced", DataType.UTC_DATETIME),
    )
    assert tables.describe(StreamId("t", "s")) is None
    tables.create(StreamId("t", "s"), created)
    actual = get_existing(tables).fivetran_schema
    by_name = {column.name: column for column in actual.columns}
    assert by_name.pop("decimal").decimal == (38, 10)
    expected = {column.name: column for column in created.columns if column.name != "decimal"}
    assert by_name == expected
    assert [key.name for key in actual.keys] == ["id", "part"]


def test_create_fails_for_an_existing_table(tables: TableService) -> None:
    """F32: CreateTable fails for an existing table, and creates a missing schema."""
    tables.create(StreamId("t", "new schema"), ROWS)
    ref = get_existing(tables, schema="new schema").ref
    tables.spark.sql(f"INSERT INTO {ref} VALUES (1, 'a', now())")  # noqa: S608
    with pytest.raises(TableError, match="t exists already"):
        tables.create(StreamId("t", "new schema"), ROWS)
    assert tables.spark.table(ref).count() == 1
    with pytest.raises(TableError, match="has no columns"):
        tables.create(StreamId("empty", "s"), FivetranSchema(()))


def test_similar_names_are_different_tables(tables: TableService) -> None:
    names = ["a.b", "a b", "A b", "😀", "files", "_x"]
    for number, name in enumerate(names):
        tables.create(StreamId(name, "s"), shape((f"c{number}", DataType.INT)))
    actual = [get_existing(tables, name).fivetran_schema.columns[0].name for name in names]
    assert actual == [f"c{number}" for number in range(len(names))]


def test_table_of_a_thousand_columns_is_described_as_created(tables: TableService) -> None:
    created = shape(*((f"column_{number}", DataType.JSON) for number in range(1000)))
    tables.create(StreamId("wide", "s"), created)
    assert get_existing(tables, "wide").fivetran_schema == created


def create_concurrently(session: Session, options: LoadOptions, *settings: Any) -> None:
    def create(name: str) -> None:
        spark = session.spark().newSession()
        for setting in settings:
            setting(spark)
        TableService(spark, options).create(StreamId(name, "fresh"), ROWS)

    names = [f"t{number}" for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(create, names))
    spark = session.spark().newSession()
    for setting in settings:
        setting(spark)
    tables = (TableService(spark, options).describe(StreamId(name, "fresh")) for name in names)
    assert [table and table.fivetran_schema for table in tables] == [ROWS] * 4


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_tables_of_a_new_schema_can_be_created_concurrently(
    spark_session: Session, tmp_path: Path, table_format: str
) -> None:
    """F32: CreateTable calls arrive in parallel."""
    create_concurrently(spark_session, LoadOptions(str(tmp_path), format=table_format))


@pytest.mark.thorough
@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_tables_of_a_new_schema_in_a_catalog_can_be_created_concurrently(
    spark_session: Session, tmp_path: Path, table_format: str
) -> None:
    catalog = "spark_catalog" if table_format == "delta" else "theirs"
    options = LoadOptions(
        str(tmp_path / "delta") if table_format == "delta" else "",
        format=table_format,
        every=StreamOptions(catalog=catalog),
        namespaces_as_databases=True,
    )

    def add_other_catalog(spark: SparkSession) -> None:
        add_catalog(spark, "theirs", type="hadoop", warehouse=to_spark_uri(str(tmp_path / "ice")))

    settings: Iterable[Any] = () if table_format == "delta" else (add_other_catalog,)
    create_concurrently(spark_session, options, *settings)


def test_table_changed_by_others_is_described_by_its_columns(tables: TableService) -> None:
    tables.create(StreamId("t", "s"), ROWS)
    ref = get_existing(tables).ref
    tables.spark.sql(f"ALTER TABLE {ref} ADD COLUMNS (more struct<a: int>, `Odd-One!` bigint)")
    if tables.format == "delta":
        tables.spark.sql(f"ALTER TABLE {ref} SET TBLPROPERTIES ('delta.enableTypeWidening'='true')")
    tables.spark.sql(f"ALTER TABLE {ref} ALTER COLUMN id TYPE bigint")
    types = {column.name: column.type for column in get_existing(tables).fivetran_schema.columns}
    assert types["more"] is DataType.JSON
    assert types["Odd-One!"] is types["id"] is DataType.LONG
    assert [key.name for key in get_existing(tables).fivetran_schema.keys] == ["id"]
    tables.spark.sql(f"ALTER TABLE {ref} SET TBLPROPERTIES ('target_spark.fivetran' = 'gone')")
    with pytest.raises(TableError, match="damaged"):
        get_existing(tables)


def test_request_columns_match_by_name(tables: TableService) -> None:
    tables.create(StreamId("t", "s"), shape(("a b", DataType.INT, True), ("c", DataType.INT)))
    requested = shape(("a_b", DataType.INT), ("a b", DataType.INT))
    assert [column.column for column in requested.columns] == ["a_b", "a_b_2"]
    existing = get_existing(tables)
    assert existing.match_columns(FivetranSchema(requested.columns[1:])).columns[0].column == "a_b"
    with pytest.raises(TableError, match="no column a_b"):
        existing.match_columns(requested)


def test_layout_settings_apply_to_created_tables(spark: SparkSession, tmp_path: Path) -> None:
    every = StreamOptions(cluster_by=("id",))
    tables = TableService(spark, LoadOptions(str(tmp_path), every=every))
    tables.create(StreamId("t", "s"), ROWS)
    (detail,) = spark.sql(f"DESCRIBE DETAIL {get_existing(tables).ref}").collect()
    assert detail.clusteringColumns == ["id"]
    every = StreamOptions(partition_by=(PartitionField("name"),))
    with pytest.raises(UnsupportedError, match="partitioned by name"):
        TableService(spark, LoadOptions(str(tmp_path), every=every)).create(
            StreamId("u", "s"), ROWS
        )


# Truncate

NOON = datetime(2024, 1, 8, 12, tzinfo=timezone.utc)
SYNCED = (
    "(1, 'before', timestamp'2024-01-08 11:59:59.999Z')",
    "(2, 'at', timestamp'2024-01-08 12:00:00Z')",
    "(3, 'after', timestamp'2024-01-08 12:00:00.000001Z')",
    "(4, 'never', NULL)",
)


def test_truncate_deletes_rows_synced_before_an_instant(tables: TableService) -> None:
    """F34: Truncate deletes rows strictly before utc_delete_before, to the millisecond.

    A missing table is no error, and repeating the call changes nothing.
    """
    assert tables.truncate(StreamId("absent", "s"), "_fivetran_synced", NOON, None) == 0
    tables.create(StreamId("t", "s"), ROWS)
    fill(tables, *SYNCED)

    def truncate(before: datetime | None) -> int:
        return tables.truncate(StreamId("t", "s"), "_fivetran_synced", before, None)

    assert truncate(datetime(1970, 1, 1, tzinfo=timezone.utc)) == 0
    assert [truncate(NOON), truncate(NOON)] == [1, 0]
    assert [row[0] for row in content(tables)] == [2, 3, 4]
    assert truncate((NOON + timedelta(milliseconds=1)).replace(tzinfo=None)) == 2
    assert [row[0] for row in content(tables)] == [4]
    assert truncate(None) == 1
    assert content(tables) == []


def test_soft_truncate_marks_rows_and_adds_the_column_if_missing(tables: TableService) -> None:
    """F34: a soft truncation deletes nothing; it is called for tables without the column too."""
    tables.create(StreamId("t", "s"), ROWS)
    fill(tables, *SYNCED)

    def truncate(before: datetime | None, column: str = "_fivetran_deleted") -> list[Any]:
        count = tables.truncate(StreamId("t", "s"), "_fivetran_synced", before, column)
        return [count, *(row[-1] for row in content(tables))]

    assert truncate(NOON) == [1, True, None, None, None]
    assert (
        get_existing(tables).fivetran_schema.by_name["_fivetran_deleted"].type is DataType.BOOLEAN
    )
    assert truncate(NOON) == [0, True, None, None, None]
    assert truncate(None) == [3, True, True, True, True]
    with pytest.raises(TableError, match=r"Column name of table .* is STRING"):
        truncate(NOON, "name")
    for column in ("name", "nothing"):
        with pytest.raises(TableError, match=f"truncated by column {column}"):
            tables.truncate(StreamId("t", "s"), column, NOON, None)
    assert [row[0] for row in content(tables)] == [1, 2, 3, 4]
