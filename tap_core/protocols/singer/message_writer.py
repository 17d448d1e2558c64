"""Writers of Singer messages and their base class, for taps with a custom output format.

Names, signatures and output are those of singer_sdk. A tap that uses one of these writers
unmodified writes with the faster `SingerWriter` instead, whose lines are identical. A subclass
receives every message as an object.
"""

from __future__ import annotations

import abc
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from tap_core.events import Event
from tap_core.protocols.singer.event_conversion import to_messages
from tap_core.protocols.singer.writer import SingerWriter
from tap_core.records.conform import to_json_compatible
from tap_core.singerlib.messages import Message, format_message

__all__ = [
    "EventForwardingWriter",
    "GenericSingerWriter",
    "MessageWriterAdapter",
    "MsgSpecWriter",
    "SimpleSingerWriter",
    "enc_hook",
    "encoder",
    "is_default_writer",
    "make_event_writer",
    "serialize_jsonl",
]

_Text = TypeVar("_Text", str, bytes, bytearray)
_Message = TypeVar("_Message")


class GenericSingerWriter(abc.ABC, Generic[_Text, _Message]):
    """Abstract writer of Singer messages. Subclass it for a custom output format."""

    def format_message(self, message: _Message) -> _Text:
        """Return a message as it is written, by default as JSON. Override to change the format."""
        return self.serialize_message(message)

    @abc.abstractmethod
    def serialize_message(self, message: _Message) -> _Text:
        """Encode a message as JSON."""

    @abc.abstractmethod
    def write_message(self, message: _Message) -> None:
        """Write a message to the output."""


class SimpleSingerWriter(GenericSingerWriter[str, Message]):
    """Writer of Singer messages as text lines to standard output."""

    def serialize_message(self, message: Message) -> str:
        """Encode a message as JSON text, without a line feed."""
        return format_message(message)

    def write_message(self, message: Message) -> None:
        """Write a message as one line to standard output, and flush it."""
        sys.stdout.write(f"{self.format_message(message)}\n")
        sys.stdout.flush()


def enc_hook(obj: Any) -> Any:
    """Convert a value that JSON does not support to a string. A datetime becomes ISO 8601."""
    return obj.isoformat(sep="T") if isinstance(obj, datetime) else str(obj)


encoder = msgspec.json.Encoder(enc_hook=enc_hook, decimal_format="number")


def serialize_jsonl(obj: object, **_kwargs: Any) -> bytearray:
    """Encode a value as one line of JSON, with a line feed at the end."""
    line = bytearray()
    encoder.encode_into(obj, line)
    line += b"\n"
    return line


class MsgSpecWriter(GenericSingerWriter[bytearray, Message]):
    """Writer of Singer messages to standard output that encodes them with msgspec."""

    def serialize_message(self, message: Message) -> bytearray:
        """Encode a message as one line of JSON, with a line feed at the end."""
        return serialize_jsonl(message.to_dict())

    def write_message(self, message: Message) -> None:
        """Write a message as one line to standard output, and flush it."""
        sys.stdout.buffer.write(self.format_message(message))
        sys.stdout.flush()


class MessageWriterAdapter:
    """Writer of events that converts them to Singer messages for a custom message writer."""

    takes_files = True

    def __init__(self, writer: Any) -> None:
        """Create an adapter for an object with the method ``write_message(message)``."""
        self._writer = writer

    def encode(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of a record, with its values converted to JSON types.

        It is a copy because the tap's code may change the record later.
        """
        copied: dict[str, Any] = to_json_compatible(record)
        return copied

    def emit(self, event: Event) -> None:
        """Convert one event to Singer messages and write them."""
        for message in to_messages(event):
            self._writer.write_message(message)


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
    """Return True if a writer is an unmodified writer of the SDK, not an instance of a subclass.

    If True, the faster `SingerWriter` can be used instead.
    """
    return type(writer) in {SimpleSingerWriter, MsgSpecWriter} and not vars(writer)


def make_event_writer(writer: Any) -> SingerWriter | MessageWriterAdapter:
    """Return a writer of events that produces the same output as a writer of Singer messages."""
    return SingerWriter() if is_default_writer(writer) else MessageWriterAdapter(writer)
