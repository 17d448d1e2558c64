"""Compatibility import path of singer_sdk; nothing is defined here.

The names are defined in `tap_core.singerlib.catalog`.
"""

# ruff: noqa: I001  one list is easier to read than one statement per name

from __future__ import annotations

from tap_core.singerlib.catalog import (
    AnyMetadata as AnyMetadata,
    Breadcrumb as Breadcrumb,
    Catalog as Catalog,
    CatalogEntry as CatalogEntry,
    Metadata as Metadata,
    MetadataMapping as MetadataMapping,
    REPLICATION_FULL_TABLE as REPLICATION_FULL_TABLE,
    REPLICATION_INCREMENTAL as REPLICATION_INCREMENTAL,
    REPLICATION_LOG_BASED as REPLICATION_LOG_BASED,
    Schema as Schema,
    SelectionMask as SelectionMask,
    StreamMetadata as StreamMetadata,
    deselect_all_streams as deselect_all_streams,
    set_catalog_stream_selected as set_catalog_stream_selected,
)
