"""When a state may leave, and its leaving: the ledger under one lock.

Rules of the room: the reader of the input and the threads that commit both come here.
A state is put out while the lock is held, so that no older one follows a newer one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable

from target_spark.ledger import Covered, Ledger
from target_spark.report import Report

__all__ = ["Releases"]


class Releases:
    """The watermark book of one run, safe for threads. ``emit`` puts a state out."""

    def __init__(self, emit: Callable[[bytes], None], report: Report) -> None:
        self._emit = emit
        self._report = report
        self._lock = threading.Lock()
        self._ledger = Ledger()
        self._newest: Covered | None = None
        self._carried = -1
        self._last = -1

    def state_arrived(self, ordinal: int, state: bytes) -> None:
        """Note a state at its place in the input; it leaves by `release`."""
        with self._lock:
            self._ledger.state_arrived(ordinal, state)
            self._last = ordinal
            self._report.state_received()

    def opened(self, stream: Hashable, ordinal: int) -> None:
        """Note that rows of a stream wait from this ordinal on."""
        with self._lock:
            self._ledger.opened(stream, ordinal)

    def cut(self, stream: Hashable) -> None:
        """Note that the stream's open batch is closed."""
        with self._lock:
            self._ledger.cut(stream)

    def covered_by(self, stream: Hashable, upto: int) -> Covered | None:
        """Return the newest state that is covered once these batches are committed too."""
        with self._lock:
            return self._ledger.state_for_commit(stream, upto)

    def committed(self, stream: Hashable, upto: int, carried: Covered | None) -> None:
        """Note a commit and the state it carried, and put out what it allows."""
        with self._lock:
            self._ledger.committed(stream, upto)
            self._carry(carried)
            self._put_out()

    def waived(self, stream: Hashable) -> None:
        """Note that what states wait for here does not come, and need not."""
        with self._lock:
            self._ledger.waived(stream)
            self._put_out()

    def release(self) -> None:
        """Put out the newest state that nothing uncommitted stands before."""
        with self._lock:
            self._put_out()

    def carried(self, covered: Covered) -> None:
        """Note that a table now holds this state."""
        with self._lock:
            self._carry(covered)

    def leftover(self) -> Covered | None:
        """Return the newest state that left and that no commit carries."""
        with self._lock:
            if self._newest is None or self._newest.ordinal <= self._carried:
                return None
            return self._newest

    def _carry(self, covered: Covered | None) -> None:
        if covered is not None:
            self._carried = max(self._carried, covered.ordinal)

    def _put_out(self) -> None:
        found = self._ledger.releasable()
        if found is not None:
            self._emit(found.state)
            self._newest = found
            self._report.released(last=found.ordinal == self._last)
