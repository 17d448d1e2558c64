"""Checks of a connector's values against their column types, and text that shows a value.

An error names the types but never the value. A shown value is shortened, and hidden if the column's
name marks it as secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any, Final

from fivetran_tester.known_tables import KnownColumn
from tap_core.protocols.fivetran.enums import DataType
from tap_core.redaction import is_secret

__all__ = ["find_fault", "format_value"]

_PLAIN: Final = re.compile(r"[+-]?0*(\d*)(?:\.(\d*?)0*)?")
_FIRST, _LAST = -62_135_596_800, 253_402_300_799
"""First and last second of the years 1 to 9999, counted from 1970."""
_DAY: Final = 86_400
_SHORT: Final = 1 << 15
_BEGIN: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LONGEST_SHOWN: Final = 40


def find_fault(column: KnownColumn, value: Any) -> str | None:
    """Return a description of the first error in a column's value; None if it is valid or null."""
    kind = value.WhichOneof("inner")
    if kind is None:
        return "has no value of any type"
    if kind == "null" or column.type == DataType.UNSPECIFIED:
        return None
    if kind != column.type.name.lower().replace("boolean", "bool"):
        return f"has the type {kind}, but the column has the type {column.type_name}"
    check = _CHECKS.get(column.type)
    return check(getattr(value, kind), column) if check else None


def format_value(column: KnownColumn, value: Any) -> str:
    """Return a value as shortened text for the report, or a placeholder if the column is secret."""
    kind = value.WhichOneof("inner")
    if kind in {None, "null"}:
        return "null"
    if is_secret(column.name):
        return "(not shown)"
    text = _text(getattr(value, kind))
    short = text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."
    return short.encode("unicode_escape").decode() if not short.isprintable() else short


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    if hasattr(value, "nanos"):
        instant = _BEGIN + timedelta(seconds=value.seconds)
        fraction = f".{value.nanos:09}".rstrip("0").rstrip(".")
        return f"{instant:%Y-%m-%dT%H:%M:%S}{fraction}"
    return str(value)


def _decimal(text: str, column: KnownColumn) -> str | None:
    match = _PLAIN.fullmatch(text)
    if not match or not any(character.isdigit() for character in text):
        return "is not a plain decimal number"
    before, after = len(match[1]), len(match[2] or "")
    precision, scale = column.digits or (38, 37)
    if after > scale or before > precision - (scale if column.digits else 0):
        return f"has more digits than {column.type_name}"
    return None


def _json(text: str, _column: KnownColumn) -> str | None:
    try:
        json.loads(text)
    except ValueError:
        return "is not JSON"
    return None


def _instant(at: Any, _column: KnownColumn) -> str | None:
    return None if _FIRST <= at.seconds <= _LAST else "is outside the years 1 to 9999"


def _date(at: Any, column: KnownColumn) -> str | None:
    if at.seconds % _DAY or at.nanos:
        return "is not midnight"
    return _instant(at, column)


def _short(number: int, _column: KnownColumn) -> str | None:
    return None if -_SHORT <= number < _SHORT else "exceeds 16 bits"


_CHECKS: Final[dict[DataType, Callable[[Any, KnownColumn], str | None]]] = {
    DataType.SHORT: _short,
    DataType.DECIMAL: _decimal,
    DataType.JSON: _json,
    DataType.NAIVE_DATE: _date,
    DataType.NAIVE_DATETIME: _instant,
    DataType.UTC_DATETIME: _instant,
}
