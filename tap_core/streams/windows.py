"""Streams that are read in date windows.

An author only sets `incremental_sync`. Formats, windows and their bounds are in
`tap_core.incremental`; the state changes are in `tap_core.sync.window_state`. Each window is
read by a copy of the stream with its own `stream_interval`, so that several windows can be
read in parallel. Records are written, and bookmarks move, in the order of the windows.
"""

from __future__ import annotations

import abc
import copy
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tap_core.exceptions import ConfigurationError
from tap_core.incremental.ordering import CursorComparator, make_comparator
from tap_core.incremental.record_filter import CursorRecordFilter
from tap_core.incremental.windows import ReadInterval
from tap_core.parsing.datetimes import utc_now
from tap_core.redaction import collect_secrets
from tap_core.singerlib.catalog import REPLICATION_INCREMENTAL
from tap_core.state.comparison import parse_instant
from tap_core.state.replication_key import make_getter
from tap_core.streams.core import Stream
from tap_core.sync.prefetch import prefetch_in_order
from tap_core.sync.window_state import begin_window, close_window
from tap_core.sync.worker_pool import WorkerPool

if TYPE_CHECKING:
    import datetime as dt

    from tap_core.incremental.cursor import DatetimeBasedCursor
    from tap_core.incremental.windows import TimeWindow
    from tap_core.state.comparison import ReplicationKeyComparator
    from tap_core.types import Context, Record

__all__ = ["WindowedStream"]


@dataclass(slots=True)
class _WindowPass:
    """One pass over one context, from its lower bound to its end."""

    cursor: DatetimeBasedCursor
    context: Context | None
    lower: dt.datetime
    end: dt.datetime
    gate: CursorRecordFilter | None
    threads: ExitStack = field(default_factory=ExitStack)
    """Resources of the reading threads, closed at the end of the pass."""
    is_taken: bool = False
    in_sync: bool = False
    """True during a sync; otherwise no state is changed and no threads are used."""
    is_trial: bool = False
    """True if one window is enough, as in a connection test."""

    @property
    def is_one(self) -> bool:
        """True if there is one window, which the stream itself reads without copies or threads."""
        return self.cursor.is_data_feed or not self.cursor.step


