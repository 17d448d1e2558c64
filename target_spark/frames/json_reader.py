"""Schemas and options of Spark's JSON reader for spool files, which keep rows as lines of JSON.

Spark's JSON reader silently changes some dates, timestamps and decimals, so these are read as text.
Integers and doubles are read as numbers in the fast mode, which takes a third less time than text.
In this mode the reader rejects numbers in quotes, and integers such as ``1.0``.

A line is ``{"n":ordinal,"t":time,"v":version,"r":record}``, where the ordinal is the row's position
in the input. Metadata from an Airbyte source precedes the record as ``"m"``. The record is parsed
as one struct. The column for lines that cannot be parsed is outside this struct, so its name cannot
conflict with the name of a property.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from target_spark.columns import (
    DELETED_AT,
    METADATA_COLUMNS,
    Array,
    Boolean,
    ColumnSource,
    ColumnType,
    Double,
    Integer,
    Struct,
    TableSchema,
)
from target_spark.tables.identifiers import quote, sql_literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "READER_OPTIONS",
    "WHOLE_FILES",
    "from_json",
    "parse_record_text",
    "read_lines",
    "record_fields",
    "record_type",
    "source_type",
    "variants_from_json",
]

_NO_LIMIT = str(2**31 - 1)

_DEEPEST_VARIANT = "1000"
"""Maximum nesting of a JSON value that is parsed to a variant, as a Spark option. Spark parses
variants by recursion, and deeper nesting could overflow the stack, which ends the JVM."""

WHOLE_FILES: Mapping[str, str] = MappingProxyType(
    {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}
)
"""Options that make Spark's file readers raise an error for a missing or corrupt file.

Otherwise, the session may be configured to skip such files, and their rows would be lost.
"""

READER_OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": "_corrupt",
        "lineSep": "\n",  # by default a carriage return ends a line too
        "maxStringLen": _NO_LIMIT,
        "maxNumLen": _NO_LIMIT,
        "maxNestingDepth": "10000",  # deeper nesting would overflow the stack
        "allowNonNumericNumbers": "false",
        "allowSingleQuotes": "false",
        "allowComments": "false",
        "allowUnquotedFieldNames": "false",
        "allowNumericLeadingZeros": "false",
        "allowBackslashEscapingAnyCharacter": "false",
        "allowUnquotedControlChars": "false",
        **WHOLE_FILES,
    }
)


def read_lines(
    spark: SparkSession, paths: Sequence[str], record: str, *, meta: bool = False
) -> DataFrame:
    """Read spool files as a DataFrame with one row per line of JSON.

    Args:
        spark: The session to use.
        paths: The paths or URLs of the spool files.
        record: The Spark DDL type of each record, such as ``STRUCT<id: STRING>``.
        meta: True to include the metadata that an Airbyte source added to each row.

    Returns:
        A DataFrame with the columns ``n`` (the position in the input), ``t`` (the extraction time),
        ``v`` (the table version), ``m`` (the metadata, only if ``meta`` is True), ``_corrupt`` (the
        line if it could not be parsed, else null) and ``r`` (the record).
    """
    meta_field = "`m` STRING, " if meta else ""
    schema = f"`n` BIGINT, `t` STRING, `v` BIGINT, {meta_field}`_corrupt` STRING, `r` {record}"
    return spark.read.schema(schema).options(**READER_OPTIONS).json(list(paths))


def record_type(table_schema: TableSchema, *, parse_numbers: bool) -> str:
    """Return the Spark DDL type for parsing the JSON records of a stream.

    The type is STRING if a column of the table stores the whole record as JSON, else a STRUCT of
    the properties.

    Args:
        table_schema: The table schema of the stream.
        parse_numbers: True to parse JSON numbers as numbers, so that a record with a number in
            quotes cannot be parsed. False to read numbers as text.
    """
    if table_schema.keeps_whole:
        return "STRING"
    return _struct_type(table_schema, parse_numbers=parse_numbers)


def parse_record_text(table_schema: TableSchema) -> str:
    """Return the SQL that parses the properties of a record from the text column ``r``.

    This SQL is for tables with a column for the whole record as JSON. For these, Spark's JSON
    reader returns the record as text.
    """
    return from_json(quote("r"), _struct_type(table_schema))


def from_json(text: str, schema: str, options: Mapping[str, str] = READER_OPTIONS) -> str:
    """Return a ``from_json`` SQL expression that parses JSON as the DDL type ``schema``.

    ``text`` is the SQL of the JSON text. ``options`` are options of Spark's JSON reader, by default
    those for spool files.
    """
    listed = (f"{sql_literal(name)}, {sql_literal(value)}" for name, value in options.items())
    return f"from_json({text}, {sql_literal(schema)}, map({', '.join(listed)}))"


def variants_from_json(text: str, schema: str) -> str:
    """Return a ``from_json`` SQL expression for a DDL type with variants.

    ``text`` is the SQL of the JSON text, and ``schema`` the DDL type. A variant is Spark's type for
    any JSON value. JSON with more than 1000 levels of nesting becomes null.
    """
    return from_json(text, schema, {**READER_OPTIONS, "maxNestingDepth": _DEEPEST_VARIANT})


def record_fields(table_schema: TableSchema, *, parse_numbers: bool = False) -> dict[str, str]:
    """Return the Spark DDL types for parsing the properties of a JSON record, by name.

    Args:
        table_schema: The table schema of the stream.
        parse_numbers: True to parse JSON numbers as numbers; False to read them as text.
    """
    fields = {
        column.source: source_type(column.type, parse_numbers=parse_numbers)
        for column in table_schema.columns
        if column.feed is ColumnSource.PROPERTY and not column.path
    }
    if table_schema.has_deletion_time:
        fields.setdefault(
            DELETED_AT, source_type(METADATA_COLUMNS[DELETED_AT], parse_numbers=parse_numbers)
        )
    return fields or {"": "STRING"}  # a struct has at least one field


def _struct_type(table_schema: TableSchema, *, parse_numbers: bool = False) -> str:
    return _format_struct(record_fields(table_schema, parse_numbers=parse_numbers))


def _format_struct(types: Mapping[str, str]) -> str:
    """Return the DDL of a struct from the DDL of its fields by name."""
    return f"STRUCT<{', '.join(f'{quote(name)}: {type_}' for name, type_ in types.items())}>"


def source_type(type_: ColumnType, *, parse_numbers: bool = False) -> str:
    """Return the Spark DDL type for parsing the JSON values of a column.

    An example is STRING for timestamps, which are converted to the column type later.

    Args:
        type_: The type of the column.
        parse_numbers: True to parse JSON numbers as numbers; False to read them as text.
    """
    if isinstance(type_, Boolean):
        return "BOOLEAN"
    if parse_numbers and isinstance(type_, Integer):
        return "BIGINT"  # the reader's smaller integers wrap around
    if parse_numbers and isinstance(type_, Double):
        return "DOUBLE"
    if isinstance(type_, Array):
        return f"ARRAY<{source_type(type_.element, parse_numbers=parse_numbers)}>"
    if not isinstance(type_, Struct):
        return "STRING"
    return _format_struct(
        {
            field.source: source_type(field.type, parse_numbers=parse_numbers)
            for field in type_.fields
            if field.feed is ColumnSource.PROPERTY
        }
    )
