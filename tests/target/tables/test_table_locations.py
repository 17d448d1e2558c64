"""Locations of tables: folders, catalogs and databases, and one table per stream."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tap_core.events import StreamId
from target_spark.config.options import LoadOptions, StreamOptions
from target_spark.errors import IncompleteError, TableError, UnsupportedError
from target_spark.tables.commit_metadata import CommitMetadata
from target_spark.tables.identifiers import catalog_identifier, is_valid_folder_name, table_name
from target_spark.tables.table import Table
from target_spark.writers.delta.writer import DeltaWriter
from tests.target.cli.test_target_cli import run
from tests.target.warehouse import ID, ID_AND_NAME, Warehouse, feed, record, schema, state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.spark.session import Session


# Names


@pytest.mark.parametrize(
    "stream,name",
    [
        (StreamId("users"), "users"),
        (StreamId("Users"), "users"),
        (StreamId("public-users"), "public_users"),
        (StreamId("users", "Public"), "public__users"),
    ],
)
def test_usual_stream_names_are_plain_identifiers_in_a_catalog(stream: StreamId, name: str) -> None:
    assert catalog_identifier(stream) == name


def test_invalid_identifier_gets_a_unique_hash() -> None:
    invalid_names = ["a.b", "a b", "a/b", "größe", "größE", "_x", "", "日本", "a__b"]
    names = [catalog_identifier(StreamId(name)) for name in invalid_names]
    assert len(set(names)) == len(invalid_names)
    assert all(re.fullmatch("[a-z0-9][a-z0-9_]*", name) for name in names)
    assert names[0].startswith("a_b_")
    assert len(catalog_identifier(StreamId("é" * 300))) <= 140
    twice = StreamId("b__c", "a"), StreamId("c", "a__b")
    assert len({catalog_identifier(stream) for stream in twice}) == 2


@pytest.mark.parametrize("name", ["users", "Users", "a.b", "raw-1", "日本"])
def test_valid_folder_names_are_kept(name: str) -> None:
    assert is_valid_folder_name(name)
    assert table_name(StreamId(name)) == name


@pytest.mark.parametrize("name", ["", ".a", "_a", "a/b", "a b", "a" * 201, "a:b"])
def test_invalid_folder_names_are_recognized(name: str) -> None:
    assert not is_valid_folder_name(name)


def test_table_location_is_set_for_all_streams_or_one() -> None:
    every = StreamOptions(catalog="main", database="lake")
    options_of_streams = {"b": StreamOptions(table="t"), "c": StreamOptions(database="x.y")}
    options = LoadOptions("", every=every, streams=options_of_streams, table_prefix="raw_")
    assert options.table(StreamId("A-1")) == Table("", "raw_a_1", ("main", "lake", "raw_a_1"))
    assert options.table(StreamId("b")).identifier == ("main", "lake", "t")
    assert options.table(StreamId("c")).identifier == ("main", "x", "y", "raw_c")
    below = LoadOptions("/p/", every=StreamOptions(database="lake"))
    assert below.table(StreamId("a")) == Table("/p/a", "a", ("lake", "a"))
    alone = LoadOptions("/p", every=StreamOptions(catalog="main"))
    assert alone.table(StreamId("a")).key == "main.default.a"
    assert LoadOptions("/p").table(StreamId("A.b")) == Table("/p/A.b", "A.b")


def test_namespace_becomes_the_database_with_a_catalog() -> None:
    options = LoadOptions("/p", every=StreamOptions(catalog="main"), namespaces_as_databases=True)
    table = options.table(StreamId("Orders", "shop"))
    assert table == Table("/p/shop/orders", "orders", ("main", "shop", "orders"))
    named = LoadOptions(
        "",
        every=StreamOptions(catalog="main", database="lake"),
        namespaces_as_databases=True,
    )
    assert named.table(StreamId("a", "shop")).key == "main.lake.shop__a"
    assert LoadOptions("/p", namespaces_as_databases=True).table(StreamId("a", "b")).name == "b__a"


def test_places_of_a_table_are_its_identifier_and_path() -> None:
    assert Table("/p/A", "A", ("lake", "A")).locations == ("lake.a", "/p/A")
    assert Table("", "A", ("lake", "A")).locations == ("lake.a",)
    assert Table("/p/A", "A").locations == ("/p/A",)


# Streams that would share a table


@pytest.mark.parametrize(
    "first,other,config",
    [
        ("orders", "Orders", {"database": "lake"}),
        ("a-b", "a_b", {"database": "lake"}),
        ("a", "a__quarantine", {}),
        ("a__quarantine", "a", {}),
        ("a", "b", {"streams": {"a": {"table": "b"}}}),
    ],
)
@pytest.mark.thorough
@pytest.mark.spark
def test_two_streams_with_the_same_table_are_rejected(
    delta: Warehouse, first: str, other: str, config: dict[str, Any]
) -> None:
    loader, spool = delta.open(**config)
    feed(loader, schema(first, ID))
    with pytest.raises(UnsupportedError, match="would share the table") as caught:
        feed(loader, schema(other, ID))
    assert f"Streams {first} and {other}" in str(caught.value)
    loader.close()
    spool.close()


@pytest.mark.thorough
@pytest.mark.spark
def test_stream_names_that_differ_in_case_are_two_folders(delta: Warehouse) -> None:
    two = schema("a", ID), schema("A", ID), record("a", id=1), record("A", id=2)
    delta.load(*two, state(1))
    assert (delta.rows("a"), delta.rows("A")) == ([(1,)], [(2,)])


@pytest.mark.thorough
@pytest.mark.spark
def test_settings_of_streams_absent_from_the_input_are_reported(delta: Warehouse) -> None:
    delta.load(
        schema("a", ID),
        record("a", id=1),
        state(1),
        streams={"a": {"write_mode": "append"}, "b": {"write_mode": "append"}},
        full_refresh=["c"],
    )
    assert delta.report.as_dict()["remarks"] == [
        "The settings name a stream b, which is not in the input",
        "The settings name a stream c, which is not in the input",
    ]


# A full refresh


@pytest.mark.parametrize("format", ["delta", "iceberg", "parquet"])
@pytest.mark.thorough
@pytest.mark.spark
def test_full_refresh_replaces_one_stream_and_keeps_others(
    spark_session: Session, spark: SparkSession, tmp_path: Path, format: str
) -> None:
    warehouse = Warehouse(spark_session, spark, tmp_path / "tables", format)
    schemas = schema("a", ID_AND_NAME, "id"), schema("b", ID_AND_NAME)
    warehouse.load(*schemas, record("a", id=1), record("b", id=1), state(1))
    new_records = record("a", id=2), record("b", id=2)
    with pytest.raises(IncompleteError):  # no STATE at the end: the old table stays
        warehouse.load(*schemas, *new_records, full_refresh=["a"])
    assert warehouse.rows("a", "id") == [(1,)]
    warehouse.load(*schemas, *new_records, state(2), full_refresh=["a"])
    assert warehouse.rows("a", "id") == [(2,)]
    assert warehouse.rows("b", "id") == [(1,), (2,), (2,)]


# A catalog


@pytest.fixture
def database(spark: SparkSession) -> Iterator[str]:
    name = f"lake_{uuid.uuid4().hex[:8]}"
    yield name
    spark.sql(f"DROP DATABASE IF EXISTS {name} CASCADE")


def make_catalog_table(warehouse: Warehouse, database: str, table: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in warehouse.spark.table(f"{database}.{table}").collect())


def marker(warehouse: Warehouse, database: str, table: str) -> CommitMetadata | None:
    catalog_table = Table("", table, ("spark_catalog", database, table))
    return DeltaWriter().get_last_metadata(warehouse.spark, catalog_table)


@pytest.mark.thorough
@pytest.mark.spark
def test_catalog_table_supports_all_operations_of_a_folder(delta: Warehouse, database: str) -> None:
    location = {"catalog": "spark_catalog", "database": database, "table_prefix": "raw_"}
    old = schema("My-Users", {"id": {"type": "integer"}, "n": {"type": "integer"}}, "id")
    me = "My-Users"
    delta.load(old, record(me, id=1, n=1), record(me, id=2, n=2), state(1), **location)
    assert make_catalog_table(delta, database, "raw_my_users") == [(1, 1), (2, 2)]
    assert (delta.folder / "raw_my_users" / "_delta_log").is_dir()
    new = schema(me, {**ID_AND_NAME, "n": {"type": "integer"}}, "id")
    messages = new, record(me, id=2, n=3, name="b"), record(me, id="no", n=1), state(2)
    delta.load(*messages, **location, flush_rows=1)
    assert make_catalog_table(delta, database, "raw_my_users") == [(1, 1, None), (2, 3, "b")]
    assert len(make_catalog_table(delta, database, "raw_my_users__quarantine")) == 1
    last_metadata = marker(delta, database, "raw_my_users")
    assert last_metadata is not None
    assert last_metadata.state == '{"at": 2}'
    delta.load(new, record(me, id=9, n=9), state(3), full_refresh=[me], compact=True, **location)
    assert make_catalog_table(delta, database, "raw_my_users") == [(9, 9, None)]
    appended = {"streams": {me: {"write_mode": "append"}}}
    delta.load(new, record(me, id=9, n=9), state(4), state(5), **location, **appended)
    assert len(make_catalog_table(delta, database, "raw_my_users")) == 2
    last_metadata = marker(delta, database, "raw_my_users")
    assert last_metadata is not None
    assert last_metadata.state == '{"at": 5}'


@pytest.mark.thorough
@pytest.mark.spark
def test_each_stream_can_have_its_own_location(delta: Warehouse, database: str) -> None:
    streams = {"a": {"database": database, "table": "first"}, "b": {"table": "second"}}
    delta.load(
        schema("a", ID), schema("b", ID), record("a", id=1), record("b", id=2), streams=streams
    )
    assert make_catalog_table(delta, database, "first") == [(1,)]
    assert delta.rows("second") == [(2,)]


@pytest.mark.thorough
@pytest.mark.spark
def test_existing_table_at_the_path_is_registered_in_the_catalog(
    delta: Warehouse, database: str
) -> None:
    delta.load(schema("a", ID, "id"), record("a", id=1), state(1))
    delta.load(schema("a", ID, "id"), record("a", id=2), state(2), database=database)
    assert make_catalog_table(delta, database, "a") == [(1,), (2,)]
    delta.spark.sql(
        f"DROP TABLE {database}.a"
    )  # an in-memory catalog forgets its tables when the session ends
    delta.load(schema("a", ID_AND_NAME, "id"), record("a", id=2), state(3), database=database)
    assert make_catalog_table(delta, database, "a") == [(1, None), (2, None)]


@pytest.mark.thorough
@pytest.mark.spark
def test_location_in_the_catalog_takes_precedence(
    delta: Warehouse, database: str, tmp_path: Path
) -> None:
    delta.spark.sql(f"CREATE DATABASE {database}")
    delta.spark.sql(
        f"CREATE TABLE {database}.a (id BIGINT) USING delta LOCATION 'file://{tmp_path}/there'"
    )
    delta.load(schema("a", ID), record("a", id=1), state(1), database=database)
    assert make_catalog_table(delta, database, "a") == [(1,)]
    assert not delta.exists("a")


@pytest.mark.thorough
@pytest.mark.spark
def test_catalog_name_of_another_format_or_view_is_rejected(
    delta: Warehouse, database: str
) -> None:
    where = f"LOCATION 'file://{delta.folder.parent}/parquet'"
    delta.spark.sql(f"CREATE DATABASE {database}")
    delta.spark.sql(f"CREATE TABLE {database}.a (id BIGINT) USING parquet {where}")
    delta.spark.sql(f"CREATE VIEW {database}.b AS SELECT 1L AS id")
    for stream, message in (
        ("a", "not a Delta table but parquet"),
        ("b", "not a Delta table but a view"),
    ):
        with pytest.raises(TableError, match=message):
            delta.load(schema(stream, ID), record(stream, id=1), database=database)


@pytest.mark.thorough
@pytest.mark.spark
def test_unknown_catalog_is_an_error(delta: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(delta.folder))
    with pytest.raises(UnsupportedError, match="does not know the catalog 'lost'"):
        delta.load(schema("a", ID), record("a", id=1), catalog="lost", database="x")


@pytest.mark.thorough
@pytest.mark.spark
def test_path_with_foreign_files_is_an_error(delta: Warehouse, database: str) -> None:
    (delta.folder / "a").mkdir(parents=True)
    (delta.folder / "a" / "notes.txt").write_text("mine")
    with pytest.raises(TableError, match=r"notes\.txt"):
        delta.load(schema("a", ID), record("a", id=1), database=database)


@pytest.mark.thorough
@pytest.mark.spark
def test_drop_removes_the_table_and_its_files(delta: Warehouse, database: str) -> None:
    delta.load(schema("a", ID), record("a", id=1), state(1), database=database)
    table = Table(f"{delta.folder}/a", "a", (database, "a"))
    writer = DeltaWriter()
    writer.drop(delta.spark, table)
    assert not delta.exists("a")
    assert writer.get_column_types(delta.spark, table) is None
    writer.drop(delta.spark, table)


@pytest.mark.thorough
@pytest.mark.spark
def test_hive_metastore_keeps_tables_between_runs(tmp_path: Path, spark: SparkSession) -> None:
    metastore = {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": f"file://{tmp_path}/lake",
        "spark.hadoop.javax.jdo.option.ConnectionURL": (
            f"jdbc:derby:;databaseName={tmp_path}/metastore;create=true"
        ),
        "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
        "spark.hadoop.hive.metastore.schema.verification": "false",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={tmp_path}",
    }
    config = {"format": "delta", "path": None, "database": "lake", "spark": metastore}
    lines = [schema("Users", ID_AND_NAME, "id"), record("Users", id=1, name="a")]
    first = run(tmp_path, _bytes(*lines, state(1)), **config)
    assert first.returncode == 0, first.stderr.decode()
    second = run(tmp_path, _bytes(*lines, record("Users", id=2), state(2)), **config)
    assert second.returncode == 0, second.stderr.decode()
    assert second.stdout == b'{"at": 2}\n'
    rows = spark.read.format("delta").load(f"file://{tmp_path}/lake/lake.db/users").collect()
    assert sorted(tuple(row) for row in rows) == [(1, "a"), (2, None)]


def _bytes(*messages: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)
