"""Iceberg tables: their locations, column types, layout and maintenance."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from target_spark.columns import (
    Array,
    Binary,
    Boolean,
    Column,
    ColumnType,
    Date,
    Decimal,
    Double,
    Integer,
    LocalTimestamp,
    SchemaChange,
    Struct,
    TableSchema,
    Text,
    Timestamp,
    diff_with_table,
)
from target_spark.columns.ddl_parser import parse_ddl
from target_spark.errors import TableError, UnsupportedError
from target_spark.storage.commit_retry import FailureKind, classify_failure
from target_spark.storage.uris import to_spark_uri
from target_spark.tables.identifiers import quote
from target_spark.tables.table import MaintenanceOptions, PartitionField, Table, TableLayout
from target_spark.writers import MergeKeys
from target_spark.writers.iceberg.catalog import DEFAULT_CATALOG, resolve_table
from target_spark.writers.iceberg.maintenance import expire_snapshots
from target_spark.writers.iceberg.writer import IcebergWriter
from target_spark.writers.type_widening import iceberg_widens

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


from tests.target.writers.iceberg_rows import add_catalog, content, line
from tests.target.writers.sample_rows import KEYS, LAYOUT, batch, marker, rows

pytestmark = [pytest.mark.spark, pytest.mark.thorough]


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Table:
    new_table = Table(str(tmp_path / "people"), "people")
    IcebergWriter().create(spark, new_table, LAYOUT, TableLayout())
    return new_table


@pytest.fixture
def named(spark: SparkSession, tmp_path: Path) -> Table:
    """Return a table in a user's catalog, whose database does not exist yet."""
    add_catalog(spark, "mine", type="hadoop", warehouse=to_spark_uri(str(tmp_path / "mine")))
    return Table("", "people", ("mine", "crm", "people"))


# --------------------------------------------------------------------- tables and locations


def test_table_is_in_the_folder_of_its_name_and_readable_by_others(spark, tmp_path):
    table = Table(str(tmp_path / "lake" / "people"), "people")
    IcebergWriter().create(spark, table, LAYOUT, TableLayout())
    IcebergWriter().append(table, rows(spark, (1, "a", 1)), marker(1))
    assert (tmp_path / "lake" / "people" / "metadata" / "v2.metadata.json").is_file()
    people = spark.read.format("iceberg").load(to_spark_uri(table.path))
    assert [tuple(row) for row in people.collect()] == [(1, "a", 1)]
    add_catalog(spark, "theirs", type="hadoop", warehouse=to_spark_uri(str(tmp_path)))
    assert spark.table("theirs.lake.people").count() == 1
    assert [row.tableName for row in spark.sql("SHOW TABLES IN theirs.lake").collect()] == [
        "people"
    ]
    properties = spark.sql("SHOW TBLPROPERTIES theirs.lake.people").collect()
    assert ("format-version", "2") in {tuple(row) for row in properties}


@pytest.mark.parametrize("name", ["files", "snapshots", "history", "changes", "odd.näme 😀'x'"])
def test_names_of_iceberg_metadata_tables_are_valid_table_names(spark, tmp_path, name):
    table = Table(str(tmp_path / name), name)
    writer = IcebergWriter()
    assert writer.get_column_types(spark, table) is None
    writer.create(spark, table, LAYOUT, TableLayout())
    writer.append(table, rows(spark, (1, "a", 1)), marker(1))
    writer.upsert(table, batch(spark, (1, "b", 2)), KEYS, marker(2))
    writer.maintain(spark, table, MaintenanceOptions(compact=True, retain_days=7))
    assert content(spark, table) == [(1, "b", 2)]


@pytest.mark.parametrize(
    "path, database, warehouse",
    [
        ("/data/lake/t", ("lake",), "file:///data"),
        ("/lake/t", ("lake",), "file:///"),
        ("file:///a/b/t/", ("b",), "file:///a"),
        ("s3a://bucket/t", (), "s3a://bucket"),
        ("s3a://bucket/a/t", ("a",), "s3a://bucket"),
        ("hdfs://host:9000/a/b/t", ("b",), "hdfs://host:9000/a"),
    ],
)
def test_parent_folder_of_a_table_is_its_database(spark, path, database, warehouse):
    table_ref = resolve_table(spark, Table(path, "t"))
    assert table_ref.catalog.startswith(f"{DEFAULT_CATALOG}_")
    assert (table_ref.database, table_ref.name) == (database, "t")
    assert spark.conf.get(f"spark.sql.catalog.{table_ref.catalog}.warehouse") == warehouse
    assert resolve_table(spark, Table(path, "t")) == table_ref


