"""Lookup of a replication key in a record, at the top level or nested.

A replication key is one string, as states and catalogs store it. The property names of a nested
key are joined by dots. The path is derived from the schema: a property whose own name contains
dots takes precedence over a nested property.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tap_core.types import Record

__all__ = ["copy_path", "get_definition", "make_getter", "parse_path"]


def parse_path(key: str, schema: Any) -> tuple[str, ...]:
    """Return the property names on the path to a replication key, from the top level down.

    If the schema has no such path, return the key as the only name.
    """
    return _find_path(key, schema) or (key,)


def _find_path(key: str, schema: Any) -> tuple[str, ...]:
    """Return the path to a key in a schema. Return an empty tuple if there is no such path."""
    properties = _properties(schema)
    if key in properties:
        return (key,)
    for name, definition in properties.items():
        if key.startswith(f"{name}.") and (inner := _find_path(key[len(name) + 1 :], definition)):
            return (name, *inner)
    return ()


def get_definition(path: tuple[str, ...], schema: Any) -> Any | None:
    """Return the schema of the property at the end of a path. Return None if it is not declared."""
    return reduce(lambda known, name: _properties(known).get(name), path, schema)


def make_getter(path: tuple[str, ...]) -> Callable[[Record], Any]:
    """Return a function that looks up the value at a path in a record.

    The function returns None if an object on the path is null. It raises KeyError if a name is
    missing or its parent is not an object.
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
    """Copy a record and the nested objects on a path, so that they can be changed separately."""
    copy = dict(record)
    inner = copy.get(path[0])
    if len(path) > 1 and isinstance(inner, dict):
        copy[path[0]] = copy_path(path[1:], inner)
    return copy


def _properties(schema: Any) -> Mapping[str, Any]:
    """Return the ``properties`` of an object schema.

    For a schema without them, return those of its first variant in ``anyOf`` or ``oneOf`` that has
    properties, or an empty dict.
    """
    if not isinstance(schema, Mapping):
        return {}
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        return properties
    variants = (
        variant for keyword in ("anyOf", "oneOf") for variant in _listed(schema.get(keyword))
    )
    return next((properties for variant in variants if (properties := _properties(variant))), {})


def _listed(value: Any) -> list[Any]:
    """Return a list unchanged, or an empty list for a value that is not a list."""
    return value if isinstance(value, list) else []
