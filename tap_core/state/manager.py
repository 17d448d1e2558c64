"""State manager of one stream: its starting values, its bookmarks and their finalization.

- A stream is sorted *for its state* if it is declared sorted and has no
  ``state_partitioning_keys``: contexts that share one bookmark do not come in order.
- Each state dict that gets progress markers has a signpost, partitions included; a sorted
  stream has none, because its bookmark is exact.
- Every change of a state dict in this module is reported to the document.
- `PartitionLimit` decides which partitions have an entry in the document, and holds the state
  of all others.
- Constructor keywords and methods are those of singer_sdk's ``StreamStateManager``.
"""

from __future__ import annotations

import datetime as dt
import functools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from tap_core.singerlib.catalog import REPLICATION_FULL_TABLE
from tap_core.state import bookmarks
from tap_core.state.bookmark_cursor import BookmarkCursor
from tap_core.state.comparison import ReplicationKeyComparator, is_missing, make_comparator
from tap_core.state.document import StateDocument
from tap_core.state.partition_limit import PartitionLimit, retain_entries
from tap_core.types import Context, Record, TapState

__all__ = ["StreamStateManager"]


_Manager = TypeVar("_Manager", bound="StreamStateManager")
_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")


def _at_once(
    method: Callable[Concatenate[_Manager, _Given], _Found],
) -> Callable[Concatenate[_Manager, _Given], _Found]:
    """Decorate a method to hold the document's lock, so that its change is encoded as a whole."""

    @functools.wraps(method)
    def guarded(self: _Manager, *args: _Given.args, **kwargs: _Given.kwargs) -> _Found:
        with self.document.lock:
            return method(self, *args, **kwargs)

    return guarded  # type: ignore[return-value]


