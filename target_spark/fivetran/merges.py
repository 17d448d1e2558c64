"""Rows of batch files on their way into a table: fitted to its types, folded, and merged.

Rules of the room: a frame of rows is as `target_spark.fivetran.reading` makes it, with what a row
does (`OP`), its place among all (`ORDINAL`) and flags of what it leaves as it is. All that a
batch does to a table is one MERGE, so that the table is as before or complete, and the same
batch once more changes nothing. No value is rounded or cut on its way into a column of another
type: then nothing is written. What Spark puts down on the way is encrypted by its session.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from target_spark.errors import TableError
from target_spark.fivetran.batch import Kind
from target_spark.fivetran.conversions import conversion
from target_spark.fivetran.found import Described
from target_spark.fivetran.reading import OP, ORDINAL, kept_name
from target_spark.fivetran.shapes import Column, Shape
from target_spark.names import quote
from target_spark.writers.base import Keys, newest_by_key
from target_spark.writers.delta import KEPT
from target_spark.writers.iceberg import ONCE
from target_spark.writers.iceberg_log import check_isolation
from target_spark.writers.statements import BATCH, with_settings

__all__ = ["Merge", "append", "fitted", "folded", "kept_while", "merge", "misfit_in", "value_of"]

_MISFIT: Final = "target-spark misfit: "
_TOLD: Final = re.compile(re.escape(_MISFIT) + r"(\d+)")


@dataclass(frozen=True, slots=True)
class Merge:
    """How rows meet those of a table: ``shape`` has its keys, and the columns that come.

    ``kinds`` are what the rows do. One of `Kind.EARLIEST_START` sets the columns that it
    ``ends`` in the row that it meets, and nothing else. With ``has_flags`` the rows have flags.
    """

    shape: Shape
    kinds: Collection[Kind]
    has_flags: bool = False
    ends: tuple[Column, ...] = ()

    def words(self, target: str) -> str:
        """Return the MERGE of `BATCH`, with every column by name: the table may have others."""
        same_key = " AND ".join(
            f"t.{quote(key.column)} = s.{quote(key.column)}" for key in self.shape.keys
        )
        return (  # every name in it is quoted
            f"MERGE INTO {target} AS t USING {BATCH} AS s ON {same_key} {' '.join(self.clauses())}"
        )

    def clauses(self) -> Iterator[str]:
        """Yield what becomes of rows; nothing where only keys are updated."""
        if Kind.DELETE in self.kinds:
            yield f"WHEN MATCHED AND s.{OP} = {int(Kind.DELETE)} THEN DELETE"
        if Kind.EARLIEST_START in self.kinds:
            put = ", ".join(f"t.{quote(c.column)} = s.{quote(c.column)}" for c in self.ends)
            condition = f"s.{OP} = {int(Kind.EARLIEST_START)}"
            yield f"WHEN MATCHED AND {condition} THEN UPDATE SET {put}"
        others = self.shape.others
        if others and not {Kind.REPLACE, Kind.UPDATE}.isdisjoint(self.kinds):
            yield f"WHEN MATCHED THEN UPDATE SET {', '.join(map(self._put, others))}"
        if Kind.REPLACE in self.kinds:
            names = [quote(column.column) for column in self.shape.columns]
            condition = f" AND s.{OP} = {int(Kind.REPLACE)}" if len(self.kinds) > 1 else ""
            values = ", ".join(f"s.{name}" for name in names)
            insert = f"INSERT ({', '.join(names)}) VALUES ({values})"  # noqa: S608  (names are quoted)
            yield f"WHEN NOT MATCHED{condition} THEN {insert}"

    def _put(self, column: Column) -> str:
        old, new = f"t.{quote(column.column)}", f"s.{quote(column.column)}"
        value = f"if(s.{quote(kept_name(column))}, {old}, {new})" if self.has_flags else new
        return f"{old} = {value}"


def value_of(column: Column) -> Expression:
    """Return a column of a frame."""
    return F.col(quote(column.column))


def fitted(rows: DataFrame, at: Described, shape: Shape) -> DataFrame:
    """Return the rows with the types that a table has.

    A value that its type cannot hold ends the action on the frame; see `misfit_in`.
    """
    converted = {}
    for number, column in enumerate(shape.columns):
        old = rows.schema[column.column].dataType.simpleString()
        new = at.types[column.column]
        if old != new.lower():
            way = conversion(quote(column.column), old, new)
            refusal = F.raise_error(F.lit(f"{_MISFIT}{number}")).cast(new)
            converted[column.column] = F.when(F.expr(way.lost), refusal).otherwise(
                F.expr(way.value).cast(new)
            )
    return rows.withColumns(converted) if converted else rows


def misfit_in(error: BaseException, name: str, at: Described, shape: Shape) -> TableError | None:
    """Return which column of a table cannot take its values, if that is why an action failed."""
    told = _TOLD.search(str(error))
    if told is None:
        return None
    column = shape.columns[int(told[1])]
    return TableError(
        f"Column {column.name} of table {name} is {at.types[column.column]}, and the batch has"
        f" values of {column.type.name} that it cannot hold. Nothing was written."
        " The type of the column must be changed (AlterTable) before such rows can come; sync the"
        " table anew if it was changed by others."
    )


def folded(rows: DataFrame, shape: Shape, *, has_flags: bool) -> DataFrame:
    """Return one row per key, for all that its rows do one after the other.

    They come in the order of their kinds, so a deletion is the last word, and an update after a
    replacement changes that.
    """
    if not has_flags:
        return newest_by_key(rows, Keys(tuple(key.column for key in shape.keys), ORDINAL))
    others = shape.others
    last = (_last_set(column).alias(kept_name(column)) for column in others)
    grouped = rows.groupBy(*map(value_of, shape.keys)).agg(
        _all_done(), F.max(ORDINAL).alias(ORDINAL), *last
    )
    found = [(column, F.col(quote(kept_name(column)))) for column in others]
    return grouped.select(
        *(value_of(key) for key in shape.keys),
        *(value["is"].alias(column.column) for column, value in found),
        *(value.isNull().alias(kept_name(column)) for column, value in found),
        OP,
        ORDINAL,
    )


def _last_set(column: Column) -> Expression:
    """Return the last value that rows of a key set, as a struct; null where they set none."""
    is_set = ~F.col(quote(kept_name(column)))
    value = F.struct(value_of(column).alias("is"))
    return F.max_by(F.when(is_set, value), F.when(is_set, F.col(ORDINAL)))


def _all_done() -> Expression:
    is_deleted = F.max(OP) == int(Kind.DELETE)
    return F.when(is_deleted, F.max(OP)).otherwise(F.min(OP)).alias(OP)


def append(rows: DataFrame, at: Described, shape: Shape, table_format: str) -> None:
    """Put rows into a table beside those that it has; what does not come is null."""
    coming = {column.column for column in shape.columns}
    rows = rows.select(
        *(
            F.col(quote(name)) if name in coming else F.lit(None).cast(ddl).alias(name)
            for name, ddl in at.types.items()
        )
    )
    writer = rows.writeTo(at.ref)
    (writer.options(**ONCE) if table_format == "iceberg" else writer).append()


def merge(
    spark: SparkSession, rows: DataFrame, at: Described, how: Merge, table_format: str
) -> None:
    """Let rows, one per key, meet those of a table, in one commit.

    The rows are made once: Delta Lake keeps them by itself while it needs them.
    """
    if not any(how.clauses()):
        return
    with ExitStack() as stack:
        if table_format == "delta":
            stack.enter_context(with_settings(spark, KEPT))
        else:
            check_isolation(spark, at.ref)
            rows = stack.enter_context(kept_while(rows))
        rows.createOrReplaceTempView(BATCH)
        stack.callback(spark.catalog.dropTempView, BATCH)
        spark.sql(how.words(at.ref))


@contextmanager
def kept_while(rows: DataFrame) -> Iterator[DataFrame]:
    """Have rows made once, though they are read several times; they wait on the disk."""
    held = rows.persist(StorageLevel.DISK_ONLY)
    try:
        yield held
    finally:
        held.unpersist()
