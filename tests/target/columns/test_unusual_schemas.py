"""Invalid and unusual schemas: they give columns, or an error with an explanation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tap_core.events import SchemaEvent
from tap_core.protocols.singer.reader import SingerReader
from target_spark.columns import ColumnOptions, TableSchema, schema_from_json_schema
from target_spark.config.settings import load_options
from target_spark.errors import UnsupportedError
from target_spark.loader.stream_context import (
    build_table_schema,
    compute_normalized_digest,
    resolve_schema,
)
from target_spark.loader.undeclared_properties import find_undeclared

PLAIN = ColumnOptions()


def make_table_schema(schema: Any, *keys: str) -> TableSchema:
    """Return the table schema of a JSON Schema that is read from a SCHEMA message."""
    message = {"type": "SCHEMA", "stream": "a", "schema": schema, "key_properties": keys}
    return layout_from(json.dumps(message).encode())


def layout_from(line: bytes) -> TableSchema:
    (event,) = SingerReader().feed(line + b"\n")
    assert isinstance(event, SchemaEvent)
    schema = resolve_schema(event)
    compute_normalized_digest(event, schema)
    return schema_from_json_schema(schema, event.keys, PLAIN)


@pytest.mark.parametrize(
    "schema,ddl",
    [
        ({"type": "string", "format": ["date"]}, "string"),
        ({"type": "number", "format": {"a": 1}}, "double"),
        ({"type": "object", "properties": ["a", "b"]}, "string"),
        ({"type": "object", "properties": True}, "string"),
        ({"properties": 5}, "string"),
        ({"anyOf": [{"type": "object", "properties": ["a"]}, {"type": "object"}]}, "string"),
        ({"type": "string", "format": "singer.decimal", "precision": True}, "decimal(38,18)"),
        (
            {"type": "string", "format": "singer.decimal", "precision": 9, "scale": True},
            "decimal(9,0)",
        ),
    ],
)
def test_keyword_with_a_value_of_the_wrong_type_is_ignored(schema: Any, ddl: str) -> None:
    assert make_table_schema({"properties": {"x": schema}}).types == {"x": ddl}


@pytest.mark.parametrize("properties", [None, [], "x", True, {}])
def test_schema_without_properties_has_key_columns_and_whole_records(properties: Any) -> None:
    table_schema = make_table_schema({"type": "object", "properties": properties}, "_id")
    assert table_schema.types == {"_id": "string", "record": "string"}
    assert table_schema.keys == ("_id",)


@pytest.mark.parametrize("schema", [{"type": "string"}, {"type": "boolean"}, {}])
def test_deleted_at_column_is_always_a_timestamp(schema: Any) -> None:
    properties = {"id": {"type": "integer"}, "_sdc_deleted_at": schema}
    assert (
        make_table_schema({"properties": properties}, "id").types["_sdc_deleted_at"] == "timestamp"
    )


def test_key_may_have_the_name_of_the_record_column() -> None:
    table_schema = make_table_schema({}, "Record")
    assert table_schema.types == {"Record": "string", "record_2": "string"}


def nested(head: str, tail: str, levels: int) -> bytes:
    inner = head * levels + '{"type":"integer"}' + tail * levels
    schema = f'{{"properties":{{"x":{inner}}}}}'
    return f'{{"type":"SCHEMA","stream":"a","schema":{schema}}}'.encode()


@pytest.mark.parametrize(
    "head,tail",
    [
        ('{"type":"object","properties":{"a":', "}}"),
        ('{"type":"array","items":', "}"),
        ('{"anyOf":[', "]}"),
    ],
)
def test_deep_schemas_become_text_and_deeper_ones_are_rejected(head: str, tail: str) -> None:
    assert len(layout_from(nested(head, tail, 120)).types["x"]) < 1000
    with pytest.raises(UnsupportedError, match="stream a cannot be resolved: It is nested too"):
        layout_from(nested(head, tail, 450))


def test_undeclared_fields_are_reported_by_path() -> None:
    item = {"type": "object", "properties": {"x": {"type": "integer"}}}
    table_schema = make_table_schema(
        {
            "properties": {
                "id": {"type": "integer"},
                "free": {"type": "object"},
                "one": item,
                "many": {"type": "array", "items": item},
            }
        }
    )
    record = {
        "id": 1,
        "other": {"a": 1},
        "free": {"any": 1},
        "one": {"x": 1, "y": 2},
        "many": [{"x": 1}, None, {"z": 1}, {"z": 2}],
        "_sdc_deleted_at": None,
    }
    assert find_undeclared(json.dumps(record).encode(), table_schema) == [
        "many.z",
        "one.y",
        "other",
    ]


@pytest.mark.parametrize(
    "body", [b'"{}"', b'{"a":', b'{"a":' * 5000, b'{"b":1}' + b" " * (1 << 20)]
)
def test_invalid_or_large_record_has_no_reported_fields(body: bytes) -> None:
    assert find_undeclared(body, make_table_schema({"properties": {"a": {}}})) == []


def test_whole_records_have_no_undeclared_fields() -> None:
    assert find_undeclared(b'{"a":1}', make_table_schema({})) == []


def test_all_of_with_thousands_of_members_is_merged() -> None:
    members = [{"properties": {f"p{number}": {"type": "string"}}} for number in range(3000)]
    table_schema = make_table_schema({"properties": {"a": {"allOf": members}}, "allOf": members})
    assert len(table_schema.columns) == 3001


@pytest.mark.parametrize("where", ["root", "property"])
def test_combinatorial_alternatives_are_rejected(where: str) -> None:
    """SEC13: forty choices between two alternatives are 2^40 combinations."""
    choices = [
        {"anyOf": [{"properties": {f"{letter}{number}": {"type": "string"}}} for letter in "ab"]}
        for number in range(40)
    ]
    schema = {"allOf": choices} if where == "root" else {"properties": {"a": {"allOf": choices}}}
    message = {"type": "SCHEMA", "stream": "a", "schema": schema, "key_properties": []}
    (event,) = SingerReader().feed(json.dumps(message).encode() + b"\n")
    assert isinstance(event, SchemaEvent)
    options = load_options({"path": "/tables"})
    with pytest.raises(UnsupportedError, match="more than 1,000 combinations"):
        build_table_schema(options, event, resolve_schema(event), versioned=False)
