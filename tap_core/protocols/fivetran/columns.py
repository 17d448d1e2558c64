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

from tap_core.events import Describe
from tap_core.protocols.fivetran.types import ColumnType, type_of, type_of_key
from tap_core.protocols.references import without_references
from tap_core.schema.variants import union_of_objects, variants_of

__all__ = ["DELETED_AT", "WHOLE", "Column", "TableId", "columns_of", "properties_of"]

DELETED_AT: Final = "_sdc_deleted_at"
"""The property by which Singer's taps say of a record that its row was deleted."""

WHOLE: Final = "record"
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
class Column:
    """One column; ``is_whole`` where it takes the record itself and not a property of it."""

    name: str
    kind: ColumnType
    is_key: bool = False
    is_whole: bool = False


def properties_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a stream declares of its records, by property; references are written out."""
    root = without_references(schema)
    objects = [variant for kind, variant in variants_of(root) if kind == "object"]
    found: Mapping[str, Any] = (
        union_of_objects(objects).get("properties") if objects else {}
    ) or {}
    return found


def columns_of(described: Describe) -> tuple[Column, ...]:
    """Return the columns of a stream's table; a key that is not declared has one of text."""
    declared = properties_of(described.schema)
    keys = described.keys
    properties = {**dict.fromkeys(key for key in keys if key not in declared), **declared}
    found = [
        Column(
            name,
            type_of_key(definition) if name in keys else type_of(definition),
            is_key=name in keys,
        )
        for name, definition in properties.items()
        if name in keys or not name.startswith(_OF_SYSTEMS)
    ]
    if not declared:
        found.append(Column(_free_name(properties), type_of({}), is_whole=True))
    return tuple(found)


def _free_name(taken: Mapping[str, Any]) -> str:
    name = WHOLE
    while name in taken:
        name = f"_{name}"
    return name
