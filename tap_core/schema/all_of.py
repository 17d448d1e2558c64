"""Several schemas that hold at once, written as one.

Rules of the room: what a record may have is never lost: properties are put together, and
where two schemas contradict each other the later one counts. The result is no larger
than the schemas together; they stay as they were, and it may share their inner parts.

Source: JSON Schema 2020-12, Core, section 10.2.1.1 (allOf).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from tap_core.types import JsonSchema

__all__ = ["get_types", "merge_schemas"]


def merge_schemas(schemas: Iterable[JsonSchema]) -> JsonSchema:
    """Return one schema for what all of ``schemas`` say; of titles and such, the last."""
    result: JsonSchema = {}
    for schema in schemas:
        for keyword, value in schema.items():
            _add(result, keyword, value)
    return result


def get_types(schema: Mapping[str, Any]) -> list[str]:
    """Return the types that a schema names, none for a schema of any type."""
    kind = schema.get("type", [])
    return [kind] if isinstance(kind, str) else list(kind or [])


def _add(result: JsonSchema, keyword: str, value: Any) -> None:
    if keyword not in result:
        result[keyword] = value
    elif keyword == "oneOf":  # one of each list: together no longer exactly one
        _add(result, "anyOf", [*result.pop("oneOf"), *value])
    elif keyword in _JOINED:
        result[keyword] = _JOINED[keyword](result[keyword], value)
    else:
        result[keyword] = value


def _both(one: Any, other: Any) -> Any:
    """Join two schemas, of which either may be true or false."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return merge_schemas([dict(one), dict(other)])
    return other


def _named(one: Any, other: Any) -> Any:
    """Join two objects of schemas by name."""
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return other
    shared = {name: _both(one[name], other[name]) for name in one.keys() & other.keys()}
    return {**one, **other, **shared}


def _all(one: Any, other: Any) -> Any:
    """Join two lists without repeats."""
    if not isinstance(one, list) or not isinstance(other, list):
        return other
    return [*one, *(value for value in other if value not in one)]


def _shared(one: Any, other: Any) -> Any:
    """Keep what both lists have; lists that share nothing contradict each other."""
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
    """Let what is not false count: each part knows only its own properties."""
    return one if other is False else _both(one, other)


def _or_last(choose: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Choose among numbers; true and false are bounds of an older kind."""

    def chosen(one: Any, other: Any) -> Any:
        if isinstance(one, bool) or isinstance(other, bool):
            return other
        return choose(one, other)

    return chosen


_HIGHER: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_LOWER: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")

_JOINED: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "properties": _named,
    "patternProperties": _named,
    "$defs": _named,
    "definitions": _named,
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
"""Keywords that two schemas may both have, and how they are joined."""
