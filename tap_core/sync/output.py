"""Output queue that all threads of one sync share, with the state document.

- Events are written one at a time and completely, under the lock of the state document.
- A state is written after every row that it covers: the state text is made first, then the
  open chunks of all threads are sent, then the text. A row is in its chunk before its
  bookmark moves, so the text never covers a row that is still buffered.
- After a failed write nothing more is written.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, cast

from tap_core.events import Checkpoint, SchemaEvent
from tap_core.sync.batch_file_output import BatchFileOutput

if TYPE_CHECKING:
    from tap_core.events import Event
    from tap_core.records.conform import UnmappedCallback
    from tap_core.state.checkpoint_policy import CheckpointPolicy
    from tap_core.state.document import StateDocument
    from tap_core.sync.work_units import WorkDistributor
    from tap_core.types import Record, RecordBodyEncoder
    from tap_core.typing.inspect import TypeConformanceLevel

__all__ = [
    "OpenChunk",
    "OutputQueue",
    "PolledWriter",
    "ProtocolWriter",
    "TypedEncoder",
    "TypedEventWriter",
    "as_typed_writer",
]

_LOOK_SECONDS = 0.1
"""Interval at which a waiting thread checks whether the sync has ended."""


class ProtocolWriter(Protocol):
    """Writer of one protocol: encodes record bodies and writes events.

    Optional attributes:

    - ``takes_files = True``: the protocol can refer to files of rows.
    - ``takes_estimates = True``: the protocol has a message for estimated sizes.
    - ``tells_ends = True``: the protocol reports the end of each stream separately.
    - ``spreader``: a `WorkDistributor` that lets other processes read the rows.

    A writer whose reader may disconnect at any time and expects states in the meantime is a
    `PolledWriter`. A writer that has a type for each column is a `TypedEventWriter`.
    """

    def encode(self, record: Record, /) -> Any:
        """Encode the body of one conformed record."""

    def emit(self, event: Event, /) -> None:
        """Write one event; may block until the reader is ready."""


class TypedEventWriter(ProtocolWriter, Protocol):
    """Writer of a protocol with typed columns, whose record encoding depends on the stream."""

    def make_encoder(
        self, described: SchemaEvent, level: TypeConformanceLevel, unmapped: UnmappedCallback, /
    ) -> TypedEncoder:
        """Return the encoder for the records of a stream, for all possible values.

        ``level`` and ``unmapped`` control the conformance of nested values.
        """


class TypedEncoder(Protocol):
    """Encoder for the records of one stream with typed columns."""

    @property
    def encode(self) -> RecordBodyEncoder:
        """Fast encoder for common values; it raises one of `ENCODING_ERRORS` for other values."""

    def careful(self, record: Record, /) -> Any:
        """Encode a record with any values."""

    def body(self, record: Record, /) -> Any:
        """Encode a record with the fast encoder if possible, else with `careful`."""


class PolledWriter(ProtocolWriter, Protocol):
    """Writer of a request whose caller may disconnect and expects states until then."""

    state_seconds: float
    """Seconds without a state after which one is due, as soon as the current record is done."""

    def check(self) -> None:
        """Raise an error if the caller of the request has disconnected."""


def as_typed_writer(outlet: ProtocolWriter) -> TypedEventWriter | None:
    """Return the writer as a `TypedEventWriter`, or None if its columns have no types."""
    return cast(TypedEventWriter, outlet) if hasattr(outlet, "make_encoder") else None


class OpenChunk(Protocol):
    """Buffer of one thread's records that are not sent yet."""

    def send(self) -> None:
        """Send the buffered rows; call it under the lock."""

    def send_if_old(self) -> None:
        """Send the buffered rows if they are older than the age limit."""


