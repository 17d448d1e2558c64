"""`StateEmitter`: emits each state of a target's input once all records before it are drained."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tap_core.sinks.message_conversion import decode_state
from tap_core.sinks.state_watermark import StateWatermark

if TYPE_CHECKING:
    from tap_core.sinks.core import Sink

__all__ = ["StateEmitter"]


class StateEmitter:
    """Emitter of the states of a target's input, each after all records before it are written.

    Args:
        write: Writes an encoded state to the output of the target.
    """

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self.watermark: StateWatermark[Sink] = StateWatermark()
        self.newest: bytes | None = None
        """Newest state of the input, encoded; None before the first."""
        self.is_early = True
        """True to emit each state as soon as possible; False to emit only when all sinks are
        drained, because the target stores the records then."""

    def add(self, state: bytes) -> None:
        """Add an encoded state of the input. Emit it at once if all records before it are written.

        A state that is empty or equal to the state before it is ignored.
        """
        if state == self.newest:
            return
        self.newest = state
        # Only a short state can be empty: null, false, {}, [], "" or 0.
        if len(state) > len(b"false") or decode_state(state):
            self.watermark.add_state(state)
            self.release()

    def release(self) -> None:
        """Call `emit` if states may be emitted before the end of the input (``is_early``)."""
        if self.is_early:
            self.emit()

    def emit(self) -> None:
        """Emit the newest state whose preceding records are all written, if it is not emitted yet.

        Call this after all sinks have written their records.
        """
        if not self.watermark.is_waiting:
            return
        for sink in list(self.watermark.holders):
            if sink.current_size == 0:
                self.watermark.remove_holder(sink)
        state = self.watermark.take()
        if state is not None:
            self._write(state)
