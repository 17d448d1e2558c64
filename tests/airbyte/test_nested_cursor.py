"""A cursor inside of an object is tracked, stored, resumed from, and sent only if configured."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tap_core import Stream, Tap
from tap_core import typing as th
from tap_core.exceptions import CatalogFileError, InvalidReplicationKeyException
from tap_core.protocols.airbyte.catalog import (
    apply_configured_catalog,
    build_catalog,
    parse_configured_catalog,
)
from tap_core.state.replication_key_path import copy_path, make_getter, parse_path
from tests.airbyte.configurable_taps import TapTables
from tests.airbyte.rules import read_faults

ROWS: list[dict[str, Any]] = [
    {"id": 1, "meta": {"at": "2024-01-02T00:00:00+02:00", "by": {"n": 7}, "x": "a"}},
    {"id": 2, "meta": {"at": "2024-01-03T00:00:00+00:00", "by": {"n": 5}, "x": "b"}},
    {"id": 3, "meta": {"at": "2024-01-02T23:30:00-02:00", "by": {"n": 6}, "x": "c"}},
    {"id": 4, "meta": None},
]
AT, NUMBER = ["meta", "at"], ["meta", "by", "n"]


class Rows(Stream):
    """A stream of unsorted rows whose cursor the user chooses."""

    name = "rows"
    allow_any_replication_key = True
    schema = th.PropertiesList(
        th.Property("id", th.IntegerType),
        th.Property(
            "meta",
            th.ObjectType(
                th.Property("at", th.DateTimeType),
                th.Property("by", th.ObjectType(th.Property("n", th.IntegerType))),
                th.Property("x", th.StringType),
            ),
        ),
    ).to_dict()

    def get_records(self, context: Any) -> Any:
        self.started = self.get_starting_replication_key_value(context)
        yield from deepcopy(ROWS)


class Hooked(Rows):
    """The same stream with an overridden state hook."""

    name = "hooked"

    def _increment_stream_state(self, latest_record: Any, *, context: Any = None) -> None:
        super()._increment_stream_state(latest_record, context=context)


class Spoken(Rows):
    """The same stream with an overridden message hook."""

    name = "spoken"

    def _generate_record_messages(self, record: Any) -> Any:
        yield from super()._generate_record_messages(record)


class Mapped(Rows):
    """The same stream with a stream map."""

    name = "mapped"


class Defined(Rows):
    """The same stream with a source-defined cursor."""

    name = "defined"
    allow_any_replication_key = False
    replication_key = "meta.by.n"


class DefinedHooked(Hooked):
    """The same stream with an overridden state hook and a source-defined cursor."""

    name = "defined_hooked"
    allow_any_replication_key = False
    replication_key = "meta.by.n"


class Dotted(Rows):
    """A cursor whose name has a dot, next to an object with a property of that name."""

    name = "dotted"
    allow_any_replication_key = False
    replication_key = "meta.at"
    schema: Any = {"properties": {**Rows.schema["properties"], "meta.at": {"type": "integer"}}}

    def get_records(self, context: Any) -> Any:
        self.started = self.get_starting_replication_key_value(context)
        yield from ({**row, "meta.at": row["id"] * 10} for row in deepcopy(ROWS))


class Either(Rows):
    """A stream whose object is one variant of a union."""

    name = "either"
    allow_any_replication_key = False
    replication_key = "meta.by.n"
    schema: Any = {
        "properties": {
            "id": {"type": "integer"},
            "meta": {"anyOf": [{"type": "null"}, Rows.schema["properties"]["meta"]]},
        }
    }


class TapRows(Tap):
    """Tap whose streams have the same rows and take different code paths."""

    name = "tap-rows"

    def discover_streams(self) -> Any:
        kinds = (Rows, Hooked, Spoken, Mapped, Defined, DefinedHooked, Dotted, Either)
        return [kind(self) for kind in kinds]


STREAMS = ["rows", "hooked", "spoken", "mapped"]
DEFINED = [
    ("defined", NUMBER, 7),
    ("defined_hooked", NUMBER, 7),
    ("dotted", ["meta.at"], 40),
    ("either", NUMBER, 7),
]
MAPS = {"stream_maps": {"mapped": {"__filter__": "1 == 1"}}}

Read = Callable[..., "tuple[list[Any], Any]"]


def configured(name: str, cursor: list[str], properties: Any = None) -> dict[str, Any]:
    properties = properties or Rows.schema["properties"]
    stream = {"name": name, "json_schema": {"properties": properties}}
    entry = {"stream": stream, "sync_mode": "incremental", "cursor_field": cursor}
    return {"streams": [{**entry, "destination_sync_mode": "append"}]}


@pytest.fixture
def read(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> Read:
    """Return a function that runs `read` for one stream and returns its rows and last state."""

    def run(catalog: Any, state: Any = None) -> tuple[list[Any], Any]:
        files = {"config": MAPS, "catalog": catalog, "state": state or []}
        arguments = ["read"]
        for name, content in files.items():
            (tmp_path / name).write_text(json.dumps(content))
            arguments += [f"--{name}", str(tmp_path / name)]
        with pytest.raises(SystemExit) as ended:
            TapRows.cli(arguments)
        output = capsysbinary.readouterr().out
        assert ended.value.code in {0, None}
        assert read_faults(output, catalog, 0) == []
        messages = [json.loads(line) for line in output.splitlines()]
        rows = [message["record"]["data"] for message in messages if message["type"] == "RECORD"]
        states = [message["state"] for message in messages if message["type"] == "STATE"]
        return rows, states[-1]

    return run


@pytest.mark.parametrize("stream_name", STREAMS)
@pytest.mark.parametrize(
    ("cursor", "value"), [(AT, "2024-01-02T23:30:00-02:00"), (NUMBER, 7)], ids=["time", "number"]
)
def test_state_has_the_maximum_cursor_value_and_its_path(
    read: Read, stream_name: str, cursor: list[str], value: Any
) -> None:
    """CU2, DI6: compared by the type in the schema; a null object has no value."""
    rows, state = read(configured(stream_name, cursor))
    assert [row["id"] for row in rows] == [1, 2, 3, 4]
    assert state["stream"]["stream_state"] == {
        "replication_key": ".".join(cursor),
        "replication_key_value": value,
    }


@pytest.mark.parametrize("stream_name", STREAMS)
def test_sync_resumes_from_its_own_state(read: Read, stream_name: str) -> None:
    """RD7, ST2: the state is unchanged by a second sync."""
    _, state = read(configured(stream_name, NUMBER))
    rows, next_state = read(configured(stream_name, NUMBER), [state])
    assert (len(rows), next_state["stream"]) == (4, state["stream"])
    tap = TapRows(config=MAPS)
    tap.use_catalog(_selected(tap, configured(stream_name, NUMBER)))
    tap.load_state({"bookmarks": {stream_name: state["stream"]["stream_state"]}})
    tap.streams[stream_name].sync()
    assert tap.streams[stream_name].started == 7


def _selected(tap: Tap, catalog: Any) -> Any:
    return apply_configured_catalog(
        parse_configured_catalog(json.dumps(catalog), "cat.json"), tap.streams
    )[0]


@pytest.mark.parametrize("stream_name", STREAMS)
@pytest.mark.parametrize(
    ("properties", "sent"),
    [
        ({"id": {}}, {"id": 1}),
        ({"meta": {"properties": {"x": {}}}}, {"meta": {"x": "a"}}),
        ({"meta": {"properties": {"x": {}, "by": {}}}}, {"meta": {"x": "a", "by": {"n": 7}}}),
    ],
)
def test_unconfigured_cursor_is_tracked_and_not_sent(
    read: Read, stream_name: str, properties: Any, sent: Any
) -> None:
    """SM4: the author's record is not modified."""
    rows, state = read(configured(stream_name, AT, properties))
    assert rows[0] == sent
    value = state["stream"]["stream_state"]["replication_key_value"]
    assert value == "2024-01-02T23:30:00-02:00"


