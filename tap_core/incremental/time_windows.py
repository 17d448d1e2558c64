"""Division of the time interval of a sync into consecutive windows.

Each window begins a whole number of steps after the start of the interval, and ends one unit of the
API's granularity before the next window. So windows neither overlap nor leave a gap. The last
window ends at the end of the interval and may be shorter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tap_core.incremental.durations import ISODuration

__all__ = ["ClampPolicy", "ReadInterval", "TimeWindow", "parse_clamp", "split_into_windows"]

_DAYS_OF_A_WEEK = 7
_WEEKDAYS = ("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY")


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """Time window that a sync reads, from ``start`` to ``end``, both included."""

    start: datetime
    end: datetime
    start_time: str
    """Start of the window as text in the API's format."""
    end_time: str
    """End of the window as text in the API's format."""
    is_last: bool = False
    """True for the last window of the sync."""


@dataclass(frozen=True, slots=True)
class ReadInterval:
    """One time window that a sync reads (``window``), and the interval of the whole sync.

    The interval is from ``lower`` to ``end``, both included.
    """

    window: TimeWindow
    lower: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class ClampPolicy:
    """Policy that aligns the boundaries of windows to calendar days, weeks or months.

    ``target`` is ``DAY``, ``WEEK`` or ``MONTH``; ``weekday`` is the first day of a week, 0 for
    Monday.
    """

    target: str
    weekday: int = 0

    def floor(self, instant: datetime) -> datetime:
        """Return the start of the day, week or month (see ``target``) that contains a datetime."""
        day = instant.replace(hour=0, minute=0, second=0, microsecond=0)
        if self.target == "WEEK":
            passed = timedelta(days=(day.weekday() - self.weekday) % _DAYS_OF_A_WEEK)
            return ISODuration(0, passed).before(day)
        return day.replace(day=1) if self.target == "MONTH" else day

    def ceiling(self, instant: datetime) -> datetime:
        """Return the first start of a day, week or month (see ``target``) not before a time.

        For weeks and months only the date is compared: for 10:00 on the first day of a month,
        return the midnight of this day, not the start of the next month.
        """
        floor = self.floor(instant)
        if floor == instant or (self.target != "DAY" and floor.date() == instant.date()):
            return floor
        return self.following(floor)

    def following(self, start: datetime) -> datetime:
        """Return the start of the day, week or month after the one that begins at ``start``.

        In the last period before the year 10000, return the maximum of `datetime.datetime`.
        """
        if self.target == "MONTH":
            return ISODuration(1, timedelta()).after(start)
        days = timedelta(days=_DAYS_OF_A_WEEK if self.target == "WEEK" else 1)
        return ISODuration(0, days).after(start)


def parse_clamp(clamping: dict[str, Any]) -> ClampPolicy:
    """Return the policy for the key ``clamping`` in a manifest, such as ``{"target": "MONTH"}``.

    Raises:
        ValueError: The target is unknown, or the target ``WEEK`` has no weekday.
    """
    target = clamping.get("target")
    if target not in {"DAY", "WEEK", "MONTH"}:
        raise ValueError(f"The target of clamping is {target!r}: it must be DAY, WEEK or MONTH.")
    if target != "WEEK":
        return ClampPolicy(target)
    weekday = (clamping.get("target_details") or {}).get("weekday")
    if weekday not in _WEEKDAYS:
        raise ValueError(
            "Clamping to a WEEK needs target_details with a weekday, such as weekday: MONDAY."
        )
    return ClampPolicy(target, _WEEKDAYS.index(weekday))


def split_into_windows(
    start: datetime,
    end: datetime,
    *,
    step: ISODuration | None = None,
    granularity: timedelta = timedelta(),
    joins_last: bool = False,
    reads_end: bool = False,
    clamp: ClampPolicy | None = None,
) -> Iterator[tuple[datetime, datetime]]:
    """Yield a (start, end) pair for each window of the time interval from ``start`` to ``end``.

    If ``end`` is before ``start``, no window is yielded. If both are equal, a window is yielded
    only if ``joins_last`` is False and, in addition, ``granularity`` is not zero or ``reads_end``
    is True.

    Args:
        start: Start of the interval.
        end: End of the interval.
        step: Length of a window; None for a single window.
        granularity: Smallest time unit of the API; a window ends this long before the next one.
        joins_last: True to extend the previous window instead of adding a last one of zero length.
        reads_end: True if ``start`` is a bookmark that an interrupted sync may have left in the
            middle of records with equal values.
        clamp: Policy that aligns the windows to days, weeks or months; None for no alignment.
    """
    if clamp is not None:
        start, end = clamp.ceiling(start), clamp.floor(end)
        if end - start < granularity:
            return
        end -= granularity
    if start > end or (start == end and (joins_last or not (granularity or reads_end))):
        return
    lower, number = start, 0
    while step is not None:
        number += 1
        if clamp is None:
            following = step.after(start, number)
        else:
            following = max(clamp.ceiling(step.after(lower)), clamp.following(lower))
        is_only_end = following == end and (joins_last or not granularity)
        if following > end or is_only_end or following == lower:  # equal after the year 9999
            break
        yield lower, following - granularity
        lower = following
    yield lower, end
