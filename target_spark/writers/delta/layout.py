"""SQL for the layout of a new Delta table: partitions, clustering, and column statistics.

A `TableLayout` lists properties of the stream; the SQL has the columns that store them. A property
that the stream does not have is ignored.

Delta partitions only by columns, so the year, month, day or hour of a date or timestamp is a
generated column of the table. Its expression uses UTC in every session time zone: otherwise Delta
would skip files that have matching rows for a reader in another zone. Delta computes the values of
generated columns: loads do not write them, and schema changes do not affect them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from target_spark.columns import (
    ColumnType,
    Date,
    Decimal,
    Double,
    Integer,
    TableSchema,
    Text,
    Timestamp,
)
from target_spark.tables.identifiers import quote
from target_spark.tables.model import PartitionField, TableLayout, Transform

__all__ = [
    "PartitionSpec",
    "build_layout_ddl",
    "build_partition_specs",
    "drop_generated_columns",
    "get_clustering",
    "layout_columns",
]

_TYPES: Final[Mapping[str, str]] = {
    "year": "int",
    "month": "string",
    "day": "date",
    "hour": "string",
}
_OURS: Final = re.compile(r"_part_(year|month|day|hour)_(.+)", re.DOTALL)

_COUNTED: Final = 32
"""Number of leading columns of a table for which Delta stores the minimum and maximum per file."""

_COMPARED: Final = (Integer, Decimal, Double, Text, Timestamp, Date)
"""Column types for which Delta stores the minimum and maximum per file."""


class PartitionSpec(NamedTuple):
    """A partition column of a Delta table.

    Attributes:
        name: The name of the column.
        ddl: The type of the column, as DDL.
        made_by: The SQL expression that computes a generated column, such as ``YEAR(`day`)``. None
            for a column of the stream.
    """

    name: str
    ddl: str
    made_by: str | None


def build_partition_specs(
    table_schema: TableSchema, layout: TableLayout
) -> tuple[PartitionSpec, ...]:
    """Return the partition columns of a new Delta table, from its configured layout."""
    return tuple(_parts(table_schema, layout))


def layout_columns(parts: tuple[PartitionSpec, ...]) -> str:
    """Return the generated partition columns as SQL, to append to CREATE TABLE's column list.

    The text is empty if no partition column is generated.
    """
    return "".join(
        f", {quote(part.name)} {part.ddl} GENERATED ALWAYS AS ({part.made_by})"
        for part in parts
        if part.made_by is not None
    )


def build_layout_ddl(table_schema: TableSchema, layout: TableLayout) -> tuple[str, dict[str, str]]:
    """Return a PARTITIONED BY or CLUSTER BY clause, and the table properties that the clause needs.

    The clause follows ``USING delta`` in CREATE TABLE. It is empty if the layout has neither
    partitions nor clustering.
    """
    parts = ", ".join(quote(part.name) for part in build_partition_specs(table_schema, layout))
    clustered = get_clustering(table_schema, layout)
    if parts or not clustered:
        return (f" PARTITIONED BY ({parts})" if parts else ""), {}
    clause = f" CLUSTER BY ({', '.join(map(quote, clustered))})"
    return clause, _build_statistics_property(table_schema, clustered)


def get_clustering(table_schema: TableSchema, layout: TableLayout) -> tuple[str, ...]:
    """Return the names of the columns by which a table is clustered, from its configured layout."""
    columns = (table_schema.column_fed_by(source) for source in layout.cluster_by)
    return tuple(column.name for column in columns if column is not None)


def drop_generated_columns(types: Mapping[str, str]) -> dict[str, str]:
    """Return column types by name, without the generated columns such as ``_part_year_day``.

    Delta computes these columns, so they are not compared with the stream's schema.
    """
    return {name: ddl for name, ddl in types.items() if not _is_part(name, ddl, types)}


def _is_part(name: str, ddl: str, types: Mapping[str, str]) -> bool:
    match = _OURS.fullmatch(name)
    return match is not None and match[2] in types and ddl == _TYPES[match[1]]


def _parts(table_schema: TableSchema, layout: TableLayout) -> Iterator[PartitionSpec]:
    for partition in layout.partition_by:
        column = table_schema.column_fed_by(partition.source)
        if column is not None:
            yield _part(partition, column.name, column.type)


def _part(partition: PartitionField, name: str, type_: ColumnType) -> PartitionSpec:
    transform = partition.transform
    if transform == "identity" or (transform == "day" and isinstance(type_, Date)):
        return PartitionSpec(name, type_.ddl, None)
    day = quote(name) if isinstance(type_, Date) else _day(_seconds(name))
    made_by = _hour(name) if transform == "hour" else _of_day(day, transform)
    return PartitionSpec(f"_part_{transform}_{name}", _TYPES[transform], made_by)


def _of_day(day: str, transform: Transform) -> str:
    if transform == "year":
        return f"YEAR({day})"
    return f"SUBSTRING(CAST({day} AS STRING), 1, 7)" if transform == "month" else day


def _seconds(name: str) -> str:
    return f"CAST({quote(name)} AS BIGINT)"


def _day(seconds: str) -> str:
    days = f"CAST(({seconds} - PMOD({seconds}, 86400)) DIV 86400 AS INT)"
    return f"DATE_ADD(DATE'1970-01-01', {days})"


def _hour(name: str) -> str:
    seconds = _seconds(name)
    hour = f"LPAD(CAST(PMOD({seconds}, 86400) DIV 3600 AS STRING), 2, '0')"
    return f"CONCAT(CAST({_day(seconds)} AS STRING), '-', {hour})"


def _build_statistics_property(
    table_schema: TableSchema, clustered: tuple[str, ...]
) -> dict[str, str]:
    """Return the table property that makes Delta collect statistics of the clustering columns.

    The dictionary is empty if Delta collects these statistics by default.
    """
    if len(table_schema.columns) <= _COUNTED and all(
        isinstance(column.type, _COMPARED) for column in table_schema.columns
    ):
        return {}
    others = (c.name for c in table_schema.columns if isinstance(c.type, _COMPARED))
    counted = list(dict.fromkeys([*clustered, *others]))[:_COUNTED]
    return {"delta.dataSkippingStatsColumns": ",".join(map(quote, counted))}
