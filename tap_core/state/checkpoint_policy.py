"""Frequency of states.

States after every ``STATE_MSG_FREQUENCY`` records, and the last state of a stream or tap, are
always written and not decided here. Additional states, at the end of a partition or of a
child's context, may use a small share of the bytes of rows written since the start of the
sync, after an initial allowance so that small syncs get all of them. A slow source gets one
every few seconds in any case, when a state costs no time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["CheckpointPolicy"]


class CheckpointPolicy:
    """Policy that decides if an optional state message is due.

    ``share`` is bytes of state per byte of rows, ``allowance`` is in bytes, ``seconds`` is the
    longest wait for a requested state. With n partitions of equal size the additional states cost
    O(n) bytes, where one per partition would cost O(n²).
    """

    __slots__ = ("_clock", "_credit", "_seconds", "_share", "_since")

    def __init__(
        self,
        share: float = 0.02,
        *,
        allowance: int = 65_536,
        seconds: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._share = share
        self._credit = float(allowance)
        self._seconds = seconds
        self._clock = clock
        self._since = clock()

    def rows(self, nbytes: int) -> None:
        """Count the bytes of record messages that were written."""
        self._credit += nbytes * self._share

    def due(self, state_size_estimate: int) -> bool:
        """Return True if an additional state of about this many bytes may be written now."""
        return self._credit >= state_size_estimate or self._clock() - self._since >= self._seconds

    def is_overdue(self, seconds: float) -> bool:
        """Return True if the last state is at least this many seconds old."""
        return self._clock() - self._since >= seconds

    def wrote(self, nbytes: int) -> None:
        """Count the bytes of a state message that was written for any reason."""
        self._credit = max(0.0, self._credit - nbytes)
        self._since = self._clock()
