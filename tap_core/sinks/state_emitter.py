"""`StateEmitter`: writes each state of a target's input after all records before it are stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tap_core.sinks.message_conversion import decode_state
from tap_core.sinks.state_watermark import StateWatermark

if TYPE_CHECKING:
    from tap_core.sinks.core import Sink

__all__ = ["StateEmitter"]


class StateEmitter:
    """Writer of the states in a target's input. A state waits for all records before it.

    Args:
        write: Function that writes an encoded state to the output of the target.
    """

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self.watermark: StateWatermark[Sink] = StateWatermark()
        self.newest: bytes | None = None
        """Newest state of the input, encoded; None before the first."""
        self.writes_early = True
        """True to write each state as soon as possible. False to wait until all sinks are drained,
        because the target stores the records only then.
        """

    def add(self, state: bytes) -> None:
        """Add an encoded state of the input. Write it at once if all records before it are stored.

        A state that is empty or equal to the previous state is ignored.
        """
        if state == self.newest:
            return
        self.newest = state
        # Only a short state can be empty: null, false, {}, [], "" or 0.
        if len(state) > len(b"false") or decode_state(state):
            self.watermark.add_state(state)
            self.release()

    def release(self) -> None:
        """Write the newest state that is ready, unless states wait until all sinks are drained."""
        if self.writes_early:
            self.emit()

    def emit(self) -> None:
        """Write the newest state for which all earlier records are stored, unless already written.

        Call this method after the sinks have written their records.
        """
        if not self.watermark.is_waiting:
            return
        for sink in list(self.watermark.holders):
            if sink.current_size == 0:
                self.watermark.remove_holder(sink)
        state = self.watermark.take()
        if state is not None:
            self._write(state)
