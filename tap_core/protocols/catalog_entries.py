"""Operations on Singer catalog entries and their schemas that the protocols share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tap_core.singerlib.catalog import CatalogEntry, Metadata

if TYPE_CHECKING:
    from tap_core.sync.interfaces import SyncStream

__all__ = ["apply_selection", "get_catalog_entry", "get_properties"]


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


def get_properties(schema: Any) -> Mapping[str, Any]:
    """Return the ``properties`` of a schema, or an empty mapping if it declares no properties."""
    found = schema.get("properties") if isinstance(schema, Mapping) else None
    return found if isinstance(found, Mapping) else {}