def test_path_directly_below_the_root_is_supported(spark):
    """As in containers, where a volume is mounted there."""
    folder = Path("/target-spark-test")
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("the root of this machine cannot be written")
    try:
        table = Table(f"{folder}/files", "files")
        IcebergWriter().create(spark, table, LAYOUT, TableLayout())
        IcebergWriter().append(table, rows(spark, (1, "a", 1)), marker(1))
        assert content(spark, table) == [(1, "a", 1)]
        assert (folder / "files" / "metadata").is_dir()
    finally:
        shutil.rmtree(folder)


def test_tables_in_a_user_defined_catalog_are_created_written_and_dropped(spark, named):
    writer = IcebergWriter()
    assert writer.get_column_types(spark, named) is None
    assert writer.get_last_metadata(spark, named) is None
    writer.create(spark, named, LAYOUT, TableLayout())
    writer.append(named, rows(spark, (1, "a", 1)), marker(1))
    writer.upsert(named, batch(spark, (1, "b", 2), (2, "c", 2)), KEYS, marker(2, "[2]"))
    assert spark.table("mine.crm.people").count() == 2
    assert IcebergWriter().get_last_metadata(spark, named) == marker(2, "[2]")
    IcebergWriter().append(named, rows(spark, (1, "b", 2)), marker(2, "[2]"))
    assert len(line(spark, named)) == 2
    writer.maintain(spark, named, MaintenanceOptions(compact=True, retain_days=7))
    aside = named.with_suffix("__quarantine")
    writer.create(spark, aside, LAYOUT, TableLayout())
    assert {row.tableName for row in spark.sql("SHOW TABLES IN mine.crm").collect()} == {
        "people",
        "people__quarantine",
    }
    writer.drop(spark, named)
    assert writer.get_column_types(spark, named) is None
    writer.create(spark, named, LAYOUT, TableLayout())
    writer.append(named, rows(spark, (1, "a", 1)), marker(1))
    assert content(spark, named) == [(1, "a", 1)]


def test_unconfigured_catalog_is_an_error_with_a_remedy(spark):
    with pytest.raises(UnsupportedError, match=r"'nowhere' of.*catalog\.nowhere = org"):
        IcebergWriter().get_column_types(spark, Table("", "people", ("nowhere", "crm", "people")))


def test_user_defined_table_properties_are_applied(spark, tmp_path):
    setting = f"spark.sql.catalog.{DEFAULT_CATALOG}.table-default.write.metadata.compression-codec"
    spark.conf.set(setting, "gzip")
    spark.conf.set(f"spark.sql.catalog.{DEFAULT_CATALOG}.table-default.format-version", "3")
    table = Table(str(tmp_path / "own" / "people"), "people")
    writer = IcebergWriter()
    writer.create(spark, table, LAYOUT, TableLayout())
    writer.append(table, rows(spark, (1, "a", 1)), marker(1, "[1]"))
    assert list((tmp_path / "own" / "people" / "metadata").glob("v2.gz.metadata.json"))
    assert IcebergWriter().get_last_metadata(spark, table) == marker(1, "[1]")
    properties = spark.sql(f"SHOW TBLPROPERTIES {resolve_table(spark, table).ref}").collect()
    assert ("format-version", "3") in {tuple(row) for row in properties}


def test_folder_with_foreign_files_is_an_error(spark, tmp_path):
    (tmp_path / "data.csv").write_text("a,b", encoding="utf-8")
    with pytest.raises(
        TableError, match=r"files \(data\.csv\) and is not a table in Iceberg format"
    ):
        IcebergWriter().get_column_types(spark, Table(str(tmp_path), "x"))


def test_folder_of_a_catalog_table_is_rejected(spark, tmp_path):
    metadata = tmp_path / "x" / "metadata"
    metadata.mkdir(parents=True)
    table = Table(str(tmp_path / "x"), "x")
    # The file of a run that died while it created the table.
    (metadata / "12345678-aaaa.metadata.json").write_text("{}")
    assert IcebergWriter().get_column_types(spark, table) is None
    (metadata / "00003-aaaa.metadata.json").write_text("{}")
    with pytest.raises(TableError, match="table of a catalog, and only the catalog may change it"):
        IcebergWriter().get_column_types(spark, table)


