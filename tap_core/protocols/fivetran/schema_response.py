"""Messages that tell Fivetran the tables and columns of a tap: SchemaResponse and SchemaChange.

Tables have the order of the stream names, and columns the order of the properties.
Source: Fivetran's Partner SDK, connector_sdk.proto, ``SchemaResponse``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from tap_core.protocols.fivetran import proto_messages
from tap_core.protocols.fivetran.columns import SourceColumn
from tap_core.protocols.fivetran.enums import DataType
from tap_core.protocols.fivetran.tables import SourceTable

__all__ = ["schema_change", "schema_response"]


def schema_response(tables: Sequence[SourceTable], *, can_select: bool = True) -> Any:
    """Return the SchemaResponse message that lists tables and their columns.

    ``can_select`` is True if users can select tables and columns in Fivetran.
    """
    return proto_messages.SchemaResponse(
        selection_not_supported=not can_select, **_build_lists(tables)
    )


def schema_change(table: SourceTable) -> Any:
    """Return the UpdateResponse message that reports a new or changed table to Fivetran.

    It contains a SchemaChange with all columns of the table.
    """
    return proto_messages.UpdateResponse(
        schema_change=proto_messages.SchemaChange(**_build_lists([table]))
    )


def _build_lists(tables: Sequence[SourceTable]) -> dict[str, Any]:
    if not any(table.id.schema for table in tables):
        return {"without_schema": proto_messages.TableList(tables=map(_build_table, tables))}
    by_schema = sorted(tables, key=lambda table: table.id.schema or "")
    schemas = groupby(by_schema, key=lambda table: table.id.schema)
    listed = [
        proto_messages.Schema(name=name, tables=map(_build_table, members))
        for name, members in schemas
    ]
    return {"with_schema": proto_messages.SchemaList(schemas=listed)}


def _build_table(table: SourceTable) -> Any:
    return proto_messages.Table(name=table.id.table, columns=map(_build_column, table.columns))


def _build_column(column: SourceColumn) -> Any:
    kind = column.kind
    message = proto_messages.Column(
        name=column.name, type=int(kind.type), primary_key=column.is_key
    )
    if kind.type == DataType.DECIMAL:
        digits = proto_messages.DecimalParams(precision=kind.precision, scale=kind.scale)
        message.params.CopyFrom(proto_messages.DataTypeParams(decimal=digits))
    return message
