"""Reader of stream schemas from a file with a Singer catalog or with Singer messages.

A file with only a JSON Schema is not supported, because it does not contain the key properties.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from tap_core.config.similar_names import suggest
from tap_core.events import Event, SchemaEvent, StreamId
from target_spark.errors import UnsupportedError

__all__ = ["parse_schemas", "select_one"]

_FILE_HINT: Final = (
    "Use the tap's catalog (tap --discover > catalog.json), or a file of Singer messages with its"
    " SCHEMA."
)


def parse_schemas(text: str) -> list[SchemaEvent]:
    """Return the stream schemas in the text of a Singer catalog or of Singer messages.

    The schemas are in the order of the text. The list is empty if the text contains no schema.

    Raises:
        UnsupportedError: A line with a SCHEMA message is not valid JSON, or a value in a catalog or
            a message has the wrong type.
    """
    documents = [each for each in _parse_documents(text) if isinstance(each, Mapping)]
    try:
        return [
            schema
            for document in documents
            for schema in (*_parse_message(document), *_parse_catalog(document))
        ]
    except (AttributeError, TypeError, ValueError):
        raise UnsupportedError(
            "The schema file is not valid: a stream, schema, key or metadata in it has the wrong"
            f" type. {_FILE_HINT}"
        ) from None


def select_one(events: Iterable[Event], stream: str) -> SchemaEvent:
    """Return the schema of the stream named ``stream``; if there are several, the last one.

    Raises:
        UnsupportedError: The events contain no schema of this stream.
    """
    schema_events = [event for event in events if isinstance(event, SchemaEvent)]
    schemas = [event for event in schema_events if str(event.stream) == stream]
    if not schemas:
        names = [str(event.stream) for event in schema_events]
        raise UnsupportedError(
            f"The schema of stream {stream} is not in the schema file.{suggest(stream, names)}"
            f" {_FILE_HINT}"
        )
    return schemas[-1]


def _parse_documents(text: str) -> list[Any]:
    """Parse a text that is either one JSON document or lines of Singer messages.

    The result is a list of the one JSON document, or of all SCHEMA messages.

    Raises:
        UnsupportedError: A line with a SCHEMA message is not valid JSON.
    """
    try:
        return [json.loads(text)]
    except ValueError:
        pass
    lines = []
    for line in text.split("\n"):  # a string in JSON may contain other line separators
        if '"SCHEMA"' in line:
            try:
                lines.append(json.loads(line))
            except ValueError as error:
                raise UnsupportedError(
                    f"The schema file is neither JSON nor Singer messages: {error}"
                ) from error
    return lines


def _parse_message(document: Mapping[str, Any]) -> Iterator[SchemaEvent]:
    if document.get("type") == "SCHEMA" and document.get("stream"):
        keys = tuple(document.get("key_properties") or ())
        yield SchemaEvent(StreamId(document["stream"]), dict(document.get("schema") or {}), keys)


def _parse_catalog(document: Mapping[str, Any]) -> Iterator[SchemaEvent]:
    for entry in document.get("streams") or ():
        name = entry.get("stream") or entry.get("tap_stream_id")
        if name and entry.get("schema"):
            yield SchemaEvent(StreamId(name), dict(entry["schema"]), _get_keys(entry))


def _get_keys(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of a stream's key properties from its entry in a Singer catalog.

    If the entry has no ``key_properties``, the ``table-key-properties`` in its metadata are used.
    """
    if entry.get("key_properties") is not None:
        return tuple(entry["key_properties"])
    for item in entry.get("metadata", ()):
        if not item.get("breadcrumb"):
            return tuple(item.get("metadata", {}).get("table-key-properties") or ())
    return ()
