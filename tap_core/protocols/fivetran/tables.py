"""A tap's streams as Fivetran's tables: their names and columns.

Rules of the room: without protobuf. Stream maps and flattening are part of what a stream is: the
tables are those that go out, and Schema and Update tell the same ones. Schemas are told where
every stream has one; else the tables have the tap's own names for its streams. No two tables
have one name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from tap_core.exceptions import DiscoveryError
from tap_core.protocols.fivetran.columns import SourceColumn, TableId, build_columns
from tap_core.protocols.interfaces import DiscoveredStream, apply_selection, get_catalog_entry
from tap_core.singerlib.catalog import Catalog, CatalogEntry, Metadata, Schema
from tap_core.sync.plan import get_schemas, is_mapped

__all__ = [
    "SourceTable",
    "add_column",
    "build_tables",
    "catalog_entry",
    "identity_name",
    "select_all",
]

_Inclusion = Metadata.InclusionType


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table: ``name`` is what the tap calls it, ``stream`` the stream that it is made of."""

    id: TableId
    columns: tuple[SourceColumn, ...]
    name: str
    stream: str
    is_mapped: bool = False
    """Whether stream maps or flattening make it of the stream."""

    def differs_from(self, told: SourceTable) -> bool:
        """Tell whether it has a column that was not told like that; fewer are no difference."""
        return not set(self.columns) <= set(told.columns)

    def joined(self, told: SourceTable) -> SourceTable:
        """Return what was told of it before, with the columns as they are now."""
        own = {column.name: column for column in self.columns}
        before = {column.name: column for column in told.columns}
        return replace(self, columns=tuple({**before, **own}.values()))


def identity_name(streams: Iterable[DiscoveredStream]) -> Catalog:
    """Return the catalog that has selected what the tap does not leave out by itself."""
    catalog = Catalog()
    for stream in streams:
        root = get_catalog_entry(stream).metadata.root
        wishes = (root.selected, root.selected_by_default)
        wanted = next((wish for wish in wishes if wish is not None), True)
        add_column(catalog, stream, catalog_entry(stream, is_wanted=wanted))
    return catalog


def select_all(streams: Iterable[DiscoveredStream]) -> Catalog:
    """Return the catalog that has all selected that can be."""
    catalog = Catalog()
    for stream in streams:
        entry = catalog_entry(stream, is_wanted=True)
        for name in entry.schema.properties or {}:
            apply_selection(entry.metadata["properties", name], wanted=True)
        add_column(catalog, stream, entry)
    return catalog


def catalog_entry(stream: DiscoveredStream, *, is_wanted: bool) -> CatalogEntry:
    """Return a copy of a stream's entry, wanted or not, with every word of its schema."""
    entry = deepcopy(get_catalog_entry(stream))
    root = entry.metadata.root
    if root.inclusion != _Inclusion.UNSUPPORTED:
        root.inclusion, root.selected = _Inclusion.AVAILABLE, is_wanted
    entry.schema = _whole(stream.schema)
    return entry


def add_column(catalog: Catalog, stream: DiscoveredStream, entry: CatalogEntry) -> None:
    """Add an entry under the names by which a tap looks for it."""
    for name in (stream.tap_stream_id, stream.name):
        catalog[name] = entry


def _whole(schema: Any) -> Schema:
    """Return a schema that keeps what a catalog leaves out, such as the digits of a decimal."""
    made = Schema.from_dict(schema)
    told = made.to_dict()
    made.extras |= {word: deepcopy(value) for word, value in schema.items() if word not in told}
    for name, inner in (made.properties or {}).items():
        if isinstance(inner, Schema):
            assert made.properties is not None  # noqa: S101  they are being walked
            made.properties[name] = _whole(schema["properties"][name])
    return made


def build_tables(streams: Mapping[str, DiscoveredStream]) -> tuple[SourceTable, ...]:
    """Return the tables of a tap's streams, with the columns that are selected of each.

    The stream maps must have been made.

    Raises:
        DiscoveryError: two of them have one name.
    """
    has_schemas = bool(streams) and all(stream.namespace for stream in streams.values())
    tables = [table for stream in streams.values() for table in _build_tables(stream, has_schemas)]
    taken = Counter(table.id for table in tables)
    told = [
        table if taken[table.id] == 1 else replace(table, id=replace(table.id, table=table.name))
        for table in tables
    ]
    for known, count in Counter(table.id for table in told).items():
        if count > 1:
            raise DiscoveryError(
                f"{count} tables are called '{known}': stream maps give streams the same name."
                " Give each a name of its own."
            )
    return tuple(told)


def _build_tables(stream: Any, has_schemas: bool) -> Iterator[SourceTable]:
    mapped = is_mapped(stream)
    for described in get_schemas(stream):
        name = described.stream.name
        table = stream.name_in_namespace if has_schemas and name == stream.name else name
        schema = stream.namespace if has_schemas else None
        known = TableId(table, schema)
        yield SourceTable(known, build_columns(described), name, stream.name, is_mapped=mapped)
