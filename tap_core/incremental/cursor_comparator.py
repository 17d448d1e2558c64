"""Comparison of cursor values as datetimes, in the formats that a cursor declares.

A cursor value is a record's value of the field by which the stream is read incrementally. Bookmarks
are written in the cursor's format. If this has no fractions of a second, a bookmark is truncated to
an earlier time, so no record is lost. A missing value, or one that matches no format, does not
change the bookmark; the first such value of a stream causes a warning.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from tap_core.incremental.cursor import DatetimeBasedCursor
from tap_core.parsing.iso8601 import parse_instant
from tap_core.state.replication_key_comparator import ReplicationKeyComparator, ValueKind

__all__ = ["CursorComparator", "FeedOrderTracker", "make_comparator"]

_CACHED_VALUES = 1_024


@dataclass(slots=True)
class FeedOrderTracker:
    """Counter of records that a data feed returned out of order (``misplaced``).

    A data feed is an API that returns the newest records first.
    """

    misplaced: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorComparator(ReplicationKeyComparator):
    """Comparator that orders the cursor values of a stream by the datetimes that they represent.

    Create it with `make_comparator`.
    """

    cursor: DatetimeBasedCursor
    read: Callable[[Any], dt.datetime]
    """Parser of values; raises ValueError if no format matches, TypeError if not hashable."""
    feed_order: FeedOrderTracker = field(default_factory=FeedOrderTracker, compare=False)

    @property
    def has_declared_cursor(self) -> bool:
        """True: values in other formats than those of the cursor are ignored."""
        return True

    def instant(self, value: Any) -> dt.datetime | None:
        """Parse a cursor value as a datetime; return None if no format matches."""
        try:
            return self.read(value)
        except (ValueError, TypeError):
            return None

    def is_usable(self, value: Any) -> bool:
        """Return True if a cursor value can become a bookmark: it matches one of the formats."""
        return self.instant(value) is not None

    def warn_unusable(self, value: Any) -> None:
        """Log a warning about a cursor value that cannot become a bookmark, once per stream."""
        problem = "is missing or null" if value is None else f"is {value!r:.80}"
        self.warn_once(
            "unusable",
            "the cursor '%s' of a record %s, which is not a date-time in the formats of the cursor"
            " (%s). The record is sent, and does not move the bookmark.",
            self.cursor.cursor_field,
            problem,
            ", ".join(known_format.text for known_format in self.cursor.formats),
        )

    def parse_bound(self, text: str) -> dt.datetime | None:
        """Parse the start or end of a backfill; return None if the text is not ISO 8601."""
        parsed = parse_instant(text)
        return None if parsed is None else parsed[0]

    def is_plain(self, value: Any) -> bool:
        """Return True if a cursor value can be compared with others of its format without parsing.

        In such a format, for example ISO 8601 with a time, the order of the texts or numbers is the
        order of the datetimes.
        """
        if not isinstance(value, str):
            return self.cursor.formats[0].is_count or isinstance(value, dt.date)
        for known_format in self.cursor.formats:
            if not known_format.is_plain:
                return False
            with suppress(ValueError):
                known_format.read(value)
                return True  # earlier formats reject all texts of this format
        return False

    def to_state_value(self, value: Any) -> Any:
        """Convert a cursor value to the bookmark that is stored in the state.

        The bookmark is text in the cursor's format. A value that matches no format is returned
        unchanged.
        """
        instant = self.instant(value)
        return value if instant is None else self.cursor.format.write(instant)

    def _comparable(self, new: Any, old: Any) -> tuple[Any, Any]:
        left, right = self.instant(new), self.instant(old)
        if left is None or right is None:
            return str(new), str(old)
        return left, right


def make_comparator(cursor: DatetimeBasedCursor, stream: str) -> CursorComparator:
    """Return the comparator for the cursor values of a stream; it caches parsed values."""
    read = lru_cache(_CACHED_VALUES, typed=True)(cursor.read)
    return CursorComparator(ValueKind.INSTANT, stream, cursor=cursor, read=read)
