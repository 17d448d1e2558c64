"""Predicates on the types of JSON schemas."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tap_core.exceptions import EmptySchemaTypeError
from tap_core.typing.inspect import (
    append_type,
    get_datelike_property_type,
    is_array_type,
    is_boolean_type,
    is_date_or_datetime_type,
    is_datetime_type,
    is_exclusive_boolean_type,
    is_integer_type,
    is_null_type,
    is_number_type,
    is_object_type,
    is_secret_type,
    is_string_array_type,
    is_string_type,
    is_uniform_list,
)
from tests.peers import missing_reason, peer_python
from tests.typing_.declarations import correct_alternatives
from tests.typing_.type_predicates import answers

PEER = peer_python("singer_sdk")
SCRIPT = Path(__file__).with_name("type_predicates.py")
INSTANT = {"type": "string", "format": "date-time"}
DAY = {"type": ["string", "null"], "format": "date"}
NULL = {"type": "null"}


@pytest.mark.peer
@pytest.mark.skipif(PEER is None, reason=missing_reason("singer_sdk"))
def test_type_predicates_give_the_results_of_singer_sdk():
    command = [str(PEER), "-W", "ignore", str(SCRIPT), "singer_sdk"]
    process = subprocess.run(command, check=True, capture_output=True, text=True)
    theirs = {
        name: correct_alternatives(result) if name.startswith("append_type") else result
        for name, result in json.loads(process.stdout).items()
    }
    ours = answers("tap_core")
    assert len(theirs) > 10_000
    assert {k: (v, ours.get(k)) for k, v in theirs.items() if ours.get(k) != v} == {}


@pytest.mark.parametrize(
    "question, name",
    [
        (is_boolean_type, "boolean"),
        (is_integer_type, "integer"),
        (is_string_type, "string"),
        (is_null_type, "null"),
        (is_number_type, "number"),
        (is_object_type, "object"),
    ],
)
def test_types_are_found_in_strings_and_lists(question, name):
    other = "array"
    assert question({"type": name}) is True
    assert question({"type": [other, name]}) is True
    assert question({"type": other}) is False
    assert question({"const": 1}) is None


def test_any_of_options_are_searched_except_for_objects():
    option = {"anyOf": [{"type": ["integer", "object"]}, NULL]}
    assert is_integer_type(option) is True
    assert is_null_type(option) is True
    assert is_object_type(option) is False


@pytest.mark.parametrize(
    "schema, expected",
    [
        (INSTANT, True),
        (DAY, False),
        ({"anyOf": [NULL, INSTANT]}, True),
        ({"oneOf": [NULL, INSTANT]}, True),
        ({"allOf": [NULL, INSTANT]}, False),
        ({"allOf": [INSTANT, INSTANT]}, True),
        ({"type": "integer"}, False),
    ],
)
def test_datetime_schemas_are_recognized(schema, expected):
    assert is_datetime_type(schema) is expected


def test_date_or_datetime_check_includes_dates_but_not_times():
    assert is_date_or_datetime_type(DAY)
    assert is_date_or_datetime_type({"anyOf": [DAY, NULL]})
    assert not is_date_or_datetime_type({"type": "string", "format": "time"})


@pytest.mark.parametrize("question", [is_datetime_type, is_array_type, is_string_array_type])
def test_empty_schema_raises_empty_schema_type_error(question):
    with pytest.raises(EmptySchemaTypeError):
        question({})


@pytest.mark.parametrize(
    "question", [is_datetime_type, is_date_or_datetime_type, is_array_type, is_string_array_type]
)
def test_schema_without_a_type_raises_value_error(question):
    with pytest.raises(ValueError, match="const"):
        question({"const": 1})


@pytest.mark.parametrize(
    "schema, expected",
    [
        ({"type": "array", "items": {"type": "string"}}, True),
        ({"type": ["array", "null"], "items": {}}, True),
        ({"type": "array"}, False),
        ({"type": "array", "items": [{"type": "string"}]}, False),
        ({"type": "array", "items": {}, "prefixItems": []}, False),
        ({"type": "string", "items": {}}, False),
    ],
)
def test_arrays_with_one_item_schema_are_recognized(schema, expected):
    assert is_uniform_list(schema) is expected


def test_string_arrays_are_recognized():
    assert is_string_array_type({"type": "array", "items": {"type": ["null", "string"]}})
    assert not is_string_array_type({"type": "array", "items": {"type": "integer"}})
    assert is_string_array_type({"anyOf": [{"type": "array", "items": {"type": "string"}}, NULL]})


@pytest.mark.parametrize(
    "kind, expected",
    [
        ("boolean", True),
        (["boolean"], True),
        (["null", "boolean"], True),
        (["boolean", "string"], False),
        ("null", False),
        ([], False),
    ],
)
def test_exclusive_boolean_type_allows_only_boolean_and_null(kind, expected):
    assert is_exclusive_boolean_type({"type": kind}) is expected
    assert is_exclusive_boolean_type({}) is False


@pytest.mark.parametrize(
    "schema, expected",
    [
        (INSTANT, "date-time"),
        (DAY, "date"),
        ({"anyOf": [NULL, {"type": "string", "format": "time"}]}, "time"),
        ({"type": "integer", "format": "date"}, None),
        ({"type": "string", "format": "uuid"}, None),
        ({}, None),
    ],
)
def test_datelike_format_of_a_schema_is_found(schema, expected):
    assert get_datelike_property_type(schema) == expected


def test_secrets_are_found_in_nested_properties():
    inner = {"properties": {"b": {"type": "string", "writeOnly": True}}}
    assert is_secret_type({"type": "object", "properties": {"a": inner}})
    assert is_secret_type({"secret": True})
    assert not is_secret_type({"type": "object", "properties": {"a": {"secret": False}}})


def test_options_without_a_type_are_accepted():
    """As in singer_sdk, a type that is null allows no type. It does not accept `true` in anyOf."""
    schema = {"anyOf": [True, {"type": None}, {"type": "array"}]}
    assert is_null_type(schema) is False
    assert is_object_type(schema) is False
    assert is_object_type({"type": None}) is False
    assert is_array_type({"anyOf": schema["anyOf"][1:]})
    assert not is_array_type({"allOf": [{"type": None}]})
    with pytest.raises(EmptySchemaTypeError):
        is_array_type({"allOf": [True]})


def test_append_type_returns_a_copy_with_the_type_added_once():
    schema = {"type": "string"}
    assert append_type(schema, "null") == {"type": ["string", "null"]}
    assert append_type({"type": ["null", "string"]}, "null") == {"type": ["null", "string"]}
    assert append_type({"type": "null"}, "null") == {"type": "null"}
    assert append_type({"oneOf": []}, "null") == {"oneOf": [NULL]}
    assert append_type({"oneOf": [INSTANT, DAY]}, "null") == {"oneOf": [INSTANT, DAY]}
    assert append_type({"anyOf": ["null"]}, "null") == {"anyOf": ["null"]}
    assert append_type({"anyOf": [True, INSTANT]}, "null") == {"anyOf": [True, INSTANT, NULL]}
    assert append_type({"anyOf": [INSTANT, NULL]}, "null") == {"anyOf": [INSTANT, NULL]}
    assert append_type({"const": 1}, "null") == {"const": 1}
    assert schema == {"type": "string"}