def test_record_without_the_cursor_fails_the_sync_with_its_path() -> None:
    """CU2: like a missing cursor at the top level."""
    for stream_name in STREAMS[:2]:
        tap = TapRows(config=MAPS)
        tap.use_catalog(_selected(tap, configured(stream_name, AT)))
        tap.streams[stream_name].get_records = lambda _: iter([{"id": 1, "meta": {"x": "a"}}])  # type: ignore[method-assign]
        with pytest.raises(InvalidReplicationKeyException, match=r"no replication key 'meta\.at'"):
            tap.streams[stream_name].sync()


def test_default_cursor_may_be_nested() -> None:
    """DI6, CU3: it is discovered as a path, and used if no cursor is configured."""
    tap = TapRows()
    for stream in tap.streams.values():
        stream.replication_key = "meta.by.n"
    streams = {stream["name"]: stream for stream in build_catalog(tap.streams)["streams"]}
    assert streams["rows"]["default_cursor_field"] == NUMBER
    assert streams["rows"]["source_defined_cursor"] is False
    assert _selected(tap, configured("rows", []))["rows"].replication_key == "meta.by.n"


@pytest.mark.parametrize(("name", "path", "value"), DEFINED)
def test_source_defined_cursor_may_be_nested(
    read: Read, name: str, path: list[str], value: int
) -> None:
    """CU3, DI6: it is discovered as a path, tracked, and resumed from."""
    tap = TapRows(config=MAPS)
    [stream] = [
        stream for stream in build_catalog(tap.streams)["streams"] if stream["name"] == name
    ]
    assert stream["source_defined_cursor"] is True
    assert stream["default_cursor_field"] == path
    entry = {"stream": stream, "sync_mode": "incremental", "destination_sync_mode": "append"}
    _, state = read({"streams": [entry]})
    position = {"replication_key": ".".join(path), "replication_key_value": value}
    assert state["stream"]["stream_state"] == position
    rows, next_state = read({"streams": [entry]}, [state])
    assert (len(rows), next_state["stream"]) == (4, state["stream"])
    tap.load_state({"bookmarks": {name: position}})
    tap.streams[name].sync()
    assert tap.streams[name].started == value