class WindowedStream(Stream, abc.ABC):
    """Stream that can be read in time windows."""

    incremental_sync: DatetimeBasedCursor | None = None
    """Cursor by which the stream is read in windows; None reads the stream as a whole.

    The cursor field is the replication key, unless the stream or a catalog defines another one.
    """

    stream_interval: TimeWindow | None = None
    """Window that is being read, for code that builds requests or changes records."""

    max_parallel_windows: int = 1
    """Number of threads that may read windows. Set it above 1 only if this stream, and the code it
    uses, is thread-safe. Contexts that are synced in threads read one window at a time."""

    _round: _WindowPass | None = None
    _gate: CursorRecordFilter | None = None
    _only: ReadInterval | None = None

    # Properties that depend on the cursor

    @property
    def replication_key(self) -> str | None:
        """Name of the property that grows as records change; the cursor field by default."""
        declared = self.incremental_sync
        return self._replication_key or (declared.cursor_field if declared else None)

    @replication_key.setter
    def replication_key(self, new_value: str | None) -> None:
        self._replication_key = new_value
        self._plan = None

    @property
    def state_partitioning_keys(self) -> Sequence[str] | None:
        """Context keys that identify a bookmark; an empty list if the cursor is global."""
        declared = self.incremental_sync
        if self._state_partitioning_keys is None and declared and declared.global_substream_cursor:
            return []
        return self._state_partitioning_keys

    @state_partitioning_keys.setter
    def state_partitioning_keys(self, new_value: Sequence[str] | None) -> None:
        self._state_partitioning_keys = new_value
        self._state_manager = None

    def get_replication_key_signpost(self, context: Context | None = None) -> Any | None:
        """Return the greatest bookmark of this sync; None with a cursor, whose windows limit it."""
        if self.incremental_sync is not None:
            return None
        return super().get_replication_key_signpost(context)

    def compare_start_date(self, value: str, start_date_value: str) -> str:
        """Return the later of a bookmark and ``start_date``, in the formats of the cursor."""
        if self.incremental_sync is None:
            return super().compare_start_date(value, start_date_value)
        order = self.state_manager.order
        return value if order.newer_or_equal(value, start_date_value) else start_date_value

    @property
    def _start_date(self) -> Any:
        cursor = self.incremental_sync
        if cursor is None or self.replication_method != REPLICATION_INCREMENTAL:
            return super()._start_date
        return cursor.format.write(self._edges(cursor)[0])

    def _parse_datetime(self, value: str) -> dt.datetime:
        """Parse a date-time in one of the cursor's formats, else in ISO 8601."""
        order = self.state_manager.order
        found = order.instant(value) if isinstance(order, CursorComparator) else None
        return super()._parse_datetime(value) if found is None else found

    def _order(self) -> ReplicationKeyComparator:
        declared = self.incremental_sync
        return super()._order() if declared is None else make_comparator(declared, self.name)

    # Reading

    @abc.abstractmethod
    def request_records(self, context: Context | None) -> Iterable[Record]:
        """Yield the records of all pages of a context, or of its current window."""

    def get_records(self, context: Context | None) -> Iterable[Record]:
        """Yield the records of a context; with a cursor, one window after the other."""
        cursor = self.incremental_sync
        if cursor is None:
            yield from self.request_records(context)
            return
        current = self._take_round(cursor, context)
        last = cursor.format.write(current.end)
        is_kept = cursor.cutoff == "interval_end"
        with current.threads:
            for window, records in self._parts(current):
                if current.in_sync:
                    begin_window(self, context, end=window.end_time, last=last)
                self.stream_interval = window  # for `post_process`, which is called on this object
                yield from records
                if current.in_sync and not self._has_gap:
                    until = window.end_time if is_kept else None
                    close_window(self, context, until=until, is_last=window.is_last)
                elif current.is_trial:
                    return

    @property
    def _has_gap(self) -> bool:
        """True if records of the current context were skipped, so that no window may be closed."""
        return False

    def _parts(self, current: _WindowPass) -> Iterator[tuple[TimeWindow, Iterable[Record]]]:
        """Yield each window with its records, which must be consumed before the next window."""
        windows = self._windows(current)
        size, run = self._get_thread_count(current), self._tap.run
        if size > 1:
            crew = current.threads.enter_context(WorkerPool(run, size, [self]))
            read = WindowedStream._read_window
            yield from prefetch_in_order(
                crew, self, size, windows, lambda made, one: read(made, one, current)
            )
            return
        if current.is_one:
            yield from ((window, self._read_window(window, current)) for window in windows)
            return
        self._prepare_for_threads(1)  # objects that the copies share
        for window in windows:
            made = copy.copy(self)
            yield window, made._read_window(window, current)
            self._sync_costs = made._sync_costs

    def _windows(self, current: _WindowPass) -> Iterable[TimeWindow]:
        if self._only is not None:
            return [self._only.window]
        return current.cursor.windows(current.lower, current.end)

    def _get_thread_count(self, current: _WindowPass) -> int:
        if (
            current.is_one
            or not current.in_sync
            or self.ABORT_AT_RECORD_COUNT is not None
            or not self._tap.run.may_lead
        ):
            return 1
        return self.max_parallel_windows

    def _read_window(self, window: TimeWindow, current: _WindowPass) -> Iterable[Record]:
        """Return the records of one window; this stream object reads only that window."""
        self.stream_interval, self._gate = window, current.gate
        return self.request_records(current.context)

    @property
    def _has_ended(self) -> bool:
        """True if a newest-first feed has reached data sent before, which ends the pagination."""
        return self._gate is not None and self._gate.is_past

    # Start and end of a context

    def _intervals(self, context: Context | None) -> Sequence[ReadInterval]:
        """Return the windows of a context that can be read separately, or an empty sequence."""
        cursor = self.incremental_sync
        if cursor is None or cursor.is_data_feed or not cursor.step:
            return ()
        current = self._new_round(cursor, context)
        lower, end = current.lower, current.end
        return [ReadInterval(window, lower, end) for window in cursor.windows(lower, end)]

    @contextmanager
    def _reading_only(self, interval: ReadInterval) -> Iterator[None]:
        """Restrict reading to one window of a context for the duration of the block."""
        self._only = interval
        try:
            yield
        finally:
            self._only = None

    def _begin_context(self, context: Context | None) -> Callable[[Record], bool] | None:
        cursor = self.incremental_sync
        if cursor is None:
            return None
        self._round = self._new_round(cursor, context)
        self._round.in_sync = True
        gate = self._round.gate
        return None if gate is None else gate.admits

    def _begin_trial(self, context: Context | None) -> None:
        if self.incremental_sync is not None:
            self._round = self._new_round(self.incremental_sync, context)
            self._round.is_trial = True

    def _end_context(self) -> None:
        """Stop the threads that read windows of this context."""
        current, self._round, self.stream_interval, self._gate = self._round, None, None, None
        if current is not None:
            current.threads.__exit__(*sys.exc_info())

    def _take_round(self, cursor: DatetimeBasedCursor, context: Context | None) -> _WindowPass:
        """Return the pass that the engine started, or start one outside of a sync."""
        current = self._round
        if current is None or current.is_taken or current.context != context:
            current = self._new_round(cursor, context)
        current.is_taken = True
        return current

    def _new_round(self, cursor: DatetimeBasedCursor, context: Context | None) -> _WindowPass:
        if self.state_manager.is_sorted and (cursor.lookback_window or cursor.is_data_feed):
            raise ConfigurationError(
                f"Stream '{self.name}' is declared sorted, but its cursor reads older records"
                " again (lookback_window) or newest first (is_data_feed). Set is_sorted = False."
            )
        start, end = self._edges(cursor)
        stored = self._stored(cursor, context)
        lower = cursor.lower_bound(start, stored)
        if self._only is not None:
            lower, end = self._only.lower, self._only.end
        if lower > end:
            self.state_manager.order.warn_once(
                "nothing",
                "Stream '%s': nothing to read, since the interval would start at %s, after its"
                " end %s.",
                self.name,
                cursor.format.write(lower),
                cursor.format.write(end),
            )
        return _WindowPass(cursor, context, lower, end, self._new_gate(cursor, lower, end, stored))

    def _edges(self, cursor: DatetimeBasedCursor) -> tuple[dt.datetime, dt.datetime]:
        """Return the configured start and end of the data to read."""
        now = utc_now()
        return self._edge(cursor, "start", now), self._edge(cursor, "end", now)

    def _edge(self, cursor: DatetimeBasedCursor, name: str, now: dt.datetime) -> dt.datetime:
        try:
            found: dt.datetime = getattr(cursor, name)(self.config, now)
        except ValueError as error:
            secrets = collect_secrets(self.config, getattr(self._tap, "config_jsonschema", None))
            raise self._wrong_edge(secrets.hide(str(error)), name) from None
        return found

    def _wrong_edge(self, message: str, name: str) -> ConfigurationError:  # noqa: ARG002
        """Return the error for a start or end that is not a date-time."""
        return ConfigurationError(f"Stream '{self.name}': {message}")

    def _stored(self, cursor: DatetimeBasedCursor, context: Context | None) -> dt.datetime | None:
        """Return the datetime up to which a context was synced, or None for the beginning."""
        if self.replication_method != REPLICATION_INCREMENTAL:
            return None
        manager, key = self.state_manager, str(self.replication_key)
        state = manager.get_context_state(context)
        value = state.get("replication_key_value")
        if value is None or state.get("replication_key") != key:
            return None
        order = manager.order
        found = order.instant(value) if isinstance(order, CursorComparator) else None
        if found is not None:
            return found
        iso = parse_instant(value)  # written by a version of the tap without a cursor
        if iso is None:
            self.log(
                "The cursor value %r in the state is neither in one of the cursor's formats nor"
                " ISO 8601: all data is read from the start date.",
                value,
                level=logging.WARNING,
            )
            return None
        manager.replace_bookmark(context, cursor.format.write(iso[0]))
        return iso[0]

    def _new_gate(
        self,
        cursor: DatetimeBasedCursor,
        lower: dt.datetime,
        end: dt.datetime,
        stored: dt.datetime | None,
    ) -> CursorRecordFilter | None:
        """Return the record filter, or None if the API filters the records."""
        passed = stored if cursor.boundary == "drop" and stored == lower else None
        order = self.state_manager.order
        if not isinstance(order, CursorComparator) or (passed is None and not cursor.filters):
            return None
        upper = end if cursor.filters else None
        find = make_getter(self.replication_path)
        return CursorRecordFilter(order, find, lower=lower, upper=upper, passed=passed)

    def _complete_state(self, *, saw_all: bool) -> None:
        super()._complete_state(saw_all=saw_all)
        order = self.state_manager.order
        if isinstance(order, CursorComparator) and order.ranks.misplaced:
            self.log(
                "Summary of '%s': %d records of the feed came after older ones; it is not"
                " ordered from newest to oldest.",
                self.name,
                order.ranks.misplaced,
                level=logging.WARNING,
            )
            order.ranks.misplaced = 0
