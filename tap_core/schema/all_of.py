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
    """Return one schema for values that match all of ``schemas``.

    Of annotations, such as ``title``, the last value wins.
    """
    result: JsonSchema = {}
    for schema in schemas:
        for keyword, value in schema.items():
            _add(result, keyword, value)
    return result


def get_types(schema: Mapping[str, Any]) -> list[str]:
    """Return the type names of a schema as a list, which is empty without ``type``."""
    kind = schema.get("type", [])
    return [kind] if isinstance(kind, str) else list(kind or [])


def _add(result: JsonSchema, keyword: str, value: Any) -> None:
    """Merge a keyword and its value into ``result``."""
    if keyword not in result:
        result[keyword] = value
    elif keyword == "oneOf":  # merged options may match more than once
        _add(result, "anyOf", [*result.pop("oneOf"), *value])
    elif keyword in _JOINED:
        result[keyword] = _JOINED[keyword](result[keyword], value)
    else:
        result[keyword] = value


def _both(one: Any, other: Any) -> Any:
    """Return the merger of two schemas; the second one if either is True or False."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return merge_schemas([dict(one), dict(other)])
    return other


def _merge_by_name(one: Any, other: Any) -> Any:
    """Return the merger of two objects whose values are schemas."""
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return other
    shared = {name: _both(one[name], other[name]) for name in one.keys() & other.keys()}
    return {**one, **other, **shared}


def _all(one: Any, other: Any) -> Any:
    """Return the union of two lists; the second value if either is not a list."""
    if not isinstance(one, list) or not isinstance(other, list):
        return other
    return [*one, *(value for value in other if value not in one)]


def _shared(one: Any, other: Any) -> Any:
    """Return the intersection of two lists, or the second list if they have nothing in common."""
    if not isinstance(one, list) or not isinstance(other, list):
        return other
    return [value for value in one if value in other] or other


def _type(one: Any, other: Any) -> Any:
    """Return the value of ``type`` that two values have in common, or the second value if none."""
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
    """Return the merger of two ``additionalProperties``; a False as the second is ignored.

    Each member of an ``allOf`` declares only its own properties, so False is seldom meant.
    """
    return one if other is False else _both(one, other)


def _or_last(choose: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a merge function for bounds; of draft 4's boolean flags the last one wins."""

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
"""Merge functions of the keywords that two schemas may share; of others the last value wins."""
