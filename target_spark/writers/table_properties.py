"""SQL for table properties, column comments and NOT NULL constraints in several table formats.

Table properties store that target-spark created the table, and which stream property fills a
column if their names differ. The values are hex-encoded, because Spark redacts property values that
look like secrets, and a stream property may be called ``token``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping

from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812

from target_spark.columns import TableSchema
from target_spark.tables.identifiers import quote, sql_literal
from target_spark.writers.sql_statements import format_properties

__all__ = [
    "build_annotations",
    "build_drop_not_null",
    "build_properties",
    "find_new_comments",
    "find_new_sources",
    "get_table_properties",
    "read_sources",
]

_SOURCE_PREFIX = "target_spark.source."
"""Prefix of the table properties that store the original names of renamed columns."""
_CREATED_BY_US = f"{_SOURCE_PREFIX}kept"
"""Table property that marks a table as created by target-spark."""


def build_properties(table_schema: TableSchema) -> dict[str, str]:
    """Return the properties (TBLPROPERTIES) to store in a new table, which `read_sources` reads.

    They mark the table as created by target-spark, and store the source property of each renamed
    column.
    """
    return {_CREATED_BY_US: "true", **_encode_sources(table_schema.sources)}


def get_table_properties(spark: SparkSession, ref: str) -> dict[str, str]:
    """Return the properties (TBLPROPERTIES) of a table as a dictionary.

    ``ref`` is the table's quoted SQL name.
    """
    rows = spark.sql(f"SHOW TBLPROPERTIES {ref}").collect()
    return {row.key: row.value for row in rows}


def read_sources(properties: Mapping[str, str]) -> dict[str, str] | None:
    """Return the source property of each renamed column: ``{"`user_id`": "user-id"}``.

    The names are stored in the table properties ``target_spark.source.…``. Return None if
    target-spark did not create the table.
    """
    stored = {key: value for key, value in properties.items() if key.startswith(_SOURCE_PREFIX)}
    if not stored.pop(_CREATED_BY_US, None):
        return None
    return dict(json.loads(bytes.fromhex(value)) for value in stored.values())


def build_annotations(
    properties: Mapping[str, str], schema: T.StructType, table_schema: TableSchema
) -> Iterator[str]:
    """Yield the ALTER TABLE clauses that store column comments and property names in a table.

    The name of the source property of each renamed column is stored as a table property. Values
    that the table already has are not set again. If the schema has no comment for a column, the
    table's comment is kept.

    Args:
        properties: The table's current properties.
        schema: The table's current Spark schema.
        table_schema: The table schema to store.
    """
    sources = find_new_sources(properties, table_schema)
    if sources:
        yield f"SET TBLPROPERTIES ({format_properties(sources)})"
    for column, comment in find_new_comments(schema, table_schema).items():
        yield f"ALTER COLUMN {quote(column)} COMMENT {sql_literal(comment)}"


def find_new_sources(properties: Mapping[str, str], table_schema: TableSchema) -> dict[str, str]:
    """Return the table properties that the table still needs for its renamed columns.

    Each one stores the name of a column's source property.

    Args:
        properties: The table's current properties.
        table_schema: The table schema to store.
    """
    stored = read_sources(properties) or {}
    changed = {path: src for path, src in table_schema.sources.items() if stored.get(path) != src}
    return {_CREATED_BY_US: "true", **_encode_sources(changed)} if changed else {}


def find_new_comments(schema: T.StructType, table_schema: TableSchema) -> dict[str, str]:
    """Return the column comments to add to a table or change in it, by column name.

    Args:
        schema: The table's current Spark schema.
        table_schema: The table schema with the wanted comments.
    """
    comments = {column.name: column.comment for column in table_schema.columns if column.comment}
    return {
        field.name: comments[field.name]
        for field in schema.fields
        if comments.get(field.name, field.metadata.get("comment")) != field.metadata.get("comment")
    }


def build_drop_not_null(schema: T.StructType, keep: Collection[str]) -> Iterator[str]:
    """Yield the ALTER TABLE clauses that drop NOT NULL from all columns not in ``keep``."""
    for path in _find_not_null(schema):
        if path[0] not in keep:
            yield f"ALTER COLUMN {quote(*path)} DROP NOT NULL"


def _find_not_null(schema: T.StructType, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of the columns and struct fields that are declared NOT NULL.

    A path is a tuple of names. ``above`` is the path of the struct that has the fields of
    ``schema``.
    """
    for field in schema.fields:
        if not field.nullable:
            yield (*above, field.name)
        if isinstance(field.dataType, T.StructType):
            yield from _find_not_null(field.dataType, (*above, field.name))


def _encode_sources(sources: Mapping[str, str]) -> dict[str, str]:
    """Return a table property for each renamed column in ``sources``.

    ``sources`` has the names of source properties by column path. The name of each table property
    ends with the hash of the column path.
    """
    return {
        _SOURCE_PREFIX + hashlib.sha256(path.encode()).hexdigest()[:16]: (
            json.dumps([path, source]).encode().hex()
        )
        for path, source in sources.items()
    }
