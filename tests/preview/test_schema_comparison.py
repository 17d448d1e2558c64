"""Comparison of the types in records with the declared ones."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tap_core.preview.schema_comparison import compare_schema

OBJECT = {"type": "object"}
TEXT = {"type": "string"}
INTEGER = {"type": "integer"}
NULLABLE = {"type": ["integer", "null"]}


def compare(schema: dict[str, Any], *records: Any) -> dict[str, tuple[str, str, str]]:
    """Return the compared properties by path: found, declared, difference."""
    return {
        difference.path: (
            " ".join(difference.found),
            " ".join(difference.declared or ()),
            difference.problem,
        )
        for difference in compare_schema(
            [{"a": difference} for difference in records], {"properties": {"a": schema}}
        )
    }


@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        (INTEGER, 1, ""),
        (INTEGER, Decimal("1.0"), ""),
        (INTEGER, Decimal("1E+999999"), ""),
        (INTEGER, Decimal("1.5"), "other type"),
        (INTEGER, True, "other type"),
        (INTEGER, None, "other type"),
        (NULLABLE, None, ""),
        ({"type": "number"}, 1, ""),
        (TEXT, 1, "other type"),
        ({}, 1, ""),
        ({"enum": [1]}, 1, ""),
        ({"anyOf": [TEXT, {"type": "null"}]}, None, ""),
        ({"anyOf": [TEXT, {"type": "null"}]}, 1, "other type"),
        ({"anyOf": [TEXT, {}]}, 1, ""),
        ({"allOf": [TEXT, {"minLength": 1}]}, 1, "other type"),
        ({"$ref": "#/definitions/x"}, 1, ""),
        (OBJECT, {"b": 1}, ""),
        (OBJECT, [], "other type"),
    ],
)
def test_type_that_the_schema_does_not_allow_is_a_difference(schema, value, problem):
    assert compare(schema, value)["a"][2] == problem


def test_nested_properties_and_items_are_compared():
    nested = {"type": "object", "properties": {"b": INTEGER, "c": TEXT}}
    schema = {"type": "array", "items": nested}
    assert compare(schema, [{"b": "1"}], [{"d": 1}, {"b": 2}]) == {
        "a": ("array", "array", ""),
        "a[]": ("object", "object", ""),
        "a[].b": ("integer string", "integer", "other type"),
        "a[].c": ("", "string", "never seen"),
        "a[].d": ("integer", "", "not in the schema"),
    }


def test_an_object_without_declared_properties_allows_any():
    assert list(compare(OBJECT, {"b": {"c": 1}})) == ["a"]


def test_a_nested_object_that_no_record_has_is_one_difference():
    nested = {"type": ["object", "null"], "properties": {"b": INTEGER}}
    assert compare(nested, None) == {"a": ("null", "object null", "")}
    assert compare_schema([{}], {"properties": {"a": nested}})[0].problem == "never seen"


def test_properties_of_all_choices_count_as_declared():
    schema = {"anyOf": [{"properties": {"b": TEXT}}, {"properties": {"c": TEXT}}]}
    assert compare(schema, {"b": "x", "c": "y"})["a.c"] == ("string", "string", "")
