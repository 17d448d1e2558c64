"""SQL that copies nested primary keys and replication keys of a record into separate columns.

A nested value is extracted as text and converted to its column type later. It is null if the
property is missing or has another structure.
"""

from __future__ import annotations

from target_spark.columns import Column, ColumnSource, Struct, TableSchema, Text
from target_spark.frames.json_reader import from_json
from target_spark.tables.identifiers import quote, sql_literal

__all__ = ["extract_nested"]

_NULL_TEXT = "CAST(NULL AS STRING)"


def extract_nested(table_schema: TableSchema) -> tuple[str, ...]:
    """Return SQL that copies nested primary keys and replication keys to a struct column.

    The result is a tuple with the definition of the struct column. It is empty if no key is nested.
    """
    nested = [
        column
        for column in table_schema.columns
        if column.path and column.feed is ColumnSource.PROPERTY
    ]
    if not nested:
        return ()
    fields = (
        f"{sql_literal(column.source)}, {_extract_text(column.path, table_schema)}"
        for column in nested
    )
    return (f"named_struct({', '.join(fields)}) AS `_inside`",)


def _extract_text(path: tuple[str, ...], table_schema: TableSchema) -> str:
    """Return the SQL that extracts the value at ``path`` in a record as text.

    If the path leads through a text column, the value is extracted from the JSON in this column.
    """
    column = table_schema.column_fed_by(path[0])
    value = quote("r", path[0])
    for index, part in enumerate(path[1:], 1):
        if column is not None and isinstance(column.type, Text):
            return _extract_from_json(value, path[index:])
        column = _find_field(column, part)
        value = f"{value}.{quote(part)}"
    return _NULL_TEXT if column is None else f"CAST({value} AS STRING)"


def _find_field(column: Column | None, source: str) -> Column | None:
    fields = column.type.fields if column and isinstance(column.type, Struct) else ()
    for field in fields:
        if field.source == source and field.feed is ColumnSource.PROPERTY:
            return field
    return None


def _extract_from_json(text: str, path: tuple[str, ...]) -> str:
    """Return the SQL that extracts a nested value as text from a JSON object in a string."""
    schema = "STRING"
    for part in reversed(path[1:]):
        schema = f"STRUCT<{quote(part)}: {schema}>"
    return f"{from_json(text, f'{quote(path[0])} {schema}')}.{quote(*path)}"
