"""A writer that writes nothing: it looks at the tables, and says what would become of them.

Rules of the room: it stands before the writer of a format, and of that one it calls only
what reads. What a commit would have made of a table, the next one finds. Every row is
looked at, so what would not fit does not fit here either.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from target_spark.columns import Change, Layout
from target_spark.ledger import Marker
from target_spark.names import quote
from target_spark.observed import rows_seen
from target_spark.tables import Care, Design, Effect, Table
from target_spark.writers.base import Keys, Retirement, Writer, newest_by_key
from target_spark.writers.statements import to_retire

__all__ = ["DryWriter"]


class DryWriter:
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
        layout: Layout,
        _design: Design,
        *,
        has_rows: bool = False,  # noqa: ARG002  (of both nothing is written)
    ) -> None:
        """Note a table that would be made."""
        self._new.add(table.key)
        self._types[table.key] = layout.types

    def arranged_otherwise(
        self, spark: SparkSession, table: Table, layout: Layout, design: Design
    ) -> str | None:
        """Say how a table is laid out, if it is not as it would be made now."""
        if table.key in self._new:
            return None
        known = _as_it_is_known(spark, table)
        return self._writer.arranged_otherwise(spark, known, layout, design)

    def alter(self, _spark: SparkSession, table: Table, _changes: Sequence[Change]) -> None:
        """Do nothing: `annotate` brings the columns that come of it."""

    def sources(self, spark: SparkSession, table: Table) -> Mapping[str, str] | None:
        """Return what the table remembers of `Layout.sources`."""
        if table.key in self._new:
            return {}
        return self._writer.sources(spark, _as_it_is_known(spark, table))

    def annotate(self, _spark: SparkSession, table: Table, layout: Layout) -> None:
        """Note the columns that the table would have."""
        self._types[table.key] = layout.types

    def allow_nulls(self, _spark: SparkSession, table: Table, _keep: Collection[str]) -> None:
        """Do nothing."""

    def append(
        self,
        _spark: SparkSession,
        _table: Table,
        df: DataFrame,
        _commit: Marker,
        _rows: int | None = None,
    ) -> Effect:
        """Look at every row."""
        return Effect(inserted=_looked_at(df))

    def replace(
        self,
        _spark: SparkSession,
        _table: Table,
        df: DataFrame,
        _commit: Marker,
        _rows: int | None = None,
    ) -> Effect:
        """Look at every row."""
        return Effect(inserted=_looked_at(df))

    def upsert(
        self, spark: SparkSession, table: Table, df: DataFrame, keys: Keys, _commit: Marker
    ) -> Effect:
        """Count the rows that would be new, and those that would not."""
        newest = newest_by_key(df, keys)
        rows = _looked_at(newest)
        if table.key in self._new:
            return Effect(inserted=rows)
        columns = [quote(name) for name in keys.columns]
        there = self.rows(spark, table).select(*columns)
        updated = newest.select(*columns).join(there, list(keys.columns), "left_semi").count()
        return Effect(inserted=rows - updated, updated=updated)

    def history(
        self, _spark: SparkSession, _table: Table, df: DataFrame, _keys: Keys, _commit: Marker
    ) -> Effect:
        """Look at every row; which of them would be new versions is not told."""
        _looked_at(df)
        return Effect()

    def retire(
        self, spark: SparkSession, table: Table, retirement: Retirement, _commit: Marker
    ) -> Effect:
        """Count the rows that are there and would end."""
        if table.key in self._new:
            return Effect()
        rows = self.rows(spark, table)
        if retirement.column not in rows.columns:
            return Effect(deleted=rows.count())
        if retirement.deleted is not None and retirement.deleted not in rows.columns:
            rows = rows.withColumn(retirement.deleted, F.lit(None).cast("timestamp"))
        return Effect(deleted=rows.where(to_retire(retirement)).count())

    def care(self, _spark: SparkSession, _table: Table, _care: Care) -> None:
        """Do nothing."""

    def commit_empty(self, _spark: SparkSession, _table: Table, _commit: Marker) -> None:
        """Do nothing."""

    def last_marker(self, spark: SparkSession, table: Table) -> Marker | None:
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
    return rows_seen(df.sparkSession, observed, lambda: df)
