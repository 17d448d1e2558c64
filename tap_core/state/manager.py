"""What one stream does with its state: where it stands, from where it starts, when it ends.

Rules of the room:

- A stream is sorted *for its state* when it says so and has no ``state_partitioning_keys``
  of its own: several contexts that share one bookmark do not come in order.
- Signposts stand at every state dict that gets progress markers, partitions included, and
  never in a sorted stream, whose bookmark is exact.
- Whatever changes a state dict here tells the document.
- Constructor keywords and methods are those of singer_sdk's ``StreamStateManager``.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tap_core.catalog import REPLICATION_FULL_TABLE
from tap_core.state import bookmarks
from tap_core.state.cursor import Cursor
from tap_core.state.document import StateDocument
from tap_core.state.order import Order, is_missing, order_of
from tap_core.types import Context, Record, TapState

__all__ = ["StreamStateManager"]


class StreamStateManager:
    """The state of one stream. ``is_flushed`` belongs to whoever writes STATE messages.

    ``document`` is shared by the streams of a tap; without it one is made for ``tap_state``.
    ``order`` compares the values of the replication key; without it as text.
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
        order: Order | None = None,
    ) -> None:
        self.tap_name = tap_name
        self.stream_name = stream_name
        self.tap_state = tap_state
        self.state_partitioning_keys = state_partitioning_keys
        self.document = document or StateDocument(tap_state)
        self.order = order or order_of(None)
        self.is_flushed = True
        self._is_sorted = is_sorted
        self._check_sorted = check_sorted
        self._logger = logging.getLogger(tap_name).getChild(stream_name)
        self._told_start = False

    # Where the state stands

    @property
    def is_sorted(self) -> bool:
        """Whether the bookmark itself moves with the records."""
        return self._is_sorted and self.state_partitioning_keys is None

    @property
    def stream_state(self) -> dict[str, Any]:
        """The state dict of the stream, made if absent."""
        return self.document.stream_state(self.stream_name)

    def get_context_state(self, context: Context | None) -> dict[str, Any]:
        """Return the state dict for a context: its partition's, or the stream's for none."""
        return self.document.context_state(
            self.stream_name, self.get_state_partition_context(context)
        )

    def get_state_partition_context(self, context: Context | None) -> Context | None:
        """Return the part of a context by which state is kept; None for no context."""
        keys = self.state_partitioning_keys
        if context is None or keys is None:
            return context
        return {key: value for key, value in context.items() if key in keys}

    def get_state_partitions(self) -> list[dict[str, Any]] | None:
        """Return the partitions in the state; None when there are none."""
        return self.document.partitions(self.stream_name)

    def touch(self, context: Context | None = None) -> None:
        """Say that the state dict for a context was changed from outside."""
        self.document.touch(self.stream_name, self.get_state_partition_context(context))

    # The start of a context

    def write_starting_replication_value(
        self,
        context: Context | None,
        replication_method: str,
        replication_key: str | None,
        config: Mapping[str, Any],
        compare_start_date_fn: Callable[[str, str], str] | None = None,
    ) -> None:
        """Write down from which value this context starts: bookmark or ``start_date``.

        A bookmark of another replication key does not count. Where both are there
        ``compare_start_date_fn(bookmark, start_date)`` decides; without it the bookmark
        does. Nothing is written for full-table streams.
        """
        if replication_method == REPLICATION_FULL_TABLE:
            return
        state = self._change(context)
        value = None
        if replication_key:
            if replication_key == state.get("replication_key"):
                value = state.get("replication_key_value")
            value = _later_start(value, config.get("start_date"), compare_start_date_fn)
            self._tell_start(value)
        bookmarks.write_starting_replication_value(state, value)

    def get_starting_replication_value(
        self, context: Context | None, replication_method: str
    ) -> Any | None:
        """Return what `write_starting_replication_value` wrote; None for full-table streams."""
        state = self.get_context_state(context)
        if replication_method == REPLICATION_FULL_TABLE:
            return None
        return bookmarks.get_starting_replication_value(state)

    def write_replication_key_signpost(
        self,
        value: dt.datetime | str | float | None,
        *,
        context: Context | None = None,
    ) -> None:
        """Set the value beyond which no marker of this context may be promoted.

        Nothing is written without a value, or for a sorted stream.
        """
        if is_missing(value) or value == "" or self.is_sorted:
            return
        bookmarks.write_replication_key_signpost(self._change(context), value)

    # While records come

    def cursor(
        self,
        context: Context | None,
        *,
        replication_key: str,
        on_first_marker: Callable[[], object] | None = None,
    ) -> Cursor:
        """Return what follows the replication key through the records of a context.

        That the stream is taken as unsorted is warned of once, or told by ``on_first_marker``.
        """
        return Cursor(
            self.get_context_state(context),
            replication_key=replication_key,
            is_sorted=self.is_sorted,
            check_sorted=self._check_sorted,
            order=self.order,
            on_first_marker=on_first_marker or self._tell_unsorted,
        )

    def increment_state(
        self, latest_record: Record, *, context: Context | None = None, replication_key: str
    ) -> None:
        """Move the bookmark or the markers to the value of one record.

        Raises InvalidStreamSortException when the value is smaller in a sorted stream.
        """
        bookmarks.increment_state(
            self._change(context),
            latest_record=latest_record,
            replication_key=replication_key,
            is_sorted=self.is_sorted,
            check_sorted=self._check_sorted,
            order=self.order,
        )

    # The end

    def finalize_state(self, state: dict[str, Any] | None = None) -> None:
        """Promote the markers of one state dict."""
        state = self.stream_state if state is None else state
        bookmarks.finalize_state_progress_markers(state, order=self.order)
        self.document.touch(self.stream_name, state.get("context"))
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

    def is_state_non_resumable(self, context: Context | None = None) -> bool:
        """Return whether an interruption now would lose the progress of a context."""
        return bookmarks.is_state_non_resumable(self.get_context_state(context))

    def log_sort_error(
        self,
        *,
        ex: Exception,
        current_context: Context | None,
        record_count: int,
        partition_record_count: int,
    ) -> None:
        """Log at which record, and in which partition, the order broke."""
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
        """Return the state dict for a context, which is about to be changed."""
        return self.document.change(self.stream_name, self.get_state_partition_context(context))

    def _finalize(self, context: Context | None) -> None:
        self.is_flushed = False
        if not bookmarks.is_final(self.get_context_state(context)):
            bookmarks.finalize_state_progress_markers(self._change(context), order=self.order)

    def _tell_unsorted(self) -> None:
        self.order.tell_once(bookmarks.ASSUMED_UNSORTED, bookmarks.ASSUMED_UNSORTED)

    def _tell_start(self, value: Any) -> None:
        """Log the start; for the contexts after the first only where someone wants every detail."""
        if value is None:
            return
        level = logging.DEBUG if self._told_start else logging.INFO
        self._told_start = True
        self._logger.log(level, "Stream '%s' starts at %r.", self.stream_name, value)


def _later_start(bookmark: Any, start_date: Any, compare: Callable[[str, str], str] | None) -> Any:
    """Return from where to start; an empty or zero bookmark is none, as in singer_sdk."""
    if not start_date:
        return bookmark or None
    if not bookmark:
        return start_date
    return compare(bookmark, start_date) if compare else bookmark
