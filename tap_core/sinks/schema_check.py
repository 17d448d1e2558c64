"""Fast check that a JSON document is a valid JSON Schema.

The check returns True only for documents that the meta-schema of Draft 2020-12 accepts. False means
that jsonschema must decide. jsonschema is not used at once, because importing it takes longer than
the whole start of a target.

Source: the meta-schema of JSON Schema 2020-12.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from tap_core.limits.regex import compile_pattern

__all__ = ["is_valid_schema"]

_TYPES: Final = frozenset({"string", "null", "boolean", "integer", "number", "object", "array"})
_DIALECT: Final = re.compile(r"https?://json-schema\.org/[\w./-]*#?", re.ASCII)


def is_valid_schema(schema: Any) -> bool:
    """Return True if a document is certainly a valid JSON Schema.

    False means that jsonschema must decide, because this fast check does not know all keywords.
    """
    try:
        return _is_schema(schema)
    except (RecursionError, re.error):
        return False


def _is_schema(schema: Any) -> bool:
    if isinstance(schema, bool):
        return True
    if not isinstance(schema, dict):
        return False
    return all(_is_valid_keyword(keyword, value) for keyword, value in schema.items())


def _is_valid_keyword(keyword: str, value: Any) -> bool:
    rule = _RULES.get(keyword)
    if rule is not None:
        return rule(value)
    # The meta-schema accepts any value for an unknown keyword.
    return not keyword.startswith("$") and keyword not in _UNSUPPORTED


def _is_type(value: Any) -> bool:
    if isinstance(value, str):
        return value in _TYPES
    return _is_set_of_strings(value) and len(value) > 0 and _TYPES.issuperset(value)


def _is_set_of_strings(value: Any) -> bool:
    return (
        isinstance(value, list)
        and all(isinstance(item, str) for item in value)
        and len(set(value)) == len(value)
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_pattern(value: Any) -> bool:
    return isinstance(value, str) and compile_pattern(value) is not None


def _are_properties(value: Any) -> bool:
    return isinstance(value, dict) and all(_is_schema(item) for item in value.values())


def _are_branches(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(_is_schema(item) for item in value)


def _is_string(value: Any) -> bool:
    return isinstance(value, str)


def _is_boolean(value: Any) -> bool:
    return isinstance(value, bool)


def _is_array(value: Any) -> bool:
    return isinstance(value, list)


def _is_any(_value: Any) -> bool:
    return True


_RULES: Final[dict[str, Callable[[Any], bool]]] = {
    "type": _is_type,
    "properties": _are_properties,
    "required": _is_set_of_strings,
    "items": _is_schema,
    "additionalProperties": _is_schema,
    "anyOf": _are_branches,
    "allOf": _are_branches,
    "oneOf": _are_branches,
    "enum": _is_array,
    "const": _is_any,
    "default": _is_any,
    "examples": _is_array,
    "pattern": _is_pattern,
    "format": _is_string,
    "title": _is_string,
    "description": _is_string,
    "multipleOf": lambda value: _is_number(value) and value > 0,
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _is_count),
    **dict.fromkeys(("minProperties", "maxProperties"), _is_count),
    **dict.fromkeys(("uniqueItems", "readOnly", "writeOnly", "deprecated"), _is_boolean),
    "$schema": lambda value: isinstance(value, str) and _DIALECT.fullmatch(value) is not None,
}
_UNSUPPORTED: Final = frozenset(
    {
        "contains",
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
        "definitions",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "else",
        "if",
        "maxContains",
        "minContains",
        "not",
        "patternProperties",
        "prefixItems",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
"""Keywords whose values this check does not examine, so that jsonschema must decide."""
