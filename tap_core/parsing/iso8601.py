"""Parsing of ISO 8601 datetimes in the forms that sources write, with fractions of any length.

A value without a UTC offset is assumed to be in UTC.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Any, TypeAlias

from tap_core.parsing.datetimes import assume_utc

__all__ = ["ParsedInstant", "parse_instant"]

ParsedInstant: TypeAlias = tuple[dt.datetime, str]
"""A timezone-aware datetime, and the digits of its fraction beyond microseconds."""

_DATE_TIME = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d\d?)-(?P<day>\d\d?)"
    r"(?:[Tt ](?P<hour>\d\d?):(?P<minute>\d\d?)(?::(?P<second>\d\d)(?:[.,](?P<fraction>\d+))?)?"
    r"(?: ?(?P<zone>[Zz]|(?P<sign>[+-])(?P<zone_hour>\d\d)(?::?(?P<zone_minute>\d\d)"
    r"(?::?(?P<zone_second>\d\d))?)?))?)?",
    re.ASCII,
)
"""ISO 8601 as sources write it: one-digit hours, spaces, offsets without a colon, long fractions.

Python writes offsets with seconds for times before standard time, such as ``+00:19:32``.

`datetime.fromisoformat`, which is tried first, cuts fractions at six digits, and supports a
different subset in each version of Python.
"""

_EXTRA_DIGITS = re.compile(r"[.,]\d{6}(\d+)", re.ASCII)
"""Fraction with more than six digits; pendulum cuts it."""

_MICROSECOND_END = 26  # position after the sixth digit of a fraction


def parse_instant(value: Any) -> ParsedInstant | None:
    """Parse a datetime, a date or an ISO 8601 text; return None for any other value.

    A date means midnight. A value without a UTC offset is assumed to be in UTC.

    Returns:
        An aware datetime, and a text with the digits of its fraction beyond microseconds.
    """
    if isinstance(value, dt.datetime):
        return _make_aware(value), ""
    if isinstance(value, dt.date):
        return dt.datetime(value.year, value.month, value.day, tzinfo=dt.timezone.utc), ""
    return _parse_text(value) if isinstance(value, str) else None


def _make_aware(value: dt.datetime) -> dt.datetime:
    """Return an aware datetime with a fixed UTC offset. A naive one is assumed to be in UTC."""
    if value.tzinfo is None:
        return assume_utc(value)
    if type(value.tzinfo) is dt.timezone:
        return value
    try:
        return value.astimezone(dt.timezone.utc)
    except OverflowError:  # in the first or the last hours of the calendar
        return value


def _parse_text(text: str) -> ParsedInstant | None:
    """Parse an ISO 8601 datetime or date; return None for any other text."""
    if text[4:5] == "-" and (len(text) <= _MICROSECOND_END or text[_MICROSECOND_END] in "Z+-"):
        try:
            moment = dt.datetime.fromisoformat(text)
        except ValueError:
            pass
        else:
            return _make_aware(moment), ""
    text = text.strip()
    match = _DATE_TIME.fullmatch(text)
    return _parse_basic_format(text) if match is None else _convert_match(match)


def _convert_match(match: re.Match[str]) -> ParsedInstant | None:
    """Convert a match of `_DATE_TIME` to a datetime; return None for a date like February 30."""
    names = ("year", "month", "day", "hour", "minute", "second")
    year, month, day, hour, minute, second = (_get_number(match, name) for name in names)
    fraction = match["fraction"] or ""
    try:
        microsecond, zone = int(fraction[:6].ljust(6, "0")), _parse_zone(match)
        moment = dt.datetime(year, month, day, hour, minute, second, microsecond, zone)
    except ValueError:
        return None
    return moment, fraction[6:].rstrip("0")


def _get_number(match: re.Match[str], name: str) -> int:
    return int(match[name] or 0)


def _parse_zone(match: re.Match[str]) -> dt.timezone:
    if match["sign"] is None:
        return dt.timezone.utc
    hours, minutes, seconds = (
        _get_number(match, f"zone_{unit}") for unit in ("hour", "minute", "second")
    )
    offset = dt.timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return dt.timezone(-offset if match["sign"] == "-" else offset)


def _parse_basic_format(text: str) -> ParsedInstant | None:
    """Parse a datetime in the ISO 8601 form without hyphens, such as ``20210102T030405Z``.

    Return None for any other text, and for digits only, which may be a Unix timestamp.
    """
    if not text[:8].isdigit() or text.isdigit():
        return None
    import pendulum

    try:
        moment = pendulum.parse(text, exact=True)
    except (ValueError, OverflowError):
        return None
    instant = parse_instant(moment)
    extra = _EXTRA_DIGITS.search(text)
    return instant if instant is None or extra is None else (instant[0], extra[1].rstrip("0"))
