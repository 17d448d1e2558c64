"""Rules that recognize values of a stream's records which can be encoded without conversion.

A rule is built once from the schema of a property. It accepts a value only if
`tap_core.records.conform` would return it unchanged. Any other value is converted, which takes more
time. `tap_core.records.compiled_check` compiles the rules of a record to one function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from types import NoneType
from typing import Any, NamedTuple

from tap_core.records.conform import get_property_schema, has_uniform_items
from tap_core.types import JsonSchema, Record
from tap_core.typing.inspect import (
    TypeConformanceLevel,
    is_exclusive_boolean_type,
    is_object_type,
)

__all__ = [
    "PLAIN_TYPES",
    "TYPE_NAMES",
    "ObjectRule",
    "ValueRule",
    "build_object_rule",
    "build_value_rule",
    "is_json",
]

PLAIN_TYPES: frozenset[type] = frozenset((str, int, float, bool, NoneType))
"""Python types whose values are JSON values, except for NaN and infinities."""

TYPE_NAMES: Mapping[type, str] = {kind: kind.__name__ for kind in (str, int, float, bool)}
"""Names of types that generated code compares directly, which is faster than a set of types."""

_BOOLEAN: frozenset[type] = frozenset((bool, NoneType))
_SURELY_FINITE: frozenset[type] = PLAIN_TYPES - {float}

_are_plain: Callable[[Iterable[type]], bool] = PLAIN_TYPES.issuperset
"""Return True if all types are str, int, float, bool or NoneType, not a subclass."""

_are_text: Callable[[Iterable[type]], bool] = frozenset((str,)).issuperset
"""Return True if all types are ``str``."""


class ValueRule(NamedTuple):
    """Rule that accepts a property's value, or a list item, if it needs no conversion for JSON."""

    kinds: frozenset[type]
    """Python types whose values are always accepted."""
    accepts_other: Callable[[Any], bool] | None
    """Function that returns True for other accepted values; None to accept no others."""
    properties: ObjectRule | None = None
    """Rule for a value that is an object; None if `accepts_other` checks objects."""
    items: ValueRule | None = None
    """Rule for the items if the value is a list; None if `accepts_other` checks lists."""

    def accepts(self, value: Any) -> bool:
        """Return True if a value can be encoded as JSON without conversion."""
        kind = type(value)
        if kind in self.kinds:
            return True
        if kind is dict and self.properties is not None:
            return self.properties.accepts(value)
        if kind is list and self.items is not None:
            items = self.items
            return items.kinds.issuperset(map(type, value)) or all(map(items.accepts, value))
        return self.accepts_other is not None and self.accepts_other(value)


class ObjectRule(NamedTuple):
    """Rule that accepts an object or a record if no value in it needs conversion for JSON."""

    declared: Mapping[str, ValueRule]
    """Rules of the properties that the schema declares; any of them may be missing."""
    undeclared: ValueRule | None
    """Rule of all other properties; None to refuse an object that has other properties."""

    def get(self, name: Any) -> ValueRule | None:
        """Return the rule for the value of an object's property.

        Return None if the object must be converted: it has an undeclared property, which conversion
        drops, or a property name that is not a ``str``.
        """
        undeclared = self.undeclared if type(name) is str else None
        return self.declared.get(name, undeclared)

    def accepts(self, value: Record) -> bool:
        """Return True if an object can be encoded as JSON without conversion of a value in it."""
        for name, item in value.items():
            rule = self.get(name)
            if rule is None or not (type(item) in rule.kinds or rule.accepts(item)):
                return False
        return True


def build_object_rule(
    schema: JsonSchema, level: TypeConformanceLevel, *, finite: bool = False
) -> ObjectRule:
    """Return the rule that accepts objects, such as a stream's records, that need no conversion.

    Args:
        schema: Schema with the types to which values are converted.
        level: Values to convert: none, only those of top-level properties, or also nested ones.
        finite: True if NaN and infinity need conversion; False if the encoder writes them as null.
    """
    declared = {
        name: build_value_rule(definition, level, finite=finite)
        for name, definition in (schema.get("properties") or {}).items()
    }
    keeps_undeclared = level == TypeConformanceLevel.NONE or schema.get("additionalProperties")
    undeclared_rule = _FINITE_JSON_RULE if finite else _JSON_RULE
    return ObjectRule(declared, undeclared_rule if keeps_undeclared else None)


def build_value_rule(
    schema: Any, level: TypeConformanceLevel, *, finite: bool = False
) -> ValueRule:
    """Return the rule that accepts the values of a property that need no conversion.

    ``schema`` is the schema of the property. ``level`` defines if no values, only top-level or also
    nested values are converted. ``finite`` is True if NaN and infinity need conversion.
    """
    definition = get_property_schema(schema)
    if level != TypeConformanceLevel.NONE and is_exclusive_boolean_type(definition):
        return _BOOLEAN_RULE
    json_rule = _FINITE_JSON_RULE if finite else _JSON_RULE
    if level != TypeConformanceLevel.RECURSIVE:
        return json_rule
    properties = _build_nested_rule(definition, finite=finite)
    items = (
        _build_item_rule(definition["items"], finite=finite)
        if has_uniform_items(definition)
        else None
    )
    if properties is None and items is None:
        return json_rule
    return json_rule._replace(properties=properties, items=items)


def _build_item_rule(schema: JsonSchema, *, finite: bool) -> ValueRule:
    """Return the rule for list items with this schema: it accepts those that need no conversion.

    ``finite`` is True if NaN and infinity need conversion.
    """
    if is_exclusive_boolean_type(schema):
        return _BOOLEAN_RULE
    json_rule = _FINITE_JSON_RULE if finite else _JSON_RULE
    properties = _build_nested_rule(schema, finite=finite)
    return json_rule if properties is None else json_rule._replace(properties=properties)


def _build_nested_rule(schema: JsonSchema, *, finite: bool) -> ObjectRule | None:
    """Return the rule for objects with this schema: it accepts those that need no conversion.

    If the schema declares no properties, return None. ``finite`` is True if NaN and infinity need
    conversion.
    """
    if "properties" not in schema or not is_object_type(schema):
        return None
    return build_object_rule(schema, TypeConformanceLevel.RECURSIVE, finite=finite)


def is_json(value: Any) -> bool:
    """Return True if a value can be written as JSON unchanged.

    It must have a JSON type (not a subclass) or be a finite Decimal, and so must each value in it.
    Return False for a value that is nested too deeply; its conversion then raises the error.
    """
    try:
        return _is_json(value)
    except RecursionError:
        return False


def _is_json(value: Any) -> bool:
    kind = type(value)
    if kind is list:
        return _are_plain(map(type, value)) or all(map(_is_json, value))
    if kind is dict:
        return _are_text(map(type, value)) and (
            _are_plain(map(type, value.values())) or all(map(_is_json, value.values()))
        )
    return kind in PLAIN_TYPES or (kind is Decimal and value.is_finite())


def _is_finite_json(value: Any) -> bool:
    return is_json(value) and _is_finite(value)


def _is_finite(value: Any) -> bool:
    """Return True if a value of JSON types contains neither NaN nor infinity."""
    if type(value) is dict:
        return all(map(_is_finite, value.values()))
    if type(value) is list:
        return all(map(_is_finite, value))
    return type(value) is not float or math.isfinite(value)


_BOOLEAN_RULE = ValueRule(_BOOLEAN, None)
_JSON_RULE = ValueRule(PLAIN_TYPES, is_json)
_FINITE_JSON_RULE = ValueRule(_SURELY_FINITE, _is_finite_json)
