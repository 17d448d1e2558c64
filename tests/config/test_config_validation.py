"""Validation of a configuration: all faults with their paths and without secrets."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tap_core.config.validation import (
    find_null_bytes,
    is_trivially_valid,
    setting_path,
    suggest_misspelled_settings,
    validate_config,
)

SCHEMA = {
    "type": "object",
    "required": ["url"],
    "properties": {
        "url": {"type": "string"},
        "page_size": {"type": ["integer", "null"], "minimum": 1},
        "a": {
            "type": "object",
            "required": ["id"],
            "properties": {
                "id": {"type": "integer"},
                "b": {"type": "array", "items": {"type": "integer"}},
                "api_key": {"type": "string"},
            },
            "additionalProperties": False,
        },
        "mode": {"enum": ["x", "y"]},
        "hidden": {"type": "integer", "secret": True},
        "login": {
            "anyOf": [
                {"type": "object", "properties": {"password": {"type": "integer"}}},
                {"type": "integer"},
            ]
        },
    },
}


def test_valid_configuration_has_no_faults():
    valid = {"url": "u", "page_size": None, "a": {"id": 1, "b": [1]}, "mode": "x", "more": 1}
    assert validate_config(valid, SCHEMA) == []


def test_every_fault_is_reported_with_its_path():
    config = {"page_size": 0, "a": {"b": [1, "two", 3.5], "c": 1}, "mode": "z"}
    assert validate_config(config, SCHEMA) == [
        "'url' is a required property",
        "a: 'id' is a required property",
        "a: Additional properties are not allowed ('c' was unexpected)",
        "a.b[1]: 'two' is not of type 'integer'",
        "a.b[2]: 3.5 is not of type 'integer'",
        "mode: 'z' is not one of ['x', 'y']",
        "page_size: 0 is less than the minimum of 1",
    ]


def test_a_null_byte_within_a_text_is_reported_with_its_path():
    """No path or address may contain one: the operating system's error names no setting."""
    config = {"path": "a\0b", "csv": {"delimiter": "\0"}, "files": ["c", "\0d"], "size": 1}
    assert list(find_null_bytes(config)) == [
        "path: the text contains a null byte (U+0000): remove it",
        "files[1]: the text contains a null byte (U+0000): remove it",
    ]


def test_known_name_is_suggested_for_a_misspelled_one_in_an_object():
    inner = {"properties": {"write_mode": {}}, "additionalProperties": False}
    [fault] = validate_config({"a": {"write_mod": 1}}, {"properties": {"a": inner}})
    assert fault.startswith("a: Additional properties are not allowed ('write_mod' was unexpected)")
    assert fault.endswith(". Did you mean 'write_mode'?")


def test_invalid_name_in_an_object_is_explained():
    spark = {"type": "object", "propertyNames": {"pattern": "^spark[.]"}}
    schema = {"properties": {"master": {"type": "string"}, "spark": spark}}
    assert validate_config({"spark": {"fs.a": 1, "master": "local"}}, schema) == [
        "spark: the name 'fs.a' does not match '^spark[.]'",
        (
            "spark: the name 'master' does not match '^spark[.]'. 'master' is a setting of its own:"
            " move it out of 'spark'"
        ),
    ]


def test_similar_choice_is_suggested_without_null():
    schema = {"properties": {"format": {"enum": ["delta", "parquet", None]}}}
    assert validate_config({"format": "detla"}, schema) == [
        "format: 'detla' is not one of ['delta', 'parquet']. Did you mean 'delta'?"
    ]
    assert validate_config({"format": 1}, schema) == [
        "format: 1 is not one of ['delta', 'parquet']"
    ]


def test_decimals_are_validated_and_shown_as_numbers():
    schema = {"properties": {"a": {"multipleOf": 0.5}, "b": {"items": {"type": "integer"}}}}
    assert validate_config({"a": Decimal("1.5"), "b": []}, schema) == []
    assert validate_config({"a": Decimal("1.6"), "b": [Decimal("1.5")]}, schema) == [
        "a: 1.6 is not a multiple of 0.5",
        "b[0]: 1.5 is not of type 'integer'",
    ]


def test_settings_in_skip_are_not_validated():
    assert validate_config({"page_size": "x", "mode": "z"}, SCHEMA, skip=["page_size"]) == [
        "'url' is a required property",
        "mode: 'z' is not one of ['x', 'y']",
    ]


@pytest.mark.parametrize(
    "config",
    [
        {"url": "u", "hidden": "hunter2"},
        {"url": "u", "a": {"id": 1, "api_key": ["hunter2"]}},
        {"url": "u", "a": {"id": 1, "b": {"token": "hunter2"}}},
        {"url": "u", "login": {"password": "hunter2"}},
        {"url": "u", "login": [{"password": "hunter2"}]},
        {"url": "u", "mode": {"db": [{"secret": "hunter2"}]}},
        {"url": {"password": "hunter2"}},
    ],
)
def test_no_fault_shows_a_secret(config):
    faults = validate_config(config, SCHEMA)
    assert faults
    assert "hunter2" not in " ".join(faults)
    assert "not shown" in faults[0]


