"""Exact conversion of single scalar values from JSON text to Python objects.

The functions are slow but accept each valid way to write a value. The rules are the same as in
`target_spark.frames.sql_casts`: nothing is rounded, truncated or guessed, and a text that is not a
value of its type is an error.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal as Number
from math import isinf
from types import MappingProxyType
from typing import Any, Final

from target_spark.columns import (
    Binary,
    Boolean,
    ColumnType,
    Date,
    Decimal,
    Double,
    Integer,
    Text,
    Timestamp,
)

__all__ = ["parse_scalar", "to_micros"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND: Final = timedelta(microseconds=1)
_MICROSECOND_DIGITS: Final = 6
_MINUTES_PER_HOUR: Final = 60
_MAX_UTC_OFFSET: Final = timedelta(hours=18)
"""Maximum offset of a time zone from UTC."""

_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?([0-9]+))?")
_LONGEST_EXPONENT: Final = 4
_DATE_TIME: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})(?:[Tt ]([0-9]{2}):([0-9]{2})"
    r"(?::([0-9]{2})(?:\.([0-9]+))?)?(?: ?(?:[Zz]|([+-])([0-9]{2})(?::?([0-9]{2}))?))?)?"
)
_DATE: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[Tt ]00:00(?::00(?:\.0+)?)?(?: ?(?:[Zz]|[+-]00(?::?00)?))?)?"
)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_LITERALS: Final = MappingProxyType({"true": True, "false": False})


def parse_scalar(text: str, type_: ColumnType, *, truncate: bool) -> Any:
    """Convert a text to a Python value, such as ``"1e3"`` to 1000 for an integer type.

    The Python type of the result follows from ``type_``, such as ``float`` for a double or
    ``date`` for a date. A date-time is converted to an integer: the microseconds since 1970.

    Args:
        text: The content of a JSON string, or the JSON text of any other scalar value.
        type_: The scalar column type to convert to.
        truncate: True to drop the digits after the microseconds of a date-time. False to raise an
            error if these digits are not all zeros.

    Raises:
        ValueError: The text is not exactly a value of the type.
    """
    if isinstance(type_, Timestamp):
        return _parse_date_time(text, truncate=truncate)
    if isinstance(type_, Integer):
        return _parse_integer(text, type_.bits)
    if isinstance(type_, Decimal):
        return _parse_decimal(text, type_.precision, type_.scale)
    return _PARSERS[type(type_)](text)


def _parse_integer(text: str, bits: int) -> int:
    value = int(_parse_decimal(text, 38, 0))
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ValueError
    return value


def _parse_decimal(text: str, precision: int, scale: int) -> Number:
    match = _NUMBER.fullmatch(text)
    if match is None or len(match[1] or "") > _LONGEST_EXPONENT:
        raise ValueError
    sign, digits, exponent = Number(text).as_tuple()
    if not any(digits):
        return Number(0)
    assert isinstance(exponent, int)  # noqa: S101  no text that matches is NaN or infinite
    significant = "".join(map(str, digits)).rstrip("0")
    exponent += len(digits) - len(significant)
    if -exponent > scale or len(significant) + exponent > precision - scale:
        raise ValueError
    return Number((sign, digits[: len(significant)], exponent))


def _parse_double(text: str) -> float:
    if _NUMBER.fullmatch(text) is None or isinf(value := float(text)):
        raise ValueError
    return value


def _parse_date_time(text: str, *, truncate: bool) -> int:
    match = _DATE_TIME.fullmatch(text)
    if match is None:
        raise ValueError
    *parts, fraction, sign, offset_hours, offset_minutes = match.groups()
    offset = timedelta(hours=int(offset_hours or 0), minutes=int(offset_minutes or 0))
    decimals = fraction or ""
    is_exact = truncate or not decimals[_MICROSECOND_DIGITS:].strip("0")
    is_valid_offset = int(offset_minutes or 0) < _MINUTES_PER_HOUR and offset <= _MAX_UTC_OFFSET
    if not is_exact or not is_valid_offset:
        raise ValueError
    year, month, day, hour, minute, second = (int(part or 0) for part in parts)
    local = datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc)
    try:
        instant = local + offset if sign == "-" else local - offset
    except OverflowError:
        raise ValueError from None
    return to_micros(instant) + int(decimals[:_MICROSECOND_DIGITS].ljust(_MICROSECOND_DIGITS, "0"))


def to_micros(instant: datetime) -> int:
    """Return a datetime with a time zone as microseconds since 1970."""
    return (instant - _EPOCH) // _MICROSECOND


def _parse_date(text: str) -> date:
    match = _DATE.fullmatch(text)
    if match is None:
        raise ValueError
    return date.fromisoformat(match[1])


def _parse_base64(text: str) -> bytes:
    if _BASE64.fullmatch(text) is None:
        raise ValueError
    return base64.b64decode(text)


def _parse_boolean(text: str) -> bool:
    if text not in _LITERALS:
        raise ValueError
    return _LITERALS[text]


_PARSERS: Final[Mapping[type[ColumnType], Callable[[str], Any]]] = MappingProxyType(
    {
        Boolean: _parse_boolean,
        Double: _parse_double,
        Date: _parse_date,
        Binary: _parse_base64,
        Text: str,
    }
)
