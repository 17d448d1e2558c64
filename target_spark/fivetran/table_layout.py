"""Columns and physical layout of a new Fivetran table.

The layout settings, such as ``partition_by``, apply as for all tables. A setting that would change
values is rejected.
"""

from __future__ import annotations

from tap_core.events import StreamId
from target_spark.columns import Column, TableSchema
from target_spark.columns.ddl_parser import parse_ddl
from target_spark.config.options import LoadOptions
from target_spark.errors import UnsupportedError
from target_spark.fivetran.table_schema import FivetranSchema
from target_spark.fivetran.type_mapping import to_ddl
from target_spark.tables.layout_resolution import reject_empty_partition_values, resolve_layout
from target_spark.tables.table import TableLayout

__all__ = ["build_layout"]


def build_layout(
    options: LoadOptions, stream: StreamId, fivetran_schema: FivetranSchema
) -> tuple[TableSchema, TableLayout]:
    """Return the columns and the physical layout (such as partitions) of a new Fivetran table.

    Raises:
        UnsupportedError: The settings request a layout that is not possible for these columns.
    """
    columns = (
        Column(column.name, column.column, parse_ddl(to_ddl(column, options.format)))
        for column in fivetran_schema.columns
    )
    table_schema = TableSchema(
        tuple(columns), tuple(column.column for column in fivetran_schema.keys)
    )
    layout, _ = resolve_layout(options, stream, table_schema)
    text_columns = reject_empty_partition_values(options, stream, table_schema).text_partitions
    if text_columns:
        raise UnsupportedError(
            f"Table {stream} cannot be partitioned by {', '.join(text_columns)}: Delta stores an"
            " empty string as null in partition columns. Set cluster_by instead of partition_by."
        )
    return table_schema, layout
