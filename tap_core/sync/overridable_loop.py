"""Sync loop that calls a stream's overridable methods, such as ``_process_record``, per record.

It is used for streams that override such a method. All others use the faster loop in
`tap_core.sync.engine`. The methods are called in the order of the Meltano Singer SDK, for which the
overrides were written. Both loops use the same record encoder, so the output is the same. If a
stream does not override ``_increment_stream_state``, a cursor advances its bookmarks, as in the
other loop.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from tap_core.exceptions import (
    AbortedSyncFailedException,
    AbortedSyncPausedException,
    InvalidStreamSortException,
    MaxRecordsLimitException,
)
from tap_core.singerlib.catalog import REPLICATION_FULL_TABLE
from tap_core.state.replication_key_path import make_getter
from tap_core.sync.engine import (
    begin_partition,
    closing_records,
    end_partition,
    end_records,
    get_contexts,
    handle_key_error,
    lock_context,
    open_child_pool,
    open_cursor,
)
from tap_core.sync.metrics import record_metrics
from tap_core.sync.override_detection import is_overridden
from tap_core.sync.plan import get_plan
from tap_core.sync.record_input import (
    as_record,
    call_get_records,
    check_record,
    split_record_and_context,
)
from tap_core.sync.resend_filter import make_resend_filter
from tap_core.sync.state_frequency import find_next_state, state_is_due

if TYPE_CHECKING:
    from tap_core.state.bookmark_cursor import BookmarkCursor
    from tap_core.sync.interfaces import SyncStream
    from tap_core.sync.plan import Plan
    from tap_core.sync.record_count import Tally
    from tap_core.sync.sync_run import SyncRun
    from tap_core.types import Context, Record

__all__ = ["abort_sync", "check_record_limit", "sync_with_hooks", "write_record"]


def sync_with_hooks(
    stream: SyncStream, context: Context | None, *, write_messages: bool
) -> Iterator[Record]:
    """Sync a stream by calling its overridable methods, such as ``post_process``, per record.

    Yield each record after it is written. Write no messages if ``write_messages`` is False: the
    caller then writes the records.
    """
    run = stream._tap.run
    signpost = None if context else stream.get_replication_key_signpost(context)
    done = 0
    with record_metrics(stream, run) as tally, open_child_pool(stream, run, get_plan(stream)):
        for current in get_contexts(stream, context):
            with lock_context(stream, run, current):
                bookmark = begin_partition(stream, current, signpost)
                try:
                    partition = _PartitionSync(stream, tally, done, write_messages=write_messages)
                    yield from partition.records(current, bookmark)
                finally:
                    run.settle()
                done = partition.done
                end_partition(stream, current, bookmark)
    end_records(stream, context, write=write_messages)


class _PartitionSync:
    """Sync of one partition by calling the stream's overridable methods for each record.

    Attributes:
        done: Number of records in this sync of the stream, including earlier partitions.
    """

    def __init__(
        self, stream: SyncStream, tally: Tally, done: int, *, write_messages: bool
    ) -> None:
        self.stream = stream
        self.run: SyncRun = stream._tap.run
        self.tally = tally
        self.done = self._done_before = done
        self.write_messages = write_messages
        self._is_sent: Callable[[Any], bool] | None = None
        self._admits: Callable[[Record], bool] | None = None
        self._cursor: BookmarkCursor | None = None
        self._get_key = make_getter(stream.replication_path)

    def records(self, context: Context | None, bookmark: Context | None) -> Iterator[Record]:
        """Process each record of a partition with the stream's overridable methods, then yield it.

        Args:
            context: Values that identify the partition, or None.
            bookmark: Those of the values that identify the partition's bookmark.
        """
        stream = self.stream
        child_context = None if context is None else copy.copy(context)
        self._is_sent = make_resend_filter(stream, context)
        self._admits = stream._context_reader.begin(context)
        results = self.run.guard_records(call_get_records(stream, context))
        with closing_records(stream, results), self._open_cursor(context) as self._cursor:
            yield from self._process_results(results, context, child_context, bookmark)

    def _open_cursor(
        self, context: Context | None
    ) -> AbstractContextManager[BookmarkCursor | None]:
        """Return a context manager that yields the cursor for the bookmark of a partition.

        It yields None if the bookmark must be advanced by ``_increment_stream_state``, because the
        stream overrides that method, or because threads sync its child streams.
        """
        stream = self.stream
        is_replaced = is_overridden(stream, "_increment_stream_state", "state_manager")
        if is_replaced or stream.name in self.run.child_pools:
            return nullcontext()
        return open_cursor(stream, self.run, context)

    def _process_results(
        self,
        results: Iterable[Any],
        context: Context | None,
        child_context: Context | None,
        bookmark: Context | None,
    ) -> Iterator[Record]:
        stream = self.stream
        for result in results:
            stream._check_max_record_limit(current_record_index=self.done)
            record = result
            if isinstance(record, tuple):
                record, child_context = split_record_and_context(record)
            check_record(record, stream.name)
            record = stream.post_process(record, context)
            check_record(record, stream.name)
            if record is None or (self._admits is not None and not self._admits(record)):
                continue
            try:
                is_written = self._write(record, context, child_context, bookmark)
            except InvalidStreamSortException as error:
                number = self.done + 1
                stream.state_manager.log_sort_error(
                    ex=error,
                    current_context=context,
                    record_count=number,
                    partition_record_count=number - self._done_before,
                )
                raise
            if is_written:
                yield record
            self.done += 1

    def _write(
        self,
        record: Record,
        context: Context | None,
        child_context: Context | None,
        bookmark: Context | None,
    ) -> bool:
        """Process one record; return True if it is written, or if the caller must write it."""
        stream = self.stream
        stream._process_record(record, child_context=child_context, partition_context=bookmark)
        child_pool = self.run.child_pools.get(stream.name)
        if child_pool is not None:  # the overridden methods advance the bookmark at once
            child_pool.drain()
        if not stream.selected or (self._is_sent is not None and self._is_sent(record)):
            return False
        with self.run.delaying_stop():  # a stop here would leave a written row uncounted
            if self.write_messages:
                stream._write_record_message(record)
            else:  # before the bookmark advances, since another thread may then write a state
                self.run.files.block_states(stream.name)
            self.tally.count_read(1)
        self._advance_bookmark(record, context)
        if self.write_messages and self._is_state_due():
            stream._write_state_message()
        return True

    def _advance_bookmark(self, record: Record, context: Context | None) -> None:
        if self._cursor is None:
            self.stream._increment_stream_state(record, context=context)
            return
        try:
            self._cursor.advance(self._get_key(record))
        except KeyError as error:
            position = self.done + 1
            handle_key_error(self.stream, self._cursor, error, record, position, self._done_before)

    def _is_state_due(self) -> bool:
        next_state = find_next_state(self.stream, self.done)
        return state_is_due(self.stream, self.tally, self.done + 1, next_state)


def write_record(stream: SyncStream, plan: Plan, record: Record) -> None:
    """Encode one record of a stream by its sync plan, and add it to the buffered rows.

    Deselected properties are removed and stream maps are applied first. If the buffer is then full,
    its rows are written.
    """
    run = stream._tap.run
    before = run.open(plan)
    if not run.bodies:
        run.begin_chunk()
    record = as_record(record, stream.name)
    if plan.mapped is None:
        body = plan.serializer.serialize(record)
        run.bodies.append(body)
        run.buffered_bytes += len(body)
    else:
        bodies = plan.mapped.bodies(record)
        run.bodies.extend(bodies)
        run.buffered_bytes += plan.mapped.sizes(bodies)
    if len(run.bodies) >= run.row_limit or run.buffered_bytes >= run.chunk_bytes:
        run.flush()
    run.open(before)


def check_record_limit(stream: SyncStream, current_record_index: int) -> None:
    """Abort the sync if the stream's ``ABORT_AT_RECORD_COUNT`` is reached.

    ``current_record_index`` is the number of records before the current one.

    Raises:
        AbortedSyncFailedException: The next sync cannot resume from the current state.
        AbortedSyncPausedException: The next sync can resume from the current state.
    """
    limit = stream.ABORT_AT_RECORD_COUNT
    if limit is not None and current_record_index > limit - 1:
        stream._abort_sync(
            MaxRecordsLimitException(
                "Stream prematurely aborted due to the stream's max dry run record limit"
                f" ({limit}) being reached."
            )
        )


def abort_sync(stream: SyncStream, abort_reason: Exception) -> None:
    """End the sync of a stream early: write the current state, then raise an error.

    ``abort_reason`` becomes the cause of the error.

    Raises:
        AbortedSyncFailedException: The next sync cannot resume from the state.
        AbortedSyncPausedException: The next sync can resume from the state.
    """
    stream._tap.run.settle_bookmarks()
    stream._write_state_message()
    if stream.replication_method == REPLICATION_FULL_TABLE:
        msg = "Sync operation aborted for stream in 'FULL_TABLE' replication mode."
        raise AbortedSyncFailedException(msg) from abort_reason
    if stream.state_manager.is_state_non_resumable():
        msg = "Sync operation aborted and state is not in a resumable state."
        raise AbortedSyncFailedException(msg) from abort_reason
    raise AbortedSyncPausedException from abort_reason
