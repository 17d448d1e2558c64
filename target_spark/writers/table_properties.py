"""Table properties, column comments and NOT NULL, as SQL for several table formats.

The properties record which property of the stream feeds a column, if their names differ, and that
target-spark created the table. The values are in hex, because Spark redacts everything that looks
like a secret to it, and a property may be called ``token``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping

from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812

from target_spark.columns import TableSchema
from target_spark.tables.identifiers import quote, sql_literal
from target_spark.writers.sql import format_properties

__all__ = [
    "build_annotations",
    "build_drop_not_null",
    "build_properties",
    "get_table_properties",
    "read_sources",
]

_SOURCE = "target_spark.source."
_KEEPS = f"{_SOURCE}kept"


def build_properties(table_schema: TableSchema) -> dict[str, str]:
    """Return the table properties that store which stream property fills each column."""
    return {_KEEPS: "true", **_properties(table_schema.sources)}


def get_table_properties(spark: SparkSession, ref: str) -> dict[str, str]:
    """Return the properties (TBLPROPERTIES) of a table as a dictionary.

    ``ref`` is the table's quoted SQL name.
    """
    rows = spark.sql(f"SHOW TBLPROPERTIES {ref}").collect()
    return {row.key: row.value for row in rows}


def read_sources(properties: Mapping[str, str]) -> dict[str, str] | None:
    """Return, by column, the stream property that fills it, as stored in a table's properties.

    Return None if target-spark did not create the table.
    """
    stored = {key: value for key, value in properties.items() if key.startswith(_SOURCE)}
    if not stored.pop(_KEEPS, None):
        return None
    return dict(json.loads(bytes.fromhex(value)) for value in stored.values())


def build_annotations(
    properties: Mapping[str, str], schema: T.StructType, table_schema: TableSchema
) -> Iterator[str]:
    """Yield the ALTER TABLE clauses that store a schema's column sources and comments.

    The source of a column is the stream property that fills it. The sources are stored as a table
    property. Values that the table already has are not set again. If the schema has no comment for
    a column, the table's comment is kept.

    Args:
        properties: The table's current properties.
        schema: The table's current Spark schema.
        table_schema: The table schema to store.
    """
    if table_schema.sources:
        stored = read_sources(properties) or {}
        changed = {
            path: src for path, src in table_schema.sources.items() if stored.get(path) != src
        }
        if changed:
            assignments = format_properties({_KEEPS: "true", **_properties(changed)})
            yield f"SET TBLPROPERTIES ({assignments})"
    comments = {column.name: column.comment for column in table_schema.columns if column.comment}
    if comments:
        for field in schema.fields:
            comment = comments.get(field.name)
            if comment and comment != field.metadata.get("comment"):
                yield f"ALTER COLUMN {quote(field.name)} COMMENT {sql_literal(comment)}"


def build_drop_not_null(schema: T.StructType, keep: Collection[str]) -> Iterator[str]:
    """Yield the ALTER TABLE clauses that drop NOT NULL from all columns not in ``keep``."""
    for path in _required(schema):
        if path[0] not in keep:
            yield f"ALTER COLUMN {quote(*path)} DROP NOT NULL"


def _required(schema: T.StructType, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for field in schema.fields:
        if not field.nullable:
            yield (*above, field.name)
        if isinstance(field.dataType, T.StructType):
            yield from _required(field.dataType, (*above, field.name))


def _properties(sources: Mapping[str, str]) -> dict[str, str]:
    return {
        _SOURCE + hashlib.sha256(path.encode()).hexdigest()[:16]: _in_hex([path, source])
        for path, source in sources.items()
    }


def _in_hex(value: list[str]) -> str:
    return json.dumps(value).encode().hex()
