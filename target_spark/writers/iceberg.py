"""Apache Iceberg tables, by their folder or by their name in a catalog.

Rules of the room: a write and its marker are one snapshot, in its summary. Iceberg has no
transaction ids: a batch that is repeated because its answer was lost is found by reading
the newest snapshots before the write. A catalog may make the first commit even later, and
Iceberg would put the second one on top. So an empty commit goes before that look: each
commit names the snapshot that it follows, and the first one comes too late from then on.
After each write the snapshot is read back. What changes rows goes through MERGE, never
DELETE or UPDATE, because a DELETE that only takes whole files away forgets the marker.
Settings of the session carry it into MERGE, which is why each writing thread has a session
of its own.

A change of columns makes no snapshot, so it hides no marker. The property
``write.spark.accept-any-schema`` is never set: it breaks every later MERGE.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from pyspark.sql import DataFrame, DataFrameWriterV2, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from target_spark.columns import Change, Layout
from target_spark.errors import CommitLostError, TableError, UnsupportedError
from target_spark.folders import remove_folder
from target_spark.ledger import Marker
from target_spark.names import instant, quote
from target_spark.retries import Fault, fault_of, first_line
from target_spark.tables import Care, Design, Effect, Table
from target_spark.writers.base import (
    ONLY_DELETE,
    Keys,
    Retirement,
    after,
    column_ddl,
    newest_by_key,
    removed_meanwhile,
)
from target_spark.writers.iceberg_care import compact, expire, remove_strays
from target_spark.writers.iceberg_design import design_words, order_words, parted_otherwise
from target_spark.writers.iceberg_log import (
    PROPERTY,
    Snapshot,
    effect_of,
    has_table,
    newest_marker,
    refuse_other_tables,
    snapshots,
    table_folder,
    written,
)
from target_spark.writers.iceberg_place import exists, place_of
from target_spark.writers.notes import nullable_columns, sources_in, to_annotate
from target_spark.writers.statements import (
    BATCH,
    alterations,
    as_first_rows,
    columns_of,
    merge,
    to_retire,
    with_settings,
)
from target_spark.writers.widening import iceberg_widens

__all__ = ["ONCE", "IcebergWriter"]

_SETTING = f"spark.sql.iceberg.snapshot-property.{PROPERTY}"
_OPTION = f"snapshot-property.{PROPERTY}"
ONCE = {"distribution-mode": "hash"}
"""Rows of a sorted table would be divided by ranges, for which Spark makes all of them twice."""

_UNSURE = {Fault.PASSING, Fault.AWAY}
"""Failures after which a catalog may still make the commit."""

_REFUSALS = ("iceberg.exceptions.ValidationException", "IllegalArgumentException")


class IcebergWriter:
    """Writes Iceberg tables; remembers of each what it found and did in this run."""

    keeps_batch = False

    def __init__(self) -> None:
        self._newest: dict[str, Marker | None] = {}
        self._acknowledged: dict[str, Marker] = {}
        self._ids: dict[str, int] = {}
        self._unsure: set[str] = set()
        self._fresh: set[str] = set()
        self._filled: set[str] = set()

    def can_widen(self, old: str, new: str) -> bool:
        """Tell whether a column's type, as DDL, can be changed in place."""
        return iceberg_widens(old, new)

    def table_types(self, spark: SparkSession, table: Table) -> Mapping[str, str] | None:
        """Return each column's type as DDL, in order; None where there is no table.

        Raises:
            TableError: there are files, but no Iceberg table.
        """
        folder = table_folder(table)
        if folder is not None and not has_table(folder):
            refuse_other_tables(folder)
            return None
        place = place_of(spark, table)
        if folder is None and not exists(spark, place):
            return None
        schema = spark.table(place.ref).schema
        return {field.name: column_ddl(field) for field in schema.fields}

    def create(
        self,
        spark: SparkSession,
        table: Table,
        layout: Layout,
        design: Design,
        *,
        has_rows: bool = False,  # noqa: ARG002  (a snapshot needs a table that is there)
    ) -> None:
        """Make an empty table, and its database in a catalog that does not have it.

        Raises:
            TableError: Iceberg refuses the columns or the design.
        """
        place = place_of(spark, table)
        with _refusals(table):
            if table.identifier and not spark.catalog.databaseExists(
                quote(place.catalog, *place.database)
            ):
                spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {quote(place.catalog, *place.database)}")
            spark.sql(
                f"CREATE TABLE IF NOT EXISTS {place.ref} ({columns_of(layout)}) USING iceberg"
                f"{design_words(layout, design)}"
            )
            order = order_words(layout, design)
            if order:
                spark.sql(f"ALTER TABLE {place.ref} {order}")
        self._fresh.add(table.key)

    def alter(self, spark: SparkSession, table: Table, changes: Sequence[Change]) -> None:
        """Add columns and fields, and widen types.

        Raises:
            TableError: Iceberg refuses a change.
        """
        ref = place_of(spark, table).ref
        with _refusals(table):
            for words in alterations(changes):
                spark.sql(f"ALTER TABLE {ref} {words}")

    def sources(self, spark: SparkSession, table: Table) -> Mapping[str, str] | None:
        """Return what the table remembers of `Layout.sources`; None if it is none of ours."""
        return sources_in(spark, place_of(spark, table).ref)

    def annotate(self, spark: SparkSession, table: Table, layout: Layout) -> None:
        """Let the table remember the layout's sources, and have its comments."""
        ref = place_of(spark, table).ref
        for words in to_annotate(spark, ref, layout):
            spark.sql(f"ALTER TABLE {ref} {words}")

    def allow_nulls(self, spark: SparkSession, table: Table, keep: Collection[str]) -> None:
        """Let all columns of the table take nulls but those to ``keep``."""
        ref = place_of(spark, table).ref
        for words in nullable_columns(spark.table(ref).schema, keep):
            spark.sql(f"ALTER TABLE {ref} {words}")

    def append(self, spark: SparkSession, table: Table, df: DataFrame, commit: Marker) -> Effect:
        """Add the rows of a batch."""

        def write(ref: str, marker: str) -> None:
            df.writeTo(ref).options(**{_OPTION: marker, **ONCE}).append()

        return self._commit(spark, table, commit, write)

    def replace(self, spark: SparkSession, table: Table, df: DataFrame, commit: Marker) -> Effect:
        """Put these rows in the place of all others; readers see the old until then."""

        def write(ref: str, marker: str) -> None:
            rows = df.writeTo(ref).options(**{_OPTION: marker, **ONCE})
            rows.overwrite(F.lit(True))  # noqa: FBT003

        return self._commit(spark, table, commit, write)

    def commit_empty(self, spark: SparkSession, table: Table, commit: Marker) -> None:
        """Commit a marker without rows."""

        def write(ref: str, marker: str) -> None:
            _append_nothing(spark, ref, marker)

        self._commit(spark, table, commit, write)

    def upsert(
        self, spark: SparkSession, table: Table, df: DataFrame, keys: Keys, commit: Marker
    ) -> Effect:
        """Replace the rows that have the batch's keys, and add those that are new."""
        newest = newest_by_key(df, keys)
        if self.is_empty(spark, table):  # nothing to meet: an append costs less
            return self.append(spark, table, as_first_rows(newest, keys), commit)
        columns = [name for name in newest.columns if name != ONLY_DELETE]

        def write(ref: str, marker: str) -> None:
            newest.createOrReplaceTempView(BATCH)
            try:
                with with_settings(spark, {_SETTING: marker}):
                    spark.sql(merge(ref, columns, keys))
            finally:
                spark.catalog.dropTempView(BATCH)

        return self._commit(spark, table, commit, write, merged=True)

    def history(
        self,
        _spark: SparkSession,
        table: Table,
        _df: DataFrame,
        _keys: Keys,
        _commit: Marker,
        /,
    ) -> Effect:
        """Refuse.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError(
            f"Iceberg tables keep no versions of rows (table {table.name}): write_mode scd2 is"
            " for Delta Lake. Set format to delta, or write_mode to upsert."
        )

    def retire(
        self, spark: SparkSession, table: Table, retirement: Retirement, commit: Marker
    ) -> Effect:
        """End the rows of other versions, in one commit."""

        def write(ref: str, marker: str) -> None:
            with with_settings(spark, {_SETTING: marker}):
                spark.sql(_retire(ref, retirement))

        return self._commit(spark, table, commit, write, merged=True)

    def arranged_otherwise(
        self, spark: SparkSession, table: Table, layout: Layout, design: Design
    ) -> str | None:
        """Say how a table is laid out, if it is not as it would be made now."""
        if not design.partition_by:
            return None
        (told,) = spark.sql(f"SHOW CREATE TABLE {place_of(spark, table).ref}").collect()
        return parted_otherwise(told[0], layout, design)

    def care(self, spark: SparkSession, table: Table, care: Care) -> None:
        """Tidy the table; the newest snapshot has the newest marker before any is expired."""
        place = place_of(spark, table)
        if care.compact:
            compact(spark, place)
        marker = newest_marker(spark, table)
        newest = next(snapshots(spark, table), None)
        if newest is not None and marker is not None and newest.marker is None:
            _append_nothing(spark, place.ref, written(marker))
        if care.retain_days is not None:
            expire(spark, place, care.retain_days)
            remove_strays(spark, table, place, care.retain_days)

    def last_marker(self, spark: SparkSession, table: Table) -> Marker | None:
        """Return the newest marker in the table; None where no table or no marker is."""
        return newest_marker(spark, table)

    def rows(self, spark: SparkSession, table: Table) -> DataFrame:
        """Return the rows that the table has now."""
        return spark.table(place_of(spark, table).ref)

    def drop(self, spark: SparkSession, table: Table) -> None:
        """Remove the table and its files."""
        if table.identifier:
            spark.sql(f"DROP TABLE IF EXISTS {place_of(spark, table).ref} PURGE")
        else:
            remove_folder(spark, table.path)
        for known in (self._newest, self._acknowledged, self._ids):
            known.pop(table.key, None)
        for kind in (self._fresh, self._filled, self._unsure):
            kind.discard(table.key)

    def _commit(
        self,
        spark: SparkSession,
        table: Table,
        commit: Marker,
        write: Callable[[str, str], None],
        *,
        merged: bool = False,
    ) -> Effect:
        """Write a batch unless the table has it, and hold the snapshot against it."""
        acknowledged = commit.same_batch(self._acknowledged.get(table.key))
        try:
            self._overtake(spark, table)
            before = self._before(spark, table)
            marker = after(before, commit, table, acknowledged=acknowledged)
            if not commit.same_batch(before):
                write(place_of(spark, table).ref, written(marker))
            snapshot = self._verify(spark, table, commit)
        except BaseException as error:  # it may be in the table all the same, or on its way
            self._newest.pop(table.key, None)
            if fault_of(error) in _UNSURE and table_folder(table) is None:
                self._unsure.add(table.key)
            raise
        self._newest[table.key] = self._acknowledged[table.key] = marker
        self._ids[table.key] = snapshot.id
        self._fresh.discard(table.key)
        self._filled.add(table.key)
        return effect_of(snapshot, merged=merged)

    def _overtake(self, spark: SparkSession, table: Table) -> None:
        """Let a commit that may still be on its way come too late."""
        if table.key in self._unsure:
            _nothing(spark, place_of(spark, table).ref).append()
            self._unsure.discard(table.key)

    def _before(self, spark: SparkSession, table: Table) -> Marker | None:
        if table.key not in self._newest:
            self._newest[table.key] = newest_marker(spark, table)
        return self._newest[table.key]

    def is_empty(self, spark: SparkSession, table: Table) -> bool:
        """Tell whether a table has no rows; asked of Iceberg once in a run."""
        if table.key not in self._fresh | self._filled:
            newest = next(snapshots(spark, table), None)
            empty = newest is None or newest.summary.get("total-records") == "0"
            (self._fresh if empty else self._filled).add(table.key)
        return table.key in self._fresh

    def _verify(self, spark: SparkSession, table: Table, commit: Marker) -> Snapshot:
        """Read the snapshots: the newest of this run must be the batch just written."""
        line = list(snapshots(spark, table))
        last = self._ids.get(table.key)
        whole = bool(line) and line[-1].parent is None  # nothing is expired
        if last is not None and whole and all(snapshot.id != last for snapshot in line):
            raise removed_meanwhile(table)
        for snapshot in line:
            marker = snapshot.marker
            if marker is not None and (marker.job, marker.run) == (commit.job, commit.run):
                if commit.same_batch(marker):
                    return snapshot
                break
        raise CommitLostError(
            f"Batch {commit.batch} of table {table.name} was written without an error, but no"
            " snapshot of the table says that it is this batch: another writer's word stands"
            " in its place, or the table was rolled back. No state that covers its rows leaves."
        )


def _append_nothing(spark: SparkSession, ref: str, marker: str) -> None:
    _nothing(spark, ref).option(_OPTION, marker).append()


def _nothing(spark: SparkSession, ref: str) -> DataFrameWriterV2:
    return spark.table(ref).where(F.lit(False)).writeTo(ref)  # noqa: FBT003


def _retire(ref: str, retirement: Retirement) -> str:
    """Return a MERGE of one row with all those of other versions."""
    action = "DELETE"
    if retirement.deleted is not None:
        action = f"UPDATE SET {quote(retirement.deleted)} = {instant(retirement.at)}"
    return (
        f"MERGE INTO {ref} USING (SELECT 1) AS one ON {to_retire(retirement)}"
        f" WHEN MATCHED THEN {action}"
    )


@contextmanager
def _refusals(table: Table) -> Iterator[None]:
    """Say what Iceberg does not want, without the stack of the JVM."""
    try:
        yield
    except Exception as error:
        if not any(name in f"{type(error).__name__} {error}" for name in _REFUSALS):
            raise
        raise TableError(
            f"Iceberg refuses the columns or the layout of table {table.name} ({table.key}):"
            f" {first_line(error)}. Nothing was written to it. Stream maps can rename or"
            " drop a property; partition_by and sort_by are settings."
        ) from error
