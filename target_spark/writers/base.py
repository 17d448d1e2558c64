"""The `Writer` protocol of a table format, and checks that all writers share.

Invariants: a writer uses the Spark session of the calling thread, and a table is never written by
two threads. A batch and its commit metadata are one commit. After each write, the writer reads the
commit back, and only a commit that has this batch's metadata counts as success. A batch that is
repeated because the response to its commit was lost is found in the table and not written again. A
batch number that does not increase is an error.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  (as all of Spark's users call it)
from pyspark.sql import types as T  # noqa: N812

from target_spark.columns import TABLE_VERSION, SchemaChange, TableSchema
from target_spark.errors import CommitLostError, RowCountError, TableError, TableOwnerError
from target_spark.loader.ledger import CommitMetadata
from target_spark.tables.identifiers import quote
from target_spark.tables.model import CommitStats, MaintenanceOptions, Table, TableLayout

__all__ = [
    "DELETE_ONLY_COLUMN",
    "MergeKeys",
    "VersionDelete",
    "Writer",
    "check_count",
    "column_ddl",
    "latest_by_key",
    "next_metadata",
    "same_table",
    "sort_rows",
    "table_owner_error",
    "table_removed_error",
    "table_replaced_error",
    "to_ddl",
]

DELETE_ONLY_COLUMN = "__target_spark_only_delete"
"""Column added by `latest_by_key`: True if the batch has only a delete record of the key."""

_RANK = "__target_spark_rank"


@dataclass(frozen=True, slots=True)
class MergeKeys:
    """Rules by which a merge matches the rows of a batch with the rows of the table.

    Attributes:
        columns: columns that identify a row; never null.
        order: column of the batch (not of the table); of rows with equal keys, the one with the
            highest value is the newest.
        deleted: column that is set in a delete record. A delete record changes only this column, or
            removes the row with ``hard_delete``.
        compared: columns in which a row must differ to be another version. Only the SCD2 history
            uses ``compared``, ``cursor`` (a column that grows from version to version) and
            ``received`` (the time of records that have no time).
        sort_by: order of the rows within each file, where rows are added without a merge.
        by_cursor: the row with the highest ``cursor`` is the newest (null is lowest), and ``order``
            decides only between equal cursors. The rows of the table are compared in the same way,
            except rows that are ``outdated``: their value of that column is null or below that
            number, and every row of the batch replaces them.
        removed: column that removes the row if it is not null in the newest row.
    """

    columns: tuple[str, ...]
    order: str
    deleted: str | None = None
    hard_delete: bool = False
    compared: tuple[str, ...] = ()
    cursor: str | None = None
    received: datetime | None = None
    sort_by: tuple[str, ...] = ()
    by_cursor: bool = False
    outdated: tuple[str, int] | None = None
    removed: str | None = None


@dataclass(frozen=True, slots=True)
class VersionDelete:
    """Deletion of the rows whose table version is not ``version``, null included.

    The target does this for an ACTIVATE_VERSION message. The rows are removed. If ``deleted`` names
    a column, the rows are kept, and those without a deletion time get the time ``at`` in it. In a
    table with ``history``, the current versions end and no row is removed. ``column`` holds the
    table version of a row.
    """

    version: int
    deleted: str | None
    at: datetime
    history: bool = False
    column: str = TABLE_VERSION


class Writer(Protocol):
    """Operations that a table format (Delta, Iceberg or Parquet) provides for its tables."""

    @property
    def keeps_batch(self) -> bool:
        """True if an upsert of this format caches the batch until its MERGE has read it."""
        ...

    def can_widen(self, old: str, new: str, /) -> bool:
        """Return True if the format can change a column's type (as DDL) in place."""
        ...

    def get_column_types(self, spark: SparkSession, /, table: Table) -> Mapping[str, str] | None:
        """Return each column's type as DDL, in column order, or None if there is no table.

        Raises:
            TableError: there are files, but they are not a table of this format.
        """
        ...

    def create(
        self,
        spark: SparkSession,
        /,
        table: Table,
        layout: TableSchema,
        design: TableLayout,
        *,
        has_rows: bool = False,
    ) -> None:
        """Create an empty table with the columns of ``layout`` and the partitioning of ``design``.

        With ``has_rows``, rows are written next, and a format whose first write creates the table
        may
        do nothing here.
        """
        ...

    def describe_layout_mismatch(
        self, spark: SparkSession, /, table: Table, layout: TableSchema, design: TableLayout
    ) -> str | None:
        """Return a description of the table's layout if it differs from ``design``, else None."""
        ...

    def alter(self, spark: SparkSession, /, table: Table, changes: Sequence[SchemaChange]) -> None:
        """Add columns and nested fields to the table, and widen column types.

        Each commit that this makes repeats the table's newest commit metadata, so a later run finds
        it.
        """
        ...

    def sources(self, spark: SparkSession, /, table: Table) -> Mapping[str, str] | None:
        """Return the stream property that feeds each table column, as stored in the table.

        Return None if another program created the table.
        """
        ...

    def annotate(self, spark: SparkSession, /, table: Table, layout: TableSchema) -> None:
        """Store the schema's sources in the table, and set its column comments."""
        ...

    def drop_not_null(self, spark: SparkSession, /, table: Table, keep: Collection[str]) -> None:
        """Drop NOT NULL from all columns of the table except those in ``keep``."""
        ...

    def append(
        self,
        spark: SparkSession,
        /,
        table: Table,
        df: DataFrame,
        commit: CommitMetadata,
        rows: int | None = None,
    ) -> CommitStats:
        """Add the rows of a batch.

        Args:
            spark: session of the calling thread.
            table: table to write.
            df: rows to add.
            commit: commit metadata of the batch.
            rows: number of rows in ``df``, if it is known.

        Raises:
            CommitLostError: the table does not have the batch after the write. This and the next
            error
                apply to all methods that commit.
            RowCountError: the commit has more or fewer rows than the batch.
        """
        ...

    def upsert(
        self,
        spark: SparkSession,
        table: Table,
        df: DataFrame,
        keys: MergeKeys,
        commit: CommitMetadata,
        /,
    ) -> CommitStats:
        """Replace the rows that have the batch's keys, and add the rows with new keys.

        Raises:
            UnsupportedError: the format has no MERGE.
        """
        ...

    def history(
        self,
        spark: SparkSession,
        table: Table,
        df: DataFrame,
        keys: MergeKeys,
        commit: CommitMetadata,
        /,
    ) -> CommitStats:
        """Add a version for each row that changed, and end the version that was current (SCD2).

        Raises:
            UnsupportedError: the format has no MERGE.
        """
        ...

    def replace(
        self,
        spark: SparkSession,
        /,
        table: Table,
        df: DataFrame,
        commit: CommitMetadata,
        rows: int | None = None,
    ) -> CommitStats:
        """Replace all rows of the table by the rows of ``df``, in one commit."""
        ...

    def delete_versions(
        self,
        spark: SparkSession,
        /,
        table: Table,
        retirement: VersionDelete,
        commit: CommitMetadata,
    ) -> CommitStats:
        """Delete the rows of other table versions, in one commit; see `VersionDelete`.

        Raises:
            UnsupportedError: the format cannot delete rows.
        """
        ...

    def maintain(self, spark: SparkSession, /, table: Table, care: MaintenanceOptions) -> None:
        """Compact the table's files and remove old ones, as ``care`` configures.

        Each commit repeats the newest commit metadata.
        """
        ...

    def commit_empty(self, spark: SparkSession, /, table: Table, commit: CommitMetadata) -> None:
        """Commit metadata without rows."""
        ...

    def get_last_metadata(self, spark: SparkSession, /, table: Table) -> CommitMetadata | None:
        """Return the newest commit metadata in the table, or None if it has none."""
        ...

    def is_empty(self, spark: SparkSession, /, table: Table) -> bool:
        """Return True if an upsert would match no rows, so that the batch is read only once."""
        ...

    def rows(self, spark: SparkSession, /, table: Table) -> DataFrame:
        """Return the current rows of the table as a DataFrame."""
        ...

    def drop(self, spark: SparkSession, /, table: Table) -> None:
        """Remove the table and its files."""
        ...


