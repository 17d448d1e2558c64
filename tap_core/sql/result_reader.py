"""Conversion of a database result to records, in pages of rows.

At most one page of rows is in memory, and a page has fewer rows if rows are large. Values keep the
driver's types if other code uses the records before they are encoded. Otherwise values of types
that JSON does not support are converted to text, as in `tap_core.records.conform`.
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
from tap_core.sql.type_widening import infer_value_type
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
    "RowReader",
    "TextRule",
    "compile_row_reader",
    "get_processors",
    "get_text_columns",
    "iterate_pages",
]

FIRST_PAGE_ROWS = 10
"""Rows of the first page, which is fetched before the row width is known."""

MAX_PAGE_ROWS = 1000
PAGE_BYTES = 1 << 18
"""Target size of a page in bytes.

The CPU cache still contains the values of such a page when they are encoded. This saves about a
fifth of the time per row.
"""

MAX_PAGE_BYTES = 4 << 20
"""Target size of a page in bytes if most of the time is spent on fetching (a remote database)."""

_SLOW_FETCH_RATIO = 3
"""Ratio of fetch time to processing time, both in total. Pages grow above this ratio."""

_SAMPLED_ROWS = 8

ColumnProcessor: TypeAlias = Callable[[Any], Any]
"""Function that converts a driver value to the value of the column's type."""

