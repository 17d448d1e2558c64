"""Table columns for keys and replication keys that are inside an object of the record.

For a key ``user.id`` the table gets a column ``user_id`` in addition to the column of the property
``user``. The name has no dot, because Iceberg would read it as a nested field. The column has the
type that the schema declares for the nested value. All parents of the value must be objects with
declared properties: a list has no single value, and an undeclared value has no type.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

from tap_core.schema.type_variants import ANY_SCHEMA, merge_object_variants, split_variants
from target_spark.columns.types import Array, Boolean, Column, ColumnType, Struct, Text
from target_spark.errors import UnsupportedError
from target_spark.tables.identifiers import sanitize_names

__all__ = ["nested_columns", "nested_sources"]

_Schema: TypeAlias = Mapping[str, Any]
_Paths: TypeAlias = Mapping[str, Sequence[str]]


def nested_sources(nested: _Paths, declared: Collection[str]) -> dict[str, str]:
    """Return a unique name for each key or replication key that is nested in an object.

    The name is used as `Column.source`, like the name of a property. It is the name of the key,
    such as ``user.id``, or ``user.id_2`` if a property is named ``user.id``.

    Args:
        nested: The path of each key by name, such as ``{"user.id": ["user", "id"]}``. If the path
            has only one name, the key is not nested and is left out of the result.
        declared: The names of the properties that the schema declares.

    Returns:
        The unique names by the names of the keys.
    """
    sources: dict[str, str] = {}
    for name, path in nested.items():
        if tuple(path) == (name,):
            continue  # a property, not nested
        source, number = name, 1
        while source in declared or source in sources.values():
            number += 1
            source = f"{name}_{number}"
        sources[name] = source
    return sources


def nested_columns(
    nested: _Paths,
    sources: Mapping[str, str],
    declared: Mapping[str, Any],
    type_of: Callable[[Any], ColumnType],
    reserved: Collection[str],
) -> tuple[Column, ...]:
    """Return a column for each key or replication key that is inside an object of the record.

    The column of ``user.id`` is named ``user_id``.

    Args:
        nested: The path of each key by name, such as ``{"user.id": ["user", "id"]}``.
        sources: The unique names of the nested keys, as `nested_sources` returns them.
        declared: The JSON Schemas of the record's properties, by name.
        type_of: Function that returns the column type for a JSON Schema.
        reserved: The names of the other columns, which the new columns must not have.

    Raises:
        UnsupportedError: The schemas do not declare a path, or its value is an object or a list.
    """
    names: dict[str, str] = {}
    for source in sorted(sources.values()):
        preferred = source.replace(".", "_")
        names[source] = sanitize_names([preferred], {*reserved, *names.values()})[preferred]
    columns: list[Column] = []
    for name, source in sources.items():
        path = tuple(nested[name])
        type_ = _resolve_leaf_type(path, declared, type_of)
        columns.append(Column(source, names[source], type_, path=path))
    return tuple(columns)


def _resolve_leaf_type(
    path: tuple[str, ...], declared: Mapping[str, Any], type_of: Callable[[Any], ColumnType]
) -> ColumnType:
    properties: Mapping[str, Any] = declared
    for depth, name in enumerate(path, 1):
        if name not in properties:
            raise _unusable_key_error(path, f"its schema declares no {'.'.join(path[:depth])}")
        if depth < len(path):
            properties = _get_properties(properties[name], path, depth)
    type_ = type_of(properties[path[-1]])
    if isinstance(type_, Struct | Array):
        raise _unusable_key_error(path, "it is not a single value")
    return Text() if isinstance(type_, Boolean) else type_  # nested booleans are read as text


def _get_properties(schema: Any, path: tuple[str, ...], depth: int) -> _Schema:
    """Return the declared properties of an object on the path of a nested key.

    Args:
        schema: The JSON Schema of the object.
        path: The path of the nested key, such as ``("user", "id")``, for error messages.
        depth: The number of names in ``path`` up to the object: 1 for the object ``user``.

    Raises:
        UnsupportedError: The schema is not an object or declares no properties.
    """
    variants = list(split_variants(schema))
    location = ".".join(path[:depth])
    kinds = {kind for kind, _ in variants}
    if kinds - {"object", ANY_SCHEMA}:
        raise _unusable_key_error(path, f"{location} is not an object")
    merged = (
        merge_object_variants([variant for _, variant in variants]) if kinds == {"object"} else {}
    )
    properties: _Schema = merged.get("properties") or {}
    if not properties:
        raise _unusable_key_error(
            path, f"{location} is free-form: its schema declares no properties"
        )
    return properties


def _unusable_key_error(path: tuple[str, ...], reason: str) -> UnsupportedError:
    return UnsupportedError(
        f"{'.'.join(path)} cannot be a key or a cursor: {reason}. Choose another primary key or"
        " cursor field, or let the source declare it."
    )
