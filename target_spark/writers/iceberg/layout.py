"""SQL for the layout of an Iceberg table: partitions, sort order, and table properties.

A `TableLayout` lists properties of the stream; the SQL has the columns that store them. A property
that the stream does not have is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from target_spark.columns import TableSchema
from target_spark.tables.identifiers import quote
from target_spark.tables.table import PartitionField, TableLayout, Transform
from target_spark.writers.sql_statements import format_properties
from target_spark.writers.table_properties import build_properties

__all__ = ["build_layout_ddl", "build_sort_order", "describe_partition_mismatch"]

_PARTITIONED_BY: Final = re.compile(r"^PARTITIONED BY \((.*)\)$", re.MULTILINE)

_FUNCTIONS: Final[Mapping[Transform, str]] = {
    "year": "years",
    "month": "months",
    "day": "days",
    "hour": "hours",
}


def build_layout_ddl(table_schema: TableSchema, layout: TableLayout) -> str:
    """Return the PARTITIONED BY and TBLPROPERTIES clauses to create an Iceberg table."""
    parts = ", ".join(_list_partitions(table_schema, layout.partition_by))
    clause = f" PARTITIONED BY ({parts})" if parts else ""
    properties = build_properties(table_schema)
    if layout.sort_by and not parts:  # else Spark also sorts across files, and computes rows twice
        properties["write.distribution-mode"] = "none"
    properties |= dict(layout.properties)
    if layout.file_bytes is not None:
        properties["write.target-file-size-bytes"] = str(layout.file_bytes)
    listed = format_properties(properties)
    return f"{clause} TBLPROPERTIES ({listed})"


def build_sort_order(table_schema: TableSchema, layout: TableLayout) -> str:
    """Return the ALTER TABLE clause that sets a table's sort order, or "" if none is configured.

    The clause makes Iceberg sort the rows of each file. For a partitioned table, it also makes
    Spark send all rows of a partition to one task, so that not every task writes a file for it.
    """
    order = ", ".join(map(quote, table_schema.names_fed_by(layout.sort_by)))
    if not order:
        return ""
    parts = any(_list_partitions(table_schema, layout.partition_by))
    return f"WRITE{' DISTRIBUTED BY PARTITION' if parts else ''} LOCALLY ORDERED BY {order}"


def describe_partition_mismatch(
    statement: str, table_schema: TableSchema, layout: TableLayout
) -> str | None:
    """Return an Iceberg table's partitioning if it differs from the settings, or None.

    An example is ``partitioned by days(at)``. ``statement`` is the table's CREATE TABLE statement,
    as SHOW CREATE TABLE returns it.
    """
    match = _PARTITIONED_BY.search(statement)
    parts = match[1].replace("`", "") if match else ""
    if parts == ", ".join(_list_partitions(table_schema, layout.partition_by)).replace("`", ""):
        return None
    return f"partitioned by {parts}" if parts else "not partitioned"


def _list_partitions(
    table_schema: TableSchema, partitions: Iterable[PartitionField]
) -> Iterator[str]:
    for partition in partitions:
        column = table_schema.column_fed_by(partition.source)
        if column is not None:
            function = _FUNCTIONS.get(partition.transform, "")
            yield f"{function}({quote(column.name)})" if function else quote(column.name)
