"""Lookup of a replication key in a record, at the top level or nested.

States and catalogs store a replication key as one string. The property names of a nested key are
joined by dots, such as ``meta.updated_at``. The schema decides where to split the string. A
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
    """Split a replication key at its dots into the property names of a path in the schema.

    Example: ``'meta.updated_at'`` -> ``('meta', 'updated_at')``. If the schema has no such path,
    return the key as the only name.
    """
    return _find_path(key, schema) or (key,)


def _find_path(key: str, schema: Any) -> tuple[str, ...]:
    """Return the path to a replication key in a schema, or ``()`` if it is not declared there."""
    properties = _properties(schema)
    if key in properties:
        return (key,)
    for name, definition in properties.items():
        if key.startswith(f"{name}.") and (inner := _find_path(key[len(name) + 1 :], definition)):
            return (name, *inner)
    return ()


def get_definition(path: tuple[str, ...], schema: Any) -> Any | None:
    """Return the schema of the property at a path, or None if the property is not declared."""
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
    """Return a shallow copy of a record in which the objects on a path are copied too.

    Deleting the value at the path in one of the records leaves the other record unchanged.
    """
    copy = dict(record)
    inner = copy.get(path[0])
    if len(path) > 1 and isinstance(inner, dict):
        copy[path[0]] = copy_path(path[1:], inner)
    return copy


def _properties(schema: Any) -> Mapping[str, Any]:
    """Return the ``properties`` of an object schema, or an empty dict.

    If the schema has no ``properties``, return those of the first option in its ``anyOf`` or
    ``oneOf`` that declares properties.
    """
    if not isinstance(schema, Mapping):
        return {}
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        return properties
    variants = (
        variant for keyword in ("anyOf", "oneOf") for variant in _as_list(schema.get(keyword))
    )
    return next((properties for variant in variants if (properties := _properties(variant))), {})


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
