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

_DECIMAL_TEXT: Final = re.compile(r"[+-]?0*(\d*)(?:\.(\d*?)0*)?")
"""Decimal number; the groups are the significant digits before and after the point."""

_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
"""First and last second of the years 1 to 9999, counted from 1970."""
_SECONDS_PER_DAY: Final = 86_400
_SHORT_LIMIT: Final = 1 << 15
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MAX_SHOWN_LENGTH: Final = 40


def find_fault(column: KnownColumn, value: Any) -> str | None:
    """Return a description of the first error in a column's value; None if it is valid or null."""
    kind = value.WhichOneof("inner")
    if kind is None:
        return "has no value of any type"
    if kind == "null":
        return None
    of_type = _TYPES[kind]
    if column.type not in {of_type, DataType.UNSPECIFIED}:
        return f"has the type {kind}, but the column has the type {column.type_name}"
    check = _CHECKS.get(of_type)
    return check(getattr(value, kind), column) if check else None


def format_value(column: KnownColumn, value: Any) -> str:
    """Return a value as shortened text for the report, or a placeholder if the column is secret."""
    kind = value.WhichOneof("inner")
    if kind in {None, "null"}:
        return "null"
    if is_secret(column.name):
        return "(not shown)"
    text = _to_text(getattr(value, kind))
    short = text if len(text) <= _MAX_SHOWN_LENGTH else f"{text[: _MAX_SHOWN_LENGTH - 3]}..."
    return short.encode("unicode_escape").decode() if not short.isprintable() else short


def _to_text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    if hasattr(value, "nanos"):
        instant = _EPOCH + timedelta(seconds=value.seconds)
        fraction = f".{value.nanos:09}".rstrip("0").rstrip(".")
        return f"{instant.isoformat()[:19]}{fraction}"  # without the zone
    return str(value)


def _check_decimal(text: str, column: KnownColumn) -> str | None:
    match = _DECIMAL_TEXT.fullmatch(text)
    if not match or not any(character.isdigit() for character in text):
        return "is not a plain decimal number"
    before, after = len(match[1]), len(match[2] or "")
    # Without declared digits, a value may have up to 38 before and 37 after the point.
    max_before, max_after = 38, 37
    if column.digits:
        precision, max_after = column.digits
        max_before = precision - max_after
    if after > max_after or before > max_before:
        return f"has more digits than {column.type_name}"
    return None


def _check_json(text: str, _column: KnownColumn) -> str | None:
    try:
        json.loads(text)
    except ValueError:
        return "is not JSON"
    return None


def _check_instant(at: Any, _column: KnownColumn) -> str | None:
    return None if _FIRST_SECOND <= at.seconds <= _LAST_SECOND else "is outside the years 1 to 9999"


def _check_date(at: Any, column: KnownColumn) -> str | None:
    if at.seconds % _SECONDS_PER_DAY or at.nanos:
        return "is not midnight"
    return _check_instant(at, column)


def _check_short(number: int, _column: KnownColumn) -> str | None:
    return None if -_SHORT_LIMIT <= number < _SHORT_LIMIT else "exceeds 16 bits"


_TYPES: Final = {of_type.name.lower(): of_type for of_type in DataType} | {"bool": DataType.BOOLEAN}
"""Data types by the names of the protobuf fields in which their values are sent."""

_CHECKS: Final[dict[DataType, Callable[[Any, KnownColumn], str | None]]] = {
    DataType.SHORT: _check_short,
    DataType.DECIMAL: _check_decimal,
    DataType.JSON: _check_json,
    DataType.NAIVE_DATE: _check_date,
    DataType.NAIVE_DATETIME: _check_instant,
    DataType.UTC_DATETIME: _check_instant,
}
