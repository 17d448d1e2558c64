"""Apache Iceberg tables, by their folder or by their name in a catalog.

A write and its marker are one snapshot, in its summary. Iceberg has no transaction ids: a batch
that is repeated because its answer was lost is found by reading the newest snapshots before the
write. A catalog or a file system may make the first commit even later, and Iceberg would put the
second one on top. So an empty commit goes before that look: each commit names the snapshot that it
follows, and the first one comes too late from then on. A commit whose files Iceberg removed, since
it took it for failed, is taken back. Before each commit the table must be the one that was first
looked at; after it the snapshot is read back, and must have the rows and files that were written.
What changes rows goes through MERGE, never DELETE or UPDATE, because a DELETE that only takes whole
files away forgets the marker. Settings of the session carry it into MERGE, which is why each
writing thread has a session of its own.

A change of columns makes no snapshot, so it hides no marker. The property
``write.spark.accept-any-schema`` is never set: it breaks every later MERGE.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, DataFrameWriterV2, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from target_spark.columns import IS_CURRENT, SchemaChange, TableSchema
from target_spark.errors import (
    CommitLostError,
    ConflictError,
    RowCountError,
    TableError,
    TargetSparkError,
)
from target_spark.loader.ledger import CommitMetadata
from target_spark.spark.observation import Count, counted
from target_spark.storage.hadoop_fs import remove_folder
from target_spark.storage.retry import FailureKind, classify_failure, first_error_line
from target_spark.tables.identifiers import quote
from target_spark.tables.model import CommitStats, MaintenanceOptions, Table, TableLayout
from target_spark.writers.base import (
    DELETE_ONLY_COLUMN,
    MergeKeys,
    VersionDelete,
    column_ddl,
    latest_by_key,
    next_marker,
    same_table,
    table_removed_error,
)
from target_spark.writers.iceberg.catalog import catalog_table_exists, resolve_table
from target_spark.writers.iceberg.commit_repair import find_missing_file, take_back
from target_spark.writers.iceberg.layout import (
    build_layout_ddl,
    build_sort_order,
    describe_partition_mismatch,
)
from target_spark.writers.iceberg.maintenance import compact, expire_snapshots, remove_orphan_files
from target_spark.writers.iceberg.snapshots import (
    PROPERTY,
    IcebergSnapshot,
    check_files,
    check_is_iceberg,
    check_isolation,
    get_table_uuid,
    latest_marker,
    parse_summary,
    snapshot_properties,
    snapshots,
    table_exists,
    table_folder,
)
from target_spark.writers.merge_statement import Matched, Merge, build_upsert
from target_spark.writers.scd2 import (
    build_adoption_sql,
    build_merge_sql,
    compute_changes,
    initial_versions,
)
from target_spark.writers.sql import (
    as_initial_rows,
    build_alter_statements,
    ended,
    get_columns,
    spark_conf,
    version_delete_condition,
)
from target_spark.writers.table_properties import (
    build_annotations,
    nullable_columns,
    properties_in,
    read_sources,
)
from target_spark.writers.type_widening import iceberg_widens

__all__ = ["FANOUT_OPTIONS", "IcebergWriter", "emptiness", "insert_first"]

_SETTING = f"spark.sql.iceberg.snapshot-property.{PROPERTY}"
_OPTION = f"snapshot-property.{PROPERTY}"
FANOUT_OPTIONS = {"distribution-mode": "hash"}
"""Rows of a sorted table would be divided by ranges, for which Spark makes all of them twice."""

_UNSURE = {FailureKind.PASSING, FailureKind.AWAY}
"""Failures after which a catalog may still make the commit."""

_TABLE_MAY_BE_WHY: Final = {FailureKind.LASTING, FailureKind.STALE, FailureKind.CONFLICT}
"""Failures that a table which was removed or replaced can cause."""

_REFUSALS = ("iceberg.exceptions.ValidationException", "IllegalArgumentException")


@dataclass
class _Known:
    """What a run knows of one table.

    ``uuid`` is Iceberg's, of the table that was first looked at. ``newest`` is the newest marker in
    it, once it was ``looked_for``. ``snapshot`` is the id of the run's last commit. ``is_empty`` is
    None where it is not known; ``empty_at`` is the snapshot without rows, None where none was.
    ``is_unsure`` says that a commit which failed may still be made.
    """

    uuid: str | None = None
    newest: CommitMetadata | None = None
    looked_for: bool = False
    acknowledged: CommitMetadata | None = None
    snapshot: int | None = None
    is_empty: bool | None = None
    empty_at: int | None = None
    is_unsure: bool = False
    adopted: bool = False


class IcebergWriter:
    """Writes Iceberg tables; remembers of each what it found and did in this run."""

    keeps_batch = False

    def __init__(self) -> None:
        self._tables: defaultdict[str, _Known] = defaultdict(_Known)

    def can_widen(self, old: str, new: str) -> bool:
        """Tell whether a column's type, as DDL, can be changed in place."""
        return iceberg_widens(old, new)

    def table_types(self, spark: SparkSession, table: Table) -> Mapping[str, str] | None:
        """Return each column's type as DDL, in order; None where there is no table.

        Raises:
            TableError: there are files, but no Iceberg table; or another table than before.
        """
        self._check_same(spark, table)
        folder = table_folder(table)
        if folder is not None and not table_exists(folder):
            check_is_iceberg(folder)
            return None
        place = resolve_table(spark, table)
        if folder is None and not catalog_table_exists(spark, place):
            return None
        schema = spark.table(place.ref).schema
        return {field.name: column_ddl(field) for field in schema.fields}

    def create(
        self,
        spark: SparkSession,
        table: Table,
        layout: TableSchema,
        design: TableLayout,
        *,
        has_rows: bool = False,  # noqa: ARG002  (a snapshot needs a table that is there)
    ) -> None:
        """Make an empty table, and its database in a catalog that does not have it.

        Raises:
            TableError: Iceberg refuses the columns or the design.
        """
        with _refusals(table):
            _make(spark, table, layout, design)
        known = self._tables[table.key]
        known.is_empty, known.empty_at = True, None
        self._check_same(spark, table)

    def alter(self, spark: SparkSession, table: Table, changes: Sequence[SchemaChange]) -> None:
        """Add columns and fields, and widen types.

        Raises:
            TableError: Iceberg refuses a change.
        """
        with _refusals(table):
            self._alter(spark, table, build_alter_statements(changes))

    def sources(self, spark: SparkSession, table: Table) -> Mapping[str, str] | None:
        """Return what the table remembers of `Layout.sources`; None if it is none of ours."""
        return read_sources(properties_in(spark, resolve_table(spark, table).ref))

    def annotate(self, spark: SparkSession, table: Table, layout: TableSchema) -> None:
        """Let the table remember the layout's sources, and have its comments."""
        ref = resolve_table(spark, table).ref
        found = build_annotations(properties_in(spark, ref), spark.table(ref).schema, layout)
        self._alter(spark, table, found)

    def allow_nulls(self, spark: SparkSession, table: Table, keep: Collection[str]) -> None:
        """Let all columns of the table take nulls but those to ``keep``."""
        schema = spark.table(resolve_table(spark, table).ref).schema
        self._alter(spark, table, nullable_columns(schema, keep))

    def _alter(self, spark: SparkSession, table: Table, alterations: Iterable[str]) -> None:
        for words in alterations:
            self._check_same(spark, table)
            spark.sql(f"ALTER TABLE {resolve_table(spark, table).ref} {words}")

    def append(
        self,
        spark: SparkSession,
        table: Table,
        df: DataFrame,
        commit: CommitMetadata,
        rows: int | None = None,
    ) -> CommitStats:
        """Add the rows of a batch."""
        df, count = counted(df, rows)

        def write(ref: str, marker: str) -> None:
            df.writeTo(ref).options(**{_OPTION: marker, **FANOUT_OPTIONS}).append()

        return self._commit(spark, table, commit, write, rows=count)

    def replace(
        self,
        spark: SparkSession,
        table: Table,
        df: DataFrame,
        commit: CommitMetadata,
        rows: int | None = None,
    ) -> CommitStats:
        """Put these rows in the place of all others; readers see the old until then."""
        df, count = counted(df, rows)

        def write(ref: str, marker: str) -> None:
            options = {_OPTION: marker, **FANOUT_OPTIONS}
            df.writeTo(ref).options(**options).overwrite(F.lit(True))  # noqa: FBT003

        return self._commit(spark, table, commit, write, rows=count)

    def commit_empty(self, spark: SparkSession, table: Table, commit: CommitMetadata) -> None:
        """Commit a marker without rows."""

        def write(ref: str, marker: str) -> None:
            _append_nothing(spark, ref, marker)

        self._commit(spark, table, commit, write, rows=lambda _: 0)

    def upsert(
        self,
        spark: SparkSession,
        table: Table,
        df: DataFrame,
        keys: MergeKeys,
        commit: CommitMetadata,
    ) -> CommitStats:
        """Replace the rows that have the batch's keys, and add those that are new."""
        newest = latest_by_key(df, keys)
        if self.is_empty(spark, table):  # nothing to meet: an append costs less
            return self._fill(spark, table, as_initial_rows(newest, keys), commit)
        columns = [name for name in newest.columns if name != DELETE_ONLY_COLUMN]
        skips_rows = keys.hard_delete or keys.by_cursor or keys.removed is not None
        how = build_upsert(resolve_table(spark, table).ref, columns, keys)
        return self._merge(spark, table, newest, how, commit, counts=not skips_rows)

    def history(
        self,
        spark: SparkSession,
        table: Table,
        df: DataFrame,
        keys: MergeKeys,
        commit: CommitMetadata,
    ) -> CommitStats:
        """Keep the versions of each row: what differs ends the current one and begins another."""
        if self.is_empty(spark, table):
            return self._fill(spark, table, initial_versions(df, keys), commit)
        self._adopt(spark, table, keys.deleted, commit)
        columns = [name for name in df.columns if name != keys.order]
        how = build_merge_sql(resolve_table(spark, table).ref, columns, keys)
        seen = next(snapshots(spark, table), None)
        found = compute_changes(df, self.rows(spark, table), keys, commit.run_started * 1000)
        return self._merge(spark, table, found, how, commit, read_at=seen)

    def retire(
        self, spark: SparkSession, table: Table, retirement: VersionDelete, commit: CommitMetadata
    ) -> CommitStats:
        """End the rows of other versions, in one commit."""
        if retirement.history:
            self._adopt(spark, table, retirement.deleted, commit)

        def write(ref: str, marker: str) -> None:
            how = Merge(
                ref, version_delete_condition(retirement), [Matched(ended(retirement) or None)]
            )
            with spark_conf(spark, {_SETTING: marker}):
                how.run(spark.sql("SELECT 1"))

        return self._commit(spark, table, commit, write, merged=True)

    def arranged_otherwise(
        self, spark: SparkSession, table: Table, layout: TableSchema, design: TableLayout
    ) -> str | None:
        """Say how a table is laid out, if it is not as it would be made now."""
        if not design.partition_by:
            return None
        (told,) = spark.sql(f"SHOW CREATE TABLE {resolve_table(spark, table).ref}").collect()
        return describe_partition_mismatch(told[0], layout, design)

    def care(self, spark: SparkSession, table: Table, care: MaintenanceOptions) -> None:
        """Tidy the table; the newest snapshot has the newest marker before any is expired."""
        self._check_same(spark, table)
        place = resolve_table(spark, table)
        if care.compact:
            compact(spark, place)
        marker = latest_marker(spark, table)
        newest = next(snapshots(spark, table), None)
        if newest is not None and marker is not None and newest.marker is None:
            _append_nothing(spark, place.ref, snapshot_properties(marker))
        if care.retain_days is not None:
            expire_snapshots(spark, place, care.retain_days)
            remove_orphan_files(spark, table, place, care.retain_days)

    def last_marker(self, spark: SparkSession, table: Table) -> CommitMetadata | None:
        """Return the newest marker in the table; None where no table or no marker is."""
        return latest_marker(spark, table)

    def rows(self, spark: SparkSession, table: Table) -> DataFrame:
        """Return the rows that the table has now."""
        return spark.table(resolve_table(spark, table).ref)

    def drop(self, spark: SparkSession, table: Table) -> None:
        """Remove the table and its files."""
        if table.identifier:
            spark.sql(f"DROP TABLE IF EXISTS {resolve_table(spark, table).ref} PURGE")
        else:
            remove_folder(spark, table.path)
        self._tables.pop(table.key, None)

    def is_empty(self, spark: SparkSession, table: Table) -> bool:
        """Tell whether a table had no rows when it was last looked at."""
        known = self._tables[table.key]
        if known.is_empty is None:
            known.is_empty, known.empty_at = emptiness(spark, table)
        return known.is_empty

    def _adopt(
        self, spark: SparkSession, table: Table, deleted: str | None, commit: CommitMetadata
    ) -> None:
        """Make versions of rows that were written before the table had any, from this run on."""
        known = self._tables[table.key]
        if known.adopted:
            return
        strange = F.col(quote(IS_CURRENT)).isNull()
        if not self.rows(spark, table).where(strange).isEmpty():
            self._check_same(spark, table)
            ref = resolve_table(spark, table).ref
            spark.sql(build_adoption_sql(ref, commit.run_started * 1000, deleted))
        known.adopted = True

    # Commits

    def _fill(
        self, spark: SparkSession, table: Table, df: DataFrame, commit: CommitMetadata
    ) -> CommitStats:
        """Append the first rows of a table, unless others have added some since a look at it."""
        df, count = counted(df, None)
        empty_at = self._tables[table.key].empty_at

        def write(ref: str, marker: str) -> None:
            insert_first(df.writeTo(ref).option(_OPTION, marker), empty_at)

        return self._commit(spark, table, commit, write, rows=count)

    def _merge(
        self,
        spark: SparkSession,
        table: Table,
        batch: DataFrame,
        how: Merge,
        commit: CommitMetadata,
        *,
        counts: bool = True,
        read_at: IcebergSnapshot | None = None,
    ) -> CommitStats:
        """Let a MERGE make the commit; with ``counts`` each row inserts or updates one.

        ``read_at`` is the snapshot of which the batch was made, where it was made of one.
        """
        batch, count = counted(batch, None)

        def write(_ref: str, marker: str) -> None:
            with spark_conf(spark, {_SETTING: marker}):
                how.run(batch)
            if read_at is not None and spark.version.startswith("4.0."):
                _check_unchanged(spark, table, read_at, commit)

        source = count if counts else None
        return self._commit(spark, table, commit, write, source=source, merged=True)

    def _commit(
        self,
        spark: SparkSession,
        table: Table,
        commit: CommitMetadata,
        write: Callable[[str, str], None],
        *,
        rows: Count | None = None,
        source: Count | None = None,
        merged: bool = False,
    ) -> CommitStats:
        """Write a batch unless the table has it, and hold the snapshot against it.

        ``rows`` are those that the commit adds, ``source`` those of which its MERGE inserts or
        updates one each, where they are known.
        """
        self._check_same(spark, table)
        known = self._tables[table.key]
        acknowledged = commit.same_batch(known.acknowledged)
        try:
            _check_line(spark, table, self._tables[table.key].snapshot)
            self._take_back(spark, table, commit)
            self._overtake(spark, table)
            before, is_made = self._look(spark, table, commit)
            marker = next_marker(before, commit, table, acknowledged=acknowledged)
            if not is_made:
                ref = resolve_table(spark, table).ref
                if merged:
                    check_isolation(spark, ref)
                write(ref, snapshot_properties(marker))
            snapshot = self._verify(spark, table, commit)
            effect = parse_summary(snapshot, merged=merged)
            if not is_made:
                _check_counts(table, snapshot, effect, rows, source)
            check_files(spark, table, snapshot)
        except BaseException as error:  # the commit may be in the table all the same, or be made
            known.looked_for, known.is_empty = False, None
            fault = classify_failure(error)
            known.is_unsure |= fault in _UNSURE
            is_ours = not isinstance(error, Exception) or isinstance(error, TargetSparkError)
            if fault in _TABLE_MAY_BE_WHY and not is_ours:
                self._check_same(spark, table)
            raise
        known.newest = known.acknowledged = marker
        known.snapshot, known.is_empty = snapshot.id, False
        return effect

    def _take_back(self, spark: SparkSession, table: Table, commit: CommitMetadata) -> None:
        """Take a batch out of the table whose files Iceberg removed, since its commit had failed.

        Raises:
            ConflictError: it was taken out, and is to be written again from the beginning.
            CommitLostError: another writer's commit came after it.
        """
        if self._tables[table.key].looked_for:
            return
        found = next((each for each in snapshots(spark, table) if each.marker is not None), None)
        if found is None or not commit.same_batch(found.marker):
            return
        missing = find_missing_file(spark, table, found)
        if missing is None:
            return
        if not take_back(spark, table, found):
            raise _files_lost(table, found, missing)
        raise ConflictError(
            f"Snapshot {found.id} of table {table.name} was made, but Iceberg took its commit for"
            f" failed and removed {missing}; it was taken back"
        )

    def _overtake(self, spark: SparkSession, table: Table) -> None:
        """Let a commit that may still be on its way come too late."""
        known = self._tables[table.key]
        if known.is_unsure:
            _nothing(spark, resolve_table(spark, table).ref).append()
            known.is_unsure = False
            self._check_same(spark, table)  # right before the write

    def _look(
        self, spark: SparkSession, table: Table, commit: CommitMetadata
    ) -> tuple[CommitMetadata | None, bool]:
        """Return the newest marker, and whether an earlier try has made this commit.

        Commits of others may lie on top of that.
        """
        known = self._tables[table.key]
        if known.looked_for:
            return known.newest, False
        found = list(snapshots(spark, table))
        known.newest = next(filter(None, (snapshot.marker for snapshot in found)), None)
        known.looked_for = True
        return known.newest, _newest_of_run(found, commit) is not None

    def _check_same(self, spark: SparkSession, table: Table) -> None:
        """Check that the table is the one that was first looked at.

        Raises:
            TableError: it was removed, or another stands in its place.
        """
        known = self._tables[table.key]
        known.uuid = same_table(table, known.uuid, get_table_uuid(spark, table))

    def _verify(self, spark: SparkSession, table: Table, commit: CommitMetadata) -> IcebergSnapshot:
        """Read the snapshots: the newest of this run must be the batch just written."""
        _check_line(spark, table, self._tables[table.key].snapshot)
        found = _newest_of_run(snapshots(spark, table), commit)
        if found is None:
            raise _lost(table, commit)
        return found


