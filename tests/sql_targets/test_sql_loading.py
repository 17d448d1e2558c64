"""Loading of records into real databases with a minimal SQL target."""

from __future__ import annotations

import datetime as dt
import sqlite3
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import psycopg2

from tap_core.exceptions import ConformedNameClashException, RecordsWithoutSchemaException
from tap_core.schema.type_variants import get_allowed_types
from tap_core.sql.insert import prepare_insert
from tap_core.sql.target import SQLTarget
from tap_core.target_base import Target
from tests.sql_targets.small_target import (
    SmallConnector,
    SmallSink,
    SmallTarget,
    load,
    read_rows,
    read_types,
)
from tests.target_base.messages import record, schema, state

TEXT = {"type": ["string", "null"]}
WHOLE = {"type": ["integer", "null"]}
NUMBER = {"type": ["number", "null"]}
INSTANT = {"type": ["string", "null"], "format": "date-time"}
OBJECT = {"type": ["object", "null"]}

KINDS: dict[str, Any] = {
    "id": {"type": "integer"},
    "text": TEXT,
    "number": NUMBER,
    "flag": {"type": ["boolean", "null"]},
    "at": INSTANT,
    "day": {"type": ["string", "null"], "format": "date"},
    "hour": {"anyOf": [{"type": "string", "format": "time"}, {"type": "null"}]},
    "object": OBJECT,
    "list": {"type": ["array", "null"], "items": NUMBER},
    "any": {},
    "several": {"type": ["integer", "string", "null"]},
    "uuid": {"type": ["string", "null"], "format": "uuid"},
    "decimal": {"type": ["string", "null"], "format": "x-singer.decimal"},
    "Order By": TEXT,
    "select": TEXT,
}
FULL = {
    "id": 1,
    "text": "naïve 🦉 'quoted' %s :x",
    "number": 1.25,
    "flag": True,
    "at": "2024-01-31T12:00:00.5+02:00",
    "day": "2024-01-31",
    "hour": "12:30:00",
    "object": {"a": [1.5, {"b": None}]},
    "list": [1, 2.5],
    "any": {"z": "é"},
    "several": 5,
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
    "decimal": "1.10",
    "Order By": "x",
    "select": "y",
}
OTHERS = [{"any": 7, "several": "x"}, {"any": "t"}, {"any": [1]}, {"any": 1.5, "number": 3}]
IN_POSTGRESQL = (
    *(1, FULL["text"], Decimal("1.25"), True),
    dt.datetime(2024, 1, 31, 10, 0, 0, 500_000),  # noqa: DTZ001 - the column has no offset
    *(dt.date(2024, 1, 31), dt.time(12, 30), '{"a":[1.5,{"b":null}]}', "[1,2.5]"),
    *('{"z":"é"}', "5", UUID(str(FULL["uuid"])), Decimal("1.10"), "x", "y"),
)
IN_SQLITE = (
    *(1, FULL["text"], 1.25, 1, "2024-01-31 12:00:00.500000+02:00", "2024-01-31", "12:30:00"),
    *('{"a":[1.5,{"b":null}]}', "[1,2.5]", '{"z":"é"}', "5", FULL["uuid"], 1.1, "x", "y"),
)


def records(*rows: dict[str, Any], stream: str = "all") -> list[str]:
    return [record(stream, **row) for row in rows]


def make_target(
    base: type[SmallSink], connector: type[SmallConnector] = SmallConnector, **kwargs: Any
):
    """Return a target whose sink class overrides the given attributes."""
    sink = type("MadeSink", (base,), {"connector_class": connector, **kwargs})
    return type("MadeTarget", (SmallTarget,), {"default_sink_class": sink})


def is_sqlite(url: str) -> bool:
    return url.startswith("sqlite")


# Values


def test_every_value_type_is_loaded(url):
    rows = [FULL, *({"id": number, **row} for number, row in enumerate(OTHERS, 2))]
    states = load(SmallTarget, url, schema("all", **KINDS), *records(*rows), state({"n": 1}))
    assert states == [{"n": 1}]
    value = read_rows(url, 'SELECT * FROM "all" ORDER BY id')
    assert value[0] == (IN_SQLITE if is_sqlite(url) else IN_POSTGRESQL)
    assert [row[9] for row in value[1:]] == ["7", "t", "[1]", "1.5"]
    assert [row[2] for row in value] == [1.25, None, None, None, 3]


