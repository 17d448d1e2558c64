"""Emission of states after the commits they depend on: the ledger under one lock.

The input reader and the writer threads both use this module. A state is emitted while the lock is
held, so an older state never follows a newer one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable

from target_spark.loader.ledger import Ledger
from target_spark.loader.report import Report
from target_spark.loader.state_tracking import CoveredState, GlobalStateFormat, StateFormat

__all__ = ["StateReleaser"]


class StateReleaser:
    """Thread-safe ledger of one run that emits states.

    ``emit`` writes a line; ``form`` defines the format of emitted states and of states in commits.
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
        """Record a state at its position in the input; `release` emits it."""
        with self._lock:
            self._ledger.state_arrived(state)
            self._last = state.ordinal
            self._report.state_received()

    def opened(self, stream: Hashable, ordinal: int) -> None:
        """Record that rows of a stream are uncommitted from this ordinal on."""
        with self._lock:
            self._ledger.opened(stream, ordinal)

    def cut(self, stream: Hashable) -> None:
        """Record that the stream's open batch is closed."""
        with self._lock:
            self._ledger.cut(stream)

    def covered_by(self, stream: Hashable, upto: int) -> CoveredState | None:
        """Return the state that is covered once these batches are committed, or None."""
        with self._lock:
            return self._kept(self._ledger.state_for_commit(stream, upto))

    def covered_without(self) -> CoveredState | None:
        """Return the state already covered, which a commit of withheld rows may carry, or None."""
        with self._lock:
            return self._kept(self._ledger.state_before_commit())

    def committed(self, stream: Hashable, upto: int, carried: CoveredState | None) -> None:
        """Record a commit and the state it carried, and emit the states it allows."""
        with self._lock:
            self._ledger.committed(stream, upto)
            self._carry(carried)
            self._emit_released()

    def withhold(self, stream: Hashable, upto: int, carried: CoveredState | None = None) -> None:
        """Hold back states for committed rows until a later batch of the stream is committed."""
        with self._lock:
            self._ledger.withhold(stream, upto)
            self._carry(carried)

    def withheld(self) -> list[Hashable]:
        """Return the streams with committed batches that states wait for."""
        with self._lock:
            return self._ledger.withheld()

    def rejected(self, stream: Hashable, rows: int) -> None:
        """Record that rows of a stream were committed to its quarantine."""
        with self._lock:
            self._form.rejected(stream, rows)

    def waived(self, stream: Hashable) -> None:
        """Record that states need not wait for the open batch of a stream, and emit states."""
        with self._lock:
            self._ledger.waived(stream)
            self._emit_released()

    def release(self) -> None:
        """Emit the newest states whose rows are all committed."""
        with self._lock:
            self._emit_released()

    def carried(self, covered: CoveredState) -> None:
        """Record that a table now holds this state."""
        with self._lock:
            self._carry(covered)

    def leftover(self) -> CoveredState | None:
        """Return the emitted states as one state if no commit carries all of them, or None."""
        with self._lock:
            if self._newest <= self._carried:
                return None
            return self._kept(self._ledger.released())

    def _kept(self, states: list[CoveredState]) -> CoveredState | None:
        return CoveredState(states[-1].ordinal, self._form.kept(states)) if states else None

    def _carry(self, covered: CoveredState | None) -> None:
        if covered is not None:
            self._carried = max(self._carried, covered.ordinal)

    def _emit_released(self) -> None:
        for found in self._ledger.releasable():
            self._emit(self._form.leaving(found))
            self._newest = found.ordinal
            self._report.released(last=found.ordinal == self._last)