class OutputQueue:
    """Serializes the events of all threads of a sync to one protocol writer."""

    def __init__(
        self, outlet: ProtocolWriter, document: StateDocument, cadence: CheckpointPolicy
    ) -> None:
        """Write the states of ``document`` to ``outlet``, as often as ``cadence`` allows."""
        self.outlet = outlet
        self.files = BatchFileOutput(outlet.emit)
        self.document = document
        self.cadence = cadence
        self.lock = document.lock
        self.failure: BaseException | None = None
        self.chunks: dict[OpenChunk, None] = {}
        """Open chunks of all threads."""
        self.threads: dict[int, Any] = {}
        """Runs of the worker threads by thread identifier."""
        self.held: dict[Callable[[], bool], None] = {}
        """Functions that advance the bookmarks held by open contexts, under the lock."""
        self.begun: set[str] = set()
        """Streams that have written a row."""
        self._said: dict[Hashable, Any] = {}
        self._visited: dict[Hashable, object] = {}
        self._turn = threading.Condition()
        self.takes_estimates: bool = getattr(outlet, "takes_estimates", False)
        self.has_total = False
        """True if an estimate for all streams together was emitted."""
        self.spreader: WorkDistributor | None = getattr(outlet, "spreader", None)
        self.attended: PolledWriter | None = (
            cast(PolledWriter, outlet) if hasattr(outlet, "state_seconds") else None
        )
        self.is_called = False
        """True if the sync must checkpoint or stop at its next record: see `SyncRun.guarded`."""

    def hand(self, event: Event) -> None:
        """Pass one event to the writer, under the lock.

        After a failure nothing more is written: rows may be lost, and a later state would claim
        that they were delivered.
        """
        if self.failure is not None:
            raise self.failure
        try:
            self.files.emit(event)
        except BaseException as error:
            self.failure = error
            raise

    def finish_files(self, source: str) -> None:
        """Close and announce the last batch files of a stream."""
        with self.lock:
            if self.failure is not None:
                raise self.failure
            try:
                self.files.finish(source)
            except BaseException as error:
                self.failure = error
                raise

    def checkpoint(self, document: StateDocument | None) -> None:
        """Write the state if it changed, after all rows that it may cover."""
        with self.lock:
            if not self.files.allows_state(owed=True):
                return  # a batcher took a row in the meantime
            for settle in list(self.held):
                settle()
            state = (document or self.document).encode_if_changed()
            if state is None:
                return
            for chunk in list(self.chunks):
                chunk.send()
            self.hand(Checkpoint(state))
            self.cadence.wrote(len(state))

    def send_what_is_old(self) -> None:
        """Send the buffered records of all threads that are older than the age limit."""
        for chunk in list(self.chunks):
            chunk.send_if_old()

    def attend(self) -> None:
        """Check that the reader is connected and write a state if the last one is too old.

        The timer thread calls this.
        """
        if self.attended is None or self.failure is not None:
            return
        try:
            self.attended.check()
        except Exception as error:  # noqa: BLE001  after any error nothing more is written
            self.failure = error
        self.is_called = self.failure is not None or self.cadence.is_overdue(
            self.attended.state_seconds
        )

    def call_on_change(self, about: Hashable, what: Any, say: Callable[[], None]) -> None:
        """Call ``say`` if the value ``what`` differs from the last one for the key ``about``.

        Other threads wait until the call has ended.
        """
        with self.lock:
            if self._said.get(about) != what:
                say()
                self._said[about] = what

    def describe(self, event: SchemaEvent, emit: Callable[[Event], None]) -> None:
        """Emit the schema of a stream, unless it is the schema sent last."""
        self.call_on_change(event.stream.name, event, lambda: emit(event))

    @contextmanager
    def visiting(
        self, place: Hashable, visitor: object, check: Callable[[], None]
    ) -> Iterator[None]:
        """Hold a reentrant lock named ``place`` for ``visitor`` during the block.

        While it waits it calls ``check``, which raises if the sync has ended.
        """
        with self._turn:
            while self._visited.get(place, visitor) is not visitor:
                check()
                self._turn.wait(_LOOK_SECONDS)
            again = place in self._visited
            self._visited[place] = visitor
        try:
            yield
        finally:
            if not again:
                with self._turn:
                    del self._visited[place]
                    self._turn.notify_all()
