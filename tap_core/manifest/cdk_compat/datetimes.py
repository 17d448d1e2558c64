"""Instants and their texts, under airbyte-cdk's names.

Rules of the room: an instant without an offset is UTC.
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
    """An instant whose text is its ISO form."""

    @classmethod
    def from_datetime(cls, dt: datetime) -> AirbyteDateTime:
        """Return an instant as one of this class."""
        return cls(
            *(dt.year, dt.month, dt.day),
            *(dt.hour, dt.minute, dt.second, dt.microsecond),
            dt.tzinfo or timezone.utc,
        )

    def to_datetime(self) -> datetime:
        """Return the instant as a plain one."""
        return datetime.combine(self.date(), self.timetz())

    def __str__(self) -> str:
        """Return the ISO form, with milliseconds or microseconds where there are any."""
        if not self.microsecond:
            kind = "seconds"
        else:
            kind = "microseconds" if self.microsecond % 1000 else "milliseconds"
        text = self.isoformat("T", kind)
        return f"{text[:-6]}Z" if text.endswith("+00:00") else text

    def __add__(self, other: timedelta) -> AirbyteDateTime:
        """Return a later instant."""
        return self.from_datetime(self.to_datetime() + other)

    def __sub__(self, other: Any) -> Any:
        """Return an earlier instant, or the time since another."""
        if isinstance(other, timedelta):
            return self.from_datetime(self.to_datetime() - other)
        return self.to_datetime() - _plain(other)

    def add(self, delta: timedelta) -> AirbyteDateTime:
        """Return a later instant."""
        return self + delta

    def subtract(self, delta: timedelta) -> AirbyteDateTime:
        """Return an earlier instant."""
        return self.from_datetime(self.to_datetime() - delta)

    def to_epoch_millis(self) -> int:
        """Return the milliseconds since 1970."""
        return int(self.timestamp() * 1000)


def _plain(instant: Any) -> datetime:
    found = ab_datetime_parse(instant) if not isinstance(instant, datetime) else instant
    return datetime.combine(found.date(), found.timetz())


def ab_datetime_now() -> AirbyteDateTime:
    """Return the present instant."""
    return AirbyteDateTime.from_datetime(datetime.now(timezone.utc))


def ab_datetime_parse(dt_str: Any) -> AirbyteDateTime:
    """Return the instant of a text or of seconds since 1970.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(dt_str, datetime):
        return AirbyteDateTime.from_datetime(dt_str)
    text = str(dt_str).strip()
    if text.replace(".", "", 1).isdigit():
        return AirbyteDateTime.from_datetime(datetime.fromtimestamp(float(text), timezone.utc))
    return AirbyteDateTime.from_datetime(parse_datetime(text))


def ab_datetime_try_parse(dt_str: Any) -> AirbyteDateTime | None:
    """Return the instant of a text, None where it is none."""
    try:
        return ab_datetime_parse(dt_str)
    except ValueError:
        return None


def ab_datetime_format(dt: datetime, format: str | None = None) -> str:
    """Return the text of an instant, by default its ISO form."""
    if format:
        return dt.strftime(format)
    return str(AirbyteDateTime.from_datetime(dt))


class DatetimeParser:
    """Instants from and to texts, by a manifest's formats."""

    def parse(self, date: str | int, format: str) -> datetime:
        """Return the instant of a text."""
        return get_format(format).read(str(date))

    def format(self, dt: datetime, format: str) -> str:
        """Return the text of an instant."""
        return get_format(format).write(dt)
