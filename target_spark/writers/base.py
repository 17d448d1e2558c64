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
    "next_marker",
    "of_another_job",
    "replaced_meanwhile",
    "same_table",
    "sort_rows",
    "table_removed_error",
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
    """Operations on the tables of one format."""

    @property
    def keeps_batch(self) -> bool:
        """True if an upsert reads its batch once and stores it as long as the merge needs it."""
        ...

    def can_widen(self, old: str, new: str, /) -> bool:
        """Return True if the format can change a column's type (as DDL) in place."""
        ...

    def table_types(self, spark: SparkSession, /, table: Table) -> Mapping[str, str] | None:
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
        """Create an empty table.

        With ``has_rows``, the next call writes rows of this schema, and a format whose first write
        creates the table may do nothing here.
        """
        ...

    def arranged_otherwise(
        self, spark: SparkSession, /, table: Table, layout: TableSchema, design: TableLayout
    ) -> str | None:
        """Return a description of the table's layout if it differs from ``design``, else None."""
        ...

    def alter(self, spark: SparkSession, /, table: Table, changes: Sequence[SchemaChange]) -> None:
        """Add columns and fields, and widen types; repeat the newest commit metadata."""
        ...

    def sources(self, spark: SparkSession, /, table: Table) -> Mapping[str, str] | None:
        """Return the stored `TableSchema.sources`; None for a table of another writer."""
        ...

    def annotate(self, spark: SparkSession, /, table: Table, layout: TableSchema) -> None:
        """Store the schema's sources in the table, and set its column comments."""
        ...

    def allow_nulls(self, spark: SparkSession, /, table: Table, keep: Collection[str]) -> None:
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
        """Replace all rows of the table by these rows, in one commit."""
        ...

    def retire(
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

    def care(self, spark: SparkSession, /, table: Table, care: MaintenanceOptions) -> None:
        """Compact the table and remove old files; each commit repeats the newest metadata."""
        ...

    def commit_empty(self, spark: SparkSession, /, table: Table, commit: CommitMetadata) -> None:
        """Commit metadata without rows."""
        ...

    def last_marker(self, spark: SparkSession, /, table: Table) -> CommitMetadata | None:
        """Return the newest commit metadata in the table, or None if it has none."""
        ...

    def is_empty(self, spark: SparkSession, /, table: Table) -> bool:
        """Return True if an upsert would match no rows, so that the batch is read only once."""
        ...

    def rows(self, spark: SparkSession, /, table: Table) -> DataFrame:
        """Return the current rows of the table."""
        ...

    def drop(self, spark: SparkSession, /, table: Table) -> None:
        """Remove the table and its files."""
        ...


def next_marker(
    before: CommitMetadata | None, commit: CommitMetadata, table: Table, *, acknowledged: bool
) -> CommitMetadata:
    """Return the commit metadata to write; a commit without a state repeats the one before it.

    Args:
        before: newest commit metadata in the table.
        commit: commit metadata of the batch.
        table: table to write.
        acknowledged: True if this run knows that the batch is in the table. A batch whose commit
        got
            no response may be in the table too, and may be committed again.

    Raises:
        TableOwnerError: another job has loaded the table since this run read its metadata.
        CommitLostError: the batch number does not increase, so that the format would skip the batch
            as one that the table already has.
    """
    if before is not None and before.job not in {commit.job, *commit.former}:
        raise of_another_job(table, before.job, commit.job)
    if before is not None and commit.is_same_run(before):
        repeated = commit.batch == before.batch and not acknowledged
        if commit.batch <= before.batch and not repeated:
            raise CommitLostError(
                f"Batch {commit.batch} of table {table.name} comes after batch"
                f" {before.batch}: it would be skipped. Nothing was written."
            )
    return commit.carrying(before)


def check_count(table: Table, rows: int, written: int) -> None:
    """Check the number of rows in files before they are committed.

    Raises:
        RowCountError: the files have more or fewer rows than the batch.
    """
    if written != rows:
        raise RowCountError(
            f"Table {table.name}: {rows} rows were to be written, but the files that Spark wrote"
            f" have {written}. They are not committed, and no state that covers these rows is"
            " emitted."
        )


def same_table(table: Table, known: str | None, found: str | None) -> str | None:
    """Return the found table id if it equals the id that this run saw first.

    Raises:
        TableError: the table was removed or replaced.
    """
    if known is not None and found is None:
        raise table_removed_error(table)
    if known is not None and found != known:
        raise replaced_meanwhile(table)
    return found


def of_another_job(table: Table, owner: str, job: str) -> TableOwnerError:
    """Return the error for a table of another job: the states of two jobs must not be mixed."""
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


def replaced_meanwhile(table: Table) -> TableError:
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
    order = _order(keys)
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


def _order(keys: MergeKeys) -> list[Column]:
    """Return the columns that order the rows of a key from old to new, most significant first."""
    by_cursor = [keys.cursor] if keys.by_cursor and keys.cursor is not None else []
    return [F.col(quote(name)) for name in (*by_cursor, keys.order)]


def sort_rows(df: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return the rows sorted by these columns within each output file."""
    return df.sortWithinPartitions(*map(quote, columns)) if columns else df


def column_ddl(field: T.StructField) -> str:
    """Return the DDL of a column; Spark keeps char and varchar lengths in the metadata only."""
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
