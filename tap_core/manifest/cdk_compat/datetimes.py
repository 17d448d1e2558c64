"""Substitutes for airbyte-cdk's datetime class and its parsing and formatting functions.

A datetime without a UTC offset is interpreted as UTC.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from tap_core.incremental.datetime_formats import get_format
from tap_core.parsing.datetimes import parse_datetime

__all__ = [
    "AirbyteDateTime",
    "DatetimeParser",
    "ab_datetime_format",
    "ab_datetime_now",
    "ab_datetime_parse",
    "ab_datetime_try_parse",
]


class AirbyteDateTime(datetime):
    """Timezone-aware datetime whose ``str()`` is in ISO 8601 format."""

    @classmethod
    def from_datetime(cls, dt: datetime) -> AirbyteDateTime:
        """Convert a datetime to an AirbyteDateTime; a missing time zone is interpreted as UTC."""
        return cls.combine(dt.date(), dt.time(), dt.tzinfo or timezone.utc)

    def to_datetime(self) -> datetime:
        """Return the same point in time as a plain `datetime.datetime`."""
        return datetime.combine(self.date(), self.timetz())

    def __str__(self) -> str:
        """Return the datetime in ISO 8601 format, such as ``2024-01-31T08:00:00.250Z``.

        The fraction has 3 digits, or 6 for microseconds; whole seconds have no fraction.
        """
        if not self.microsecond:
            unit = "seconds"
        else:
            unit = "microseconds" if self.microsecond % 1000 else "milliseconds"
        text = self.isoformat("T", unit)
        return f"{text[:-6]}Z" if text.endswith("+00:00") else text

    def __add__(self, other: timedelta) -> AirbyteDateTime:
        """Return the datetime plus a timedelta, as an AirbyteDateTime."""
        return self.from_datetime(self.to_datetime() + other)

    def __sub__(self, other: Any) -> Any:
        """Return the datetime minus a timedelta, or the timedelta between two datetimes."""
        if isinstance(other, timedelta):
            return self.from_datetime(self.to_datetime() - other)
        return self.to_datetime() - ab_datetime_parse(other).to_datetime()

    def add(self, delta: timedelta) -> AirbyteDateTime:
        """Return the datetime plus a timedelta, as an AirbyteDateTime."""
        return self + delta

    def subtract(self, delta: timedelta) -> AirbyteDateTime:
        """Return the datetime minus a timedelta, as an AirbyteDateTime."""
        return self.from_datetime(self.to_datetime() - delta)

    def to_epoch_millis(self) -> int:
        """Return the datetime as milliseconds since the Unix epoch."""
        return int(self.timestamp() * 1000)


def ab_datetime_now() -> AirbyteDateTime:
    """Return the current time in UTC."""
    return AirbyteDateTime.from_datetime(datetime.now(timezone.utc))


def ab_datetime_parse(dt_str: Any) -> AirbyteDateTime:
    """Parse an ISO 8601 string, or a Unix timestamp in seconds (a number or numeric string).

    Raises:
        ValueError: The value is neither an ISO 8601 string nor a Unix timestamp.
    """
    if isinstance(dt_str, datetime):
        return AirbyteDateTime.from_datetime(dt_str)
    text = str(dt_str).strip()
    if text.replace(".", "", 1).isdigit():
        return AirbyteDateTime.from_datetime(datetime.fromtimestamp(float(text), timezone.utc))
    return AirbyteDateTime.from_datetime(parse_datetime(text))


def ab_datetime_try_parse(dt_str: Any) -> AirbyteDateTime | None:
    """Parse a datetime like `ab_datetime_parse`, but return None for an invalid value."""
    try:
        return ab_datetime_parse(dt_str)
    except ValueError:
        return None


def ab_datetime_format(dt: datetime, format: str | None = None) -> str:
    """Format a datetime with the strftime format ``format``; by default in ISO 8601."""
    if format:
        return dt.strftime(format)
    return str(AirbyteDateTime.from_datetime(dt))


class DatetimeParser:
    """Parser and formatter for the datetime formats of manifests.

    These are strftime formats and Airbyte's additions, such as ``%ms`` for Unix milliseconds.
    """

    def parse(self, date: str | int, format: str) -> datetime:
        """Parse a value with a datetime format, such as ``%Y-%m-%d`` or ``%s`` (Unix seconds).

        A value without a UTC offset is interpreted as UTC.
        """
        return get_format(format).read(str(date))

    def format(self, dt: datetime, format: str) -> str:
        """Format a datetime with a format such as ``%Y-%m-%d`` or ``%s`` (Unix seconds)."""
        return get_format(format).write(dt)
