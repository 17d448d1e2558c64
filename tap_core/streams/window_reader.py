"""`WindowReader`: reads the partitions of a stream in time windows, such as one day each.

It is used for streams with ``incremental_sync``. Formats, windows and their bounds are in
`tap_core.incremental`; the state changes are in `tap_core.sync.window_state`. A copy of the stream
reads each window and has its own ``stream_interval``, so several windows can be read in parallel.
Records are written, and bookmarks advance, in the order of the windows.
"""

from __future__ import annotations

import copy
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from inspect import isgeneratorfunction
from typing import TYPE_CHECKING, Any, Protocol

from tap_core.exceptions import ConfigurationError
from tap_core.parsing.datetimes import utc_now
from tap_core.parsing.iso8601 import parse_instant
from tap_core.redaction import collect_secrets
from tap_core.singerlib.catalog import REPLICATION_INCREMENTAL
from tap_core.state.replication_key_comparator import ReplicationKeyComparator
from tap_core.state.replication_key_path import make_getter
from tap_core.sync.context_reader import ContextReader
from tap_core.sync.interfaces import SyncStream
from tap_core.sync.prefetch import prefetch_in_order
from tap_core.sync.window_state import begin_window, close_window
from tap_core.sync.worker_pool import WorkerPool

if TYPE_CHECKING:
    import datetime as dt

    from tap_core.incremental.cursor import DatetimeBasedCursor
    from tap_core.incremental.cursor_comparator import CursorComparator
    from tap_core.incremental.record_filter import CursorRecordFilter
    from tap_core.incremental.time_windows import ReadInterval, TimeWindow
    from tap_core.types import Context, Record

__all__ = [
    "WindowReader",
    "WindowedStreamProtocol",
]


@dataclass(slots=True)
class _WindowPass:
    """State of one reading of a context (a partition or parent record) in time windows.

    Attributes:
        cursor: Cursor that defines the windows.
        context: Context to read, or None.
        lower: Start of the first window.
        end: End of the last window.
        record_filter: Filter that drops the records that the cursor excludes; None to keep all.
        threads: Resources of the reading threads, closed at the end of the reading.
        is_taken: True if the reading has begun.
        in_sync: True during a sync; otherwise no state is changed and no threads are used.
        is_trial: True if one window is enough, as in a connection test.
    """

    cursor: DatetimeBasedCursor
    context: Context | None
    lower: dt.datetime
    end: dt.datetime
    record_filter: CursorRecordFilter | None
    threads: ExitStack = field(default_factory=ExitStack)
    is_taken: bool = False
    in_sync: bool = False
    is_trial: bool = False


class WindowedStreamProtocol(SyncStream, Protocol):
    """Interface of a stream that is read in time windows: its cursor, and a request for records."""

    stream_interval: TimeWindow | None
    max_parallel_windows: int
    _cursor_record_filter: CursorRecordFilter | None
    _sync_costs: dict[str, int]

    @property
    def incremental_sync(self) -> DatetimeBasedCursor | None:
        """Cursor that defines the time windows; None for a stream without windows."""

    def request_records(self, context: Context | None) -> Iterable[Record]:
        """Return the records of a partition in the current time window, ``stream_interval``."""

    def _prepare_for_threads(self, threads: int) -> None: ...


