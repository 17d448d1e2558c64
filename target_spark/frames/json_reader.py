"""What JSON's reader is asked for, and how.

Rules of the room: the reader is trusted with structure, booleans and text. Asked for
dates, timestamps or decimals it falsifies values and does not say so. Asked for whole
numbers of 64 bits or for doubles it gives the value, or nothing at all where the text is
spelled otherwise (in quotes, or ``1.0`` for 1), or an infinity: that is enough for the
spellings of every day, and a third cheaper than text. Its options stand here and nowhere
else.

A line of the spool is ``{"n":ordinal,"t":time,"v":version,"r":record}``, with ``"m"``, what
the source says of the row, before the record where it says anything. The record is
read inside one struct, so that Spark reads either all of it or nothing, and the column
for lines that do not fit stands beside it, so that no property can have its name.
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
"""Spark makes a variant by recursion, and a stack that ends ends the whole of Spark."""

WHOLE_FILES: Mapping[str, str] = MappingProxyType(
    {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}
)
"""A file that cannot be read is an error, not fewer rows, whatever the session says."""

READER_OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": "_corrupt",
        "lineSep": "\n",  # else a carriage return would end a line
        "maxStringLen": _NO_LIMIT,
        "maxNumLen": _NO_LIMIT,
        "maxNestingDepth": "10000",  # deeper ones would end the stack, not the row
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
    """Return the spool's lines, their records read as the given type.

    The columns are ``n``, ``t``, ``v``, with ``meta`` ``m``, then ``r``, and ``_corrupt``,
    which holds the line where it could not be read as asked, and else is null.
    """
    said = "`m` STRING, " if meta else ""
    schema = f"`n` BIGINT, `t` STRING, `v` BIGINT, {said}`_corrupt` STRING, `r` {record}"
    return spark.read.schema(schema).options(**READER_OPTIONS).json(list(paths))


def record_type(layout: TableSchema, *, usual: bool = False) -> str:
    """Return the type that a record is read as.

    With ``usual`` numbers are read as numbers, and a record that spells one in another
    way is not read.
    """
    if layout.keeps_whole:
        return "STRING"
    return _struct_type(layout, usual=usual)


def record_in_text(layout: TableSchema) -> str:
    """Return the SQL of the record's properties, where the record was read as text."""
    return from_json(quote("r"), _struct_type(layout))


def from_json(text: str, schema: str) -> str:
    """Return the SQL of what a text holds, read as the lines are."""
    return _from_json(text, schema, READER_OPTIONS)


def variants_from_json(text: str, schema: str) -> str:
    """Return the same for a schema of variants: what is nested too deeply for one is not read."""
    return _from_json(text, schema, {**READER_OPTIONS, "maxNestingDepth": _DEEPEST_VARIANT})


def _from_json(text: str, schema: str, options: Mapping[str, str]) -> str:
    listed = (f"{sql_literal(name)}, {sql_literal(value)}" for name, value in options.items())
    return f"from_json({text}, {sql_literal(schema)}, map({', '.join(listed)}))"


def record_fields(layout: TableSchema, *, usual: bool = False) -> dict[str, str]:
    """Return the properties of a record that are read, and the type that each is read as."""
    fields = {
        column.source: source_type(column.type, usual=usual)
        for column in layout.columns
        if column.feed is ColumnSource.PROPERTY and not column.path
    }
    if needs_record(layout.columns):
        fields.setdefault(DELETED_AT, source_type(METADATA_COLUMNS[DELETED_AT], usual=usual))
    return fields or {"": "STRING"}  # a struct has at least one field


def _struct_type(layout: TableSchema, *, usual: bool = False) -> str:
    fields = record_fields(layout, usual=usual)
    return f"STRUCT<{', '.join(f'{quote(name)}: {type_}' for name, type_ in fields.items())}>"


def needs_record(columns: Sequence[Column]) -> bool:
    """Tell whether a metadata column is fed by the record itself."""
    return any(c.feed is ColumnSource.METADATA and c.source == DELETED_AT for c in columns)


def source_type(type_: ColumnType, *, usual: bool = False) -> str:
    """Return the type that a value is read as, before its strict conversion."""
    if isinstance(type_, Boolean):
        return "BOOLEAN"
    if usual and isinstance(type_, Integer):
        return "BIGINT"  # the reader's smaller ones wrap around
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
