"""The catalog, by singer_sdk's path."""

# ruff: noqa: I001  one list reads better than one statement per name

from __future__ import annotations

from tap_core.catalog import (
    REPLICATION_FULL_TABLE as REPLICATION_FULL_TABLE,
    REPLICATION_INCREMENTAL as REPLICATION_INCREMENTAL,
    REPLICATION_LOG_BASED as REPLICATION_LOG_BASED,
    AnyMetadata as AnyMetadata,
    Breadcrumb as Breadcrumb,
    Catalog as Catalog,
    CatalogEntry as CatalogEntry,
    Metadata as Metadata,
    MetadataMapping as MetadataMapping,
    Schema as Schema,
    SelectionMask as SelectionMask,
    StreamMetadata as StreamMetadata,
)
