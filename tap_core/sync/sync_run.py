"""One run of a tap: the rows on their way out, and the states behind them.

Rules of the room: everything that leaves a tap leaves here, in order. Rows wait in one
open chunk of one stream; it closes by count, by size, by age (a timer, since the source
may be silent), when another stream writes, at the end of a partition, and before
anything by which an author can look at state or write. A checkpoint goes out behind the
rows that it covers, never before them. What is collected are encoded bodies, never the
author's own objects. Each thread that syncs has a run of its own, a branch of the first:
its chunk, its bookmarks, its copies of streams. What they share is the `Outbox`.
"""

from __future__ import annotations

import copy
import threading
import time
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

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

__all__ = [
    "CHUNK_BYTES",
    "CHUNK_ROWS",
    "MAX_CHUNK_AGE_SECONDS",
    "ChunkOwner",
    "ParallelPool",
    "ProtocolWriter",
    "SyncRun",
]

CHUNK_ROWS = 1_000
"""Rows after which a chunk closes."""

CHUNK_BYTES = 64 * 1024
"""Bytes of bodies after which a chunk closes: what a pipe takes at once. An outlet with messages
of another size has ``chunk_bytes``."""

MAX_CHUNK_AGE_SECONDS = 0.5
"""Age after which a waiting row is sent, whatever else happens."""

_Stream = TypeVar("_Stream")


def _now_text() -> str:
    """Return the present instant in ISO 8601, UTC, with microseconds."""
    return datetime.now(timezone.utc).isoformat(timespec="microseconds")


class ChunkOwner(Protocol):
    """Whose rows a chunk holds; a plan is one."""

    @property
    def stream(self) -> StreamId:
        """The stream."""

    @property
    def version(self) -> Callable[[], int | None]:
        """The table version that rows carry now."""

    def parts(self, rows: list[Any], /) -> Iterable[tuple[StreamId, list[Any]]]:
        """Sort a chunk by the streams that its rows go out as."""


class ParallelPool(Protocol):
    """Whom a thread works for: `workers.Crew`."""

    @property
    def owner(self) -> SyncRun:
        """The run that its threads are branches of."""

    @property
    def leads(self) -> bool:
        """Whether its threads sync whole streams, and may have workers of their own."""

    @property
    def is_stopped(self) -> bool:
        """Whether its threads are to stop."""

    def check(self) -> None:
        """Raise an error when the work has ended meanwhile."""

    def check_output(self) -> None:
        """Raise an error when nobody waits for the thread's rows any more."""

    def until_stopped(self, records: Iterable[Any], /) -> Iterator[Any]:
        """Yield records until the work has ended."""

    def copy(self, stream: Any, /) -> Any:
        """Return the copy of a stream for one thread."""


