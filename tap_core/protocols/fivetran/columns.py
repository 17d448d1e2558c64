"""Columns of a Fivetran table, derived from the JSON Schema of a stream.

Columns have the order of the properties. Properties that the SDK or Fivetran adds (``_sdc_…``,
``_fivetran_…``) get no column unless they are keys. The table of a stream without declared
properties has one JSON column for the whole record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tap_core.events import SchemaEvent
from tap_core.protocols.catalog_entries import get_properties
from tap_core.protocols.fivetran.column_types import ColumnType, to_column_type, to_key_type
from tap_core.schema.inline_references import inline_references
from tap_core.schema.type_variants import merge_object_variants, split_variants

__all__ = [
    "DELETED_AT",
    "WHOLE_RECORD",
    "SourceColumn",
    "TableId",
    "build_columns",
    "resolve_properties",
]

DELETED_AT: Final = "_sdc_deleted_at"
"""Property that marks a deleted row in Singer; its value is the time of the deletion."""

WHOLE_RECORD: Final = "record"
"""Name of the column for whole records of a stream without declared properties."""

_SYSTEM_PREFIXES: Final = ("_sdc_", "_fivetran_")


@dataclass(frozen=True, slots=True)
class TableId:
    """Name of a Fivetran table and of the database schema that contains it.

    ``schema`` is None if the tap does not group its tables in schemas.
    """

    table: str
    schema: str | None = None

    def __str__(self) -> str:
        """Return ``schema.table``, or only the table name if there is no schema."""
        return f"{self.schema}.{self.table}" if self.schema else self.table


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """Column of a Fivetran table, with the values of one property of a stream.

    If ``has_record`` is True, the column has the whole record as JSON instead.
    """

    name: str
    kind: ColumnType
    is_key: bool = False
    has_record: bool = False


def resolve_properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the properties that a JSON Schema declares, by name, with references resolved."""
    root = inline_references(schema)
    objects = [variant for kind, variant in split_variants(root) if kind == "object"]
    return get_properties(merge_object_variants(objects)) if objects else {}


def build_columns(schema_event: SchemaEvent) -> tuple[SourceColumn, ...]:
    """Return the columns of the Fivetran table for a stream with the schema ``schema_event``.

    A key property that the schema does not declare becomes a string column.
    """
    declared = resolve_properties(schema_event.schema)
    keys = schema_event.keys
    properties = {**dict.fromkeys(key for key in keys if key not in declared), **declared}
    columns = [
        SourceColumn(
            name,
            to_key_type(definition) if name in keys else to_column_type(definition),
            is_key=name in keys,
        )
        for name, definition in properties.items()
        if name in keys or not name.startswith(_SYSTEM_PREFIXES)
    ]
    if not declared:
        columns.append(
            SourceColumn(_choose_record_name(properties), to_column_type({}), has_record=True)
        )
    return tuple(columns)


def _choose_record_name(columns: Mapping[str, Any]) -> str:
    """Return an unused column name, such as "record", for a column with the whole record as JSON.

    If "record" is in ``columns``, underscores are put before it, as in "_record".
    """
    name = WHOLE_RECORD
    while name in columns:
        name = f"_{name}"
    return name
