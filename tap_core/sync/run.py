"""One run of a tap: the rows on their way out, and the states behind them.

Rules of the room: everything that leaves a tap leaves here, in order. Rows wait in one
open chunk of one stream; it closes by count, by size, by age (a timer, since the source
may be silent), when another stream writes, at the end of a partition, and before
anything by which an author can look at state or write. A checkpoint goes out behind the
rows that it covers, never before them. What is collected are encoded bodies, never the
author's own objects.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Protocol

from tap_core.events import Checkpoint, Describe, Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import ExitStack

    from tap_core.events import Event, StreamId
    from tap_core.metrics import Counter, Timer
    from tap_core.state.checkpoint import Cadence
    from tap_core.state.cursor import Cursor
    from tap_core.state.document import StateDocument
    from tap_core.types import Record

__all__ = ["CHUNK_BYTES", "CHUNK_ROWS", "MAX_AGE_SECONDS", "Outlet", "Run", "Source"]

CHUNK_ROWS = 1_000
"""Rows after which a chunk closes."""

CHUNK_BYTES = 64 * 1024
"""Bytes of bodies after which a chunk closes: what a pipe takes at once."""

MAX_AGE_SECONDS = 0.5
"""Age after which a waiting row is sent, whatever else happens."""


def _now_text() -> str:
    """Return the present instant in ISO 8601, UTC, with microseconds."""
    return datetime.now(timezone.utc).isoformat(timespec="microseconds")


class Outlet(Protocol):
    """A door's side of a sync: how a body is encoded and where events go."""

    def encode(self, record: Record, /) -> Any:
        """Encode the body of one shaped record."""

    def emit(self, event: Event, /) -> None:
        """Take one event; may block until the reader is ready."""


class Source(Protocol):
    """Whose rows a chunk holds; a plan is one."""

    @property
    def stream(self) -> StreamId:
        """The stream."""

    @property
    def version(self) -> Callable[[], int | None]:
        """The table version that rows carry now."""

    def parts(self, rows: list[Any], /) -> Iterable[tuple[StreamId, list[Any]]]:
        """Sort a chunk by the streams that its rows go out as."""


class Run:
    """What one sync of a tap shares among its streams."""

    def __init__(
        self,
        outlet: Outlet,
        document: StateDocument,
        cadence: Cadence,
        clock: Callable[[], str] = _now_text,
    ) -> None:
        """Start a run that writes to ``outlet``; ``clock`` gives extraction times."""
        self.outlet = outlet
        self.document = document
        self.bodies: list[Any] = []
        """The open chunk; always this very list."""
        self.limit = 1
        """Rows that the open chunk may hold."""
        self.waiting = 0
        """Bytes that stand in the open chunk, where they are counted here."""
        self.cursors: dict[Cursor, Callable[[], None]] = {}
        """The bookmarks that are moving, and how to say that one moved."""
        self.meters: dict[str, tuple[Counter, Timer]] = {}
        self.meter_stack: ExitStack | None = None
        self._cadence = cadence
        self._clock = clock
        self._source: Source | None = None
        self._extracted_at = ""
        self._opened = 0.0
        self._described: dict[str, Describe] = {}
        self._begun: set[str] = set()
        self._lock = threading.RLock()
        self._busy = 0
        self._stopping: Callable[[], None] | None = None
        self._asked = 0
        self._failure: BaseException | None = None

    # Rows

    def open(self, source: Source | None) -> Source | None:
        """Collect rows of this source from now on; return whose they were until now.

        Whoever is done opens that one again: the loop of a parent, or of a stream whose
        author writes to another in between, goes on as if nothing had been.
        A stream's first chunk has one row: whoever waits for a sign of life gets it.
        """
        before = self._source
        if before is not source:
            self.flush()
            self._source = source
            begun = source is not None and source.stream.name in self._begun
            self.limit = CHUNK_ROWS if begun else 1
        return before

    def begin(self) -> None:
        """Note when the first row of a chunk was pulled."""
        self._extracted_at = self._clock()
        self._opened = time.monotonic()
        self.waiting = 0

    def flush(self) -> None:
        """Send the open chunk, or wait until the timer has sent it."""
        if self.bodies:
            with self._whole(), self._lock:
                self._send()
        if self._failure is not None:
            raise self._failure

    def _send(self) -> None:
        """Send what the chunk holds.

        The list stays the same one, so that whoever appends to it needs no lock. Rows
        leave it when they are out: until then nobody takes the chunk for empty, and so
        nobody opens it for another source.
        """
        count = len(self.bodies)
        rows = self.bodies[:count]
        if rows and self._source is not None:
            self._begun.add(self._source.stream.name)
            self.limit = CHUNK_ROWS
            self._cadence.rows(self.waiting)
            self.waiting = 0
            version = self._source.version()
            for stream, bodies in self._source.parts(rows):
                self._hand(Rows(stream, bodies, extracted_at=self._extracted_at, version=version))
        del self.bodies[:count]

    # Everything else

    def settle(self) -> None:
        """Make what was pulled visible: bookmarks moved, rows out."""
        self.settle_bookmarks()
        self.flush()

    def settle_bookmarks(self) -> None:
        """Move the bookmarks past what was pulled."""
        for cursor, moved in self.cursors.items():
            if cursor.settle():
                moved()

    def reload_bookmarks(self) -> None:
        """Go on from what the state says now, after an author moved it himself."""
        for cursor in self.cursors:
            cursor.reload()

    def emit(self, event: Event) -> None:
        """Send an event behind all rows so far."""
        self.settle()
        self._emit(event)

    def describe(self, event: Describe) -> None:
        """Send a stream's schema, unless it is the one sent last."""
        if self._described.get(event.stream.name) != event:
            self.emit(event)
            self._described[event.stream.name] = event

    def checkpoint(self, *, owed: bool, document: StateDocument | None = None) -> None:
        """Send the state, if it changed since it was sent.

        One that is not ``owed`` (at the end of a partition or a child's context) goes
        out only while states are a small share of what is written. ``document`` is a
        state of an author's own.
        """
        if not owed and not self._cadence.due(self.document.size_estimate):
            return
        self.settle()
        with self._whole():
            state = (document or self.document).encode_if_changed()
            if state is not None:
                self._emit(Checkpoint(state))
                self._cadence.wrote(len(state))

    def _emit(self, event: Event) -> None:
        """Hand one event to the door, whole: a signal waits until it is out."""
        with self._whole(), self._lock:
            self._hand(event)

    def _hand(self, event: Event) -> None:
        """Hand one event to the door.

        Once that has failed nothing goes out any more: rows may be lost, and a state
        behind them would say that they are not.
        """
        if self._failure is not None:
            raise self._failure
        try:
            self.outlet.emit(event)
        except BaseException as error:
            self._failure = error
            raise

    @property
    def is_broken(self) -> bool:
        """Whether the door could not take an event, so that nothing more can go out."""
        return self._failure is not None

    # Signals and time

    @contextmanager
    def _whole(self) -> Iterator[None]:
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
            if self._asked <= 1:  # else it may be the one that waits for the reader
                thread.join()

    def _watch(self, ended: threading.Event) -> None:
        """Look at the chunk's age until the run ends."""
        while not ended.wait(MAX_AGE_SECONDS / 2):
            if self.bodies and time.monotonic() - self._opened >= MAX_AGE_SECONDS:
                with suppress(Exception), self._lock:  # the next flush raises it again
                    self._send()
                if self.is_broken:
                    return
