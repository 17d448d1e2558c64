"""Schemas and options of Spark's JSON reader for spool lines.

The reader is trusted with structure, booleans and text. It silently changes dates, timestamps and
decimals, so these are read as text. For 64-bit integers and doubles it returns the value, nothing
if the text has another spelling (in quotes, or ``1.0`` for 1), or an infinity: that is enough for
the usual spellings, and takes a third less time than text. Its options are defined only here.

A spool line is ``{"n":ordinal,"t":time,"v":version,"r":record}``, with ``"m"`` (the source's meta
of the row) before the record if there is any. The record is parsed inside one struct, so that Spark
parses either all of it or nothing, and the column for corrupt lines is outside of it, so that no
property can have its name.
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
    Column,
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
    "needs_record",
    "read_lines",
    "record_fields",
    "record_in_text",
    "record_type",
    "source_type",
    "variants_from_json",
]

_NO_LIMIT = str(2**31 - 1)

_DEEPEST_VARIANT = "1000"
"""Maximum nesting of a variant: Spark parses it by recursion, and a stack overflow ends the JVM."""

WHOLE_FILES: Mapping[str, str] = MappingProxyType(
    {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}
)
"""Options that make an unreadable file an error instead of fewer rows, for every session."""

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
    """Read spool files (rows as lines of JSON) as a DataFrame with one row per line.

    Args:
        spark: The session to use.
        paths: The spool files.
        record: The DDL type to parse records as.
        meta: True to read also the metadata that an Airbyte source attached to each row; False to
            omit it.

    Returns:
        A DataFrame with the columns ``n`` (the position in the input), ``t`` (the extraction time),
        ``v`` (the table version), ``m`` (the metadata, only if ``meta`` is True), ``_corrupt`` (the
        line if it could not be parsed, else null) and ``r`` (the record).
    """
    meta_field = "`m` STRING, " if meta else ""
    schema = f"`n` BIGINT, `t` STRING, `v` BIGINT, {meta_field}`_corrupt` STRING, `r` {record}"
    return spark.read.schema(schema).options(**READER_OPTIONS).json(list(paths))


def record_type(table_schema: TableSchema, *, usual: bool = False) -> str:
    """Return the DDL type with which Spark reads the records of a stream from JSON.

    Args:
        table_schema: The table schema of the stream.
        usual: True to read numbers as numbers. A record with a number in another spelling, such as
            a number in quotes, then cannot be parsed. False to read numbers as text.
    """
    if table_schema.keeps_whole:
        return "STRING"
    return _struct_type(table_schema, usual=usual)


def record_in_text(table_schema: TableSchema) -> str:
    """Return the SQL that parses the properties of a record that was read as one text.

    This is the case if the table stores the whole record in a column.
    """
    return from_json(quote("r"), _struct_type(table_schema))


def from_json(text: str, schema: str) -> str:
    """Return the SQL that parses a JSON text as the DDL type ``schema``.

    The SQL uses `READER_OPTIONS`, so that it parses like Spark's JSON reader does with these
    options.
    """
    return _from_json(text, schema, READER_OPTIONS)


def variants_from_json(text: str, schema: str) -> str:
    """Return the SQL that parses a JSON text as a DDL type that contains variants.

    A variant is Spark's type for any JSON value. A text with more than 1000 levels of nesting
    becomes null.
    """
    return _from_json(text, schema, {**READER_OPTIONS, "maxNestingDepth": _DEEPEST_VARIANT})


def _from_json(text: str, schema: str, options: Mapping[str, str]) -> str:
    listed = (f"{sql_literal(name)}, {sql_literal(value)}" for name, value in options.items())
    return f"from_json({text}, {sql_literal(schema)}, map({', '.join(listed)}))"


def record_fields(table_schema: TableSchema, *, usual: bool = False) -> dict[str, str]:
    """Return the properties of a record to read, each with the DDL type to read it as.

    Args:
        table_schema: The table schema of the stream.
        usual: True to read numbers as numbers; False to read them as text.
    """
    fields = {
        column.source: source_type(column.type, usual=usual)
        for column in table_schema.columns
        if column.feed is ColumnSource.PROPERTY and not column.path
    }
    if needs_record(table_schema.columns):
        fields.setdefault(DELETED_AT, source_type(METADATA_COLUMNS[DELETED_AT], usual=usual))
    return fields or {"": "STRING"}  # a struct has at least one field


def _struct_type(table_schema: TableSchema, *, usual: bool = False) -> str:
    fields = record_fields(table_schema, usual=usual)
    return f"STRUCT<{', '.join(f'{quote(name)}: {type_}' for name, type_ in fields.items())}>"


def needs_record(columns: Sequence[Column]) -> bool:
    """Return True if the columns include the deletion time.

    The deletion time is the only metadata column that is read from the record.
    """
    return any(c.feed is ColumnSource.METADATA and c.source == DELETED_AT for c in columns)


def source_type(type_: ColumnType, *, usual: bool = False) -> str:
    """Return the DDL type with which Spark reads a column's values from JSON.

    The values are converted to the exact column type afterwards.

    Args:
        type_: The type of the column.
        usual: True to read numbers as numbers; False to read them as text.
    """
    if isinstance(type_, Boolean):
        return "BOOLEAN"
    if usual and isinstance(type_, Integer):
        return "BIGINT"  # the reader's smaller integers wrap around
    if usual and isinstance(type_, Double):
        return "DOUBLE"
    if isinstance(type_, Array):
        return f"ARRAY<{source_type(type_.element, usual=usual)}>"
    if not isinstance(type_, Struct):
        return "STRING"
    fields = {
        field.source: source_type(field.type, usual=usual)
        for field in type_.fields
        if field.feed is ColumnSource.PROPERTY
    }
    return f"STRUCT<{', '.join(f'{quote(name)}: {kind}' for name, kind in fields.items())}>"
