"""What a record has that its schema does not declare, and that therefore has no column.

Rules of the room: pure. It is looked for in one record of each description of a stream, to
tell people of it; looking at all would cost what not decoding them saves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from target_spark.columns import Array, Column, ColumnSource, ColumnType, Struct, TableSchema

__all__ = ["describe_undeclared", "find_undeclared", "undeclared_in"]

_OPEN_BRACE: Final = ord("{")
_LONGEST: Final = 1 << 20
"""Bytes of a record that is still looked at."""

_NAMED: Final = 10
"""How many properties a remark names."""

_OURS: Final = ("_sdc_", "_airbyte_")
"""How the names begin that sources and targets give each other."""


def describe_undeclared(body: bytes, layout: TableSchema) -> str | None:
    """Say what stands in a record but in none of the columns; None: nothing does."""
    names = find_undeclared(body, layout)
    if not names:
        return None
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return (
        "has properties that its schema does not declare and that are left out:"
        f" {', '.join(names[:_NAMED])}{more}"
    )


def find_undeclared(body: bytes, layout: TableSchema) -> list[str]:
    """Return the paths of what stands in a record but in none of the columns."""
    if len(body) > _LONGEST or body[0] != _OPEN_BRACE:
        return []
    try:
        record = msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError):  # the quarantine will say it
        return []
    return undeclared_in(record, layout)


def undeclared_in(record: dict[str, Any], layout: TableSchema) -> list[str]:
    """Return the paths of what stands in a record, decoded, but in none of the columns."""
    if layout.keeps_whole:
        return []
    found = _left_out(record, layout.columns, "")
    return sorted({path for path in found if not path.startswith(_OURS)})


def _left_out(value: dict[str, Any], columns: Iterable[Column], path: str) -> Iterator[str]:
    known = {column.source: column for column in columns if column.feed is ColumnSource.PROPERTY}
    for name, inner in value.items():
        if name in known:
            yield from _inside(inner, known[name].type, f"{path}{name}.")
        else:
            yield f"{path}{name}"


def _inside(value: Any, type_: ColumnType, path: str) -> Iterator[str]:
    if isinstance(value, list) and isinstance(type_, Array):
        for item in value:
            yield from _inside(item, type_.element, path)
    elif isinstance(value, dict) and isinstance(type_, Struct):
        yield from _left_out(value, type_.fields, path)
