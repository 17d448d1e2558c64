"""The answer to Schema, and a change of it: tables as messages.

Rules of the room: what is told is the same each time, in the order of the streams' names and of
their properties. Source: Fivetran's Partner SDK, connector_sdk.proto, ``SchemaResponse``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from tap_core.protocols.fivetran import messages
from tap_core.protocols.fivetran.columns import Column
from tap_core.protocols.fivetran.tables import Table
from tap_core.protocols.fivetran.words import DataType

__all__ = ["schema_change", "schema_response"]


def schema_response(tables: Sequence[Table], *, can_select: bool = True) -> Any:
    """Return what Schema answers; ``can_select``: tables and columns can be selected."""
    return messages.SchemaResponse(selection_not_supported=not can_select, **_lists(tables))


def schema_change(table: Table) -> Any:
    """Return the response of Update that tells how a table is from now on."""
    return messages.UpdateResponse(schema_change=messages.SchemaChange(**_lists([table])))


def _lists(tables: Sequence[Table]) -> dict[str, Any]:
    if not any(table.id.schema for table in tables):
        return {"without_schema": messages.TableList(tables=map(_table, tables))}
    by_schema = sorted(tables, key=lambda table: table.id.schema or "")
    schemas = groupby(by_schema, key=lambda table: table.id.schema)
    listed = [messages.Schema(name=name, tables=_all(members)) for name, members in schemas]
    return {"with_schema": messages.SchemaList(schemas=listed)}


def _all(tables: Iterable[Table]) -> list[Any]:
    return [_table(table) for table in tables]


def _table(table: Table) -> Any:
    return messages.Table(name=table.id.table, columns=map(_column, table.columns))


def _column(column: Column) -> Any:
    kind = column.kind
    made = messages.Column(name=column.name, type=int(kind.type), primary_key=column.is_key)
    if kind.type == DataType.DECIMAL:
        digits = messages.DecimalParams(precision=kind.precision, scale=kind.scale)
        made.params.CopyFrom(messages.DataTypeParams(decimal=digits))
    return made
