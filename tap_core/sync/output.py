"""What the threads of one sync share: the way out, the state, and what went out already.

Rules of the room: one event leaves at a time, whole, under the lock of the state document.
A state goes out behind every row that it covers: its text is made first, then the open
chunks of all threads leave, then the text. A row is in its chunk before its bookmark
moves, so the text never speaks of a row that is still here. Once a write has failed
nothing more goes out.
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
    "BookmarkHolder",
    "OpenChunk",
    "OutputQueue",
    "PolledWriter",
    "ProtocolWriter",
    "TypedEncoder",
    "TypedEventWriter",
    "as_typed_writer",
]

_LOOK_SECONDS = 0.1
"""How often whoever waits for his turn looks whether the sync has ended meanwhile."""


class ProtocolWriter(Protocol):
    """A door's side of a sync: how a body is encoded and where events go.

    One whose protocol can name files of rows has ``takes_files = True``, one that can say
    how much is to come ``takes_estimates = True``, one that tells the end of each stream by
    itself ``tells_ends = True``, one whose rows may be read by other processes a ``spreader``.
    One whose reader may leave at any time, and counts on states meanwhile, is an `Attended`;
    one with a type for each column has `TypedEventWriter.make_encoder`.
    """

    def encode(self, record: Record, /) -> Any:
        """Encode the body of one shaped record."""

    def emit(self, event: Event, /) -> None:
        """Take one event; may block until the reader is ready."""


class TypedEventWriter(ProtocolWriter, Protocol):
    """The outlet of a protocol in which each column has a type: bodies depend on the stream."""

    def make_encoder(
        self, described: SchemaEvent, level: TypeConformanceLevel, unmapped: UnmappedCallback, /
    ) -> TypedEncoder:
        """Make what encodes the records of a stream, whatever their values are.

        ``level`` and ``unmapped`` are those by which values that have parts are conformed.
        """


class TypedEncoder(Protocol):
    """How the records of one stream are encoded where each column has a type."""

    @property
    def encode(self) -> RecordBodyEncoder:
        """For the values that are met every day; raises one of `ENCODING_ERRORS` for others."""

    def careful(self, record: Record, /) -> Any:
        """Encode a record of whatever values."""

    def body(self, record: Record, /) -> Any:
        """Encode a record, the quick way where that is possible."""


class PolledWriter(ProtocolWriter, Protocol):
    """The outlet of a call: whoever made it may leave, and counts on states until then."""

    state_seconds: float
    """After how long without a state one is owed, as soon as a record is done."""

    def check(self) -> None:
        """Raise an error when nobody takes events any more."""


def as_typed_writer(outlet: ProtocolWriter) -> TypedEventWriter | None:
    """Return an outlet as one with types, None where it has none."""
    return cast(TypedEventWriter, outlet) if hasattr(outlet, "make_encoder") else None


class OpenChunk(Protocol):
    """The open rows of one thread."""

    def send(self) -> None:
        """Send the rows that are there, under the lock."""

    def send_if_old(self) -> None:
        """Send them if they have waited for long."""


class BookmarkHolder(Protocol):
    """A bookmark that moves when others say so."""

    def settle(self) -> bool:
        """Move it as far as it may, under the lock; return whether it moved."""


class OutputQueue:
    """The one way out of a tap."""

    def __init__(
        self, outlet: ProtocolWriter, document: StateDocument, cadence: CheckpointPolicy
    ) -> None:
        """Write to ``outlet`` the states of ``document``, as often as ``cadence`` says."""
        self.outlet = outlet
        self.files = BatchFileOutput(outlet)
        self.document = document
        self.cadence = cadence
        self.lock = document.lock
        self.failure: BaseException | None = None
        self.chunks: dict[OpenChunk, None] = {}
        """The chunks that are open, of every thread."""
        self.threads: dict[int, Any] = {}
        """By the identity of a thread that is a worker: its run."""
        self.held: dict[BookmarkHolder, None] = {}
        self.begun: set[str] = set()
        """Streams of which a row went out."""
        self._said: dict[Hashable, Any] = {}
        self._visited: dict[Hashable, object] = {}
        self._turn = threading.Condition()
        self.takes_estimates: bool = getattr(outlet, "takes_estimates", False)
        self.has_total = False
        """Whether it was told about how much all streams together will bring."""
        self.spreader: WorkDistributor | None = getattr(outlet, "spreader", None)
        self.attended: PolledWriter | None = (
            cast(PolledWriter, outlet) if hasattr(outlet, "state_seconds") else None
        )
        self.is_called = False
        """Whether the sync is asked to look up at its next record: see `look`."""

    def hand(self, event: Event) -> None:
        """Hand one event to the door, under the lock.

        Once that has failed nothing goes out any more: rows may be lost, and a state
        behind them would say that they are not.
        """
        if self.failure is not None:
            raise self.failure
        try:
            self.files.emit(event)
        except BaseException as error:
            self.failure = error
            raise

    def finish_files(self, source: str) -> None:
        """Name the last files of a stream whose rows go into files."""
        with self.lock:
            if self.failure is not None:
                raise self.failure
            try:
                self.files.finish(source)
            except BaseException as error:
                self.failure = error
                raise

    def checkpoint(self, document: StateDocument | None) -> None:
        """Send the state if it changed, behind all rows that it may cover."""
        with self.lock:
            if not self.files.allows_state(owed=True):
                return  # a batcher took a row since this was asked for
            for held in list(self.held):
                held.settle()
            state = (document or self.document).encode_if_changed()
            if state is None:
                return
            for chunk in list(self.chunks):
                chunk.send()
            self.hand(Checkpoint(state))
            self.cadence.wrote(len(state))

    def send_what_is_old(self) -> None:
        """Send the chunks that have waited for long."""
        for chunk in list(self.chunks):
            chunk.send_if_old()

    def attend(self) -> None:
        """Look whether there is still a reader, and when it had a state; by a timer's thread."""
        if self.attended is None or self.failure is not None:
            return
        try:
            self.attended.check()
        except Exception as error:  # noqa: BLE001  whatever it is, nothing can go out any more
            self.failure = error
        self.is_called = self.failure is not None or self.cadence.is_overdue(
            self.attended.state_seconds
        )

    def say_once(self, about: Hashable, what: Any, say: Callable[[], None]) -> None:
        """Call ``say`` unless just this was said last, for all threads to wait for."""
        with self.lock:
            if self._said.get(about) != what:
                say()
                self._said[about] = what

    def describe(self, event: SchemaEvent, emit: Callable[[Event], None]) -> None:
        """Send a stream's schema, unless it is the one sent last."""
        self.say_once(event.stream.name, event, lambda: emit(event))

    @contextmanager
    def visiting(
        self, place: Hashable, visitor: object, check: Callable[[], None]
    ) -> Iterator[None]:
        """Be the only one at a place for a while; who is there already may come again.

        ``check`` is called while it waits, and raises when there is no point any more.
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
