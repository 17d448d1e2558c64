"""Discovery of the tables and views of a database as a catalog."""

from __future__ import annotations

import logging
import sqlite3
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from tap_core.singerlib.catalog import CatalogEntry
from tap_core.sql import SQLConnector
from tap_core.sql.database_errors import DatabaseUnreachableError
from tests.postgres import Server

ODD = 'Ödd "Na.me" x'


def create_connector(
    path: Path, script: str, kind: type[SQLConnector] = SQLConnector
) -> SQLConnector:
    with sqlite3.connect(path / "data.db") as connection:
        connection.executescript(script)
    connection.close()
    return kind({"sqlalchemy_url": f"sqlite:///{path / 'data.db'}"})


def by_name(entries: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {entry["tap_stream_id"]: entry for entry in entries}


def types(entry: dict[str, Any]) -> dict[str, Any]:
    return {
        name: schema.get("format") or schema["type"][0]
        for name, schema in entry["schema"]["properties"].items()
    }


@pytest.fixture
def statements() -> Iterator[list[str]]:
    executed: list[str] = []

    def note(_connection, _cursor, statement, *_):
        executed.append(statement)

    event.listen(sa.Engine, "before_cursor_execute", note)
    yield executed
    event.remove(sa.Engine, "before_cursor_execute", note)


def test_tables_and_views_become_catalog_entries(tmp_path):
    connector = create_connector(
        tmp_path,
        """
        create table users (id integer not null, name varchar(9), born date, primary key (id));
        create view adults as select * from users;
        """,
    )
    entries = by_name(connector.discover_catalog_entries())
    assert list(entries) == ["main-users", "main-adults"]
    users = entries["main-users"]
    assert users["key_properties"] == ["id"]
    assert users["table_name"] == "users"
    assert users["is_view"] is False
    assert users["schema"]["required"] == ["id"]
    assert users["schema"]["properties"]["name"] == {"type": ["string", "null"], "maxLength": 9}
    root = next(m["metadata"] for m in users["metadata"] if m["breadcrumb"] == [])
    assert root["schema-name"] == "main"
    assert root["table-key-properties"] == ["id"]
    assert entries["main-adults"]["is_view"] is True
    assert entries["main-adults"]["key_properties"] == []


def test_names_with_special_characters_are_kept(tmp_path):
    quoted = '"' + ODD.replace('"', '""') + '"'
    connector = create_connector(
        tmp_path, f'create table {quoted} ("Sel.ect" int primary key, "ORDER" text, "ä b" text)'
    )
    [entry] = connector.discover_catalog_entries()
    assert entry["tap_stream_id"] == f"main-{ODD}"
    assert list(entry["schema"]["properties"]) == ["Sel.ect", "ORDER", "ä b"]
    name = connector.get_fully_qualified_name(ODD, "main")
    assert connector.table_exists(name)
    assert not connector.table_exists("main.none")
    assert list(connector.get_table(name, ["order"]).columns.keys()) == ["ORDER"]


def test_first_unique_index_is_the_key_if_no_primary_key_is_known():
    entry = SQLConnector({"sqlalchemy_url": "sqlite://"}).discover_catalog_entry(
        None,
        None,
        None,
        "t",
        is_view=False,
        reflected_columns=[{"name": "a", "type": sa.Integer(), "nullable": False}],
        reflected_indices=[
            {"name": "i", "column_names": ["x"], "unique": False},
            {"name": "e", "column_names": [None], "unique": True},
            {"name": "u", "column_names": ["a"], "unique": True},
        ],
    )
    assert entry.tap_stream_id == "t"
    assert entry.key_properties == ["a"]
    assert entry.schema.to_dict()["properties"] == {"a": {"type": ["integer"]}}


def test_table_without_reflected_columns_has_a_catalog_entry():
    entry = SQLConnector({"sqlalchemy_url": "sqlite://"}).discover_catalog_entry(
        None, None, "s", "t", is_view=True
    )
    assert (entry.tap_stream_id, entry.key_properties, entry.is_view) == ("s-t", [], True)


def test_excluded_schemas_are_not_discovered(tmp_path):
    connector = create_connector(tmp_path, "create table t (id int)")
    assert connector.discover_catalog_entries(exclude_schemas=["main"]) == []
    assert len(connector.discover_catalog_entries(exclude_schemas=["other"])) == 1


def test_discovery_that_finds_no_tables_logs_a_warning(tmp_path, caplog):
    connector = create_connector(tmp_path, "")
    assert connector.discover_catalog_entries() == []
    assert "found no tables and no views: looked in 'main'" in caplog.text
    caplog.clear()
    assert connector.discover_catalog_entries(exclude_schemas=["main"]) == []
    assert "there is no schema" in caplog.text


def test_indexes_are_not_queried_if_reflect_indices_is_false(tmp_path, statements):
    connector = create_connector(tmp_path, "create table t (id int unique, b text)")
    connector.discover_catalog_entries(reflect_indices=False)
    assert not [statement for statement in statements if "index" in statement]


def test_overridden_discovery_methods_are_called_for_each_table(tmp_path):
    class Mine(SQLConnector):
        calls: list[tuple[Any, ...]] = []

        def get_schema_names(self, engine, inspected):
            assert engine is self._engine
            return [name for name in super().get_schema_names(engine, inspected) if name != "x"]

        def discover_catalog_entry(
            self,
            engine,
            inspected,
            schema_name,
            table_name,
            is_view,
            *,
            reflected_columns=None,
            reflected_pk=None,
            reflected_indices=None,
        ) -> CatalogEntry:
            names = [column["name"] for column in reflected_columns]
            keys = reflected_pk and reflected_pk["constrained_columns"]
            indices = [index["column_names"] for index in reflected_indices]
            self.calls.append((schema_name, table_name, is_view, names, keys, indices))
            entry = super().discover_catalog_entry(
                engine,
                inspected,
                schema_name,
                table_name,
                is_view,
                reflected_columns=reflected_columns,
                reflected_pk=reflected_pk,
                reflected_indices=reflected_indices,
            )
            entry.replication_key = "b"
            return entry

    connector = create_connector(
        tmp_path,
        "create table t (a int primary key, b int); create unique index i on t (b);"
        "create view v as select b from t",
        Mine,
    )
    entries = connector.discover_catalog_entries()
    assert Mine.calls == [
        ("main", "t", False, ["a", "b"], ["a"], [["b"]]),
        ("main", "v", True, ["b"], None, []),
    ]
    assert [entry["replication_key"] for entry in entries] == ["b", "b"]


def test_overridden_get_object_names_decides_which_tables_are_discovered(tmp_path):
    class Mine(SQLConnector):
        def get_object_names(self, engine, inspected, schema_name):
            with pytest.warns(PendingDeprecationWarning):
                listed = super().get_object_names(engine, inspected, schema_name)
            assert listed == [("a", False), ("b", False), ("v", True)]
            return [name_and_kind for name_and_kind in listed if name_and_kind[0] != "a"]

    connector = create_connector(
        tmp_path,
        "create table a (x int); create table b (x int); create view v as select * from b",
        Mine,
    )
    assert list(by_name(connector.discover_catalog_entries())) == ["main-b", "main-v"]


def test_unreadable_view_is_logged_and_skipped(tmp_path, caplog):
    connector = create_connector(
        tmp_path,
        "create table t (id int); create view good as select * from t;"
        "create table gone (id int); create view broken as select * from gone; drop table gone",
    )
    entries = by_name(connector.discover_catalog_entries())
    assert list(entries) == ["main-t", "main-good"]
    assert "'broken' in schema 'main' cannot be read and is left out" in caplog.text


def test_tables_and_views_are_reflected_singly_if_bulk_reflection_fails(
    postgres: Server, monkeypatch, caplog
):
    def fails(*_, **__):
        raise sa.exc.ProgrammingError("select", {}, Exception("cannot"))

    monkeypatch.setattr(sa.Inspector, "get_multi_columns", fails)
    with postgres.database() as database:
        database.run(
            "create table t (id int primary key)",
            "create view v as select * from t",
            "create materialized view m as select * from t",
        )
        connector = SQLConnector({"sqlalchemy_url": database.url})
        entries = by_name(
            connector.discover_catalog_entries(exclude_schemas=["information_schema"])
        )
        connector._engine.dispose()
    assert set(entries) == {"public-t", "public-v", "public-m"}
    assert entries["public-t"]["key_properties"] == ["id"]
    assert "Schema 'public' cannot be read at once" in caplog.text


def test_connection_lost_while_reflecting_a_table_ends_discovery(tmp_path, monkeypatch):
    connector = create_connector(tmp_path, "create table t (id int)")

    def fails(*_, **__):
        raise NotImplementedError

    def refused(*_, **__):
        raise DatabaseUnreachableError("gone", Exception("gone"))

    monkeypatch.setattr(sa.Inspector, "get_multi_columns", fails)
    monkeypatch.setattr(sa.Inspector, "get_columns", refused)
    with pytest.raises(DatabaseUnreachableError, match="gone"):
        connector.discover_catalog_entries()


def test_missing_support_for_view_names_is_logged_once(tmp_path, caplog, monkeypatch):
    dialect = sa.dialects.sqlite.pysqlite.SQLiteDialect_pysqlite
    connector = create_connector(
        tmp_path, "create table t (id int); create view v as select * from t"
    )

    def unknown(*_, **__):
        raise NotImplementedError

    monkeypatch.setattr(dialect, "get_view_names", unknown)
    inspected = sa.inspect(connector._engine)
    for _ in range(2):
        with pytest.warns(PendingDeprecationWarning):
            listed = connector.get_object_names(connector._engine, inspected, "main")
        assert listed == [("t", False)]
    assert caplog.text.count("does not support get_view_names()") == 1
    assert list(by_name(connector.discover_catalog_entries())) == ["main-t"]


def test_unknown_column_type_is_discovered_as_string(postgres: Server):
    with postgres.database() as database:
        database.run("create table places (id int primary key, here point)")
        connector = SQLConnector({"sqlalchemy_url": database.url})
        with pytest.warns(sa.exc.SAWarning, match="Did not recognize type 'point'"):
            entries = by_name(connector.discover_catalog_entries())
        assert types(entries["public-places"]) == {"id": "integer", "here": "string"}
        connector._engine.dispose()


def test_postgresql_tables_views_and_partitioned_tables_are_discovered(postgres: Server):
    with postgres.database() as database:
        database.run(
            "create schema other",
            'create schema "Odd.S"',
            "create table t (id int primary key, at timestamptz, n numeric(9,2), j jsonb, u uuid)",
            "create table other.t (id int unique, b bytea)",
            'create table "Odd.S"."We""ird. Ü" ("Id" int, "b c" text[], primary key ("b c", "Id"))',
            "create view other.v as select * from t",
            "create materialized view other.m as select * from t",
            "create table parts (id int, d date) partition by range (d)",
        )
        connector = SQLConnector({"sqlalchemy_url": database.url})
        entries = by_name(
            connector.discover_catalog_entries(exclude_schemas=["information_schema"])
        )
        connector._engine.dispose()
    assert set(entries) == {
        "public-t",
        "other-t",
        'Odd.S-We"ird. Ü',
        "other-v",
        "other-m",
        "public-parts",
    }
    assert entries['Odd.S-We"ird. Ü']["key_properties"] == ["b c", "Id"]
    assert [name for name, entry in entries.items() if entry["is_view"]] == ["other-m", "other-v"]
    assert types(entries["public-t"]) == {
        "id": "integer",
        "at": "date-time",
        "n": "number",
        "j": "string",
        "u": "string",
    }
    assert entries["other-t"]["key_properties"] == []


def test_number_of_discovery_queries_does_not_grow_with_the_tables(postgres: Server, statements):
    counts = []
    with postgres.database() as database:
        for first, count in ((0, 5), (5, 200)):
            database.run(
                *(f"create table t{i} (id int primary key, a text)" for i in range(first, count))
            )
            connector = SQLConnector({"sqlalchemy_url": database.url})
            statements.clear()
            entries = connector.discover_catalog_entries(exclude_schemas=["information_schema"])
            connector._engine.dispose()
            assert len(entries) == count
            counts.append(len(statements))
    assert counts[0] == counts[1] < 40


def test_connection_lost_during_discovery_raises_instead_of_an_empty_catalog(postgres: Server):
    class Gone(SQLConnector):
        def get_schema_names(self, engine, inspected):
            names = super().get_schema_names(engine, inspected)
            engine.dispose()
            engine.url = engine.url.set(port=1)
            engine.dialect.connect = self._refuse
            return names

        def _refuse(self, *_: Any, **__: Any) -> None:
            raise self._engine.dialect.dbapi.OperationalError("no server")

    with postgres.database() as database, warnings.catch_warnings():
        connector = Gone({"sqlalchemy_url": database.url})
        with pytest.raises(sa.exc.OperationalError, match="No connection to database"):
            connector.discover_catalog_entries()


@pytest.fixture(autouse=True)
def _at_warning(caplog):
    caplog.set_level(logging.WARNING)


def test_closed_connector_has_no_connections_and_can_be_used_again(tmp_path: Path) -> None:
    connector = create_connector(tmp_path, "create table t (id integer)")
    connector.close()
    for _ in range(2):
        assert connector.table_exists("t")
        assert connector._engine.pool.checkedin() == 1
        connector.close()
        assert connector._engine.pool.checkedin() == 0
