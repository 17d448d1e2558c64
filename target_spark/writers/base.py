"""What a table format must be able to do, and the words the writers share.

Rules of the room: a writer gets the Spark session of the thread that writes, and one
table is never written by two threads. A batch and its marker go into one commit. After
each write the writer reads the new commit back; only a commit that carries our batch
counts. A batch that is repeated because its answer was lost is found, not written
again; a batch number that does not move on is an error, never a success.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  (as all of Spark's users call it)
from pyspark.sql import types as T  # noqa: N812

from target_spark.columns import Change, Layout
from target_spark.errors import CommitLostError
from target_spark.ledger import Marker
from target_spark.names import quote
from target_spark.tables import Design, Table

__all__ = [
    "ONLY_DELETE",
    "Keys",
    "Writer",
    "after",
    "ddl_of",
    "newest_by_key",
]

ONLY_DELETE = "__target_spark_only_delete"
"""A column of `newest_by_key`: whether all that is known of the key is its deletion."""

_RANK = "__target_spark_rank"


@dataclass(frozen=True, slots=True)
class Keys:
    """How rows of a batch meet rows of the table.

    ``columns`` identify a row (never null). ``order`` is a column of the batch, not of
    the table: of rows with equal keys the highest is the newest. ``deleted`` names the
    column that is set in a delete record; such a record changes nothing else, or with
    ``hard_delete`` removes the row.
    """

    columns: tuple[str, ...]
    order: str
    deleted: str | None = None
    hard_delete: bool = False


class Writer(Protocol):
    """One table format."""

    @property
    def can_upsert(self) -> bool:
        """Whether rows can be replaced by key."""
        ...

    def can_widen(self, old: str, new: str, /) -> bool:
        """Tell whether a column's type, as DDL, can be changed in place."""
        ...

    def table_types(self, spark: SparkSession, /, table: Table) -> Mapping[str, str] | None:
        """Return each column's type as DDL, in order; None where there is no table.

        Raises:
            TableError: there are files, but not of a table of this format.
        """
        ...

    def create(
        self,
        spark: SparkSession,
        /,
        table: Table,
        layout: Layout,
        design: Design,
        *,
        rows_follow: bool = False,
    ) -> None:
        """Make an empty table.

        With ``rows_follow`` the next call writes rows of this layout into it, and a format
        whose rows make their table may leave it to them.
        """
        ...

    def alter(self, spark: SparkSession, /, table: Table, changes: Sequence[Change]) -> None:
        """Add columns and fields, and widen types; the newest marker is repeated."""
        ...

    def append(self, spark: SparkSession, /, table: Table, df: DataFrame, commit: Marker) -> None:
        """Add the rows of a batch.

        This and the other commits raise `CommitLostError` when the table does not have
        the batch afterwards.
        """
        ...

    def upsert(
        self, spark: SparkSession, table: Table, df: DataFrame, keys: Keys, commit: Marker, /
    ) -> None:
        """Replace the rows that have the batch's keys, and add those that are new.

        Raises:
            UnsupportedError: the format cannot.
        """
        ...

    def replace(self, spark: SparkSession, /, table: Table, df: DataFrame, commit: Marker) -> None:
        """Put these rows in the place of all others, in one commit."""
        ...

    def commit_empty(self, spark: SparkSession, /, table: Table, commit: Marker) -> None:
        """Commit a marker without rows."""
        ...

    def last_marker(self, spark: SparkSession, /, table: Table) -> Marker | None:
        """Return the newest marker in the table; None where no table or no marker is."""
        ...


def after(before: Marker | None, commit: Marker, table: Table, *, acknowledged: bool) -> Marker:
    """Return the marker to write after another: its state is repeated where this has none.

    Raises:
        CommitLostError: the batch number does not move on, so that the table format
            would take the batch for one that it has.
    """
    if before is not None and (before.job, before.run) == (commit.job, commit.run):
        repeated = commit.batch == before.batch and not acknowledged
        if commit.batch <= before.batch and not repeated:
            raise CommitLostError(
                f"Batch {commit.batch} of table {table.name} comes after batch"
                f" {before.batch}: it would be skipped. Nothing was written."
            )
    return commit.carrying(before)


def newest_by_key(df: DataFrame, keys: Keys) -> DataFrame:
    """Return one row per key, the newest, without the column that orders them.

    Where the newest is a delete record, the newest full row of the batch is kept with
    the deletion's time set. With ``keys.deleted`` the column `ONLY_DELETE` is added.
    """
    order = F.col(quote(keys.order))
    window = Window.partitionBy(*(F.col(quote(key)) for key in keys.columns))
    if keys.deleted is None:
        ranked = df.withColumn(_RANK, F.row_number().over(window.orderBy(order.desc())))
        return ranked.where(F.col(_RANK) == 1).drop(_RANK, keys.order)
    deleted = F.col(quote(keys.deleted))
    full_rows_first = window.orderBy(deleted.isNotNull(), order.desc())
    last_word = F.max_by(F.struct(deleted.alias("at")), order).over(window)["at"]
    ranked = df.withColumns(
        {
            _RANK: F.row_number().over(full_rows_first),
            ONLY_DELETE: deleted.isNotNull(),
            keys.deleted: last_word,
        }
    )
    return ranked.where(F.col(_RANK) == 1).drop(_RANK, keys.order)


def ddl_of(type_: T.DataType) -> str:
    """Return a type as DDL with every field name quoted."""
    if isinstance(type_, T.StructType):
        fields = (f"{quote(field.name)}: {ddl_of(field.dataType)}" for field in type_.fields)
        return f"struct<{', '.join(fields)}>"
    if isinstance(type_, T.ArrayType):
        return f"array<{ddl_of(type_.elementType)}>"
    if isinstance(type_, T.MapType):
        return f"map<{ddl_of(type_.keyType)}, {ddl_of(type_.valueType)}>"
    return type_.simpleString()
