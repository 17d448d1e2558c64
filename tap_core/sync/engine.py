"""Sync of one stream: iterate its contexts, read their records, advance their bookmarks.

- A context contains the values that identify a partition or a parent record.
- The order of steps is that of the Meltano Singer SDK: a record is read and post-processed, its
  child streams are synced, the record is written, then the bookmark advances. After an error, the
  rows already written are valid and the bookmark is unchanged.
- The bookmark of a partition becomes final when the partition ends.
- The fast path is the loop in this module. Streams that override methods called per record use the
  loop in `overridable_loop`. `sync_partition` syncs one context, in the main thread and in workers.
"""

from __future__ import annotations

import copy
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from tap_core.exceptions import (
    AbortedSyncFailedException,
    AbortedSyncPausedException,
    InvalidStreamSortException,
)
from tap_core.protocols.error_classification import is_known_error
from tap_core.records.serializer import ENCODING_ERRORS
from tap_core.singerlib.catalog import REPLICATION_INCREMENTAL
from tap_core.state.partition_index import freeze_context
from tap_core.state.replication_key_path import make_getter
from tap_core.sync.activate_version import emit_activate_version
from tap_core.sync.batch_messages import begin_batches, end_batches, sync_own_batches
from tap_core.sync.child_streams import (
    ChildSyncPool,
    DeferredBookmark,
    ensure_state_entry,
    sync_child_contexts,
)
from tap_core.sync.distribution import make_pool
from tap_core.sync.metrics import record_metrics
from tap_core.sync.partition_failures import ContextFailures
from tap_core.sync.plan import get_plan
from tap_core.sync.record_input import (
    as_record,
    call_get_records,
    check_context,
    check_record,
    split_record_and_context,
)
from tap_core.sync.replication_errors import missing_replication_key, require_replication_key
from tap_core.sync.resend_filter import make_resend_filter
from tap_core.sync.state_frequency import find_next_state, state_is_due
from tap_core.sync.thread_stop_signal import close_records
from tap_core.sync.worker_pool import SyncJob

if TYPE_CHECKING:
    from tap_core.state.bookmark_cursor import BookmarkCursor
    from tap_core.sync.interfaces import SyncStream
    from tap_core.sync.plan import Plan
    from tap_core.sync.record_count import Tally
    from tap_core.sync.sync_run import SyncRun
    from tap_core.sync.work_units import WorkUnit
    from tap_core.types import Context, Record

__all__ = [
    "begin_partition",
    "closing_records",
    "end_partition",
    "end_records",
    "get_contexts",
    "handle_key_error",
    "lock_context",
    "open_child_pool",
    "open_cursor",
    "sync_context",
    "sync_partition",
    "sync_stream",
    "sync_work_unit",
]


def sync_stream(stream: SyncStream, context: Context | None) -> None:
    """Sync a stream: read its records and write them to the output, with states.

    Sync all partitions of the stream, or only ``context`` if it is not None.
    """
    run = stream._tap.run
    stream = run.get_thread_stream(stream)
    context = stream.preprocess_context(context) if context else None
    check_context(context, stream.name, "get_child_context of its parent")
    _log_start(stream, context)
    stream.context = MappingProxyType(dict(context)) if context else None
    plan = get_plan(stream)
    signpost = stream.get_replication_key_signpost(context)
    if signpost is not None:
        stream._write_replication_key_signpost(context, signpost)
    if stream.selected:
        stream._write_schema_message()
        emit_activate_version(stream, run)
    own_batches = begin_batches(stream, run, plan)
    before = run.open(plan)
    try:
        if own_batches is not None:
            sync_own_batches(stream, own_batches, context)
        else:
            _sync_contexts(stream, run, plan, context, signpost)
    except Exception as error:
        # A known error is reported once, by the command line or to the connected caller.
        is_reported = run.outbox.check_caller is not None or is_known_error(error)
        level = logging.DEBUG if is_reported else logging.ERROR
        stream.log("An unhandled error occurred while syncing '%s'", stream.name, level=level)
        raise
    finally:
        run.open(before)
    if context is None:
        end_batches(stream, run)


def _log_start(stream: SyncStream, context: Context | None) -> None:
    """Log that the sync of a stream begins: at level INFO, or at DEBUG for a single partition."""
    method = stream.replication_method.lower()
    if context:
        stream.log(
            "Beginning sync of '%s' in %s mode with context keys: %s",
            stream.name,
            method,
            tuple(sorted(context)),
            level=logging.DEBUG,
        )
    else:
        stream.log("Beginning sync of '%s' in %s mode", stream.name, method)


