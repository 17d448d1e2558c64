"""Deferred handling of termination signals between messages.

The signal handler only records the signal and wakes a wait for input. A write in progress
is neither interrupted nor re-entered. A second signal ends the process at once.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from tap_core.io.stdin import WakeupPipe

__all__ = ["TerminationSignals"]


class TerminationSignals:
    """Termination signals that a plugin receives. They can be deferred while it processes input."""

    def __init__(self) -> None:
        """Create an object without received signals.

        Signals are not deferred until `deferred` is used.
        """
        self.received: list[int] = []
        self._wake_up: WakeupPipe | None = None

    @contextlib.contextmanager
    def deferred(self) -> Iterator[WakeupPipe]:
        """Only record signals during the block, so that they do not interrupt the processing.

        Yield a pipe that becomes readable on a signal. Listen on it to end a wait for input.
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
        """Record a signal if signals are deferred. A second signal ends the process immediately.

        Returns:
            True if the signal was recorded. False if signals are not deferred, so that the caller
            must handle it.
        """
        if self._wake_up is None:
            return False
        if self.received:
            os._exit(128 + signum)
        self.received.append(signum)
        self._wake_up.ring()
        return True
