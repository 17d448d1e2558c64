"""Ledger of committed and uncommitted batches, which emits a state once its rows are committed.

The input thread and the writer threads share one ledger, which has a lock. Every message has an
ordinal, its position in the input; a state at ordinal *n* includes every row with a smaller
ordinal. A batch is identified by the ordinal of its first row. The frontier is the smallest such
ordinal of all uncommitted batches of all streams. A state, even of a single stream, is emitted only
if it comes before the frontier. States are emitted while the lock is held, so an older state never
follows a newer one.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

from target_spark.loader.pending_states import (
    CoveredState,
    GlobalStateFormat,
    PendingStates,
    StateFormat,
)
from target_spark.loader.report import Report

__all__ = ["Ledger"]


@dataclass(slots=True)
class _StreamBatches:
    """Uncommitted batches of one stream, identified by the input positions of their first rows.

    Attributes:
        closed: Positions of the closed batches, oldest first.
        open: Position of the open batch, or None.
        withheld: True if the oldest closed batch is committed, but no state after it may be emitted
            yet, because too many of its rows were quarantined.
    """

    closed: deque[int]
    open: int | None = None
    withheld: bool = False

    def oldest(self) -> int | None:
        return self.closed[0] if self.closed else self.open

    def oldest_after(self, upto: int) -> int | None:
        later = (first for first in self.closed if first > upto)
        return next(later, self.open)


class Ledger:
    """Record of a run's uncommitted batches, and of the states that wait until they are committed.

    Thread-safe. A state is emitted when all rows before it are committed.

    Args:
        emit: Function that writes a state to the output.
        report: The run report to update.
        state_format: Encoder of the states; None to emit them as they were received.
    """

    def __init__(
        self, emit: Callable[[bytes], None], report: Report, state_format: StateFormat | None = None
    ) -> None:
        self._emit = emit
        self._report = report
        self._state_format = state_format or GlobalStateFormat()
        self._lock = threading.Lock()
        self._by_stream: dict[Hashable, _StreamBatches] = {}
        self._states = PendingStates()
        self._last = self._newest_batch = -1
        self._newest_state = self._last_emitted = self._last_carried = -1

    # States

    def add_state(self, state: CoveredState) -> None:
        """Record a received state. `release` emits it once all rows before it are committed."""
        with self._lock:
            self._advance(state.ordinal)
            self._states.add(state, self._newest_batch)
            self._newest_state = state.ordinal
            self._report.count_state()

    def state_for_commit(self, stream: Hashable, upto: int) -> CoveredState | None:
        """Return the newest state that the next commit may store, or None.

        A commit may store a state if each row received before the state is in this commit or in an
        earlier one. It may be a state that was emitted already.

        Args:
            stream: The stream whose batches the next commit writes, or `LoadedStream.deletion_key`
                if the commit deletes rows of old Singer table versions.
            upto: A position in the input. The next commit writes the batches of ``stream`` that
                begin at or before this position.
        """
        with self._lock:
            return self._merge_covered(self._states.covered(self._frontier(stream, upto)))

    def state_before_commit(self) -> CoveredState | None:
        """Return the newest state whose rows are all committed already, or None.

        If too many rows of a commit are quarantined, the commit stores this state, not a newer one.
        """
        with self._lock:
            return self._merge_covered(self._states.covered(self._frontier()))

    def release(self) -> None:
        """Emit the waiting states whose rows are all committed.

        Of several such states of one stream, or of all streams together, only the newest is
        emitted.
        """
        with self._lock:
            for state in self._states.take_releasable(self._frontier()):
                self._emit(self._state_format.format_output(state))
                self._last_emitted = state.ordinal
                self._report.count_released_state(last=state.ordinal == self._newest_state)

    def get_uncarried_state(self) -> CoveredState | None:
        """Return the emitted states, merged into one, if no commit has stored the newest yet.

        Otherwise return None. The next run reads the state from a commit, so the caller stores the
        result in a commit without rows.
        """
        with self._lock:
            if self._last_emitted <= self._last_carried:
                return None
        return self.get_emitted_state()

    def get_emitted_state(self) -> CoveredState | None:
        """Return the emitted states merged into one state, or None if no state was emitted."""
        with self._lock:
            return self._merge_covered(self._states.covered(-1))

    # Batches

    def record_rows(self, stream: Hashable, ordinal: int) -> None:
        """Record that rows of a stream were received, beginning at input position ``ordinal``.

        If the stream has no open batch, a batch is opened.
        """
        with self._lock:
            self._advance(ordinal)
            batches = self._by_stream.setdefault(stream, _StreamBatches(deque()))
            if batches.open is None:
                batches.open = self._newest_batch = ordinal

    def close_batch(self, stream: Hashable) -> None:
        """Close a stream's open batch. Nothing happens if the stream has no open batch.

        The next row of the stream opens a new batch.
        """
        with self._lock:
            batches = self._by_stream.get(stream)
            if batches is not None and batches.open is not None:
                batches.closed.append(batches.open)
                batches.open = None

    def mark_committed(
        self,
        stream: Hashable,
        upto: int,
        carried: CoveredState | None = None,
        *,
        withheld: bool = False,
    ) -> None:
        """Mark closed batches as committed, so that they no longer hold back states.

        Args:
            stream: The stream of the batches, or `LoadedStream.deletion_key` if the commit deleted
                rows of old Singer table versions.
            upto: A position in the input; batches that begin at or before it are marked.
            carried: The state that the commit stores, or None if it stores no state.
            withheld: True if too many rows were quarantined. Then the batches hold back states
                until a later batch of the stream is committed.

        Raises:
            ValueError: No such batch was closed.
        """
        with self._lock:
            batches = self._find_closed_batches(stream, upto)
            first = batches.closed[0]
            while batches.closed and batches.closed[0] <= upto:
                batches.closed.popleft()
            if withheld:
                batches.closed.appendleft(first)  # the oldest one represents all of them
            batches.withheld = withheld
            if carried is not None:  # it need not be stored again at the end of the run
                self._last_carried = max(self._last_carried, carried.ordinal)
            self._drop_replaced_states()

    def withheld(self) -> list[Hashable]:
        """Return the streams whose states are held back because too many rows were quarantined."""
        with self._lock:
            return [stream for stream, batches in self._by_stream.items() if batches.withheld]

    def discard_open_batch(self, stream: Hashable) -> None:
        """Remove a stream's open batch, so that it no longer holds back states.

        Call this method if the batch will not be committed.
        """
        with self._lock:
            batches = self._by_stream.get(stream)
            if batches is not None:
                batches.open = None
            self._drop_replaced_states()

    def count_rejected(self, stream: Hashable, rows: int) -> None:
        """Count quarantined rows of a stream, so that its states can report the number.

        An Airbyte state reports the number of rows that were not written. Singer states do not.
        """
        with self._lock:
            self._state_format.count_rejected(stream, rows)

    # Under the lock

    def _merge_covered(self, states: list[CoveredState]) -> CoveredState | None:
        return (
            CoveredState(states[-1].ordinal, self._state_format.format_stored(states))
            if states
            else None
        )

    def _find_closed_batches(self, stream: Hashable, upto: int) -> _StreamBatches:
        batches = self._by_stream.get(stream)
        if batches is None or not batches.closed or batches.closed[0] > upto:
            message = f"no batch of stream {stream} was closed up to ordinal {upto}"
            raise ValueError(message)
        return batches

    def _advance(self, ordinal: int) -> None:
        if ordinal < self._last:
            message = f"ordinal {ordinal} after {self._last}: messages are out of order"
            raise ValueError(message)
        self._last = ordinal

    def _frontier(self, stream: Hashable = None, upto: int = -1) -> int | None:
        """Return the position in the input at which the oldest uncommitted batch begins.

        Return None if all batches are committed. Batches of ``stream`` that begin at or before
        ``upto`` are treated as committed, to compute the result after their commit.
        """
        ordinals = (
            batches.oldest_after(upto) if name == stream else batches.oldest()
            for name, batches in self._by_stream.items()
        )
        return min((first for first in ordinals if first is not None), default=None)

    def _drop_replaced_states(self) -> None:
        ordinals = sorted(self._first_ordinals())
        self._newest_batch = ordinals[-1] if ordinals else -1
        self._states.drop_replaced(ordinals)

    def _first_ordinals(self) -> Iterable[int]:
        for batches in self._by_stream.values():
            yield from batches.closed
            if batches.open is not None:
                yield batches.open
