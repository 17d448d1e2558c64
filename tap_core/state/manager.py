"""State manager of one stream: starting values, bookmarks, and their finalization.

- A context is a dict of values that identifies a partition or a parent record.
- A stream with ``state_partitioning_keys`` is treated as unsorted: several contexts share a
  bookmark, and their records together are not sorted.
- Each state dict of an unsorted stream gets a signpost, the upper limit of its bookmark. A sorted
  stream needs no signpost, because its bookmark is exact.
- Every change of a state dict in this module is reported to the `StateDocument`.
- `PartitionLimit` decides which partitions have an entry in the document, and keeps the state of
  all others in memory.
- Constructor keywords and methods are those of singer_sdk's ``StreamStateManager``.
"""

from __future__ import annotations

import datetime as dt
import functools
import logging
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from tap_core.parsing.datetimes import utc_now
from tap_core.parsing.iso8601 import parse_instant
from tap_core.singerlib.catalog import REPLICATION_FULL_TABLE
from tap_core.state import bookmarks
from tap_core.state.bookmark_cursor import BookmarkCursor
from tap_core.state.document import StateDocument
from tap_core.state.partition_limit import PartitionLimit, retain_entries
from tap_core.state.replication_key_comparator import (
    ReplicationKeyComparator,
    ValueKind,
    is_missing,
    make_comparator,
)
from tap_core.types import Context, Record, TapState

__all__ = ["StreamStateManager"]

_CLOCK_TOLERANCE = dt.timedelta(days=1)
"""A bookmark may be this far in the future, as clocks differ and local times may have no zone."""

_Manager = TypeVar("_Manager", bound="StreamStateManager")
_Params = ParamSpec("_Params")
_Result = TypeVar("_Result")


def _locked(
    method: Callable[Concatenate[_Manager, _Params], _Result],
) -> Callable[Concatenate[_Manager, _Params], _Result]:
    """Decorator that runs a method while it holds the lock of the state document.

    The document is therefore never encoded in the middle of a change.
    """

    @functools.wraps(method)
    def guarded(self: _Manager, *args: _Params.args, **kwargs: _Params.kwargs) -> _Result:
        with self.document.lock:
            return method(self, *args, **kwargs)

    return guarded  # type: ignore[return-value]


