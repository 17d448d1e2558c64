"""Flattening of schemas and records, compiled once per stream."""

from __future__ import annotations

import json
from collections import UserDict
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tap_core.exceptions import ConfigValidationError
from tap_core.helpers import _flattening as package
from tap_core.records import flatten as module
from tap_core.records.flatten import (
    FlatteningOptions,
    compile_flattener,
    flatten_key,
    flatten_record,
    flatten_schema,
    get_flattening_options,
)
from tests.records import values

SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "deep": {
            "type": "object",
            "properties": {"x": {"type": "integer"}, "more": {"type": "object", "properties": {}}},
        },
    },
}


def test_the_package_exports_what_its_modules_define():
    for name in package.__dict__:
        if not name.startswith("_") and name != "annotations":
            assert getattr(package, name) is getattr(module, name)


def test_objects_are_flattened_and_deeper_values_become_json_text():
    flat = flatten_schema(SCHEMA, 1)
    assert list(flat["properties"]) == ["id", "deep__x", "deep__more"]
    record = {"id": 1, "deep": {"x": 2, "more": {"y": [1, Decimal("1.10")]}}, "list": [1]}
    assert flatten_record(record, flat, 1) == {
        "id": 1,
        "deep__x": 2,
        "deep__more": '{"y":[1,1.10]}',
        "list": "[1]",
    }
    assert "deep" in SCHEMA["properties"]


def test_objects_are_not_flattened_without_a_schema():
    assert compile_flattener(None, 3)({"a": {"b": 1}}) == {"a": '{"b":1}'}


def test_any_mapping_is_flattened_and_other_values_are_kept():
    flatten = compile_flattener({"properties": {}}, 2)
    assert flatten({"a": UserDict(b=1), "c": (1,), "d": Decimal(1)}) == {
        "a__b": 1,
        "c": (1,),
        "d": Decimal(1),
    }
    assert flatten({"a": {}, "b": None}) == {"b": None}


def test_later_value_of_the_same_key_wins():
    flatten = compile_flattener({"properties": {}}, 2)
    assert flatten({"a__b": 1, "z": 0, "a": {"b": 2}}) == {"a__b": 2, "z": 0}


def test_cache_of_flattened_keys_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "_MAX_CACHED_KEYS", 3)
    flatten = compile_flattener({"properties": {}}, 2)
    record = {f"k{n}": {"x": n} for n in range(9)}
    assert flatten(record) == {f"k{n}__x": n for n in range(9)}


VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from("abc"), VALUES), st.integers(0, 4))
def test_flattened_record_has_only_scalar_values(record, level):
    flat = flatten_record(record, {"properties": {}}, level)
    assert all(not isinstance(value, (dict, list)) for value in flat.values())
    if level == 0:
        as_text = {
            name: json.dumps(value, separators=(",", ":"))
            if isinstance(value, (dict, list))
            else value
            for name, value in record.items()
        }
        assert flat == as_text


@pytest.mark.parametrize("declared", [True, False, {}, {"enum": ["a", "b"]}, {"anyOf": [{}]}])
def test_property_without_a_type_is_flattened_to_a_string(declared):
    schema = {"type": "object", "properties": {"x": declared}}
    assert flatten_schema(schema, 1)["properties"] == {"x": {"type": ["null", "string"]}}


def test_duplicate_flattened_property_is_an_error():
    schema = {"properties": {"deep__x": {"type": "string"}, **SCHEMA["properties"]}}
    with pytest.raises(ValueError, match="Duplicate column name produced in schema: deep__x"):
        flatten_schema(schema, 1)


def test_long_keys_are_abbreviated_to_the_maximum_length():
    assert flatten_key("c", ["firstPart", "second_part"], max_key_length=16) == "fp__sp__c"
    assert flatten_key("c", ["firstPart", "second_part"]) == "firstPart__second_part__c"


def test_flattening_options_treat_null_as_missing():
    options = get_flattening_options(
        {"flattening_enabled": True, "flattening_max_depth": 0, "flattening_separator": None}
    )
    assert options == FlatteningOptions(enabled=True, max_level=0)
    assert get_flattening_options({"flattening_enabled": None}).enabled is False


def test_flattening_without_a_maximum_depth_is_a_config_error():
    with pytest.raises(ConfigValidationError) as caught:
        FlatteningOptions(enabled=True)
    assert caught.value.errors == ["flattening_max_depth is required when flattening is enabled"]


@settings(deadline=None)
@given(schema_and_rows=values.streams(), level=st.integers(0, 4))
def test_compiled_flattening_has_the_results_of_flattening_property_by_property(
    schema_and_rows, level
):
    """This holds for any record after many of any other."""
    schema, sample, rows = schema_and_rows
    try:
        flattened = flatten_schema(schema, level)
    except ValueError:  # two properties with one column name
        flattened = {"properties": {}}
    flatten = compile_flattener(flattened, level)
    for _ in range(20):
        flatten_or_error(flatten, sample)
    for row in [sample, *rows]:
        expected = flatten_or_error(compile_flattener(flattened, level), row)
        assert repr(flatten_or_error(flatten, row)) == repr(expected)


def flatten_or_error(flatten, record):
    """Return the flattened record, or the type of the error for values that have no JSON."""
    try:
        return flatten(record)
    except Exception as error:  # noqa: BLE001 - both sides must fail in the same way
        return type(error)


@pytest.mark.parametrize(
    "change", [{"tags": None}, {"tags": "x"}, {"place": None}, {"place": {}}, {"id": [1]}], ids=str
)
def test_compiled_flattening_accepts_other_values_than_those_of_the_sample(change):
    schema = {
        "properties": {
            "id": {"type": "integer"},
            "place": {"type": "object", "properties": {"'}": {"type": "string"}}},
            "tags": {"type": "array"},
        }
    }
    flatten = compile_flattener(flatten_schema(schema, 2), 2)
    usual = {"id": 1, "place": {"'}": "x"}, "tags": [1, 2]}
    for _ in range(20):
        assert flatten(usual) == {"id": 1, "place__'}": "x", "tags": "[1,2]"}
    record = {**usual, **change}
    assert flatten(record) == compile_flattener(flatten_schema(schema, 2), 2)(record)


def test_very_wide_records_are_flattened_without_a_compiled_function():
    record = {f"n{number}": {"x": number} for number in range(1_100)}
    flatten = compile_flattener({"properties": {}}, 2)
    for _ in range(20):
        assert flatten(record) == {f"n{number}__x": number for number in range(1_100)}