def _sync_contexts(
    stream: SyncStream, run: SyncRun, plan: Plan, context: Context | None, signpost: Any
) -> None:
    """Sync the contexts (partitions) of a stream in other processes, in threads, or in this thread.

    Contexts start in the order of ``Stream.partitions``:

    - In this thread, each context is complete before the next one starts: its rows, its final
      bookmark, and a state, unless states are already a large part of the output.
    - In threads, several contexts are read at the same time and can end in any order. A bookmark
      becomes final at the end of its context.
    - In other processes, contexts are synced in groups. The rows of a group are written, then its
      bookmarks are merged in the order of its contexts, then a state is written.

    In all three cases the partitions in the state have the same order. Child streams are synced for
    each parent record before that record is written. With a `ChildSyncPool`, further parent records
    are read meanwhile, and the parent's bookmark advances when the children are done.

    Args:
        stream: Stream to sync.
        run: Sync of the calling thread.
        plan: Sync plan of the stream.
        context: The only context to sync; None for all.
        signpost: Upper limit of the bookmarks, such as the start time of the sync.
    """
    contexts: Iterable[Context | None] = get_contexts(stream, context)
    if (plan.threads > 1 or plan.distributes) and context is None:
        contexts, failure = _list_contexts(contexts)
        if failure is not None or len(contexts) > 1:
            _sync_in_parallel(stream, run, plan, contexts, signpost, failure)
            return
        if plan.distributes and _distribute_windows(stream, run, contexts[0]):
            return
        if plan.distributes:
            stream.log("'%s' has one context, so it is read by one process.", stream.name)
    if plan.uses_fast_path:
        _sync_contexts_here(stream, run, plan, contexts, context, signpost)
    else:
        for _ in stream._sync_records(context=context):
            pass


# Threads and other processes


def _list_contexts(
    contexts: Iterable[Context | None],
) -> tuple[list[Context | None], Exception | None]:
    """Return a list of ``contexts``, and the error that ended the iteration early (or None).

    A context contains the values that identify a partition.
    """
    listed: list[Context | None] = []
    try:
        listed.extend(contexts)
    except Exception as error:  # noqa: BLE001  raised after the listed contexts are synced
        return listed, error
    return listed, None


def _sync_in_parallel(
    stream: SyncStream,
    run: SyncRun,
    plan: Plan,
    contexts: list[Context | None],
    signpost: Any,
    failure: Exception | None,
) -> None:
    """Sync several contexts (partitions) of a stream in threads or in other processes.

    ``failure`` is the error that ended the listing of the contexts early, or None. It is raised
    after the listed contexts are synced. ``signpost`` is the upper limit of their bookmarks.
    """
    _create_state_entries(stream, plan, contexts, signpost)
    failures = ContextFailures(stream)
    with (
        record_metrics(stream, run),
        make_pool(run, plan.threads, [stream], distributes=plan.distributes) as pool,
    ):
        for current in contexts:
            work = partial(sync_context, context=current, signpost=signpost)
            pool.submit(SyncJob(stream, current, failures.wrap(work)))
        pool.drain()
    failures.raise_first()
    if failure is not None:
        raise failure
    end_records(stream, None)


def _create_state_entries(
    stream: SyncStream, plan: Plan, contexts: Iterable[Context | None], signpost: Any
) -> None:
    """Create the state entries of partitions in the order of ``contexts``, before they are read.

    If other processes sync the contexts, also store the starting values and the ``signpost``
    (upper limit of the bookmarks), because each process gets a copy of the entry.
    """
    for context in contexts:
        ensure_state_entry(stream, context)
        if plan.distributes:
            begin_partition(stream, context, signpost)


def _distribute_windows(stream: SyncStream, run: SyncRun, context: Context | None) -> bool:
    """Sync the time windows of a context (partition) in several other processes; return True.

    If the context has less than two windows or shares its bookmark, return False and do nothing.
    """
    if stream.state_partitioning_keys is not None:
        return False
    intervals = stream._context_reader.find_intervals(context)
    if len(intervals) < 2:  # noqa: PLR2004
        return False
    bookmark = begin_partition(stream, context, None)
    with (
        record_metrics(stream, run),
        make_pool(run, 1, [stream], distributes=True, in_order=True) as pool,
    ):
        for interval in intervals:
            pool.submit(SyncJob(stream, context, interval=interval))
        pool.drain()
    end_partition(stream, context, bookmark)
    end_records(stream, None)
    return True


