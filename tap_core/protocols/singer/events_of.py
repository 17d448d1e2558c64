"""Singer messages that an author makes, to events and back.

Rules of the room: for authors only. Rows of a stream are shaped and encoded without
ever being message objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import msgspec

from tap_core.batch.formats import BaseBatchFileEncoding
from tap_core.events import Checkpoint, Describe, Event, Files, Rows, StreamId, Truncate
from tap_core.protocols.singer.encode import encode_body, encode_json
from tap_core.protocols.singer.messages import (
    ActivateVersionMessage,
    Message,
    RecordMessage,
    SchemaMessage,
    SDKBatchMessage,
    StateMessage,
)
from tap_core.records.conform import jsonable

__all__ = ["event_of", "messages_of"]


def event_of(message: Message, encode: Callable[[Any], Any] = encode_body) -> Event:
    """Return the event that a message stands for; ``encode`` makes the body of its record.

    Raises:
        TypeError: there is no such event.
    """
    if isinstance(message, RecordMessage):
        extracted = message.time_extracted
        return Rows(
            StreamId(message.stream),
            [encode(jsonable(message.record))],
            extracted_at=extracted.isoformat() if extracted else None,
            version=message.version,
        )
    if isinstance(message, SchemaMessage):
        cursor = next(iter(message.bookmark_properties or ()), None)
        keys = tuple(message.key_properties or ())
        return Describe(StreamId(message.stream), message.schema, keys, cursor)
    if isinstance(message, StateMessage):
        return Checkpoint(encode_json(jsonable(message.value)))
    if isinstance(message, ActivateVersionMessage):
        return Truncate(StreamId(message.stream), message.version)
    if isinstance(message, SDKBatchMessage):
        form, paths = message.to_dict()["encoding"], tuple(message.manifest)
        return Files(StreamId(message.stream), paths, form, version=message.version)
    msg = f"A message of type {type(message).__name__} cannot be written."
    raise TypeError(msg)


def messages_of(event: Event) -> Iterator[Message]:
    """Yield the messages of an event whose rows are dicts."""
    if isinstance(event, Rows):
        at = event.extracted_at
        extracted = datetime.fromisoformat(at) if isinstance(at, str) else None
        for row in event.rows:
            body: Any = row
            yield RecordMessage(event.stream.name, body, event.version, extracted)
    elif isinstance(event, Describe):
        cursor = [event.cursor] if event.cursor else None
        yield SchemaMessage(event.stream.name, dict(event.schema), list(event.keys), cursor)
    elif isinstance(event, Checkpoint):
        yield StateMessage(msgspec.json.decode(event.state))
    elif isinstance(event, Files):
        encoding = BaseBatchFileEncoding.from_dict(event.format)
        yield SDKBatchMessage(event.stream.name, encoding, list(event.paths), event.version)
    elif isinstance(event, Truncate):
        yield ActivateVersionMessage(event.stream.name, event.version)
