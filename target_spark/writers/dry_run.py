"""A writer that writes nothing: it looks at the tables, and says what would become of them.

Rules of the room: it stands before the writer of a format, and of that one it calls only
what reads. What a commit would have made of a table, the next one finds. Every row is
looked at, so what would not fit does not fit here either.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from target_spark.columns import SchemaChange, TableSchema
from target_spark.loader.ledger import CommitMetadata
from target_spark.spark.observation import get_row_count
from target_spark.tables.identifiers import quote
from target_spark.tables.model import CommitStats, MaintenanceOptions, Table, TableLayout
from target_spark.writers.base import MergeKeys, VersionDelete, Writer, latest_by_key
from target_spark.writers.sql import version_delete_condition

__all__ = ["DryRunWriter"]


class DryRunWriter:
    """Stands before a writer; remembers the columns that each table would have."""

    keeps_batch = False

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._types: dict[str, Mapping[str, str]] = {}
        self._new: set[str] = set()

    def can_widen(self, old: str, new: str) -> bool:
        """Tell whether a column's type, as DDL, can be changed in place."""
        return self._writer.can_widen(old, new)

    def table_types(self, spark: SparkSession, table: Table) -> Mapping[str, str] | None:
        """Return each column's type as DDL, as it would be by now."""
        if table.key not in self._types:
            return self._writer.table_types(spark, _as_it_is_known(spark, table))
        return self._types[table.key]

    def create(
        self,
        _spark: SparkSession,
        table: Table,
        layout: TableSchema,
        _design: TableLayout,
        *,
        has_rows: bool = False,  # noqa: ARG002  (of both nothing is written)
    ) -> None:
        """Note a table that would be made."""
        self._new.add(table.key)
        self._types[table.key] = layout.types

    def arranged_otherwise(
        self, spark: SparkSession, table: Table, layout: TableSchema, design: TableLayout
    ) -> str | None:
        """Say how a table is laid out, if it is not as it would be made now."""
        if table.key in self._new:
            return None
        known = _as_it_is_known(spark, table)
        return self._writer.arranged_otherwise(spark, known, layout, design)

    def alter(self, _spark: SparkSession, table: Table, _changes: Sequence[SchemaChange]) -> None:
        """Do nothing: `annotate` brings the columns that come of it."""

    def sources(self, spark: SparkSession, table: Table) -> Mapping[str, str] | None:
        """Return what the table remembers of `Layout.sources`."""
        if table.key in self._new:
            return {}
        return self._writer.sources(spark, _as_it_is_known(spark, table))

    def annotate(self, _spark: SparkSession, table: Table, layout: TableSchema) -> None:
        """Note the columns that the table would have."""
        self._types[table.key] = layout.types

    def allow_nulls(self, _spark: SparkSession, table: Table, _keep: Collection[str]) -> None:
        """Do nothing."""

    def append(
        self,
        _spark: SparkSession,
        _table: Table,
        df: DataFrame,
        _commit: CommitMetadata,
        _rows: int | None = None,
    ) -> CommitStats:
        """Look at every row."""
        return CommitStats(inserted=_looked_at(df))

    def replace(
        self,
        _spark: SparkSession,
        _table: Table,
        df: DataFrame,
        _commit: CommitMetadata,
        _rows: int | None = None,
    ) -> CommitStats:
        """Look at every row."""
        return CommitStats(inserted=_looked_at(df))

    def upsert(
        self,
        spark: SparkSession,
        table: Table,
        df: DataFrame,
        keys: MergeKeys,
        _commit: CommitMetadata,
    ) -> CommitStats:
        """Count the rows that would be new, and those that would not."""
        newest = latest_by_key(df, keys)
        rows = _looked_at(newest)
        if table.key in self._new:
            return CommitStats(inserted=rows)
        columns = [quote(name) for name in keys.columns]
        there = self.rows(spark, table).select(*columns)
        updated = newest.select(*columns).join(there, list(keys.columns), "left_semi").count()
        return CommitStats(inserted=rows - updated, updated=updated)

    def history(
        self,
        _spark: SparkSession,
        _table: Table,
        df: DataFrame,
        _keys: MergeKeys,
        _commit: CommitMetadata,
    ) -> CommitStats:
        """Look at every row; which of them would be new versions is not told."""
        _looked_at(df)
        return CommitStats()

    def retire(
        self, spark: SparkSession, table: Table, retirement: VersionDelete, _commit: CommitMetadata
    ) -> CommitStats:
        """Count the rows that are there and would end."""
        if table.key in self._new:
            return CommitStats()
        rows = self.rows(spark, table)
        if retirement.column not in rows.columns:
            return CommitStats(deleted=rows.count())
        if retirement.deleted is not None and retirement.deleted not in rows.columns:
            rows = rows.withColumn(retirement.deleted, F.lit(None).cast("timestamp"))
        return CommitStats(deleted=rows.where(version_delete_condition(retirement)).count())

    def care(self, _spark: SparkSession, _table: Table, _care: MaintenanceOptions) -> None:
        """Do nothing."""

    def commit_empty(self, _spark: SparkSession, _table: Table, _commit: CommitMetadata) -> None:
        """Do nothing."""

    def last_marker(self, spark: SparkSession, table: Table) -> CommitMetadata | None:
        """Return the newest marker in the table; None where no table or no marker is."""
        return self._writer.last_marker(spark, _as_it_is_known(spark, table))

    def is_empty(self, _spark: SparkSession, _table: Table) -> bool:
        """Say that it may have some; nothing depends on it where nothing is written."""
        return False

    def rows(self, spark: SparkSession, table: Table) -> DataFrame:
        """Return the rows that the table has now."""
        return self._writer.rows(spark, _as_it_is_known(spark, table))

    def drop(self, _spark: SparkSession, _table: Table) -> None:
        """Do nothing."""


def _as_it_is_known(spark: SparkSession, table: Table) -> Table:
    """Return a table by its address where a catalog would have to be told of it first."""
    if (
        not table.identifier
        or not table.path
        or spark.catalog.tableExists(quote(*table.identifier))
    ):
        return table
    return Table(table.path, table.name)


def _looked_at(df: DataFrame) -> int:
    """Let Spark make every row, and return how many there are."""
    observed = Observation()
    rows = df.observe(observed, F.count(F.lit(1)).alias("rows"))
    rows.write.format("noop").mode("overwrite").save()
    return get_row_count(df.sparkSession, observed, lambda: df)