def sync_work_unit(stream: SyncStream, unit: WorkUnit) -> Mapping[str, Any]:
    """Sync a work unit that another process has sent; return the new states by stream name.

    A work unit is a context (partition or parent record) or one of its time windows. The bookmarks
    in the work unit first replace the state of this process's tap. Partitions whose state is
    unchanged are not returned, because another work unit may have changed it.
    """
    document = stream._tap.document
    document.replace({"bookmarks": unit.bookmarks})
    for member in (stream, *stream.descendent_streams):
        member._stream_version = unit.versions.get(member.name)
        if member._stream_version is None:
            stream._tap.run.outbox.read_in_part.add(member.name)
    context = None if unit.context is None else dict(unit.context)
    if unit.is_child:
        with suppress(AbortedSyncFailedException, AbortedSyncPausedException):
            stream.sync(context=context)
    elif unit.interval is None:
        sync_context(stream, context)
    else:
        with stream._context_reader.reading_only(unit.interval):
            sync_context(stream, context)
    stream._tap.run.settle()
    return {
        name: _drop_unchanged(state, unit.bookmarks.get(name, {}))
        for name, state in document.tap_state["bookmarks"].items()
    }


def _drop_unchanged(state: Mapping[str, Any], sent: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stream's state without the partitions that are equal in the state ``sent``."""
    if not state.get("partitions"):
        return dict(state)
    before = {
        freeze_context(entry.get("context") or {}): entry for entry in sent.get("partitions", ())
    }
    changed = [
        entry
        for entry in state["partitions"]
        if entry != before.get(freeze_context(entry.get("context") or {}))
    ]
    return {**state, "partitions": changed}


def sync_context(stream: SyncStream, context: Context | None, signpost: Any = None) -> None:
    """Sync one context (partition) in a worker thread, with the thread's copy of the stream.

    ``signpost`` is the upper limit of the bookmark; None means no limit.
    """
    run, plan = stream._tap.run, get_plan(stream)
    run.open(plan)
    if plan.uses_fast_path:
        with record_metrics(stream, run) as tally:
            sync_partition(stream, run, plan, context, signpost, tally, 0)
    else:
        if signpost is not None:
            stream._write_replication_key_signpost(context, signpost)
        for _ in stream._sync_records(context=context):
            pass


def lock_context(
    stream: SyncStream, run: SyncRun, context: Context | None
) -> AbstractContextManager[None]:
    """Return a context manager that keeps other threads from syncing the same partition.

    ``context`` contains the values that identify the partition. There is no lock outside a worker
    pool, or if the partition shares its bookmark with others.
    """
    stop_signal = run.stop_signal
    if stop_signal is None or stream._get_state_partition_context(context) != context:
        return nullcontext()
    key = (stream.name, freeze_context(context or {}))
    return run.outbox.lock_key(key, run, stop_signal.check)


def open_child_pool(
    stream: SyncStream, run: SyncRun, plan: Plan
) -> AbstractContextManager[ChildSyncPool | None]:
    """Return a context manager that yields a pool for syncing the children of a stream.

    The pool syncs them while the stream is read. The context manager yields None if the children
    are synced without a pool.
    """
    if (plan.child_threads > 1 or plan.distributes_children) and run.may_create_pools:
        return ChildSyncPool(stream, run, plan.child_threads, distributes=plan.distributes_children)
    return nullcontext()


@contextmanager
def closing_records(stream: SyncStream, records: Iterable[Any]) -> Iterator[None]:
    """Context manager that releases the resources for reading ``records`` at the end of its block.

    It ends the stream's reader and closes the iterator. Otherwise, after an error, the iterator
    would be closed while the interpreter shuts down, when it can no longer log.
    """
    try:
        yield
    finally:
        stream._context_reader.end()
        close_records(records)


# Fast path


def _sync_contexts_here(
    stream: SyncStream,
    run: SyncRun,
    plan: Plan,
    contexts: Iterable[Context | None],
    context: Context | None,
    signpost: Any,
) -> None:
    """Sync contexts (partitions) of a stream one after the other in this thread, on the fast path.

    The fast path does not call the methods in `OVERRIDABLE_HOOKS` for each record. ``context`` is
    the only context to sync, or None. ``signpost`` is the upper limit of the bookmarks; it is used
    only if all contexts are synced.
    """
    done, failures = 0, ContextFailures(stream)
    signpost = None if context else signpost
    with record_metrics(stream, run) as tally, open_child_pool(stream, run, plan):
        for current in contexts:
            with failures.record_errors():
                done = sync_partition(stream, run, plan, current, signpost, tally, done)
    failures.raise_first()
    end_records(stream, context)


def sync_partition(
    stream: SyncStream,
    run: SyncRun,
    plan: Plan,
    context: Context | None,
    signpost: Any,
    tally: Tally,
    done: int,
) -> int:
    """Sync one context (partition or parent record), from its first record to its final bookmark.

    Args:
        stream: Stream to sync.
        run: Sync of the calling thread.
        plan: Sync plan of the stream.
        context: Context to sync.
        signpost: Upper limit of the bookmark; None for no limit.
        tally: Record counter of the stream.
        done: Number of records of the stream in earlier contexts.

    Returns:
        The number of records of the stream including this context.
    """
    child_pool: ChildSyncPool | None = run.child_pools.get(stream.name)
    with lock_context(stream, run, context):
        bookmark = begin_partition(stream, context, signpost)
        records = _read_records(stream, run, plan, context, bookmark)
        with closing_records(stream, records), open_cursor(stream, run, context) as cursor:
            if stream.selected:
                write = _write if plan.mapped is None else _write_mapped
                done = write(_WriteArguments(stream, run, plan, cursor, tally), records, done)
            else:
                done += sum(1 for _ in records)
            if child_pool is not None:
                child_pool.drain()
        end_partition(stream, context, bookmark)
        if not run.may_create_pools and state_is_due(stream, tally, done, sys.maxsize):
            stream._write_state_message()  # a partition may be smaller than STATE_MSG_FREQUENCY
    return done


def _read_records(
    stream: SyncStream, run: SyncRun, plan: Plan, context: Context | None, bookmark: Context | None
) -> Iterable[Any]:
    """Call ``get_records`` for a context (partition), and return the records to write.

    As far as the stream needs it, the records are post-processed and filtered, and child streams
    are synced. ``bookmark`` contains the items of ``context`` that identify its bookmark.
    """
    admits = stream._context_reader.begin(context)
    records = run.guard_records(call_get_records(stream, context))
    extra: Context = (bookmark or {}) if stream.add_context_to_records else {}
    if plan.post_processes or plan.syncs_children or extra or admits is not None:
        records = _process_records(stream, plan, records, context, extra, admits)
    child_pool: ChildSyncPool | None = run.child_pools.get(stream.name)
    if child_pool is not None:
        records = child_pool.count_children(records)
    is_sent = make_resend_filter(stream, context)
    return records if is_sent is None else (record for record in records if not is_sent(record))


def _process_records(  # noqa: C901 - one flat loop
    stream: SyncStream,
    plan: Plan,
    records: Iterable[Any],
    context: Context | None,
    extra: Context,
    admits: Callable[[Record], bool] | None,
) -> Iterator[Record]:
    """Post-process each record of a context (partition), sync its child streams, and yield it.

    Args:
        stream: Stream of the records.
        plan: Sync plan of the stream.
        records: Records as ``get_records`` yields them.
        context: Context of the records.
        extra: Values of the context to add to each record that lacks them. They are read after
            ``get_records`` has yielded the record, because it may add values to the context.
        admits: Filter, or None. Records for which the filter returns False are dropped.
    """
    post = stream.post_process if plan.post_processes else None
    child_context = None if context is None else copy.copy(context)
    for result in records:
        record = result
        if record.__class__ is not dict:
            if isinstance(record, tuple):
                record, child_context = split_record_and_context(record)
            check_record(record, stream.name)
        if post is not None:
            record = post(record, context)
            check_record(record, stream.name)
        if record is None or (admits is not None and not admits(record)):
            continue
        for name, value in extra.items():
            if name not in record:
                record[name] = value
        if plan.syncs_children:
            sync_child_contexts(stream, record, child_context)
        yield record


class _WriteArguments(NamedTuple):
    """Objects needed to write the records of a partition, such as the bookmark cursor."""

    stream: SyncStream
    run: SyncRun
    plan: Plan
    cursor: BookmarkCursor | None
    tally: Tally


def _write(arguments: _WriteArguments, records: Iterable[Any], done: int) -> int:  # noqa: C901 - one flat loop
    """Encode and write the records of a partition of a stream without stream maps.

    ``done`` is the number of the stream's records in earlier partitions. Return the number
    including these records.
    """
    # A helper function called per record would add about a tenth to the time per record.
    stream, run, plan, cursor, tally = arguments
    serializer, bodies = plan.serializer, run.bodies
    append, encode, fits = bodies.append, serializer.encode, serializer.fits
    key, get_key = stream.replication_key, plan.get_key
    start, size, next_state = done, run.buffered_bytes, find_next_state(stream, done)
    max_bytes = run.chunk_bytes
    counted, stop = done, min(done + run.row_limit - len(bodies), next_state)
    for record in records:
        if record.__class__ is not dict and (record := as_record(record, stream.name)) is None:
            continue
        done += 1
        if not bodies:
            run.begin_chunk()
            size = 0
        if fits(record):
            try:
                body = encode(record)
            except ENCODING_ERRORS:
                body = serializer(record)
        else:
            body = serializer(record)
            fits = serializer.fits
        append(body)
        if cursor is not None:
            try:
                value = record[key] if get_key is None else get_key(record)
                if (  # `advance` would do the same, for a date-time of the latest value's form
                    type(value) is str
                    and len(value) == cursor.form_length
                    and value[10] == cursor.form_gap
                    and value[16] == ":"
                    and value >= cursor.latest
                    and value.endswith(cursor.form_zone)
                ):
                    cursor.latest = value
                else:
                    cursor.advance(value)
            except (KeyError, InvalidStreamSortException) as error:
                handle_key_error(stream, cursor, error, record, done, start)
        size += len(body)
        if done >= stop or size >= max_bytes:
            run.buffered_bytes = size
            tally.count_read(done - counted)
            next_state = _end_chunk(arguments, done, next_state)
            counted, stop = done, min(done + run.get_row_limit(), next_state)
    run.buffered_bytes = size
    tally.count_read(done - counted)
    return done


def _write_mapped(arguments: _WriteArguments, records: Iterable[Any], done: int) -> int:
    """Apply stream maps to the records of a partition, and write the results.

    ``done`` is the number of the stream's records in earlier partitions. Return the number
    including these records. The bookmark also advances for records that a stream map drops.
    """
    stream, run, plan, cursor, tally = arguments
    assert plan.mapped is not None  # noqa: S101 - checked by the caller
    map_to_bodies, sizes = plan.mapped.bodies, plan.mapped.sizes
    get_key = make_getter(stream.replication_path)
    bodies, start, counted, next_state = run.bodies, done, done, find_next_state(stream, done)
    stop = min(done + run.row_limit - len(bodies), next_state)
    try:
        for result in records:
            if (record := as_record(result, stream.name)) is None:
                continue
            mapped = map_to_bodies(record)
            if mapped:
                if not bodies:
                    run.begin_chunk()
                bodies.extend(mapped)
                run.buffered_bytes += sizes(mapped)
            done += 1
            if cursor is not None:
                try:
                    cursor.advance(get_key(record))
                except (KeyError, InvalidStreamSortException) as error:
                    handle_key_error(stream, cursor, error, record, done, start)
            if done >= stop or run.buffered_bytes >= run.chunk_bytes:
                tally.count_read(done - counted)
                counted = done
                next_state = _end_chunk(arguments, done, next_state)
                stop = min(done + run.get_row_limit(), next_state)
    finally:
        tally.count_read(done - counted)
    return done


def _end_chunk(arguments: _WriteArguments, done: int, next_state: int) -> int:
    """Write the buffered records, and then a state if one is due.

    ``done`` is the number of the stream's records so far. A state is due when it reaches
    ``next_state``. Return the number at which the next state is due.
    """
    stream = arguments.stream
    arguments.run.settle()
    if state_is_due(stream, arguments.tally, done, next_state):
        stream._write_state_message()
    elif done < next_state:
        return next_state
    return find_next_state(stream, done)


def get_contexts(stream: SyncStream, context: Context | None) -> Iterator[Context | None]:
    """Yield the contexts to sync: only ``context`` or, if it is None, all partitions.

    A context contains the values that identify a partition. For a stream without partitions, yield
    None once.

    Raises:
        FatalSyncError: A partition is not a dict.
    """
    if context is not None:
        yield context or None
    else:
        for partition in stream.partitions or [{}]:
            check_context(partition, stream.name, "partitions")
            yield partition or None


@contextmanager
def open_cursor(
    stream: SyncStream, run: SyncRun, context: Context | None
) -> Iterator[BookmarkCursor | None]:
    """Context manager that yields the cursor for advancing the bookmark of a partition.

    States written inside the block include the cursor's latest value. Yield None for a stream that
    is not incremental or not selected.
    """
    if not stream.selected or stream.replication_method != REPLICATION_INCREMENTAL:
        yield None
        return
    key = require_replication_key(stream.name, stream.replication_key)
    child_pool: ChildSyncPool | None = run.child_pools.get(stream.name)
    if child_pool is not None:
        with _open_deferred_cursor(stream, run, context, key, child_pool) as cursor:
            yield cursor
        return
    manager = stream.state_manager
    cursor = manager.cursor(context, replication_key=key)
    run.cursors[cursor] = lambda: manager.touch(context)
    try:
        yield cursor
    finally:
        run.settle_bookmarks()
        del run.cursors[cursor]


@contextmanager
def _open_deferred_cursor(
    stream: SyncStream, run: SyncRun, context: Context | None, key: str, child_pool: ChildSyncPool
) -> Iterator[BookmarkCursor]:
    """Context manager that yields the cursor of a parent stream whose children a pool syncs.

    The cursor advances with each parent record. The bookmark in the state advances only when the
    children of those records are synced. ``key`` is the replication key of the parent.
    """
    manager = stream.state_manager
    entry = manager.get_context_state(context).items()
    ahead = {name: copy.copy(value) for name, value in entry if name != "partitions"}
    cursor = manager.cursor(context, replication_key=key, state=ahead)

    def move(value: Any) -> None:
        manager.increment_state({key: value}, context=context, replication_key=key)

    bookmark = DeferredBookmark(cursor, move)
    child_pool.set_bookmark(bookmark)
    run.outbox.deferred_settles[bookmark.settle] = None
    try:
        yield cursor
    finally:
        child_pool.set_bookmark(None)
        with run.outbox.lock:
            bookmark.settle()
            del run.outbox.deferred_settles[bookmark.settle]


# Start and end of a context, on both paths


def begin_partition(stream: SyncStream, context: Context | None, signpost: Any) -> Context | None:
    """Begin the sync of a context (partition): store its starting value and bookmark limit.

    ``signpost`` is the upper limit of the bookmark, or None. Return the items of ``context`` that
    identify its bookmark (see ``state_partitioning_keys``).
    """
    bookmark = stream._get_state_partition_context(context)
    stream._write_starting_replication_value(context)
    if signpost is not None and context:
        stream._write_replication_key_signpost(context, signpost)
    return bookmark


def end_partition(stream: SyncStream, context: Context | None, bookmark: Context | None) -> None:
    """End the sync of a context (partition), and make its bookmark final.

    ``bookmark`` is the result of `begin_partition`. If it has fewer keys than ``context``, other
    contexts share the bookmark, so that it is not final yet.
    """
    if context == bookmark:
        stream._finalize_state(stream.state_manager.get_context_state(context))
        if context:
            stream._tap.run.checkpoint(required=False)


def end_records(stream: SyncStream, context: Context | None, *, write: bool = True) -> None:
    """End the sync of a stream or of one context; write the state unless ``write`` is False.

    If ``context`` is None or empty, all partitions were synced, so the stream's state becomes
    final.
    """
    if not context:
        stream._finalize_state(stream.state_manager.stream_state)
    if write and context:
        stream._tap.run.checkpoint(required=False)
    elif write:
        stream._write_state_message()


def handle_key_error(
    stream: SyncStream,
    cursor: BookmarkCursor,
    error: Exception,
    record: Record,
    done: int,
    start: int,
) -> None:
    """Raise the error for a record whose replication key value is missing or out of order.

    Raise nothing for an empty record, or if a missing value only causes a warning.

    Args:
        stream: Stream of the record.
        cursor: Bookmark cursor of the partition.
        error: Error raised when the value was looked up or compared.
        record: The record.
        done: Number of the record in the sync of the stream.
        start: Number of the stream's records in earlier partitions.
    """
    if isinstance(error, InvalidStreamSortException):
        stream.state_manager.log_sort_error(
            ex=error,
            current_context=cursor.state.get("context"),
            record_count=done,
            partition_record_count=done - start,
        )
        raise error
    if record and not stream.state_manager.order.has_declared_cursor:
        raise missing_replication_key(stream.name, stream.replication_key, record) from None
    if record:
        cursor.advance(None)
