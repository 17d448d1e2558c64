"""Operations on Singer catalog entries that the Airbyte and Fivetran protocols share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tap_core.singerlib.catalog import CatalogEntry, Metadata

if TYPE_CHECKING:
    from tap_core.sync.interfaces import SyncStream

__all__ = ["apply_selection", "get_catalog_entry"]


def get_catalog_entry(stream: SyncStream) -> CatalogEntry:
    """Return the Singer catalog entry of a stream: its schema, metadata and replication key."""
    return stream._singer_catalog_entry  # noqa: SLF001 - an author's hook, named by singer_sdk


def apply_selection(node: Metadata, *, wanted: bool) -> None:
    """Select or deselect a property: set ``selected`` in its catalog metadata to ``wanted``.

    To deselect a property with the inclusion ``automatic``, change the inclusion to ``available``,
    because Singer always includes automatic properties.
    """
    node.selected = wanted
    if node.inclusion == Metadata.InclusionType.AUTOMATIC and not wanted:
        node.inclusion = Metadata.InclusionType.AVAILABLE
