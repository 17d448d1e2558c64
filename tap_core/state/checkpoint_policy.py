"""How often a state goes out.

Rules of the room: a state after every ``STATE_MSG_FREQUENCY`` records, and the last one of
a stream or tap, always go out; nobody asks here. The extra ones, at the end of a partition
or of a child's context, may take up a small share of the bytes of rows written since the
sync began, after a first allowance so that small syncs get all of them. A source that is
slow gets one every few seconds all the same: a state costs nothing while it is awaited.
"""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["CheckpointPolicy"]


class CheckpointPolicy:
    """Decides whether an extra state is due.

    ``share`` is bytes of state per byte of rows, ``allowance`` in bytes, ``seconds`` the
    longest wait for a state that is asked for. With n partitions of equal size the extra
    states cost O(n) bytes, where one per partition would cost O(n²).
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
        """Count bytes of rows that were written."""
        self._credit += nbytes * self._share

    def due(self, state_size_estimate: int) -> bool:
        """Return whether an extra state of about this many bytes may go out now."""
        return self._credit >= state_size_estimate or self._clock() - self._since >= self._seconds

    def is_overdue(self, seconds: float) -> bool:
        """Return whether the last state went out so long ago."""
        return self._clock() - self._since >= seconds

    def wrote(self, nbytes: int) -> None:
        """Count the bytes of a state that went out, whatever was the reason."""
        self._credit = max(0.0, self._credit - nbytes)
        self._since = self._clock()
