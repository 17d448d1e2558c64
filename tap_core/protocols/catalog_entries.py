"""Operations on Singer catalog entries and their schemas that the protocols share."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from tap_core.singerlib.catalog import Catalog, CatalogEntry, Metadata

if TYPE_CHECKING:
    from tap_core.sync.interfaces import SyncStream

__all__ = [
    "add_catalog_entry",
    "apply_selection",
    "copy_catalog_entry",
    "get_catalog_entry",
    "get_properties",
]

_Inclusion = Metadata.InclusionType


def get_catalog_entry(stream: SyncStream) -> CatalogEntry:
    """Return the Singer catalog entry of a stream: its schema, metadata and replication key."""
    return stream._singer_catalog_entry  # noqa: SLF001 - an author's hook, named by singer_sdk


def copy_catalog_entry(stream: SyncStream, *, is_selected: bool) -> CatalogEntry:
    """Return a copy of a stream's catalog entry that selects or deselects the stream.

    The selection of a stream with the inclusion ``unsupported`` is not changed.
    """
    entry = deepcopy(get_catalog_entry(stream))
    root = entry.metadata.root
    if root.inclusion != _Inclusion.UNSUPPORTED:
        root.inclusion, root.selected = _Inclusion.AVAILABLE, is_selected
    return entry


def add_catalog_entry(catalog: Catalog, stream: SyncStream, entry: CatalogEntry) -> None:
    """Store a stream's entry in a Singer catalog, under its ``tap_stream_id`` and its name.

    Taps look up an entry by its ``tap_stream_id`` or by its name.
    """
    for name in (stream.tap_stream_id, stream.name):
        catalog[name] = entry


def apply_selection(node: Metadata, *, wanted: bool) -> None:
    """Select or deselect a property: set ``selected`` to ``wanted`` in ``node``, its metadata.

    To deselect a property with the inclusion ``automatic``, change the inclusion to ``available``,
    because Singer always includes automatic properties.
    """
    node.selected = wanted
    if node.inclusion == _Inclusion.AUTOMATIC and not wanted:
        node.inclusion = _Inclusion.AVAILABLE


def get_properties(schema: Any) -> Mapping[str, Any]:
    """Return the ``properties`` of a schema, or an empty mapping if it declares no properties."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return properties if isinstance(properties, Mapping) else {}
