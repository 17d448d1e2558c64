"""Signals: noted when they come, looked at between messages.

Rules of the room: a handler notes the signal and ends a wait for input, nothing else: what
is being written is never interrupted, and never entered again. A second signal ends the
process at once.
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
    """A plugin that ends in an orderly way while it listens."""

    def __init__(self, **settings: Any) -> None:
        self._signals: list[int] = []
        self._wake_up: WakeupPipe | None = None
        super().__init__(**settings)

    @property
    def _is_stopping(self) -> bool:
        return bool(self._signals)

    @contextlib.contextmanager
    def _heeding_signals(self) -> Iterator[WakeupPipe]:
        """Note signals instead of ending at once, and let them end a wait for input."""
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
        """Note the first signal; end at once on the second."""
        if self._wake_up is None:
            super()._handle_termination(signum, frame)
            return
        if self._signals:
            os._exit(128 + signum)
        self._signals.append(signum)
        self._wake_up.ring()
