"""Storage of a table's Fivetran schema (types, keys and names) in a table property.

Before columns change, the property is set to the new schema followed by the old one. The first
schema that matches the table's actual columns is valid. Thus the commit that changes the columns
also activates the new schema, and an interrupted change has no effect. If another writer changed
the table so that no schema matches, each column is matched separately.

The property is compressed and hex-encoded, because Spark redacts text that looks like a secret.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from tap_core.protocols.fivetran.enums import DataType
from target_spark.fivetran.table_schema import DestinationColumn, FivetranSchema
from target_spark.fivetran.type_mapping import column_from_ddl, to_ddl

__all__ = ["TABLE_PROPERTY", "dump_metadata", "load_metadata", "reconcile"]

TABLE_PROPERTY: Final = "target_spark.fivetran"
"""Name of the table property that stores the Fivetran schema of a table."""


def dump_metadata(*fivetran_schemas: FivetranSchema) -> str:
    """Serialize Fivetran schemas, newest first, to the text of a table property."""
    document = [
        [_as_list(column) for column in fivetran_schema.columns]
        for fivetran_schema in fivetran_schemas
    ]
    return zlib.compress(json.dumps(document, separators=(",", ":")).encode()).hex()


def load_metadata(text: str | None) -> tuple[FivetranSchema, ...]:
    """Return the Fivetran schemas that a table property stores as ``text``, newest first.

    Without ``text``, because the table has no such property, the result is empty.

    Raises:
        ValueError: The text cannot be parsed.
    """
    if text is None:
        return ()
    try:
        document = json.loads(zlib.decompress(bytes.fromhex(text)))
        return tuple(FivetranSchema(tuple(map(_from_list, columns))) for columns in document)
    except (ValueError, TypeError, KeyError, zlib.error) as error:
        raise ValueError(f"the property {TABLE_PROPERTY} cannot be read") from error


def reconcile(
    types: Mapping[str, str], stored: Sequence[FivetranSchema], table_format: str
) -> FivetranSchema:
    """Return the Fivetran schema of a table, from its actual columns and its stored schemas.

    The result is the first stored schema that matches the actual columns. If none matches, each
    column gets the Fivetran type of a matching stored column, or else a type derived from its DDL
    type.

    Args:
        types: The DDL type of each actual column, in table order.
        stored: The schemas stored in the table property.
        table_format: The format of the table.
    """
    for fivetran_schema in stored:
        columns = {column.column: column for column in fivetran_schema.columns}
        if columns.keys() == types.keys() and all(
            _matches(columns[name], ddl, table_format) for name, ddl in types.items()
        ):
            return FivetranSchema(tuple(columns[name] for name in types))
    stored_columns = [column for fivetran_schema in stored for column in fivetran_schema.columns]
    return FivetranSchema(
        tuple(
            _reconcile_column(name, ddl, stored_columns, table_format)
            for name, ddl in types.items()
        )
    )


def _reconcile_column(
    name: str, ddl: str, stored: Sequence[DestinationColumn], table_format: str
) -> DestinationColumn:
    """Return the Fivetran column for an actual column of a table.

    If a stored column has the same name but another type, its Fivetran name and key are kept.
    """
    same_name = [column for column in stored if column.column == name]
    from_ddl = column_from_ddl(name, ddl)
    if not same_name:
        return from_ddl
    matching = (column for column in same_name if _matches(column, ddl, table_format))
    return next(matching, replace(from_ddl, name=same_name[0].name, is_key=same_name[0].is_key))


def _matches(column: DestinationColumn, ddl: str, table_format: str) -> bool:
    """Return True if the Fivetran type of a stored column fits the DDL type of the actual one."""
    from_ddl = column_from_ddl(column.column, ddl)
    if column.type is DataType.DECIMAL:
        return from_ddl.type is DataType.DECIMAL and from_ddl.digits == column.digits
    return column.type is from_ddl.type or to_ddl(column, table_format) == ddl


def _as_list(column: DestinationColumn) -> list[object]:
    digits = column.digits if column.type is DataType.DECIMAL else None
    return [column.name, column.column, column.type.name, column.is_key, digits]


def _from_list(fields: Sequence[object]) -> DestinationColumn:
    name, column, type_, is_key, decimal = fields
    digits = (int(decimal[0]), int(decimal[1])) if isinstance(decimal, list) else None
    return DestinationColumn(str(name), DataType[str(type_)], bool(is_key), digits, str(column))
