"""The `Writer` protocol of a table format, and functions that all writers share.

A writer uses the Spark session of the calling thread, and only one thread writes to a table. A
batch and its commit metadata are written in one commit. After each write, the writer reads the
newest commit, which must have the metadata of the batch. If a batch is repeated because the
response to its commit was lost, the commit is found in the table and the batch is not written
again. A batch number that does not increase is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  (as all of Spark's users call it)
from pyspark.sql import types as T  # noqa: N812

from target_spark.columns import (
    TABLE_VERSION,
    Array,
    ColumnType,
    Decimal,
    SchemaChange,
    Struct,
    TableSchema,
)
from target_spark.errors import CommitLostError, RowCountError, TableError, TableOwnerError
from target_spark.tables.commit_metadata import NO_METADATA, CommitMetadata
from target_spark.tables.identifiers import quote
from target_spark.tables.table import CommitStats, MaintenanceOptions, Table, TableLayout

__all__ = [
    "DELETE_ONLY_COLUMN",
    "MergeKeys",
    "TableState",
    "VersionDelete",
    "Writer",
    "build_field",
    "check_predecessor",
    "check_same_table",
    "check_written_count",
    "column_ddl",
    "latest_by_key",
    "next_metadata",
    "sort_rows",
    "table_moved_error",
    "table_owner_error",
    "table_removed_error",
    "table_replaced_error",
    "to_ddl",
    "to_spark_type",
]

_SPARK_TYPES: Final[Mapping[str, Callable[[], T.DataType]]] = {
    "boolean": T.BooleanType,
    "tinyint": T.ByteType,
    "smallint": T.ShortType,
    "int": T.IntegerType,
    "bigint": T.LongType,
    "double": T.DoubleType,
    "string": T.StringType,
    "timestamp": T.TimestampType,
    "timestamp_ntz": T.TimestampNTZType,
    "date": T.DateType,
    "binary": T.BinaryType,
}
"""The PySpark class of each simple column type, by the type's DDL."""

DELETE_ONLY_COLUMN = "__target_spark_only_delete"
"""Name of a boolean column that `latest_by_key` adds. It is True if the batch has only delete
records for the key."""

_RANK = "__target_spark_rank"