def test_unreachable_location_is_an_error_and_not_an_empty_table(spark):
    table = Table("nosuch://host/a/t", "t")
    for ask in (IcebergWriter().get_last_metadata, IcebergWriter().get_column_types):
        with pytest.raises(Exception, match="nosuch"):
            ask(spark, table)


def test_write_to_a_removed_table_is_an_error(spark, table):
    writer = IcebergWriter()
    writer.append(table, rows(spark, (1, "a", 1)), marker(1))
    shutil.rmtree(table.path)
    with pytest.raises(TableError, match="was removed while it was loaded"):
        writer.upsert(table, batch(spark, (1, "b", 2)), KEYS, marker(2))


def test_drop_removes_the_folder(spark, table):
    IcebergWriter().drop(spark, table)
    assert not Path(table.path).exists()


# ----------------------------------------------------------------------------- evolution


def test_schema_changes_are_applied_and_keep_the_metadata(spark, tmp_path):
    nested = Struct((Column("x", "x", Integer(32)), Column("x.y", "x.y", Text())))
    table_schema = TableSchema(
        (
            Column("i", "i", Integer(32)),
            Column("d", "d", Decimal(10, 2)),
            Column("o.o", "o.o", nested),
            Column("l", "l", Array(Struct((Column("a", "a", Integer(32)),)))),
        )
    )
    table = Table(str(tmp_path / "t"), "t")
    writer = IcebergWriter()
    writer.create(spark, table, table_schema, TableLayout())
    data = spark.sql(
        "SELECT 1 AS i, 1.25BD AS d, named_struct('x', 1, 'x.y', 'a') AS `o.o`,"
        " array(named_struct('a', 1)) AS l"
    ).selectExpr("i", "CAST(d AS DECIMAL(10,2)) AS d", "`o.o`", "l")
    writer.append(table, data, marker(1, "[1]"))
    writer.alter(
        spark,
        table,
        [
            SchemaChange("widen", ("i",), "bigint"),
            SchemaChange("widen", ("d",), "decimal(20,2)"),
            SchemaChange("widen", ("o.o", "x"), "bigint"),
            SchemaChange("widen", ("l", "element", "a"), "bigint"),
            SchemaChange("add", ("o.o", "n.w"), "timestamp"),
            SchemaChange("add", ("l", "element", "b"), "struct<`c`: string>"),
            SchemaChange("add", ("new.one",), "array<bigint>"),
        ],
    )
    assert writer.get_column_types(spark, table) == {
        "i": "bigint",
        "d": "decimal(20,2)",
        "o.o": "struct<`x`: bigint, `x.y`: string, `n.w`: timestamp>",
        "l": "array<struct<`a`: bigint, `b`: struct<`c`: string>>>",
        "new.one": "array<bigint>",
    }
    assert IcebergWriter().get_last_metadata(spark, table) == marker(1, "[1]")
    (row,) = writer.rows(spark, table).collect()
    assert (row["i"], row["o.o"]["x"], row["l"][0]["a"], row["new.one"]) == (1, 1, 1, None)


WIDENED = [("int", "bigint"), ("float", "double"), ("decimal(10,2)", "decimal(12,2)")]
REFUSED = [
    ("bigint", "double"),
    ("bigint", "decimal(20,0)"),
    ("int", "double"),
    ("decimal(10,2)", "decimal(12,3)"),
    ("decimal(12,2)", "decimal(10,2)"),
    ("date", "timestamp"),
    ("timestamp", "string"),
    ("boolean", "int"),
]


def test_can_widen_agrees_with_iceberg(spark, tmp_path):
    table = Table(str(tmp_path / "t"), "t")
    pairs = {f"c{n}": pair for n, pair in enumerate(WIDENED + REFUSED)}
    columns = (Column(name, name, parse_ddl(old)) for name, (old, _) in pairs.items())
    IcebergWriter().create(spark, table, TableSchema(tuple(columns)), TableLayout())
    ref = resolve_table(spark, table).ref
    for name, (old, new) in pairs.items():
        statement = f"ALTER TABLE {ref} ALTER COLUMN {name} TYPE {new}"
        assert iceberg_widens(old, new) == ((old, new) in WIDENED)
        if (old, new) in WIDENED:
            spark.sql(statement)
        else:
            with pytest.raises(Exception, match=r"Cannot change column type|NOT_SUPPORTED"):
                spark.sql(statement)


