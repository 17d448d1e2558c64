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
    """Return one schema that accepts the values accepted by all of ``schemas``.

    If schemas disagree on an annotation, such as ``title``, the last schema's value is used.
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
    """Add a keyword to the schema ``result``, in place; a value that it already has is merged."""
    if keyword not in result:
        result[keyword] = value
    elif keyword == "oneOf":  # merged options may match more than once
        _add(result, "anyOf", [*result.pop("oneOf"), *value])
    elif keyword in _JOINED:
        result[keyword] = _JOINED[keyword](result[keyword], value)
    else:
        result[keyword] = value


def _merge_two(first: Any, second: Any) -> Any:
    """Return one schema that combines two schemas.

    If either of them is True or False instead of an object, return the second one.
    """
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return merge_schemas([dict(first), dict(second)])
    return second


def _merge_by_name(first: Any, second: Any) -> Any:
    """Merge two objects that contain schemas by name, such as two values of ``properties``."""
    if not isinstance(first, Mapping) or not isinstance(second, Mapping):
        return second
    shared = {name: _merge_two(first[name], second[name]) for name in first.keys() & second.keys()}
    return {**first, **second, **shared}


def _union(first: Any, second: Any) -> Any:
    """Return the union of two lists. If either value is not a list, return the second value."""
    if not isinstance(first, list) or not isinstance(second, list):
        return second
    return [*first, *(value for value in second if value not in first)]


def _intersection(first: Any, second: Any) -> Any:
    """Return the intersection of two lists, or the second list if they have nothing in common."""
    if not isinstance(first, list) or not isinstance(second, list):
        return second
    return [value for value in first if value in second] or second


def _type(first: Any, second: Any) -> Any:
    """Return the type names that two values of ``type`` share.

    If they share only null or no type, return the second value.
    """
    ours, theirs = get_types({"type": first}), get_types({"type": second})
    if "number" in ours and "integer" in theirs:
        ours.append("integer")
    if "number" in theirs and "integer" in ours:
        theirs.append("integer")
    shared = [kind for kind in dict.fromkeys(ours) if kind in theirs]
    if shared in ([], ["null"]):
        return second
    return shared[0] if len(shared) == 1 else shared


def _merge_additional(first: Any, second: Any) -> Any:
    """Return the merged value of two values of ``additionalProperties``.

    If the second value is False, return the first one. Each member of an ``allOf`` declares only
    some properties of the object, so False seldom means that the object has no others.
    """
    return first if second is False else _merge_two(first, second)


def _or_last(choose: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a function that merges two numeric bounds by ``choose``, such as ``max``.

    If the bounds are booleans, as exclusive bounds are in JSON Schema draft 4, the function returns
    the second one.
    """

    def chosen(first: Any, second: Any) -> Any:
        if isinstance(first, bool) or isinstance(second, bool):
            return second
        return choose(first, second)

    return chosen


_HIGHER: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_LOWER: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")

_JOINED: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "properties": _merge_by_name,
    "patternProperties": _merge_by_name,
    "$defs": _merge_by_name,
    "definitions": _merge_by_name,
    "required": _union,
    "allOf": _union,
    "anyOf": _union,
    "enum": _intersection,
    "type": _type,
    "items": _merge_two,
    "additionalProperties": _merge_additional,
    **dict.fromkeys(_HIGHER, _or_last(max)),
    **dict.fromkeys(_LOWER, _or_last(min)),
}
"""Merge functions of the keywords that two schemas may share; of others the last value wins."""
