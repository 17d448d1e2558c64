"""From a database's result to records: pages of rows, and one expression per row.

Rules of the room: never more than one page of rows is held, and a page is small where
rows are wide. Values stay the database's own, unless the records are known to go
straight to the encoder: then those that JSON has not are written as the conformed record
would have them, column by column, so that they pass the compiled check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from sys import getsizeof
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from uuid import UUID

from sqlalchemy import String

from tap_core.records.conform import conform_primitive, to_json_compatible
from tap_core.typing.inspect import is_boolean_type

if TYPE_CHECKING:
    import sqlalchemy as sa

    from tap_core.types import JsonSchema, Record

__all__ = [
    "FIRST_PAGE_ROWS",
    "MAX_PAGE_BYTES",
    "MAX_PAGE_ROWS",
    "PAGE_BYTES",
    "ColumnProcessor",
    "DriverText",
    "RowReader",
    "compile_row_reader",
    "get_processors",
    "get_text_columns",
    "infer_value_type",
    "iterate_pages",
]

FIRST_PAGE_ROWS = 10
"""Rows of the first page, whose width nobody knows yet."""

MAX_PAGE_ROWS = 1000
PAGE_BYTES = 1 << 18
"""What a page's values should come to: few enough to be still in the processor's cache, where
a row costs a fifth less, when they are encoded."""

MAX_PAGE_BYTES = 4 << 20
"""The same where the database is far away and each page is waited for."""

_FAR_AWAY = 3
"""How much longer than they are worked on pages may be waited for, taken all together."""

_SAMPLED_ROWS = 8

ColumnProcessor: TypeAlias = Callable[[Any], Any]
"""From a value of the driver's to that of a column's type."""

RowReader: TypeAlias = Callable[[Iterable[Any]], list["Record"]]
"""From a page of rows to as many records."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class DriverText(NamedTuple):
    """Values of a column that are written as text."""

    kinds: frozenset[type]
    """Their types, exactly; or, where ``others``, the types that stay as they are."""
    expression: str
    """How: an expression of our own words in which VALUE stands for the value."""
    others: bool = False


