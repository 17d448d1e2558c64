"""Sync of child streams for the records of a parent stream.

- A parent record defines the context of its children: a dict of values such as its key.
- Children are synced before their parent's record is written, each with a copy of the context.
  Children of a record that the parent's stream map drops are not synced.
- If a child is aborted by its record limit, its siblings and its parent continue.
- If a worker pool syncs the children, the parent stream is read meanwhile. The parent's bookmark
  advances to a record only when the children of that record, and of all records before it, are
  synced.
"""

from __future__ import annotations

import copy
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tap_core.exceptions import (
    AbortedSyncFailedException,
    AbortedSyncPausedException,
    InvalidStreamSortException,
)
from tap_core.singerlib.catalog import REPLICATION_FULL_TABLE
from tap_core.sync.distribution import make_pool
from tap_core.sync.override_detection import is_overridden
from tap_core.sync.plan import get_plan
from tap_core.sync.stream_selection import get_synced_children
from tap_core.sync.worker_pool import SyncJob

if TYPE_CHECKING:
    from tap_core.state.bookmark_cursor import BookmarkCursor
    from tap_core.sync.interfaces import SyncStream
    from tap_core.sync.sync_run import SyncRun
    from tap_core.types import Context, Record

__all__ = [
    "ChildSyncPool",
    "DeferredBookmark",
    "ParentRecord",
    "ensure_state_entry",
    "require_child_contexts",
    "sync_child_contexts",
    "sync_children",
]


def sync_child_contexts(stream: SyncStream, record: Record, child_context: Context | None) -> None:
    """Sync the child streams of a stream for one of its records.

    The method ``generate_child_contexts`` of the stream yields contexts, which contain the values
    of the record that the children need. The children are synced once for each context. The method
    gets ``child_context``: the parent's own context, or the one that ``get_records`` has yielded
    with the record.
    """
    is_kept = get_plan(stream).child_filter
    for context in stream.generate_child_contexts(record=record, context=child_context):
        if is_kept is None or is_kept(record):
            stream._sync_children(copy.copy(context))


def sync_children(stream: SyncStream, child_context: Context | None) -> None:
    """Sync each selected child stream of a stream for one parent record.

    ``child_context`` contains the values of the record that the children need. If it is None, log a
    warning and sync no child.
    """
    if child_context is None:
        stream.log(
            "Context for child streams of '%s' is null, skipping sync of any child streams",
            stream.name,
            level=logging.WARNING,
        )
        return
    child_pool: ChildSyncPool | None = stream._tap.run.child_pools.get(stream.name)
    for child in get_synced_children(stream):
        if child_pool is None:
            _sync_child(child, child_context)
        else:
            child_pool.submit(child, child_context)


def _sync_child(child: SyncStream, context: Context) -> None:
    with suppress(AbortedSyncFailedException, AbortedSyncPausedException):
        child.sync(context=context)


def require_child_contexts(stream: SyncStream) -> None:
    """Raise an error if a stream without ``get_child_context`` has children that need it.

    Raises:
        NotImplementedError: A child has one bookmark per parent record, because its
            ``state_partitioning_keys`` is None. The parent must define ``get_child_context``.
    """
    for child in stream.child_streams:
        if child.state_partitioning_keys is None:
            parent = type(stream).__name__
            msg = (
                f"'{stream.name}' has the child stream '{child.name}', but no definition of"
                f" the context that a record gives it. Define {parent}.get_child_context(),"
                f" or {type(child).__name__}.state_partitioning_keys."
            )
            raise NotImplementedError(msg)


def ensure_state_entry(stream: SyncStream, context: Context | None) -> None:
    """Create the state entry of a context before a worker thread syncs the context.

    The entries in the state then have the same order as in a sync without threads. A context
    contains the values that identify a partition or parent record.
    """
    bookmark = stream._get_state_partition_context(context)
    if context == bookmark or stream.replication_method != REPLICATION_FULL_TABLE:
        stream.state_manager.get_context_state(context)


