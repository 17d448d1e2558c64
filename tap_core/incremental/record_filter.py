"""Client-side filter of records by the interval of a sync, for APIs that cannot filter.

- The filter is created once per context and applied to each record. A record without a usable
  cursor value passes.
- A data feed is sorted newest first: if the last record of a page is before the cut-off, all later
  ones are older and no further page is requested. As in airbyte-cdk, only the last record of a
  page decides, even if the feed is out of order.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from tap_core.incremental.cursor_comparator import CursorComparator
from tap_core.types import Record

__all__ = ["CursorRecordFilter"]


class CursorRecordFilter:
    """Filter that keeps the records of one time interval, including both ends.

    Args:
        order: Comparator of the cursor values.
        find: Function that returns the cursor value of a record; it raises KeyError if the value is
            missing.
        lower: Start of the interval.
        upper: End of the interval; None to keep the records of any time.
        passed: Records with exactly this cursor value are dropped, because an earlier sync has sent
            them. None to drop no records.
    """

    def __init__(
        self,
        order: CursorComparator,
        find: Callable[[Record], Any],
        *,
        lower: dt.datetime,
        upper: dt.datetime | None,
        passed: dt.datetime | None,
    ) -> None:
        self.is_past: bool = False
        """True if the last record of a data feed was before its cut-off."""
        self._order = order
        self._find = find
        self._lower = lower
        self._upper = upper
        self._passed = passed
        self._is_feed = order.cursor.is_data_feed
        self._newest_allowed: dt.datetime | None = None

    def admits(self, record: Record) -> bool:
        """Return True if a record is to be sent.

        A record without a valid cursor value is always sent.
        """
        try:
            value = self._find(record)
        except KeyError:
            value = None
        instant = self._order.instant(value)
        if instant is None:
            self.is_past = False
            self._order.warn_unusable(value)
            return True
        is_passed = instant == self._passed
        if self._is_feed:
            self._check_feed_order(instant)
            self.is_past = is_passed or instant < self._lower
        return not is_passed and (self._upper is None or self._lower <= instant <= self._upper)

    def _check_feed_order(self, instant: dt.datetime) -> None:
        """Log a warning, once per stream, if a record of a feed is newer than the previous one."""
        previous, self._newest_allowed = self._newest_allowed, instant
        if previous is None or instant <= previous:
            return
        self._order.ranks.misplaced += 1
        self._order.warn_once(
            "rank",
            "Stream '%s': a feed should come newest first (is_data_feed), and a record of"
            " %s came after one of %s. Records may be missed: read the stream without"
            " is_data_feed if its source does not keep that order.",
            self._order.stream,
            instant.isoformat(),
            previous.isoformat(),
        )