def iterate_pages(result: sa.CursorResult[Any]) -> Iterator[Sequence[Sequence[Any]]]:
    """Yield a result in pages, each fetched when the one before is used up.

    Their rows are the driver's own: what `get_processors` says is still to be done to them.
    """
    fetch, size, waited, worked = _get_fetch(result), FIRST_PAGE_ROWS, 0.0, 0.0
    asked = perf_counter()
    while page := fetch(size):
        given = perf_counter()
        waited += given - asked
        yield page
        asked = perf_counter()
        worked += asked - given
        budget = MAX_PAGE_BYTES if waited > _FAR_AWAY * worked else PAGE_BYTES
        size = max(1, min(MAX_PAGE_ROWS, budget // (_width(page) or 1)))


def get_processors(result: sa.CursorResult[Any]) -> Sequence[ColumnProcessor | None]:
    """Return what SQLAlchemy's types make of the values of each column; empty for nothing."""
    metadata = _get_metadata(result)
    return () if metadata is None else metadata._processors  # noqa: SLF001 - see below


def _get_fetch(result: sa.CursorResult[Any]) -> Callable[[int], Sequence[Sequence[Any]]]:
    """Return what fetches so many rows: of SQLAlchemy's rows three objects would be made each."""
    return result.fetchmany if _get_metadata(result) is None else result._fetchmany_impl  # noqa: SLF001


def _get_metadata(result: Any) -> Any:
    """Return what a result knows of its columns, None where its rows are not the driver's.

    These are SQLAlchemy's inner names, the same from 2.0 to 2.1; without them its own rows do.
    """
    metadata = getattr(result, "_metadata", None)
    is_known = hasattr(result, "_fetchmany_impl") and getattr(metadata, "_processors", None)
    return metadata if is_known and getattr(metadata, "_tuplefilter", True) is None else None


def _width(page: Sequence[Sequence[Any]]) -> int:
    """Return the greatest size, in bytes, of a few rows of a page."""
    step = len(page) // _SAMPLED_ROWS or 1
    return max(sum(map(getsizeof, row)) for row in page[::step])


def compile_row_reader(
    names: Sequence[str],
    texts: Mapping[str, DriverText] | None = None,
    processors: Sequence[ColumnProcessor | None] = (),
) -> RowReader:
    """Return the function from rows to records with these names, in their order.

    ``texts`` says for some columns which values are written as text, and how;
    ``processors`` what is to be done to the values before, by column, or is empty.
    """
    known: dict[str, Any] = {"epoch": _EPOCH, "plain": _as_plain}
    items = []
    for number, name in enumerate(names):
        process = processors[number] if processors else None
        known[f"p{number}"] = process
        text = texts.get(name) if texts else None
        value = f"v{number}" if process is None else f"p{number}(v{number})"
        if text is not None:
            known[f"t{number}"] = text.kinds
            value = _written(text, number, value)
        items.append(f"{name!r}: {value}")
    targets = "".join(f"v{number}, " for number in range(len(names)))
    source = f"lambda rows: [{{{', '.join(items)}}} for ({targets}) in rows]"
    reader: RowReader = eval(source, known)  # noqa: S307 - of literals and our own words
    return reader


def _written(text: DriverText, number: int, value: str) -> str:
    """Return the expression that writes a value where it must be written."""
    name = value if value == f"v{number}" else f"w{number}"
    asked = value if name == value else f"({name} := {value})"
    word = "not in" if text.others else "in"
    written = text.expression.replace("VALUE", name)
    return f"{written} if {asked}.__class__ {word} t{number} else {name}"


def get_text_columns(
    columns: Mapping[str, sa.Column[Any]], properties: Mapping[str, JsonSchema]
) -> dict[str, DriverText]:
    """Return which values of which columns become text, by the columns' types.

    Only columns that the schema has: what it lacks is not conformed but dropped.
    """
    found = {}
    for name, column in columns.items():
        schema = properties.get(name)
        if isinstance(schema, dict) and (text := _get_text_rule(column.type, schema)) is not None:
            found[name] = text
    return found


def infer_value_type(column_type: Any) -> type:
    """Return the type of a column's values, `object` where the column's type does not say."""
    try:
        kind: type = column_type.python_type
    except NotImplementedError:
        return object
    return kind


def _get_text_rule(column_type: Any, schema: JsonSchema) -> DriverText | None:
    """Return which values of a column are written, and how; None where all are plain."""
    kind = infer_value_type(column_type)
    if kind is bytes and is_boolean_type(schema):
        return DriverText(frozenset((bytes,)), r"VALUE != b'\x00'")
    if kind in _EXPRESSIONS:
        return DriverText(frozenset((kind,)), _EXPRESSIONS[kind])
    if kind in _NUMBERS or isinstance(column_type, String):
        return None
    return DriverText(_STAYS, "plain(VALUE)", others=True)


def _as_plain(value: Any) -> Any:
    """Return a value of a database's own type, such as an address, as conforming has it."""
    return to_json_compatible(conform_primitive(value, {}))


_NUMBERS: frozenset[type] = frozenset((int, float, bool, Decimal))

_STAYS: frozenset[type] = frozenset((str, int, float, bool, type(None), Decimal, dict, list))
"""Types that the encoder knows; what is in objects and lists is for the conformer."""

_EXPRESSIONS: dict[type, str] = {
    datetime: "(VALUE.isoformat('T', 'microseconds') if VALUE.tzinfo"
    " else VALUE.isoformat('T', 'microseconds') + '+00:00')",
    date: "VALUE.isoformat()",
    time: "VALUE.isoformat()",
    timedelta: "(epoch + VALUE).isoformat()",
    bytes: "VALUE.hex()",
    UUID: "str(VALUE)",
}
"""What `tap_core.records.conform` makes of a value, as an expression: a call for each value
would cost as much again."""
