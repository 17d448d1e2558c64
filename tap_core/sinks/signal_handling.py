"""Deferred handling of termination signals such as SIGTERM, between messages.

The signal handler only records the signal and ends a wait for input, so that a write in progress is
not interrupted. A second signal ends the process at once.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from tap_core.io.stdin import WakeupPipe

__all__ = ["TerminationSignals"]


class TerminationSignals:
    """Termination signals, such as SIGTERM, that a plugin receives and handles between messages."""

    def __init__(self) -> None:
        """Create an object without received signals.

        Signals are only recorded in a ``with`` block of `deferred`.
        """
        self.received: list[int] = []
        self._wake_up: WakeupPipe | None = None

    @contextlib.contextmanager
    def deferred(self) -> Iterator[WakeupPipe]:
        """Record signals during the ``with`` block instead of ending the process.

        Yield a pipe that becomes readable on a signal, to end a wait for input.
        """
        if self._wake_up is not None:
            yield self._wake_up
            return
        with contextlib.closing(WakeupPipe()) as wake_up:
            self._wake_up = wake_up
            try:
                yield wake_up
            finally:
                self._wake_up = None

    def record(self, signum: int) -> bool:
        """Record a signal in a block of `deferred`. A second signal ends the process immediately.

        Return False outside such a block, in which case the caller must handle the signal.
        """
        if self._wake_up is None:
            return False
        if self.received:
            os._exit(128 + signum)
        self.received.append(signum)
        self._wake_up.ring()
        return True