def test_missing_property_is_stored_as_null(url):
    load(SmallTarget, url, schema("all", **KINDS), record("all", id=1))
    assert read_rows(url, '"all"') == [(1, *[None] * (len(KINDS) - 1))]


def test_property_missing_from_the_schema_is_not_stored(url):
    load(SmallTarget, url, schema(), record(id=1, name="a", other=5))
    assert read_rows(url, "a") == [(1, "a")]


def test_property_is_matched_to_its_column_case_insensitively(url):
    load(SmallTarget, url, schema("a", Id=WHOLE, keys=()), record(Id=1), record(ID=2))
    assert read_rows(url, "a") == [(1,), (2,)]


def test_datetime_keeps_its_instant_in_a_column_with_time_zone(postgres_url):
    engine = sa.create_engine(postgres_url)
    with engine.begin() as connection:
        connection.exec_driver_sql('CREATE TABLE a (id int, at timestamptz, "local" timestamp)')
    engine.dispose()
    noon = "2024-01-31T12:00:00+02:00"
    properties = {"id": WHOLE, "at": INSTANT, "local": INSTANT}
    load(SmallTarget, postgres_url, schema(**properties), record(id=1, at=noon, local=noon))
    [(_, loaded, local)] = read_rows(postgres_url, "a")
    assert loaded == dt.datetime.fromisoformat(noon)
    assert local == dt.datetime(2024, 1, 31, 10)  # noqa: DTZ001 - the column has no offset


def test_datetime_without_an_offset_is_stored_unchanged(url):
    load(SmallTarget, url, schema(id=WHOLE, at=INSTANT), record(id=1, at="2024-01-31T12:00:00"))
    [(_, loaded)] = read_rows(url, "a")
    assert str(loaded) == "2024-01-31 12:00:00"


class JsonConnector(SmallConnector):
    @property
    def jsonschema_to_sql(self):
        to_sql = super().jsonschema_to_sql
        to_sql.register_type_handler("object", lambda _: sa.JSON())
        return to_sql


def test_json_column_stores_json_and_sql_null(url):
    lines = [schema(id=WHOLE, o=OBJECT), record(id=1, o={"a": 1.5}), record(id=2, o=None)]
    load(make_target(SmallSink, JsonConnector), url, *lines, record(id=3))
    rows = read_rows(url, "SELECT id FROM a WHERE o IS NULL ORDER BY id")
    assert rows == [(2,), (3,)]
    [(value,)] = read_rows(url, "SELECT o FROM a WHERE id = 1")
    assert value in ('{"a":1.5}', {"a": 1.5})


class ArrayConnector(SmallConnector):
    @property
    def jsonschema_to_sql(self):
        to_sql = super().jsonschema_to_sql
        to_sql.register_type_handler("array", lambda _: sa.ARRAY(sa.Text()))
        to_sql.register_type_handler("object", lambda _: postgresql.HSTORE())
        return to_sql


def test_database_specific_column_type_binds_its_values(postgres_url):
    engine = sa.create_engine(postgres_url)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE EXTENSION IF NOT EXISTS hstore")
    engine.dispose()
    lines = [schema(id=WHOLE, a={"type": "array"}, o=OBJECT), record(id=1, a=["x", "y"])]
    load(make_target(SmallSink, ArrayConnector), postgres_url, *lines)
    assert read_rows(postgres_url, "SELECT id, a FROM a") == [(1, ["x", "y"])]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the module lists no adapters before")
def test_registered_sqlite3_adapter_takes_precedence(sqlite_url, monkeypatch):
    monkeypatch.setitem(sqlite3.adapters, (list, sqlite3.PrepareProtocol), lambda value: "taught")
    load(SmallTarget, sqlite_url, schema(id=WHOLE, x={}), record(id=1, x=[1]))
    assert read_rows(sqlite_url, "a") == [(1, "taught")]


# Schema changes


def test_new_property_adds_a_column(url):
    load(SmallTarget, url, schema(id=WHOLE), record(id=1))
    load(SmallTarget, url, schema(id=WHOLE, b=INSTANT), record(id=2, b="2024-01-31T12:00:00Z"))
    assert [row[0] for row in read_rows(url, "SELECT id FROM a WHERE b IS NULL")] == [1]
    assert list(read_types(url, "a")) == ["id", "b"]


def test_schema_change_within_a_run_keeps_earlier_rows(url):
    lines = [schema(id=WHOLE), record(id=1), schema(id=WHOLE, b=TEXT), record(id=2, b="x")]
    load(SmallTarget, url, *lines)
    assert read_rows(url, "SELECT * FROM a ORDER BY id") == [(1, None), (2, "x")]


