"""Windows that are cut in two, where an API cannot answer for a whole one.

Rules of the room: an error handler says of which answers that is so (``SPLIT_REQUEST_WINDOW``). The
halves are windows as the cursor would make them: whole granules, none in both. (Airbyte's YAML
reference, "RequestWindowSplitting".)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import Any, Final

from tap_core.exceptions import SyncError
from tap_core.incremental.cursor import DatetimeBasedCursor
from tap_core.incremental.durations import parse_duration
from tap_core.incremental.windows import TimeWindow
from tap_core.manifest.components.error_handlers import matches_action
from tap_core.manifest.errors import ManifestError

__all__ = ["RequestWindowSplitting", "validate_splitting"]

_ACTION: Final = "SPLIT_REQUEST_WINDOW"
_SOME_DAY: Final = datetime(2001, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, kw_only=True)
class RequestWindowSplitting:
    """How small windows may become.

    Raises:
        ManifestError: the smallest is no length of time.
    """

    min_split_window: str | None = None
    failure_message: str | None = None

    def __post_init__(self) -> None:
        if self.min_split_window is not None and self._smallest <= timedelta():
            raise ManifestError("`min_split_window` is a length of time above zero.")

    @cached_property
    def _smallest(self) -> timedelta:
        """The length of a window that is not cut any more."""
        if self.min_split_window is None:
            return timedelta()
        try:
            return parse_duration(self.min_split_window).after(_SOME_DAY) - _SOME_DAY
        except ValueError as error:
            raise ManifestError(str(error)) from None

    def halves(
        self, cursor: DatetimeBasedCursor, window: TimeWindow, error: SyncError
    ) -> Sequence[TimeWindow]:
        """Return what a window becomes: two of half its granules.

        Raises:
            SyncError: it cannot be cut any more.
        """
        granule, write = cursor.granularity, cursor.format.write
        granules = (window.end - window.start) // granule + 1
        if granules < 2 or window.end - window.start <= self._smallest:  # noqa: PLR2004  (halves)
            said = (
                f"The window {window.start_time} to {window.end_time} is refused, and is the least."
            )
            more = f" {self.failure_message.strip()}" if self.failure_message else ""
            failure = SyncError(f"{said}{more} {error}")
            failure.failure_type = "transient_error"
            raise failure
        middle = window.start + granules // 2 * granule
        last = middle - granule
        return (
            replace(window, end=last, end_time=write(last), is_last=False),
            replace(window, start=middle, start_time=write(middle)),
        )


def validate_splitting(retriever: Any, cursor: Any) -> None:
    """Refuse a splitting that cannot be done soundly, and an action without one.

    Raises:
        ManifestError: there is one of the two.
    """
    splitting = getattr(retriever, "request_window_splitting", None)
    requester = getattr(retriever, "requester", None)
    if splitting is None:
        if matches_action(_ACTION, getattr(requester, "error_handler", None)):
            raise ManifestError(
                f"A response filter has the action {_ACTION}: the retriever needs a"
                " `request_window_splitting`."
            )
        return
    if not isinstance(cursor, DatetimeBasedCursor) or not cursor.granularity:
        raise ManifestError(
            "A request_window_splitting needs a DatetimeBasedCursor with a `cursor_granularity`,"
            " by which windows are cut."
        )
    if cursor.is_client_side_incremental:
        raise ManifestError(
            "A request_window_splitting cannot go with `is_client_side_incremental`: both halves"
            " would be the same request."
        )
    if getattr(requester, "properties", None) is not None:
        raise ManifestError(
            "A request_window_splitting cannot go with properties that are asked for in parts."
        )
    written = cursor.format.write(_SOME_DAY + cursor.granularity)
    if written == cursor.format.write(_SOME_DAY):
        raise ManifestError(
            f"The format {cursor.datetime_format!r} does not tell instants apart that are"
            f" {cursor.cursor_granularity} apart: windows cannot be cut by it."
        )
