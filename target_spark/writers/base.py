"""The `Writer` protocol of a table format.

A writer uses the Spark session of the calling thread, and only one thread writes to a table. A
batch and its commit metadata are written in one commit. After each write, the writer reads the
newest commit, which must have the metadata of the batch. If a batch is repeated because the
response to its commit was lost, the commit is found in the table and the batch is not written
again. A batch number that does not increase is an error.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from target_spark.columns import TABLE_VERSION, SchemaChange, TableSchema
from target_spark.tables.commit_metadata import CommitMetadata
from target_spark.tables.table import CommitStats, MaintenanceOptions, Table, TableLayout

__all__ = ["MergeKeys", "TableState", "VersionDelete", "Writer"]


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
        version: Column with the Singer table version; None if there is no such column.
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
    version: str | None = None
    unique_rows: int | None = None

    @property
    def order_columns(self) -> tuple[str, ...]:
        """Columns by which the rows of a key are sorted from the oldest to the newest.

        They are `cursor`, if `by_cursor` is True, and `order`.
        """
        if self.by_cursor and self.cursor is not None:
            return (self.cursor, self.order)
        return (self.order,)

    @property
    def removal_columns(self) -> list[str]:
        """Columns that remove a row of the table if they are not null in the newest row of its key.

        They are `removed` and, with a hard delete, `deleted`.
        """
        names = (self.removed, self.deleted if self.hard_delete else None)
        return [name for name in names if name is not None]


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
        id: The id that Delta or Iceberg gave the table, as this run first read it; None before.
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

    def can_widen(self, old: str, new: str) -> bool:
        """Return True if a column's type can be changed from ``old`` to ``new`` (DDL) in place."""
        ...

    def get_column_types(self, spark: SparkSession, table: Table) -> Mapping[str, str] | None:
        """Return the type (DDL) of each column, in table order, or None if there is no table.

        Raises:
            TableError: The table's folder has files that are not a table of this format.
        """
        ...

    def create(
        self,
        spark: SparkSession,
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
            has_rows: True if the caller writes rows next. A format that creates a table with its
                first rows then does nothing. False to create the table in any case.
        """
        ...

    def describe_layout_mismatch(
        self, spark: SparkSession, table: Table, table_schema: TableSchema, layout: TableLayout
    ) -> str | None:
        """Describe a table's partitioning and clustering if they differ from the settings.

        Returns:
            A phrase such as "partitioned by day", or None if there is no difference.
        """
        ...

    def get_partition_columns(self, spark: SparkSession, table: Table) -> Collection[str]:
        """Return a table's partition columns that store the texts in `PARTITION_NULLS` as null."""
        ...

    def alter(self, spark: SparkSession, table: Table, changes: Sequence[SchemaChange]) -> None:
        """Add columns and nested fields to a table, and widen column types.

        Each resulting commit repeats the metadata of target-spark's newest commit, so that a later
        run finds it in the newest commit of the table.
        """
        ...

    def sources(self, spark: SparkSession, table: Table) -> Mapping[str, str] | None:
        """Return the source property of each renamed column: ``{"`user_id`": "user-id"}``.

        Keys are the quoted names of columns and of struct fields. Return None if another program
        created the table, because the names of the properties are then unknown.
        """
        ...

    def annotate(self, spark: SparkSession, table: Table, table_schema: TableSchema) -> None:
        """Store column comments, and the property names of renamed columns, in a table."""
        ...

    def drop_not_null(self, spark: SparkSession, table: Table, keep: Collection[str]) -> None:
        """Drop the NOT NULL constraints of a table's columns, except of the columns ``keep``."""
        ...

    def append(
        self, table: Table, df: DataFrame, commit: CommitMetadata, rows: int | None = None
    ) -> CommitStats:
        """Add the rows of a batch to a table, in one commit.

        `upsert`, `history`, `replace` and `delete_versions` can raise the same errors.

        Args:
            table: The table to write to.
            df: The rows to add, of the Spark session of the calling thread.
            commit: The metadata to store in the commit: batch number, run and newest state.
            rows: The number of rows in ``df``; None if it is not known.

        Raises:
            CommitLostError: The table does not contain the batch after the write.
            RowCountError: The commit has more or fewer rows than the batch.
        """
        ...

    def upsert(
        self, table: Table, df: DataFrame, keys: MergeKeys, commit: CommitMetadata
    ) -> CommitStats:
        """Replace the table rows whose keys occur in the batch, and add the rows with new keys.

        ``keys`` has the key columns and the rules for deletions.

        Raises:
            UnsupportedError: The format has no MERGE.
        """
        ...

    def history(
        self, table: Table, df: DataFrame, keys: MergeKeys, commit: CommitMetadata
    ) -> CommitStats:
        """Apply a batch to an SCD2 table, which keeps all versions of each row.

        For each changed row, a new row version is inserted and the previous one is ended. ``keys``
        has the key columns, and the columns that are compared to find changes.

        Raises:
            UnsupportedError: The format has no MERGE.
        """
        ...

    def replace(
        self, table: Table, df: DataFrame, commit: CommitMetadata, rows: int | None = None
    ) -> CommitStats:
        """Replace all rows of a table with the rows of ``df``, in one commit.

        ``rows`` is the number of rows in ``df``; None if it is not known.
        """
        ...

    def delete_versions(
        self,
        spark: SparkSession,
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

    def maintain(self, spark: SparkSession, table: Table, options: MaintenanceOptions) -> None:
        """Compact a table's files and remove old ones, as the options configure.

        Each resulting commit repeats the metadata of target-spark's newest commit.
        """
        ...

    def commit_empty(self, spark: SparkSession, table: Table, commit: CommitMetadata) -> None:
        """Make a commit without rows, to store metadata such as the newest state in a table."""
        ...

    def get_last_metadata(
        self, spark: SparkSession, table: Table, known: CommitMetadata | None = None
    ) -> CommitMetadata | None:
        """Return the metadata that target-spark stored in its newest commit to a table, or None.

        ``known`` is metadata that the caller has read before. It is returned if another program has
        since removed all commits with such metadata from the table's log.
        """
        ...

    def is_empty(self, spark: SparkSession, table: Table) -> bool:
        """Return True if a table has no rows. An upsert then appends instead of merging."""
        ...

    def rows(self, spark: SparkSession, table: Table) -> DataFrame:
        """Return the current rows of a table as a DataFrame."""
        ...

    def drop(self, spark: SparkSession, table: Table) -> None:
        """Remove a table from its catalog and delete its files."""
        ...