class AlteringConnector(SmallConnector):
    allow_column_alter = True


class NarrowConnector(AlteringConnector):
    @property
    def jsonschema_to_sql(self):
        to_sql = super().jsonschema_to_sql
        to_sql.register_type_handler("integer", sa.SMALLINT)
        return to_sql


@pytest.mark.parametrize(
    ("before", "after", "value", "expected"),
    [
        (WHOLE, NUMBER, 1.75, Decimal("1.75")),
        (WHOLE, TEXT, "x", "x"),
        (WHOLE, {"type": "string", "maxLength": 9}, "x", "x"),
        (NUMBER, TEXT, "x", "x"),
        (
            {"type": "string", "maxLength": 3},
            {"type": "string", "maxLength": 9},
            "longer",
            "longer",
        ),
        ({"type": "string", "maxLength": 3}, TEXT, "longer", "longer"),
        (
            {"type": "string", "format": "date"},
            INSTANT,
            "2024-01-31T12:00:00Z",
            dt.datetime(2024, 1, 31, 12),  # noqa: DTZ001 - the column has no offset
        ),
        (NUMBER, WHOLE, 7, Decimal(7)),
        (TEXT, WHOLE, 7, "7"),
    ],
)
def test_wider_schema_type_widens_the_column(postgres_url, before, after, value, expected):
    kind = make_target(SmallSink, AlteringConnector)
    load(kind, postgres_url, schema(id=WHOLE, Order=before), record(id=1))
    load(kind, postgres_url, schema(id=WHOLE, Order=after), record(id=2, Order=value))
    assert read_rows(postgres_url, 'SELECT "order" FROM a WHERE id = 2') == [(expected,)]


def test_larger_integer_type_widens_the_column(postgres_url):
    load(
        make_target(SmallSink, NarrowConnector), postgres_url, schema(n=WHOLE, keys=()), record(n=1)
    )
    lines = schema(n=WHOLE, keys=()), record(n=2**40)
    load(make_target(SmallSink, AlteringConnector), postgres_url, *lines)
    assert read_rows(postgres_url, "a") == [(1,), (2**40,)]
    assert read_types(postgres_url, "a") == {"n": "BIGINT"}


def test_column_type_change_is_rejected_unless_the_connector_allows_it(url):
    load(SmallTarget, url, schema(id=WHOLE, b=WHOLE), record(id=1, b=1))
    message = r"Altering columns is not supported. Could not convert column 'a.b' from 'BIGINT' to"
    with pytest.raises(NotImplementedError, match=message):
        load(SmallTarget, url, schema(id=WHOLE, b=TEXT), record(id=2, b="x"))
    assert read_rows(url, "a") == [(1, 1)]


def test_number_schema_for_an_integer_column_is_rejected_instead_of_rounding(postgres_url):
    load(SmallTarget, postgres_url, schema(id=WHOLE, b=WHOLE), record(id=1, b=1))
    with pytest.raises(NotImplementedError, match="from 'BIGINT' to 'DECIMAL'"):
        load(SmallTarget, postgres_url, schema(id=WHOLE, b=NUMBER), record(id=2, b=1.75))


def test_sqlite_stores_fractions_in_an_integer_column(sqlite_url):
    load(SmallTarget, sqlite_url, schema(id=WHOLE, b=WHOLE), record(id=1, b=1))
    load(SmallTarget, sqlite_url, schema(id=WHOLE, b=NUMBER), record(id=2, b=1.75))
    assert read_rows(sqlite_url, "a") == [(1, 1), (2, 1.75)]


# Names


def test_stream_and_property_names_are_conformed(url):
    lines = [
        schema("My Stream!", ("User Id",), **{"User Id": WHOLE, "1st.part-name": TEXT}),
        record("My Stream!", **{"User Id": 1, "1st.part-name": "x"}),
    ]
    load(SmallTarget, url, *lines)
    assert read_rows(url, "SELECT user_id, bst_part_name FROM my_stream") == [(1, "x")]


def test_schema_properties_with_the_same_conformed_name_are_rejected(url):
    with pytest.raises(ConformedNameClashException, match=r"\('ab', \['aB', 'Ab'\]\)"):
        load(SmallTarget, url, schema(keys=(), aB=TEXT, Ab=TEXT))