def test_type_that_cannot_be_widened_gets_another_column():
    new_schema = TableSchema((Column("a", "a", Double()), Column("b", "b", Decimal(20, 4))))
    table_schema, steps = diff_with_table(
        new_schema, {"a": "bigint", "b": "decimal(10,2)"}, iceberg_widens
    )
    assert [step.path for step in steps] == [("a__double",), ("b__decimal_20_4",)]
    assert list(table_schema.types) == ["a", "b", "a__double", "b__decimal_20_4"]


ODD = ["a.b", "😀", "select", "Ä-b", "it's", 'q"t', "a/b", "UPPER"]
ALL_TYPES: list[ColumnType] = [
    Boolean(),
    Integer(),
    Decimal(38, 9),
    Double(),
    Text(),
    Timestamp(),
    LocalTimestamp(),
    Date(),
    Binary(),
    Array(Array(Decimal(5, 2))),
    Struct(tuple(Column(name, name, Timestamp()) for name in ODD)),
    Array(Struct((Column("x.y", "x.y", Struct((Column("z", "z", Binary()),))),))),
]
VALUES = [
    "true",
    "9223372036854775807L",
    "CAST('12345678901234567890123456789.123456789' AS DECIMAL(38,9))",
    "1.5D",
    "'it''s \\u0001 😀'",
    "TIMESTAMP '0001-01-01 00:00:00.000001Z'",
    "TIMESTAMP_NTZ '9999-12-31 23:59:59.999999'",
    "DATE '0001-01-01'",
    "X'00FF'",
    "array(array(1.25BD), NULL)",
    "NULL",
    "array(named_struct('x.y', named_struct('z', X'01')))",
]


def test_every_column_type_round_trips(spark, tmp_path):
    columns = tuple(Column(f"c{n}", f"c{n}", type_) for n, type_ in enumerate(ALL_TYPES))
    table_schema = TableSchema((Column("k.k", "k.k", Integer()), *columns))
    table = Table(str(tmp_path / "t"), "t")
    writer = IcebergWriter()
    writer.create(spark, table, table_schema, TableLayout())
    types = writer.get_column_types(spark, table)
    assert {name: parse_ddl(ddl).ddl for name, ddl in types.items()} == table_schema.types
    assert diff_with_table(table_schema, types, iceberg_widens)[1] == ()
    values = ", ".join(
        f"CAST({value} AS {column.type.ddl}) AS {quote(column.name)}"
        for value, column in zip(VALUES, columns, strict=True)
    )
    data = spark.sql(f"SELECT 1L AS `k.k`, {values}, 1L AS at")
    keys = MergeKeys(("k.k",), order="at")
    for number in (1, 2):  # an append, then a MERGE of the same
        writer.upsert(table, data, keys, marker(number))
        assert writer.rows(spark, table).exceptAll(data.drop("at")).count() == 0
        assert writer.rows(spark, table).count() == 1


def test_special_characters_in_column_field_and_key_names_are_supported(spark, tmp_path):
    columns = tuple(Column(name, name, Integer()) for name in ODD)
    nested = Column("o.o", "o.o", Struct((Column("x.y", "x.y", Integer()),)))
    table = Table(str(tmp_path / "odd 'table'"), "odd")
    writer = IcebergWriter()
    writer.create(spark, table, TableSchema((*columns, nested)), TableLayout())
    values = ", ".join(f"1L AS {quote(name)}" for name in ODD)
    data = spark.sql(f"SELECT {values}, named_struct('x.y', 1L) AS `o.o`, 1L AS `or.der`")
    keys = MergeKeys(("a.b", "😀"), order="or.der")
    writer.upsert(table, data, keys, marker(1))
    writer.upsert(table, data, keys, marker(2))
    writer.alter(spark, table, [SchemaChange("add", ("o.o", "n.w"), "bigint")])
    assert content(spark, table) == [(*(1 for _ in ODD), (1, None))]


def test_column_names_ambiguous_for_iceberg_are_rejected(spark, tmp_path):
    table = Table(str(tmp_path / "t"), "t")
    inner = Struct((Column("b", "b", Integer()),))
    table_schema = TableSchema((Column("a", "a", inner), Column("a.b", "a.b", Integer())))
    with pytest.raises(TableError, match=r"refuses.*multiple fields for name a\.b") as caught:
        IcebergWriter().create(spark, table, table_schema, TableLayout())
    assert "\n" not in str(caught.value)
    assert classify_failure(caught.value) is FailureKind.PERMANENT
    IcebergWriter().create(
        spark, table, replace(table_schema, columns=table_schema.columns[:1]), TableLayout()
    )
    with pytest.raises(TableError, match="refuses"):
        IcebergWriter().alter(spark, table, [SchemaChange("add", ("a.b",), "bigint")])