RowReader: TypeAlias = Callable[[Iterable[Any]], list["Record"]]
"""Function that converts a page of rows to records, one per row."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class TextRule(NamedTuple):
    """Rule for converting a column's values, such as dates, to text while rows are read.

    Only values of certain Python types are converted: those in ``kinds`` or, if ``others`` is True,
    all types that are not in ``kinds``.
    """

    kinds: frozenset[type]
    """Types to convert, without subclasses; if ``others`` is True, the types to keep unchanged."""
    expression: str
    """Python expression of the conversion, with VALUE in place of the value."""
    others: bool = False


def iterate_pages(result: sa.CursorResult[Any]) -> Iterator[Sequence[Sequence[Any]]]:
    """Yield the rows of a query result in pages. Each page is fetched when it is requested.

    The values are those of the database driver. The caller must convert them with the functions
    from `get_processors`.
    """
    fetch = _get_fetch(result)
    size = FIRST_PAGE_ROWS
    waited = worked = 0.0
    requested_at = perf_counter()
    while page := fetch(size):
        received_at = perf_counter()
        waited += received_at - requested_at
        yield page
        requested_at = perf_counter()
        worked += requested_at - received_at
        budget = MAX_PAGE_BYTES if waited > _SLOW_FETCH_RATIO * worked else PAGE_BYTES
        size = max(1, min(MAX_PAGE_ROWS, budget // (_estimate_row_bytes(page) or 1)))


def get_processors(result: sa.CursorResult[Any]) -> Sequence[ColumnProcessor | None]:
    """Return the functions that convert the driver's values, one for each column of a result.

    A column without a conversion has None. The list is empty if SQLAlchemy has already converted
    the rows of `iterate_pages`.
    """
    metadata = _get_metadata(result)
    return () if metadata is None else metadata._processors  # noqa: SLF001 - see `_get_metadata`


def _get_fetch(result: sa.CursorResult[Any]) -> Callable[[int], Sequence[Sequence[Any]]]:
    """Return a function that fetches a given number of the next rows of a query result.

    If possible, it returns the driver's rows, because SQLAlchemy's row objects are slower.
    """
    return result.fetchmany if _get_metadata(result) is None else result._fetchmany_impl  # noqa: SLF001


def _get_metadata(result: Any) -> Any:
    """Return a result's column metadata, or None if the driver's rows cannot be fetched directly.

    The metadata are private attributes of SQLAlchemy 2.0 and 2.1.
    """
    metadata = getattr(result, "_metadata", None)
    is_known = hasattr(result, "_fetchmany_impl") and getattr(metadata, "_processors", None)
    return metadata if is_known and getattr(metadata, "_tuplefilter", True) is None else None


def _estimate_row_bytes(page: Sequence[Sequence[Any]]) -> int:
    """Return the size in bytes of the largest row in a sample of a page's rows.

    The size determines the number of rows in the next page.
    """
    step = len(page) // _SAMPLED_ROWS or 1
    return max(sum(map(getsizeof, row)) for row in page[::step])


def compile_row_reader(
    names: Sequence[str],
    texts: Mapping[str, TextRule] | None = None,
    processors: Sequence[ColumnProcessor | None] = (),
) -> RowReader:
    """Return a function that converts a page of rows to records, which are dicts.

    Args:
        names: Property names, in column order.
        texts: Rules for values to convert to text, by column name.
        processors: Result of `get_processors`: for each column, a function that converts the
            driver's values, or None. Empty if no column needs a conversion.
    """
    scope: dict[str, Any] = {"epoch": _EPOCH, "to_json": _to_json_value}
    items = []
    for number, name in enumerate(names):
        process = processors[number] if processors else None
        scope[f"p{number}"] = process
        text = texts.get(name) if texts else None
        value = f"v{number}" if process is None else f"p{number}(v{number})"
        if text is not None:
            scope[f"t{number}"] = text.kinds
            value = _make_value_expression(text, number, value)
        items.append(f"{name!r}: {value}")
    targets = "".join(f"v{number}, " for number in range(len(names)))
    source = f"lambda rows: [{{{', '.join(items)}}} for ({targets}) in rows]"
    reader: RowReader = eval(source, scope)  # noqa: S307 - source of literals and generated names
    return reader


def _make_value_expression(text: TextRule, number: int, value: str) -> str:
    """Return Python source code of an expression that converts a value to text by a rule.

    Args:
        text: Rule of the column.
        number: Position of the column, which makes the generated variable names unique.
        value: Source code of the expression for the value.
    """
    name = value if value == f"v{number}" else f"w{number}"
    checked = value if name == value else f"({name} := {value})"
    operator = "not in" if text.others else "in"
    written = text.expression.replace("VALUE", name)
    return f"{written} if {checked}.__class__ {operator} t{number} else {name}"


def get_text_columns(
    columns: Mapping[str, sa.Column[Any]], properties: Mapping[str, JsonSchema]
) -> dict[str, TextRule]:
    """Return the rules for columns whose values must be converted to text, by column name.

    Columns that are not in ``properties`` are skipped, because their values are dropped.
    """
    rules = {}
    for name, column in columns.items():
        schema = properties.get(name)
        if isinstance(schema, dict) and (text := _get_text_rule(column.type, schema)) is not None:
            rules[name] = text
    return rules


def _get_text_rule(column_type: Any, schema: JsonSchema) -> TextRule | None:
    """Return the rule for converting a column's values to text; None if they need no conversion."""
    kind = infer_value_type(column_type)
    if kind is bytes and is_boolean_type(schema):
        return TextRule(frozenset((bytes,)), r"VALUE != b'\x00'")
    if kind in _EXPRESSIONS:
        return TextRule(frozenset((kind,)), _EXPRESSIONS[kind])
    if kind in _NUMBERS or isinstance(column_type, String):
        return None
    return TextRule(_UNCHANGED, "to_json(VALUE)", others=True)


def _to_json_value(value: Any) -> Any:
    """Convert a value of a database-specific type, such as a network address, to a JSON value."""
    return to_json_compatible(conform_primitive(value, {}))


_NUMBERS: frozenset[type] = frozenset((int, float, bool, Decimal))

_UNCHANGED: frozenset[type] = frozenset((str, int, float, bool, type(None), Decimal, dict, list))
"""Types that the encoder supports; contents of objects and lists are converted later."""

_EXPRESSIONS: dict[type, str] = {
    datetime: "(VALUE.isoformat('T', 'microseconds') if VALUE.tzinfo"
    " else VALUE.isoformat('T', 'microseconds') + '+00:00')",
    date: "VALUE.isoformat()",
    time: "VALUE.isoformat()",
    timedelta: "(epoch + VALUE).isoformat()",
    bytes: "VALUE.hex()",
    UUID: "str(VALUE)",
}
"""Source code of the conversions in `tap_core.records.conform`, as expressions by type.

Expressions are used because a function call per value would double the cost.
"""
