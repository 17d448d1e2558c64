"""Mapping between Fivetran's data types and Spark's DDL types.

Several Fivetran types map to the same Spark type (STRING, XML and JSON to ``string``), so the
reverse mapping returns the most general of them. For tables that target-spark created,
`target_spark.fivetran.table_metadata` stores the Fivetran types.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tap_core.protocols.fivetran.enums import DataType
from target_spark.fivetran.table_schema import DestinationColumn

__all__ = ["column_from_ddl", "to_ddl", "to_fivetran_type"]

_DDL: Final[Mapping[DataType, str]] = MappingProxyType(
    {
        DataType.BOOLEAN: "boolean",
        DataType.SHORT: "smallint",
        DataType.INT: "int",
        DataType.LONG: "bigint",
        DataType.FLOAT: "float",
        DataType.DOUBLE: "double",
        DataType.NAIVE_DATE: "date",
        DataType.NAIVE_DATETIME: "timestamp_ntz",
        DataType.UTC_DATETIME: "timestamp",
        DataType.BINARY: "binary",
        DataType.STRING: "string",
        DataType.XML: "string",
        DataType.JSON: "string",
        DataType.NAIVE_TIME: "string",
    }
)

_SUBSTITUTES: Final[Mapping[tuple[str, DataType], str]] = MappingProxyType(
    {("iceberg", DataType.SHORT): "int"}
)
"""DDL type that replaces a Fivetran type that a table format lacks, by format and type."""

_FIVETRAN_TYPES: Final[Mapping[str, DataType]] = MappingProxyType(
    {
        "boolean": DataType.BOOLEAN,
        "tinyint": DataType.SHORT,
        "smallint": DataType.SHORT,
        "int": DataType.INT,
        "bigint": DataType.LONG,
        "float": DataType.FLOAT,
        "double": DataType.DOUBLE,
        "date": DataType.NAIVE_DATE,
        "timestamp": DataType.UTC_DATETIME,
        "timestamp_ntz": DataType.NAIVE_DATETIME,
        "binary": DataType.BINARY,
        "variant": DataType.JSON,
    }
)

_DECIMAL_DDL: Final = re.compile(r"decimal\((\d+), ?(\d+)\)")
_NESTED_DDL: Final = re.compile(r"(struct|array|map)\s*<")


def to_ddl(column: DestinationColumn, table_format: str = "") -> str:
    """Return the Spark DDL type of a Fivetran column, such as ``decimal(38,10)``.

    Args:
        column: The column.
        table_format: The format of the table. If the format lacks the exact type, the result is a
            wider type; for example, a SHORT in Iceberg is an ``int``. "" to return the exact type.
    """
    if column.type is DataType.DECIMAL:
        return "decimal({},{})".format(*column.digits)
    return _SUBSTITUTES.get((table_format, column.type), _DDL[column.type])


def column_from_ddl(name: str, ddl: str) -> DestinationColumn:
    """Return a column with the Fivetran type that corresponds to a Spark DDL type.

    This is for tables that do not store Fivetran types, because target-spark did not create them.
    """
    lowered = ddl.lower()
    if match := _DECIMAL_DDL.fullmatch(lowered):
        return DestinationColumn(
            name, DataType.DECIMAL, decimal=(int(match[1]), int(match[2])), column=name
        )
    if _NESTED_DDL.match(lowered):
        return DestinationColumn(name, DataType.JSON, column=name)
    return DestinationColumn(name, _FIVETRAN_TYPES.get(lowered, DataType.STRING), column=name)


def to_fivetran_type(column: DestinationColumn) -> str:
    """Return the name of a column's Fivetran type, such as ``STRING`` or ``DECIMAL(38, 10)``."""
    if column.type is DataType.DECIMAL:
        return "DECIMAL({}, {})".format(*column.digits)
    return column.type.name
