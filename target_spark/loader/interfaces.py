"""Interfaces between the protocols (Singer, Airbyte, Fivetran) and the loader.

Each entry point provides a `ProtocolBinding`; the loader knows nothing else of the protocol.
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

__all__ = ["EventReader", "ProtocolBinding"]


class EventReader(Protocol):
    """Reader that turns the bytes of a protocol into events."""

    def feed(self, data: bytes) -> Iterator[Event]:
        """Yield the events of all lines that end within ``data``."""

    def close(self) -> Iterator[Event]:
        """Yield the events that the end of the input produces."""

    def remarks(self) -> Iterator[str]:
        """Yield remarks on the input as a whole, after its end."""


@dataclass(frozen=True, slots=True)
class ProtocolBinding:
    """Message reader, load options and state output that a protocol provides to the loader.

    ``form`` defines the format of emitted states; None emits them unchanged. ``renamed`` is called
    with the old and new name of each stream that stream maps rename.
    """

    decoder: EventReader
    options: LoadOptions
    outlet: Callable[[], AbstractContextManager[StateMessageWriter]] = StateMessageWriter.open
    form: StateFormat | None = None
    renamed: Callable[[StreamId, StreamId], None] = lambda _old, _new: None
