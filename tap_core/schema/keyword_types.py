"""Check of the keywords of a JSON Schema by which the SDK finds properties and their types.

jsonschema's check against the metaschema would reject schemas that taps have always used, for
example with a ``format`` or a ``required`` that it does not know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

__all__ = ["find_invalid_keyword"]

_SCHEMAS_BY_NAME: Final = ("properties", "patternProperties")
_LISTS_OF_SCHEMAS: Final = ("anyOf", "oneOf", "allOf")


def find_invalid_keyword(schema: Any) -> str | None:
    """Return a message about a keyword whose value has the wrong type, or None if there is none.

    The message begins with the path of the keyword: "properties.id.type: 0 is not …".
    """
    pending: list[tuple[Any, str]] = [(schema, "")]
    while pending:
        part, path = pending.pop()
        if not isinstance(part, Mapping):
            continue
        if fault := _check_keywords(part):
            return path + fault
        pending += [(inner, f"{path}{name}.") for inner, name in _iterate_subschemas(part)]
    return None


def _check_keywords(schema: Mapping[str, Any]) -> str | None:
    """Return a message about a keyword of this schema, without those of its subschemas, or None."""
    types = schema.get("type")
    for name in types if isinstance(types, list) else [types]:
        if not isinstance(name, str | None):
            return f"type: {name!r} is not the name of a type"
    if not isinstance(schema.get("format"), str | None):
        return f"format: {schema['format']!r} is not a string"
    for keyword in _SCHEMAS_BY_NAME:
        if not isinstance(schema.get(keyword), Mapping | None):
            return f"{keyword}: {str(schema[keyword])[:100]!r} is not a mapping"
    for choice, name in _iterate_choices(schema):
        if not isinstance(choice, Mapping | bool):
            return f"{name}: {choice!r} is not a mapping"
    return None


def _iterate_subschemas(schema: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    """Yield (subschema, path), for example of ``items`` and of each property."""
    for keyword in ("items", "additionalProperties"):
        yield schema.get(keyword), keyword
    for keyword in _SCHEMAS_BY_NAME:
        for name, inner in (schema.get(keyword) or {}).items():
            yield inner, f"{keyword}.{name}"
    yield from _iterate_choices(schema)


def _iterate_choices(schema: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    for keyword in _LISTS_OF_SCHEMAS:
        choices = schema.get(keyword)
        for number, choice in enumerate(choices if isinstance(choices, list) else ()):
            yield choice, f"{keyword}[{number}]"