@dataclass(slots=True, eq=False)
class ParentRecord:
    """Record of a parent stream with the number of its children that are not synced yet."""

    pending: int = 0
    """Number of child contexts that are not synced yet; worker threads decrease it."""
    key_value: Any = None
    """Replication key value of the parent stream after reading this record, or None."""


class ChildSyncPool:
    """Worker pool that syncs the children of one parent stream while the parent is read.

    The parent's bookmark advances to a record only when the children of the record are synced.
    """

    def __init__(
        self, parent: SyncStream, run: SyncRun, threads: int, *, distributes: bool = False
    ) -> None:
        """Create a pool for the children of ``parent``, with at most ``threads`` threads.

        If ``distributes`` is True and the output supports it, other processes are used instead.
        """
        self.pool = make_pool(run, threads, get_synced_children(parent), distributes=distributes)
        self._name = parent.name
        self._lock = run.outbox.lock
        self._record = ParentRecord()
        """Current record of the parent."""
        self._bookmark: DeferredBookmark | None = None

    def __enter__(self) -> ChildSyncPool:  # noqa: PYI034  Self needs Python 3.11
        self.pool.__enter__()
        self.pool.owner.child_pools[self._name] = self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        del self.pool.owner.child_pools[self._name]
        self.pool.__exit__(kind, error, trace)

    def submit(self, child: SyncStream, context: Context) -> None:
        """Queue the sync of a child stream for the current record of the parent.

        ``context`` contains the values of the record that the child needs. Its state entry is
        created at once.
        """
        record, child_context = self._record, dict(context)
        if not is_overridden(child, "preprocess_context"):
            ensure_state_entry(child, child_context)
        with self._lock:
            record.pending += 1

        def done() -> None:
            with self._lock:
                record.pending -= 1

        self.pool.submit(
            SyncJob(child, child_context, lambda stream: _sync_child(stream, child_context), done)
        )

    def set_bookmark(self, bookmark: DeferredBookmark | None) -> None:
        """Set the parent's bookmark, which advances when children are synced; None removes it."""
        self._bookmark = bookmark

    def count_children(self, records: Iterable[Any]) -> Iterator[Any]:
        """Yield a parent's records, and start a new count of unsynced children for each.

        The caller requests the next record when it has written the current one. The parent's
        bookmark then waits for the children of the written record.
        """
        for record in records:
            yield record
            self.pool.check()
            written, self._record = self._record, ParentRecord()
            if self._bookmark is not None:
                with self._lock:
                    self._bookmark.add_record(written)

    def reload(self) -> None:
        """Read the parent stream's bookmark from the state again, after other code changed it."""
        if self._bookmark is not None:
            self._bookmark.reload()

    def drain(self) -> None:
        """Wait until the child streams of all parent records read so far are synced."""
        self.pool.drain()


class DeferredBookmark:
    """Bookmark of a parent stream that waits until the children of a record are synced."""

    def __init__(self, cursor: BookmarkCursor, move: Callable[[Any], None]) -> None:
        """Create a bookmark that follows the values of ``cursor``.

        Args:
            cursor: Cursor that advances with each parent record.
            move: Function that writes a value to the state as the bookmark. It is called when the
                children of all records up to that value are synced.
        """
        self._cursor = cursor
        self._move = move
        self._records: deque[ParentRecord] = deque()

    def add_record(self, record: ParentRecord) -> None:
        """Let this bookmark wait for the children of a parent record that has been written.

        The record's ``key_value`` is set to the cursor's latest value, which is None until a
        replication key value was read.
        """
        record.key_value = self._cursor.latest
        if not record.pending and self._records and not self._records[-1].pending:
            self._records.pop()  # the last record has no pending children either
        self._records.append(record)

    def reload(self) -> None:
        """Read the parent stream's bookmark from the state again, after other code changed it."""
        self._cursor.reload()

    def settle(self) -> None:
        """Advance the bookmark in the state to the last record up to which all children are synced.

        Nothing is done if there is no new such record since the last call.
        """
        ready: ParentRecord | None = None
        while self._records and not self._records[0].pending:
            ready = self._records.popleft()
        if ready is not None and ready.key_value is not None:
            with suppress(InvalidStreamSortException):  # the tap's code has set a later bookmark
                self._move(ready.key_value)
