"""Parsing a configured catalog: accepted variants, and errors with their location."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tap_core.events import StreamId
from tap_core.exceptions import CatalogFileError
from tap_core.protocols.airbyte.catalog import (
    ConfiguredCatalog,
    ConfiguredStream,
    parse_configured_catalog,
)

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}
STREAM = {
    "name": "users",
    "namespace": "public",
    "json_schema": SCHEMA,
    "supported_sync_modes": ["full_refresh", "incremental"],
    "source_defined_cursor": True,
    "default_cursor_field": ["at"],
    "source_defined_primary_key": [["id"], ["place", "code"]],
    "is_resumable": True,
    "is_file_based": False,
}
WHOLE = {
    "stream": STREAM,
    "sync_mode": "incremental",
    "destination_sync_mode": "append_dedup",
    "cursor_field": ["meta", "at"],
    "primary_key": [["id"]],
    "generation_id": 3,
    "minimum_generation_id": 2.0,
    "sync_id": 7,
    "include_files": None,
}


def parse(*entries: Any) -> ConfiguredCatalog:
    return parse_configured_catalog(json.dumps({"streams": entries}), "cat.json")


def parse_one(entry: Any) -> ConfiguredStream:
    [stream] = parse(entry).streams
    return stream


def error_message(text: str | bytes) -> str:
    with pytest.raises(CatalogFileError) as caught:
        parse_configured_catalog(text, "cat.json")
    return str(caught.value)


def test_all_used_fields_are_read() -> None:
    """CF1: all fields of the protocol's models that the SDK uses; the others are ignored."""
    assert parse_one(WHOLE) == ConfiguredStream(
        id=StreamId("users", "public"),
        json_schema=SCHEMA,
        sync_mode="incremental",
        destination_sync_mode="append_dedup",
        cursor_field=("meta", "at"),
        primary_key=(("id",),),
        source_defined_cursor=True,
        default_cursor_field=("at",),
        supported_sync_modes=("full_refresh", "incremental"),
        generation_id=3,
        minimum_generation_id=2,
        sync_id=7,
        is_resumable=True,
    )


def test_null_fields_are_treated_as_absent() -> None:
    """E5: clients write every possible field."""
    bare = {"stream": {"name": "users"}}
    nulls = {
        **dict.fromkeys(WHOLE),
        "stream": {**dict.fromkeys(STREAM), "name": "users"},
    }
    assert parse_one(nulls) == parse_one(bare) == ConfiguredStream(id=StreamId("users"))
    assert parse_one(bare).sync_mode == "full_refresh"
    assert parse_one(bare).destination_sync_mode == "append"


def test_discovered_catalog_is_read_as_full_refresh_append() -> None:
    """RD1: bare, in its CATALOG message, or among other messages."""
    plain = {"streams": [STREAM], "newer": 1}
    message = {"type": "CATALOG", "catalog": plain}
    lines = "\n".join(map(json.dumps, ({"type": "LOG", "log": "a CATALOG"}, ["CATALOG"], message)))
    catalog = parse_configured_catalog(json.dumps(plain), "f")
    assert [stream.sync_mode for stream in catalog.streams] == ["full_refresh"]
    assert [stream.destination_sync_mode for stream in catalog.streams] == ["append"]
    for text in (json.dumps(message), lines, lines.encode(), "\ufeff" + json.dumps(plain) + "\n\0"):
        assert parse_configured_catalog(text, "f") == catalog


def test_older_field_names_are_accepted() -> None:
    """`schema` instead of `load_schema`, upper-case modes, and paths as single names."""
    stream = parse_one(
        {
            "stream": {"name": "users", "schema": SCHEMA},
            "sync_mode": "INCREMENTAL",
            "destination_sync_mode": "APPEND",
            "cursor_field": "at",
            "primary_key": ["id", "code"],
        }
    )
    assert stream.json_schema == SCHEMA
    assert (stream.sync_mode, stream.destination_sync_mode) == ("incremental", "append")
    assert stream.cursor_field == ("at",)
    assert stream.primary_key == (("id",), ("code",))


def test_primary_key_defaults_to_that_of_the_source() -> None:
    """CF1."""
    entry = {name: value for name, value in WHOLE.items() if name != "primary_key"}
    assert parse_one(entry).primary_key == (("id",), ("place", "code"))


@pytest.mark.parametrize(
    ("source_defined", "configured", "default", "cursor"),
    [
        (True, ["a"], ["d"], ("d",)),
        (False, ["a", "b"], ["d"], ("a", "b")),
        (False, [], ["d"], ("d",)),
        (None, None, None, ()),
    ],
)
def test_cursor_precedence_of_a_destination(source_defined, configured, default, cursor) -> None:
    """CU1, CU2, CU3, CU4: the source-defined cursor, else the configured one, else the default."""
    stream = {
        "name": "s",
        "source_defined_cursor": source_defined,
        "default_cursor_field": default,
    }
    assert parse_one({"stream": stream, "cursor_field": configured}).cursor == cursor


