"""Conversion between JSON Schema and Airbyte's types, in both directions."""

from __future__ import annotations

import json
from copy import deepcopy
from decimal import Decimal

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tap_core import typing as th
from tap_core.protocols.airbyte.schemas import to_airbyte_schema, to_singer_schema

DATE_TIME = {"type": "string", "format": "date-time"}


def to_airbyte(definition: object) -> object:
    """Return the Airbyte schema of one property."""
    return to_airbyte_schema({"properties": {"a": definition}})["properties"]["a"]


def from_airbyte(definition: object) -> object:
    """Return the Singer schema that a destination derives from one property."""
    return to_singer_schema({"properties": {"a": definition}})["properties"]["a"]


@pytest.mark.parametrize(
    ("definition", "hint"),
    [
        ({"type": "string"}, None),
        ({"type": "boolean"}, None),
        ({"type": "string", "format": "date"}, None),
        (DATE_TIME, "timestamp_with_timezone"),
        ({**DATE_TIME, "type": ["string", "null"]}, "timestamp_with_timezone"),
        ({"type": "string", "format": "time"}, "time_without_timezone"),
        ({"type": "integer"}, None),
        ({"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}, None),
        ({"type": "integer", "maximum": float(2**63)}, None),
        ({"type": "integer", "maximum": 10**30}, "big_integer"),
        ({"type": "integer", "minimum": -(10**30)}, "big_integer"),
        ({"type": "integer", "exclusiveMaximum": 2**63 + 1}, "big_integer"),
        ({"type": "integer", "exclusiveMaximum": 2**63, "exclusiveMinimum": -(2**63) - 1}, None),
        ({"type": "number"}, None),
        ({"type": "number", "multipleOf": Decimal("0.01")}, None),
        ({"type": "number", "multipleOf": 1}, "integer"),
        ({"type": "string", "format": "x-singer.decimal"}, "big_number"),
        (
            {"type": "string", "format": "x-singer.decimal", "precision": 30, "scale": 2},
            "big_number",
        ),
        (
            {"type": "string", "format": "x-singer.decimal", "precision": 30, "scale": 0},
            "big_integer",
        ),
        ({"type": "string", "contentEncoding": "base64"}, None),
        ({"type": ["string", "integer"], "format": "date-time"}, None),
        ({**DATE_TIME, "airbyte_type": "timestamp_without_timezone"}, "timestamp_without_timezone"),
        ({"type": "object"}, None),
        ({"type": "array"}, None),
        ({}, None),
    ],
)
def test_airbyte_type_of_each_json_schema_type(definition, hint) -> None:
    """DI13: `airbyte_type` is added; all other keywords stay."""
    converted = to_airbyte(definition)
    assert converted.get("airbyte_type") == hint
    assert {**converted, "airbyte_type": None} == {**definition, "airbyte_type": None}


def test_nested_types_have_an_airbyte_type() -> None:
    inner = {"type": "object", "properties": {"b": {"type": "array", "items": DATE_TIME}}}
    assert (
        to_airbyte(inner)["properties"]["b"]["items"]["airbyte_type"] == "timestamp_with_timezone"
    )


def test_schema_of_a_stream_is_an_object() -> None:
    assert to_airbyte_schema({}) == {"type": "object"}
    assert to_airbyte_schema({"properties": {}}) == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("union", "single"),
    [
        (
            {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "d"},
            {"type": ["string", "null"], "description": "d"},
        ),
        ({"oneOf": [{"type": ["integer", "null"]}]}, {"type": ["integer", "null"]}),
        (
            {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            {"oneOf": [{"type": "integer"}, {"type": "string"}]},
        ),
    ],
)
def test_unions_are_simplified_for_clients(union, single) -> None:
    assert to_airbyte(union) == single


@pytest.mark.parametrize(
    "union",
    [
        {"anyOf": [{"type": "integer"}, {"type": "number"}]},
        {"anyOf": [{"enum": ["a"], "type": "string"}, {"type": "null"}], "oneOf": []},
        {"anyOf": [{"type": "string"}, {}]},
        {"anyOf": [True, {"type": "null"}]},
        {"oneOf": [{"type": "object", "properties": {}}, {"type": "array"}]},
        {"anyOf": [], "allOf": [{"type": "string"}]},
    ],
)
def test_union_whose_simplification_would_change_its_meaning_is_kept(union) -> None:
    assert to_airbyte(union) == union


def test_references_are_resolved() -> None:
    schema = {
        "properties": {"a": {"$ref": "#/definitions/moment"}, "b": {"$ref": "#/$defs/tree"}},
        "definitions": {"moment": DATE_TIME},
        "$defs": {"tree": {"type": "object", "properties": {"up": {"$ref": "#/$defs/tree"}}}},
    }
    converted = to_airbyte_schema(schema)
    assert converted["properties"]["a"]["airbyte_type"] == "timestamp_with_timezone"
    assert "$ref" not in json.dumps(converted)
    assert not {"$defs", "definitions"} & converted.keys()


@pytest.mark.parametrize("reference", ["#/nowhere", "http://localhost:1/x.json", 5, None])
def test_unresolvable_reference_does_not_affect_other_fields(reference) -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": reference}, "b": DATE_TIME, "c": True}}
    converted = to_airbyte_schema(schema)["properties"]
    assert converted["b"]["airbyte_type"] == "timestamp_with_timezone"
    assert converted["a"] == {}
    assert converted["c"] is True


@pytest.mark.parametrize(
    ("definition", "keywords"),
    [
        ({"type": "number", "airbyte_type": "integer"}, {"type": "integer"}),
        ({"type": ["number", "null"], "airbyte_type": "integer"}, {"type": ["integer", "null"]}),
        ({"type": "string", "airbyte_type": "timestamp_without_timezone"}, DATE_TIME),
        ({"airbyte_type": "timestamp_with_timezone"}, DATE_TIME),
        ({"type": "string", "airbyte_type": "time_with_timezone"}, {"format": "time"}),
        ({"type": "string", "airbyte_type": "big_number"}, {"format": "x-singer.decimal"}),
        (
            {"type": "string", "airbyte_type": "big_integer"},
            {"format": "x-singer.decimal", "precision": 38, "scale": 0},
        ),
        (
            {"type": "integer", "airbyte_type": "big_integer"},
            {"type": "string", "format": "x-singer.decimal", "precision": 38, "scale": 0},
        ),
        (
            {"type": "integer", "maximum": 10**30, "airbyte_type": "big_integer"},
            {"type": "integer"},
        ),
        ({"type": "string", "airbyte_type": "of_tomorrow"}, {"type": "string"}),
        ({"type": "string", "contentEncoding": "base64"}, {"contentEncoding": "base64"}),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, {}),
        ({"type": "string", "airbyte_type": None}, {"type": "string"}),
    ],
)
def test_airbyte_type_is_converted_to_json_schema(definition, keywords) -> None:
    """DI13: other keywords are kept."""
    assert from_airbyte(definition) == {**definition, **keywords}


def test_deeply_nested_schema_is_truncated() -> None:
    deep: dict = {"type": "string"}
    for _ in range(300):
        deep = {"type": "array", "items": deep}
    assert to_singer_schema({"properties": {"a": deep}})["properties"]["a"]["type"] == "array"


NAMES = st.sampled_from(["a", "b", "properties", "$ref", "type", ""])
LEAVES = st.sampled_from(
    [
        *({"type": kind} for kind in ("string", "integer", "number", "boolean", "null")),
        {"type": ["string", "null"], "format": "date-time"},
        {"type": "string", "format": "time"},
        {"type": "string", "format": "x-singer.decimal"},
        {"type": "integer", "maximum": 10**20},
        True,
        {},
        {"$ref": "#"},
        th.DateTimeType.type_dict,
    ]
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(NAMES, inner, max_size=3)}
        ),
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"oneOf": st.lists(inner, min_size=1, max_size=3)}),
    ),
    max_leaves=8,
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.sampled_from(["", "2024-01-01", "1.5"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=5,
)


@settings(max_examples=50)
@given(st.dictionaries(NAMES, SCHEMAS, max_size=3), st.dictionaries(NAMES, VALUES, max_size=3))
def test_airbyte_schema_accepts_the_same_records(properties, record) -> None:
    """Simplified unions and truncated references never make a valid record invalid."""
    schema = {"type": "object", "properties": properties}
    before = deepcopy(schema)
    converted = to_airbyte_schema(schema)
    assert schema == before
    jsonschema.Draft7Validator.check_schema(converted)
    if "$ref" not in json.dumps(properties) and jsonschema.Draft7Validator(schema).is_valid(record):
        assert jsonschema.Draft7Validator(converted).is_valid(record)
    jsonschema.Draft7Validator.check_schema(to_singer_schema(converted))
    assert to_airbyte_schema(converted) == converted
