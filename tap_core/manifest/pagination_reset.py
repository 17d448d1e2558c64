"""How often the pages of one slice have begun again, and from where.

Rules of the room: pages that begin again as they were do so as often as a request is tried. Those
that go on from the highest value of the cursor do so as long as there is a higher one; that value
is asked for once more, since others may have it too.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tap_core.exceptions import SyncError
from tap_core.incremental.cursor import DatetimeBasedCursor
from tap_core.manifest.components.pagination_reset import PaginationReset
from tap_core.manifest.errors import ManifestError

if TYPE_CHECKING:
    from tap_core.incremental.windows import TimeWindow
    from tap_core.types import Record

__all__ = ["RestartLimiter", "RestartPagination", "SplitWindow"]


class RestartPagination(Exception):  # noqa: N818  (no failure)
    """The pages of a slice are to be read again from the first one."""

    def __init__(self, error: SyncError) -> None:
        super().__init__(str(error))
        self.error = error
        """What to raise where that does not help."""


class SplitWindow(RestartPagination):
    """The window in hand is to be read in two halves."""


class RestartLimiter:
    """What is known of the pages of one slice; ``most`` is how often they may begin at all.

    Raises:
        ManifestError: a limit is said, and there is no cursor by which it could be kept.
    """

    def __init__(
        self, declared: PaginationReset | None, cursor: DatetimeBasedCursor | None, most: int
    ) -> None:
        is_split = declared is not None and declared.action == "SPLIT_USING_CURSOR"
        self._cursor = cursor if is_split else None
        self._limit = None if declared is None else declared.limit
        if self._limit is not None and self._cursor is None:
            raise ManifestError(
                "`limits` of a pagination_reset need a DatetimeBasedCursor in `incremental_sync`."
            )
        self._most = most
        self._begun = 1
        self._read = 0
        self._highest: dt.datetime | None = None

    def watched(self, records: Iterable[Record]) -> Iterable[Record]:
        """Return records as they are, having looked at them where that matters."""
        return records if self._cursor is None else self._watched(records, self._cursor)

    def _watched(self, records: Iterable[Record], cursor: DatetimeBasedCursor) -> Iterator[Record]:
        for record in records:
            try:
                found = cursor.read(record.get(cursor.cursor_field))
            except ValueError:
                pass
            else:
                if self._highest is None or found > self._highest:
                    self._highest = found
            yield record

    def behind_page(self, size: int) -> None:
        """Note a page with so many records.

        Raises:
            BeginAgain: the API would not answer for more of them.
        """
        self._read += size
        if self._limit is not None and self._read >= self._limit:
            raise RestartPagination(
                SyncError(
                    f"{self._read} records came of one question, which may have"
                    f" {self._limit}, and none with a later value of the cursor to go on from."
                )
            )

    def window(self, asked: RestartPagination, current: TimeWindow | None) -> TimeWindow | None:
        """Return the window from which pages begin again.

        Raises:
            SyncError: that would not help.
        """
        self._read = 0
        self._begun += 1
        if self._cursor is None or current is None:
            if self._begun > self._most:
                raise asked.error from None
            return current
        start = min(self._highest or current.start, current.end)
        if start <= current.start:
            raise asked.error from None
        return replace(current, start=start, start_time=self._cursor.format.write(start))
