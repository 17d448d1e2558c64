"""Merging of the schemas of an ``allOf`` into one schema.

The result has the properties of all schemas. If two schemas contradict each other, the value of
the later one is used. The schemas are not changed, but the result may share objects with them.
Source: JSON Schema 2020-12, Core, section 10.2.1.1 (allOf).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from tap_core.schema.type_variants import get_types, intersect_types
from tap_core.types import JsonSchema

__all__ = ["merge_schemas"]


def merge_schemas(schemas: Iterable[JsonSchema]) -> JsonSchema:
    """Merge the schemas of an ``allOf`` into one schema, for values that match all of them.

    Properties, types and bounds are combined. For other keywords, such as ``title``, the last
    schema's value is used.
    """
    result: JsonSchema = {}
    for schema in schemas:
        for keyword, value in schema.items():
            _add_keyword(result, keyword, value)
    return result


def _add_keyword(result: JsonSchema, keyword: str, value: Any) -> None:
    """Add a keyword to the merged schema ``result``, in place.

    If ``result`` already has the keyword, its value is merged with ``value``.
    """
    if keyword not in result:
        result[keyword] = value
    elif keyword == "oneOf":  # several options of the merged list may match a value
        _add_keyword(result, "anyOf", [*result.pop("oneOf"), *value])
    elif keyword in _MERGE_FUNCTIONS:
        result[keyword] = _MERGE_FUNCTIONS[keyword](result[keyword], value)
    else:
        result[keyword] = value


def _merge_two(first: Any, second: Any) -> Any:
    """Merge two schemas into one; if one of them is a boolean, return the second schema."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return merge_schemas([dict(first), dict(second)])
    return second


def _merge_by_name(first: Any, second: Any) -> Any:
    """Merge two objects that contain schemas by name, such as two values of ``properties``.

    If either value is not an object, return the second value.
    """
    if not isinstance(first, Mapping) or not isinstance(second, Mapping):
        return second
    shared = {name: _merge_two(first[name], second[name]) for name in first.keys() & second.keys()}
    return {**first, **second, **shared}


def _unite(first: Any, second: Any) -> Any:
    """Return the union of two lists. If either value is not a list, return the second value."""
    if not isinstance(first, list) or not isinstance(second, list):
        return second
    return [*first, *(value for value in second if value not in first)]


def _intersect(first: Any, second: Any) -> Any:
    """Return the items that two lists have in common.

    If they share no item, or if either value is not a list, return the second value.
    """
    if not isinstance(first, list) or not isinstance(second, list):
        return second
    return [value for value in first if value in second] or second


def _intersect_types(first: Any, second: Any) -> Any:
    """Return the type names that two values of ``type`` have in common.

    If they have only null or no type in common, return the second value.
    """
    shared = intersect_types(get_types({"type": first}), get_types({"type": second}))
    if shared in ([], ["null"]):
        return second
    return shared[0] if len(shared) == 1 else shared


def _merge_additional(first: Any, second: Any) -> Any:
    """Merge two values of ``additionalProperties``; if the second is False, return the first.

    In an ``allOf``, False would exclude the properties that only other members declare.
    """
    return first if second is False else _merge_two(first, second)


def _choose_bound(choose: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a function that merges two numeric bounds by ``choose``, which is ``max`` or ``min``.

    If a bound is a boolean, as exclusive bounds are in JSON Schema draft 4, the function returns
    the second bound.
    """

    def merge(first: Any, second: Any) -> Any:
        if isinstance(first, bool) or isinstance(second, bool):
            return second
        return choose(first, second)

    return merge


_HIGHER: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_LOWER: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")

_MERGE_FUNCTIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "properties": _merge_by_name,
    "patternProperties": _merge_by_name,
    "$defs": _merge_by_name,
    "definitions": _merge_by_name,
    "required": _unite,
    "allOf": _unite,
    "anyOf": _unite,
    "enum": _intersect,
    "type": _intersect_types,
    "items": _merge_two,
    "additionalProperties": _merge_additional,
    **dict.fromkeys(_HIGHER, _choose_bound(max)),
    **dict.fromkeys(_LOWER, _choose_bound(min)),
}
"""Merge functions by keyword; for other keywords, the last schema's value is used."""
