"""Interfaces between the protocols (Singer, Airbyte, Fivetran) and the loader.

The command for each protocol provides a `ProtocolBinding`; the loader does not depend on the
protocol in any other way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from tap_core.events import Event, StreamId
from target_spark.config.options import LoadOptions
from target_spark.loader.pending_states import StateFormat
from target_spark.loader.state_output import StateMessageWriter

__all__ = ["EventReader", "ProtocolBinding"]


class EventReader(Protocol):
    """Parser of an input protocol (such as Singer or Airbyte), which converts bytes to events."""

    def feed(self, data: bytes) -> Iterator[Event]:
        """Parse a chunk of the input, and yield the events of all lines that it completes."""

    def close(self) -> Iterator[Event]:
        """Tell the parser that the input has ended, and yield the remaining events."""

    def iterate_warnings(self) -> Iterator[str]:
        """Yield notes for the user about the whole input, such as ignored messages.

        Call this method after `close`.
        """


@dataclass(frozen=True, slots=True)
class ProtocolBinding:
    """The parser, options and output format of an input protocol, such as Singer or Airbyte.

    Attributes:
        decoder: The parser that converts the input to events.
        options: The options of the load.
        open_state_writer: Function that returns a context manager. The context manager yields the
            writer of states to the output.
        state_format: Encoder of the emitted states; None to emit states as they were received.
        renamed: Function called with the old and the new name when a stream map renames a stream.
    """

    decoder: EventReader
    options: LoadOptions
    open_state_writer: Callable[[], AbstractContextManager[StateMessageWriter]] = (
        StateMessageWriter.open
    )
    state_format: StateFormat | None = None
    renamed: Callable[[StreamId, StreamId], None] = lambda _old, _new: None
