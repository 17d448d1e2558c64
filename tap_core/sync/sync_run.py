"""Run of a tap: buffers encoded rows, and writes rows and states to the output in order.

- Rows are buffered in a chunk, which contains rows of one stream. The chunk is written when it
  reaches a number of rows, a size or an age (checked by a timer thread), when another stream
  writes, and at the end of a partition. It is also written before any call to the tap's code that
  may see the state or write.
- A state is written after the rows that it covers, never before them.
- A chunk contains encoded rows, never the record objects of the tap's code.
- Each thread that syncs has its own `SyncRun`, with its own chunk, bookmark cursors and copies of
  streams. All of them write to one `OutputQueue`.
"""

from __future__ import annotations

import copy
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tap_core.events import Checkpoint, Rows
from tap_core.sync.output import OutputQueue
from tap_core.sync.output import ProtocolWriter as ProtocolWriter
from tap_core.sync.thread_stop_signal import close_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import ExitStack

    from tap_core.events import Event, SchemaEvent, StreamId
    from tap_core.state.bookmark_cursor import BookmarkCursor
    from tap_core.state.checkpoint_policy import CheckpointPolicy
    from tap_core.state.document import StateDocument
    from tap_core.sync.batch_file_output import BatchFileOutput
    from tap_core.sync.record_count import Tally
    from tap_core.sync.stream_maps import MappedOutput
    from tap_core.sync.thread_stop_signal import StopSignal

__all__ = [
    "CHUNK_BYTES",
    "CHUNK_ROWS",
    "MAX_CHUNK_AGE_SECONDS",
    "ChunkSource",
    "ProtocolWriter",
    "SyncRun",
]

CHUNK_ROWS = 1_000
"""Number of buffered rows at which the buffer is written."""

CHUNK_BYTES = 64 * 1024
"""Size of the buffered rows at which they are written: the capacity of a pipe. A writer with
another message size sets ``chunk_bytes``."""

MAX_CHUNK_AGE_SECONDS = 0.5
"""Age in seconds at which a buffered row is written in any case."""

_Stream = TypeVar("_Stream")


def _now_text() -> str:
    """Return the current time in ISO 8601, UTC, with microseconds."""
    return datetime.now(timezone.utc).isoformat(timespec="microseconds")


@dataclass(frozen=True, slots=True)
class ChunkSource:
    """Stream whose rows are in a row buffer: its name, table version and stream maps."""

    stream: StreamId
    version: Callable[[], int | None]
    """Function that returns the current table version of the rows."""
    mapped: MappedOutput | None
    """Compiled stream maps, or None if they change nothing."""

    def parts(self, rows: list[Any]) -> Iterable[tuple[StreamId, list[Any]]]:
        """Return the buffered ``rows`` of the stream as (output stream, rows) pairs.

        There are several pairs if stream maps split the stream.
        """
        return ((self.stream, rows),) if self.mapped is None else self.mapped.parts(rows)


