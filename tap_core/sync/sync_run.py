"""One run of a tap: buffers rows and writes them, with states after them.

- All events of a tap pass through the run, in order. Rows wait in one open chunk of one
  stream. The chunk is sent when it reaches a number of rows, a size or an age (checked by a
  timer, since the source may be silent), when another stream writes, at the end of a
  partition, and before any call in which an author can see the state or write.
- A checkpoint is written after the rows that it covers, never before them.
- Chunks hold encoded bodies, never the author's objects.
- Each thread that syncs has its own run, a branch of the first one, with its own chunk,
  bookmarks and copies of streams. All runs share the `OutputQueue`.
"""

from __future__ import annotations

import copy
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tap_core.events import Rows
from tap_core.sync.output import OutputQueue
from tap_core.sync.output import ProtocolWriter as ProtocolWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import ExitStack

    from tap_core.events import Event, SchemaEvent, StreamId
    from tap_core.state.bookmark_cursor import BookmarkCursor
    from tap_core.state.checkpoint_policy import CheckpointPolicy
    from tap_core.state.document import StateDocument
    from tap_core.sync.batch_file_output import BatchFileOutput
    from tap_core.sync.record_count import Tally
    from tap_core.sync.stop_signal import StopSignal
    from tap_core.sync.stream_maps import MappedOutput

__all__ = [
    "CHUNK_BYTES",
    "CHUNK_ROWS",
    "MAX_CHUNK_AGE_SECONDS",
    "ChunkSource",
    "ProtocolWriter",
    "SyncRun",
]

CHUNK_ROWS = 1_000
"""Number of rows at which a chunk is sent."""

CHUNK_BYTES = 64 * 1024
"""Size of the bodies at which a chunk is sent: the capacity of a pipe. A writer with another
message size sets ``chunk_bytes``."""

MAX_CHUNK_AGE_SECONDS = 0.5
"""Age at which a buffered row is sent in any case."""

_Stream = TypeVar("_Stream")


def _now_text() -> str:
    """Return the current time in ISO 8601, UTC, with microseconds."""
    return datetime.now(timezone.utc).isoformat(timespec="microseconds")


@dataclass(frozen=True, slots=True)
class ChunkSource:
    """Source of buffered rows: the stream, its table version, and how to group rows by output."""

    stream: StreamId
    version: Callable[[], int | None]
    """Function that returns the current table version of the rows."""
    mapped: MappedOutput | None
    """Compiled stream maps, or None if they change nothing."""

    def parts(self, rows: list[Any]) -> Iterable[tuple[StreamId, list[Any]]]:
        """Group buffered rows by output stream."""
        return ((self.stream, rows),) if self.mapped is None else self.mapped.parts(rows)


