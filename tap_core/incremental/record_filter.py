"""Filter that drops records outside the time interval of a sync, for APIs that cannot filter.

One filter is created for each partition of a stream. A data feed is an API that returns the newest
records first; its filter also finds the last page. If the last record of a page is before the
interval, the records of all further pages are older. As in airbyte-cdk, only the last record of a
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
        order: Comparator that parses the cursor values.
        find: Function that returns the cursor value of a record, or raises KeyError if it is
            missing.
        lower: Start of the interval.
        upper: End of the interval; None to keep the records of any time.
        sent_until: Cursor value up to which an earlier sync has sent the records; records with
            exactly this value are dropped. None to drop no records.
    """

    def __init__(
        self,
        order: CursorComparator,
        find: Callable[[Record], Any],
        *,
        lower: dt.datetime,
        upper: dt.datetime | None,
        sent_until: dt.datetime | None,
    ) -> None:
        self.is_past: bool = False
        """True if reading can stop: a data feed's last record is too old, or was sent before."""
        self._order = order
        self._find = find
        self._lower = lower
        self._upper = upper
        self._sent_until = sent_until
        self._is_feed = order.cursor.is_data_feed
        self._previous: dt.datetime | None = None
        """Cursor value of the previous record of a data feed."""

    def admits(self, record: Record) -> bool:
        """Return True if a record is in the time interval and was not sent by an earlier sync.

        For a record without a valid cursor value, log a warning and return True, so that it is
        sent.
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
        was_sent = instant == self._sent_until
        if self._is_feed:
            self._check_feed_order(instant)
            self.is_past = was_sent or instant < self._lower
        return not was_sent and (self._upper is None or self._lower <= instant <= self._upper)

    def _check_feed_order(self, instant: dt.datetime) -> None:
        """Count a data feed's record if its time ``instant`` is later than the previous record's.

        Such a record is out of order, because a data feed must return the newest records first. A
        warning is logged once per stream.
        """
        previous, self._previous = self._previous, instant
        if previous is None or instant <= previous:
            return
        self._order.feed_order.misplaced += 1
        self._order.warn_once(
            "feed order",
            "the records of a feed (is_data_feed) should come newest first, but one of %s came"
            " after one of %s. Records may be missed: read the stream without is_data_feed if its"
            " source does not keep that order.",
            instant.isoformat(),
            previous.isoformat(),
        )
