"""Consecutive time windows of a sync.

- Windows cover the interval from start to end without gap or overlap at the API's granularity.
- A window begins a multiple of the step after the start (so that the 31st of a month is not lost
  in February) and ends one granule before the next window.
- The last window ends at the end of the interval and may be shorter.
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
    """Time window that a sync reads, including its start and its end."""

    start: datetime
    end: datetime
    start_time: str
    """Start in the API's format."""
    end_time: str
    """End in the API's format."""
    is_last: bool = False
    """True for the last window of the sync."""


@dataclass(frozen=True, slots=True)
class ReadInterval:
    """Time window that is read separately, with the start and end of the whole sync."""

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
        """Return the start of the day, week or month that contains a datetime."""
        day = instant.replace(hour=0, minute=0, second=0, microsecond=0)
        if self.target == "WEEK":
            return day - timedelta(days=(day.weekday() - self.weekday) % _DAYS_OF_A_WEEK)
        return day.replace(day=1) if self.target == "MONTH" else day

    def ceiling(self, instant: datetime) -> datetime:
        """Return the start of the first day, week or month that begins at or after a datetime.

        A datetime on the first day of a week or month, at any time, counts as the start of that
        period.
        """
        begun = self.floor(instant)
        if begun == instant or (self.target != "DAY" and begun.date() == instant.date()):
            return begun
        return self.following(begun)

    def following(self, begun: datetime) -> datetime:
        """Return the start of the day, week or month after the one starting at ``begun``."""
        if self.target == "MONTH":
            return ISODuration(1, timedelta()).after(begun)
        return begun + timedelta(days=_DAYS_OF_A_WEEK if self.target == "WEEK" else 1)


def parse_clamp(clamping: dict[str, Any]) -> ClampPolicy:
    """Return the policy for the ``clamping`` section of a manifest.

    Raises:
        ValueError: The target is unknown, or a week has no weekday.
    """
    target = clamping.get("target")
    if target not in {"DAY", "WEEK", "MONTH"}:
        raise ValueError(f"The target of clamping is {target!r}: it is DAY, WEEK or MONTH.")
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
    clamp: ClampPolicy | None = None,
) -> Iterator[tuple[datetime, datetime]]:
    """Yield the start and end of each window from ``start`` to ``end``, both included.

    No window is yielded if ``end`` is before ``start``. If both are equal, one window is yielded if
    a granularity is set and ``joins_last`` is False; otherwise no window is yielded.

    Args:
        start: Start of the first window.
        end: End of the last window.
        step: Length of a window; None for a single window.
        granularity: Smallest time unit of the API: the gap from the end of a window to the next
            start.
        joins_last: True to merge a last window of zero length into the previous window.
        clamp: Policy that aligns the windows to days, weeks or months; None for no alignment.
    """
    if clamp is not None:
        start, end = clamp.ceiling(start), clamp.floor(end) - granularity
    if start > end or (start == end and (joins_last or not granularity)):
        return
    lower, number = start, 0
    while step is not None:
        number += 1
        if clamp is None:
            following = step.after(start, number)
        else:
            following = max(clamp.ceiling(step.after(lower)), clamp.following(lower))
        if following > end or (following == end and (joins_last or not granularity)):
            break
        yield lower, following - granularity
        lower = following
    yield lower, end
