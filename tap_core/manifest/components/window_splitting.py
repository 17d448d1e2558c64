"""Splitting of time windows when the API rejects the request for a full window.

A time window is the range of time that one request reads. A response filter with the action
``SPLIT_REQUEST_WINDOW`` selects the responses. The two halves do not overlap, and their lengths are
multiples of the cursor granularity.

Source: Airbyte YAML reference, "RequestWindowSplitting".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import Any, Final

from tap_core.exceptions import SyncError
from tap_core.incremental.cursor import DatetimeBasedCursor
from tap_core.incremental.time_windows import TimeWindow
from tap_core.manifest.components.error_handlers import make_rejection_error, matches_action
from tap_core.manifest.durations import parse_length
from tap_core.manifest.errors import ManifestError

__all__ = ["RequestWindowSplitting", "validate_splitting"]

_ACTION: Final = "SPLIT_REQUEST_WINDOW"
_SOME_DAY: Final = datetime(2001, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, kw_only=True)
class RequestWindowSplitting:
    """Options for splitting a time window in two after the API rejected the request for it.

    Raises:
        ManifestError: `min_split_window` is not a positive ISO 8601 duration.
    """

    min_split_window: str | None = None
    failure_message: str | None = None

    def __post_init__(self) -> None:
        if self.min_split_window is not None and self._min_window <= timedelta():
            raise ManifestError("`min_split_window` must be a duration above zero.")

    @cached_property
    def _min_window(self) -> timedelta:
        """Length of `min_split_window`, up to which a window is not split; 0 if it is not set."""
        return timedelta() if self.min_split_window is None else parse_length(self.min_split_window)

    def split(
        self, cursor: DatetimeBasedCursor, window: TimeWindow, error: SyncError
    ) -> Sequence[TimeWindow]:
        """Split a time window in two; return both halves in order of time.

        Args:
            cursor: The cursor of the stream; its granularity is the unit of the windows.
            window: The window to split.
            error: The error of the API that caused the split.

        Raises:
            SyncError: The window is too short to be split.
        """
        granule, write = cursor.granularity, cursor.format.write
        granules = (window.end - window.start) // granule + 1
        if granules < 2 or window.end - window.start <= self._min_window:  # noqa: PLR2004  (two halves)
            raise make_rejection_error(
                f"The API rejects the window {window.start_time} to {window.end_time},"
                " which cannot be split further.",
                self.failure_message,
                error,
            )
        middle = window.start + granules // 2 * granule
        last = middle - granule
        return (
            replace(window, end=last, end_time=write(last), is_last=False),
            replace(window, start=middle, start_time=write(middle)),
        )


def validate_splitting(retriever: Any, cursor: Any) -> None:
    """Check that a stream's cursor supports the retriever's option to split time windows.

    Raises:
        ManifestError: The cursor or the requester does not support splitting, or a response filter
            has the action ``SPLIT_REQUEST_WINDOW`` but the retriever declares no splitting.
    """
    requester = retriever.requester
    if retriever.request_window_splitting is None:
        if matches_action(_ACTION, requester.error_handler):
            raise ManifestError(
                f"A response filter has the action {_ACTION}: the retriever needs a"
                " `request_window_splitting`."
            )
        return
    if not isinstance(cursor, DatetimeBasedCursor) or not cursor.granularity:
        raise ManifestError(
            "A request_window_splitting needs a DatetimeBasedCursor with a `cursor_granularity`,"
            " by which windows are split."
        )
    if cursor.is_client_side_incremental:
        raise ManifestError(
            "A request_window_splitting cannot be combined with `is_client_side_incremental`: both"
            " halves would send the same request."
        )
    if requester.properties is not None:
        raise ManifestError("A request_window_splitting cannot be combined with query properties.")
    written = cursor.format.write(_SOME_DAY + cursor.granularity)
    if written == cursor.format.write(_SOME_DAY):
        raise ManifestError(
            f"The format {cursor.datetime_format!r} does not distinguish datetimes that"
            f" are {cursor.cursor_granularity} apart: windows cannot be split with it."
        )