class SyncRun:
    """State of a running sync in one thread: buffered rows and bookmark cursors.

    Each thread that syncs has its own `SyncRun`. All of them write to one `OutputQueue`.
    """

    def __init__(
        self,
        writer: ProtocolWriter,
        document: StateDocument,
        checkpoint_policy: CheckpointPolicy,
        clock: Callable[[], str] = _now_text,
    ) -> None:
        """Create the `SyncRun` of a sync's first thread. `branch` creates those of other threads.

        Args:
            writer: Writer of the output protocol, such as Singer.
            document: State of the tap.
            checkpoint_policy: Policy that decides if an optional state is written.
            clock: Function that returns the extraction time of rows as ISO 8601 text.
        """
        self.outbox = OutputQueue(writer, document, checkpoint_policy)
        self.document = document
        self.tallies: dict[str, Tally] = {}
        """Record counters by stream name."""
        self.stream_errors: dict[str, Exception] = {}
        """Errors that ended streams, by stream name, in the order in which they occurred.

        It is empty unless the protocol reports the end of each stream.
        """
        self.meter_stack: ExitStack | None = None
        self.chunk_bytes: int = getattr(writer, "chunk_bytes", CHUNK_BYTES)
        """Size of the buffered rows at which they are written."""
        self._clock = clock
        self.stop_signal: StopSignal | None = None
        """Signal that stops this thread; None for the thread of the first run."""
        self._init_thread()

    def _init_thread(self, owner: SyncRun | None = None, *, may_create_pools: bool = True) -> None:
        """Initialize the attributes that each thread has separately, such as the row buffer.

        Args:
            owner: Run from which this one was branched; None for the first thread.
            may_create_pools: True if the thread syncs whole streams and may create worker pools.
        """
        self.owner = owner
        """Run from which this one was branched; None for the first run."""
        self.may_create_pools = may_create_pools
        """True if this thread syncs whole streams and may distribute its work to a worker pool.

        False if it syncs single partitions, while other threads sync other partitions of the
        stream.
        """
        self.bodies: list[Any] = []
        """Buffered rows, encoded; this list object is never replaced."""
        self.row_limit = 1
        """Number of buffered rows at which they are written."""
        self.buffered_bytes = 0
        """Size of the buffered rows in bytes; out of date while the engine's write loop runs."""
        self.cursors: dict[BookmarkCursor, Callable[[], None]] = {}
        """Active bookmark cursors, each with a function to call when its bookmark has advanced."""
        self.child_pools: dict[str, Any] = {}
        """Pools that sync child streams, by the name of the parent stream."""
        self._copies: dict[int, Any] = {}
        self._source: ChunkSource | None = None
        self._extracted_at = ""
        self._chunk_began = 0.0
        self._stop_delays = 0
        self._delayed_stop: Callable[[], None] | None = None
        self._stop_requests = 0
        self.outbox.chunks[self] = self.send_if_older

    @property
    def protocol_writer(self) -> ProtocolWriter:
        """Writer of the output protocol, such as Singer or Airbyte."""
        return self.outbox.protocol_writer

    # Rows

    def open(self, source: ChunkSource | None) -> ChunkSource | None:
        """Use the row buffer for the stream ``source`` from now on, and return the previous stream.

        Rows of the previous stream are written first. After a child stream, the caller opens the
        parent again. The first row of a stream is written at once, so that the reader of the output
        sees a record immediately. If ``source`` is None, the buffer is used for no stream.
        """
        before = self._source
        if before is not source:
            self.flush()
            self._source = source
            has_begun = source is not None and source.stream.name in self.outbox.started_streams
            self.row_limit = self.get_row_limit() if has_begun else 1
        return before

    def begin_chunk(self) -> None:
        """Start a chunk of buffered rows. Its extraction time is the current time."""
        self._extracted_at = self._clock()
        self._chunk_began = time.monotonic()
        self.buffered_bytes = 0

    def flush(self) -> None:
        """Write the rows that this thread has buffered to the output.

        Raises:
            BaseException: This write or an earlier one has failed.
        """
        if self.bodies:
            self._check_output()
            with self.delaying_stop(), self.outbox.lock:
                self.send()
        if self.outbox.failure is not None:
            raise self.outbox.failure

    def send(self) -> None:
        """Write the buffered rows to the output; the calling thread must hold the output's lock."""
        # The list is never replaced, so this run's thread can append to it without the lock. Rows
        # are removed only when written: until then no thread uses the buffer for another source.
        count = len(self.bodies)
        rows = self.bodies[:count]
        if rows and self._source is not None:
            self.outbox.started_streams.add(self._source.stream.name)
            self.outbox.checkpoint_policy.record_rows(self.buffered_bytes)
            self.buffered_bytes = 0
            version = self._source.version()
            for stream, bodies in self._source.parts(rows):
                self.outbox.emit(
                    Rows(stream, bodies, extracted_at=self._extracted_at, version=version)
                )
            tally = self.tallies.get(self._source.stream.name)
            if tally is not None:
                tally.count_written(count)
            self.row_limit = self.get_row_limit()
        del self.bodies[:count]

    def get_row_limit(self) -> int:
        """Return the number of rows to buffer before they are written.

        This is `CHUNK_ROWS`, or fewer if the stream's open batch file has space for fewer rows.
        """
        source = self._source
        if source is None:
            return CHUNK_ROWS
        return self.files.get_row_limit(source.stream.name, CHUNK_ROWS)

    @property
    def files(self) -> BatchFileOutput:
        """Writer of the batch files of all streams with a ``batch_config``."""
        return self.outbox.files

    def send_if_older(self, seconds: float) -> None:
        """Write the buffered rows if the first was buffered at least ``seconds`` ago.

        Any thread may call this method.
        """
        if self.bodies and time.monotonic() - self._chunk_began >= seconds:
            with self.outbox.lock:
                self.send()

    def _check_output(self) -> None:
        """Raise `WorkerStopped` if the owner of the worker pool no longer waits for this thread."""
        if self.stop_signal is not None:
            self.stop_signal.check_output()

    # Bookmarks, events and states

    def settle(self) -> None:
        """Store the latest values of this thread's cursors as bookmarks, then write its rows."""
        self.settle_bookmarks()
        self.flush()

    def settle_bookmarks(self) -> None:
        """Store the latest values of this thread's cursors as bookmarks in the state."""
        if self.cursors:
            with self.outbox.lock:
                for cursor, on_advance in list(self.cursors.items()):
                    if cursor.settle():
                        on_advance()

    def reload_bookmarks(self) -> None:
        """Reset this thread's cursors to the bookmarks in the state, which other code changed."""
        if self.cursors:
            with self.outbox.lock:
                for cursor in self.cursors:
                    cursor.reload()

    def emit(self, event: Event) -> None:
        """Write an event, such as a schema, to the output. Buffered rows are written first."""
        self.flush()
        self._check_output()
        with self.delaying_stop(), self.outbox.lock:
            self.outbox.emit(event)
            if isinstance(event, Checkpoint):
                self.document.record_state(event.state)

    def write_schema(self, event: SchemaEvent) -> None:
        """Write a stream's schema, unless the same schema was the last one written for it."""
        self.outbox.call_on_change(event.stream.name, event, lambda: self.emit(event))

    def checkpoint(self, *, required: bool) -> None:
        """Write the state, if it has changed since the last write.

        ``required`` is False for an optional state, such as at the end of a partition. It is
        skipped if states are already a large part of the output.
        """
        if not self.outbox.files.allows_state(required=required):
            return
        if not required and not self.outbox.checkpoint_policy.is_due(self.document.size_estimate):
            return
        self.settle()
        self._check_output()
        with self.delaying_stop():
            self.outbox.checkpoint()

    @property
    def is_broken(self) -> bool:
        """True if a write has failed. Nothing more is written then."""
        return self.outbox.failure is not None

    # Threads

    def branch(self, stop_signal: StopSignal, *, may_create_pools: bool) -> SyncRun:
        """Return a `SyncRun` for a worker thread, with the same output and an empty row buffer.

        Args:
            stop_signal: Signal that stops the threads of the pool.
            may_create_pools: True if the thread syncs whole streams and may create worker pools.
        """
        branch = copy.copy(self)
        branch.stop_signal = stop_signal
        with self.outbox.lock:
            branch._init_thread(self, may_create_pools=may_create_pools)
        if may_create_pools:
            branch.tallies, branch.meter_stack = {}, None
        return branch

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Context manager that makes this object the `SyncRun` of the current thread.

        Rows that are still buffered at the end of the block are written before the next state.
        """
        thread = threading.get_ident()
        with self.outbox.lock:
            self.outbox.threads[thread] = self
        try:
            yield
        finally:
            with self.outbox.lock:
                del self.outbox.threads[thread]
                if not self.bodies:  # else the next state, which may cover these rows, sends them
                    del self.outbox.chunks[self]

    def get_thread_run(self) -> SyncRun:
        """Return the `SyncRun` of the calling thread, or ``self`` if the thread has none."""
        threads = self.outbox.threads
        return threads.get(threading.get_ident(), self) if threads else self

    def get_thread_stream(self, stream: _Stream) -> _Stream:
        """Return this thread's copy of a stream or, in the first thread, the stream itself.

        Each worker thread has a copy, so that threads do not change each other's attributes.
        """
        if self.owner is None:
            return stream
        origin: Any = getattr(stream, "_origin", None) or stream
        copied: Any = self._copies.get(id(origin))
        if copied is None:
            copied = self._copies[id(origin)] = _copy_stream(self.owner.get_thread_stream(origin))
            copied.child_streams = [self.get_thread_stream(child) for child in copied.child_streams]
        return cast(_Stream, copied)

    def get_stream_copies(self) -> Iterable[Any]:
        """Return the stream copies that `get_thread_stream` has made for this thread."""
        return self._copies.values()

    def guard_records(self, records: Iterable[Any]) -> Iterable[Any]:
        """Return the records as an iterable that raises an error when the sync must stop.

        ``records`` is the result of a stream's ``get_records``.
        """
        if self.stop_signal is not None:
            records = self.stop_signal.until_set(records)
        return records if self.outbox.check_caller is None else self._serve_requests(records)

    def _serve_requests(self, records: Iterable[Any]) -> Iterator[Any]:
        """Yield the records. Between two of them, write a state if the timer has requested one.

        Raises:
            BaseException: The caller has disconnected, or a write has failed.
        """
        outbox = self.outbox
        try:
            for record in records:
                # The caller has processed the previous record, so a state may cover it.
                if outbox.has_request:
                    outbox.has_request = False
                    if outbox.failure is not None:
                        raise outbox.failure
                    self.checkpoint(required=True)
                yield record
        finally:
            close_records(records)

    # Signals and time

    @contextmanager
    def delaying_stop(self) -> Iterator[None]:
        """Context manager that delays a stop request, such as SIGTERM, until its block ends."""
        self._stop_delays += 1
        try:
            yield
        finally:
            self._stop_delays -= 1
        if self._delayed_stop is not None and not self._stop_delays:
            stop, self._delayed_stop = self._delayed_stop, None
            stop()

    def stop(self, leave: Callable[[], None]) -> None:
        """Stop the sync on request, by calling ``leave``, a function that raises an exception.

        Inside `delaying_stop`, ``leave`` is called later, when that block ends.

        Raises:
            SystemExit: This is the second stop request. The process exits at once with code 1.
        """
        self._stop_requests += 1
        if self._stop_requests > 1:
            raise SystemExit(1)
        if self._stop_delays:
            self._delayed_stop = leave
        else:
            leave()

    @property
    def is_hurried(self) -> bool:
        """True after a second stop request. The sync must then end immediately."""
        return self._stop_requests > 1

    @contextmanager
    def timer(self) -> Iterator[None]:
        """Context manager that runs a timer thread, which writes rows buffered for too long.

        The limit is `MAX_CHUNK_AGE_SECONDS`.
        """
        ended = threading.Event()
        thread = threading.Thread(
            target=self._watch, args=(ended,), name="tap-core-chunks", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            ended.set()
            if not self.is_hurried:  # the timer thread may be blocked by the reader
                thread.join()

    def _watch(self, ended: threading.Event) -> None:
        """Write rows buffered for too long, until ``ended`` is set. Runs in the timer thread."""
        while not ended.wait(MAX_CHUNK_AGE_SECONDS / 2):
            with suppress(Exception):  # the next flush raises it again
                self.outbox.send_older_than(MAX_CHUNK_AGE_SECONDS)
            self.outbox.check_caller_and_state_age()
            if self.is_broken:
                return


def _copy_stream(stream: Any) -> Any:
    """Return a shallow copy of a stream for one thread.

    The copy has no sync plan, and its sync costs (such as request counts) are zero.
    """
    copied = copy.copy(stream)
    copied._origin = copied._origin or stream
    copied._sync_plan = None
    copied._sync_costs = {}
    return copied