@dataclass(frozen=True, slots=True)
class MergeKeys:
    """Rules for merging the rows of a batch into a table: keys, order of rows, and deletions.

    Attributes:
        columns: Columns that identify a row. Their values are never null.
        order: Column with the position of the row in the input, which exists only in the batch, not
            in the table. Of batch rows with equal keys, the row with the highest value is the
            newest.
        deleted: Column with the deletion time, or None if there is no such column. It is set only
            in a delete record, which has keys but no other values.
        hard_delete: True if a delete record removes the row; False if it only sets ``deleted``.
        compared: Columns that are compared with the current version of a row (SCD2 only). A new
            version begins if one of them differs.
        cursor: Column with the replication key, which grows with each version of a row; None if
            unknown.
        received: Time at which the batch's first row was received (SCD2 only). A row version begins
            at this time if its record has no extraction time.
        sort_by: Columns that sort the rows within each file, if rows are added without a merge.
        by_cursor: True if the row with the highest ``cursor`` is the newest, where null is the
            lowest value. ``order`` then decides only between equal cursors, and a batch row
            replaces a table row only if its cursor is not lower. False if ``order`` alone decides.
        outdated: A tuple of the column with Airbyte's generation id and the lowest current id. A
            table row with null or a lower id is replaced even if its cursor is higher. None if
            cursors are compared for all rows.
        removed: Column with the deletion time from a change-data-capture source (Airbyte). If it is
            not null in the newest row of a key, the table row is removed. None if there is no such
            column.
        unique_rows: Number of rows of the batch, if Spark holds them in memory and no two have the
            same key. `latest_by_key` then need not remove older rows, and Spark can read the batch
            twice without a copy on disk. None if Spark reads the rows from files, or if keys may be
            repeated.
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
    unique_rows: int | None = None


@dataclass(frozen=True, slots=True)
class VersionDelete:
    """Deletion of all table versions but one, as an ACTIVATE_VERSION message requires.

    Attributes:
        version: The table version to keep. Rows with a null version are deleted, too.
        deleted: The column with the deletion time, to mark the rows as deleted; None to remove
            them.
        at: The deletion time. Rows that are already marked as deleted keep their deletion time.
        history: True for an scd2 table: the current row version of each deleted row is ended, and
            no row is removed. False for any other table.
        column: The column with the table version.
    """

    version: int
    deleted: str | None
    at: datetime
    history: bool = False
    column: str = TABLE_VERSION


@dataclass
class TableState:
    """Cached facts about one table, which a writer keeps during a run.

    Attributes:
        id: The id in the table's Delta or Iceberg metadata, as this run first read it; None if this
            run has not read it yet.
        newest: The newest commit metadata in the table when this run last read or wrote it; None
            if the table had none.
        acknowledged: The commit metadata of the run's last successful commit.
        is_empty: True if the table has no rows; None if unknown.
        is_converted: True once rows without SCD2 columns were converted to row versions.
    """

    id: str | None = None
    newest: CommitMetadata | None = None
    acknowledged: CommitMetadata | None = None
    is_empty: bool | None = None
    is_converted: bool = False


class Writer(Protocol):
    """Interface for reading and writing the tables of one format: Delta, Iceberg or Parquet."""

    @property
    def keeps_batch(self) -> bool:
        """True if `upsert` stores the batch on disk, so that Spark computes its rows only once."""
        ...

    def can_widen(self, old: str, new: str, /) -> bool:
        """Return True if a column's type can be changed from ``old`` to ``new`` (DDL) in place."""
        ...

    def get_column_types(self, spark: SparkSession, /, table: Table) -> Mapping[str, str] | None:
        """Return the type (DDL) of each column, in table order, or None if there is no table.

        Raises:
            TableError: The table's folder has files that are not a table of this format.
        """
        ...

    def create(
        self,
        spark: SparkSession,
        /,
        table: Table,
        table_schema: TableSchema,
        layout: TableLayout,
        *,
        has_rows: bool = False,
    ) -> None:
        """Create an empty table.

        Args:
            spark: The Spark session of the calling thread.
            table: The table to create.
            table_schema: The columns.
            layout: Partitioning, clustering and properties.
            has_rows: True if the caller writes rows next. A format whose tables are created by the
                first rows then does nothing. False if the table must exist after the call.
        """
        ...

    def describe_layout_mismatch(
        self, spark: SparkSession, /, table: Table, table_schema: TableSchema, layout: TableLayout
    ) -> str | None:
        """Describe a table's partitioning and clustering if they differ from the settings.

        Returns:
            A phrase such as "partitioned by day", or None if there is no difference.
        """
        ...

    def alter(self, spark: SparkSession, /, table: Table, changes: Sequence[SchemaChange]) -> None:
        """Add columns and nested fields to a table, and widen column types.

        Each resulting commit repeats the metadata of target-spark's newest commit, so that a later
        run finds it in the newest commit of the table.
        """
        ...

    def sources(self, spark: SparkSession, /, table: Table) -> Mapping[str, str] | None:
        """Return the original name of each renamed column, such as ``{"`user_id`": "user-id"}``.

        The keys are the quoted columns, or fields of structs, whose names differ from those of the
        properties. Return None if another program created the table.
        """
        ...

    def annotate(self, spark: SparkSession, /, table: Table, table_schema: TableSchema) -> None:
        """Store the column comments and the original names of renamed columns in a table."""
        ...

    def drop_not_null(self, spark: SparkSession, /, table: Table, keep: Collection[str]) -> None:
        """Drop the NOT NULL constraints of all columns of a table that are not in ``keep``."""
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
        """Add the rows of a batch to a table, in one commit.

        `upsert`, `history`, `replace` and `delete_versions` can raise the same errors.

        Args:
            spark: The Spark session of the calling thread.
            table: The table to write to.
            df: The rows to add.
            commit: The metadata to store in the commit: batch number, run and newest state.
            rows: The number of rows in ``df``; None if it is not known.

        Raises:
            CommitLostError: The table does not contain the batch after the write.
            RowCountError: The commit has more or fewer rows than the batch.
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
        """Replace the table rows whose keys occur in the batch, and add the rows with new keys.

        ``keys`` has the key columns and the rules for deletions.

        Raises:
            UnsupportedError: The format has no MERGE.
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
        """Apply a batch to an SCD2 table, which keeps all versions of each row.

        For each changed row, a new row version is inserted and the previous one is ended. ``keys``
        has the key columns, and the columns that are compared to find changes.

        Raises:
            UnsupportedError: The format has no MERGE.
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
        """Replace all rows of a table with the rows of ``df``, in one commit.

        ``rows`` is the number of rows in ``df``; None if it is not known.
        """
        ...

    def delete_versions(
        self,
        spark: SparkSession,
        /,
        table: Table,
        deletion: VersionDelete,
        commit: CommitMetadata,
    ) -> CommitStats:
        """Delete rows of all table versions but ``deletion.version``, or mark them as deleted.

        These are Singer table versions. All rows are changed in one commit.

        Raises:
            UnsupportedError: The format cannot delete rows.
        """
        ...

    def maintain(self, spark: SparkSession, /, table: Table, options: MaintenanceOptions) -> None:
        """Compact a table's files and remove old ones, as the options configure.

        Each resulting commit repeats the metadata of target-spark's newest commit.
        """
        ...

    def commit_empty(self, spark: SparkSession, /, table: Table, commit: CommitMetadata) -> None:
        """Make a commit without rows, which stores metadata such as the newest state."""
        ...

    def get_last_metadata(
        self, spark: SparkSession, table: Table, known: CommitMetadata | None = None, /
    ) -> CommitMetadata | None:
        """Return the metadata that target-spark stored in its newest commit to a table, or None.

        ``known`` is metadata that the caller has read before. It is returned if another program has
        since expired all commits with metadata of target-spark.
        """
        ...

    def is_empty(self, spark: SparkSession, /, table: Table) -> bool:
        """Return True if a table has no rows. An upsert then appends instead of merging."""
        ...

    def rows(self, spark: SparkSession, /, table: Table) -> DataFrame:
        """Return the current rows of a table as a DataFrame."""
        ...

    def drop(self, spark: SparkSession, /, table: Table) -> None:
        """Remove a table from its catalog and delete its files."""
        ...


def next_metadata(
    before: CommitMetadata | None, commit: CommitMetadata, table: Table, *, acknowledged: bool
) -> CommitMetadata:
    """Return the commit metadata to write for a batch, after checking the table's newest metadata.

    If the batch has no state, the state of the table's newest commit is written again.

    Args:
        before: The newest commit metadata in the table, or None.
        commit: The commit metadata of the batch.
        table: The table to write to.
        acknowledged: True if this run knows that a commit of this batch has succeeded. False if the
            table may contain the batch although this run does not know it, because the response to
            an earlier commit was lost.

    Raises:
        TableOwnerError: Another job has loaded the table since this run read its metadata.
        TableError: Another run of the job has loaded it, or an earlier version was restored.
        CommitLostError: The batch number is not higher than that of the run's newest commit, so the
            batch would be skipped as already committed.
    """
    check_predecessor(table, before, commit)
    if before is not None and commit.is_same_run(before):
        repeated = commit.batch == before.batch and not acknowledged
        if commit.batch <= before.batch and not repeated:
            raise CommitLostError(
                f"Batch {commit.batch} of table {table.name} comes after batch"
                f" {before.batch}: it would be skipped. Nothing was written."
            )
    return commit.with_earlier_state(before)


def check_predecessor(table: Table, before: CommitMetadata | None, commit: CommitMetadata) -> None:
    """Check that no other job or run has committed to a table since this run first read it.

    Args:
        table: The table.
        before: The metadata of target-spark's last commit before ``commit``; None if there is none.
        commit: The commit, which has the metadata that the run first read (``earlier``).

    Raises:
        TableOwnerError: Another job has committed.
        TableError: Another run of the job has committed, or an earlier version was restored.
    """
    if before is not None and before.job not in {commit.job, *commit.former}:
        raise table_owner_error(table, before.job, commit.job)
    if commit.earlier is None or commit.is_same_run(before):
        return
    found = before or NO_METADATA
    if not commit.earlier.has_same_batch(found):
        raise table_moved_error(table, commit.earlier, found)


def check_written_count(table: Table, rows: int, written: int) -> None:
    """Check that the files written for a batch have as many rows as the batch.

    Args:
        table: The table, for the error message.
        rows: The number of rows in the batch.
        written: The number of rows in the written files.

    Raises:
        RowCountError: The numbers differ; the files must not be committed.
    """
    if written != rows:
        raise RowCountError(
            f"Table {table.name}: {rows} rows were to be written, but the files that Spark wrote"
            f" have {written}. They are not committed, and no state that covers these rows is"
            " emitted."
        )


def check_same_table(table: Table, expected: str | None, actual: str | None) -> str | None:
    """Check that a table was not replaced during the run, and return its current id.

    Args:
        table: The table.
        expected: The id that this run saw first, or None if it has seen none.
        actual: The current id, or None if the table does not exist.

    Raises:
        TableError: The ids differ, because the table was removed or replaced.
    """
    if expected is not None and actual is None:
        raise table_removed_error(table)
    if expected is not None and actual != expected:
        raise table_replaced_error(table)
    return actual


def table_owner_error(table: Table, owner: str, job: str) -> TableOwnerError:
    """Return the error for writing to a table that another job (``owner``) loads.

    Two jobs must not share a table, because a run resumes from the state of the last commit.
    """
    return TableOwnerError(
        f"Table {table.name} ({table.key}) is loaded by job {owner!r}, and this run is job"
        f" {job!r}. If they are one pipeline, set job to {owner!r}; if they are two, give this"
        " one another path, table_prefix or database. Nothing more was written to it."
    )


def table_moved_error(table: Table, expected: CommitMetadata, found: CommitMetadata) -> TableError:
    """Return the error for a table whose newest metadata changed after the start of the run.

    Args:
        table: The table.
        expected: The table's metadata at the start of the run, or `NO_METADATA`.
        found: The newest metadata in the table that another run has stored, or `NO_METADATA`.
    """
    return TableError(
        f"Table {table.name} ({table.key}) is not as this run found it: the newest commit of"
        f" target-spark in it was {_describe_commit(expected)}, and is now"
        f" {_describe_commit(found)}. Another run of the job has loaded the table meanwhile, or the"
        " table was removed, or restored to an earlier version. No state that covers rows after"
        " these commits is emitted. Let only one run of the job be active; if two have loaded the"
        " same rows, restore the version before them. Then start again: target-spark run resumes by"
        " itself, other runs from the state that target-spark last-state prints."
    )


def _describe_commit(metadata: CommitMetadata) -> str:
    return f"commit {metadata.batch} of run {metadata.run}" if metadata.run else "none"


def table_removed_error(table: Table) -> TableError:
    """Return the error for a table that was removed or restored after this run's last commit."""
    return TableError(
        f"Table {table.name} ({table.key}) was removed while it was loaded, or an earlier version"
        " of it was restored: rows that this run had committed are gone. States that cover them may"
        " have been emitted. Start again from a state before them."
    )


