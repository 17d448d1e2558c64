"""Durations under the names of the package isodate, which connectors import for their cursors.

Rules of the room: what has months or years is a `Duration`, everything else a plain timedelta, as
there. Where isodate is installed, connectors get that one.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import Any

from tap_core.incremental import durations as ours

__all__ = ["Duration", "parse_duration"]

_MONTHS_OF_A_YEAR = 12


class Duration:
    """A length of time with months or years, to be added to an instant or taken from one."""

    def __init__(self, days: float = 0, months: int = 0, years: int = 0, **more: float) -> None:
        self.months: int = months
        self.years: int = years
        self.tdelta: timedelta = timedelta(days=days, **more)

    def __radd__(self, other: Any) -> Any:
        """Return a later instant."""
        return self._after(other, 1)

    def __add__(self, other: Any) -> Any:
        """Return a later instant."""
        return self._after(other, 1)

    def __rsub__(self, other: Any) -> Any:
        """Return an earlier instant."""
        return self._after(other, -1)

    def __repr__(self) -> str:
        """Return what it is made of."""
        return f"Duration({self.tdelta}, months={self.months}, years={self.years})"

    def _after(self, other: Any, times: int) -> Any:
        if not isinstance(other, date):
            return NotImplemented
        length = ours.ISODuration(self.months + _MONTHS_OF_A_YEAR * self.years, self.tdelta)
        if isinstance(other, datetime):
            return length.after(other, times)
        noon = datetime(other.year, other.month, other.day, tzinfo=timezone.utc)
        return length.after(noon, times).date()


def parse_duration(datestring: str) -> timedelta | Duration:
    """Return the duration of a text in ISO 8601.

    Raises:
        ValueError: it is none.
    """
    found = ours.parse_duration(datestring)
    if not found.months:
        return found.rest
    years, months = divmod(found.months, _MONTHS_OF_A_YEAR)
    made = Duration(months=months, years=years)
    made.tdelta = found.rest
    return made
