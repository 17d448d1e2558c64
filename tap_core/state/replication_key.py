"""Lookup of a replication key in a record, at the top level or nested.

The functions are pure. A key is one string, since that is what a state and a catalog hold; the
property names of a nested key are joined by dots. The path is derived from the schema alone: a
property whose name contains dots takes precedence over a nested property.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tap_core.types import Record

__all__ = ["copy_path", "get_definition", "make_getter", "parse_path"]


def parse_path(key: str, schema: Any) -> tuple[str, ...]:
    """Return the property names on the path to a key; only the key if the schema has no path."""
    return _find_path(key, schema) or (key,)


def _find_path(key: str, schema: Any) -> tuple[str, ...]:
    properties = _properties(schema)
    if key in properties:
        return (key,)
    for name, definition in properties.items():
        if key.startswith(f"{name}.") and (way := _find_path(key[len(name) + 1 :], definition)):
            return (name, *way)
    return ()


def get_definition(path: tuple[str, ...], schema: Any) -> Any | None:
    """Return the schema of the value at the end of a path, or None."""
    return reduce(lambda known, name: _properties(known).get(name), path, schema)


def make_getter(path: tuple[str, ...]) -> Callable[[Record], Any]:
    """Return a function that looks up a value in a record.

    It returns None if an object on the path is null, and raises KeyError if a name is missing or
    its parent is not an object.
    """

    def find(record: Mapping[str, Any]) -> Any:
        value: Any = record
        for name in path:
            if value is None:
                return None
            if not isinstance(value, Mapping):
                raise KeyError(name)
            value = value[name]
        return value

    return find


def copy_path(path: tuple[str, ...], record: Record) -> Record:
    """Return a copy of a record in which the objects on a path are copied too."""
    copy = dict(record)
    inner = copy.get(path[0])
    if len(path) > 1 and isinstance(inner, dict):
        copy[path[0]] = copy_path(path[1:], inner)
    return copy


def _properties(schema: Any) -> Mapping[str, Any]:
    """Return the properties of an object schema, or of its first variant that has properties."""
    if not isinstance(schema, Mapping):
        return {}
    found = schema.get("properties")
    if isinstance(found, Mapping):
        return found
    variants = (one for word in ("anyOf", "oneOf") for one in _listed(schema.get(word)))
    return next((found for one in variants if (found := _properties(one))), {})


def _listed(value: Any) -> list[Any]:
    """Return a list unchanged, and an empty list for any other value."""
    return value if isinstance(value, list) else []
