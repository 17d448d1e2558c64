"""Conversion between column types, Spark types and DDL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import types as T  # noqa: N812

from target_spark.columns import Array, ColumnType, Decimal, Struct
from target_spark.tables.identifiers import quote

__all__ = ["build_field", "column_ddl", "to_ddl", "to_spark_type"]

_SPARK_TYPES: Final[Mapping[str, Callable[[], T.DataType]]] = {
    "boolean": T.BooleanType,
    "tinyint": T.ByteType,
    "smallint": T.ShortType,
    "int": T.IntegerType,
    "bigint": T.LongType,
    "double": T.DoubleType,
    "string": T.StringType,
    "timestamp": T.TimestampType,
    "timestamp_ntz": T.TimestampNTZType,
    "date": T.DateType,
    "binary": T.BinaryType,
}
"""The PySpark class of each simple column type, by the type's DDL."""


def column_ddl(field: T.StructField) -> str:
    """Return the DDL type of a column, such as ``bigint`` or ``varchar(10)``.

    The length of a char or varchar column is in the metadata of the field, because its Spark type
    is a plain string.
    """
    limited = str(field.metadata.get("__CHAR_VARCHAR_TYPE_STRING", ""))
    plain = isinstance(field.dataType, T.StringType)
    return limited if plain and limited else to_ddl(field.dataType)


def build_field(name: str, type_: ColumnType, comment: str | None = None) -> T.StructField:
    """Return a Spark schema field for a nullable column, with its comment if it has one."""
    metadata = {"comment": comment} if comment else None
    return T.StructField(name, to_spark_type(type_), nullable=True, metadata=metadata)


def to_spark_type(type_: ColumnType) -> T.DataType:
    """Return the Spark type of a column type, such as ``LongType()`` for a 64-bit integer.

    Raises:
        KeyError: The type is an `UnmanagedType`, which target-spark never writes.
    """
    if isinstance(type_, Array):
        return T.ArrayType(to_spark_type(type_.element))
    if isinstance(type_, Struct):
        return T.StructType([build_field(field.name, field.type) for field in type_.fields])
    if isinstance(type_, Decimal):
        return T.DecimalType(type_.precision, type_.scale)
    return _SPARK_TYPES[type_.ddl]()


def to_ddl(type_: T.DataType) -> str:
    """Return the DDL of a Spark type with quoted field names, such as ``struct<`a`: bigint>``."""
    if isinstance(type_, T.StructType):
        fields = (f"{quote(field.name)}: {to_ddl(field.dataType)}" for field in type_.fields)
        return f"struct<{', '.join(fields)}>"
    if isinstance(type_, T.ArrayType):
        return f"array<{to_ddl(type_.elementType)}>"
    if isinstance(type_, T.MapType):
        return f"map<{to_ddl(type_.keyType)}, {to_ddl(type_.valueType)}>"
    return type_.simpleString()