def test_record_properties_with_the_same_conformed_name_are_rejected(url):
    with pytest.raises(ConformedNameClashException, match="'ab'"):
        load(SmallTarget, url, schema(keys=(), aB=TEXT), record(aB="x", Ab="y"))


def test_stream_name_before_the_dash_is_the_database_schema(postgres_url):
    lines = [schema("shop-orders", id=WHOLE), record("shop-orders", id=1)]
    load(SmallTarget, postgres_url, *lines)
    load(SmallTarget, postgres_url, *lines, default_target_schema="other")
    assert (
        read_rows(postgres_url, "shop.orders") == read_rows(postgres_url, "other.orders") == [(1,)]
    )


def test_columns_are_altered_in_the_streams_database_schema(postgres_url):
    kind = make_target(SmallSink, AlteringConnector)
    load(kind, postgres_url, schema("shop-order", id=WHOLE, b=WHOLE), record("shop-order", id=1))
    load(kind, postgres_url, schema("shop-order", id=WHOLE, b=NUMBER, c=TEXT))
    types = read_types(postgres_url, "order", "shop")
    assert types == {"id": "BIGINT", "b": "NUMERIC", "c": "VARCHAR"}


# Load methods


def test_append_only_and_upsert_without_keys_append_rows(url):
    lines = [schema(keys=(), n=WHOLE), record(n=1)]
    for method in ("append-only", "upsert"):
        load(SmallTarget, url, *lines, load_method=method)
    assert read_rows(url, "a") == [(1,), (1,)]


def test_overwrite_empties_the_table_once_per_run(url):
    load(SmallTarget, url, schema(keys=(), old=WHOLE), record(old=1))
    lines = [schema(keys=(), n=WHOLE), record(n=1), schema(keys=(), n=WHOLE, m=WHOLE)]
    for _ in range(2):
        load(SmallTarget, url, *lines, record(n=2), load_method="overwrite")
        assert read_rows(url, "SELECT n, m FROM a ORDER BY n") == [(1, None), (2, None)]
        assert list(read_types(url, "a")) == ["n", "m"]


def upserting(self: SmallSink, full_table_name: Any, schema: dict[str, Any]) -> Any:
    """Return an insert statement that updates existing rows."""
    plain = SmallSink.generate_insert_statement(self, full_table_name, schema)
    assert isinstance(plain, sa.Insert)
    insert = sqlite.insert if self.connector._dialect.name == "sqlite" else postgresql.insert
    statement = insert(plain.table)
    changed = {column.name: statement.excluded[column.name] for column in plain.table.columns}
    return statement.on_conflict_do_update(index_elements=self.key_properties, set_=changed)


def test_overridden_insert_statement_can_upsert(url):
    kind = make_target(SmallSink, generate_insert_statement=upserting)
    known = {"id": WHOLE, "name": TEXT, "x": {}, "at": INSTANT, "n": NUMBER}
    first = {"id": 1, "name": "a", "x": [1], "at": "2024-01-31T12:00:00Z", "n": 0.5}
    load(kind, url, schema(**known), record(**first), record(id=2, name="b"))
    load(kind, url, schema(**known), record(id=2, name="c"), record(id=3), record(id=3, name="d"))
    rows = read_rows(url, "SELECT id, name, x FROM a ORDER BY id")
    assert rows == [(1, "a", "[1]"), (2, "c", None), (3, "d", None)]


# Overrides


def test_text_insert_statement_works_and_warns(url):
    def text(self, full_table_name, schema):
        return f"INSERT INTO {full_table_name} (id, name) VALUES (:id, 'n' || :name)"  # noqa: S608

    kind = make_target(SmallSink, generate_insert_statement=text)
    with pytest.warns(DeprecationWarning, match="as a string is deprecated"):
        load(kind, url, schema(), record(id=1, name="x"), record(id=2, name="y"))
    assert read_rows(url, "a") == [(1, "nx"), (2, "ny")]


def test_overridden_conform_name_and_conform_record_are_used(url):
    def conform_name(self, name, object_type=None):
        return name.upper()

    def conform_record(self, record):
        return {name.upper(): value for name, value in record.items()} | {"NAME": "set"}

    kind = make_target(SmallSink, conform_name=conform_name, conform_record=conform_record)
    load(kind, url, schema(), record(id=1, name="x"))
    assert read_rows(url, 'SELECT "ID", "NAME" FROM "A"') == [(1, "set")]


