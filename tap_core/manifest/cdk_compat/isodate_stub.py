"""Substitute for the functions of the package isodate that connectors use for their cursors.

As in isodate, a duration with months or years is a `Duration`, any other one a timedelta. If
isodate is installed, connectors get the real package.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import Any

from tap_core.incremental import durations as ours

__all__ = ["Duration", "parse_duration"]

_MONTHS_OF_A_YEAR = 12


class Duration:
    """ISO 8601 duration with months or years, whose length depends on the date it is added to."""

    def __init__(self, days: float = 0, months: int = 0, years: int = 0, **more: float) -> None:
        self.months: int = months
        self.years: int = years
        self.tdelta: timedelta = timedelta(days=days, **more)

    def __add__(self, other: Any) -> Any:
        return self._after(other, 1)

    __radd__ = __add__

    def __rsub__(self, other: Any) -> Any:
        return self._after(other, -1)

    def __repr__(self) -> str:
        return f"Duration({self.tdelta}, months={self.months}, years={self.years})"

    def _after(self, other: Any, times: int) -> Any:
        if not isinstance(other, date):
            return NotImplemented
        length = ours.ISODuration(self.months + _MONTHS_OF_A_YEAR * self.years, self.tdelta)
        if isinstance(other, datetime):
            return length.after(other, times)
        midnight = datetime(other.year, other.month, other.day, tzinfo=timezone.utc)
        return length.after(midnight, times).date()


def parse_duration(datestring: str) -> timedelta | Duration:
    """Parse an ISO 8601 duration, such as ``P1D`` or ``PT30M``.

    The result is a timedelta, or a `Duration` if the string contains months or years.

    Raises:
        ValueError: The string is not a duration.
    """
    parsed = ours.parse_duration(datestring)
    if not parsed.months:
        return parsed.rest
    years, months = divmod(parsed.months, _MONTHS_OF_A_YEAR)
    duration = Duration(months=months, years=years)
    duration.tdelta = parsed.rest
    return duration
