"""The object model of JSON Schema."""

from __future__ import annotations

from typing import Any

import pytest

from tap_core.singerlib.schema import Schema

WHOLE: dict[str, Any] = {
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


def test_nothing_that_decides_what_is_valid_is_lost_on_the_way_there_and_back():
    assert Schema.from_dict(WHOLE).to_dict() == WHOLE


def test_annotations_without_an_attribute_and_remains_of_openapi_are_dropped():
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


def test_keywords_are_attributes():
    schema = Schema.from_dict(WHOLE)
    assert schema.id == "person"
    assert schema.schema == WHOLE["$schema"]
    assert schema.properties is not None
    assert schema.properties["age"].x_sql_datatype == "smallint"
    assert schema.properties["tags"].items.type == "string"
    assert schema.additionalProperties is False
    assert schema.properties["name"].extras == {"const": "x"}


def test_an_object_made_by_hand_is_written_in_keywords():
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


def test_keywords_come_in_a_fixed_order_whatever_the_order_was():
    one = Schema.from_dict({"type": "string", "title": "t", "const": "1", "$id": "i"})
    other = Schema.from_dict({"$id": "i", "const": "1", "title": "t", "type": "string"})
    assert list(one.to_dict()) == list(other.to_dict()) == ["title", "type", "$id", "const"]


def test_what_is_not_a_keyword_cannot_be_given():
    with pytest.raises(TypeError):
        Schema(notAKeyword=1)  # type: ignore[call-arg]