@pytest.mark.parametrize("name", ["a b", "a%b", "a(b)", "a.b", "a:b", "A[b]", 'a"b', "é"])
def test_column_names_may_contain_any_characters(url, name):
    kind = make_target(SmallSink, conform_name=lambda self, name, object_type=None: name)
    load(kind, url, schema(id=WHOLE, **{name: TEXT}), record(id=1, **{name: "x"}))
    assert read_rows(url, "a") == [(1, "x")]
    assert list(read_types(url, "a")) == ["id", name]


def test_sink_returns_qualified_names_of_its_table_and_schema(sqlite_url):
    target = SmallTarget(config={"sqlalchemy_url": sqlite_url, "default_target_schema": "main"})
    sink = target.add_sqlsink("a", {"properties": {"id": WHOLE}})
    assert isinstance(sink, SmallSink)
    assert (str(sink.full_table_name), str(sink.full_schema_name)) == ("main.a", "main")
    with pytest.warns(PendingDeprecationWarning, match="connection"), sink.connection as connection:
        assert connection.scalar(sa.text("SELECT 1")) == 1
    with pytest.raises(NotImplementedError):
        sink.merge_upsert_from_table("a", "b", ["id"])
    target.target_connector._engine.dispose()


def test_insert_statement_can_be_generated_before_the_table_exists(url):
    target = SmallTarget(config={"sqlalchemy_url": url})
    sink = target.add_sqlsink("a", {"properties": {"id": WHOLE}})
    assert isinstance(sink, SmallSink)
    known = {"properties": {"Id": WHOLE, "at": INSTANT, "order": TEXT}}
    statement = sink.generate_insert_statement("other", known)
    assert str(statement) == 'INSERT INTO other (id, at, "order") VALUES (:id, :at, :order)'
    target.target_connector._engine.dispose()


def test_record_without_a_schema_is_rejected(sqlite_url):
    target = SmallTarget(config={"sqlalchemy_url": sqlite_url})
    with pytest.raises(RecordsWithoutSchemaException, match="'a'"):
        target.get_sink("a")
    with pytest.raises(RecordsWithoutSchemaException, match="'a'"):
        load(SmallTarget, sqlite_url, record("a", id=1))


def test_overridden_get_sink_may_choose_the_sink_by_record(sqlite_url):
    class Choosing(SmallTarget):
        def get_sink(self, stream_name, *, record=None, **kwargs):
            if record is not None and record["id"] % 2:
                stream_name = "odd"
            return super().get_sink(stream_name, record=record, **kwargs)

    lines = [record("a", id=number) for number in range(4)]
    load(Choosing, sqlite_url, schema("a"), schema("odd"), *lines)
    assert read_rows(sqlite_url, "a") == [(0, None), (2, None)]
    assert read_rows(sqlite_url, "odd") == [(1, None), (3, None)]


def test_settings_of_missing_capabilities_are_not_added():
    class Bare(SmallTarget):
        capabilities = []
        config_jsonschema = {"properties": {}}

    settings = {"add_record_metadata", "load_method", "batch_size_rows"}
    assert set(Bare._get_about_info().settings["properties"]) == settings


def test_drivers_with_bulk_insert_are_called_through_sqlalchemy():
    table = sa.Table("a", sa.MetaData(), sa.Column("id", sa.Integer()))
    assert prepare_insert(sa.insert(table), ["id"], psycopg2.dialect()).driver_insert is None
    assert prepare_insert(sa.text("INSERT"), ["id"], sqlite.dialect()).driver_insert is None
    assert prepare_insert(sa.insert(table), ["id"], sqlite.dialect()).driver_insert is not None


@pytest.mark.parametrize(
    ("known", "kinds"),
    [
        ({"type": "integer"}, {"integer"}),
        ({"type": ["null", "array"]}, {"null", "array"}),
        ({"anyOf": [{"type": "null"}, {"oneOf": [{"type": "number"}]}]}, {"null", "number"}),
    ],
)
def test_json_types_of_a_property_schema(known, kinds):
    assert get_allowed_types(known) == kinds
    assert get_allowed_types({"anyOf": [True, known]}) == get_allowed_types({}) > kinds


def test_insert_of_no_rows_is_skipped(url):
    target = SmallTarget(config={"sqlalchemy_url": url})
    sink = target.add_sqlsink("a", {"properties": {"id": WHOLE}}, ["id"])
    assert isinstance(sink, SmallSink)
    assert sink.connector is target.target_connector
    assert sink.bulk_insert_records(sink.full_table_name, sink.schema, iter([])) == 0
    assert sink.bulk_insert_records(sink.full_table_name, sink.schema, [{"id": 1}, {"id": 2}]) == 2
    assert read_rows(url, "a") == [(1,), (2,)]
    target.target_connector._engine.dispose()