def test_fault_of_a_secret_names_the_violated_rule():
    assert validate_config({"url": "u", "hidden": "hunter2"}, SCHEMA) == [
        "hidden: the value (not shown) does not fit type 'integer'"
    ]
    login = validate_config({"url": "u", "login": {"password": "hunter2"}}, SCHEMA)
    assert login == ["login: the value (not shown) does not fit the rule 'anyOf'"]


def test_secret_is_hidden_without_a_property_schema():
    schema = {"maxProperties": 0}
    assert validate_config({"token": "hunter2"}, schema) == [
        "the value (not shown) does not fit the rule 'maxProperties'"
    ]


def test_setting_path_uses_dots_and_brackets():
    assert setting_path(["a", "b", 0, 1, "c"]) == "a.b[0][1].c"
    assert setting_path([]) == ""


# The fast check never accepts a configuration that the validator rejects

NAMES = st.sampled_from(["a", "b", "c"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False, width=16)
    | st.sampled_from(["", "a", "x"])
    | st.just(Decimal("1.5")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"])
LEAVES = st.fixed_dictionaries(
    {},
    optional={
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "const": VALUES,
        "minimum": st.integers(-2, 2),
        "default": VALUES,
        "title": st.just("t"),
        "pattern": st.just("^a"),
    },
)
SCHEMAS = st.recursive(
    LEAVES | st.booleans(),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": TYPES,
            "properties": st.dictionaries(NAMES, inner, max_size=3),
            "required": st.lists(NAMES, max_size=2, unique=True),
            "additionalProperties": st.booleans() | inner,
            "items": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
        },
    ),
    max_leaves=6,
)


@given(value=VALUES, schema=SCHEMAS)
def test_configuration_accepted_by_the_fast_check_is_valid(value, schema):
    if is_trivially_valid(value, schema):
        assert Draft202012Validator(schema).is_valid(value)


@pytest.mark.parametrize(
    "schema, value",
    [
        ({"type": "string"}, "x"),
        ({"type": ["null", "integer"]}, 3),
        ({"type": "number"}, 1.5),
        ({"type": "number"}, Decimal("1.5")),
        ({"type": "boolean"}, True),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}, {"a": ""}),
        ({"type": "array", "items": {"type": "integer"}}, [1, 2]),
        ({"enum": ["a", "b"], "title": "t"}, "b"),
        ({"const": "a"}, "a"),
        ({"additionalProperties": False, "properties": {"a": {}}}, {"a": 1}),
        ({"additionalProperties": True}, {"b": 1}),
        (True, object()),
    ],
)
def test_common_configurations_pass_the_fast_check(schema, value):
    assert is_trivially_valid(value, schema)


@pytest.mark.parametrize(
    "schema, value",
    [
        ({"type": "integer"}, True),
        ({"type": "number"}, False),
        ({"type": "boolean"}, 1),
        ({"type": "unheard"}, 1),
        ({"enum": [1]}, True),
        ({"const": 1}, 1),
        ({"additionalProperties": {"type": "string"}}, {"a": "x"}),
        ({"additionalProperties": False}, {"a": "x"}),
        ({"required": ["a"]}, {}),
        ({"items": {"type": "string"}}, [1]),
        ({"properties": {"a": {"type": "string"}}}, {"a": 1}),
        ({"minimum": 1}, 5),
        (False, 1),
    ],
)
def test_uncertain_configurations_are_left_to_the_validator(schema, value):
    assert not is_trivially_valid(value, schema)


# Misspelled settings


def slips(config, schema=SCHEMA):
    return dict(suggest_misspelled_settings(config, schema))


def test_misspelled_setting_is_found_with_a_suggestion():
    assert slips({"url": "u", "pagesize": 3, "a": {"apikey": "x"}}) == {
        "pagesize": "page_size",
        "a.apikey": "a.api_key",
    }
    assert slips({"Page-Size": 3}) == {"Page-Size": "page_size"}


def test_dissimilar_unknown_settings_get_no_suggestion():
    assert slips({"url": "u", "batch": 1, "utterly_other": 2}) == {}


def test_setting_that_is_present_is_not_suggested():
    assert slips({"page_size": 1, "page_sizes": 2}) == {}


def test_additional_properties_schema_disables_suggestions():
    schema = {"properties": {"abcdef": {}}, "additionalProperties": {"type": "string"}}
    assert slips({"abcdeg": "x"}, schema) == {}


def test_faults_can_be_serialized_as_json():
    assert json.dumps(validate_config({}, SCHEMA))


@pytest.mark.parametrize("kind", ["int", 5, None, ["string", "int"]])
def test_invalid_schema_of_the_settings_is_named(kind: object) -> None:
    """Before, it ended the run as an internal error of jsonschema."""
    (message,) = validate_config({"a": 5}, {"type": "object", "properties": {"a": {"type": kind}}})
    assert message.startswith("the schema of the settings, at 'properties.a.type")
    assert "not a valid JSON Schema" in message
