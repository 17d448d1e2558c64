"""What a table format must be able to do, and the words the writers share.

Rules of the room: a writer gets the Spark session of the thread that writes, and one
table is never written by two threads. A batch and its marker go into one commit. After
each write the writer reads the new commit back; only a commit that carries our batch
counts. A batch that is repeated because its answer was lost is found, not written
again; a batch number that does not move on is an error, never a success.
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
"""A column of `latest_by_key`: whether all that is known of the key is its deletion."""

_RANK = "__target_spark_rank"


@dataclass(frozen=True, slots=True)
class MergeKeys:
    """How rows of a batch meet rows of the table.

    ``columns`` identify a row (never null). ``order`` is a column of the batch, not of
    the table: of rows with equal keys the highest is the newest. ``deleted`` names the
    column that is set in a delete record; such a record changes nothing else, or with
    ``hard_delete`` removes the row. ``compared`` are the columns in which a row must
    differ to be another version of it; only a history asks for them, for the ``cursor``,
    a column that grows from version to version, and for when the records that have no time
    of their own were ``received``. Where nothing is met, the rows of each file are in the
    order of ``sort_by``.

    With ``by_cursor`` the row with the highest ``cursor`` is the newest, null being the
    lowest, and only of those with the same one the last; rows of the table are met in the
    same way, but for those that are ``outdated``, whose value of a column is null or below
    another: these every row replaces. ``removed`` names a column that in the newest row takes
    the row away where it is not null.
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
    """The end of every row that is not of one table version (null included).

    They are removed; or, where ``deleted`` names a column, get the time ``at`` in it if
    they have none. In a table that keeps its ``history`` none is removed: those that are
    current end. ``column`` tells the versions apart.
    """

    version: int
    deleted: str | None
    at: datetime
    history: bool = False
    column: str = TABLE_VERSION


class Writer(Protocol):
    """One table format."""

    @property
    def keeps_batch(self) -> bool:
        """Whether an upsert reads its batch once, and keeps it by itself while it is needed."""
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
        layout: TableSchema,
        design: TableLayout,
        *,
        has_rows: bool = False,
    ) -> None:
        """Make an empty table.

        Where the next call writes rows of this layout into it (``has_rows``), a format whose
        rows make their table may leave it to them.
        """
        ...

    def arranged_otherwise(
        self, spark: SparkSession, /, table: Table, layout: TableSchema, design: TableLayout
    ) -> str | None:
        """Say how a table is laid out, if it is not as it would be made now."""
        ...

    def alter(self, spark: SparkSession, /, table: Table, changes: Sequence[SchemaChange]) -> None:
        """Add columns and fields, and widen types; the newest marker is repeated."""
        ...

    def sources(self, spark: SparkSession, /, table: Table) -> Mapping[str, str] | None:
        """Return what the table remembers of `Layout.sources`; None if it is none of ours."""
        ...

    def annotate(self, spark: SparkSession, /, table: Table, layout: TableSchema) -> None:
        """Let the table remember the layout's sources, and have its comments."""
        ...

    def allow_nulls(self, spark: SparkSession, /, table: Table, keep: Collection[str]) -> None:
        """Let all columns of the table take nulls but those to ``keep``."""
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
        """Add the rows of a batch; ``rows`` is how many there are, where that is known.

        This and the other commits raise `CommitLostError` when the table does not have
        the batch afterwards, and `RowCountError` when it has more or fewer rows of it.
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
        """Replace the rows that have the batch's keys, and add those that are new.

        Raises:
            UnsupportedError: the format cannot.
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
        """Keep the versions of each row: what differs ends the current one and begins another.

        Raises:
            UnsupportedError: the format cannot.
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
        """Put these rows in the place of all others, in one commit."""
        ...

    def retire(
        self,
        spark: SparkSession,
        /,
        table: Table,
        retirement: VersionDelete,
        commit: CommitMetadata,
    ) -> CommitStats:
        """End the rows of other versions, in one commit.

        Raises:
            UnsupportedError: the format cannot.
        """
        ...

    def care(self, spark: SparkSession, /, table: Table, care: MaintenanceOptions) -> None:
        """Tidy the table; the newest marker is repeated in every commit that this makes."""
        ...

    def commit_empty(self, spark: SparkSession, /, table: Table, commit: CommitMetadata) -> None:
        """Commit a marker without rows."""
        ...

    def last_marker(self, spark: SparkSession, /, table: Table) -> CommitMetadata | None:
        """Return the newest marker in the table; None where no table or no marker is."""
        ...

    def is_empty(self, spark: SparkSession, /, table: Table) -> bool:
        """Tell whether an upsert would meet no rows, so that it reads its batch only once."""
        ...

    def rows(self, spark: SparkSession, /, table: Table) -> DataFrame:
        """Return the rows that the table has now."""
        ...

    def drop(self, spark: SparkSession, /, table: Table) -> None:
        """Remove the table and its files."""
        ...


def next_marker(
    before: CommitMetadata | None, commit: CommitMetadata, table: Table, *, acknowledged: bool
) -> CommitMetadata:
    """Return the marker to write after another: its state is repeated where this has none.

    ``acknowledged`` says that this very batch is known to be in the table; one whose
    answer was lost may be there too, and is then repeated.

    Raises:
        OwnerError: another job has loaded the table since this run looked at it.
        CommitLostError: the batch number does not move on, so that the table format
            would take the batch for one that it has.
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
    """Compare the rows of files, before a commit names them, with those that were to be written.

    Raises:
        CountError: they differ.
    """
    if written != rows:
        raise RowCountError(
            f"Table {table.name}: {rows} rows were to be written, but the files that Spark wrote"
            f" have {written}. They are not committed, and no state that covers these rows leaves."
        )


