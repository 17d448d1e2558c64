"""The windows of time that a sync asks for, one after the other.

Rules of the room: windows cover everything from the first instant to the last, without a gap
and without an overlap, at the granularity of the API. A window begins a whole number of
steps after the first lower bound (so that the 31st of a month is not lost in February) and
ends a granule before the next one. The last one ends at the end, however short it is.
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
    """One interval of a sync, both ends included."""

    start: datetime
    end: datetime
    start_time: str
    """The start, as the API wants it."""
    end_time: str
    """The end, as the API wants it."""
    is_last: bool = False
    """Whether no other comes after it."""


@dataclass(frozen=True, slots=True)
class ReadInterval:
    """One window of a sync that is read apart from the others, and the bounds of them all."""

    window: TimeWindow
    lower: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class ClampPolicy:
    """Periods on whose edges windows begin and end: days, weeks or months."""

    target: str
    weekday: int = 0

    def floor(self, instant: datetime) -> datetime:
        """Return the beginning of the period that an instant is in."""
        day = instant.replace(hour=0, minute=0, second=0, microsecond=0)
        if self.target == "WEEK":
            return day - timedelta(days=(day.weekday() - self.weekday) % _DAYS_OF_A_WEEK)
        return day.replace(day=1) if self.target == "MONTH" else day

    def ceiling(self, instant: datetime) -> datetime:
        """Return the first beginning of a period that is not earlier.

        The first day of a week or a month counts as its beginning at any hour.
        """
        begun = self.floor(instant)
        if begun == instant or (self.target != "DAY" and begun.date() == instant.date()):
            return begun
        return self.following(begun)

    def following(self, begun: datetime) -> datetime:
        """Return the beginning of the period after one that begins here."""
        if self.target == "MONTH":
            return ISODuration(1, timedelta()).after(begun)
        return begun + timedelta(days=_DAYS_OF_A_WEEK if self.target == "WEEK" else 1)


def parse_clamp(given: dict[str, Any]) -> ClampPolicy:
    """Return the clamp that a manifest's ``clamping`` describes.

    Raises:
        ValueError: the target is none, or a week has no weekday.
    """
    target = given.get("target")
    if target not in {"DAY", "WEEK", "MONTH"}:
        raise ValueError(f"The target of clamping is {target!r}: it is DAY, WEEK or MONTH.")
    if target != "WEEK":
        return ClampPolicy(target)
    weekday = (given.get("target_details") or {}).get("weekday")
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
    """Yield the first and the last instant of each window from ``start`` to ``end``.

    ``joins_last`` is whether a last window of one instant is made part of the one before.
    None come where the start is not before the end, but for the one granule that they are
    where there is a granularity.
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
