"""Conversion of a Fivetran user's selection of tables and columns to a Singer catalog.

- Key columns of a selected table are always selected.
- New schemas, tables and columns are selected if the user has chosen to include new ones. If the
  request has no selection, the tap's default selection applies.
- The replication key is always read, because the state needs it. If its column is not selected, it
  is not sent.
- If a stream map splits a stream into several tables or renames columns, the whole stream is read,
  and unselected columns are dropped before sending.

Source: Fivetran's Partner SDK, connector_sdk.proto, ``Selection``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tap_core.protocols.catalog_entries import add_catalog_entry, apply_selection
from tap_core.protocols.fivetran.columns import DELETED_AT, SourceColumn, TableId
from tap_core.protocols.fivetran.tables import SourceTable, make_catalog_entry
from tap_core.singerlib.catalog import Catalog, CatalogEntry, Metadata
from tap_core.sync.interfaces import SyncStream

__all__ = ["Selection", "TableSelection", "build_catalog"]


@dataclass(frozen=True, slots=True)
class TableSelection:
    """Columns of one table that the user has selected in Fivetran.

    Attributes:
        columns: Selection by column name: True for a selected column.
        includes_others: True if all columns that are not in ``columns`` are selected.
    """

    columns: Mapping[str, bool] = field(default_factory=dict)
    includes_others: bool = True

    def selects(self, column: SourceColumn) -> bool:
        """Return True if a column is selected. Key columns are always selected."""
        return column.is_key or self.columns.get(column.name, self.includes_others)

    def select_columns(self, table: SourceTable) -> SourceTable:
        """Return a copy of ``table`` that has only the selected columns."""
        return replace(table, columns=tuple(filter(self.selects, table.columns)))


_ALL = TableSelection()


@dataclass(frozen=True, slots=True)
class Selection:
    """Tables and columns that the user has selected in Fivetran for the syncs of a connector."""

    tables: Mapping[TableId, TableSelection | None] = field(default_factory=dict)
    """Column selection by table; None if the table is not selected."""
    schemas: Mapping[str | None, bool] = field(default_factory=dict)
    """Selection by schema name (True or False) for tables that are not in ``tables``."""
    includes_others: bool = True
    """True if the tables of schemas that are not in ``schemas`` are selected."""

    @classmethod
    def from_request(cls, request: Any) -> Selection | None:
        """Return the user's selection in an UpdateRequest message, or None if it has none."""
        kind = request.selection.WhichOneof("selection") if request.HasField("selection") else None
        if kind is None:
            return None
        tables: dict[TableId, TableSelection | None] = {}
        if kind == "without_schema":
            without_schema = request.selection.without_schema
            tables.update(_parse_tables(None, without_schema.tables))
            return cls(tables, {None: without_schema.include_new_tables}, includes_others=False)
        with_schema = request.selection.with_schema
        includes_new: dict[str | None, bool] = {}
        for schema in with_schema.schemas:
            includes_new[schema.schema_name] = schema.included and schema.include_new_tables
            if schema.included:
                tables.update(_parse_tables(schema.schema_name, schema.tables))
        return cls(tables, includes_new, includes_others=with_schema.include_new_schemas)

    def find_table_selection(self, table: TableId) -> TableSelection | None:
        """Return the column selection of a table, or None if the table is not selected."""
        if table in self.tables:
            return self.tables[table]
        return _ALL if self.schemas.get(table.schema, self.includes_others) else None


def _parse_tables(
    schema: str | None, tables: Iterable[Any]
) -> Iterable[tuple[TableId, TableSelection | None]]:
    for table in tables:
        choice = TableSelection(dict(table.columns), table.include_new_columns)
        yield TableId(table.table_name, schema), choice if table.included else None


def build_catalog(
    streams: Mapping[str, SyncStream],
    tables: Iterable[SourceTable],
    find_selection: Callable[[TableId], TableSelection | None],
) -> Catalog:
    """Return the Singer catalog for a sync of the tables and columns that a user has selected.

    It selects the streams and properties that contain the values of the columns.

    Args:
        streams: Streams of the tap by name.
        tables: Fivetran tables of the streams.
        find_selection: Returns the column selection of a table; None if the table is not selected.
    """
    by_stream: dict[str, list[SourceTable]] = {name: [] for name in streams}
    for table in tables:
        by_stream[table.stream].append(table)
    catalog = Catalog()
    for name, stream in streams.items():
        choices = [
            (table, choice)
            for table in by_stream[name]
            if (choice := find_selection(table.id)) is not None
        ]
        add_catalog_entry(catalog, stream, _build_entry(stream, choices))
    return catalog


def _build_entry(
    stream: SyncStream, choices: list[tuple[SourceTable, TableSelection]]
) -> CatalogEntry:
    """Return a stream's Singer catalog entry for the Fivetran tables that the user has selected.

    It selects the properties that contain the values of the selected columns.

    Args:
        stream: The stream.
        choices: Selected tables of the stream, each with its column selection. An empty list
            deselects the stream.
    """
    entry = make_catalog_entry(stream, is_selected=bool(choices))
    declared = entry.schema.properties or {}
    for name in declared:
        node = entry.metadata["properties", name]
        if node.inclusion != Metadata.InclusionType.UNSUPPORTED:
            apply_selection(node, wanted=name == DELETED_AT or _is_wanted(name, declared, choices))
    return entry


def _is_wanted(
    name: str, declared: Mapping[str, Any], choices: list[tuple[SourceTable, TableSelection]]
) -> bool:
    """Return True if a selected column may need the property ``name`` of a stream.

    This is always True for streams with stream maps or several tables.

    Args:
        name: Name of the property.
        declared: All properties that the stream's schema declares.
        choices: Selected tables of the stream, each with its column selection.
    """
    if len(choices) != 1:
        return True
    [(table, choice)] = choices
    columns = {column.name: column for column in table.columns}
    if table.is_mapped or not columns.keys() <= declared.keys():
        return True  # a stream map may use any property, or a column has the whole record
    return name in columns and choice.selects(columns[name])
