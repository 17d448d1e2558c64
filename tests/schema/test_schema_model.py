"""The object model of JSON Schema in singerlib."""

from __future__ import annotations

from typing import Any

import pytest

from tap_core.singerlib.schema import Schema

FULL_SCHEMA: dict[str, Any] = {
    "$id": "person",
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$ref": "#/definitions/x",
    "type": ["object", "null"],
    "title": "Person",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "maxLength": 9, "pattern": ".*", "const": "x"},
        "age": {"type": "integer", "exclusiveMinimum": 0, "x-sql-datatype": "smallint"},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "pair": {"type": "array", "items": [{"type": "string"}, {"type": "null"}]},
        "anything": True,
        "extras": {"properties": {"extras": {"const": None}}},
    },
    "anyOf": [{"required": ["age"]}],
    "dependentRequired": {"age": ["name"]},
    "definitions": {"x": {}},
    "additionalProperties": False,
}


def test_validation_keywords_survive_a_round_trip():
    assert Schema.from_dict(FULL_SCHEMA).to_dict() == FULL_SCHEMA


def test_unknown_annotations_and_openapi_keywords_are_dropped():
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "example": "b", "examples": ["c"], "x-own": 1},
            "b": {"type": "array", "items": {"nullable": True, "readOnly": True}},
        },
        "components": {"schemas": {"big": {}}},
    }
    assert Schema.from_dict(schema).to_dict() == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {}}},
    }


def test_keywords_are_available_as_attributes():
    schema = Schema.from_dict(FULL_SCHEMA)
    assert schema.id == "person"
    assert schema.schema == FULL_SCHEMA["$schema"]
    assert schema.properties is not None
    assert schema.properties["age"].x_sql_datatype == "smallint"
    assert schema.properties["tags"].items.type == "string"
    assert schema.additionalProperties is False
    assert schema.properties["name"].extras == {"const": "x"}


def test_schema_object_is_converted_to_keywords():
    schema = Schema(type="object", properties={"a": Schema(type="string", minLength=1)})
    expected = {"type": "object", "properties": {"a": {"type": "string", "minLength": 1}}}
    assert schema.to_dict() == expected


def test_defaults_apply_at_every_depth():
    schema = Schema.from_dict({"properties": {"a": {}}, "items": {}}, type="string")
    assert schema.to_dict() == {
        "type": "string",
        "properties": {"a": {"type": "string"}},
        "items": {"type": "string"},
    }


def test_keywords_are_written_in_a_fixed_order():
    first = Schema.from_dict({"type": "string", "title": "t", "const": "1", "$id": "i"})
    other = Schema.from_dict({"$id": "i", "const": "1", "title": "t", "type": "string"})
    assert list(first.to_dict()) == list(other.to_dict()) == ["title", "type", "$id", "const"]


def test_unknown_keyword_argument_is_an_error():
    with pytest.raises(TypeError):
        Schema(notAKeyword=1)  # type: ignore[call-arg]
