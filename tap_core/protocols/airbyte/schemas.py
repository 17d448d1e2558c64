"""Conversion of JSON Schemas to Airbyte's schemas with ``airbyte_type`` hints, and back.

Input schemas are never changed. References are inlined, because clients do not resolve them. An
unresolvable reference becomes a schema that allows any value. A hint is added to the keywords of
JSON Schema, unless the tap's author wrote one.

===================================  =====================================================
Schema of the stream                 Airbyte's ``airbyte_type``
===================================  =====================================================
string, ``date-time``                ``timestamp_with_timezone`` (values without one are UTC)
string, ``time``                     ``time_without_timezone``
string, ``x-singer.decimal``         ``big_number``; declared with scale 0: ``big_integer``
integer with bounds beyond 64 bits   ``big_integer``
number, ``multipleOf`` an integer    ``integer``
any other                            no hint: the JSON type is sufficient
===================================  =====================================================

Source: the Airbyte protocol, "Supported data types".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from tap_core.schema.inline_references import ANNOTATION_KEYWORDS, inline_references
from tap_core.schema.numeric_bounds import (
    DECIMAL_FORMATS,
    MAX_DIGITS,
    find_values_beyond_int64,
    get_step,
)
from tap_core.schema.references import map_subschemas
from tap_core.schema.type_variants import get_types
from tap_core.types import JsonSchema

__all__ = ["to_airbyte_schema", "to_singer_schema"]

_HINT: Final = "airbyte_type"
_NULL: Final = "null"
_DECIMAL: Final = "x-singer.decimal"
_MAX_DEPTH: Final = 100
"""Maximum nesting depth. Deeper subschemas become ``{}``, which allows any value."""

_TEXT_HINTS: Final = MappingProxyType(
    {"date-time": "timestamp_with_timezone", "time": "time_without_timezone"}
)

_KEYWORDS_OF_HINTS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "timestamp_with_timezone": {"type": "string", "format": "date-time"},
        "timestamp_without_timezone": {"type": "string", "format": "date-time"},
        "time_with_timezone": {"type": "string", "format": "time"},
        "time_without_timezone": {"type": "string", "format": "time"},
        "integer": {"type": "integer"},
        "big_number": {"type": "string", "format": _DECIMAL},
    }
)
"""JSON Schema keywords for each ``airbyte_type``."""

_UNION_KEYWORDS: Final = ("anyOf", "oneOf")


def to_airbyte_schema(json_schema: Mapping[str, Any]) -> JsonSchema:
    """Convert a stream's JSON Schema to an Airbyte schema, with ``airbyte_type`` hints.

    A union of null and one other type becomes that type, nullable. A union of several types becomes
    ``oneOf``, Airbyte's keyword for unions, if no value can have two of the types.
    """
    schema = _transform(inline_references(json_schema), _add_hint)
    return schema if "type" in schema else {"type": "object", **schema}


def to_singer_schema(json_schema: Mapping[str, Any]) -> JsonSchema:
    """Convert an Airbyte schema to JSON Schema: replace ``airbyte_type`` hints by keywords.

    For example, ``date-time`` is added as ``format`` for the hint ``timestamp_with_timezone``.
    """
    return _transform(inline_references(json_schema), _replace_hint)


def _transform(
    schema: JsonSchema, step: Callable[[JsonSchema], JsonSchema], depth: int = 0
) -> JsonSchema:
    """Return a copy of a schema, converted by ``step``: first the subschemas, then the schema.

    Args:
        schema: The schema, or in recursive calls a subschema.
        step: Converts one schema, whose subschemas are already converted.
        depth: Level of ``schema``. Subschemas below 100 levels become ``{}``, which allows any
            value.
    """
    if depth > _MAX_DEPTH:
        return {}
    return step(map_subschemas(schema, lambda inner: _transform(inner, step, depth + 1)))


# JSON Schema to Airbyte


def _add_hint(schema: JsonSchema) -> JsonSchema:
    """Return a schema for Airbyte: with its union rewritten and an ``airbyte_type`` hint added.

    The hint is added if the JSON type alone is not precise enough. An existing hint is kept.
    """
    schema = _rewrite_union(schema)
    if _HINT in schema:
        return schema
    hint = _find_hint([kind for kind in get_types(schema) if kind != _NULL], schema)
    return {**schema, _HINT: hint} if hint else schema


def _find_hint(types: Sequence[str], schema: Mapping[str, Any]) -> str | None:
    """Return the ``airbyte_type`` hint for a schema, such as "big_integer", or None without one.

    ``types`` are the JSON types of the schema except null.
    """
    if len(types) != 1:
        return None
    if types[0] == "string":
        return _find_text_hint(schema)
    if types[0] == "integer":
        return "big_integer" if find_values_beyond_int64(schema) else None
    step = get_step(schema) if types[0] == "number" else None
    return "integer" if step and step == step.to_integral_value() else None


def _find_text_hint(schema: Mapping[str, Any]) -> str | None:
    form = schema.get("format")
    if not isinstance(form, str):
        return None
    if form in DECIMAL_FORMATS:
        is_integer = schema.get("precision") and schema.get("scale") == 0
        return "big_integer" if is_integer else "big_number"
    return _TEXT_HINTS.get(form)


def _rewrite_union(schema: JsonSchema) -> JsonSchema:
    """Return a schema with its union, such as ``anyOf``, in a form that Airbyte supports.

    The form is ``oneOf``, or one nullable type. If neither allows exactly the values of the union,
    return the schema unchanged.
    """
    keyword = next((name for name in _UNION_KEYWORDS if isinstance(schema.get(name), list)), None)
    choices = schema[keyword] if keyword else None
    if not choices or not all(isinstance(choice, Mapping) for choice in choices):
        return schema
    rest = {key: value for key, value in schema.items() if key != keyword}
    real = [choice for choice in choices if choice.get("type") != _NULL]
    if len(real) == 1 and _can_merge(rest, real[0]):
        return {**(real[0] if len(choices) == 1 else _make_nullable(real[0])), **rest}
    is_safe = "oneOf" not in rest and _are_disjoint(choices)
    return {**rest, "oneOf": choices} if is_safe else schema


def _can_merge(rest: Mapping[str, Any], choice: Mapping[str, Any]) -> bool:
    """Return True if a union can be replaced by its only alternative apart from null.

    Args:
        rest: The keywords next to the union. They must be annotations, such as ``title``.
        choice: The alternative. It must have a type, and neither ``enum`` nor ``const``.
    """
    return (
        "type" in choice
        and "enum" not in choice
        and "const" not in choice
        and rest.keys() <= ANNOTATION_KEYWORDS | {_HINT}
    )


def _make_nullable(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    types = get_types(schema)
    return schema if _NULL in types else {**schema, "type": [*types, _NULL]}


def _are_disjoint(choices: Sequence[Mapping[str, Any]]) -> bool:
    """Return True if no two alternatives of a union allow the same type.

    A value then matches at most one of them, so that ``anyOf`` means the same as ``oneOf``.
    """
    earlier_types: set[str] = set()
    for choice in choices:
        types = set(get_types(choice))
        if "integer" in types:
            types.add("number")
        if not types or not types.isdisjoint(earlier_types):
            return False
        earlier_types |= types
    return True


# Airbyte to JSON Schema


def _replace_hint(schema: JsonSchema) -> JsonSchema:
    hint = schema.get(_HINT)
    if not isinstance(hint, str):
        return schema
    if hint == "big_integer":
        keywords = _build_big_integer_keywords(schema)
    elif hint == "big_number" and schema.get("format") in DECIMAL_FORMATS:
        keywords = {}
    else:
        keywords = _KEYWORDS_OF_HINTS.get(hint, {})
    if "type" in keywords and _NULL in get_types(schema):
        keywords = {**keywords, "type": [keywords["type"], _NULL]}
    return {**schema, **keywords}


def _build_big_integer_keywords(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the JSON Schema keywords that replace the ``airbyte_type`` hint ``big_integer``.

    They declare a string with an integer of up to 38 digits. Return no keywords if the schema
    already declares a precision or bounds beyond 64 bits.
    """
    if schema.get("precision") or find_values_beyond_int64(schema):
        return {}
    return {"type": "string", "format": _DECIMAL, "precision": MAX_DIGITS, "scale": 0}