def _newest_of_run(
    found: Iterable[IcebergSnapshot], commit: CommitMetadata
) -> IcebergSnapshot | None:
    """Return the newest snapshot of a commit's run, if it is that commit's."""
    for snapshot in found:
        if commit.is_same_run(snapshot.marker):
            return snapshot if commit.same_batch(snapshot.marker) else None
    return None


def _make(spark: SparkSession, table: Table, layout: TableSchema, design: TableLayout) -> None:
    place = resolve_table(spark, table)
    if table.identifier and not spark.catalog.databaseExists(quote(place.catalog, *place.database)):
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {quote(place.catalog, *place.database)}")
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {place.ref} ({get_columns(layout)}) USING iceberg"
        f"{build_layout_ddl(layout, design)}"
    )
    order = build_sort_order(layout, design)
    if order:
        spark.sql(f"ALTER TABLE {place.ref} {order}")


def _check_line(spark: SparkSession, table: Table, last: int | None) -> None:
    """Check that a table's history has the run's last commit, as far as it goes back.

    Raises:
        TableError: it has not: the table was made anew under the same uuid, or rolled back.
    """
    oldest = None
    if last is None:
        return
    for snapshot in snapshots(spark, table):
        if snapshot.id == last:
            return
        oldest = snapshot
    if oldest is None or oldest.parent is None:  # nothing is expired
        raise table_removed_error(table)


