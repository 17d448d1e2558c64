"""How the rows of a batch go into their table, in each write mode.

Rules of the room: the writer of the format does it; here stands what it is told. Of several
rows with one key an overwrite puts in the newest, as an upsert would have left it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from target_spark.columns import (
    CDC_DELETED_AT,
    DELETED_AT,
    GENERATION,
    HISTORY_COLUMNS,
    IS_CURRENT,
    METADATA_COLUMNS,
    ORDINAL,
    Feed,
    Layout,
)
from target_spark.errors import UnsupportedError
from target_spark.ledger import Marker
from target_spark.names import quote
from target_spark.options import StreamOptions, WriteMode
from target_spark.tables import Effect, Table
from target_spark.work import Work
from target_spark.writers import Keys, Writer, newest_by_key
from target_spark.writers.base import Retirement, in_order
from target_spark.writers.statements import as_first_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["check_history", "has_others", "nothing_of", "retirement_of", "way_of"]


def way_of(
    writer: Writer,
    spark: SparkSession,
    work: Work,
    layout: Layout,
    df: DataFrame,
    asked: StreamOptions,
    rows: int,
) -> Callable[[Marker], Effect]:
    """Return what commits this many rows; ``asked`` is what the user wants of the stream."""
    table, keys = work.table, _keys(layout, work, asked)
    if work.mode is WriteMode.UPSERT:
        return lambda marker: writer.upsert(spark, table, df, keys, marker)
    if work.mode is WriteMode.SCD2:
        return lambda marker: writer.history(spark, table, df, keys, marker)
    if work.mode is WriteMode.OVERWRITE and keys.columns:
        newest = as_first_rows(newest_by_key(df, keys), keys)
        return lambda marker: writer.replace(spark, table, newest, marker)
    write = writer.append if work.mode is WriteMode.APPEND else writer.replace
    ordered = in_order(df.drop(ORDINAL), keys.sort_by)
    return lambda marker: write(spark, table, ordered, marker, rows)


def _keys(layout: Layout, work: Work, asked: StreamOptions) -> Keys:
    compared = (
        column.name
        for column in layout.columns
        if column.feed in {Feed.PROPERTY, Feed.WHOLE}
        and column.name not in layout.keys
        and column.name not in METADATA_COLUMNS
    )
    order = (layout.column_fed_by(source) for source in work.design.sort_by)
    cursor = layout.column_fed_by(work.cursor) if work.cursor else None
    is_airbytes = layout.column_fed_by(GENERATION, Feed.METADATA) is not None
    removed = layout.column_fed_by(CDC_DELETED_AT) if is_airbytes else None
    least = asked.least_version
    return Keys(
        columns=layout.keys,
        order=ORDINAL,
        deleted=DELETED_AT if DELETED_AT in layout.types else None,
        hard_delete=work.hard_delete,
        compared=tuple(compared),
        cursor=None if cursor is None else cursor.name,
        received=work.received_at,
        sort_by=tuple(column.name for column in order if column is not None),
        by_cursor=bool(asked.by_cursor),
        outdated=(GENERATION, least) if is_airbytes and least is not None else None,
        removed=None if removed is None else removed.name,
    )


def nothing_of(spark: SparkSession, layout: Layout) -> DataFrame:
    """Return no rows, as a frame would have them."""
    columns = ", ".join(
        f"CAST(NULL AS {column.type.ddl}) AS {quote(column.name)}"
        for column in layout.columns
        if column.feed is not Feed.NOTHING
    )
    return spark.sql(f"SELECT {columns}, 0L AS {quote(ORDINAL)} WHERE false")


def retirement_of(work: Work, layout: Layout, version: int, column: str) -> Retirement:
    """Return how the rows of all other versions end; ``column`` tells them apart."""
    return Retirement(
        version,
        deleted=None if work.hard_delete else DELETED_AT,
        at=datetime.now(timezone.utc),
        history=layout.column_fed_by(IS_CURRENT, Feed.METADATA) is not None,
        column=column,
    )


def has_others(
    writer: Writer, spark: SparkSession, table: Table, version: int, column: str
) -> bool:
    """Tell whether a table has rows that are not of a version and have not ended.

    ``column`` tells the versions apart.
    """
    types = writer.table_types(spark, table)
    if types is None:
        return False
    rows = writer.rows(spark, table)
    if column in types:
        rows = rows.where(f"NOT ({quote(column)} <=> {version}L)")
    if DELETED_AT in types:
        rows = rows.where(f"{quote(DELETED_AT)} IS NULL")
    if IS_CURRENT in types:
        rows = rows.where(quote(IS_CURRENT))
    return not rows.isEmpty()


def check_history(work: Work, layout: Layout) -> None:
    """Refuse to write over the versions of a table as if they were rows of their own.

    Raises:
        UnsupportedError: it has versions, and the stream is upserted or appended.
    """
    kept = {column.name for column in layout.columns if not column.is_fed}
    if HISTORY_COLUMNS.keys() <= kept and work.mode in {WriteMode.UPSERT, WriteMode.APPEND}:
        raise UnsupportedError(
            f"Table {work.table.name} has every version of its rows (write_mode scd2), which"
            f" {work.mode.value} would mix up. Set write_mode of {work.stream} to scd2, or to"
            " overwrite for a table without them, or load it into another table."
        )
