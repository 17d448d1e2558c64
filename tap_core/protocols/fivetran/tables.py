"""Fivetran tables of a tap's streams: their names and columns.

Stream maps and flattening are applied first, so that the calls Schema and Update report the same
tables. Tables have a schema if every stream has a namespace. Otherwise they have the tap's stream
names. Table names are unique.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from tap_core.exceptions import DiscoveryError
from tap_core.protocols.catalog_entries import (
    add_catalog_entry,
    apply_selection,
    copy_catalog_entry,
    get_catalog_entry,
)
from tap_core.protocols.fivetran.columns import SourceColumn, TableId, build_columns
from tap_core.singerlib.catalog import Catalog, CatalogEntry, Schema
from tap_core.sync.interfaces import SyncStream
from tap_core.sync.plan import get_schemas, is_mapped

__all__ = [
    "SourceTable",
    "build_tables",
    "default_catalog",
    "make_catalog_entry",
    "select_all",
]


@dataclass(frozen=True, slots=True)
class SourceTable:
    """Table that a connector sends to Fivetran, and the stream that provides its rows.

    Attributes:
        id: Name of the table.
        columns: Columns of the table.
        name: Name of the stream after stream maps, which can rename and copy streams.
        stream: Name of the tap's stream.
        is_mapped: True if stream maps or flattening change the stream.
    """

    id: TableId
    columns: tuple[SourceColumn, ...]
    name: str
    stream: str
    is_mapped: bool = False

    def differs_from(self, previous: SourceTable) -> bool:
        """Return True if the table has a column that is new or changed since ``previous``.

        Columns that only ``previous`` has are ignored.
        """
        return not set(self.columns) <= set(previous.columns)

    def add_previous_columns(self, previous: SourceTable) -> SourceTable:
        """Return a copy of the table that also has the columns which only ``previous`` has."""
        current = {column.name: column for column in self.columns}
        before = {column.name: column for column in previous.columns}
        return replace(self, columns=tuple({**before, **current}.values()))


def default_catalog(streams: Iterable[SyncStream]) -> Catalog:
    """Return a Singer catalog that selects the streams that the tap selects by default."""
    catalog = Catalog()
    for stream in streams:
        root = get_catalog_entry(stream).metadata.root
        choices = (root.selected, root.selected_by_default)
        is_selected = next((choice for choice in choices if choice is not None), True)
        add_catalog_entry(catalog, stream, make_catalog_entry(stream, is_selected=is_selected))
    return catalog


def select_all(streams: Iterable[SyncStream]) -> Catalog:
    """Return a Singer catalog that selects all streams and properties that the tap can read."""
    catalog = Catalog()
    for stream in streams:
        entry = make_catalog_entry(stream, is_selected=True)
        for name in entry.schema.properties or {}:
            apply_selection(entry.metadata["properties", name], wanted=True)
        add_catalog_entry(catalog, stream, entry)
    return catalog


def make_catalog_entry(stream: SyncStream, *, is_selected: bool) -> CatalogEntry:
    """Return a copy of a stream's catalog entry that selects or deselects the stream.

    The copy has the complete schema, including keywords that catalogs usually lack.
    """
    entry = copy_catalog_entry(stream, is_selected=is_selected)
    entry.schema = _to_full_schema(stream.schema)
    return entry


def _to_full_schema(schema: Any) -> Schema:
    """Convert a JSON Schema to the `Schema` of a catalog entry, with all its keywords.

    `Schema.from_dict` alone would lose keywords such as ``precision``.
    """
    model = Schema.from_dict(schema)
    known = model.to_dict()
    model.extras |= {word: deepcopy(value) for word, value in schema.items() if word not in known}
    if model.properties:
        model.properties = {
            name: _to_full_schema(inner) if isinstance(inner, Mapping) else inner
            for name, inner in schema["properties"].items()
        }
    return model


def build_tables(streams: Mapping[str, SyncStream]) -> tuple[SourceTable, ...]:
    """Return the Fivetran tables of a tap's streams, with the columns that the catalog selects.

    Create the stream maps before calling this function, because they can rename and add tables.
    Tables that would have the same name in a schema are named like the tap's streams.

    Raises:
        DiscoveryError: Stream maps give two streams the same name.
    """
    has_schemas = bool(streams) and all(stream.namespace for stream in streams.values())
    tables = [table for stream in streams.values() for table in _build_tables(stream, has_schemas)]
    counts = Counter(table.id for table in tables)
    unique = [
        table if counts[table.id] == 1 else replace(table, id=replace(table.id, table=table.name))
        for table in tables
    ]
    for table_id, count in Counter(table.id for table in unique).items():
        if count > 1:
            raise DiscoveryError(
                f"{count} tables are called '{table_id}': stream maps give streams the same name."
                " Give each stream a different name."
            )
    return tuple(unique)


def _build_tables(stream: Any, has_schemas: bool) -> Iterator[SourceTable]:
    mapped = is_mapped(stream)
    for schema_event in get_schemas(stream):
        name = schema_event.stream.name
        table = stream.name_in_namespace if has_schemas and name == stream.name else name
        schema = stream.namespace if has_schemas else None
        columns = build_columns(schema_event)
        yield SourceTable(TableId(table, schema), columns, name, stream.name, is_mapped=mapped)
