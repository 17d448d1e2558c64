"""Output queue that all threads of one sync share.

- Events are written one at a time, under the lock of the state document.
- A state is written after every row that it covers: the state is encoded first, then the
  buffered rows of all threads are written, then the encoded state. A row is buffered before its
  bookmark advances, so the state never covers a row that is not written.
- After a failed write nothing more is written.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from tap_core.events import Checkpoint, SchemaEvent
from tap_core.sync.batch_file_output import BatchFileOutput

if TYPE_CHECKING:
    from tap_core.events import Event
    from tap_core.records.conform import UnmappedCallback
    from tap_core.records.serializer import TypedRecordSerializer
    from tap_core.state.checkpoint_policy import CheckpointPolicy
    from tap_core.state.document import StateDocument
    from tap_core.sync.work_units import WorkDistributor
    from tap_core.types import Record
    from tap_core.typing.inspect import TypeConformanceLevel

__all__ = ["OutputQueue", "ProtocolWriter"]

_POLL_SECONDS = 0.1
"""Interval at which a waiting thread checks whether the sync has ended."""


class ProtocolWriter(Protocol):
    """Writer of the messages of one output protocol, such as Singer or Airbyte.

    Optional attributes:

    - ``takes_files = True``: the protocol can refer to files of rows.
    - ``takes_estimates = True``: the protocol has a message for estimated sizes.
    - ``tells_ends = True``: the protocol reports the end of each stream separately.
    - ``chunk_bytes``: buffered rows are sent when their encoded size reaches this number of bytes.
    - ``distributor``: a `WorkDistributor` that lets other processes read the rows.
    - ``make_encoder(schema_event, level, unmapped)``, for protocols with typed columns: returns the
      `TypedRecordSerializer` of a stream. ``level`` is the nesting depth to which values are
      converted; ``unmapped`` is called for undeclared properties. `encode` is then called only for
      messages that the tap's code builds.
    - ``check()``, for protocols with a connected caller (such as gRPC): raises an error if the
      caller has disconnected.
    - ``state_seconds``, together with ``check``: a state is due this many seconds after the last.
    """

    def encode(self, record: Record, /) -> Any:
        """Return an encoded record. The values must already have the types of the schema."""

    def emit(self, event: Event, /) -> None:
        """Write one event; the call may block until the process that reads the output is ready."""


class OutputQueue:
    """Queue through which all threads of a sync pass their events to one protocol writer."""

    def __init__(
        self, writer: ProtocolWriter, document: StateDocument, checkpoint_policy: CheckpointPolicy
    ) -> None:
        """Create a queue that passes events to a protocol writer.

        Args:
            writer: Protocol writer.
            document: State of the tap.
            checkpoint_policy: Policy that decides if an optional state is written.
        """
        self.protocol_writer = writer
        self.files = BatchFileOutput(writer.emit)
        self.document = document
        self.checkpoint_policy = checkpoint_policy
        self.lock = document.lock
        self.failure: BaseException | None = None
        self.chunks: dict[object, Callable[[float], None]] = {}
        """By thread's `SyncRun`, a function that writes its buffered rows if the first row is at
        least as old as the argument, in seconds."""
        self.threads: dict[int, Any] = {}
        """Runs of the worker threads by thread identifier."""
        self.deferred_settles: dict[Callable[[], object], None] = {}
        """Methods `DeferredBookmark.settle` of the parent streams that are read; used as a set."""
        self.started_streams: set[str] = set()
        """Names of the streams that have written a row."""
        self.read_in_part: set[str] = set()
        """Names of the streams of which this run may write only a part of the rows in a table."""
        self._last_values: dict[Hashable, Any] = {}
        self._key_owners: dict[Hashable, object] = {}
        self._condition = threading.Condition()
        self.takes_estimates: bool = getattr(writer, "takes_estimates", False)
        self.has_total_estimate = False
        """True if an estimate for all streams together was emitted."""
        self.distributor: WorkDistributor | None = getattr(writer, "distributor", None)
        self.make_encoder: (
            Callable[[SchemaEvent, TypeConformanceLevel, UnmappedCallback], TypedRecordSerializer]
            | None
        ) = getattr(writer, "make_encoder", None)
        """Function that returns a stream's serializer; None if the columns have no types."""
        self.check_caller: Callable[[], None] | None = getattr(writer, "check", None)
        """Function that raises an error if the caller has disconnected; None without a caller."""
        self.state_seconds: float = getattr(writer, "state_seconds", 0)
        """Seconds without a state after which one is due, if there is a caller."""
        self.has_request = False
        """True if the timer thread requests a state or a stop; see `SyncRun.guard_records`."""

    def emit(self, event: Event) -> None:
        """Pass one event to the protocol writer; the caller must hold the lock.

        Raises:
            BaseException: This or an earlier write failed. Nothing is written after a failed write,
                because a later state would cover rows that may be lost.
        """
        with self._recording_failure():
            self.files.emit(event)

    def finish_files(self, source: str) -> None:
        """Close the open batch files of the stream ``source``, and emit their BATCH events."""
        with self.lock, self._recording_failure():
            self.files.finish(source)

    @contextmanager
    def _recording_failure(self) -> Iterator[None]:
        """Context manager that stores an error of its block, so that later writes fail too.

        Raises:
            BaseException: An earlier write has failed.
        """
        if self.failure is not None:
            raise self.failure
        try:
            yield
        except BaseException as error:
            self.failure = error
            raise

    def checkpoint(self) -> None:
        """Write the state, if it has changed, after the buffered rows of all threads."""
        with self.lock:
            if not self.files.allows_state(required=True):
                return  # meanwhile a record was read that is not in a BATCH message
            self.settle_deferred_bookmarks()
            state = self.document.encode_if_changed()
            if state is None:
                return
            for send_chunk in list(self.chunks.values()):
                send_chunk(0)
            self.emit(Checkpoint(state))
            self.checkpoint_policy.record_state(len(state))

    def settle_deferred_bookmarks(self) -> None:
        """Advance each parent stream's bookmark to the last record whose children are synced."""
        with self.lock:
            for settle in list(self.deferred_settles):
                settle()

    def send_older_than(self, seconds: float) -> None:
        """Write the buffered rows of threads whose oldest row is at least ``seconds`` old."""
        for send_chunk in list(self.chunks.values()):
            send_chunk(seconds)

    def check_caller_and_state_age(self) -> None:
        """Check that the caller is connected, and request a state if the last one is too old.

        The timer thread calls this method. The syncing thread then writes the requested state, or
        stops if the caller has disconnected.
        """
        if self.check_caller is None or self.failure is not None:
            return
        try:
            self.check_caller()
        except Exception as error:  # noqa: BLE001  after any error nothing more is written
            self.failure = error
        self.has_request = self.failure is not None or self.checkpoint_policy.is_overdue(
            self.state_seconds
        )

    def call_on_change(self, key: Hashable, value: Any, write: Callable[[], None]) -> None:
        """Call ``write`` if ``value`` differs from the value of the last call with this key.

        A message, such as a schema, is thus written only when it has changed. Other threads that
        call this method wait until ``write`` has returned.
        """
        with self.lock:
            if self._last_values.get(key) != value:
                write()
                self._last_values[key] = value

    @contextmanager
    def lock_key(self, key: Hashable, owner: object, check: Callable[[], None]) -> Iterator[None]:
        """Context manager that holds the lock for ``key``, such as a stream and a partition.

        An ``owner`` that already holds the lock may enter again. All others wait, and meanwhile
        call ``check``, which raises an error if the sync has ended.
        """
        with self._condition:
            while self._key_owners.get(key, owner) is not owner:
                check()
                self._condition.wait(_POLL_SECONDS)
            is_nested = key in self._key_owners
            self._key_owners[key] = owner
        try:
            yield
        finally:
            if not is_nested:
                with self._condition:
                    del self._key_owners[key]
                    self._condition.notify_all()