def table_replaced_error(table: Table) -> TableError:
    """Return the error for a table that another program replaced during the run."""
    return TableError(
        f"Table {table.name} ({table.key}) was replaced by another table while it was loaded."
        " Nothing was written to the new one. Rows that this run had committed are gone with the"
        " old one, and states that cover them may have been emitted. Start again from a state"
        " before them."
    )


def latest_by_key(df: DataFrame, keys: MergeKeys) -> DataFrame:
    """Return the newest row of each key, without the column ``keys.order``.

    A delete record has only keys and a deletion time. If the newest row of a key is a delete
    record, the newest full row is returned with this deletion time. If the batch has no full row of
    the key, the newest delete record is returned.

    If ``keys.deleted`` is set, the boolean column `DELETE_ONLY_COLUMN` is added. It is True in
    delete records that are returned.
    """
    if keys.unique_rows is not None:
        if keys.deleted is not None:
            df = df.withColumn(DELETE_ONLY_COLUMN, F.col(quote(keys.deleted)).isNotNull())
        return df.drop(keys.order)
    by_cursor = [keys.cursor] if keys.by_cursor and keys.cursor is not None else []
    order = [F.col(quote(name)) for name in (*by_cursor, keys.order)]
    newest_first = [each.desc() for each in order]  # null is the lowest value
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


