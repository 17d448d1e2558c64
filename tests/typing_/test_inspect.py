"""Questions about types."""

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
from tests.typing_.verdicts import answers

PEER = peer_python("singer_sdk")
SCRIPT = Path(__file__).with_name("verdicts.py")
INSTANT = {"type": "string", "format": "date-time"}
DAY = {"type": ["string", "null"], "format": "date"}
NULL = {"type": "null"}


@pytest.mark.peer
@pytest.mark.skipif(PEER is None, reason=missing_reason("singer_sdk"))
def test_every_answer_is_that_of_the_peer():
    command = [str(PEER), "-W", "ignore", str(SCRIPT), "singer_sdk"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    theirs = json.loads(done.stdout)
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
def test_types_are_found_in_text_and_in_lists(question, name):
    other = "array"
    assert question({"type": name}) is True
    assert question({"type": [other, name]}) is True
    assert question({"type": other}) is False
    assert question({"const": 1}) is None


def test_options_of_any_of_count_but_not_for_objects():
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
def test_date_times(schema, expected):
    assert is_datetime_type(schema) is expected


def test_dates_count_only_where_asked_for():
    assert is_date_or_datetime_type(DAY)
    assert is_date_or_datetime_type({"anyOf": [DAY, NULL]})
    assert not is_date_or_datetime_type({"type": "string", "format": "time"})


@pytest.mark.parametrize("question", [is_datetime_type, is_array_type, is_string_array_type])
def test_an_empty_schema_says_nothing_and_that_is_an_error(question):
    with pytest.raises(EmptySchemaTypeError):
        question({})


@pytest.mark.parametrize(
    "question", [is_datetime_type, is_date_or_datetime_type, is_array_type, is_string_array_type]
)
def test_a_schema_without_a_type_is_an_error_that_shows_it(question):
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
def test_uniform_lists(schema, expected):
    assert is_uniform_list(schema) is expected


def test_lists_of_text():
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
def test_booleans_and_nothing_else(kind, expected):
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
def test_datelike_text(schema, expected):
    assert get_datelike_property_type(schema) == expected


def test_secrets_are_found_in_what_a_setting_contains():
    inner = {"properties": {"b": {"type": "string", "writeOnly": True}}}
    assert is_secret_type({"type": "object", "properties": {"a": inner}})
    assert is_secret_type({"secret": True})
    assert not is_secret_type({"type": "object", "properties": {"a": {"secret": False}}})


def test_a_type_is_appended_last_once_and_to_a_copy():
    schema = {"type": "string"}
    assert append_type(schema, "null") == {"type": ["string", "null"]}
    assert append_type({"type": ["null", "string"]}, "null") == {"type": ["null", "string"]}
    assert append_type({"type": "null"}, "null") == {"type": "null"}
    assert append_type({"oneOf": []}, "null") == {"oneOf": [NULL]}
    assert append_type({"anyOf": ["null"]}, "null") == {"anyOf": ["null"]}
    assert append_type({"const": 1}, "null") == {"const": 1}
    assert schema == {"type": "string"}
