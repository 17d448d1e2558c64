"""Parsing and formatting of datetimes in Singer messages.

A text without a UTC offset is in UTC, as the Singer specification defines.
"""

from __future__ import annotations

import re
import sys
from datetime import date, datetime, time, timedelta, timezone

from msgspec import to_builtins

__all__ = [
    "NonUTCDatetimeError",
    "assume_utc",
    "date_fromisoformat",
    "datetime_fromisoformat",
    "format_iso",
    "parse_datetime",
    "strftime",
    "strptime_to_utc",
    "time_fromisoformat",
    "utc_now",
]

_FORMAT = "%Y-%m-%dT%H:%M:%S.%fZ"


class NonUTCDatetimeError(Exception):
    """Raised by `strftime` if a datetime is naive or not in UTC."""

    def __init__(self) -> None:
        super().__init__("The date-time must be in UTC to be written with a 'Z'.")


def utc_now() -> datetime:
    """Return the current time as an aware datetime in UTC."""
    return datetime.now(timezone.utc)


def assume_utc(value: datetime) -> datetime:
    """Return ``value`` with a time zone: UTC if it is naive, otherwise unchanged."""
    return value if value.tzinfo is not None else value.replace(tzinfo=timezone.utc)


def format_iso(value: datetime) -> str:
    """Format a datetime in ISO 8601, such as ``2024-01-31T00:00:00.000000+00:00``.

    A naive datetime is assumed to be in UTC.
    """
    if type(value) is datetime and (value.tzinfo is None or value.tzinfo is timezone.utc):
        text: str = to_builtins(value)  # several times faster than isoformat
        return (text[:26] if value.microsecond else text[:19] + ".000000") + "+00:00"
    return assume_utc(value).isoformat("T", timespec="microseconds")


def parse_datetime(text: str) -> datetime:
    """Parse an ISO 8601 datetime. Without an offset, it is assumed to be in UTC.

    Raises:
        ValueError: The text is not a datetime.
    """
    return assume_utc(datetime_fromisoformat(text))


def strptime_to_utc(dtimestr: str) -> datetime:
    """Parse an ISO 8601 datetime and convert it to UTC.

    Without an offset, it is assumed to be in UTC.

    Raises:
        ValueError: The text is not a datetime.
    """
    return parse_datetime(dtimestr).astimezone(timezone.utc)


def strftime(dtime: datetime, format_str: str = _FORMAT) -> str:
    """Format a datetime in UTC, by default as ``2024-01-31T00:00:00.000000Z``.

    Raises:
        NonUTCDatetimeError: The datetime is naive, or its UTC offset is not zero.
    """
    if dtime.utcoffset() != timedelta(0):
        raise NonUTCDatetimeError
    # The C library writes years before 1000 without leading zeros, or "4Y" for %04Y.
    return dtime.strftime(format_str.replace("%04Y", "%Y").replace("%Y", f"{dtime.year:04}"))


def datetime_fromisoformat(text: str) -> datetime:
    """Parse an ISO 8601 datetime as Python 3.11 does; without an offset the result is naive.

    Raises:
        ValueError: The text is not a datetime.
    """
    return datetime.fromisoformat(_normalize_iso_text(text))


def date_fromisoformat(text: str) -> date:
    """Parse an ISO 8601 date.

    Raises:
        ValueError: The text is not a date.
    """
    return date.fromisoformat(text)


def time_fromisoformat(text: str) -> time:
    """Parse an ISO 8601 time of day as Python 3.11 does.

    Raises:
        ValueError: The text is not a time.
    """
    return time.fromisoformat(_normalize_iso_text(text))


def _normalize_iso_text(text: str) -> str:
    """Rewrite an ISO 8601 text so that ``fromisoformat`` of Python 3.10 can parse it.

    A final "Z" becomes "+00:00", and fractions get six digits. In later Python versions the text is
    unchanged.
    """
    if sys.version_info >= (3, 11) or not isinstance(text, str):  # refused by ``fromisoformat``
        return text
    fraction = re.compile(r"\.(\d{1,6})\d*")
    plain = re.sub(r"[Zz]$", "+00:00", text)
    return fraction.sub(lambda match: f".{match[1]:0<6}", plain)
