"""What a stream is described as in a document that a user has: a catalog, or messages.

Rules of the room: pure. The keys must come with the schema, because rows are told apart
by them; a bare JSON Schema does not have them and is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tap_core.events import Event, SchemaEvent, StreamId
from target_spark.errors import UnsupportedError

__all__ = ["parse_schemas", "select_one"]


def parse_schemas(text: str) -> list[SchemaEvent]:
    """Return the description of each stream that a text has one of, in their order.

    Raises:
        UnsupportedError: the text is neither JSON nor messages.
    """
    found: list[SchemaEvent] = []
    for document in _documents(text):
        if isinstance(document, Mapping):
            found += [*_of_message(document), *_of_catalog(document)]
    return found


def select_one(found: Iterable[Event], stream: str) -> SchemaEvent:
    """Return the last description of a stream.

    Raises:
        UnsupportedError: there is none.
    """
    of_stream = [e for e in found if isinstance(e, SchemaEvent) and str(e.stream) == stream]
    if not of_stream:
        raise UnsupportedError(
            f"The schema of stream {stream} is not in what was given. Give the tap's catalog"
            " (tap --discover > catalog.json), or a file of Singer messages that has its"
            " SCHEMA."
        )
    return of_stream[-1]


def _documents(text: str) -> list[Any]:
    """Return the one document of a text, or that of each line."""
    try:
        return [json.loads(text)]
    except ValueError:
        pass
    lines = []
    for line in text.splitlines():
        if '"SCHEMA"' in line:
            try:
                lines.append(json.loads(line))
            except ValueError as error:
                raise UnsupportedError(
                    f"What was given as the schema is neither JSON nor messages: {error}"
                ) from error
    return lines


def _of_message(document: Mapping[str, Any]) -> Iterator[SchemaEvent]:
    if document.get("type") == "SCHEMA" and document.get("stream"):
        keys = tuple(document.get("key_properties") or ())
        yield SchemaEvent(StreamId(document["stream"]), document.get("schema") or {}, keys)


def _of_catalog(document: Mapping[str, Any]) -> Iterator[SchemaEvent]:
    for entry in document.get("streams") or ():
        name = entry.get("stream") or entry.get("tap_stream_id")
        if name and entry.get("schema"):
            yield SchemaEvent(StreamId(name), entry["schema"], _keys(entry))


def _keys(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys of a catalog's entry, which may stand in two places."""
    if entry.get("key_properties") is not None:
        return tuple(entry["key_properties"])
    for each in entry.get("metadata", ()):
        if not each.get("breadcrumb"):
            return tuple(each.get("metadata", {}).get("table-key-properties") or ())
    return ()