def _check_unchanged(
    spark: SparkSession, table: Table, read_at: IcebergSnapshot, commit: CommitMetadata
) -> None:
    """Check that no rows changed between a look at the table and the commit that followed.

    From Spark 4.1 on a query reads the table as its MERGE finds it.

    Raises:
        TableError: another writer changed some, of which the commit knows nothing.
    """
    between = list(itertools.takewhile(lambda s: s.id != read_at.id, snapshots(spark, table)))
    others = [found for found in between if not commit.same_batch(found.marker)]
    if any(found.changes_rows for found in others):
        raise TableError(
            f"Another writer changed table {table.name} ({table.key}) when the versions of"
            f" batch {commit.batch} were made: keys may have two current ones. No state that"
            f" covers its rows leaves. Roll the table back to snapshot {read_at.id} and start"
            " again."
        )


def _lost(table: Table, commit: CommitMetadata) -> CommitLostError:
    return CommitLostError(
        f"Batch {commit.batch} of table {table.name} was written without an error, but no"
        " snapshot of the table says that it is this batch: another writer's word stands"
        " in its place, or the table was rolled back. No state that covers its rows leaves."
    )


def _files_lost(table: Table, snapshot: IcebergSnapshot, missing: str) -> CommitLostError:
    return CommitLostError(
        f"Snapshot {snapshot.id} of table {table.name} names the file {missing}, which is not"
        " there: the storage reported that its commit failed, and Iceberg removed its files. Others"
        " have committed since. No state that covers its rows leaves; roll the table back to"
        f" snapshot {snapshot.parent}, or make it anew, and start again."
    )