def test_created_table_has_column_comments(spark, tmp_path):
    table = Table(str(tmp_path / "t"), "t")
    comment = 'it\'s \\ "so"\n`x`'
    IcebergWriter().create(
        spark, table, TableSchema((Column("a", "a", Text(), comment),)), TableLayout()
    )
    assert IcebergWriter().rows(spark, table).schema["a"].metadata == {"comment": comment}
    IcebergWriter().create(spark, table, LAYOUT, TableLayout())  # an existing table is not changed
    assert IcebergWriter().get_column_types(spark, table) == {"a": "string"}


# ------------------------------------------------------------------------- layout and maintenance

DATED = TableSchema(
    (
        Column("id", "id", Integer()),
        Column("at", "the.time", Timestamp()),
        Column("day", "day", Date()),
        Column("kind", "kind", Text()),
    )
)


def test_layout_sets_partitions_sort_order_and_file_size(spark, tmp_path):
    layout = TableLayout(
        partition_by=(
            PartitionField("at", "hour"),
            PartitionField("day", "month"),
            PartitionField("kind"),
            PartitionField("nobody"),
        ),
        sort_by=("at", "id", "nobody"),
        file_bytes=1 << 20,
    )
    table = Table(str(tmp_path / "t"), "t")
    writer = IcebergWriter()
    writer.create(spark, table, DATED, layout)
    (created,) = spark.sql(f"SHOW CREATE TABLE {resolve_table(spark, table).ref}").collect()
    assert "PARTITIONED BY (hours(`the.time`), months(day), kind)" in created[0]
    assert "'write.target-file-size-bytes' = '1048576'" in created[0]
    assert "'sort-order' = 'the.time ASC NULLS FIRST, id ASC NULLS FIRST'" in created[0]
    assert "'write.distribution-mode' = 'hash'" in created[0]
    data = spark.sql(
        "SELECT id, TIMESTAMP '2024-01-01' + MAKE_INTERVAL(0, 0, 0, 0, id % 2, 0, 0)"
        " AS `the.time`, DATE '2024-02-03' AS day, 'k' AS kind FROM range(100)"
    )
    effect = writer.append(table, data, marker(1))
    assert (effect.inserted, effect.files) == (100, 2)
    keys = MergeKeys(("id",), order="o")
    writer.upsert(table, data.selectExpr("*", "1L AS o"), keys, marker(2))
    writer.maintain(spark, table, MaintenanceOptions(compact=True))
    assert writer.rows(spark, table).count() == 100


@pytest.mark.parametrize("transform", ["year", "month", "day", "hour"])
def test_each_date_transform_partitions_a_table(spark, tmp_path, transform):
    table = Table(str(tmp_path / "t"), "t")
    IcebergWriter().create(spark, table, DATED, TableLayout((PartitionField("at", transform),)))
    (created,) = spark.sql(f"SHOW CREATE TABLE {resolve_table(spark, table).ref}").collect()
    assert f"PARTITIONED BY ({transform}s(`the.time`))" in created[0]


def test_date_transform_of_a_text_column_is_rejected(spark, tmp_path):
    table = Table(str(tmp_path / "t"), "t")
    with pytest.raises(TableError, match=r"layout of table t .*transform: day.*partition_by"):
        IcebergWriter().create(spark, table, DATED, TableLayout((PartitionField("kind", "day"),)))


def test_rows_of_each_file_are_sorted_without_partitions(spark, tmp_path):
    table = Table(str(tmp_path / "t"), "t")
    writer = IcebergWriter()
    writer.create(spark, table, LAYOUT, TableLayout(sort_by=("n",)))
    values = [(n, "a", n * 7 % 10) for n in range(10)]
    writer.append(table, rows(spark, *values).coalesce(1), marker(1))
    assert [row.n for row in writer.rows(spark, table).collect()] == sorted(range(10))
    effect = writer.upsert(table, batch(spark, (9, "b", 1), (10, "b", 2)), KEYS, marker(2))
    assert (effect.inserted, effect.updated) == (1, 1)


