"""Deletion, or marking as deleted, of the rows that a Truncate request selects.

These are the rows that were synced before a time (exclusive), without rows that have no sync time.
If the request has no time, all rows are selected. Rows are counted first, so that a repeated
request makes no commit.

Source: Fivetran's Partner SDK development guide, "Truncate".
"""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import SparkSession

from tap_core.events import StreamId
from target_spark.errors import TableError
from target_spark.fivetran.existing_table import ExistingTable, ensure_not_replaced
from target_spark.fivetran.table_schema import DATETIME_TYPES, DestinationColumn
from target_spark.tables.identifiers import format_instant, quote

__all__ = ["build_condition", "delete_rows"]


def build_condition(
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
    if column is None or column.type not in DATETIME_TYPES:
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
        mark: The boolean column that is set to true in the rows instead of deleting them; None to
            delete them. Rows that were already marked are not counted.
    """
    statement = f"DELETE FROM {existing.ref}"  # noqa: S608  (the name is quoted)
    if mark is not None:
        name = quote(mark.column)
        statement = f"UPDATE {existing.ref} SET {name} = true"  # noqa: S608
        condition = f"({condition}) AND ({name} IS NULL OR NOT {name})"
    with ensure_not_replaced(spark, existing):
        rows = spark.table(existing.ref).where(condition).count()
        if rows:
            spark.sql(f"{statement} WHERE {condition}")
    return rows
