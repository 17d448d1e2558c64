"""How an Iceberg table is asked to be laid out, as SQL.

Rules of the room: pure. A design names properties of the stream; what stands here are the
columns that they feed. A property that the stream does not have is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from target_spark.columns import TableSchema
from target_spark.tables.identifiers import quote
from target_spark.tables.model import PartitionField, TableLayout, Transform
from target_spark.writers.sql import format_properties
from target_spark.writers.table_properties import build_properties

__all__ = ["build_layout_ddl", "build_sort_order", "describe_partition_mismatch", "get_partitions"]

_PARTED: Final = re.compile(r"^PARTITIONED BY \((.*)\)$", re.MULTILINE)

_FUNCTIONS: Final[Mapping[Transform, str]] = {
    "year": "years",
    "month": "months",
    "day": "days",
    "hour": "hours",
}


def build_layout_ddl(layout: TableSchema, design: TableLayout) -> str:
    """Return what follows the columns in CREATE TABLE: partitions and properties."""
    parts = ", ".join(_parts(layout, design.partition_by))
    words = f" PARTITIONED BY ({parts})" if parts else ""
    properties = build_properties(layout) | dict(design.properties)
    if design.file_bytes is not None:
        properties["write.target-file-size-bytes"] = str(design.file_bytes)
    listed = format_properties(properties)
    return f"{words} TBLPROPERTIES ({listed})"


def build_sort_order(layout: TableSchema, design: TableLayout) -> str:
    """Return what follows ALTER TABLE so that the rows of each file are sorted; or nothing.

    Rows of one partition still come together in one task: else each task would write a
    file for each partition.
    """
    order = ", ".join(quote(name) for name in _columns(layout, design.sort_by))
    if not order:
        return ""
    parts = any(_parts(layout, design.partition_by))
    return f"WRITE{' DISTRIBUTED BY PARTITION' if parts else ''} LOCALLY ORDERED BY {order}"


def describe_partition_mismatch(
    statement: str, layout: TableSchema, design: TableLayout
) -> str | None:
    """Say how a table that a CREATE TABLE describes is partitioned, if not as designed."""
    parts = get_partitions(statement).replace("`", "")
    if parts == ", ".join(_parts(layout, design.partition_by)).replace("`", ""):
        return None
    return f"partitioned by {parts}" if parts else "not partitioned"


def get_partitions(statement: str) -> str:
    """Return by what a table is partitioned that a CREATE TABLE describes; or nothing."""
    found = _PARTED.search(statement)
    return found[1] if found else ""


def _parts(layout: TableSchema, partitions: Iterable[PartitionField]) -> Iterator[str]:
    for partition in partitions:
        for name in _columns(layout, [partition.source]):
            function = _FUNCTIONS.get(partition.transform, "")
            yield f"{function}({quote(name)})" if function else quote(name)


def _columns(layout: TableSchema, sources: Iterable[str]) -> Iterator[str]:
    for source in sources:
        column = layout.column_fed_by(source)
        if column is not None:
            yield column.name