class WindowReader(ContextReader):
    """Reader of a stream in the time windows that its cursor, ``incremental_sync``, defines.

    It reads one context (partition or parent record) after the other. A stream without a cursor is
    read without windows.
    """

    stream: WindowedStreamProtocol
    _current: _WindowPass | None = None
    _only_interval: ReadInterval | None = None
    """Single time window to read, set by `reading_only`; None to read all windows."""

    # Cursor

    @property
    def has_cursor(self) -> bool:
        """True if the stream has ``incremental_sync``, a cursor that defines its bookmarks."""
        return self.stream.incremental_sync is not None

    @property
    def cursor_field(self) -> str | None:
        """Replication key from the stream's cursor (``incremental_sync``); None without a cursor.

        It is used if the stream declares no replication key.
        """
        cursor = self.stream.incremental_sync
        return cursor.cursor_field if cursor else None

    @property
    def state_partitioning_keys(self) -> Sequence[str] | None:
        """Default of ``Stream.state_partitioning_keys``: empty for a global cursor, otherwise None.

        A cursor is global if ``global_substream_cursor`` is set. All partitions then share one
        bookmark.
        """
        cursor = self.stream.incremental_sync
        return [] if cursor and cursor.global_substream_cursor else None

    @property
    def start_date(self) -> Any:
        """Value at which reading starts without a bookmark, in the stream cursor's format."""
        cursor = self.stream.incremental_sync
        if cursor is None or self.stream.replication_method != REPLICATION_INCREMENTAL:
            return super().start_date
        return cursor.format.write(self.find_time_range(cursor)[0])

    def make_comparator(self) -> ReplicationKeyComparator:
        """Return the comparator of the stream's replication key values.

        With ``incremental_sync``, the comparator parses values in the cursor's formats.
        """
        cursor = self.stream.incremental_sync
        if cursor is None:
            return super().make_comparator()
        from tap_core.incremental.cursor_comparator import make_comparator

        return make_comparator(cursor, self.stream.name)

    def find_later(self, value: str, start_date: str) -> str:
        """Return the later of two date-times: the bookmark ``value`` or ``start_date``."""
        comparator = self.stream.state_manager.order
        return value if comparator.newer_or_equal(value, start_date) else start_date

    def parse_datetime(self, value: str) -> dt.datetime | None:
        """Parse a date-time in a format of the stream's cursor. Return None for another format."""
        comparator = _find_cursor_comparator(self.stream.state_manager.order)
        return None if comparator is None else comparator.instant(value)

    @property
    def has_ended(self) -> bool:
        """True if reading can stop, because an earlier sync has sent all remaining records.

        It can be True only for a data feed, that is, if records are sorted from newest to oldest.
        """
        record_filter = self.stream._cursor_record_filter
        return record_filter is not None and record_filter.is_past

    @property
    def end_time(self) -> str | None:
        """End of the time range that is being read, in the cursor's format; None without windows.

        The bookmark does not go beyond it, because later records may not have been read.
        """
        current = self._current
        return None if current is None else current.cursor.format.write(current.end)

    # Reading

    def read(self, context: Context | None) -> Iterable[Record]:
        """Return the records of a partition or parent record, which ``context`` identifies.

        With ``incremental_sync``, they are read in one time window after the other.
        """
        request_records = self.stream.request_records
        if self.stream.incremental_sync is None and isgeneratorfunction(request_records):
            return request_records(context)  # each generator on the way costs time per record
        return self._read_windows(context)

    def _read_windows(self, context: Context | None) -> Iterator[Record]:
        stream, cursor = self.stream, self.stream.incremental_sync
        if cursor is None:
            yield from stream.request_records(context)
            return
        current = self._take_pass(cursor, context)
        last = cursor.format.write(current.end)
        stores_end = cursor.cutoff == "interval_end"
        with current.threads:
            for window, records in self._iterate_windows(current):
                if current.in_sync:
                    begin_window(stream, context, end=window.end_time, last=last)
                stream.stream_interval = window  # for `post_process`, a method of this object
                yield from records
                if current.in_sync and not self.has_gap:
                    until = window.end_time if stores_end else None
                    close_window(stream, context, until=until, is_last=window.is_last)
                elif current.is_trial:
                    return

    def _iterate_windows(
        self, current: _WindowPass
    ) -> Iterator[tuple[TimeWindow, Iterable[Record]]]:
        """Yield each time window of the reading ``current``, with its records.

        The caller must consume the records of a window before it requests the next one.
        """
        stream, cursor = self.stream, current.cursor
        is_sorted = stream.state_manager.is_sorted  # its bookmark advances with each record
        windows = (
            [self._only_interval.window]
            if self._only_interval
            else cursor.windows(current.lower, current.end, reads_end=is_sorted)
        )
        threads, run = self._get_thread_count(current), stream._tap.run
        if threads > 1:
            pool = current.threads.enter_context(WorkerPool(run, threads, [stream]))
            read = partial(_read_window, current=current)
            yield from prefetch_in_order(pool, stream, threads, windows, read)
            return
        if _has_single_window(cursor):
            yield from ((window, _read_window(stream, window, current)) for window in windows)
            return
        stream._prepare_for_threads(1)  # objects that the copies share
        for window in windows:
            copied = copy.copy(stream)
            yield window, _read_window(copied, window, current)
            stream._sync_costs = copied._sync_costs

    def _get_thread_count(self, current: _WindowPass) -> int:
        stream = self.stream
        if (
            _has_single_window(current.cursor)
            or not current.in_sync
            or stream.ABORT_AT_RECORD_COUNT is not None
            or not stream._tap.run.may_create_pools
        ):
            return 1
        return stream.max_parallel_windows

    # Start and end of a context

    def find_intervals(self, context: Context | None) -> Sequence[ReadInterval]:
        """Return time windows of a partition that can be synced independently of each other.

        ``context`` identifies the partition. Return an empty sequence if it cannot be divided, for
        example because the stream has no cursor.
        """
        cursor = self.stream.incremental_sync
        if cursor is None or _has_single_window(cursor):
            return ()
        from tap_core.incremental.time_windows import ReadInterval

        current = self._make_pass(cursor, context)
        lower, end = current.lower, current.end
        return [ReadInterval(window, lower, end) for window in cursor.windows(lower, end)]

    @contextmanager
    def reading_only(self, interval: ReadInterval) -> Iterator[None]:
        """Context manager that restricts reading to one time window, ``interval``."""
        self._only_interval = interval
        try:
            yield
        finally:
            self._only_interval = None

    def begin(self, context: Context | None) -> Callable[[Record], bool] | None:
        """Prepare the sync of a partition, and return a filter for its records.

        The filter is a function that returns True for a record to keep; None keeps all records.
        """
        record_filter = self.begin_preview(context)
        if self._current is not None:
            self._current.in_sync = True
        return record_filter

    def begin_preview(self, context: Context | None) -> Callable[[Record], bool] | None:
        """Prepare to read a partition without changing its state; return a filter of records."""
        cursor = self.stream.incremental_sync
        if cursor is None:
            return None
        self._current = self._make_pass(cursor, context)
        record_filter = self._current.record_filter
        return None if record_filter is None else record_filter.admits

    def begin_trial(self, context: Context | None) -> None:
        """Prepare a connection test, which reads only the first time window of a partition."""
        if self.stream.incremental_sync is not None:
            self._current = self._make_pass(self.stream.incremental_sync, context)
            self._current.is_trial = True

    def end(self) -> None:
        """End the reading of a partition, and stop the threads that read its windows."""
        current, self._current = self._current, None
        self.stream.stream_interval = self.stream._cursor_record_filter = None
        if current is not None:
            current.threads.__exit__(*sys.exc_info())  # `close` would hide the error from the pool

    def _take_pass(self, cursor: DatetimeBasedCursor, context: Context | None) -> _WindowPass:
        """Return the state for reading a partition in time windows.

        It is the state that `begin` has prepared, which is used for one reading only, or a new one.
        """
        current = self._current
        if current is None or current.is_taken or current.context != context:
            current = self._make_pass(cursor, context)
        current.is_taken = True
        return current

    def _make_pass(self, cursor: DatetimeBasedCursor, context: Context | None) -> _WindowPass:
        stream, comparator = self.stream, self.stream.state_manager.order
        if stream.state_manager.is_sorted:
            _check_sorted_cursor(cursor, stream.name)
        start, end = self.find_time_range(cursor)
        stored = self.find_stored(cursor, context)
        lower = cursor.lower_bound(start, stored)
        if self._only_interval is not None:
            lower, end = self._only_interval.lower, self._only_interval.end
        if lower > end:
            comparator.warn_once(
                "nothing",
                "nothing to read, since the interval would start at %s, after its end %s.",
                cursor.format.write(lower),
                cursor.format.write(end),
            )
        record_filter = self._make_filter(cursor, lower, end, stored)
        return _WindowPass(cursor, context, lower, end, record_filter)

    def find_time_range(self, cursor: DatetimeBasedCursor) -> tuple[dt.datetime, dt.datetime]:
        """Return the start and end of the time range to read.

        Without a backfill, both come from the cursor's settings. A backfill may start before the
        configured start, but never reads beyond the configured end.
        """
        now, limits = utc_now(), self.stream._read_range
        end = self._find_edge(cursor, "end", now)
        if limits is None:
            return self._find_edge(cursor, "start", now), end
        return limits.start, end if limits.last is None else min(end, limits.last)

    def _find_edge(self, cursor: DatetimeBasedCursor, name: str, now: dt.datetime) -> dt.datetime:
        config = self.stream.config
        try:
            edge: dt.datetime = getattr(cursor, name)(config, now)  # the method `start` or `end`
        except ValueError as error:
            secrets = collect_secrets(config, getattr(self.stream._tap, "config_jsonschema", None))
            raise self.make_edge_error(secrets.hide(str(error)), name) from None
        return edge

    def make_edge_error(self, message: str, name: str) -> ConfigurationError:
        """Return the error for a cursor's start or end that is not a valid date-time.

        ``name`` is ``start`` or ``end``. The text of the error is ``message``, and the names of the
        settings that contain the wrong value.
        """
        named = sorted(self.find_edge_settings(message, name))
        if named:
            settings = " and ".join(f"'{setting}'" for setting in named)
            word = "setting" if len(named) == 1 else "settings"
            message = f"{message.rstrip('.')}. It comes from the {word} {settings}."
        return ConfigurationError(f"Stream '{self.stream.name}': {message}")

    def find_edge_settings(self, message: str, name: str) -> Iterable[str]:  # noqa: ARG002
        """Return the names of the settings that contain the cursor's wrong start or end.

        ``message`` is the text of the error that was raised. A setting is returned if the message
        quotes its text. ``name``, which is ``start`` or ``end``, is used only by subclasses.
        """
        texts = {key: text for key, text in self.stream.config.items() if isinstance(text, str)}
        return [key for key, text in texts.items() if text and repr(text) in message]

    def find_stored(
        self, cursor: DatetimeBasedCursor, context: Context | None
    ) -> dt.datetime | None:
        """Return the bookmark of a partition as a datetime.

        ``context`` identifies the partition. Return None if there is no usable bookmark; the
        partition is then read from the start date.
        """
        stream = self.stream
        if stream.replication_method != REPLICATION_INCREMENTAL:
            return None
        manager, key = stream.state_manager, str(stream.replication_key)
        state = manager.get_context_state(context)
        value = state.get("replication_key_value")
        if value is None or state.get("replication_key") != key:
            return None
        parsed = self.parse_datetime(value)
        if parsed is not None:
            return parsed
        instant = parse_instant(value)  # written by a version of the tap without a cursor
        if instant is None:
            stream.log(
                "The cursor value %r in the state is neither in one of the cursor's formats nor"
                " ISO 8601: all data is read from the start date.",
                value,
                level=logging.WARNING,
            )
            return None
        bookmark, _ = instant
        manager.replace_bookmark(context, cursor.format.write(bookmark))
        return bookmark

    def _make_filter(
        self,
        cursor: DatetimeBasedCursor,
        lower: dt.datetime,
        end: dt.datetime,
        stored: dt.datetime | None,
    ) -> CursorRecordFilter | None:
        """Return the filter for the records of a partition, or None if no filter is needed.

        Depending on the cursor, the filter drops records outside ``lower`` and ``end``, or records
        at the bookmark ``stored``, which were sent before.
        """
        from tap_core.incremental.record_filter import CursorRecordFilter

        sent_until = stored if cursor.boundary == "drop" and stored == lower else None
        comparator = _find_cursor_comparator(self.stream.state_manager.order)
        if comparator is None or (sent_until is None and not cursor.filters_records):
            return None
        upper = end if cursor.filters_records else None
        lower = cursor.format.read(cursor.format.write(lower))  # as precise as in a request
        find = make_getter(self.stream.replication_path)
        return CursorRecordFilter(comparator, find, lower=lower, upper=upper, sent_until=sent_until)

    def complete(self, *, saw_all: bool) -> None:
        """Finalize the states of all partitions, and warn of misplaced records in a data feed.

        ``saw_all`` is True if the sync has read all existing partitions. A data feed is sorted from
        newest to oldest. A record that comes after an older one is misplaced.
        """
        super().complete(saw_all=saw_all)
        comparator = _find_cursor_comparator(self.stream.state_manager.order)
        if comparator is not None and comparator.feed_order.misplaced:
            self.stream.log(
                "Summary of '%s': %d records of the feed came after older ones; it is not"
                " ordered from newest to oldest.",
                self.stream.name,
                comparator.feed_order.misplaced,
                level=logging.WARNING,
            )
            comparator.feed_order.misplaced = 0