class SyncRun:
    """One sync of a tap, as one thread sees it.

    Each thread has its own object with its buffered rows and bookmarks. All share the output.
    """

    def __init__(
        self,
        writer: ProtocolWriter,
        document: StateDocument,
        cadence: CheckpointPolicy,
        clock: Callable[[], str] = _now_text,
    ) -> None:
        """Start a sync that writes to ``writer``.

        Args:
            writer: Protocol writer.
            document: State of the tap.
            cadence: Policy that decides how often states are written.
            clock: Function that returns the extraction time of rows as ISO 8601 text.
        """
        self.outbox = OutputQueue(writer, document, cadence)
        self.document = document
        self.tallies: dict[str, Tally] = {}
        """Record counters by stream name."""
        self.meter_stack: ExitStack | None = None
        self.chunk_bytes: int = getattr(writer, "chunk_bytes", CHUNK_BYTES)
        """Size of the bodies at which a chunk is sent."""
        self._clock = clock
        self.stop_signal: StopSignal | None = None
        """Signal that stops this thread; None for the thread of the first run."""
        self._init_thread()

    def _init_thread(self, owner: SyncRun | None = None, *, may_create_pools: bool = True) -> None:
        """Initialize the attributes that belong to one thread.

        Args:
            owner: Run of the thread that created this one; None for the first.
            may_create_pools: True if the thread syncs whole streams and may create worker pools.
        """
        self.owner = owner
        """Run of which this one is a branch; None for the first run."""
        self.may_create_pools = may_create_pools
        """True if this thread syncs whole streams and may distribute its work to a worker pool;
        False if it syncs single contexts, in parallel to others of the same stream."""
        self.bodies: list[Any] = []
        """The open chunk; this list object is never replaced."""
        self.limit = 1
        """Number of rows that the open chunk may hold."""
        self.waiting = 0
        """Size of the open chunk in bytes, if it is counted here."""
        self.cursors: dict[BookmarkCursor, Callable[[], None]] = {}
        """Active bookmark cursors, each with a function to call when its bookmark moved."""
        self.child_pools: dict[str, Any] = {}
        """Pools that sync child streams, by the name of the parent stream."""
        self._copies: dict[int, Any] = {}
        self._source: ChunkSource | None = None
        self._extracted_at = ""
        self._opened = 0.0
        self._busy = 0
        self._stopping: Callable[[], None] | None = None
        self._stop_requests = 0
        self.outbox.chunks[self] = self.send_if_older

    @property
    def protocol_writer(self) -> ProtocolWriter:
        """Protocol writer of this run."""
        return self.outbox.protocol_writer

    # Rows

    def open(self, source: ChunkSource | None) -> ChunkSource | None:
        """Buffer rows of ``source`` from now on. Return the source whose rows were buffered before.

        The caller passes the returned source to `open` again when it is done, so that a parent
        stream continues after its child. The first row of a stream is sent at once, so that the
        reader of the output sees a record immediately.
        """
        before = self._source
        if before is not source:
            self.flush()
            self._source = source
            begun = source is not None and source.stream.name in self.outbox.begun
            self.limit = self.get_row_limit() if begun else 1
        return before

    def begin_chunk(self) -> None:
        """Begin an empty chunk. The current time becomes the extraction time of its rows."""
        self._extracted_at = self._clock()
        self._opened = time.monotonic()
        self.waiting = 0

    def flush(self) -> None:
        """Send the buffered rows. If the timer thread is sending them, wait for it."""
        if self.bodies:
            self._check_output()
            with self.delaying_stop(), self.outbox.lock:
                self.send()
        if self.outbox.failure is not None:
            raise self.outbox.failure

    def send(self) -> None:
        """Send the buffered rows. Any thread may call this method if it holds the output's lock.

        The list of rows is never replaced, so rows can be appended to it without a lock. Rows are
        removed only after they are written. Until then, no thread sees an empty buffer and uses it
        for another source.
        """
        count = len(self.bodies)
        rows = self.bodies[:count]
        if rows and self._source is not None:
            self.outbox.begun.add(self._source.stream.name)
            self.outbox.cadence.rows(self.waiting)
            self.waiting = 0
            version, at = self._source.version(), self._extracted_at
            for stream, bodies in self._source.parts(rows):
                self.outbox.emit(Rows(stream, bodies, extracted_at=at, version=version))
            tally = self.tallies.get(self._source.stream.name)
            if tally is not None:
                tally.sent(count)
            self.limit = self.get_row_limit()
        del self.bodies[:count]

    def get_row_limit(self) -> int:
        """Return the number of rows to buffer next, limited by the space in open batch files."""
        source = self._source
        return CHUNK_ROWS if source is None else self.files.room(source.stream.name, CHUNK_ROWS)

    @property
    def files(self) -> BatchFileOutput:
        """Batch file output of the run."""
        return self.outbox.files

    def send_if_older(self, seconds: float) -> None:
        """Send the buffered rows if the first is at least ``seconds`` old.

        Any thread may call this method.
        """
        if self.bodies and time.monotonic() - self._opened >= seconds:
            with self.outbox.lock:
                self.send()

    def _check_output(self) -> None:
        """Raise `WorkerStopped` if this thread may not write rows any more."""
        if self.stop_signal is not None:
            self.stop_signal.check_output()

    # Everything else

    def settle(self) -> None:
        """Advance the bookmarks past all records read so far, and send the buffered rows."""
        self.settle_bookmarks()
        self.flush()

    def settle_bookmarks(self) -> None:
        """Advance the bookmarks past all records read so far."""
        if self.cursors:
            with self.outbox.lock:
                for cursor, moved in list(self.cursors.items()):
                    if cursor.settle():
                        moved()

    def settle_held(self) -> None:
        """Advance the bookmarks of parent streams past the records whose children are synced."""
        with self.outbox.lock:
            for settle in list(self.outbox.held):
                settle()

    def reload_bookmarks(self) -> None:
        """Reset the bookmark cursors to the state, after other code has changed the state."""
        with self.outbox.lock:
            for cursor in self.cursors:
                cursor.reload()

    def emit(self, event: Event) -> None:
        """Write an event, after all rows buffered so far."""
        self.settle()
        self._check_output()
        with self.delaying_stop(), self.outbox.lock:
            self.outbox.emit(event)

    def describe(self, event: SchemaEvent) -> None:
        """Emit the schema of a stream if it differs from the schema sent last."""
        self.outbox.describe(event, self.emit)

    def checkpoint(self, *, owed: bool, document: StateDocument | None = None) -> None:
        """Write the state, if it has changed since the last write.

        Args:
            owed: True for a required state. False for an optional state (at the end of a partition
                or of a child's context), which is skipped if states are a large part of the output.
            document: State to write; None for the state of the tap.
        """
        if not self.outbox.files.allows_state(owed=owed):
            return
        if not owed and not self.outbox.cadence.due(self.document.size_estimate):
            return
        self.settle()
        self._check_output()
        with self.delaying_stop():
            self.outbox.checkpoint(document)

    @property
    def is_broken(self) -> bool:
        """True if a write has failed, after which nothing more is written."""
        return self.outbox.failure is not None

    # Threads

    def branch(self, stop_signal: StopSignal, *, may_create_pools: bool) -> SyncRun:
        """Return a run for a thread of a worker pool.

        Args:
            stop_signal: Signal that stops the threads of the pool.
            may_create_pools: True if the thread syncs whole streams and may create worker pools.
        """
        made = copy.copy(self)
        made.stop_signal = stop_signal
        with self.outbox.lock:
            made._init_thread(self, may_create_pools=may_create_pools)
        if may_create_pools:
            made.tallies, made.meter_stack = {}, None
        return made

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Make this run the current thread's run for the duration of the block."""
        me = threading.get_ident()
        with self.outbox.lock:
            self.outbox.threads[me] = self
        try:
            yield
        finally:
            with self.outbox.lock:
                del self.outbox.threads[me]
                self.outbox.chunks.pop(self, None)

    def get_thread_run(self) -> SyncRun:
        """Return the run of the calling thread."""
        threads = self.outbox.threads
        return threads.get(threading.get_ident(), self) if threads else self

    def get_thread_stream(self, stream: _Stream) -> _Stream:
        """Return the stream object that this thread uses for a stream.

        In the first run's thread, that is the stream itself. Every other thread has one copy of it.
        """
        if self.owner is None:
            return stream
        origin: Any = getattr(stream, "_origin", None) or stream
        made: Any = self._copies.get(id(origin))
        if made is None:
            made = self._copies[id(origin)] = _copy_stream(self.owner.get_thread_stream(origin))
            made.child_streams = [self.get_thread_stream(child) for child in made.child_streams]
        return cast(_Stream, made)

    def copies(self) -> Iterable[Any]:
        """Return the copies of streams that this thread uses."""
        return self._copies.values()

    def guarded(self, records: Iterable[Any]) -> Iterable[Any]:
        """Return the records of ``get_records`` as an iterable that ends if the sync must stop."""
        if self.stop_signal is not None:
            records = self.stop_signal.until_set(records)
        return records if self.outbox.check_caller is None else self._serve_requests(records)

    def _serve_requests(self, records: Iterable[Any]) -> Iterator[Any]:
        """Yield records. Between two records, check the connection and write a requested state.

        A record is done when the next one is requested. Only then may a state include it.
        """
        outbox = self.outbox
        try:
            for record in records:
                if outbox.has_request:
                    outbox.has_request = False
                    if outbox.failure is not None:
                        raise outbox.failure
                    self.checkpoint(owed=True)
                yield record
        finally:
            close = getattr(records, "close", None)
            if close is not None:
                close()

    # Signals and time

    @contextmanager
    def delaying_stop(self) -> Iterator[None]:
        """Delay a stop request that arrives during the block until the block has ended."""
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1
        if self._stopping is not None and not self._busy:
            stop, self._stopping = self._stopping, None
            stop()

    def stop(self, leave: Callable[[], None]) -> None:
        """Stop the sync by calling ``leave``, which raises an exception.

        If a block in `delaying_stop` is running, ``leave`` is called at its end, otherwise now.

        Raises:
            SystemExit: This is the second stop request. The process exits at once with code 1.
        """
        self._stop_requests += 1
        if self._stop_requests > 1:
            raise SystemExit(1)
        if self._busy:
            self._stopping = leave
        else:
            leave()

    @property
    def is_hurried(self) -> bool:
        """True after a second stop request, when the sync must end immediately."""
        return self._stop_requests > 1

    @contextmanager
    def timer(self) -> Iterator[None]:
        """Run a timer thread during the block. It sends rows that were buffered for too long."""
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
        """Send rows that were buffered for too long, until ``ended`` is set by `timer`."""
        while not ended.wait(MAX_CHUNK_AGE_SECONDS / 2):
            with suppress(Exception):  # the next flush raises it again
                self.outbox.send_older_than(MAX_CHUNK_AGE_SECONDS)
            self.outbox.check_caller_and_cadence()
            if self.is_broken:
                return


def _copy_stream(stream: Any) -> Any:
    """Return a copy of a stream for one thread; its children are not copied."""
    made = copy.copy(stream)
    made._origin = made._origin or stream
    made._plan = None
    made._sync_costs = {}
    return made
