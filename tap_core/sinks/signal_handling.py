"""Deferred handling of termination signals between messages.

The signal handler only records the signal and wakes a wait for input. A write in progress
is neither interrupted nor re-entered. A second signal ends the process at once.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tap_core.io.stdin import WakeupPipe
from tap_core.plugin_base import PluginBase

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["SignalHandler"]


class SignalHandler(PluginBase):
    """Plugin that shuts down in an orderly way on a signal while it reads input."""

    def __init__(self, **settings: Any) -> None:
        self._signals: list[int] = []
        self._wake_up: WakeupPipe | None = None
        super().__init__(**settings)

    @property
    def _is_stopping(self) -> bool:
        return bool(self._signals)

    @contextlib.contextmanager
    def _heeding_signals(self) -> Iterator[WakeupPipe]:
        """Defer termination signals within the block and let them wake a wait for input."""
        if self._wake_up is not None:
            yield self._wake_up
            return
        with contextlib.closing(WakeupPipe()) as wake_up:
            self._wake_up = wake_up
            try:
                yield wake_up
            finally:
                self._wake_up = None

    def _handle_termination(self, signum: int, frame: FrameType | None) -> None:
        """Record the first signal; end the process at once on the second."""
        if self._wake_up is None:
            super()._handle_termination(signum, frame)
            return
        if self._signals:
            os._exit(128 + signum)
        self._signals.append(signum)
        self._wake_up.ring()
