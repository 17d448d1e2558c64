"""Discovery of streams, and reads of a configured catalog."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tap_core import Tap
from tap_core.exceptions import CatalogFileError
from tap_core.protocols.airbyte.catalog import (
    apply_configured_catalog,
    build_catalog,
    parse_configured_catalog,
    stream_id,
)
from tests.airbyte.configurable_taps import TapShapes, TapTables

PEOPLE = ["people", "hooked", "spoken"]
"""Streams with equal rows that take different code paths."""

Reader = Callable[..., dict[str, list[Any]]]


@pytest.fixture
def read(capsys: pytest.CaptureFixture[str]) -> Reader:
    """Return a function that reads the configured streams: rows by stream, and the last state."""

    def read_rows(tap: Tap, *entries: Any, state: Any = None) -> dict[str, list[Any]]:
        catalog, warnings = apply_configured_catalog(make_catalog(*entries), tap.streams)
        tap.use_catalog(catalog)
        tap.load_state(state or {})
        capsys.readouterr()
        tap.sync_all()
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        rows: dict[str, list[Any]] = {"warnings": warnings}
        for line in lines:
            if line["type"] == "RECORD":
                rows.setdefault(line["stream"], []).append(line["record"])
            elif line["type"] == "STATE":
                rows["STATE"] = [line["value"]]
        return rows

    return read_rows


@pytest.fixture(params=[False, True], ids=["tables", "tables that are discovered once"])
def tables(tmp_path: Path, request: pytest.FixtureRequest) -> Tap:
    path = tmp_path / "tables.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(
            "create table users (id integer primary key, at datetime, name text);"
            "insert into users values (1, '2024-01-01 00:00:00.000000', 'a'),"
            " (2, '2024-01-02 00:00:00.000000', 'b');"
            "create table other (x text); insert into other values ('q');"
        )
    connection.close()
    return TapTables(str(path), discovers_once=request.param)


def make_catalog(*entries: Any) -> Any:
    return parse_configured_catalog(json.dumps({"streams": entries}), "cat.json")


def entry(name: str, *fields: str, mode: str = "incremental", **overrides: Any) -> dict[str, Any]:
    schema = {"properties": {field: {} for field in fields}} if fields else {}
    namespace = overrides.pop("namespace", None)
    stream = {
        "name": name,
        "namespace": namespace,
        "json_schema": schema,
        **overrides.pop("stream", {}),
    }
    return {"stream": stream, "sync_mode": mode, **overrides}


def discover_streams(tap: Tap) -> dict[str, dict[str, Any]]:
    return {stream["name"]: stream for stream in build_catalog(tap.streams)["streams"]}


# discover


def test_discovered_stream_has_its_modes_cursor_and_key() -> None:
    """DI3, DI4, DI5, DI6, DI7, DI8."""
    streams = discover_streams(TapShapes())
    assert list(streams) == sorted(streams)
    people = dict(streams["people"])
    assert people.pop("json_schema")["type"] == "object"
    assert people == {
        "name": "people",
        "supported_sync_modes": ["full_refresh", "incremental"],
        "is_resumable": False,
        "is_file_based": False,
        "source_defined_cursor": True,
        "default_cursor_field": ["at"],
        "source_defined_primary_key": [["id"]],
    }
    assert streams["colours"] == {
        "name": "colours",
        "json_schema": {
            "type": "object",
            "properties": {"code": {"type": ["string", "null"]}},
            "$schema": "https://json-schema.org/draft/2020-12/schema",
        },
        "supported_sync_modes": ["full_refresh"],
        "is_resumable": False,
        "is_file_based": False,
    }


def test_log_based_stream_has_a_source_defined_cursor() -> None:
    """DI5: a position that only the source knows."""
    stream = discover_streams(TapShapes())["changes"]
    assert stream["supported_sync_modes"] == ["full_refresh", "incremental"]
    assert stream["source_defined_cursor"] is True
    assert "default_cursor_field" not in stream


def test_table_has_its_schema_as_namespace_and_no_default_cursor(tables: Tap) -> None:
    """DI6, DI9: the user chooses the cursor."""
    streams = discover_streams(tables)
    assert list(streams) == ["other", "users"]
    assert streams["users"]["namespace"] == "main"
    assert streams["users"]["supported_sync_modes"] == ["full_refresh", "incremental"]
    assert streams["users"]["source_defined_cursor"] is False
    assert "default_cursor_field" not in streams["users"]
    assert streams["users"]["source_defined_primary_key"] == [["id"]]
    moment = streams["users"]["json_schema"]["properties"]["at"]
    assert moment["airbyte_type"] == "timestamp_with_timezone"


def test_tables_of_several_databases_keep_their_stream_names(tables: Tap) -> None:
    """DI9: the name within a schema would not be unique."""
    [users] = [stream for stream in tables.streams.values() if "users" in stream.name]
    users.catalog_entry = {**users.catalog_entry, "database_name": "first"}
    assert str(stream_id(users)) == "main.main-users"


def test_discovery_is_deterministic(tables: Tap) -> None:
    """DI10."""
    assert build_catalog(tables.streams) == build_catalog(tables.streams)
    assert json.dumps(build_catalog(TapShapes().streams)) == json.dumps(
        build_catalog(TapShapes().streams)
    )


def test_schema_without_properties_is_discovered_unchanged() -> None:
    tap = TapShapes()
    tap.streams["colours"].schema = {"additionalProperties": True}
    json_schema = discover_streams(tap)["colours"]["json_schema"]
    assert json_schema == {"type": "object", "additionalProperties": True}


def test_unsupported_properties_are_not_discovered() -> None:
    tap = TapShapes()
    node = tap.streams["people"].metadata["properties", "name"]
    node.inclusion = type(node).InclusionType.UNSUPPORTED
    assert "name" not in discover_streams(tap)["people"]["json_schema"]["properties"]
    tap.streams["people"].metadata.root.inclusion = node.inclusion
    catalog, _ = apply_configured_catalog(make_catalog(entry("people")), tap.streams)
    mask = catalog["people"].metadata.resolve_selection()
    assert (mask[()], mask["properties", "name"]) == (False, False)


# Fields


@pytest.mark.parametrize("name", PEOPLE)
def test_only_configured_fields_are_sent(read: Reader, name: str) -> None:
    """SM4: also keys and cursors are omitted, on each code path; the bookmark still advances."""
    rows = read(TapShapes(), entry(name, "name"))
    assert rows[name] == [{"name": "n1"}, {"name": "n2"}, {"name": "n3"}]
    [state] = rows["STATE"]
    assert state["bookmarks"][name]["replication_key_value"] == "2024-01-03T00:00:00Z"


def test_stream_map_gets_only_configured_fields(read: Reader) -> None:
    """SM4: the bookmark is that of the unmapped record."""
    maps = {"people": {"upper": "name.upper()", "name": None}}
    rows = read(TapShapes(config={"stream_maps": maps}), entry("people", "name"))
    assert rows["people"] == [{"upper": "N1"}, {"upper": "N2"}, {"upper": "N3"}]
    assert rows["STATE"][0]["bookmarks"]["people"]["replication_key_value"] > "2024-01-02"


@pytest.mark.parametrize("name", PEOPLE)
def test_nested_fields_are_selected(read: Reader, name: str) -> None:
    """SM4: in objects, and in objects inside of lists."""
    configured_stream = entry(name)
    configured_stream["stream"]["json_schema"] = {
        "properties": {
            "home": {"properties": {"geo": {"properties": {"lat": {}}}, "gone": {}}},
            "pets": {"items": {"properties": {"kind": {}}}},
        }
    }
    row = read(TapShapes(), configured_stream)[name][0]
    assert row == {
        "home": {"geo": {"lat": 1.5}},
        "pets": [{"kind": "cat"}, {"kind": "dog"}],
    }


@pytest.mark.parametrize("schema", [None, {}, {"type": "object"}, {"properties": {}}])
def test_empty_configured_schema_selects_all_fields(read: Reader, schema: Any) -> None:
    configured_stream = entry("people", stream={"json_schema": schema})
    row = read(TapShapes(), configured_stream)["people"][0]
    assert list(row) == ["id", "at", "name", "home", "pets"]


def test_undeclared_fields_are_sent_if_schema_and_catalog_allow_them(read: Reader) -> None:
    """SM4: additionalProperties has to be allowed in both."""
    closed = entry("open", "id")
    assert read(TapShapes(), closed)["open"][0] == {"id": 1}
    opened = entry("open", "id")
    opened["stream"]["json_schema"]["additionalProperties"] = True
    assert read(TapShapes(), opened)["open"][0] == {"id": 1, "more": "undeclared"}


def test_configured_field_that_no_longer_exists_is_ignored(read: Reader) -> None:
    """SM3: there is no value to send."""
    rows = read(TapShapes(), entry("people", "gone", "id"))
    assert rows["people"] == [{"id": 1}, {"id": 2}, {"id": 3}]
    assert rows["warnings"] == []


def test_query_selects_configured_columns_and_the_cursor(read: Reader, tables: Tap) -> None:
    """SM4, RD3: the cursor orders the rows, and is not sent."""
    configured_stream = entry("users", "name", "gone", namespace="main", cursor_field=["at"])
    rows = read(tables, configured_stream)
    assert rows["main-users"] == [{"name": "a"}, {"name": "b"}]
    assert rows["STATE"][0]["bookmarks"]["main-users"]["replication_key"] == "at"


# Streams


def test_only_configured_streams_are_read(read: Reader) -> None:
    """RD4, SM2: other streams of the tap are not read."""
    rows = read(TapShapes(), entry("colours", mode="full_refresh"))
    assert rows.keys() == {"warnings", "colours", "STATE"}


def test_empty_catalog_reads_nothing(read: Reader, tables: Tap) -> None:
    assert read(TapShapes()).keys() <= {"warnings", "STATE"}
    assert read(tables).keys() <= {"warnings", "STATE"}


def test_child_is_read_although_its_parent_is_not_configured(read: Reader) -> None:
    """RD4: the parent has neither records nor a bookmark."""
    rows = read(TapShapes(), entry("visits"))
    assert [row["day"] for row in rows["visits"]] == [1, 2, 3, 1, 2, 3]
    assert "shops" not in rows
    assert not rows["STATE"][0]["bookmarks"].get("shops")


def test_stream_that_no_longer_exists_is_skipped_with_a_warning(read: Reader, tables: Tap) -> None:
    """SM1: the others are read; an equal name in another namespace is another stream."""
    entries = (entry("users", namespace="x"), entry("users"), entry("other", namespace="main"))
    entries[2]["sync_mode"] = "full_refresh"
    rows = read(tables, *entries)
    assert rows["main-other"] == [{"x": "q"}]
    assert rows["warnings"] == [
        "Stream 'x.users' of the catalog is not in the source: skipped.",
        "Stream 'users' of the catalog is not in the source: skipped.",
    ]


def test_last_entry_of_a_stream_configured_twice_is_used(read: Reader) -> None:
    twice = (entry("people", "id", mode="full_refresh"), entry("people", "name"))
    rows = read(TapShapes(), *twice)
    assert rows["people"][0] == {"name": "n1"}
    assert "twice" in rows["warnings"][0]


# Modes and cursors


def test_full_refresh_ignores_the_bookmark(read: Reader) -> None:
    """RD6."""
    state = {"bookmarks": {"people": {"replication_key": "at", "replication_key_value": "2025"}}}
    rows = read(TapShapes(), entry("people", "id", mode="full_refresh"), state=state)
    assert len(rows["people"]) == 3


@pytest.mark.parametrize("name", PEOPLE)
def test_incremental_resumes_from_the_bookmark(read: Reader, name: str) -> None:
    """RD7, CU1: by the source-defined cursor, even if another cursor is configured."""
    moved = {"replication_key": "at", "replication_key_value": "2024-01-03T00:00:00Z"}
    configured_stream = entry(name, "id", cursor_field=["home", "city"])
    rows = read(TapShapes(), configured_stream, state={"bookmarks": {name: moved}})
    assert rows[name] == [{"id": 3}]
    assert rows["STATE"][0]["bookmarks"][name]["replication_key"] == "at"


def test_incremental_without_a_cursor_is_a_full_refresh(read: Reader) -> None:
    """RD9: with a warning."""
    rows = read(TapShapes(), entry("colours", cursor_field=["code"]))
    assert rows["colours"] == [{"code": "r"}]
    [warning] = rows["warnings"]
    assert warning.startswith("Stream 'colours' has no cursor: it is read in full")


def test_log_based_stream_keeps_its_replication_method() -> None:
    """CU1: the tap defines the method."""
    catalog, warnings = apply_configured_catalog(
        make_catalog(entry("changes")), TapShapes().streams
    )
    assert (catalog["changes"].replication_method, warnings) == ("LOG_BASED", [])
    configured_catalog = make_catalog(entry("changes", mode="full_refresh"))
    catalog, _ = apply_configured_catalog(configured_catalog, TapShapes().streams)
    assert catalog["changes"].replication_method == "FULL_TABLE"


@pytest.mark.parametrize(
    ("cursor", "stream", "key"),
    [
        (["at"], {"default_cursor_field": ["id"]}, "at"),
        ([], {"default_cursor_field": ["id"]}, "id"),
        (None, {"default_cursor_field": ["id"], "source_defined_cursor": True}, "id"),
    ],
)
def test_configured_cursor_precedes_the_default_one(
    tables: Tap, cursor: Any, stream: Any, key: str
) -> None:
    """CU2, CU3: for a table, whose cursor the user chooses."""
    configured_stream = entry("users", namespace="main", stream=stream, cursor_field=cursor)
    catalog, _ = apply_configured_catalog(make_catalog(configured_stream), tables.streams)
    assert catalog["main-users"].replication_key == key
    assert catalog["main-users"].replication_method == "INCREMENTAL"


@pytest.mark.parametrize(
    ("cursor", "message"),
    [
        ([], "no cursor for incremental sync"),
        (["home", "at"], "has no field 'home.at'"),
        (["gone"], "has no field 'gone'"),
    ],
)
def test_missing_or_unknown_cursor_of_a_table_is_refused(
    tables: Tap, cursor: list[str], message: str
) -> None:
    """CU4: the error names the file, the stream and an alternative."""
    configured_catalog = make_catalog(entry("users", namespace="main", cursor_field=cursor))
    with pytest.raises(CatalogFileError, match=message) as caught:
        apply_configured_catalog(configured_catalog, tables.streams)
    assert str(caught.value).startswith("Catalog 'cat.json': stream 'main.users' ")
    assert "full_refresh" in str(caught.value)


def test_replication_key_of_a_table_is_its_default_cursor(tables: Tap) -> None:
    """DI6, CU2, CU3."""
    [users] = [stream for stream in tables.streams.values() if "users" in stream.name]
    users.catalog_entry = {**users.catalog_entry, "replication_key": "at"}
    assert discover_streams(tables)["users"]["default_cursor_field"] == ["at"]
    for cursor, key in (([], "at"), (["id"], "id")):
        configured_catalog = make_catalog(entry("users", namespace="main", cursor_field=cursor))
        catalog, _ = apply_configured_catalog(configured_catalog, tables.streams)
        assert catalog["main-users"].replication_key == key


# Discovered catalogs can be configured


TAP = TapShapes()
DISCOVERED = build_catalog(TAP.streams)["streams"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    streams=st.lists(
        st.tuples(
            st.sampled_from(DISCOVERED),
            st.sampled_from(["full_refresh", "incremental"]),
            st.sets(st.sampled_from(["id", "at", "name", "home", "pets", "gone"])),
        ),
        max_size=4,
        unique_by=lambda pair: pair[0]["name"],
    )
)
def test_catalog_selects_exactly_the_configured_streams_and_fields(streams: Any) -> None:
    entries = []
    for stream, mode, fields in streams:
        properties = {k: v for k, v in stream["json_schema"]["properties"].items() if k in fields}
        schema = {**stream["json_schema"], "properties": properties}
        entries.append({"stream": {**stream, "json_schema": schema}, "sync_mode": mode})
    catalog, _ = apply_configured_catalog(make_catalog(*entries), TAP.streams)
    assert list(catalog) == [stream["name"] for stream, _, _ in streams]
    for configured_stream in entries:
        result = catalog[configured_stream["stream"]["name"]]
        mask = result.metadata.resolve_selection()
        selected = configured_stream["stream"]["json_schema"]["properties"]
        assert mask[()] is True
        for name in result.schema.properties or {}:
            assert mask["properties", name] is (not selected or name in selected)
    assert build_catalog(TAP.streams)["streams"] == DISCOVERED
