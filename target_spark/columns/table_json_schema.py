"""Conversion of existing tables to `TableSchema` and to JSON Schema.

The JSON Schema of a column that target-spark wrote converts back to the same column type (with
default options). Other column types get the closest schema: ``smallint`` becomes ``integer``, a
map becomes ``object``, and a type without a JSON equivalent becomes an empty schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from target_spark.columns.ddl_parser import LIMITED_TEXT, parse_ddl
from target_spark.columns.table_schema import TableSchema
from target_spark.columns.types import (
    Array,
    Binary,
    Boolean,
    Column,
    ColumnSource,
    ColumnType,
    Date,
    Decimal,
    Double,
    Integer,
    LocalTimestamp,
    Struct,
    Text,
    Timestamp,
    UnmanagedType,
)
from target_spark.tables.identifiers import quote

__all__ = ["from_table", "to_json_schema"]

_SCALARS: Final[Mapping[type[ColumnType], Mapping[str, Any]]] = MappingProxyType(
    {
        Boolean: {"type": ["null", "boolean"]},
        Integer: {"type": ["null", "integer"]},
        Double: {"type": ["null", "number"]},
        Text: {"type": ["null", "string"]},
        Timestamp: {"type": ["null", "string"], "format": "date-time"},
        LocalTimestamp: {"type": ["null", "string"], "format": "date-time"},
        Date: {"type": ["null", "string"], "format": "date"},
        Binary: {"type": ["null", "string"], "contentEncoding": "base64"},
    }
)


def to_json_schema(table_schema: TableSchema) -> dict[str, Any]:
    """Return a JSON Schema for the records that can be loaded into a table.

    Columns that target-spark fills itself, such as ``_sdc_extracted_at``, are left out.
    """
    generated = {ColumnSource.METADATA, ColumnSource.WHOLE}
    columns = [c for c in table_schema.columns if c.feed not in generated and not c.path]
    return {"type": "object", **_build_properties(columns)}


def from_table(types: Mapping[str, str], sources: Mapping[str, str] | None = None) -> TableSchema:
    """Return the `TableSchema` of an existing table, independently of any stream.

    Its columns have no source of values (`ColumnSource.NOTHING`). `diff_with_table` determines the
    property of a stream that fills each column.

    Args:
        types: The type (DDL) of each column by name, in table order.
        sources: The property names that target-spark stored in the table, as `TableSchema.sources`
            returns them; None if the table has none.
    """
    columns = (
        Column(name, name, parse_ddl(ddl), feed=ColumnSource.NOTHING) for name, ddl in types.items()
    )
    return TableSchema(_with_sources(columns, sources or {}))


def _with_sources(
    columns: Iterable[Column], sources: Mapping[str, str], path: tuple[str, ...] = ()
) -> tuple[Column, ...]:
    if not sources:
        return tuple(columns)
    return tuple(
        replace(
            column,
            source=sources.get(quote(*path, column.name), column.name),
            type=_type_with_sources(column.type, sources, (*path, column.name)),
        )
        for column in columns
    )


def _type_with_sources(
    type_: ColumnType, sources: Mapping[str, str], path: tuple[str, ...]
) -> ColumnType:
    if isinstance(type_, Struct):
        return Struct(_with_sources(type_.fields, sources, path))
    if isinstance(type_, Array):
        return Array(_type_with_sources(type_.element, sources, (*path, "element")))
    return type_


def _build_schema(type_: ColumnType) -> dict[str, Any]:
    if isinstance(type_, Struct):
        return {
            "type": ["null", "object"],
            **_build_properties(type_.fields),
            "additionalProperties": False,
        }
    if isinstance(type_, Array):
        return {"type": ["null", "array"], "items": _build_schema(type_.element)}
    if isinstance(type_, Decimal):
        digits = {"precision": type_.precision, "scale": type_.scale}
        return {"type": ["null", "string"], "format": "x-singer.decimal", **digits}
    if isinstance(type_, UnmanagedType):
        return _build_unmanaged(type_)
    return dict(_SCALARS[type(type_)])


def _build_properties(columns: Iterable[Column]) -> dict[str, Any]:
    return {"properties": {column.source: _build_property(column) for column in columns}}


def _build_property(column: Column) -> dict[str, Any]:
    description = {"description": column.comment} if column.comment else {}
    return {**_build_schema(column.type), **description}


def _build_unmanaged(type_: UnmanagedType) -> dict[str, Any]:
    written = type_.written.lower()
    if limited := LIMITED_TEXT.fullmatch(written):
        return {"type": ["null", "string"], "maxLength": int(limited[1])}
    if written == "float":
        return {"type": ["null", "number"]}
    return {"type": ["null", "object"]} if written.startswith("map<") else {}
