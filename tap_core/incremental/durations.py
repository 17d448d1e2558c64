"""ISO 8601 durations and their addition to datetimes.

A duration has a number of calendar months and a fixed length of time. If a month is added to
January 31, the result is the last day of February. Results outside the range of `datetime.datetime`
become its minimum or maximum.
"""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from decimal import Decimal

__all__ = ["ISODuration", "parse_duration"]

_FORM = re.compile(
    r"P(?=.)(?:(?P<years>\d+)Y)?(?:(?P<months>\d+)M)?(?:(?P<weeks>\d+(?:[.,]\d+)?)W)?"
    r"(?:(?P<days>\d+(?:[.,]\d+)?)D)?"
    r"(?:T(?=.)(?:(?P<hours>\d+(?:[.,]\d+)?)H)?(?:(?P<minutes>\d+(?:[.,]\d+)?)M)?"
    r"(?:(?P<seconds>\d+(?:[.,]\d+)?)S)?)?",
    re.ASCII,
)
_SECONDS = {"weeks": 604_800, "days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}
_MONTHS_OF_A_YEAR = 12
_MIN = datetime.min.replace(tzinfo=timezone.utc)
_MAX = datetime.max.replace(tzinfo=timezone.utc)
_SHORTEST_MONTH = timedelta(days=28)


@dataclass(frozen=True, slots=True)
class ISODuration:
    """Duration of calendar months (``months``) plus a fixed length of time (``rest``)."""

    months: int
    rest: timedelta

    def after(self, instant: datetime, times: int = 1) -> datetime:
        """Return ``instant`` plus ``times`` times this duration."""
        try:
            return _add_months(instant, self.months * times) + self.rest * times
        except (OverflowError, ValueError):
            return _MAX if times > 0 else _MIN

    def before(self, instant: datetime) -> datetime:
        """Return ``instant`` minus this duration."""
        return self.after(instant, -1)

    @property
    def least(self) -> timedelta:
        """Minimum length of this duration: a month counts as 28 days."""
        return self.months * _SHORTEST_MONTH + self.rest

    @property
    def is_nothing(self) -> bool:
        """True if this duration is zero."""
        return not self.months and not self.rest


def parse_duration(text: str) -> ISODuration:
    """Parse an ISO 8601 duration such as ``P10D``, ``P1M`` or ``PT0.001S``.

    Raises:
        ValueError: The text is not an ISO 8601 duration, or it is too long.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{text!r} is not an ISO 8601 duration, such as P10D (ten days), P1M (a month)"
            " or PT1S (a second)."
        )
    months = int(match["years"] or 0) * _MONTHS_OF_A_YEAR + int(match["months"] or 0)
    seconds = sum(
        Decimal((match[name] or "0").replace(",", ".")) * length
        for name, length in _SECONDS.items()
    )
    try:
        return ISODuration(months, timedelta(microseconds=round(seconds * 1_000_000)))
    except OverflowError:
        raise ValueError(f"The duration {text!r} is too long: use a shorter one.") from None


def _add_months(instant: datetime, months: int) -> datetime:
    """Add calendar months to a datetime: January 31 plus one month is the last day of February."""
    if not months:
        return instant
    years, month = divmod(instant.month - 1 + months, _MONTHS_OF_A_YEAR)
    year, month = instant.year + years, month + 1
    last_day = calendar.monthrange(year, month)[1]
    return instant.replace(year=year, month=month, day=min(instant.day, last_day))
