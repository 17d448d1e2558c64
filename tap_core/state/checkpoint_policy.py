"""Policy that limits how often optional STATE messages are written.

A state is always written after every ``STATE_MSG_FREQUENCY`` records, and at the end of a stream or
tap (see `tap_core.sync.state_frequency`). A state at the end of a partition, or of the records of
one parent, is optional. All optional states together may have 2 % of the bytes of the rows written
so far, plus an allowance, so that a small sync writes all of them. If a source is slow, an optional
state is still written every few seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["CheckpointPolicy"]


class CheckpointPolicy:
    """Byte budget that decides if an optional STATE message may be written.

    The budget grows with the written rows and shrinks with each written state. A state has an entry
    for each partition, so writing it after each of n partitions would take O(n²) bytes. With the
    budget, the states take O(n) bytes in total.

    Args:
        share: Bytes of state allowed per byte of rows.
        allowance: Bytes of state allowed before any row is written.
        seconds: Time after which a state is allowed even if the budget is exhausted.
        clock: Function that returns the current time in seconds; replaced in tests.
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

    def record_rows(self, nbytes: int) -> None:
        """Increase the byte budget by a share of ``nbytes``, the size of rows just written."""
        self._credit += nbytes * self._share

    def is_due(self, state_size_estimate: int) -> bool:
        """Return True if an optional STATE message of the estimated size in bytes may be written.

        It may if the byte budget suffices, or if no state was written for the policy's ``seconds``.
        """
        return self._credit >= state_size_estimate or self._clock() - self._since >= self._seconds

    def is_overdue(self, seconds: float) -> bool:
        """Return True if the last state was written at least this many seconds ago."""
        return self._clock() - self._since >= seconds

    def record_state(self, nbytes: int) -> None:
        """Reduce the byte budget by ``nbytes``, the size of a STATE message just written."""
        self._credit = max(0.0, self._credit - nbytes)
        self._since = self._clock()
