"""Deletion of the rows that a Truncate request selects: those synced before a time (exclusive).

Rows without a sync time are not selected. If the request has no time, all rows are selected. Rows
are counted first, so that a repeated request makes no commit.
Source: Fivetran's Partner SDK development guide, "Truncate".
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from pyspark.sql import SparkSession

from tap_core.events import StreamId
from tap_core.protocols.fivetran.enums import DataType
from target_spark.errors import TableError
from target_spark.fivetran.existing_table import ExistingTable, committing
from target_spark.fivetran.table_schema import DestinationColumn
from target_spark.tables.identifiers import format_instant, quote

__all__ = ["delete_rows", "matching_rows"]

_INSTANTS: Final = (DataType.UTC_DATETIME, DataType.NAIVE_DATETIME)


def matching_rows(
    existing: ExistingTable, stream: StreamId, synced: str, before: datetime | None
) -> str:
    """Return the SQL condition for rows that were synced before a time.

    Args:
        existing: The table.
        stream: The stream of the table, for messages.
        synced: The name of the column with the time of the sync.
        before: The time, in UTC if naive; None for all rows (the condition is then ``true``).

    Raises:
        TableError: The table has no column ``synced``, or its type is not a timestamp.
    """
    if before is None:
        return "true"
    column = existing.fivetran_schema.by_name.get(synced)
    if column is None or column.type not in _INSTANTS:
        fault = "has no such column" if column is None else f"has {column.type.name} in it"
        raise TableError(
            f"Table {stream} cannot be truncated by column {synced}: it {fault}. Nothing"
            " was removed. Re-sync the table."
        )
    return f"CAST({quote(column.column)} AS TIMESTAMP) < {format_instant(before)}"


def delete_rows(
    spark: SparkSession, existing: ExistingTable, condition: str, mark: DestinationColumn | None
) -> int:
    """Delete the rows that match a SQL condition, or mark them as deleted; return their number.

    Args:
        spark: The session.
        existing: The table.
        condition: The SQL condition.
        mark: The boolean column to set to true instead of deleting the rows, or None to delete
            them. Rows that are marked already are not counted.
    """
    if mark is not None:
        marked = quote(mark.column)
        condition = f"({condition}) AND ({marked} IS NULL OR NOT {marked})"
    with committing(spark, existing):
        rows = spark.table(existing.ref).where(condition).count()
        if rows and mark is None:
            spark.sql(f"DELETE FROM {existing.ref} WHERE {condition}")  # noqa: S608  (names are quoted)
        elif rows and mark is not None:
            put = f"{quote(mark.column)} = true"
            spark.sql(f"UPDATE {existing.ref} SET {put} WHERE {condition}")  # noqa: S608
    return rows
