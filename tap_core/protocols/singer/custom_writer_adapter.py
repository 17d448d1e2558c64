"""Adapter that writes a sync's events with the custom Singer message writer of a tap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tap_core.events import Event
from tap_core.protocols.singer.event_conversion import to_messages
from tap_core.records.conform import to_json_compatible

__all__ = ["MessageWriterAdapter"]


class MessageWriterAdapter:
    """Writer of events that converts them to Singer messages for a custom message writer."""

    takes_files = True
    """True: files of records are written as BATCH messages."""

    def __init__(self, writer: Any) -> None:
        """Create an adapter for an object with the method ``write_message(message)``."""
        self._writer = writer

    def encode(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of a record in which all values have JSON types.

        A copy is needed because the tap's code may change the record before it is written.
        """
        copied: dict[str, Any] = to_json_compatible(record)
        return copied

    def emit(self, event: Event) -> None:
        """Convert one event to Singer messages and write them."""
        for message in to_messages(event):
            self._writer.write_message(message)
