"""Cursor that advances the bookmark of one partition while its records are read.

- `BookmarkCursor.advance` is called for each record, so it must be fast. It compares two values of
  the same type and format directly. For all other values it calls `ReplicationKeyComparator`,
  which has the same result but is slower.
- The state dict changes only in `settle`. Call `settle` before other code reads the dict.
  If other code changes the dict, the cursor uses the change at the next `settle` or `reload`.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from typing import Any

from tap_core.exceptions import InvalidStreamSortException
from tap_core.state.bookmarks import (
    format_sort_error,
    get_progress_markers,
    open_progress_markers,
)
from tap_core.state.replication_key_comparator import ReplicationKeyComparator, ValueKind
from tap_core.typing.values import to_json_compatible

__all__ = ["BookmarkCursor"]

_FULL_FORM = re.compile(
    r"\d{4}-\d\d-\d\d(?:(?P<gap>[T ])\d\d:\d\d:\d\d(?P<fraction>\.\d+)?"
    r"(?P<zone>Z|[+-]\d\d:\d\d)?)?",
    re.ASCII,
)
"""ISO 8601 dates and date-times. Texts of equal length and zone sort like their points in time."""

_DATE_LENGTH = 10
_SECONDS_START = 17
_SECONDS_END = 19
_FRACTION_START = 20


class BookmarkCursor:
    """Tracker of the latest replication key value while a stream or partition is read.

    The attribute ``latest`` starts with the bookmark in the state dict or, for an unsorted stream,
    with the value of its progress markers. An equal or greater value becomes the latest value. The
    effect of a smaller value depends on two arguments:

    - ``check_sorted`` and ``is_sorted``: `InvalidStreamSortException` is raised.
    - ``check_sorted`` and not ``is_sorted``: the value is ignored, so the greatest value is kept.
    - not ``check_sorted``: the value becomes the latest value.

    A missing value (None or NaN) is ignored with a warning.

    For speed, a loop may assign a date-time text directly to ``latest`` instead of calling
    `advance`. The text must have ``form_length`` characters, ``form_gap`` at position 10, ":" at
    position 16, ``form_zone`` at its end, and must not be smaller than ``latest``.

    Args:
        state: State dict of the stream or partition.
        replication_key: Name of the replication key.
        is_sorted: True to advance the bookmark itself, False to advance a progress marker.
        check_sorted: False to accept values that are smaller than the previous value.
        order: Comparator of replication key values.
        on_first_marker: Called when an unsorted stream's state gets its first progress marker.
    """

    __slots__ = (
        "_check_sorted",
        "_has_declared_cursor",
        "_is_sorted",
        "_is_started",
        "_kind",
        "_length",
        "_needs_markers",
        "_on_first_marker",
        "_order",
        "_settled",
        "_stored",
        "_tail_start",
        "form_gap",
        "form_length",
        "form_zone",
        "latest",
        "replication_key",
        "state",
    )
    _is_started: bool
    _kind: Any
    _length: int
    _needs_markers: bool
    _settled: Any
    _stored: Any
    _tail_start: int
    form_gap: str
    form_length: int
    form_zone: str
    latest: Any

    def __init__(
        self,
        state: dict[str, Any],
        *,
        replication_key: str,
        is_sorted: bool,
        check_sorted: bool,
        order: ReplicationKeyComparator,
        on_first_marker: Callable[[], object] | None = None,
    ) -> None:
        self.state: dict[str, Any] = state
        self.replication_key: str = replication_key
        self._is_sorted = is_sorted
        self._check_sorted = check_sorted
        self._order = order
        self._has_declared_cursor = order.has_declared_cursor
        self._on_first_marker = on_first_marker
        self.reload()

    def advance(self, value: Any) -> None:
        """Advance the cursor to the replication key value of one record.

        `BookmarkCursor` describes the effect of a value that is smaller than the latest one.

        Raises:
            InvalidStreamSortException: The stream is sorted and the value is smaller than the
                previous value. The cursor is unchanged.
        """
        # A value with the type and format of the latest value is compared here, for speed.
        try:
            if type(value) is self._kind:
                length = self._length
                if not length or (
                    len(value) == length
                    and (
                        length == _DATE_LENGTH
                        or (
                            value[16] == ":"
                            and value[10] == self.form_gap
                            and (
                                value[self._tail_start :] == self.form_zone
                                if self.form_zone
                                else value[self._tail_start :].isdigit()
                            )
                        )
                    )
                ):
                    if value >= self.latest:
                        if not (length and self._has_declared_cursor) or self._is_valid_datetime(
                            value
                        ):
                            self.latest = value
                            return
                    elif not self._is_sorted:
                        return
        except TypeError:  # a datetime with an offset and one without
            pass
        self._compare_and_advance(value)

    def settle(self) -> bool:
        """Write the latest value to the state dict. Return True if the dict has changed.

        If other code has stored a greater value there in the meantime, that value is kept.
        """
        if not self._is_started:
            return False
        has_moved = self.latest is not self._settled
        bookmark = self._bookmark_dict()
        if not self._is_unchanged(bookmark):
            has_moved = has_moved and self._may_replace(bookmark or {})
            if not has_moved:
                self.reload()
                return False
        if not (has_moved or self._needs_markers):
            return False
        bookmark = self.state if self._is_sorted else open_progress_markers(self.state, None)
        if has_moved:
            self._stored = self._order.to_state_value(self.latest)
            bookmark["replication_key"] = self.replication_key
            bookmark["replication_key_value"] = self._stored
        self._settled = self.latest
        self._needs_markers = False
        return True

    def reload(self) -> None:
        """Set the latest value to the value in the state dict.

        A latest value that `settle` has not yet written is discarded.
        """
        bookmark = self._bookmark_dict()
        self._is_started = bookmark is not None
        self._needs_markers = False
        latest = self._stored = None
        if bookmark:
            self._stored = bookmark.get("replication_key_value")
            if bookmark.get("replication_key") == self.replication_key:
                latest = self._stored
        self._settled = latest
        self._set_latest(latest)

    def _bookmark_dict(self) -> dict[str, Any] | None:
        """Return the dict that contains the bookmark.

        It is the state dict or, for an unsorted stream, the progress markers in it. Return None if
        an unsorted stream has no progress markers yet.
        """
        return self.state if self._is_sorted else get_progress_markers(self.state)

    def _is_unchanged(self, bookmark: dict[str, Any] | None) -> bool:
        """Return True if the state dict has the value that this cursor last read or wrote.

        ``bookmark`` is the result of `_bookmark_dict`.
        """
        if bookmark is None:
            return self._needs_markers
        return bookmark.get("replication_key_value") is self._stored

    def _may_replace(self, bookmark: dict[str, Any]) -> bool:
        """Return True if the cursor may overwrite a bookmark that other code has stored.

        ``bookmark`` is the dict with the stored value. With ``check_sorted``, a value greater than
        the cursor's own is kept.
        """
        other_value = bookmark.get("replication_key_value")
        return (
            other_value is None
            or not self._check_sorted
            or bookmark.get("replication_key") != self.replication_key
            or self._order.newer_or_equal(self.latest, other_value)
        )

    def _compare_and_advance(self, value: Any) -> None:
        """Advance to a value, after the stream's comparator has compared it with the latest value.

        `advance` calls this method unless Python's operators show that the value is in order.

        Raises:
            InvalidStreamSortException: The stream is sorted and the value is not in order.
        """
        if not self._is_started:
            self._start()
        if not self._order.is_usable(value):
            self._order.warn_unusable(value)
        elif self._is_in_order(value):
            self._set_latest(value)
        elif self._is_sorted:
            new, old = to_json_compatible(value), to_json_compatible(self.latest)
            raise InvalidStreamSortException(format_sort_error(self.replication_key, new, old))

    def _start(self) -> None:
        """Begin to track an unsorted stream's progress; `settle` then writes a progress marker."""
        self._is_started = self._needs_markers = True
        if self._on_first_marker is not None:
            self._on_first_marker()

    def _is_in_order(self, value: Any) -> bool:
        """Return True if a value may become the latest value.

        This is the case if the value is not smaller than the latest one, if there is no latest
        value yet, or if ``check_sorted`` is False.
        """
        return (
            self.latest is None
            or not self._check_sorted
            or self._order.newer_or_equal(value, self.latest)
        )

    def _set_latest(self, value: Any) -> None:
        """Set the latest value, and store its type and format for fast comparisons in `advance`.

        The type is stored only if Python can compare two values of that type and format directly.
        """
        self.latest = value
        self._length = 0
        self.form_length = -1
        self._kind = None
        if self._check_sorted and self._has_direct_order(value):
            self._kind = type(value)

    def _has_direct_order(self, value: Any) -> bool:
        """Return True if Python orders ``value`` and values of its type and format correctly.

        Other values must be compared by the stream's comparator.
        """
        if not self._order.is_plain(value):
            return False
        if isinstance(value, str):
            kind = self._order.kind
            return kind is ValueKind.TEXT or (
                kind is ValueKind.INSTANT and self._has_full_form(value)
            )
        if isinstance(value, dt.datetime):
            # Python compares datetimes that share a tzinfo by local time, ignoring the offset.
            return value.tzinfo is None or type(value.tzinfo) is dt.timezone
        return type(value) in {int, dt.date}  # a float may be infinite, which is no bookmark

    def _has_full_form(self, text: str) -> bool:
        """Return True if a text is a complete ISO 8601 date or date-time, and store its format.

        The format is the length, the separator and the zone. Texts of the same format sort like
        their points in time.
        """
        form = _FULL_FORM.fullmatch(text)
        if form is None:
            return False
        self._length = len(text)
        self.form_length = len(text) if form["zone"] and not self._has_declared_cursor else -1
        self.form_gap = form["gap"]
        self.form_zone = form["zone"] or ""
        digits_start = _FRACTION_START if form["fraction"] else _SECONDS_START
        # In later texts, `advance` checks that this part is the same zone or, without one, digits.
        self._tail_start = len(text) - len(self.form_zone) if self.form_zone else digits_start
        return True

    def _is_valid_datetime(self, text: str) -> bool:
        """Return True if a text with the length and separators of a date-time is a valid one."""
        try:
            dt.datetime.fromisoformat(text[:_SECONDS_END])
        except ValueError:
            return False
        fraction = text[_SECONDS_END : self._tail_start] if self.form_zone else ""
        return not fraction or fraction[1:].isdecimal()
