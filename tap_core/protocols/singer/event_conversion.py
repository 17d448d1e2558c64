"""Conversion of Singer message objects to the SDK's events, and back.

Only messages that a tap's code creates are converted here. The records of a stream are encoded
without becoming message objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from tap_core.batch.encodings import BaseBatchFileEncoding
from tap_core.events import (
    ActivateVersion,
    BatchFiles,
    Checkpoint,
    Event,
    Rows,
    SchemaEvent,
    StreamId,
)
from tap_core.protocols.singer.writer import encode_body, encode_json
from tap_core.records.conform import to_json_compatible
from tap_core.records.serializer import encode_record
from tap_core.singerlib.messages import (
    ActivateVersionMessage,
    Message,
    RecordMessage,
    SchemaMessage,
    SDKBatchMessage,
    StateMessage,
)
from tap_core.state.reader import parse_json

__all__ = ["to_event", "to_messages"]


def to_event(message: Message, encode: Callable[[Any], Any] = encode_body) -> Event:
    """Convert a Singer message to an event of the SDK.

    ``encode`` converts a record to the form that the writer of the event needs, by default JSON
    bytes.

    Raises:
        TypeError: There is no event for this type of message.
    """
    if isinstance(message, RecordMessage):
        extracted = message.time_extracted
        return Rows(
            StreamId(message.stream),
            [encode_record(message.record, encode)],
            extracted_at=extracted.isoformat() if extracted else None,
            version=message.version,
        )
    if isinstance(message, SchemaMessage):
        cursor, *others = message.bookmark_properties or (None,)
        keys = tuple(message.key_properties or ())
        return SchemaEvent(
            StreamId(message.stream), message.schema, keys, cursor, other_cursors=tuple(others)
        )
    if isinstance(message, StateMessage):
        return Checkpoint(encode_json(to_json_compatible(message.value)))
    if isinstance(message, ActivateVersionMessage):
        return ActivateVersion(StreamId(message.stream), message.version)
    if isinstance(message, SDKBatchMessage):
        form, paths = message.to_dict()["encoding"], tuple(message.manifest)
        return BatchFiles(StreamId(message.stream), paths, form, version=message.version)
    msg = f"A message of type {type(message).__name__} cannot be written."
    raise TypeError(msg)


def to_messages(event: Event) -> Iterator[Message]:
    """Convert an event to Singer messages: a `Rows` event to one RECORD message per row.

    The rows must be dicts, not encoded bytes.
    """
    if isinstance(event, Rows):
        time = event.extracted_at
        extracted = datetime.fromisoformat(time) if isinstance(time, str) else None
        for row in event.rows:
            body: Any = row
            yield RecordMessage(event.stream.name, body, event.version, extracted)
    elif isinstance(event, SchemaEvent):
        cursors = event.bookmark_properties or None
        yield SchemaMessage(event.stream.name, dict(event.schema), list(event.keys), cursors)
    elif isinstance(event, Checkpoint):
        yield StateMessage(parse_json(event.state))
    elif isinstance(event, BatchFiles):
        encoding = BaseBatchFileEncoding.from_dict(event.format)
        yield SDKBatchMessage(event.stream.name, encoding, list(event.paths), event.version)
    elif isinstance(event, ActivateVersion):
        yield ActivateVersionMessage(event.stream.name, event.version)
