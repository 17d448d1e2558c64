"""The OpenAPI normalizer: results for single schemas, and properties of all results."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator, Draft202012Validator

from tap_core.schema.all_of import merge_schemas
from tap_core.schema.source import OpenAPISchemaNormalizer

NULL = {"type": "null"}
normalize = OpenAPISchemaNormalizer().normalize_schema


def normalize_property(**schema):
    """Return the normalized schema of one property of a record."""
    record = {"type": "object", "properties": {"p": schema}}
    return normalize(record)["properties"]["p"]


# ruff: noqa: E501 - a table of one line for each case


@pytest.mark.parametrize(
    "schema, expected",
    [
        ({}, {}),
        ({"type": "string"}, {"type": "string"}),
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "nullable": False}, {"type": "string"}),
        ({"type": "string", "x-nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "x-nullable": True, "nullable": False}, {"type": "string"}),
        ({"type": ["string", "null"], "nullable": True}, {"type": ["string", "null"]}),
        ({"type": ["string", None, "string"]}, {"type": ["string", "null"]}),
        ({"type": None}, {"type": "null"}),
        ({"type": []}, {}),
        ({"type": "file"}, {"type": "string", "format": "binary"}),
        ({"type": "string", "enum": ["a", None], "pattern": "("}, {"type": "string"}),
        ({"enum": ["a", None, "b"]}, {"type": ["string", "null"]}),
        ({"enum": [1, 2.5]}, {"type": "number"}),
        ({"enum": [True]}, {"type": "boolean"}),
        ({"enum": [{}, []]}, {"type": ["object", "array", "null"]}),
        ({"enum": []}, {}),
        ({"minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}),
        ({"maximum": 1, "exclusiveMaximum": False}, {"maximum": 1}),
        ({"exclusiveMaximum": True}, {}),
        ({"exclusiveMaximum": 3}, {"exclusiveMaximum": 3}),
        ({"type": "string", "required": True, "examples": {}}, {"type": "string"}),
        ({"type": "array", "items": True}, {"type": "array", "items": True}),
        ({"type": "array", "items": [NULL, True]}, {"type": "array", "items": [NULL, True]}),
        ({"items": {"type": "string", "enum": []}}, {"type": "array", "items": {"type": "string"}}),
        ({"type": "string", "properties": {"a": {"enum": ["b"]}}}, {"type": "string", "properties": {"a": {"type": "string"}}}),
        ({"oneOf": [NULL, NULL]}, {"oneOf": [NULL]}),
        ({"allOf": []}, {}),
        ({"allOf": [{"type": "string"}]}, {"type": "string"}),
        ({"oneOf": [{"type": "string"}]}, {"type": "string"}),
        ({"oneOf": [{"type": "string"}, NULL]}, {"type": ["string", "null"]}),
        ({"oneOf": [NULL, {"type": "string"}]}, {"type": ["string", "null"]}),
        ({"oneOf": [True]}, {"oneOf": [True]}),
        ({"anyOf": [{"type": "string", "enum": ["a"]}]}, {"anyOf": [{"type": "string"}]}),
    ],
)  # fmt: skip
def test_schema_is_normalized(schema, expected):
    before = deepcopy(schema)
    assert normalize(schema) == expected
    assert schema == before


@pytest.mark.parametrize(
    "schema, expected",
    [
        ({"type": "string"}, {"type": ["string", "null"]}),
        ({"type": "string", "nullable": False}, {"type": ["string", "null"]}),
        ({"allOf": [{"type": "string"}], "title": "t"}, {"type": ["string", "null"], "title": "t"}),
        ({"const": "a"}, {"enum": ["a", None]}),
        ({"const": None}, {"enum": [None]}),
        ({"type": "string", "const": "a"}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"oneOf": [{"const": "a"}, NULL]}, {"enum": ["a", None]}),
        (
            {"oneOf": [{"type": "string"}, {"type": "integer"}]},
            {"oneOf": [{"type": "string"}, {"type": "integer"}, NULL]},
        ),
        (
            {"oneOf": [{"const": "a"}, {"const": None}]},
            {"oneOf": [{"const": "a"}, {"const": None}]},
        ),
        (
            {"oneOf": [{"type": "object"}, {"type": ["integer", "null"]}, NULL]},
            {"oneOf": [{"type": "object"}, {"type": "integer"}, NULL]},
        ),
        (
            {"oneOf": [{"type": "object"}, {"type": ["integer", "string", "null"]}, True]},
            {"oneOf": [{"type": "object"}, {"type": ["integer", "string"]}, True, NULL]},
        ),
        (
            {"type": "string", "anyOf": [{"format": "date"}, {"format": "time"}]},
            {"type": ["string", "null"], "anyOf": [{"format": "date"}, {"format": "time"}]},
        ),
        (
            {"oneOf": [{"type": "string", "enum": ["a"]}, {"type": "string"}]},
            {"anyOf": [{"type": "string"}, {"type": "string"}, NULL]},
        ),
        (
            {"anyOf": [{}], "oneOf": [{"type": "string", "enum": ["a"]}, {"type": "integer"}]},
            {"anyOf": [{}], "oneOf": [{"type": "string"}, {"type": "integer"}, NULL]},
        ),
    ],
)
def test_optional_property_becomes_nullable(schema, expected):
    result = normalize_property(**schema)
    assert result == expected
    assert Draft202012Validator(result).is_valid(None) or "True" in str(schema)


def test_key_properties_are_never_nullable():
    record = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "nullable": True},
            "b": {"type": "integer", "x-nullable": True},
            "c": {"allOf": [{"type": "string", "nullable": True}]},
            "d": {"type": "string"},
        },
    }
    schema = normalize(record, key_properties=("a", "b", "c"))
    types = {name: definition["type"] for name, definition in schema["properties"].items()}
    assert schema["type"] == "object"
    assert types == {"a": "string", "b": "integer", "c": "string", "d": ["string", "null"]}


def test_value_schemas_of_maps_are_normalized():
    value = {"type": "string", "nullable": True, "enum": ["a"]}
    record = {"type": "object", "additionalProperties": value, "patternProperties": {"^x": value}}
    schema = normalize(record, key_properties=("id",))
    expected = {"type": ["string", "null"]}
    assert schema["additionalProperties"] == expected
    assert schema["patternProperties"] == {"^x": expected}


def test_nested_all_of_is_merged():
    deep = {"allOf": [{"allOf": [{"properties": {"a": {"type": "string"}}}]}, {"required": ["a"]}]}
    assert normalize(deep, key_properties=("a",)) == {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
    }


def test_enum_kept_by_the_author_gets_null():
    class Keeping(OpenAPISchemaNormalizer):
        def handle_enum(self, schema):
            return schema

    record = {"type": "object", "properties": {"a": {"type": "string", "enum": ["x"]}}}
    for keys, values in (((), ["x", None]), (("a",), ["x"])):
        result = Keeping().preprocess_schema(record, key_properties=keys)
        assert result["properties"]["a"]["enum"] == values


def test_each_step_of_the_normalizer_can_be_overridden():
    class Own(OpenAPISchemaNormalizer):
        def handle_all_of(self, subschemas):
            return subschemas[-1]

        def handle_one_of(self, schema):
            return {"title": "one of"}

        def handle_array_items(self, schema):
            return {"title": "items"}

        def handle_pattern(self, schema):
            return {**schema, "pattern": "kept"}

    record = {
        "type": "object",
        "properties": {
            "a": {"allOf": [{"type": "string"}, {"type": "integer"}]},
            "b": {"oneOf": [{}]},
            "c": {"type": "array", "items": {"type": "string"}},
            "d": {"pattern": "x"},
        },
    }
    assert Own().preprocess_schema(record)["properties"] == {
        "a": {"type": ["integer", "null"]},
        "b": {"title": "one of"},
        "c": {"type": ["array", "null"], "items": {"title": "items"}},
        "d": {"pattern": "kept"},
    }


# Merging


@pytest.mark.parametrize(
    "first, other, expected",
    [
        ({"type": "object"}, {"type": ["object", "null"]}, {"type": "object"}),
        ({"type": "number"}, {"type": "integer"}, {"type": "integer"}),
        ({"type": "integer"}, {"type": "number"}, {"type": "integer"}),
        ({"type": ["string", "null"]}, {"type": ["null", "string"]}, {"type": ["string", "null"]}),
        ({"type": "string"}, {"type": "integer"}, {"type": "integer"}),
        ({"type": ["string", "null"]}, {"type": ["integer", "null"]}, {"type": ["integer", "null"]}),
        ({"required": ["a", "b"]}, {"required": ["b", "c"]}, {"required": ["a", "b", "c"]}),
        ({"required": True}, {"required": ["b"]}, {"required": ["b"]}),
        ({"enum": [1, 2, 3]}, {"enum": [3, 2]}, {"enum": [2, 3]}),
        ({"enum": [1]}, {"enum": [2]}, {"enum": [2]}),
        ({"enum": None}, {"enum": [2]}, {"enum": [2]}),
        ({"minimum": 3}, {"minimum": 1}, {"minimum": 3}),
        ({"maxLength": 3}, {"maxLength": 1}, {"maxLength": 1}),
        ({"exclusiveMinimum": True}, {"exclusiveMinimum": 1}, {"exclusiveMinimum": 1}),
        ({"title": "a"}, {"title": "b"}, {"title": "b"}),
        ({"items": {"type": "string"}}, {"items": {"title": "t"}}, {"items": {"type": "string", "title": "t"}}),
        ({"items": {"type": "string"}}, {"items": True}, {"items": True}),
        ({"additionalProperties": {"a": 1}}, {"additionalProperties": False}, {"additionalProperties": {"a": 1}}),
        ({"additionalProperties": False}, {"additionalProperties": True}, {"additionalProperties": True}),
        ({"anyOf": [1]}, {"anyOf": [2, 1]}, {"anyOf": [1, 2]}),
        ({"oneOf": [1]}, {"oneOf": [2]}, {"anyOf": [1, 2]}),
        ({"oneOf": [1], "anyOf": [3]}, {"oneOf": [2]}, {"anyOf": [3, 1, 2]}),
        ({"properties": True}, {"properties": {}}, {"properties": {}}),
        (
            {"properties": {"a": {"type": "string"}, "b": {"minimum": 1}, "c": {}}},
            {"properties": {"b": {"maximum": 2}, "c": True, "d": {}}},
            {"properties": {"a": {"type": "string"}, "b": {"minimum": 1, "maximum": 2}, "c": True, "d": {}}},
        ),
    ],
)  # fmt: skip
def test_two_schemas_are_merged(first, other, expected):
    before = deepcopy((first, other))
    assert merge_schemas([first, other]) == expected
    assert (first, other) == before


# Random schemas

NAMES = st.sampled_from(["id", "a", "b", "type", "nullable", "oneOf"])
SIMPLE = st.sampled_from(["string", "integer", "number", "boolean"])
FLAGS = st.sampled_from([{}, {"nullable": True}, {"x-nullable": True}, {"nullable": False}])
LEAVES = st.one_of(
    st.just({}),
    st.just(NULL),
    st.builds(lambda t, f: {"type": t, **f}, SIMPLE, FLAGS),
    st.builds(lambda t, f: {"type": "string", "format": t, **f}, st.just("date-time"), FLAGS),
    st.builds(lambda e, f: {"enum": e, **f}, st.lists(st.sampled_from(["a", 1, None])), FLAGS),
    st.builds(
        lambda n, x: {"type": "number", "minimum": n, "exclusiveMinimum": x, "pattern": "("},
        st.integers(0, 3),
        st.booleans(),
    ),
    st.just({"type": ["string", "null"], "title": "t"}),
)


def grown(inner):
    """Return a strategy for schemas that contain other schemas in every possible way."""
    some = st.lists(inner, min_size=1, max_size=3)
    named = st.dictionaries(NAMES, inner, max_size=3)
    required = st.lists(NAMES, unique=True, max_size=3)
    return st.one_of(
        st.builds(
            lambda p, r, f: {"type": "object", "properties": p, "required": r, **f},
            named,
            required,
            FLAGS,
        ),
        st.builds(lambda p, v: {"properties": p, "additionalProperties": v}, named, inner),
        st.builds(lambda i, f: {"type": "array", "items": i, **f}, inner, FLAGS),
        st.builds(lambda s, p, f: {"allOf": s, "properties": p, **f}, some, named, FLAGS),
        st.builds(lambda s, f: {"allOf": s, "title": "t", **f}, some, FLAGS),
        st.builds(lambda s, f: {"oneOf": s, **f}, some, FLAGS),
        st.builds(lambda s, f: {"anyOf": s, **f}, some, FLAGS),
        st.builds(lambda s, o: {"type": "object", "oneOf": s, "anyOf": o}, some, some),
    )


SCHEMAS = st.recursive(LEAVES, grown, max_leaves=8)
KEYS = st.sampled_from([(), ("id",), ("id", "a")])

WITHOUT_DEADLINE = settings(
    deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow]
)


def size(value):
    """Return the number of schemas, keywords and values."""
    if isinstance(value, dict):
        return 1 + sum(size(inner) for inner in value.values())
    return 1 + sum(map(size, value)) if isinstance(value, list) else 1


@WITHOUT_DEADLINE
@given(schema=SCHEMAS, keys=KEYS)
def test_normalized_schema_is_valid_json_schema(schema, keys):
    before = deepcopy(schema)
    result = normalize(schema, key_properties=keys)
    Draft202012Validator.check_schema(result)
    Draft7Validator.check_schema(result)
    assert schema == before
    assert json.loads(json.dumps(result)) == result


@WITHOUT_DEADLINE
@given(schema=SCHEMAS, keys=KEYS)
def test_normalization_is_idempotent(schema, keys):
    once = normalize(schema, key_properties=keys)
    assert normalize(once, key_properties=keys) == once


@WITHOUT_DEADLINE
@given(schema=SCHEMAS, keys=KEYS)
def test_size_of_the_normalized_schema_is_bounded(schema, keys):
    """Each schema may only gain a type, null as a type, or null as a choice."""
    assert size(normalize(schema, key_properties=keys)) <= 6 * size(schema)


@WITHOUT_DEADLINE
@given(properties=st.dictionaries(NAMES, SCHEMAS, min_size=1))
def test_normalized_properties_accept_null_where_possible(properties):
    record = normalize({"type": "object", "properties": properties})
    assert list(record["properties"]) == list(properties)
    for schema in record["properties"].values():
        assert Draft202012Validator({"anyOf": [schema, {"not": schema}]}).is_valid(None)
        if "oneOf" not in schema and "anyOf" not in schema:
            assert Draft202012Validator(schema).is_valid(None)
