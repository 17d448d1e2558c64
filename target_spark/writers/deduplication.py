"""Selection of the newest row of each key, when a batch has several.

`target_spark.writers.delta.small_batches` has the same rules for Arrow tables.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (as all of Spark's users call it)

from target_spark.tables.identifiers import quote
from target_spark.writers.base import MergeKeys

__all__ = ["DELETE_ONLY_COLUMN", "as_initial_rows", "latest_by_key", "sort_rows"]

DELETE_ONLY_COLUMN = "__target_spark_only_delete"
"""Name of a boolean column that `latest_by_key` adds. It is True if the batch has only delete
records for the key."""

_RANK = "__target_spark_rank"


def latest_by_key(df: DataFrame, keys: MergeKeys) -> DataFrame:
    """Return the newest row of each key, without the column ``keys.order``.

    A delete record has only keys and a deletion time. If it is the newest row of its key, the
    newest full row of the key is returned with this deletion time. Without a full row, the delete
    record is returned.

    If ``keys.deleted`` is set, the boolean column `DELETE_ONLY_COLUMN` is added. It is True only in
    returned delete records.
    """
    if keys.unique_rows is not None:
        if keys.deleted is not None:
            df = df.withColumn(DELETE_ONLY_COLUMN, F.col(quote(keys.deleted)).isNotNull())
        return df.drop(keys.order)
    order = [F.col(quote(name)) for name in keys.order_columns]
    newest_first = [column.desc() for column in order]  # null is the lowest value
    window = Window.partitionBy(*(F.col(quote(key)) for key in keys.columns))
    if keys.deleted is None:
        ranked = df.withColumn(_RANK, F.row_number().over(window.orderBy(*newest_first)))
        return ranked.where(F.col(_RANK) == 1).drop(_RANK, keys.order)
    deleted = F.col(quote(keys.deleted))
    full_rows_first = window.orderBy(deleted.isNotNull(), *newest_first)
    weight = order[0] if len(order) == 1 else F.struct(*order)
    deletion_time = F.max_by(F.struct(deleted.alias("at")), weight).over(window)["at"]
    ranked = df.withColumns(
        {
            _RANK: F.row_number().over(full_rows_first),
            DELETE_ONLY_COLUMN: deleted.isNotNull(),
            keys.deleted: deletion_time,
        }
    )
    return ranked.where(F.col(_RANK) == 1).drop(_RANK, keys.order)


def as_initial_rows(newest: DataFrame, keys: MergeKeys) -> DataFrame:
    """Return the rows to insert into an empty table: the newest row of each key.

    Rows with a deletion time in the column ``keys.removed`` are left out. Rows with a deletion time
    in the column ``keys.deleted`` are left out with hard delete, and inserted otherwise.

    Args:
        newest: The newest row of each key, as `latest_by_key` returns it.
        keys: The rules for matching and deleting rows.
    """
    for name in keys.removal_columns:
        newest = newest.where(F.col(quote(name)).isNull())
    return sort_rows(newest.drop(DELETE_ONLY_COLUMN), keys.sort_by)


def sort_rows(df: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return the DataFrame with its rows sorted by ``columns`` within each Spark partition.

    If ``columns`` is empty, the DataFrame is returned unchanged.
    """
    return df.sortWithinPartitions(*map(quote, columns)) if columns else df