class SyncRun:
    """What one sync of a tap shares among its streams, in one thread."""

    def __init__(
        self,
        outlet: ProtocolWriter,
        document: StateDocument,
        cadence: CheckpointPolicy,
        clock: Callable[[], str] = _now_text,
    ) -> None:
        """Start a run that writes to ``outlet``; ``clock`` gives extraction times."""
        self.outbox = OutputQueue(outlet, document, cadence)
        self.document = document
        self.tallies: dict[str, Tally] = {}
        """By the name of a stream: who counts its records."""
        self.meter_stack: ExitStack | None = None
        self.most: int = getattr(outlet, "chunk_bytes", CHUNK_BYTES)
        """Bytes of bodies after which a chunk closes."""
        self._clock = clock
        self._begin_alone(None)

    def _begin_alone(self, leader: ParallelPool | None) -> None:
        """Set what belongs to one thread only."""
        self.leader = leader
        self.bodies: list[Any] = []
        """The open chunk; always this very list."""
        self.limit = 1
        """Rows that the open chunk may hold."""
        self.waiting = 0
        """Bytes that stand in the open chunk, where they are counted here."""
        self.cursors: dict[BookmarkCursor, Callable[[], None]] = {}
        """The bookmarks that are moving, and how to say that one moved."""
        self.families: dict[str, Any] = {}
        """By the name of a parent: who syncs its children beside it."""
        self._copies: dict[int, Any] = {}
        self._source: ChunkOwner | None = None
        self._extracted_at = ""
        self._opened = 0.0
        self._busy = 0
        self._stopping: Callable[[], None] | None = None
        self._asked = 0
        self.outbox.chunks[self] = None

    @property
    def outlet(self) -> ProtocolWriter:
        """The door's side: how a body is encoded, and where events go."""
        return self.outbox.outlet

    # Rows

    def open(self, source: ChunkOwner | None) -> ChunkOwner | None:
        """Collect rows of this source from now on; return whose they were until now.

        Whoever is done opens that one again: the loop of a parent, or of a stream whose
        author writes to another in between, goes on as if nothing had been.
        A stream's first chunk has one row: whoever waits for a sign of life gets it.
        """
        before = self._source
        if before is not source:
            self.flush()
            self._source = source
            begun = source is not None and source.stream.name in self.outbox.begun
            self.limit = self.room() if begun else 1
        return before

    def begin(self) -> None:
        """Note when the first row of a chunk was pulled."""
        self._extracted_at = self._clock()
        self._opened = time.monotonic()
        self.waiting = 0

    def flush(self) -> None:
        """Send the open chunk, or wait until the timer has sent it."""
        if self.bodies:
            if self.leader is not None:
                self.leader.check_output()
            with self.whole(), self.outbox.lock:
                self.send()
        if self.outbox.failure is not None:
            raise self.outbox.failure

    def send(self) -> None:
        """Send what the chunk holds, under the lock; by whichever thread.

        The list stays the same one, so that whoever appends to it needs no lock. Rows
        leave it when they are out: until then nobody takes the chunk for empty, and so
        nobody opens it for another source.
        """
        count = len(self.bodies)
        rows = self.bodies[:count]
        if rows and self._source is not None:
            self.outbox.begun.add(self._source.stream.name)
            self.outbox.cadence.rows(self.waiting)
            self.waiting = 0
            version, at = self._source.version(), self._extracted_at
            for stream, bodies in self._source.parts(rows):
                self.outbox.hand(Rows(stream, bodies, extracted_at=at, version=version))
            tally = self.tallies.get(self._source.stream.name)
            if tally is not None:
                tally.sent(count)
            self.limit = self.room()
        del self.bodies[:count]

    def room(self) -> int:
        """Return how many rows the next chunk may hold, so that no file gets too many."""
        source = self._source
        return CHUNK_ROWS if source is None else self.files.room(source.stream.name, CHUNK_ROWS)

    @property
    def files(self) -> BatchFileOutput:
        """The streams whose rows go into files."""
        return self.outbox.files

    def send_if_old(self) -> None:
        """Send the chunk if its first row has waited for long."""
        if self.bodies and time.monotonic() - self._opened >= MAX_CHUNK_AGE_SECONDS:
            with self.outbox.lock:
                self.send()

    # Everything else

    def settle(self) -> None:
        """Make what was pulled visible: bookmarks moved, rows out."""
        self.settle_bookmarks()
        self.flush()

    def settle_bookmarks(self) -> None:
        """Move the bookmarks past what was pulled."""
        if self.cursors:
            with self.outbox.lock:
                for cursor, moved in list(self.cursors.items()):
                    if cursor.settle():
                        moved()

    def settle_held(self) -> None:
        """Move the bookmarks that wait for children as far as these are done."""
        with self.outbox.lock:
            for held in list(self.outbox.held):
                held.settle()

    def reload_bookmarks(self) -> None:
        """Go on from what the state says now, after an author moved it himself."""
        with self.outbox.lock:
            for cursor in self.cursors:
                cursor.reload()

    def emit(self, event: Event) -> None:
        """Send an event behind all rows so far."""
        self.settle()
        if self.leader is not None:
            self.leader.check_output()
        with self.whole(), self.outbox.lock:
            self.outbox.hand(event)

    def describe(self, event: SchemaEvent) -> None:
        """Send a stream's schema, unless it is the one sent last."""
        self.outbox.describe(event, self.emit)

    def checkpoint(self, *, owed: bool, document: StateDocument | None = None) -> None:
        """Send the state, if it changed since it was sent.

        One that is not ``owed`` (at the end of a partition or a child's context) goes
        out only while states are a small share of what is written. ``document`` is a
        state of an author's own.
        """
        if not self.outbox.files.allows_state(owed=owed):
            return
        if not owed and not self.outbox.cadence.due(self.document.size_estimate):
            return
        self.settle()
        if self.leader is not None:
            self.leader.check_output()
        with self.whole():
            self.outbox.checkpoint(document)

    @property
    def is_broken(self) -> bool:
        """Whether the door could not take an event, so that nothing more can go out."""
        return self.outbox.failure is not None

    # Threads

    def branch(self, leader: ParallelPool) -> SyncRun:
        """Return a run for another thread, which works for ``leader``."""
        made = copy.copy(self)
        with self.outbox.lock:
            made._begin_alone(leader)
        if leader.leads:
            made.tallies, made.meter_stack = {}, None
        return made

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Be the run of this thread."""
        me = threading.get_ident()
        with self.outbox.lock:
            self.outbox.threads[me] = self
        try:
            yield
        finally:
            with self.outbox.lock:
                del self.outbox.threads[me]
                self.outbox.chunks.pop(self, None)

    def here(self) -> SyncRun:
        """Return the run of the thread that asks."""
        threads = self.outbox.threads
        return threads.get(threading.get_ident(), self) if threads else self

    @property
    def is_worker(self) -> bool:
        """Whether this thread syncs single contexts, beside others of the same stream."""
        return self.leader is not None and not self.leader.leads

    @property
    def may_lead(self) -> bool:
        """Whether work of this thread may be given to others."""
        return not self.is_worker

    def own(self, stream: _Stream) -> _Stream:
        """Return this thread's copy of a stream, made for it; the first run has none."""
        if self.leader is None:
            return stream
        origin: Any = getattr(stream, "_origin", None) or stream
        made: Any = self._copies.get(id(origin))
        if made is None:
            made = self._copies[id(origin)] = self.leader.copy(self.leader.owner.own(origin))
            made.child_streams = [self.own(child) for child in made.child_streams]
        return cast(_Stream, made)

    def copies(self) -> Iterable[Any]:
        """Return the copies that were made for this thread."""
        return self._copies.values()

    def guarded(self, records: Iterable[Any]) -> Iterable[Any]:
        """Return an author's records so that the next one is not pulled if work must stop."""
        if self.leader is not None:
            records = self.leader.until_stopped(records)
        return records if self.outbox.attended is None else self._attended(records)

    def _attended(self, records: Iterable[Any]) -> Iterator[Any]:
        """Yield records until the reader has left, with a state between them where one is owed.

        Whoever asks for the next one is done with the last: it is as if the author wrote a
        state there.
        """
        outbox = self.outbox
        try:
            for record in records:
                if outbox.is_called:
                    outbox.is_called = False
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
    def whole(self) -> Iterator[None]:
        """Hold back a stop while something is half done."""
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1
        if self._stopping is not None and not self._busy:
            stop, self._stopping = self._stopping, None
            stop()

    def stop(self, leave: Callable[[], None]) -> None:
        """Leave by ``leave`` (which raises): now, or when the event in hand is out.

        Raises:
            SystemExit: asked twice; the event in hand is given up, the exit code is 1.
        """
        self._asked += 1
        if self._asked > 1:
            raise SystemExit(1)
        if self._busy:
            self._stopping = leave
        else:
            leave()

    @property
    def is_hurried(self) -> bool:
        """Whether it was asked to stop a second time."""
        return self._asked > 1

    @contextmanager
    def timer(self) -> Iterator[None]:
        """Send chunks that grow old while the source is silent."""
        ended = threading.Event()
        thread = threading.Thread(
            target=self._watch, args=(ended,), name="tap-core-chunks", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            ended.set()
            if not self.is_hurried:  # else it may be the one that waits for the reader
                thread.join()

    def _watch(self, ended: threading.Event) -> None:
        """Look at the chunks' age until the run ends."""
        while not ended.wait(MAX_CHUNK_AGE_SECONDS / 2):
            with suppress(Exception):  # the next flush raises it again
                self.outbox.send_what_is_old()
            self.outbox.attend()
            if self.is_broken:
                return
