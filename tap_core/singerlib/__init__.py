"""The building blocks of Singer, by singer_sdk's path."""

from __future__ import annotations

from tap_core.catalog import (
    Catalog,
    CatalogEntry,
    Metadata,
    MetadataMapping,
    SelectionMask,
    StreamMetadata,
)
from tap_core.clock import strftime, strptime_to_utc
from tap_core.protocols.singer.messages import (
    ActivateVersionMessage,
    Message,
    RecordMessage,
    SchemaMessage,
    SingerMessageType,
    StateMessage,
    exclude_null_dict,
    format_message,
    write_message,
)
from tap_core.schema.in_place import resolve_schema_references
from tap_core.schema.model import Schema
from tap_core.singerlib import exceptions

__all__ = [
    "ActivateVersionMessage",
    "Catalog",
    "CatalogEntry",
    "Message",
    "Metadata",
    "MetadataMapping",
    "RecordMessage",
    "Schema",
    "SchemaMessage",
    "SelectionMask",
    "SingerMessageType",
    "StateMessage",
    "StreamMetadata",
    "exceptions",
    "exclude_null_dict",
    "format_message",
    "resolve_schema_references",
    "strftime",
    "strptime_to_utc",
    "write_message",
]
