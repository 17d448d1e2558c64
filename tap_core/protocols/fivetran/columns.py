"""What a table of Fivetran's consists of, made of what the tap says of a stream.

Rules of the room: pure and frozen, without protobuf. Columns stand in the order of the schema.
Only source data has columns: what the SDK or Fivetran itself adds (``_sdc_``, ``_fivetran_``) has
none, unless it tells rows apart. A stream that declares no properties has one column, of JSON,
for the whole record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tap_core.events import SchemaEvent
from tap_core.protocols.fivetran.types import ColumnType, to_column_type, to_key_type
from tap_core.schema.inline_references import inline_references
from tap_core.schema.type_variants import merge_object_variants, split_variants

__all__ = [
    "DELETED_AT",
    "WHOLE_RECORD",
    "SourceColumn",
    "TableId",
    "build_columns",
    "get_properties",
]

DELETED_AT: Final = "_sdc_deleted_at"
"""The property by which Singer's taps say of a record that its row was deleted."""

WHOLE_RECORD: Final = "record"
"""The column of a stream that declares no properties."""

_OF_SYSTEMS: Final = ("_sdc_", "_fivetran_")


@dataclass(frozen=True, slots=True)
class TableId:
    """What Fivetran calls a table; ``schema`` is None where the source has no schemas."""

    table: str
    schema: str | None = None

    def __str__(self) -> str:
        """Return ``schema.table``, or the bare table."""
        return f"{self.schema}.{self.table}" if self.schema else self.table


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """One column; ``is_whole`` where it takes the record itself and not a property of it."""

    name: str
    kind: ColumnType
    is_key: bool = False
    is_whole: bool = False


def get_properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a stream declares of its records, by property; references are written out."""
    root = inline_references(schema)
    objects = [variant for kind, variant in split_variants(root) if kind == "object"]
    found: Mapping[str, Any] = (
        merge_object_variants(objects).get("properties") if objects else {}
    ) or {}
    return found


def build_columns(described: SchemaEvent) -> tuple[SourceColumn, ...]:
    """Return the columns of a stream's table; a key that is not declared has one of text."""
    declared = get_properties(described.schema)
    keys = described.keys
    properties = {**dict.fromkeys(key for key in keys if key not in declared), **declared}
    found = [
        SourceColumn(
            name,
            to_key_type(definition) if name in keys else to_column_type(definition),
            is_key=name in keys,
        )
        for name, definition in properties.items()
        if name in keys or not name.startswith(_OF_SYSTEMS)
    ]
    if not declared:
        found.append(SourceColumn(_free_name(properties), to_column_type({}), is_whole=True))
    return tuple(found)


def _free_name(taken: Mapping[str, Any]) -> str:
    name = WHOLE_RECORD
    while name in taken:
        name = f"_{name}"
    return name
