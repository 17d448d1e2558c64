"""Which records belong to the interval of a sync, where the API cannot tell.

Rules of the room: decided once per context, asked per record. A record without a usable
cursor passes. A feed comes newest first: where the last record of a page is before its cut-off
all that follow are older, so that no further page is asked for. Of a feed in disorder, too, only
the last record of a page is looked at, as airbyte-cdk does.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from tap_core.incremental.ordering import CursorComparator
from tap_core.types import Record

__all__ = ["CursorRecordFilter"]


class CursorRecordFilter:
    """Lets the records of one interval pass, both of its ends included.

    ``find`` finds the cursor value in a record. ``passed`` is the instant up to which records
    are known to be sent, so that one at it is dropped; None where none are. Without ``upper``
    only that is looked at.
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
        """Whether the last record of a feed was one before its cut-off."""
        self._order = order
        self._find = find
        self._lower = lower
        self._upper = upper
        self._passed = passed
        self._is_feed = order.cursor.is_data_feed
        self._newest_allowed: dt.datetime | None = None

    def admits(self, record: Record) -> bool:
        """Return whether a record is sent."""
        try:
            value = self._find(record)
        except KeyError:
            value = None
        found = self._order.instant(value)
        if found is None:
            self.is_past = False
            self._order.tell_unusable(value)
            return True
        is_passed = found == self._passed
        if self._is_feed:
            self._look_at_rank(found)
            self.is_past = is_passed or found < self._lower
        return not is_passed and (self._upper is None or self._lower <= found <= self._upper)

    def _look_at_rank(self, found: dt.datetime) -> None:
        before, self._newest_allowed = self._newest_allowed, found
        if before is None or found <= before:
            return
        self._order.ranks.misplaced += 1
        self._order.tell_once(
            "rank",
            "Stream '%s': a feed should come newest first (is_data_feed), and a record of"
            " %s came after one of %s. Records may be missed: read the stream without"
            " is_data_feed if its source does not keep that order.",
            self._order.stream,
            found.isoformat(),
            before.isoformat(),
        )
