"""Writers of Singer messages as objects, for taps with a custom output format.

Names, signatures and output are those of singer_sdk. A tap that uses one of these writers
unmodified writes with the faster `SingerWriter` instead, whose lines are those of
`SimpleSingerWriter`. A subclass receives every message as an object.
"""

from __future__ import annotations

import abc
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from tap_core.protocols.singer.custom_writer_adapter import MessageWriterAdapter
    from tap_core.protocols.singer.writer import SingerWriter
    from tap_core.singerlib.messages import Message

__all__ = [
    "EventForwardingWriter",
    "GenericSingerWriter",
    "MsgSpecWriter",
    "SimpleSingerWriter",
    "is_default_writer",
    "make_event_writer",
]

_Text = TypeVar("_Text", str, bytes, bytearray)
_Message = TypeVar("_Message")


class GenericSingerWriter(abc.ABC, Generic[_Text, _Message]):
    """Abstract writer of Singer messages. Subclass it for a custom output format."""

    def format_message(self, message: _Message) -> _Text:
        """Return a message in the output format: by default JSON. Override to change the format."""
        return self.serialize_message(message)

    @abc.abstractmethod
    def serialize_message(self, message: _Message) -> _Text:
        """Encode a message as JSON."""

    @abc.abstractmethod
    def write_message(self, message: _Message) -> None:
        """Write a message to the output."""


class SimpleSingerWriter(GenericSingerWriter[str, "Message"]):
    """Writer of Singer messages as text lines to standard output."""

    def serialize_message(self, message: Message) -> str:
        """Encode a message as JSON text, without a line feed."""
        from tap_core.singerlib.messages import format_message

        return format_message(message)

    def write_message(self, message: Message) -> None:
        """Write a message as one line to standard output, and flush it."""
        sys.stdout.write(f"{self.format_message(message)}\n")
        sys.stdout.flush()


class MsgSpecWriter(GenericSingerWriter[bytearray, "Message"]):
    """Writer of Singer messages to standard output that encodes them with msgspec."""

    def serialize_message(self, message: Message) -> bytearray:
        """Encode a message as one line of JSON, with a line feed at the end."""
        from tap_core.protocols.singer.msgspec_encoding import serialize_jsonl

        return serialize_jsonl(message.to_dict())

    def write_message(self, message: Message) -> None:
        """Write a message as one line to standard output, and flush it."""
        sys.stdout.buffer.write(self.format_message(message))
        sys.stdout.flush()


class EventForwardingWriter(SimpleSingerWriter):
    """Writer that passes Singer messages to a function instead of writing them to standard output.

    A tap that runs with another protocol than Singer uses this writer.
    """

    def __init__(self, take: Callable[[Message], None]) -> None:
        """Create a writer that calls ``take`` with each message."""
        self._take = take

    def write_message(self, message: Message) -> None:
        """Call the constructor's function ``take`` with a message."""
        self._take(message)


def is_default_writer(writer: Any) -> bool:
    """Return True if a tap's message writer is an unmodified writer of the SDK.

    The tap can then use the faster `SingerWriter` instead.
    """
    return type(writer) in {SimpleSingerWriter, MsgSpecWriter} and not vars(writer)


def make_event_writer(writer: Any) -> SingerWriter | MessageWriterAdapter:
    """Return a writer of events with the same output as ``writer``, a tap's message writer.

    For a custom message writer, return an adapter that passes Singer messages to ``writer``.
    """
    from tap_core.protocols.singer.custom_writer_adapter import MessageWriterAdapter
    from tap_core.protocols.singer.writer import SingerWriter

    return SingerWriter() if is_default_writer(writer) else MessageWriterAdapter(writer)
