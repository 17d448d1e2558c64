"""Where a replication key stands in a record: at its top, or inside of objects.

Rules of the room: pure. A key is one text, since that is what a state and a catalog hold; the
names on the way to a value are joined by dots. Which names those are is read from the schema
alone: a property whose name has dots in it comes before a way into an object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tap_core.types import Record

__all__ = ["copy_path", "get_definition", "make_getter", "parse_path"]


def parse_path(key: str, schema: Any) -> tuple[str, ...]:
    """Return the names on the way to a key; the key alone where the schema knows no other."""
    return _way(key, schema) or (key,)


def _way(key: str, schema: Any) -> tuple[str, ...]:
    properties = _properties(schema)
    if key in properties:
        return (key,)
    for name, definition in properties.items():
        if key.startswith(f"{name}.") and (way := _way(key[len(name) + 1 :], definition)):
            return (name, *way)
    return ()


def get_definition(path: tuple[str, ...], schema: Any) -> Any | None:
    """Return what a schema says of the value at the end of a path, None for nothing."""
    return reduce(lambda known, name: _properties(known).get(name), path, schema)


def make_getter(path: tuple[str, ...]) -> Callable[[Record], Any]:
    """Return the function that finds a value in a record.

    An object on the way that is null has a null there. The function raises KeyError where a
    name is missing, or what it should be found in is no object.
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
    """Return a copy of a record of which something on a path may be deleted."""
    copy = dict(record)
    inner = copy.get(path[0])
    if len(path) > 1 and isinstance(inner, dict):
        copy[path[0]] = copy_path(path[1:], inner)
    return copy


def _properties(schema: Any) -> Mapping[str, Any]:
    """Return what an object consists of; of several variants, those of the first that has some."""
    if not isinstance(schema, Mapping):
        return {}
    found = schema.get("properties")
    if isinstance(found, Mapping):
        return found
    variants = (one for word in ("anyOf", "oneOf") for one in _listed(schema.get(word)))
    return next((found for one in variants if (found := _properties(one))), {})


def _listed(value: Any) -> list[Any]:
    """Return a list as it is, and none for anything else."""
    return value if isinstance(value, list) else []