def same_table(table: Table, known: str | None, found: str | None) -> str | None:
    """Return the id of a table if it is still the one that was first looked at.

    Raises:
        TableError: it was removed, or another stands in its place.
    """
    if known is not None and found is None:
        raise table_removed_error(table)
    if known is not None and found != known:
        raise replaced_meanwhile(table)
    return found


def of_another_job(table: Table, owner: str, job: str) -> TableOwnerError:
    """Return the error for a table of another job, whose states would be mixed with ours."""
    return TableOwnerError(
        f"Table {table.name} ({table.key}) is loaded by job {owner!r}, and this run is of job"
        f" {job!r}. If they are one pipeline, set job to {owner!r}; if they are two, give this"
        " one a path, a table_prefix or a database of its own. Nothing more was written to it."
    )


def table_removed_error(table: Table) -> TableError:
    """Return the error for a table that had commits of this run and is gone."""
    return TableError(
        f"Table {table.name} ({table.key}) was removed while it was loaded, and with it rows"
        " that this run had committed, for which states may have left. Start again from a"
        " state before them."
    )


def replaced_meanwhile(table: Table) -> TableError:
    """Return the error for a table in whose place another was put."""
    return TableError(
        f"Table {table.name} ({table.key}) was replaced by another table while it was loaded."
        " Nothing was written to the other one. Rows that this run had committed are gone with the"
        " old one, and states that cover them may have left. Start again from a state before them."
    )


def latest_by_key(df: DataFrame, keys: MergeKeys) -> DataFrame:
    """Return one row per key, the newest, without the column that orders them.

    Where the newest is a delete record, the newest full row of the batch is kept with
    the deletion's time set. With ``keys.deleted`` the column `DELETE_ONLY_COLUMN` is added.
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
    """Return what grows from an older row to a newer one, the weightiest first."""
    by_cursor = [keys.cursor] if keys.by_cursor and keys.cursor is not None else []
    return [F.col(quote(name)) for name in (*by_cursor, keys.order)]


def sort_rows(df: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return the rows so that those of each file come in the order of these columns."""
    return df.sortWithinPartitions(*map(quote, columns)) if columns else df


def column_ddl(field: T.StructField) -> str:
    """Return the DDL of a column; text of a limited length is told by its metadata alone."""
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