def test_deselected_nested_replication_key_is_still_sent_by_singer() -> None:
    """A nested replication key is sent even if it is deselected, like one at the top level."""
    entry = TapRows().streams["defined"]._singer_catalog_entry.to_dict()
    for metadata in entry["metadata"]:
        metadata["metadata"]["selected"] = not metadata["breadcrumb"]
    stream = TapRows(catalog={"streams": [entry]}).streams["defined"]
    record = {"id": 1, "meta": {"by": {"n": 7}, "x": "a"}}
    [message] = stream._generate_record_messages(record)
    assert message.record == {"meta": {"by": {"n": 7}}}


def test_dotted_name_precedes_a_path_and_ambiguity_is_refused() -> None:
    """CU2, CU4: a state identifies replication keys by their text."""
    inner = {"properties": {"b": {}, "c.d": {}}}
    schema = {"properties": {"a": inner, "a.b": {}}}
    assert parse_path("a.b", schema) == ("a.b",)
    assert parse_path("a.c.d", schema) == ("a", "c.d")
    assert parse_path("a.none", schema) == ("a.none",)
    tap = TapRows()
    tap.streams["rows"].schema = schema
    with pytest.raises(CatalogFileError, match=r"has more than one field 'a\.b'"):
        _selected(tap, configured("rows", ["a", "b"]))
    assert _selected(tap, configured("rows", ["a.b"]))["rows"].replication_key == "a.b"


def test_only_objects_on_the_path_are_copied() -> None:
    """SM4: a path through a value that is not an object has no value."""
    record: dict[str, Any] = {"a": {"b": {"c": 1}, "z": {}}, "y": {}}
    copy = copy_path(("a", "b", "c"), record)
    assert copy == record
    assert copy["a"] is not record["a"]
    assert copy["a"]["b"] is not record["a"]["b"]
    assert copy["a"]["z"] is record["a"]["z"]
    assert make_getter(("a", "b", "c"))(record) == 1
    with pytest.raises(KeyError):
        make_getter(("a", "b", "c", "d"))(record)
    assert copy_path(("a", "b"), {"a": None}) == {"a": None}


def test_nested_cursor_of_a_table_is_refused(tmp_path: Path) -> None:
    """CU4: rows cannot be ordered by a value inside of a column."""
    path = tmp_path / "tables.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table users (id integer primary key, home json)")
    connection.close()
    tap = TapTables(str(path))
    [users] = tap.streams.values()
    home = {"type": "object", "properties": {"at": {"type": "integer"}}}
    schema = {"properties": {"id": {"type": "integer"}, "home": home}}
    users.catalog_entry = {**users.catalog_entry, "schema": schema}
    vars(users).pop("schema", None)  # kept from when it was discovered
    catalog = configured("users", ["home", "at"], {"home": {}})
    catalog["streams"][0]["stream"]["namespace"] = "main"
    with pytest.raises(InvalidReplicationKeyException, match="choose a column as the cursor"):
        users.apply_catalog(_selected(tap, catalog))