def test_names_may_be_any_text() -> None:
    """E13: names in a catalog may be any text, including the empty string."""
    for name in ("", " ", "ä.b/c", "\u0000"):
        assert parse_one({"stream": {"name": name, "namespace": name}}).id == StreamId(name, name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "this is not JSON: it is empty"),
        ("nope", "this is not JSON"),
        (b"\xff\xfe{", "this is not JSON"),
        ('{"streams": [', "line 1, column"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "a list where an object is needed"),
        ("5", "a number where an object is needed"),
        ("null", "this one has none"),
        ("{}", "this one has none"),
        ('{"streams": null}', "this one has none"),
        ('{"type": "CATALOG", "catalog": null}', "this one has none"),
        ('{"streams": {}}', "streams: there is an object where a list is needed"),
        ('{"streams": [5]}', "streams[0]: there is a number where an object is needed"),
        ('{"streams": [{}]}', "streams[0].name: there is nothing where a string is needed"),
        ('{"streams": [null]}', "streams[0].name: there is nothing"),
        ('{"streams": [{"stream": {"name": 5}}]}', "streams[0].stream.name"),
        ('{"streams": [{"stream": "users"}]}', "streams[0].stream: there is a string"),
        (
            '{"streams": [{"tap_stream_id": "users", "stream": "users"}]}',
            "this is a catalog of Singer; a configured catalog of Airbyte is needed",
        ),
    ],
)
def test_invalid_catalog_is_refused(text, expected) -> None:
    """RD9: the error has the name of the file and the location in it."""
    message = error_message(text)
    assert message.startswith("Catalog 'cat.json': ")
    assert expected in message


@pytest.mark.parametrize(
    ("change", "location"),
    [
        ({"sync_mode": "INVALID"}, "sync_mode: 'INVALID' is not a sync mode"),
        ({"sync_mode": ""}, "sync_mode: '' is not a sync mode"),
        ({"sync_mode": 5}, "sync_mode: there is a number"),
        ({"destination_sync_mode": True}, "destination_sync_mode: there is true or false"),
        ({"cursor_field": {"a": 1}}, "cursor_field: there is an object"),
        ({"cursor_field": [None]}, "cursor_field[0]: there is nothing"),
        ({"primary_key": [["id", 5]]}, "primary_key[0][1]"),
        ({"primary_key": 5}, "primary_key"),
        ({"generation_id": "5"}, "generation_id: there is a string where an integer"),
        ({"generation_id": 1.5}, "generation_id: there is a number where an integer"),
        ({"sync_id": True}, "sync_id: there is true or false"),
        ({"stream": {**STREAM, "json_schema": []}}, "json_schema: there is a list"),
        ({"stream": {**STREAM, "namespace": 1}}, "namespace: there is a number"),
        ({"stream": {**STREAM, "supported_sync_modes": "x"}}, "supported_sync_modes"),
        ({"stream": {**STREAM, "source_defined_cursor": "yes"}}, "source_defined_cursor"),
    ],
)
def test_error_of_a_stream_names_the_stream(change, location) -> None:
    """RD9: next to its location in the catalog."""
    message = error_message(
        json.dumps({"streams": [{"stream": {"name": "x"}}, {**WHOLE, **change}]})
    )
    assert "streams[1]" in message
    assert "('users')" in message
    assert location in message


WORDS = ("streams", "stream", "name", "json_schema", "schema", "type", "catalog", "CATALOG")
FIELDS = (*WORDS, *WHOLE, *STREAM, "incremental", "full_refresh")
DOCUMENTS = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.sampled_from(FIELDS)
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5)
    ),
)


def parse_error(text: str | bytes) -> str | None:
    """Return the message of the error, None without an error."""
    try:
        parse_configured_catalog(text, "f")
    except CatalogFileError as error:
        return str(error)
    return None


@given(st.one_of(st.binary(), st.text(), DOCUMENTS.map(json.dumps)))
def test_any_text_raises_only_the_catalog_error(text) -> None:
    message = parse_error(text)
    assert message is None or message.startswith("Catalog 'f': ")


@given(DOCUMENTS, st.sampled_from(list(WHOLE)), st.sampled_from(list(STREAM)))
def test_any_value_is_read_or_reported_with_its_location(value, of_entry, of_stream) -> None:
    for entry in ({**WHOLE, of_entry: value}, {**WHOLE, "stream": {**STREAM, of_stream: value}}):
        message = parse_error(json.dumps({"streams": [entry]}))
        assert message is None or "streams[0]" in message


PATHS = st.lists(st.text(), max_size=3)


@given(
    name=st.text(),
    namespace=st.none() | st.text(),
    cursor_field=PATHS,
    primary_key=st.lists(PATHS.filter(bool), max_size=3),
    generation_id=st.none() | st.integers(0, 2**63),
)
def test_configured_values_round_trip(name, namespace, **fields) -> None:
    [stream] = parse({"stream": {"name": name, "namespace": namespace}, **fields}).streams
    assert stream.id == StreamId(name, namespace)
    assert list(stream.cursor_field) == fields["cursor_field"]
    assert [list(path) for path in stream.primary_key] == fields["primary_key"]
    assert stream.generation_id == fields["generation_id"]