def sort_rows(df: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return the DataFrame with its rows sorted by ``columns`` within each Spark partition.

    If ``columns`` is empty, the DataFrame is returned unchanged.
    """
    return df.sortWithinPartitions(*map(quote, columns)) if columns else df


def column_ddl(field: T.StructField) -> str:
    """Return the DDL type of a column, such as ``bigint`` or ``varchar(10)``.

    The length of a char or varchar column is in the metadata of the field, because its Spark type
    is a plain string.
    """
    limited = str(field.metadata.get("__CHAR_VARCHAR_TYPE_STRING", ""))
    plain = isinstance(field.dataType, T.StringType)
    return limited if plain and limited else to_ddl(field.dataType)


def build_field(name: str, type_: ColumnType, comment: str | None = None) -> T.StructField:
    """Return a Spark schema field for a nullable column, with its comment if it has one."""
    metadata = {"comment": comment} if comment else None
    return T.StructField(name, to_spark_type(type_), nullable=True, metadata=metadata)


def to_spark_type(type_: ColumnType) -> T.DataType:
    """Return the Spark type of a column type, such as ``LongType()`` for a 64-bit integer.

    `UnmanagedType`, the type of a column that target-spark never writes, raises a KeyError.
    """
    if isinstance(type_, Array):
        return T.ArrayType(to_spark_type(type_.element))
    if isinstance(type_, Struct):
        return T.StructType([build_field(field.name, field.type) for field in type_.fields])
    if isinstance(type_, Decimal):
        return T.DecimalType(type_.precision, type_.scale)
    return _SPARK_TYPES[type_.ddl]()


def to_ddl(type_: T.DataType) -> str:
    """Return the DDL of a Spark type with quoted field names, such as ``struct<`a`: bigint>``."""
    if isinstance(type_, T.StructType):
        fields = (f"{quote(field.name)}: {to_ddl(field.dataType)}" for field in type_.fields)
        return f"struct<{', '.join(fields)}>"
    if isinstance(type_, T.ArrayType):
        return f"array<{to_ddl(type_.elementType)}>"
    if isinstance(type_, T.MapType):
        return f"map<{to_ddl(type_.keyType)}, {to_ddl(type_.valueType)}>"
    return type_.simpleString()
