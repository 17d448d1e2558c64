"""How a table that Fivetran asks for is made: its columns, and how its files are laid out.

Rules of the room: pure. What the settings ask of the layout holds for these tables as for all
others, but for what would falsify a value: no batch may be refused for it.
"""

from __future__ import annotations

from tap_core.events import StreamId
from target_spark.columns import Column as Plain
from target_spark.columns import Layout
from target_spark.columns.ddl import parse_ddl
from target_spark.designs import design_of, with_filled
from target_spark.errors import UnsupportedError
from target_spark.fivetran.shapes import Shape
from target_spark.fivetran.types import ddl_of
from target_spark.options import LoadOptions
from target_spark.tables import Design

__all__ = ["layout_for"]


def layout_for(options: LoadOptions, stream: StreamId, shape: Shape) -> tuple[Layout, Design]:
    """Return the columns of a table, and its layout.

    Raises:
        UnsupportedError: what is asked of the layout of this very table cannot be.
    """
    columns = (
        Plain(column.name, column.column, parse_ddl(ddl_of(column, options.format)))
        for column in shape.columns
    )
    layout = Layout(tuple(columns), tuple(column.column for column in shape.keys))
    design, _ = design_of(options, stream, layout)
    filled = with_filled(options, stream, layout).filled
    if filled:
        raise UnsupportedError(
            f"Table {stream} cannot be partitioned by {', '.join(filled)}: Delta takes the empty"
            " text for null there. Set cluster_by in the place of partition_by."
        )
    return layout, design
