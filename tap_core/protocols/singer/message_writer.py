"""Writers of single messages, for authors who write by hand or bring a wire of their own.

Rules of the room: names, signatures and bytes are those of singer_sdk's writers. A tap
whose writer is one of these as it stands writes by `SingerWriter`, whose lines are the
same and cost a tenth; a subclass gets every message as an object.
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
    """Writes messages one by one; subclass it for another wire."""

    def format_message(self, message: _Message) -> _Text:
        """Return a message as it goes on the wire."""
        return self.serialize_message(message)

    @abc.abstractmethod
    def serialize_message(self, message: _Message) -> _Text:
        """Return a message as JSON."""

    @abc.abstractmethod
    def write_message(self, message: _Message) -> None:
        """Write a message."""


class SimpleSingerWriter(GenericSingerWriter[str, Message]):
    """Writes lines of text to standard output."""

    def serialize_message(self, message: Message) -> str:
        """Return a message as JSON, without a line end."""
        return format_message(message)

    def write_message(self, message: Message) -> None:
        """Write a message, at once."""
        sys.stdout.write(f"{self.format_message(message)}\n")
        sys.stdout.flush()


def enc_hook(obj: Any) -> Any:
    """Say in text what JSON does not have: date-times in ISO 8601."""
    return obj.isoformat(sep="T") if isinstance(obj, datetime) else str(obj)


encoder = msgspec.json.Encoder(enc_hook=enc_hook, decimal_format="number")


def serialize_jsonl(obj: object, **_kwargs: Any) -> bytearray:
    """Return a value as a line of JSON, line end included; each call gives a buffer of its own."""
    line = bytearray()
    encoder.encode_into(obj, line)
    line += b"\n"
    return line


class MsgSpecWriter(GenericSingerWriter[bytearray, Message]):
    """Writes lines of bytes to standard output, encoded by msgspec."""

    def serialize_message(self, message: Message) -> bytearray:
        """Return a message as a line of JSON."""
        return serialize_jsonl(message.to_dict())

    def write_message(self, message: Message) -> None:
        """Write a message, at once."""
        sys.stdout.buffer.write(self.format_message(message))
        sys.stdout.flush()


class MessageWriterAdapter:
    """Gives events as message objects to a writer that an author brought."""

    takes_files = True

    def __init__(self, writer: Any) -> None:
        """Write by ``writer``, any object with ``write_message(message)``."""
        self._writer = writer

    def encode(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Keep a copy of the record: its author may use the object again."""
        copied: dict[str, Any] = to_json_compatible(record)
        return copied

    def emit(self, event: Event) -> None:
        """Write the messages of one event."""
        for message in to_messages(event):
            self._writer.write_message(message)


class EventForwardingWriter(SimpleSingerWriter):
    """Hands messages on where another protocol writes them, which is not standard output."""

    def __init__(self, take: Callable[[Message], None]) -> None:
        """Hand each message to ``take``."""
        self._take = take

    def write_message(self, message: Message) -> None:
        """Hand a message on, at once."""
        self._take(message)


def is_default_writer(writer: Any) -> bool:
    """Tell whether a writer does nothing that the SDK's own encoder does not."""
    return type(writer) in {SimpleSingerWriter, MsgSpecWriter} and not vars(writer)


def make_event_writer(writer: Any) -> SingerWriter | MessageWriterAdapter:
    """Return the way out that writes what ``writer`` would."""
    return SingerWriter() if is_default_writer(writer) else MessageWriterAdapter(writer)
