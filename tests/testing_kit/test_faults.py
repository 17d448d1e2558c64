"""Faults of records against a schema: found as by jsonschema, grouped, and described briefly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tap_core.exceptions import InvalidJSONSchema
from tap_core.testing.record_validation import (
    RecordFault,
    excerpt,
    find_faults,
    find_invalid_values,
    format_faults,
    get_validator,
)

KINDS = ["string", "integer", "number", "boolean", "object", "array", "null"]
SCHEMAS = st.fixed_dictionaries(
    {"type": st.lists(st.sampled_from(KINDS), min_size=1, unique=True)},
    optional={
        "format": st.sampled_from(["date-time", "date", "ipv4", "email"]),
        "maxLength": st.integers(0, 3),
        "minimum": st.integers(-1, 1),
    },
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(-3, 3)
    | st.sampled_from(["", "a", "2024-01-01", "1.2.3.4", "2024-01-01T00:00:00Z"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.just("k"), inner, max_size=1),
    max_leaves=3,
)


@given(
    st.dictionaries(st.sampled_from("ab"), SCHEMAS),
    st.lists(st.dictionaries(st.sampled_from("ab"), VALUES), max_size=4),
    st.lists(st.sampled_from("abc"), unique=True),
)
def test_faults_are_those_that_jsonschema_finds(properties, records, required) -> None:
    schema = {"type": "object", "properties": properties, "required": required}
    validator = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    errors = [list(validator.iter_errors(record)) for record in records]
    faults = find_faults(records, schema)
    assert sum(fault.count for fault in faults) == sum(map(len, errors))
    wrong = [number for number, error in enumerate(errors, 1) if error]
    assert min((fault.record for fault in faults), default=None) == min(wrong, default=None)


def test_equal_schemas_share_one_cached_checker() -> None:
    first = {"properties": {"shared": {"type": "integer"}, "other": {"enum": [1]}}}
    equal = {"properties": {"other": {"enum": [1]}, "shared": {"type": "integer"}}}
    assert get_validator(first) is get_validator(equal)
    assert get_validator(first) is not get_validator({"properties": {"shared": {"type": "string"}}})


def test_valid_record_is_checked_without_jsonschema() -> None:
    schema = {"properties": {"quick": {"type": ["integer", "null"]}}}
    assert find_faults([{"quick": 1}, {"quick": None}] * 10, schema) == []
    checker = get_validator(schema)
    assert checker.certain_check({"quick": 1})
    assert not checker.certain_check({"quick": "x"})


def test_invalid_schema_is_rejected_but_its_valid_rules_are_checked() -> None:
    schema = {"properties": {"x": {"type": "integer", "minLength": "long"}}}
    with pytest.raises(InvalidJSONSchema):
        get_validator(schema)
    [fault] = find_faults([{"x": 1}, {"x": 1.5}], schema)
    assert str(fault) == "x: 1.5 is not of type 'integer' [record 2]"


def test_fault_text_has_path_message_and_count() -> None:
    single = RecordFault("a.b[]", "type", "'x' is not of type 'integer'", 3, 1)
    assert str(single) == "a.b[]: 'x' is not of type 'integer' [record 3]"
    repeated = RecordFault("", "required", "'x' is a required property", 3, 4)
    assert str(repeated) == "(the record): 'x' is a required property [4 times, first in record 3]"


def test_each_rule_has_a_remedy() -> None:
    assert "convert the value" in RecordFault("x", "type", "", 1, 1).remedy
    assert "loosen the schema" in RecordFault("x", "dependentRequired", "", 1, 1).remedy


def test_ten_faults_are_listed_and_the_rest_counted() -> None:
    faults = [RecordFault(f"x{n}", "type", "wrong", 1, 1) for n in range(13)]
    lines = format_faults(faults).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "  and 3 more"
    assert "more" not in format_faults(faults[:10])


def test_long_text_is_shortened_in_its_middle() -> None:
    text = "a" * 500 + " is not of type 'integer'"
    cut = excerpt(text)
    assert len(cut) < 200
    assert cut.startswith("aaa")
    assert cut.endswith("is not of type 'integer'")
    assert excerpt("short") == "short"


def test_invalid_values_are_counted_and_the_first_is_reported() -> None:
    assert find_invalid_values([1, "2", "x", []], lambda value: int(value) > 0, "no: {}") == (
        2,
        "no: x",
    )
    assert find_invalid_values([1, 2], lambda value: True, "no: {}") is None
    assert find_invalid_values([], lambda value: False, "no: {}") is None