@pytest.mark.parametrize("properties", ["", "'write.merge.distribution-mode' = 'range'"])
def test_merge_into_a_globally_sorted_table_counts_each_row_once(spark, table, properties):
    ref = resolve_table(spark, table).ref
    writer = IcebergWriter()
    writer.create(spark, table, LAYOUT, TableLayout())
    spark.sql(f"ALTER TABLE {ref} WRITE ORDERED BY name")
    if properties:
        spark.sql(f"ALTER TABLE {ref} SET TBLPROPERTIES ({properties})")
    writer.append(table, rows(spark, (1, "a", 1), (2, "a", 1)), marker(1))
    effect = writer.upsert(table, batch(spark, (2, "b", 1), (3, "b", 2)), KEYS, marker(2))
    assert (effect.inserted, effect.updated) == (1, 1)
    assert content(spark, table) == [(1, "a", 1), (2, "b", 1), (3, "b", 2)]


def test_compaction_merges_files_and_repeats_the_metadata(spark, table):
    writer = IcebergWriter()
    for number in range(1, 8):
        writer.append(table, rows(spark, (number, "a", 1)), marker(number, f"[{number}]"))
    writer.maintain(spark, table, MaintenanceOptions(compact=True))
    newest = line(spark, table)[0]
    assert newest.marker == marker(7, "[7]")
    assert newest.summary["total-data-files"] == "1"
    assert len(content(spark, table)) == 7
    # A second compaction has nothing to do and commits nothing.
    count = len(line(spark, table))
    writer.maintain(spark, table, MaintenanceOptions(compact=True))
    assert len(line(spark, table)) == count
    writer.append(table, rows(spark, (8, "a", 1)), marker(8))
    assert IcebergWriter().get_last_metadata(spark, table) == replace(marker(7, "[7]"), batch=8)


def make_old(folder: Path) -> None:
    for file in folder.rglob("*"):
        os.utime(file, (0, 0))


def test_old_snapshots_and_files_are_removed_and_the_metadata_kept(spark, table):
    writer = IcebergWriter()
    for number in (1, 2, 3):
        writer.replace(table, rows(spark, (number, "a", 1)), marker(number, f"[{number}]"))
    table_ref = resolve_table(spark, table)
    rows(spark, (4, "z", 9)).writeTo(table_ref.ref).append()  # by another writer
    stray, fresh = (Path(table.path, "data", name) for name in ("a.parquet", "b.parquet"))
    stray.write_bytes(b"x")
    make_old(Path(table.path))
    fresh.write_bytes(b"x")
    writer.maintain(spark, table, MaintenanceOptions(retain_days=7))
    assert len(line(spark, table)) == 5  # no snapshot is that old; the metadata is repeated
    assert line(spark, table)[0].marker == marker(3, "[3]")
    assert (stray.exists(), fresh.exists()) == (False, True)
    expire_snapshots(spark, table_ref, -1)
    (remaining,) = line(spark, table)
    assert remaining.marker == marker(3, "[3]")
    assert content(spark, table) == [(3, "a", 1), (4, "z", 9)]
    writer.append(table, rows(spark, (5, "a", 1)), marker(4))
    assert len(content(spark, table)) == 3


def test_files_of_a_table_inside_another_are_kept(spark, tmp_path):
    outer, inner = Table(str(tmp_path / "o"), "o"), Table(str(tmp_path / "o" / "data"), "data")
    writer = IcebergWriter()
    for table in (outer, inner):
        writer.create(spark, table, LAYOUT, TableLayout())
        writer.append(table, rows(spark, (1, "a", 1)), marker(1))
    make_old(tmp_path)
    writer.maintain(spark, outer, MaintenanceOptions(retain_days=7))
    assert content(spark, inner) == [(1, "a", 1)]


def test_layout_mismatch_of_an_existing_table_is_described(spark, tmp_path):
    table, parted = Table(str(tmp_path / "t"), "t"), TableLayout((PartitionField("at", "day"),))
    writer = IcebergWriter()
    writer.create(spark, table, DATED, parted)
    assert writer.describe_layout_mismatch(spark, table, DATED, parted) is None
    assert writer.describe_layout_mismatch(spark, table, DATED, TableLayout()) is None
    mismatch = writer.describe_layout_mismatch(
        spark, table, DATED, TableLayout((PartitionField("kind"),))
    )
    assert mismatch == "partitioned by days(the.time)"