class StreamStateManager:
    """Manager of the state of one stream.

    Args:
        stream_name: Name of the stream, its key in the state's ``bookmarks``.
        tap_state: State dict of the whole tap.
        is_sorted: True if records arrive in ascending order of the replication key.
        check_sorted: True to raise an error for records that are not in order.
        tap_name: Name of the tap, for the logger.
        state_partitioning_keys: Keys of a partition's values (its context) that identify a
            bookmark; None for all keys, an empty list for a single bookmark.
        document: State document shared by all streams of a tap. By default a new document is
            created for ``tap_state``.
        order: Comparator of replication key values. By default they are compared as text.
        partition_limit: Maximum number of partitions with a separate bookmark; None for no limit.

    Attributes:
        is_flushed: True if the state has not changed since its last STATE message. The writer of
            the message sets it to True.
        sent_partitions: Partitions of the stream's `previously_sent_state`, by `freeze_context` of
            their contexts; None before the first lookup.
    """

    def __init__(
        self,
        *,
        stream_name: str,
        tap_state: TapState | dict[str, Any],
        is_sorted: bool = False,
        check_sorted: bool = True,
        tap_name: str | None = None,
        state_partitioning_keys: Sequence[str] | None = None,
        document: StateDocument | None = None,
        order: ReplicationKeyComparator | None = None,
        partition_limit: int | None = None,
    ) -> None:
        self.tap_name = tap_name
        self.stream_name = stream_name
        self.tap_state = tap_state
        self.state_partitioning_keys = state_partitioning_keys
        self.document: StateDocument = document or StateDocument(tap_state)
        self.order = order or make_comparator(None, stream_name)
        self.is_flushed: bool = True
        self.sent_partitions: Mapping[Hashable, Mapping[str, Any]] | None = None
        self._is_sorted = is_sorted
        self._check_sorted = check_sorted
        self._logger = logging.getLogger(tap_name).getChild(stream_name)
        self._start_was_logged = False
        self.partition_limit = partition_limit
        self._limit: tuple[int, PartitionLimit] | None = None

    # State dicts

    @property
    def is_sorted(self) -> bool:
        """True if the stream is sorted, so that records advance the bookmark directly.

        If it is False, records advance a progress marker, which becomes the bookmark at the end.
        """
        return self._is_sorted and self.state_partitioning_keys is None

    @property
    def stream_state(self) -> dict[str, Any]:
        """State dict of the stream in the state document, created if missing."""
        return self.document.stream_state(self.stream_name)

    @_locked
    def get_context_state(self, context: Context | None) -> dict[str, Any]:
        """Return the state dict of the partition that ``context`` identifies.

        Without a context, return the state dict of the stream. A missing dict is created.
        """
        return self._get_state(context, self.document.context_state)

    def get_state_partition_context(self, context: Context | None) -> Context | None:
        """Return the items of a context that identify its bookmark, or None without a context.

        They are the items with a key in ``state_partitioning_keys``, by default all items.
        """
        keys = self.state_partitioning_keys
        if context is None or keys is None:
            return context
        return {key: value for key, value in context.items() if key in keys}

    def get_state_partitions(self) -> list[dict[str, Any]] | None:
        """Return the list of partition entries in the stream's state, or None if it has no list."""
        return bookmarks.get_state_partitions_list(self.document.tap_state, self.stream_name)

    def touch(self, context: Context | None = None) -> None:
        """Discard the cached JSON text of a state dict that has changed.

        ``context`` identifies the partition; None means the stream.
        """
        self.document.touch(self.stream_name, self.get_state_partition_context(context))

    @_locked
    def share(self, context: Context | None = None) -> None:
        """Do not cache the JSON text of a state dict that the tap's code may change at any time.

        ``context`` identifies the partition; None means the stream. From now on the dict is encoded
        again for each STATE message.
        """
        partition = self.get_state_partition_context(context)
        if not partition or not self._limit_of_run.is_beyond(partition):
            self.document.share(self.stream_name, partition)

    # Start of a context

    @_locked
    def write_starting_replication_value(
        self,
        context: Context | None,
        replication_method: str,
        replication_key: str | None,
        config: Mapping[str, Any],
        compare_start_date_fn: Callable[[str, str], str] | None = None,
    ) -> None:
        """Store the replication key value at which reading will start.

        The value is the bookmark or, if there is no bookmark, the setting ``start_date``. Nothing
        is stored for FULL_TABLE streams.

        Args:
            context: Values that identify the partition to read; None for the stream.
            replication_method: Replication method of the stream, such as ``INCREMENTAL``.
            replication_key: Replication key of the stream. A bookmark of another key is ignored.
            config: Configuration of the tap, for ``start_date``.
            compare_start_date_fn: Called as ``(bookmark, start_date)`` if both exist; returns the
                value to use. By default the bookmark is used.
        """
        self._visit(context)
        if replication_method == REPLICATION_FULL_TABLE:
            return
        state = self._change(context)
        value = None
        if replication_key:
            if replication_key == state.get("replication_key"):
                value = state.get("replication_key_value")
                self._limit_of_run.reads_everything = not value and self.reads_everything
            value = _choose_start(value, config.get("start_date"), compare_start_date_fn)
            self._log_start(value)
        bookmarks.write_starting_replication_value(state, value)

    def get_starting_replication_value(
        self, context: Context | None, replication_method: str
    ) -> Any | None:
        """Return the replication key value at which reading starts in this sync.

        ``context`` identifies the partition. Return None for a FULL_TABLE stream, and if reading
        starts at the beginning.
        """
        state = self.get_context_state(context)
        if replication_method == REPLICATION_FULL_TABLE:
            return None
        return bookmarks.get_starting_replication_value(state)

    @_locked
    def write_replication_key_signpost(
        self,
        value: dt.datetime | str | float | None,
        *,
        context: Context | None = None,
    ) -> None:
        """Set the signpost of a partition: the greatest bookmark that it may get in this sync.

        Nothing is done if ``value`` is empty, or if the stream is sorted and needs no signpost.
        """
        if is_missing(value) or value == "" or self.is_sorted:
            return
        bookmarks.write_replication_key_signpost(self._change(context), value)

    # Progress during a sync

    @_locked
    def cursor(
        self,
        context: Context | None,
        *,
        replication_key: str,
        state: dict[str, Any] | None = None,
    ) -> BookmarkCursor:
        """Return a cursor that advances a bookmark while the records of a partition are read.

        Args:
            context: Values that identify the partition, or None for the stream.
            replication_key: Replication key of the stream.
            state: State dict to update. By default it is the partition's own.
        """
        return BookmarkCursor(
            self.get_context_state(context) if state is None else state,
            replication_key=replication_key,
            is_sorted=self.is_sorted,
            check_sorted=self._check_sorted,
            order=self.order,
            on_first_marker=self._warn_unsorted,
        )

    @_locked
    def increment_state(
        self, latest_record: Record, *, context: Context | None = None, replication_key: str
    ) -> None:
        """Advance the bookmark to the replication key value of one record.

        For an unsorted stream a progress marker is advanced instead.

        Raises:
            InvalidStreamSortException: The stream is sorted and the value is smaller than the
                bookmark.
        """
        bookmarks.increment_state(
            self._change(context),
            latest_record=latest_record,
            replication_key=replication_key,
            is_sorted=self.is_sorted,
            check_sorted=self._check_sorted,
            order=self.order,
        )

    # End of a context or stream

    @_locked
    def finalize_state(self, state: dict[str, Any] | None = None) -> None:
        """Store the progress marker in a state dict as the bookmark, after all records are read.

        The marker is the latest value of an unsorted stream. ``state`` is the state dict of a
        partition; by default it is that of the stream.
        """
        state = self.stream_state if state is None else state
        bookmarks.finalize_state_progress_markers(state, order=self.order)
        self._warn_future_bookmark(state)
        self.document.touch(self.stream_name, state.get("context"))
        self._limit_of_run.finish(state)
        self.is_flushed = False

    def finalize_progress_markers(
        self,
        state: dict[str, Any] | None = None,
        partitions: Iterable[Context] | None = None,
    ) -> None:
        """Store progress markers as bookmarks at the end of an unsorted stream or partition.

        Args:
            state: State dict to finalize; if it is passed, ``partitions`` is ignored.
            partitions: Contexts of the partitions to finalize. By default the state dict of the
                stream is finalized.
        """
        if state:
            self.finalize_state(state)
            return
        for context in partitions or [{}]:
            self._finalize(context or None)

    @_locked
    def close_window(
        self, context: Context | None, *, replication_key: str, until: str | None = None
    ) -> None:
        """Store the progress marker of an unsorted partition as its bookmark after a time window.

        Unlike in `finalize_state`, the starting value is kept, because more windows may follow.

        Args:
            context: Values that identify the partition, or None for the stream.
            replication_key: Replication key of the stream.
            until: Replication key value at the end of the window. An earlier bookmark is advanced
                to it.
        """
        state = self._change(context)
        bookmarks.promote_progress_markers(state, order=self.order)
        if until is not None:
            bookmarks.advance_bookmark(state, replication_key, until, self.order)
        self.is_flushed = False

    @_locked
    def replace_bookmark(self, context: Context | None, value: Any) -> None:
        """Replace a bookmark by ``value``, which is the same bookmark in another format.

        ``context`` identifies the partition; None means the stream.
        """
        self._change(context)["replication_key_value"] = value

    @property
    def reads_everything(self) -> bool:
        """True if this run reads all partitions from the beginning, without a bookmark."""
        return bool(self._limit_of_run.reads_everything)

    @_locked
    def complete(
        self,
        *,
        replication_key: str | None,
        saw_all: bool = True,
        keeps: Callable[[Context], bool] | None = None,
    ) -> bool:
        """Finalize the partitions in the state at the end of the stream; remove obsolete ones.

        Args:
            replication_key: Replication key of the stream, or None.
            saw_all: True if this run has read all partitions of the source. If False, no partition
                is removed from the state.
            keeps: Function that returns False to remove a partition from the state. It is called
                with the context of each stored partition that this run did not read.

        Returns:
            True if the state changed.
        """
        limit, state = self._limit_of_run, self.stream_state
        limit.finish_all(ended=self.state_partitioning_keys is not None)
        entries = state.get("partitions") or []
        stay = retain_entries(entries, limit, keeps) if keeps and saw_all else entries
        if pruned := len(stay) < len(entries):
            state["partitions"] = stay
        changed = limit.close(state, replication_key=replication_key, saw_all=saw_all)
        if not state.get("partitions", True):
            del state["partitions"]
        if pruned or changed:
            self.document.touch(self.stream_name)
            self.is_flushed = False
        return pruned or changed

    def is_state_non_resumable(self, context: Context | None = None) -> bool:
        """Return True if an interruption would lose the progress of a partition or stream.

        This is the case while its state dict has progress markers, as for an unsorted stream.
        """
        return bookmarks.is_state_non_resumable(self.get_context_state(context))

    def log_sort_error(
        self,
        *,
        ex: Exception,
        current_context: Context | None,
        record_count: int,
        partition_record_count: int,
    ) -> None:
        """Log an error for a record that is out of order.

        Args:
            ex: Exception with the two replication key values.
            current_context: Values that identify the record's partition or parent record.
            record_count: Number of the record in the sync of the stream.
            partition_record_count: Number of the record in the partition.
        """
        bookmarks.log_sort_error(
            ex=ex,
            log_fn=self._logger.error,
            stream_name=self.stream_name,
            current_context=current_context,
            state_partition_context=self.get_state_partition_context(current_context),
            record_count=record_count,
            partition_record_count=partition_record_count,
        )

    def _change(self, context: Context | None) -> dict[str, Any]:
        """Return the state dict of a partition for the caller to change, and mark it as changed."""
        return self._get_state(context, self.document.change)

    @property
    def _limit_of_run(self) -> PartitionLimit:
        """Partition limit of the current run. It is created from the state when the run starts."""
        if self._limit is None or self._limit[0] != self.document.runs:
            state = bookmarks.get_state_if_exists(self.document.tap_state, self.stream_name) or {}
            limit = PartitionLimit(self.stream_name, state, self.partition_limit, self.order)
            self._limit = (self.document.runs, limit)
        return self._limit[1]

    def _get_state(
        self,
        context: Context | None,
        take: Callable[[str, Context | None], dict[str, Any]],
    ) -> dict[str, Any]:
        """Return the state dict of the partition that ``context`` identifies.

        ``take`` is a method of the state document that returns the state dict of a partition. It is
        not called for a partition beyond the stream's maximum number of partitions. Such a
        partition gets a dict that is not part of the state.
        """
        partition, limit = self.get_state_partition_context(context), self._limit_of_run
        if not partition or limit.is_idle or self._has_entry(partition):
            return take(self.stream_name, partition)
        count = len(self.get_state_partitions() or ())
        if limit.has_room(count):
            entry = take(self.stream_name, partition)
            limit.begin(entry)
            return entry
        if not limit.was_passed:
            limit.pass_limit(self.document.change(self.stream_name), count + 1)
        return limit.beyond(partition)

    def _has_entry(self, partition: Context) -> bool:
        return self.document.has_partition(self.stream_name, partition)

    def _visit(self, context: Context | None) -> None:
        """Record that this run reads a partition, so that it is kept in the state."""
        limit = self._limit_of_run
        if limit.reads_everything is None:
            limit.reads_everything = True
        if partition := self.get_state_partition_context(context):
            limit.visit(partition)

    def _is_finished_beyond(self, context: Context | None) -> bool:
        """Return True if a partition beyond the maximum number of partitions is finished.

        It has no entry in the state: its bookmark is part of one that all such partitions share.
        """
        partition, limit = self.get_state_partition_context(context), self._limit_of_run
        if not partition or not limit.was_passed:
            return False
        return not limit.is_beyond(partition) and not self._has_entry(partition)

    @_locked
    def _finalize(self, context: Context | None) -> None:
        self.is_flushed = False
        if self._is_finished_beyond(context):
            return
        if not bookmarks.is_final(self.get_context_state(context)):
            self.finalize_state(self._change(context))

    def _warn_unsorted(self) -> None:
        if not self.order.has_declared_cursor:  # else it resumes from its time windows
            self.order.warn_once(bookmarks.ASSUMED_UNSORTED, bookmarks.ASSUMED_UNSORTED)

    def _warn_future_bookmark(self, state: dict[str, Any]) -> None:
        """Log a warning, once per stream, if the bookmark of a sorted stream is in the future.

        Later syncs then miss all rows with an earlier value. The bookmark of an unsorted stream has
        an upper limit, so it needs no warning.
        """
        if not self.is_sorted or self.order.kind is not ValueKind.INSTANT:
            return
        value = state.get("replication_key_value")
        instant = parse_instant(value)
        if instant is not None and instant[0] > utc_now() + _CLOCK_TOLERANCE:
            self.order.warn_once(
                "future",
                "the bookmark of '%s' is in the future (%s), so the next sync does not read rows"
                " with an earlier value. Correct or exclude the rows with such a value, and set the"
                " bookmark in the state to an earlier one.",
                state.get("replication_key"),
                value,
            )

    def _log_start(self, value: Any) -> None:
        """Log the value at which reading starts: for the first partition at INFO, then at DEBUG."""
        if value is None:
            return
        level = logging.DEBUG if self._start_was_logged else logging.INFO
        self._start_was_logged = True
        self._logger.log(level, "Stream '%s' starts at %r.", self.stream_name, value)


def _choose_start(bookmark: Any, start_date: Any, compare: Callable[[str, str], str] | None) -> Any:
    """Return the value at which reading starts: the bookmark or, without one, ``start_date``.

    If both exist and ``compare`` is not None, return the result of ``compare``. An empty or zero
    bookmark counts as missing, as in singer_sdk.
    """
    if not start_date:
        return bookmark or None
    if not bookmark:
        return start_date
    return compare(bookmark, start_date) if compare else bookmark