@pytest.fixture
def two_databases(tmp_path):
    """Return a target that writes the stream ``b`` to another database, and that one's URL."""
    other = f"sqlite:///{tmp_path / 'other.db'}"

    class OtherConnector(SmallConnector):
        def get_sqlalchemy_url(self, config):
            return other

    class OtherSink(SmallSink):
        connector_class = OtherConnector

    class Target(SmallTarget):
        def get_sink_class(self, stream_name):
            return OtherSink if stream_name == "b" else SmallSink

    return Target, other


def test_sink_of_another_database_has_its_own_connector(sqlite_url, two_databases):
    kind, other = two_databases
    load(kind, sqlite_url, schema("a"), schema("b"), record("a", id=1), record("b", id=2))
    assert read_rows(sqlite_url, "a") == [(1, None)]
    assert read_rows(other, "b") == [(2, None)]


def test_schema_change_within_a_run_does_not_overwrite_a_table_of_another_database(
    sqlite_url, two_databases
):
    kind, other = two_databases
    lines = [schema("b", id=WHOLE), record("b", id=1), schema("b", id=WHOLE, n=WHOLE)]
    load(kind, sqlite_url, *lines, record("b", id=2), load_method="overwrite")
    assert read_rows(other, "b") == [(1, None), (2, None)]


def test_sql_sink_of_a_target_that_is_not_a_sqltarget_creates_its_connector(sqlite_url):
    class Plain(Target):
        name = "target-plain"
        config_jsonschema = SmallTarget.config_jsonschema

    known = {"properties": {"id": WHOLE}}
    sink = SmallSink(Plain(config={"sqlalchemy_url": sqlite_url}), "a", known, [])
    assert type(sink.connector) is SmallConnector


def test_many_streams_are_drained_in_parallel(url):
    names = [f"t{number}" for number in range(6)]
    lines = [schema(name) for name in names]
    lines += [record(name, id=number, name=name) for number in range(200) for name in names]
    load(SmallTarget, url, *lines, state({"n": 1}))
    assert [len(read_rows(url, name)) for name in names] == [200] * 6


def test_sqlite_default_parallelism_is_one(sqlite_url, postgres):
    target = SmallTarget(config={"sqlalchemy_url": sqlite_url})
    assert target.max_parallelism == 8
    target.add_sqlsink("a", {"properties": {"id": WHOLE}})
    assert target.max_parallelism == 1
    target.max_parallelism = 3
    assert target.max_parallelism == 3
    target.target_connector._engine.dispose()


def test_in_memory_sqlite_target_loads_several_streams():
    target = SmallTarget(config={"sqlalchemy_url": "sqlite://"})
    sinks = [target.add_sqlsink(name, {"properties": {"id": WHOLE}}) for name in ("a", "b")]
    for sink in sinks:
        for number in range(3):
            sink.process_record({"id": number}, sink._get_context({}))
        sink.tally_record_read(3)
    target.drain_all()
    with target.target_connector._connect() as connection:
        counts = [connection.scalar(sa.text(f"SELECT count(*) FROM {n}")) for n in "ab"]  # noqa: S608
    assert counts == [3, 3]
    target.target_connector._engine.dispose()


# Performance


def calls_during(work: Callable[[], object]) -> int:
    count = 0

    def counted(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_insert_makes_at_most_one_python_call_per_record(sqlite_url):
    target: SQLTarget = SmallTarget(config={"sqlalchemy_url": sqlite_url})
    known = {"properties": {"id": WHOLE, "Name": TEXT, "n": NUMBER, "at": INSTANT}}
    sink = target.add_sqlsink("a", known)
    assert isinstance(sink, SmallSink)

    def insert(count: int) -> int:
        batch = [{"id": number, "Name": "x", "n": Decimal("1.5")} for number in range(count)]
        table = sink.full_table_name
        return calls_during(lambda: sink.bulk_insert_records(table, sink.schema, batch))

    insert(10)  # compiles and caches the statement
    calls_for_10 = insert(10)
    calls_for_2010 = min(
        insert(2010), insert(2010)
    )  # the minimum excludes calls of the garbage collector
    assert (calls_for_2010 - calls_for_10) / 2000 <= 1.01
    target.target_connector._engine.dispose()