def _check_sorted_cursor(cursor: DatetimeBasedCursor, stream: str) -> None:
    """Check that a cursor is suitable for a sorted stream, whose bookmark advances per record.

    An interrupted sync leaves the bookmark inside a window, or at one of several equal values.

    Raises:
        ConfigurationError: With this cursor, the next sync would miss records after the bookmark,
            or read older records again.
    """
    if (
        cursor.lookback_window
        or cursor.is_data_feed
        or cursor.clamp is not None
        or cursor.boundary == "drop"
    ):
        raise ConfigurationError(
            f"Stream '{stream}' is declared sorted, but its cursor reads older records again"
            " (lookback_window), newest first (is_data_feed) or only whole days, weeks or months"
            " (clamping), or drops records at the bookmark (boundary). Set is_sorted = False."
        )


def _has_single_window(cursor: DatetimeBasedCursor) -> bool:
    """Return True if a partition or parent record is read in one time window, without threads."""
    return cursor.is_data_feed or not cursor.step


def _find_cursor_comparator(comparator: ReplicationKeyComparator) -> CursorComparator | None:
    """Return ``comparator`` if it is a `CursorComparator`, made for a cursor; otherwise None."""
    if type(comparator) is ReplicationKeyComparator:
        return None
    from tap_core.incremental.cursor_comparator import CursorComparator  # only for a cursor

    return comparator if isinstance(comparator, CursorComparator) else None


def _read_window(
    stream: WindowedStreamProtocol, window: TimeWindow, current: _WindowPass
) -> Iterable[Record]:
    """Set ``window`` as the time window that a stream reads, and return its records."""
    stream.stream_interval, stream._cursor_record_filter = window, current.record_filter
    return stream.request_records(current.context)
