"""Writer for a dry run, which reads tables and counts the rows that a run would write.

The writer wraps the writer of a table format, and calls only methods that read. The columns that
each table would have are stored, so that later batches see the changes of earlier ones. Spark
computes every row, so conversion errors appear in a dry run too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from target_spark.columns import SchemaChange, TableSchema
from target_spark.spark.row_counts import get_row_count
from target_spark.tables.commit_metadata import CommitMetadata
from target_spark.tables.identifiers import quote
from target_spark.tables.table import CommitStats, MaintenanceOptions, Table, TableLayout
from target_spark.writers.base import MergeKeys, VersionDelete, Writer
from target_spark.writers.deduplication import latest_by_key
from target_spark.writers.sql_statements import version_delete_condition

__all__ = ["DryRunWriter"]


class DryRunWriter:
    """Writer for a dry run: reads tables through the writer of a table format, but changes nothing.

    An instance stores the columns that each table would have after the changes of a real run.
    """

    keeps_batch = False

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._types: dict[str, Mapping[str, str]] = {}
        self._new_tables: set[str] = set()

    def can_widen(self, old: str, new: str) -> bool:
        """Return True if the table format can change a type from ``old`` to ``new`` in place."""
        return self._writer.can_widen(old, new)

    def get_column_types(self, spark: SparkSession, table: Table) -> Mapping[str, str] | None:
        """Return the types (DDL) that the table's columns would have after the batches so far.

        Return None if the table does not exist and `create` was not called for it.
        """
        if table.key not in self._types:
            return self._writer.get_column_types(spark, _strip_unknown_catalog(spark, table))
        return self._types[table.key]

    def create(
        self,
        _spark: SparkSession,
        table: Table,
        table_schema: TableSchema,
        _layout: TableLayout,
        *,
        has_rows: bool = False,  # noqa: ARG002  (a dry run writes nothing in either case)
    ) -> None:
        """Store in memory the columns that a real run would create. Nothing is created."""
        self._new_tables.add(table.key)
        self._types[table.key] = table_schema.types

    def describe_layout_mismatch(
        self, spark: SparkSession, table: Table, table_schema: TableSchema, layout: TableLayout
    ) -> str | None:
        """Describe an existing table's partitioning if it differs from the settings.

        Return None if there is no difference or no table.
        """
        if table.key in self._new_tables:
            return None
        readable = _strip_unknown_catalog(spark, table)
        return self._writer.describe_layout_mismatch(spark, readable, table_schema, layout)

    def get_partition_columns(self, spark: SparkSession, table: Table) -> Collection[str]:
        """Return the partition columns of an existing table that store some texts as null."""
        if table.key in self._new_tables:
            return ()
        return self._writer.get_partition_columns(spark, _strip_unknown_catalog(spark, table))

    def alter(self, _spark: SparkSession, table: Table, _changes: Sequence[SchemaChange]) -> None:
        """Do nothing. The changed columns are stored by `annotate`, which is called next."""

    def sources(self, spark: SparkSession, table: Table) -> Mapping[str, str] | None:
        """Return the source property of each renamed column: ``{"`user_id`": "user-id"}``.

        The result is empty for a table that does not exist yet, and None for a table that another
        program created.
        """
        if table.key in self._new_tables:
            return {}
        return self._writer.sources(spark, _strip_unknown_catalog(spark, table))

    def annotate(self, _spark: SparkSession, table: Table, table_schema: TableSchema) -> None:
        """Store in memory the columns that the table would have after a real run."""
        self._types[table.key] = table_schema.types

    def drop_not_null(self, _spark: SparkSession, table: Table, _keep: Collection[str]) -> None:
        """Do nothing, since a dry run changes no column."""

    def append(
        self, _table: Table, df: DataFrame, _commit: CommitMetadata, _rows: int | None = None
    ) -> CommitStats:
        """Compute all rows, to find errors, and return their number. A dry run writes nothing."""
        return CommitStats(inserted=_compute_rows(df))

    replace = append

    def upsert(
        self, table: Table, df: DataFrame, keys: MergeKeys, _commit: CommitMetadata
    ) -> CommitStats:
        """Return the numbers of rows that a MERGE of the batch would insert and update.

        Delete records are counted like other rows. A dry run writes nothing.
        """
        newest = latest_by_key(df, keys)
        rows = _compute_rows(newest)
        if table.key in self._new_tables:
            return CommitStats(inserted=rows)
        columns = [quote(name) for name in keys.columns]
        existing = self.rows(df.sparkSession, table).select(*columns)
        updated = newest.select(*columns).join(existing, list(keys.columns), "left_semi").count()
        return CommitStats(inserted=rows - updated, updated=updated)

    def history(
        self, _table: Table, df: DataFrame, _keys: MergeKeys, _commit: CommitMetadata
    ) -> CommitStats:
        """Compute every row of the batch to find errors. A dry run writes nothing.

        The returned statistics are all 0, because the new row versions (SCD2) are not computed.
        """
        _compute_rows(df)
        return CommitStats()

    def delete_versions(
        self, spark: SparkSession, table: Table, deletion: VersionDelete, _commit: CommitMetadata
    ) -> CommitStats:
        """Return the number of rows that a real run would delete, or mark as deleted, in a table.

        These are the rows of all Singer table versions but the activated one. A dry run deletes
        none.
        """
        if table.key in self._new_tables:
            return CommitStats()
        rows = self.rows(spark, table)
        if deletion.column not in rows.columns:
            return CommitStats(deleted=rows.count())
        if deletion.deleted is not None and deletion.deleted not in rows.columns:
            rows = rows.withColumn(deletion.deleted, F.lit(None).cast("timestamp"))
        return CommitStats(deleted=rows.where(version_delete_condition(deletion)).count())

    def maintain(self, _spark: SparkSession, _table: Table, _options: MaintenanceOptions) -> None:
        """Do nothing, since a dry run maintains no table."""

    def commit_empty(self, _spark: SparkSession, _table: Table, _commit: CommitMetadata) -> None:
        """Do nothing, since a dry run commits nothing."""

    def get_last_metadata(
        self, spark: SparkSession, table: Table, known: CommitMetadata | None = None
    ) -> CommitMetadata | None:
        """Return the metadata that target-spark stored in its newest commit to a table, or None."""
        return self._writer.get_last_metadata(spark, _strip_unknown_catalog(spark, table), known)

    def is_empty(self, _spark: SparkSession, _table: Table) -> bool:
        """Return False, so that each batch is processed as if the table had rows."""
        return False

    def rows(self, spark: SparkSession, table: Table) -> DataFrame:
        """Return the current rows of the table as a DataFrame."""
        return self._writer.rows(spark, _strip_unknown_catalog(spark, table))

    def drop(self, _spark: SparkSession, _table: Table) -> None:
        """Do nothing, since a dry run removes no table."""


def _strip_unknown_catalog(spark: SparkSession, table: Table) -> Table:
    """Return a table without its catalog name if the catalog does not contain the table.

    A table that exists only at its path can then be read by its path.
    """
    if (
        not table.identifier
        or not table.path
        or spark.catalog.tableExists(quote(*table.identifier))
    ):
        return table
    return Table(table.path, table.name)


def _compute_rows(df: DataFrame) -> int:
    """Compute every row of a DataFrame without storing the rows, and return their number."""
    observed = Observation()
    rows = df.observe(observed, F.count(F.lit(1)).alias("rows"))
    rows.write.format("noop").mode("overwrite").save()
    return get_row_count(df.sparkSession, observed, lambda: df)
