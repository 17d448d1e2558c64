"""Restarts of the pagination of a slice (``pagination_reset`` in a manifest), and their limits.

A restart that repeats the same requests is allowed as often as a retry of a request. With
``SPLIT_USING_CURSOR`` the pagination continues from the highest cursor value read, which must grow
with each restart. Records with exactly that value are requested again, since more of them may
exist.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from tap_core.exceptions import SyncError
from tap_core.incremental.cursor import DatetimeBasedCursor
from tap_core.manifest.errors import ManifestError

if TYPE_CHECKING:
    from tap_core.incremental.time_windows import TimeWindow
    from tap_core.types import Record

__all__ = [
    "PaginationReset",
    "PaginationResetLimits",
    "RestartLimiter",
    "RestartPagination",
    "SplitWindow",
]


@dataclass(frozen=True, kw_only=True)
class PaginationResetLimits:
    """Maximum number of records that the API returns per query, for a PaginationReset."""

    number_of_records: int | None = None


@dataclass(frozen=True, kw_only=True)
class PaginationReset:
    """Options for restarting a pagination, for example if the API limits the records per query.

    With the action RESET, the pagination restarts at the first page. With SPLIT_USING_CURSOR, a new
    query starts at the highest cursor value read so far.

    Raises:
        ManifestError: `limits` is combined with RESET. A restart would reach the limit again.
    """

    action: Literal["SPLIT_USING_CURSOR", "RESET"]
    limits: PaginationResetLimits | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and self.action == "RESET":
            raise ManifestError(
                "A pagination_reset with the action RESET would reach its `limits` again:"
                " set the action SPLIT_USING_CURSOR."
            )

    @property
    def limit(self) -> int | None:
        """Number of records after which the pagination restarts; None means no limit."""
        return None if self.limits is None else self.limits.number_of_records


class RestartPagination(Exception):  # noqa: N818  (no failure)
    """Raised to restart the pagination of a stream slice, as the manifest declares."""

    def __init__(self, error: SyncError) -> None:
        super().__init__(str(error))
        self.error = error
        """Error to raise if another restart is not allowed."""


class SplitWindow(RestartPagination):
    """Raised after an API rejected a time window; both halves of it are then read separately."""


class RestartLimiter:
    """Limiter of the pagination restarts of one stream slice.

    ``max_paginations`` is the maximum number of paginations, including the first.

    Raises:
        ManifestError: The manifest sets ``limits`` without a DatetimeBasedCursor.
    """

    def __init__(
        self,
        declared: PaginationReset | None,
        cursor: DatetimeBasedCursor | None,
        max_paginations: int,
    ) -> None:
        is_split = declared is not None and declared.action == "SPLIT_USING_CURSOR"
        self._cursor = cursor if is_split else None
        self._limit = None if declared is None else declared.limit
        if self._limit is not None and self._cursor is None:
            raise ManifestError(
                "`limits` of a pagination_reset need a DatetimeBasedCursor in `incremental_sync`."
            )
        self._max_paginations = max_paginations
        self._paginations = 1
        self._records_read = 0
        self._highest: dt.datetime | None = None

    def track_records(self, records: Iterable[Record]) -> Iterable[Record]:
        """Yield the records unchanged, and store their highest cursor value for `next_window`."""
        return records if self._cursor is None else self._track_records(records, self._cursor)

    def _track_records(
        self, records: Iterable[Record], cursor: DatetimeBasedCursor
    ) -> Iterator[Record]:
        for record in records:
            with suppress(ValueError):
                value = cursor.read(record.get(cursor.cursor_field))
                if self._highest is None or value > self._highest:
                    self._highest = value
            yield record

    def count_page(self, size: int) -> None:
        """Count the records of a page towards the limit of one pagination.

        The method is called before the next page is requested; ``size`` is the number of records.

        Raises:
            RestartPagination: The limit is reached, so that the pagination must restart.
        """
        self._records_read += size
        if self._limit is not None and self._records_read >= self._limit:
            raise RestartPagination(
                SyncError(
                    f"{self._records_read} records were read and the limit of a pagination is"
                    f" {self._limit}, but no record has a later cursor value to continue from."
                )
            )

    def next_window(
        self, restart: RestartPagination, current: TimeWindow | None
    ) -> TimeWindow | None:
        """Return the time window to read after a restart; None if there are no time windows.

        The window begins at the highest cursor value read so far. If the whole slice is read again,
        the window is ``current``.

        Raises:
            SyncError: The restart would repeat the same requests, or there were too many restarts.
        """
        self._records_read = 0
        self._paginations += 1
        if self._cursor is None or current is None:
            if self._paginations > self._max_paginations:
                raise restart.error from None
            return current
        start = min(self._highest or current.start, current.end)
        if start <= current.start:
            raise restart.error from None
        return replace(current, start=start, start_time=self._cursor.format.write(start))
