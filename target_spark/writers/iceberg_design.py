"""How an Iceberg table is asked to be laid out, as SQL.

Rules of the room: pure. A design names properties of the stream; what stands here are the
columns that they feed. A property that the stream does not have is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from target_spark.columns import Layout
from target_spark.names import quote
from target_spark.tables import Design, Partition, Transform
from target_spark.writers.notes import properties_of
from target_spark.writers.statements import listed_properties

__all__ = ["design_words", "order_words", "parted_otherwise", "parts_in"]

_PARTED: Final = re.compile(r"^PARTITIONED BY \((.*)\)$", re.MULTILINE)

_FUNCTIONS: Final[Mapping[Transform, str]] = {
    "year": "years",
    "month": "months",
    "day": "days",
    "hour": "hours",
}


def design_words(layout: Layout, design: Design) -> str:
    """Return what follows the columns in CREATE TABLE: partitions and properties."""
    parts = ", ".join(_parts(layout, design.partition_by))
    words = f" PARTITIONED BY ({parts})" if parts else ""
    properties = properties_of(layout) | dict(design.properties)
    if design.file_bytes is not None:
        properties["write.target-file-size-bytes"] = str(design.file_bytes)
    listed = listed_properties(properties)
    return f"{words} TBLPROPERTIES ({listed})"


def order_words(layout: Layout, design: Design) -> str:
    """Return what follows ALTER TABLE so that the rows of each file are sorted; or nothing.

    Rows of one partition still come together in one task: else each task would write a
    file for each partition.
    """
    order = ", ".join(quote(name) for name in _columns(layout, design.sort_by))
    if not order:
        return ""
    parts = any(_parts(layout, design.partition_by))
    return f"WRITE{' DISTRIBUTED BY PARTITION' if parts else ''} LOCALLY ORDERED BY {order}"


def parted_otherwise(statement: str, layout: Layout, design: Design) -> str | None:
    """Say how a table that a CREATE TABLE describes is partitioned, if not as designed."""
    parts = parts_in(statement).replace("`", "")
    if parts == ", ".join(_parts(layout, design.partition_by)).replace("`", ""):
        return None
    return f"partitioned by {parts}" if parts else "not partitioned"


def parts_in(statement: str) -> str:
    """Return by what a table is partitioned that a CREATE TABLE describes; or nothing."""
    found = _PARTED.search(statement)
    return found[1] if found else ""


def _parts(layout: Layout, partitions: Iterable[Partition]) -> Iterator[str]:
    for partition in partitions:
        for name in _columns(layout, [partition.source]):
            function = _FUNCTIONS.get(partition.transform, "")
            yield f"{function}({quote(name)})" if function else quote(name)


def _columns(layout: Layout, sources: Iterable[str]) -> Iterator[str]:
    for source in sources:
        column = layout.column_fed_by(source)
        if column is not None:
            yield column.name
