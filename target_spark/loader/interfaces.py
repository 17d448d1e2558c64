"""How a protocol is spoken with the loader: what comes in, what it means, how states leave.

Rules of the room: words only. A door brings one of these; the target knows no more of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from tap_core.events import Event, StreamId
from target_spark.config.options import LoadOptions
from target_spark.loader.state_output import StateMessageWriter
from target_spark.loader.state_tracking import StateFormat

__all__ = ["EventReader", "ProtocolBinding", "StateEmitter"]


class EventReader(Protocol):
    """Turns the bytes of a protocol into events."""

    def feed(self, data: bytes) -> Iterator[Event]:
        """Yield the events of all lines that end within ``data``."""

    def close(self) -> Iterator[Event]:
        """Yield what the end of the input says."""

    def remarks(self) -> Iterator[str]:
        """Yield what is to be known of the input as a whole, after its end."""


class StateEmitter(Protocol):
    """Where states leave."""

    def emit(self, state: bytes) -> None:
        """Write one, whole."""


@dataclass(frozen=True, slots=True)
class ProtocolBinding:
    """What a door brings: what reads the input, what the loader is told, and where states go.

    ``form`` is how they leave; None: as they came. ``renamed`` is told the names that stream
    maps give a stream.
    """

    decoder: EventReader
    options: LoadOptions
    outlet: Callable[[], AbstractContextManager[StateEmitter]] = StateMessageWriter.open
    form: StateFormat | None = None
    renamed: Callable[[StreamId, StreamId], None] = lambda _old, _new: None