def _check_counts(
    table: Table,
    snapshot: IcebergSnapshot,
    effect: CommitStats,
    rows: Count | None,
    source: Count | None,
) -> None:
    """Compare a snapshot's own numbers with the rows that were given to it.

    A row of a MERGE can update several where the table has its key more than once.

    Raises:
        CountError: they differ.
    """
    added, met = effect.inserted, effect.inserted + effect.updated
    if rows is not None and (given := rows(added)) != added:
        raise _miscounted(table, snapshot, given, f"has {added}")
    if source is not None and snapshot.counts_merged and (given := source(met)) > met:
        raise _miscounted(table, snapshot, given, f"inserted or updated {met}")


def _miscounted(table: Table, snapshot: IcebergSnapshot, given: int, found: str) -> RowCountError:
    back = "" if snapshot.parent is None else f"; roll the table back to snapshot {snapshot.parent}"
    return RowCountError(
        f"Table {table.name}: {given} rows were to be written, but snapshot {snapshot.id} {found}."
        f" No state that covers these rows leaves{back} and start again."
    )


def emptiness(spark: SparkSession, table: Table) -> tuple[bool, int | None]:
    """Tell whether a table has no rows, and the snapshot that says so, where it has one."""
    newest = next(snapshots(spark, table), None)
    is_empty = newest is None or newest.summary.get("total-records") == "0"
    return is_empty, None if newest is None else newest.id


def insert_first(rows: DataFrameWriterV2, empty_at: int | None) -> None:
    """Append the first rows of a table that has none in the snapshot ``empty_at``, or has none.

    An overwrite of no rows is an append that Iceberg validates: files that were added after
    the snapshot which had no rows are a conflict. Without such a snapshot all files are.
    """
    options = {"isolation-level": "serializable", **FANOUT_OPTIONS}
    if empty_at is not None:
        options["validate-from-snapshot-id"] = str(empty_at)
    rows.options(**options).overwrite(F.lit(False))  # noqa: FBT003


def _append_nothing(spark: SparkSession, ref: str, marker: str) -> None:
    _nothing(spark, ref).option(_OPTION, marker).append()


def _nothing(spark: SparkSession, ref: str) -> DataFrameWriterV2:
    return spark.table(ref).where(F.lit(False)).writeTo(ref)  # noqa: FBT003


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
            f" {first_error_line(error)}. Nothing was written to it. Stream maps can rename or"
            " drop a property; partition_by and sort_by are settings."
        ) from error
