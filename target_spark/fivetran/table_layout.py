"""How a table that Fivetran asks for is made: its columns, and how its files are laid out.

Rules of the room: pure. What the settings ask of the layout holds for these tables as for all
others, but for what would falsify a value: no batch may be refused for it.
"""

from __future__ import annotations

from tap_core.events import StreamId
from target_spark.columns import Column as Plain
from target_spark.columns import TableSchema
from target_spark.columns.ddl_parser import parse_ddl
from target_spark.config.options import LoadOptions
from target_spark.errors import UnsupportedError
from target_spark.fivetran.table_schema import FivetranSchema
from target_spark.fivetran.type_mapping import to_ddl
from target_spark.tables.layout_resolution import add_partition_columns, resolve_layout
from target_spark.tables.model import TableLayout

__all__ = ["build_layout"]


def build_layout(
    options: LoadOptions, stream: StreamId, shape: FivetranSchema
) -> tuple[TableSchema, TableLayout]:
    """Return the columns of a table, and its layout.

    Raises:
        UnsupportedError: what is asked of the layout of this very table cannot be.
    """
    columns = (
        Plain(column.name, column.column, parse_ddl(to_ddl(column, options.format)))
        for column in shape.columns
    )
    layout = TableSchema(tuple(columns), tuple(column.column for column in shape.keys))
    design, _ = resolve_layout(options, stream, layout)
    filled = add_partition_columns(options, stream, layout).filled
    if filled:
        raise UnsupportedError(
            f"Table {stream} cannot be partitioned by {', '.join(filled)}: Delta takes the empty"
            " text for null there. Set cluster_by in the place of partition_by."
        )
    return layout, design
