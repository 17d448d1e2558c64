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
from collections.abc import Mapping
from typing import Final, NamedTuple

from target_spark.columns import ColumnType, Date, TableSchema
from target_spark.tables.identifiers import quote
from target_spark.tables.layout_resolution import TYPES_WITH_BOUNDS
from target_spark.tables.table import PartitionField, TableLayout
from target_spark.writers.parquet_footers import INDEXED_COLUMNS

__all__ = [
    "PartitionSpec",
    "build_generated_columns",
    "build_layout_ddl",
    "build_partition_specs",
    "drop_generated_columns",
]

_GENERATED_TYPES: Final[Mapping[str, str]] = {
    "year": "int",
    "month": "string",
    "day": "date",
    "hour": "string",
}
"""Type (DDL) of the generated column for each partition transform. A month is ``2024-05``, an hour
``2024-05-31-23``."""

_GENERATED_NAME: Final = re.compile(r"_part_(year|month|day|hour)_(.+)", re.DOTALL)


class PartitionSpec(NamedTuple):
    """A partition column of a Delta table.

    Attributes:
        name: The name of the column.
        ddl: The type of the column, as DDL.
        generation_expression: The SQL expression that computes a generated column, such as
            ``YEAR(`day`)``. None for a column of the stream.
    """

    name: str
    ddl: str
    generation_expression: str | None


def build_partition_specs(
    table_schema: TableSchema, layout: TableLayout
) -> tuple[PartitionSpec, ...]:
    """Return the partition columns of a new Delta table, from its configured layout."""
    columns = (
        (partition, table_schema.column_fed_by(partition.source))
        for partition in layout.partition_by
    )
    return tuple(
        _build_partition_spec(partition, column.name, column.type)
        for partition, column in columns
        if column is not None
    )


def build_generated_columns(parts: tuple[PartitionSpec, ...]) -> str:
    """Return the generated partition columns as SQL, to append to CREATE TABLE's column list.

    The text is empty if no partition column is generated.
    """
    return "".join(
        f", {quote(part.name)} {part.ddl} GENERATED ALWAYS AS ({part.generation_expression})"
        for part in parts
        if part.generation_expression is not None
    )


def build_layout_ddl(table_schema: TableSchema, layout: TableLayout) -> tuple[str, dict[str, str]]:
    """Return a PARTITIONED BY or CLUSTER BY clause, and the table properties that the clause needs.

    The clause follows ``USING delta`` in CREATE TABLE. It is empty if the layout has neither
    partitions nor clustering.
    """
    parts = ", ".join(quote(part.name) for part in build_partition_specs(table_schema, layout))
    clustered = table_schema.names_fed_by(layout.cluster_by)
    if parts or not clustered:
        return (f" PARTITIONED BY ({parts})" if parts else ""), {}
    clause = f" CLUSTER BY ({', '.join(map(quote, clustered))})"
    return clause, _build_statistics_property(table_schema, clustered)


def drop_generated_columns(types: Mapping[str, str]) -> dict[str, str]:
    """Return column types by name, without the generated columns such as ``_part_year_day``.

    Delta computes these columns, so they are not compared with the stream's schema.
    """
    return {name: ddl for name, ddl in types.items() if not _is_generated(name, ddl, types)}


def _is_generated(name: str, ddl: str, types: Mapping[str, str]) -> bool:
    match = _GENERATED_NAME.fullmatch(name)
    return match is not None and match[2] in types and ddl == _GENERATED_TYPES[match[1]]


def _build_partition_spec(partition: PartitionField, name: str, type_: ColumnType) -> PartitionSpec:
    """Return the partition column for a partition field of the settings.

    ``name`` and ``type_`` are the name and type of the column that stores the field's property.
    """
    transform = partition.transform
    is_date = isinstance(type_, Date)
    if transform == "identity" or (transform == "day" and is_date):
        return PartitionSpec(name, type_.ddl, None)
    seconds = f"CAST({quote(name)} AS BIGINT)"
    days = f"CAST(({seconds} - PMOD({seconds}, 86400)) DIV 86400 AS INT)"
    day = quote(name) if is_date else f"DATE_ADD(DATE'1970-01-01', {days})"
    hour = f"LPAD(CAST(PMOD({seconds}, 86400) DIV 3600 AS STRING), 2, '0')"
    computed = {
        "year": f"YEAR({day})",
        "month": f"SUBSTRING(CAST({day} AS STRING), 1, 7)",
        "day": day,
        "hour": f"CONCAT(CAST({day} AS STRING), '-', {hour})",
    }
    return PartitionSpec(
        f"_part_{transform}_{name}", _GENERATED_TYPES[transform], computed[transform]
    )


def _build_statistics_property(
    table_schema: TableSchema, clustered: tuple[str, ...]
) -> dict[str, str]:
    """Return the table property that makes Delta collect statistics of the clustering columns.

    The dictionary is empty if Delta collects these statistics by default.
    """
    columns = table_schema.columns
    with_bounds = [column.name for column in columns if isinstance(column.type, TYPES_WITH_BOUNDS)]
    if len(with_bounds) == len(columns) <= INDEXED_COLUMNS:
        return {}
    indexed = list(dict.fromkeys([*clustered, *with_bounds]))[:INDEXED_COLUMNS]
    return {"delta.dataSkippingStatsColumns": ",".join(map(quote, indexed))}
