"""Merging of the schemas of an ``allOf`` into one schema.

Properties are never lost: they are combined, and where two schemas contradict each other
the later one wins. The result is no larger than the inputs together. The inputs are not
changed; the result may share their inner objects.

Source: JSON Schema 2020-12, Core, section 10.2.1.1 (allOf).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from tap_core.types import JsonSchema

__all__ = ["get_types", "merge_schemas"]


def merge_schemas(schemas: Iterable[JsonSchema]) -> JsonSchema:
    """Return one schema equivalent to all of ``schemas``; for annotations the last value wins."""
    result: JsonSchema = {}
    for schema in schemas:
        for keyword, value in schema.items():
            _add(result, keyword, value)
    return result


def get_types(schema: Mapping[str, Any]) -> list[str]:
    """Return the types that a schema names; an empty list if it names no type."""
    kind = schema.get("type", [])
    return [kind] if isinstance(kind, str) else list(kind or [])


def _add(result: JsonSchema, keyword: str, value: Any) -> None:
    if keyword not in result:
        result[keyword] = value
    elif keyword == "oneOf":  # merged options may match more than once
        _add(result, "anyOf", [*result.pop("oneOf"), *value])
    elif keyword in _JOINED:
        result[keyword] = _JOINED[keyword](result[keyword], value)
    else:
        result[keyword] = value


def _both(one: Any, other: Any) -> Any:
    """Merge two schemas, either of which may be true or false."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return merge_schemas([dict(one), dict(other)])
    return other


def _merge_by_name(one: Any, other: Any) -> Any:
    """Merge two objects that map names to schemas."""
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return other
    shared = {name: _both(one[name], other[name]) for name in one.keys() & other.keys()}
    return {**one, **other, **shared}


def _all(one: Any, other: Any) -> Any:
    """Return the union of two lists."""
    if not isinstance(one, list) or not isinstance(other, list):
        return other
    return [*one, *(value for value in other if value not in one)]


def _shared(one: Any, other: Any) -> Any:
    """Return the intersection of two lists; if it is empty, the second list."""
    if not isinstance(one, list) or not isinstance(other, list):
        return other
    return [value for value in one if value in other] or other


def _type(one: Any, other: Any) -> Any:
    ours, theirs = get_types({"type": one}), get_types({"type": other})
    if "number" in ours and "integer" in theirs:
        ours.append("integer")
    if "number" in theirs and "integer" in ours:
        theirs.append("integer")
    shared = [kind for kind in dict.fromkeys(ours) if kind in theirs]
    if shared in ([], ["null"]):
        return other
    return shared[0] if len(shared) == 1 else shared


def _wider(one: Any, other: Any) -> Any:
    """Merge ``additionalProperties`` and ignore false: each part knows only its own properties."""
    return one if other is False else _both(one, other)


def _or_last(choose: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a function that chooses between numbers; booleans are flags of draft 4."""

    def chosen(one: Any, other: Any) -> Any:
        if isinstance(one, bool) or isinstance(other, bool):
            return other
        return choose(one, other)

    return chosen


_HIGHER: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_LOWER: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")

_JOINED: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "properties": _merge_by_name,
    "patternProperties": _merge_by_name,
    "$defs": _merge_by_name,
    "definitions": _merge_by_name,
    "required": _all,
    "allOf": _all,
    "anyOf": _all,
    "enum": _shared,
    "type": _type,
    "items": _both,
    "additionalProperties": _wider,
    **dict.fromkeys(_HIGHER, _or_last(max)),
    **dict.fromkeys(_LOWER, _or_last(min)),
}
"""Merge functions of the keywords that two schemas may share."""