def next_metadata(
    before: CommitMetadata | None, commit: CommitMetadata, table: Table, *, acknowledged: bool
) -> CommitMetadata:
    """Return the commit metadata to write for a batch.

    A batch that carries no state repeats the state of the table's newest commit.

    Args:
        before: newest commit metadata in the table.
        commit: commit metadata of the batch.
        table: table to write.
        acknowledged: True if this run knows that the table contains the batch. Without a response
            to the commit the table may contain it too, and the batch may be committed again.

    Raises:
        TableOwnerError: another job has loaded the table since this run read its metadata.
        CommitLostError: the batch number does not increase, so that the format would skip the batch
            as one that the table already has.
    """
    if before is not None and before.job not in {commit.job, *commit.former}:
        raise table_owner_error(table, before.job, commit.job)
    if before is not None and commit.is_same_run(before):
        repeated = commit.batch == before.batch and not acknowledged
        if commit.batch <= before.batch and not repeated:
            raise CommitLostError(
                f"Batch {commit.batch} of table {table.name} comes after batch"
                f" {before.batch}: it would be skipped. Nothing was written."
            )
    return commit.with_earlier_state(before)


def check_count(table: Table, rows: int, written: int) -> None:
    """Compare the number of rows in the written files with the number of rows in the batch.

    Raises:
        RowCountError: the numbers differ; the files must not be committed.
    """
    if written != rows:
        raise RowCountError(
            f"Table {table.name}: {rows} rows were to be written, but the files that Spark wrote"
            f" have {written}. They are not committed, and no state that covers these rows is"
            " emitted."
        )


