"""Record validation reports the errors of jsonschema without calling it for each record."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker, SchemaError, ValidationError

from tap_core.config.validation import setting_path
from tap_core.exceptions import InvalidJSONSchema, InvalidRecord
from tap_core.sinks.compiled_validator import compile_validator
from tap_core.sinks.schema_check import is_valid_schema
from tap_core.sinks.validation import JSONSchemaValidator
from tests.sinks.schemas import any_documents, records, schemas, values

FORMATS = Draft202012Validator.FORMAT_CHECKER
MANY_EXAMPLES = settings(max_examples=250, deadline=None)


ARITHMETIC_ERRORS = {"InvalidOperation", "OverflowError", "ZeroDivisionError"}


def get_jsonschema_error(schema: Any, value: Any, checker: FormatChecker | None) -> str | None:
    """Return the path and the message of jsonschema, or None if the value is valid."""
    try:
        Draft202012Validator(schema, format_checker=checker).validate(value)
    except ValidationError as error:
        path = setting_path(error.absolute_path)
        return f"{path}: {error.message}" if path else error.message
    except Exception as error:  # noqa: BLE001  ours must raise the same error
        name = type(error).__name__
        if name in ARITHMETIC_ERRORS:  # ours turns errors of Python's arithmetic into InvalidRecord
            return f"a value is beyond what can be compared with the schema ({name})"
        return f"raised {name}"
    return None


def get_our_error(validator: JSONSchemaValidator, value: Any) -> str | None:
    try:
        validator.validate(value)
    except InvalidRecord as error:
        return error.error_message
    except Exception as error:  # noqa: BLE001  as above
        return f"raised {type(error).__name__}"
    return None


@MANY_EXAMPLES
@given(schemas, values, st.sampled_from([None, FORMATS]))
@example({"items": {"type": "integer"}}, [True], None)
@example({"items": {"enum": [1]}}, [True], None)
@example({"const": False}, 0, None)
@example({"type": "number", "multipleOf": 0.1}, Decimal("0.5"), None)
@example({"oneOf": [{"type": "integer"}, {"type": "number"}]}, 1, None)
@example({"type": "array", "uniqueItems": True}, [1, True], None)
@example({"items": False}, [], None)
@example({"multipleOf": Decimal("0.01")}, 10**60, None)
def test_errors_are_those_of_jsonschema(schema, value, checker):
    validator = JSONSchemaValidator(schema, validate_formats=checker is not None)
    assert get_our_error(validator, value) == get_jsonschema_error(schema, value, checker)


@MANY_EXAMPLES
@given(st.dictionaries(st.sampled_from(["a", "b", "c d"]), schemas, max_size=3), records)
@example({"b": {"multipleOf": Decimal("0.25"), "type": "string"}}, {"b": 10**30})
def test_errors_of_records_are_those_of_jsonschema(properties, record):
    schema = {"type": "object", "properties": properties}
    assert get_our_error(JSONSchemaValidator(schema), record) == get_jsonschema_error(
        schema, record, None
    )


@MANY_EXAMPLES
@given(any_documents)
@example({"type": "string", "pattern": "("})
@example({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"})
@example({"$schema": "http://json-schema.org/draft-07/schema#"})
@example({"required": ["a", "a"]})
def test_document_accepted_by_the_fast_check_is_a_valid_schema(document):
    if is_valid_schema(document):
        Draft202012Validator.check_schema(document)


VALID_VALUES: list[tuple[Any, Any]] = [
    ({"type": ["string", "null"]}, None),
    ({"properties": {"a": {"type": "integer"}}}, {"a": 5, "b": object()}),
    ({"properties": {"a": {"type": "number", "minimum": 0}}}, {"a": Decimal("0.5")}),
    ({"properties": {"a": {"type": "string", "format": "date"}}}, {"a": "no date"}),
    ({"properties": {"a": {"type": "string", "maxLength": 3}}, "required": ["a"]}, {"a": "abc"}),
    ({"properties": {"a": {}}, "required": ["a", "b"]}, {"a": 1, "b": 2}),
    ({"properties": {"a": {"enum": ["x", 1, None]}}}, {"a": 1}),
    ({"const": "x"}, "x"),
    ({"type": "array", "items": {"type": "object", "properties": {"a": {"type": "null"}}}}, [{}]),
    ({"type": "array", "items": {"type": "string"}, "uniqueItems": True}, ["a", "b"]),
    ({"type": "object", "additionalProperties": {"type": "string", "minLength": 1}}, {"z": "a"}),
    ({"type": "object", "additionalProperties": False, "properties": {"a": {}}}, {"a": 1}),
    ({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "integer"}}]}, [1, 2]),
    ({"oneOf": [{"type": "string", "pattern": "^a"}, {"type": "null"}]}, "abc"),
    ({"allOf": [{"type": "integer"}, {"multipleOf": 3}]}, 9),
]


@pytest.mark.parametrize("schema, value", VALID_VALUES)
def test_common_schemas_are_validated_without_jsonschema(schema, value):
    assert is_valid_schema(schema)
    assert compile_validator(schema)(value)


def test_deeply_nested_schema_is_left_to_jsonschema():
    schema: dict[str, Any] = {}
    for _ in range(3000):
        schema = {"type": "array", "items": schema}
    assert not compile_validator(schema)([])
    assert not is_valid_schema(schema)


def test_nested_schemas_are_compiled_in_linear_time():
    schema: dict[str, Any] = {"type": "string", "maxLength": 3}
    for _ in range(60):
        inner = {"anyOf": [schema, {"type": "null"}]}
        schema = {"type": "object", "properties": {"a": {"type": "array", "items": inner}}}
    assert compile_validator(schema)({"a": [{"a": [None, {}]}, None]})


def test_formats_are_checked_only_if_enabled():
    schema = {"properties": {"a": {"type": "string", "format": "ipv4"}}}
    JSONSchemaValidator(schema).validate({"a": "no address"})
    validator = JSONSchemaValidator(schema, validate_formats=True)
    validator.validate({"a": "127.0.0.1"})
    with pytest.raises(InvalidRecord, match="'no address' is not a 'ipv4'"):
        validator.validate({"a": "no address"})


def test_custom_format_checker_is_used():
    checker = FormatChecker(formats=())
    checker.checks("even")(lambda value: len(value) % 2 == 0)
    schema = {"properties": {"a": {"format": "even"}}}
    validator = JSONSchemaValidator(schema, validate_formats=True, format_checker=checker)
    validator.validate({"a": "ab"})
    with pytest.raises(InvalidRecord, match="is not a 'even'"):
        validator.validate({"a": "abc"})


@pytest.mark.parametrize(
    "schema", [{"type": "text"}, {"properties": {"a": {"minLength": -1}}}, {"required": "a"}]
)
def test_invalid_schema_is_rejected(schema):
    with pytest.raises(InvalidJSONSchema, match="Schema Validation Error"):
        JSONSchemaValidator(schema)
    with pytest.raises(SchemaError):
        Draft202012Validator.check_schema(schema)


def test_common_records_are_validated_without_importing_jsonschema():
    program = """
import sys
from tap_core.sinks.validation import JSONSchemaValidator
JSONSchemaValidator({"properties": {"a": {"type": "integer"}}}).validate({"a": 1})
assert "jsonschema" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
