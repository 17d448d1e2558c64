"""Compatibility import path of singer_sdk; nothing is defined here.

The names are defined in `tap_core.singerlib`.
"""

# ruff: noqa: I001  one list is easier to read than one statement per name

from __future__ import annotations

from tap_core.singerlib import (
    ActivateVersionMessage as ActivateVersionMessage,
    Catalog as Catalog,
    CatalogEntry as CatalogEntry,
    exceptions as exceptions,
    exclude_null_dict as exclude_null_dict,
    format_message as format_message,
    Message as Message,
    Metadata as Metadata,
    MetadataMapping as MetadataMapping,
    RecordMessage as RecordMessage,
    resolve_schema_references as resolve_schema_references,
    Schema as Schema,
    SchemaMessage as SchemaMessage,
    SelectionMask as SelectionMask,
    SingerMessageType as SingerMessageType,
    StateMessage as StateMessage,
    StreamMetadata as StreamMetadata,
    strftime as strftime,
    strptime_to_utc as strptime_to_utc,
    write_message as write_message,
)