def same_table(table: Table, known: str | None, found: str | None) -> str | None:
    """Return ``found``, the table's id, after comparing it with ``known``, the id seen first.

    Raises:
        TableError: the ids differ, because the table was removed or replaced during the run.
    """
    if known is not None and found is None:
        raise table_removed_error(table)
    if known is not None and found != known:
        raise table_replaced_error(table)
    return found


def table_owner_error(table: Table, owner: str, job: str) -> TableOwnerError:
    """Return the error for a table that the job ``owner`` loads, when ``job`` wants to write to it.

    The states of two jobs in one table could not be told apart.
    """
    return TableOwnerError(
        f"Table {table.name} ({table.key}) is loaded by job {owner!r}, and this run is job"
        f" {job!r}. If they are one pipeline, set job to {owner!r}; if they are two, give this"
        " one another path, table_prefix or database. Nothing more was written to it."
    )


def table_removed_error(table: Table) -> TableError:
    """Return the error for a table that disappeared after this run had committed to it."""
    return TableError(
        f"Table {table.name} ({table.key}) was removed while it was loaded, and with it rows"
        " that this run had committed. States that cover them may have been emitted. Start again"
        " from a state before them."
    )


def table_replaced_error(table: Table) -> TableError:
    """Return the error for a table that was replaced by another one during the run."""
    return TableError(
        f"Table {table.name} ({table.key}) was replaced by another table while it was loaded."
        " Nothing was written to the new one. Rows that this run had committed are gone with the"
        " old one, and states that cover them may have been emitted. Start again from a state"
        " before them."
    )


def latest_by_key(df: DataFrame, keys: MergeKeys) -> DataFrame:
    """Return the newest row of each key, without the column ``keys.order``.

    If the newest row is a delete record, return the newest full row of the batch with the deletion
    time set. With ``keys.deleted`` the column `DELETE_ONLY_COLUMN` is added.
    """
    order = _ordering_columns(keys)
    newest_first = [each.desc() for each in order]  # null is lower than anything
    window = Window.partitionBy(*(F.col(quote(key)) for key in keys.columns))
    if keys.deleted is None:
        ranked = df.withColumn(_RANK, F.row_number().over(window.orderBy(*newest_first)))
        return ranked.where(F.col(_RANK) == 1).drop(_RANK, keys.order)
    deleted = F.col(quote(keys.deleted))
    full_rows_first = window.orderBy(deleted.isNotNull(), *newest_first)
    weight = order[0] if len(order) == 1 else F.struct(*order)
    last_word = F.max_by(F.struct(deleted.alias("at")), weight).over(window)["at"]
    ranked = df.withColumns(
        {
            _RANK: F.row_number().over(full_rows_first),
            DELETE_ONLY_COLUMN: deleted.isNotNull(),
            keys.deleted: last_word,
        }
    )
    return ranked.where(F.col(_RANK) == 1).drop(_RANK, keys.order)


def _ordering_columns(keys: MergeKeys) -> list[Column]:
    """Return the columns that sort the rows of one key from oldest to newest.

    The most significant column comes first.
    """
    by_cursor = [keys.cursor] if keys.by_cursor and keys.cursor is not None else []
    return [F.col(quote(name)) for name in (*by_cursor, keys.order)]


def sort_rows(df: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return the DataFrame sorted by these columns within each file that Spark writes."""
    return df.sortWithinPartitions(*map(quote, columns)) if columns else df


def column_ddl(field: T.StructField) -> str:
    """Return the DDL type of a column, with the lengths of char and varchar types.

    Spark keeps these lengths only in the metadata of the field.
    """
    limited = str(field.metadata.get("__CHAR_VARCHAR_TYPE_STRING", ""))
    plain = isinstance(field.dataType, T.StringType)
    return limited if plain and limited else to_ddl(field.dataType)


def to_ddl(type_: T.DataType) -> str:
    """Return a type as DDL with every field name quoted."""
    if isinstance(type_, T.StructType):
        fields = (f"{quote(field.name)}: {to_ddl(field.dataType)}" for field in type_.fields)
        return f"struct<{', '.join(fields)}>"
    if isinstance(type_, T.ArrayType):
        return f"array<{to_ddl(type_.elementType)}>"
    if isinstance(type_, T.MapType):
        return f"map<{to_ddl(type_.keyType)}, {to_ddl(type_.valueType)}>"
    return type_.simpleString()
