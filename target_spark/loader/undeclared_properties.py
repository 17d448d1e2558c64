"""Detection of record properties that the schema does not declare and that have no column.

To warn the user, only one record after each SCHEMA message is examined. The loader is fast because
it does not decode the other records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from tap_core.config.similar_names import list_names
from target_spark.columns import Array, Column, ColumnSource, ColumnType, Struct, TableSchema

__all__ = ["describe_undeclared", "find_undeclared", "undeclared_in"]

_OPEN_BRACE: Final = ord("{")
_LONGEST_RECORD: Final = 1 << 20
"""Maximum size in bytes of a record that is examined."""

_METADATA_PREFIXES: Final = ("_sdc_", "_airbyte_")
"""Prefixes of metadata columns that sources and targets add."""


def describe_undeclared(body: bytes, table_schema: TableSchema) -> str | None:
    """Return a note for the user that lists a JSON record's properties that have no column.

    Return None if every property has a column.
    """
    names = find_undeclared(body, table_schema)
    if not names:
        return None
    listed = list_names(names)
    return f"has properties that its schema does not declare and that are not loaded: {listed}"


def find_undeclared(body: bytes, table_schema: TableSchema) -> list[str]:
    """Return the paths of the properties of a JSON record that have no table column.

    A path joins names with dots, such as ``user.id``. The list is empty for a record that is
    over 1 MiB or cannot be decoded.
    """
    if len(body) > _LONGEST_RECORD or body[0] != _OPEN_BRACE:
        return []
    try:
        record = msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError):  # the row is quarantined later
        return []
    return undeclared_in(record, table_schema)


def undeclared_in(record: dict[str, Any], table_schema: TableSchema) -> list[str]:
    """Return the paths of the properties of a decoded record that have no table column.

    A path joins names with dots, such as ``user.id``.
    """
    if table_schema.keeps_whole:
        return []
    paths = _iterate_undeclared(record, table_schema.columns, "")
    return sorted({path for path in paths if not path.startswith(_METADATA_PREFIXES)})


def _iterate_undeclared(
    value: dict[str, Any], columns: Iterable[Column], path: str
) -> Iterator[str]:
    by_property = {
        column.source: column for column in columns if column.feed is ColumnSource.PROPERTY
    }
    for name, inner in value.items():
        if name in by_property:
            yield from _iterate_in_value(inner, by_property[name].type, f"{path}{name}.")
        else:
            yield f"{path}{name}"


def _iterate_in_value(value: Any, type_: ColumnType, path: str) -> Iterator[str]:
    if isinstance(value, list) and isinstance(type_, Array):
        for item in value:
            yield from _iterate_in_value(item, type_.element, path)
    elif isinstance(value, dict) and isinstance(type_, Struct):
        yield from _iterate_undeclared(value, type_.fields, path)
