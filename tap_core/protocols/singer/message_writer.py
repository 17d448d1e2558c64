"""Base class and writers of Singer messages, for authors who write messages or use another format.

Names, signatures and bytes are those of singer_sdk's writers. A tap with one of these writers
unmodified writes with `SingerWriter`, whose lines are identical and cost a tenth; a subclass
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
    """Abstract writer of messages. Subclass it to support another output format."""

    def format_message(self, message: _Message) -> _Text:
        """Return a message in its output form."""
        return self.serialize_message(message)

    @abc.abstractmethod
    def serialize_message(self, message: _Message) -> _Text:
        """Return a message as JSON."""

    @abc.abstractmethod
    def write_message(self, message: _Message) -> None:
        """Write a message."""


class SimpleSingerWriter(GenericSingerWriter[str, Message]):
    """Writer of text lines to standard output."""

    def serialize_message(self, message: Message) -> str:
        """Return a message as JSON, without a line end."""
        return format_message(message)

    def write_message(self, message: Message) -> None:
        """Write a message and flush standard output."""
        sys.stdout.write(f"{self.format_message(message)}\n")
        sys.stdout.flush()


def enc_hook(obj: Any) -> Any:
    """Return a value that JSON cannot represent as a string; datetimes in ISO 8601."""
    return obj.isoformat(sep="T") if isinstance(obj, datetime) else str(obj)


encoder = msgspec.json.Encoder(enc_hook=enc_hook, decimal_format="number")


def serialize_jsonl(obj: object, **_kwargs: Any) -> bytearray:
    """Return a value as a line of JSON, including the line end, in a new buffer."""
    line = bytearray()
    encoder.encode_into(obj, line)
    line += b"\n"
    return line


class MsgSpecWriter(GenericSingerWriter[bytearray, Message]):
    """Writer of byte lines to standard output, encoded with msgspec."""

    def serialize_message(self, message: Message) -> bytearray:
        """Return a message as a line of JSON."""
        return serialize_jsonl(message.to_dict())

    def write_message(self, message: Message) -> None:
        """Write a message and flush standard output."""
        sys.stdout.buffer.write(self.format_message(message))
        sys.stdout.flush()


class MessageWriterAdapter:
    """Adapter that writes events with an author's message writer."""

    takes_files = True

    def __init__(self, writer: Any) -> None:
        """Write with ``writer``, an object with a method ``write_message(message)``."""
        self._writer = writer

    def encode(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of the record, because the author's code may reuse the object."""
        copied: dict[str, Any] = to_json_compatible(record)
        return copied

    def emit(self, event: Event) -> None:
        """Write the messages of one event."""
        for message in to_messages(event):
            self._writer.write_message(message)


class EventForwardingWriter(SimpleSingerWriter):
    """Message writer that passes Singer messages to a function, for other protocols than Singer."""

    def __init__(self, take: Callable[[Message], None]) -> None:
        """Pass each message to ``take``."""
        self._take = take

    def write_message(self, message: Message) -> None:
        """Pass a message to the function that was given to the constructor."""
        self._take(message)


def is_default_writer(writer: Any) -> bool:
    """Return True if a writer is one of the SDK's, without changes.

    `SingerWriter` can replace such a writer.
    """
    return type(writer) in {SimpleSingerWriter, MsgSpecWriter} and not vars(writer)


def make_event_writer(writer: Any) -> SingerWriter | MessageWriterAdapter:
    """Return a writer of events that produces the same output as the message writer ``writer``."""
    return SingerWriter() if is_default_writer(writer) else MessageWriterAdapter(writer)
