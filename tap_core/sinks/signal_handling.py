"""Deferred reaction to termination signals such as SIGTERM, between messages.

The signal handler only records the signal and ends a wait for input. So a write in progress is not
interrupted. A second signal ends the process at once.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from tap_core.io.stdin import WakeupPipe

__all__ = ["TerminationSignals"]


class TerminationSignals:
    """Record of received termination signals, such as SIGTERM, for a plugin to act on later."""

    def __init__(self) -> None:
        """Create an object without received signals. `deferred` starts the recording of signals."""
        self.received: list[int] = []
        self._wake_up: WakeupPipe | None = None

    @contextlib.contextmanager
    def deferred(self) -> Iterator[WakeupPipe]:
        """Context manager that records signals inside its block instead of ending the process.

        Yield a pipe that becomes readable on a signal. The caller waits for the pipe and the input
        at the same time, so that a signal ends the wait.
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
        """Record a signal if `deferred` is active. A second signal ends the process immediately.

        Return False if `deferred` is not active; the caller must then react to the signal.
        """
        if self._wake_up is None:
            return False
        if self.received:
            os._exit(128 + signum)
        self.received.append(signum)
        self._wake_up.ring()
        return True
