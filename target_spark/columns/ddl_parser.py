"""Parser of column types in Spark's DDL, such as ``array<int>``.

The field names of a struct may have backticks, as target-spark writes them, or none, as Spark's
``simpleString`` prints them. A type that target-spark never writes becomes an `UnmanagedType` with
the original text. No type raises an error, because an existing table may have columns of any type.
"""

from __future__ import annotations

import re

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

__all__ = ["LIMITED_TEXT", "parse_ddl"]

LIMITED_TEXT = re.compile(r"(?:var)?char\((\d+)\)", re.IGNORECASE)
"""Regular expression for the DDL of string types with a maximum length, such as ``varchar(10)``."""

_SIMPLE_TYPES: dict[str, ColumnType] = {
    "boolean": Boolean(),
    "tinyint": Integer(8),
    "byte": Integer(8),
    "smallint": Integer(16),
    "short": Integer(16),
    "int": Integer(32),
    "integer": Integer(32),
    "bigint": Integer(),
    "long": Integer(),
    "double": Double(),
    "string": Text(),
    "timestamp": Timestamp(),
    "timestamp_ltz": Timestamp(),
    "timestamp_ntz": LocalTimestamp(),
    "date": Date(),
    "binary": Binary(),
}

_DECIMAL = re.compile(
    r"(?:decimal|numeric|dec)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?", re.IGNORECASE
)
_ARRAY = re.compile(r"array\s*<(.*)>", re.IGNORECASE | re.DOTALL)
_STRUCT = re.compile(r"struct\s*<(.*)>", re.IGNORECASE | re.DOTALL)
_QUOTED_FIELD = re.compile(r"\s*`((?:[^`]|``)*)`\s*:?(.*)", re.DOTALL)
_TOKEN = re.compile(r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|[<(]|[>)]|,|[^`'<>(),]+|.", re.DOTALL)
_FIELD_SUFFIX = re.compile(
    r"(?:\s+(?:not\s+null|comment\s+'(?:[^'\\]|\\.)*'))+\s*\Z", re.IGNORECASE
)


def parse_ddl(ddl: str) -> ColumnType:
    """Parse the type of a column from Spark's DDL, such as ``struct<a:int>``.

    Any text is accepted. A type that target-spark never writes, such as ``map<string,int>``, is
    returned as an `UnmanagedType`.
    """
    text = ddl.strip()
    plain = _SIMPLE_TYPES.get(text.lower())
    if plain is not None:
        return plain
    if match := _DECIMAL.fullmatch(text):
        precision, scale = match.groups()
        return Decimal(int(precision or 10), int(scale or 0))
    if match := _ARRAY.fullmatch(text):
        return Array(parse_ddl(match[1]))
    if match := _STRUCT.fullmatch(text):
        return Struct(tuple(_parse_field(part) for part in _split_fields(match[1])))
    return UnmanagedType(text)


def _split_fields(text: str) -> list[str]:
    """Split the text inside ``struct<...>`` into its fields.

    Commas inside nested types do not separate fields: ``"a:int,b:decimal(5,2)"`` -> ``["a:int",
    "b:decimal(5,2)"]``.
    """
    parts, depth, current = [], 0, ""
    for piece in _TOKEN.findall(text):
        depth += (piece in {"<", "("}) - (piece in {">", ")"})
        if piece == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += piece
    return [part for part in (*parts, current) if part.strip()]


def _parse_field(text: str) -> Column:
    if match := _QUOTED_FIELD.fullmatch(text):
        name, ddl = match[1].replace("``", "`"), match[2]
    else:
        name, _, ddl = text.strip().partition(":")
    bare = _FIELD_SUFFIX.sub("", ddl)
    return Column(name, name, parse_ddl(bare), feed=ColumnSource.NOTHING)