class StreamStateManager:
    """State of one stream. ``is_flushed`` is managed by the writer of STATE messages.

    ``document`` is shared by the streams of a tap; without it one is created for ``tap_state``.
    ``order`` compares the values of the replication key; without it they are compared as text.
    ``partition_limit`` is the maximum number of partitions with their own bookmark.
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
        self.order = order or make_comparator(None)
        self.is_flushed: bool = True
        self._is_sorted = is_sorted
        self._check_sorted = check_sorted
        self._logger = logging.getLogger(tap_name).getChild(stream_name)
        self._told_start = False
        self._partition_limit = partition_limit
        self._limit: tuple[int, PartitionLimit] | None = None

    # State dicts

    @property
    def is_sorted(self) -> bool:
        """True if the bookmark itself advances with the records."""
        return self._is_sorted and self.state_partitioning_keys is None

    @property
    def stream_state(self) -> dict[str, Any]:
        """State dict of the stream; created if absent."""
        return self.document.stream_state(self.stream_name)

    @_at_once
    def get_context_state(self, context: Context | None) -> dict[str, Any]:
        """Return the state dict of a context's partition, or of the stream without a context."""
        return self._get_state(context, self.document.context_state)

    def get_state_partition_context(self, context: Context | None) -> Context | None:
        """Return the part of a context that identifies its bookmark; None without a context."""
        keys = self.state_partitioning_keys
        if context is None or keys is None:
            return context
        return {key: value for key, value in context.items() if key in keys}

    def get_state_partitions(self) -> list[dict[str, Any]] | None:
        """Return the partitions in the state, or None if it has none."""
        return self.document.partitions(self.stream_name)

    def touch(self, context: Context | None = None) -> None:
        """Mark the state dict of a context as changed by other code."""
        self.document.touch(self.stream_name, self.get_state_partition_context(context))

    @_at_once
    def share(self, context: Context | None = None) -> None:
        """Mark the state dict of a context as referenced by other code, which may change it."""
        partition = self.get_state_partition_context(context)
        if not partition or not self._limit_of_run.is_beyond(partition):
            self.document.share(self.stream_name, partition)

    # Start of a context

    @_at_once
    def write_starting_replication_value(
        self,
        context: Context | None,
        replication_method: str,
        replication_key: str | None,
        config: Mapping[str, Any],
        compare_start_date_fn: Callable[[str, str], str] | None = None,
    ) -> None:
        """Store the value from which this context starts: the bookmark or ``start_date``.

        A bookmark of another replication key is ignored. If both values exist,
        ``compare_start_date_fn(bookmark, start_date)`` decides; without it the bookmark is used.
        Nothing is stored for FULL_TABLE streams.
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
            value = _later_start(value, config.get("start_date"), compare_start_date_fn)
            self._log_start(value)
        bookmarks.write_starting_replication_value(state, value)

    def get_starting_replication_value(
        self, context: Context | None, replication_method: str
    ) -> Any | None:
        """Return the value stored by `write_starting_replication_value`; None for FULL_TABLE."""
        state = self.get_context_state(context)
        if replication_method == REPLICATION_FULL_TABLE:
            return None
        return bookmarks.get_starting_replication_value(state)

    @_at_once
    def write_replication_key_signpost(
        self,
        value: dt.datetime | str | float | None,
        *,
        context: Context | None = None,
    ) -> None:
        """Set the value beyond which no marker of this context is promoted.

        Nothing is written without a value, or for a sorted stream.
        """
        if is_missing(value) or value == "" or self.is_sorted:
            return
        bookmarks.write_replication_key_signpost(self._change(context), value)

    # Progress during a sync

    @_at_once
    def cursor(
        self,
        context: Context | None,
        *,
        replication_key: str,
        on_first_marker: Callable[[], object] | None = None,
        state: dict[str, Any] | None = None,
    ) -> BookmarkCursor:
        """Return a cursor that follows the replication key through the records of a context.

        ``state`` is a state dict to use instead of the context's own. If the stream is handled as
        unsorted, ``on_first_marker`` is called, or a warning is logged once.
        """
        return BookmarkCursor(
            self.get_context_state(context) if state is None else state,
            replication_key=replication_key,
            is_sorted=self.is_sorted,
            check_sorted=self._check_sorted,
            order=self.order,
            on_first_marker=on_first_marker or self._warn_unsorted,
        )

    @_at_once
    def increment_state(
        self, latest_record: Record, *, context: Context | None = None, replication_key: str
    ) -> None:
        """Move the bookmark or the markers to the value of one record.

        Raises:
            InvalidStreamSortException: The stream is sorted and the value is smaller.
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

    @_at_once
    def finalize_state(self, state: dict[str, Any] | None = None) -> None:
        """Promote the markers of one state dict to its bookmark."""
        state = self.stream_state if state is None else state
        bookmarks.finalize_state_progress_markers(state, order=self.order)
        self.document.touch(self.stream_name, state.get("context"))
        self._limit_of_run.finish(state)
        self.is_flushed = False

    def finalize_progress_markers(
        self,
        state: dict[str, Any] | None = None,
        partitions: Iterable[Context] | None = None,
    ) -> None:
        """Promote the markers of one state dict, or of all ``partitions``, or of the stream."""
        if state:
            self.finalize_state(state)
            return
        for context in partitions or [{}]:
            self._finalize(context or None)

    @_at_once
    def close_window(
        self, context: Context | None, *, replication_key: str, until: str | None = None
    ) -> None:
        """Promote the markers of a context that continues, because everything so far is complete.

        With ``until`` the bookmark is at least that value. It never decreases.
        """
        state = self._change(context)
        bookmarks.promote_progress_markers(state, order=self.order)
        if until is not None:
            bookmarks.advance_bookmark(state, replication_key, until, self.order)
        self.is_flushed = False

    @_at_once
    def replace_bookmark(self, context: Context | None, value: Any) -> None:
        """Write the bookmark of a context in another format."""
        self._change(context)["replication_key_value"] = value

    @property
    def reads_everything(self) -> bool:
        """True if every context of this run so far was read from its beginning."""
        return bool(self._limit_of_run.reads_everything)

    @_at_once
    def complete(
        self,
        *,
        replication_key: str | None,
        saw_all: bool = True,
        keeps: Callable[[Context], bool] | None = None,
    ) -> bool:
        """Finalize the partitions in the state; return True if any of them changed.

        Call this after all partitions of a run have ended.

        Args:
            replication_key: Replication key of the stream, or None.
            saw_all: True if the run has read all partitions of the source. Only then is ``keeps``
                used.
            keeps: Function that is called for each partition that was not read; those for which
                it returns False are removed.
        """
        limit, state = self._limit_of_run, self.stream_state
        limit.finish_all(ended=self.state_partitioning_keys is not None, order=self.order)
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
        """Return True if an interruption now would lose the progress of a context."""
        return bookmarks.is_state_non_resumable(self.get_context_state(context))

    def log_sort_error(
        self,
        *,
        ex: Exception,
        current_context: Context | None,
        record_count: int,
        partition_record_count: int,
    ) -> None:
        """Log the record, and the partition, at which a sort error occurred."""
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
        """Return the state dict of a context for an immediate change."""
        return self._get_state(context, self.document.change)

    @property
    def _limit_of_run(self) -> PartitionLimit:
        """Partition limit of the current run, created from the state at its start."""
        if self._limit is None or self._limit[0] != self.document.runs:
            state = bookmarks.get_state_if_exists(self.document.tap_state, self.stream_name) or {}
            limit = PartitionLimit(self.stream_name, state, self._partition_limit, self.order)
            self._limit = (self.document.runs, limit)
        return self._limit[1]

    def _get_state(
        self,
        context: Context | None,
        take: Callable[[str, Context | None], dict[str, Any]],
    ) -> dict[str, Any]:
        """Return the state dict of a context, from the document or from beyond the limit."""
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
        limit = self._limit_of_run
        if limit.reads_everything is None:
            limit.reads_everything = True
        if partition := self.get_state_partition_context(context):
            limit.visit(partition)

    def _is_finished_beyond(self, context: Context | None) -> bool:
        partition, limit = self.get_state_partition_context(context), self._limit_of_run
        return not (
            not partition
            or not limit.was_passed
            or limit.is_beyond(partition)
            or self._has_entry(partition)
        )

    @_at_once
    def _finalize(self, context: Context | None) -> None:
        self.is_flushed = False
        if self._is_finished_beyond(context):
            return
        if not bookmarks.is_final(self.get_context_state(context)):
            self.finalize_state(self._change(context))

    def _warn_unsorted(self) -> None:
        if not self.order.is_declared:  # a declared stream resumes from its windows
            self.order.warn_once(bookmarks.ASSUMED_UNSORTED, bookmarks.ASSUMED_UNSORTED)

    def _log_start(self, value: Any) -> None:
        """Log the starting value; for contexts after the first, at DEBUG level."""
        if value is None:
            return
        level = logging.DEBUG if self._told_start else logging.INFO
        self._told_start = True
        self._logger.log(level, "Stream '%s' starts at %r.", self.stream_name, value)


def _later_start(bookmark: Any, start_date: Any, compare: Callable[[str, str], str] | None) -> Any:
    """Return the starting value; an empty or zero bookmark is ignored, as in singer_sdk."""
    if not start_date:
        return bookmark or None
    if not bookmark:
        return start_date
    return compare(bookmark, start_date) if compare else bookmark
