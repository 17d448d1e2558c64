"""When a state may leave, and its leaving: the ledger under one lock.

Rules of the room: the reader of the input and the threads that commit both come here.
A state is put out while the lock is held, so that no older one follows a newer one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable

from target_spark.loader.ledger import Ledger
from target_spark.loader.report import Report
from target_spark.loader.state_tracking import CoveredState, GlobalStateFormat, StateFormat

__all__ = ["StateReleaser"]


class StateReleaser:
    """The watermark book of one run, safe for threads.

    ``emit`` puts a line out; ``form`` is how states leave and how commits keep them.
    """

    def __init__(
        self, emit: Callable[[bytes], None], report: Report, form: StateFormat | None = None
    ) -> None:
        self._emit = emit
        self._report = report
        self._form = form or GlobalStateFormat()
        self._lock = threading.Lock()
        self._ledger = Ledger()
        self._newest = -1
        self._carried = -1
        self._last = -1

    def state_arrived(self, state: CoveredState) -> None:
        """Note a state at its place in the input; it leaves by `release`."""
        with self._lock:
            self._ledger.state_arrived(state)
            self._last = state.ordinal
            self._report.state_received()

    def opened(self, stream: Hashable, ordinal: int) -> None:
        """Note that rows of a stream wait from this ordinal on."""
        with self._lock:
            self._ledger.opened(stream, ordinal)

    def cut(self, stream: Hashable) -> None:
        """Note that the stream's open batch is closed."""
        with self._lock:
            self._ledger.cut(stream)

    def covered_by(self, stream: Hashable, upto: int) -> CoveredState | None:
        """Return what is covered, as one state, once these batches are committed too."""
        with self._lock:
            return self._kept(self._ledger.state_for_commit(stream, upto))

    def covered_without(self) -> CoveredState | None:
        """Return what is covered already, as one state: a commit of withheld rows may carry it."""
        with self._lock:
            return self._kept(self._ledger.state_before_commit())

    def committed(self, stream: Hashable, upto: int, carried: CoveredState | None) -> None:
        """Note a commit and the state it carried, and put out what it allows."""
        with self._lock:
            self._ledger.committed(stream, upto)
            self._carry(carried)
            self._put_out()

    def withhold(self, stream: Hashable, upto: int, carried: CoveredState | None = None) -> None:
        """Let states wait for what is committed of a stream, until more of it is safe."""
        with self._lock:
            self._ledger.withhold(stream, upto)
            self._carry(carried)

    def withheld(self) -> list[Hashable]:
        """Return the names of those whose commits states wait for."""
        with self._lock:
            return self._ledger.withheld()

    def rejected(self, stream: Hashable, rows: int) -> None:
        """Note that rows of a stream were committed to its quarantine."""
        with self._lock:
            self._form.rejected(stream, rows)

    def waived(self, stream: Hashable) -> None:
        """Note that what states wait for here does not come, and need not."""
        with self._lock:
            self._ledger.waived(stream)
            self._put_out()

    def release(self) -> None:
        """Put out the newest states that nothing uncommitted stands before."""
        with self._lock:
            self._put_out()

    def carried(self, covered: CoveredState) -> None:
        """Note that a table now holds this state."""
        with self._lock:
            self._carry(covered)

    def leftover(self) -> CoveredState | None:
        """Return what left, as one state, where no commit carries all of it."""
        with self._lock:
            if self._newest <= self._carried:
                return None
            return self._kept(self._ledger.released())

    def _kept(self, states: list[CoveredState]) -> CoveredState | None:
        return CoveredState(states[-1].ordinal, self._form.kept(states)) if states else None

    def _carry(self, covered: CoveredState | None) -> None:
        if covered is not None:
            self._carried = max(self._carried, covered.ordinal)

    def _put_out(self) -> None:
        for found in self._ledger.releasable():
            self._emit(self._form.leaving(found))
            self._newest = found.ordinal
            self._report.released(last=found.ordinal == self._last)
