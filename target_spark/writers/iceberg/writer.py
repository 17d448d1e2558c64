"""Writer of Apache Iceberg tables, by their folder or by their name in a catalog.

- A batch and its commit metadata are one snapshot; the metadata is in its summary.
- Iceberg has no transaction ids. If a commit got no response, its batch is searched in the newest
  snapshots before it is written again. The pending commit may still reach the catalog later, so an
  empty commit is made before the search: the pending commit then fails, because its parent is no
  longer the newest snapshot.
- If Iceberg removed the files of a commit that succeeded, the commit is rolled back.
- Before each commit, the table must still be the table that this run read first. After the commit,
  the snapshot is read and must have the rows and files that were written.
- Rows are changed through MERGE, never through DELETE or UPDATE: a DELETE that only removes whole
  files drops the commit metadata. Session settings pass the metadata to MERGE, so each writer
  thread has a session.
- A change of columns makes no snapshot, so the newest snapshot keeps its metadata. The property
  ``write.spark.accept-any-schema`` is never set, because it breaks later MERGEs.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
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
from target_spark.spark.row_counts import Count, counted
from target_spark.storage.commit_retry import FailureKind, classify_failure, first_error_line
from target_spark.storage.hadoop_fs import remove_folder
from target_spark.tables.commit_metadata import CommitMetadata
from target_spark.tables.iceberg_metadata import (
    METADATA_PROPERTY,
    IcebergSnapshot,
    encode_metadata,
    parse_summary,
    table_exists,
)
from target_spark.tables.identifiers import quote
from target_spark.tables.table import CommitStats, MaintenanceOptions, Table, TableLayout
from target_spark.writers.base import MergeKeys, TableState, VersionDelete
from target_spark.writers.commit_checks import (
    check_predecessor,
    check_same_table,
    next_metadata,
    table_removed_error,
)
from target_spark.writers.deduplication import DELETE_ONLY_COLUMN, as_initial_rows, latest_by_key
from target_spark.writers.iceberg.catalog import catalog_table_exists, resolve_table
from target_spark.writers.iceberg.layout import (
    build_layout_ddl,
    build_sort_order,
    describe_partition_mismatch,
)
from target_spark.writers.iceberg.maintenance import compact, expire_snapshots, remove_orphan_files
from target_spark.writers.iceberg.snapshot_reader import (
    check_can_create,
    check_files,
    get_manifest_list,
    get_table_uuid,
    prepare_merge,
    snapshots,
)
from target_spark.writers.iceberg.snapshot_rollback import find_missing_file, roll_back_snapshot
from target_spark.writers.merge_statement import Matched, Merge, build_upsert
from target_spark.writers.scd2 import (
    build_conversion_sql,
    build_scd2_merge,
    compute_changes,
    initial_versions,
)
from target_spark.writers.spark_types import column_ddl
from target_spark.writers.sql_statements import (
    build_alter_statements,
    build_column_list,
    build_end_values,
    spark_conf,
    version_delete_condition,
)
from target_spark.writers.table_properties import (
    build_annotations,
    build_drop_not_null,
    get_table_properties,
    read_sources,
)
from target_spark.writers.type_widening import iceberg_widens

__all__ = ["FANOUT_OPTIONS", "IcebergWriter", "find_empty_snapshot", "insert_first"]

_METADATA_SETTING: Final = f"spark.sql.iceberg.snapshot-property.{METADATA_PROPERTY}"
_METADATA_OPTION: Final = f"snapshot-property.{METADATA_PROPERTY}"
FANOUT_OPTIONS = {"distribution-mode": "hash"}
"""Write option for hash distribution. For range distribution, Spark computes all rows twice."""

_MAY_STILL_COMMIT = {FailureKind.TRANSIENT, FailureKind.SERVER_LOST}
"""Kinds of failure after which the catalog may still complete the commit."""

_MAY_BE_REPLACED: Final = {FailureKind.PERMANENT, FailureKind.STALE, FailureKind.CONFLICT}
"""Kinds of failure after which the writer checks if the table was removed or replaced."""

_MISSING_FILE: Final = "iceberg.exceptions.NotFoundException"
_REJECTIONS = ("iceberg.exceptions.ValidationException", "IllegalArgumentException")


@dataclass
class _IcebergTableState(TableState):
    """Cached facts about one Iceberg table, which the writer keeps during a run.

    Attributes:
        knows_last_batch: True once the table's snapshots were searched for the current batch, or
            the run has committed. False again after a failed commit, which may be in the table.
        snapshot: The snapshot id of the run's last successful commit.
        ancestors: The parent ids of ``snapshot`` and of the snapshots before it that have not
            expired. The parent id of a table's first snapshot is None.
        empty_at: If ``is_empty`` is True, the id of the snapshot without rows; None if the table
            has no snapshot.
        seen: The id of the newest snapshot that the run has read or committed; None if there is
            none.
        is_unsure: True if a commit has failed without a clear result, and may still reach the
            catalog.
    """

    knows_last_batch: bool = False
    snapshot: int | None = None
    ancestors: frozenset[int | None] = frozenset()
    empty_at: int | None = None
    seen: int | None = None
    is_unsure: bool = False


class IcebergWriter:
    """Writer of Iceberg tables for one run. It caches facts about each table between commits."""

    keeps_batch = False
    can_widen = staticmethod(iceberg_widens)

    def __init__(self) -> None:
        self._tables: defaultdict[str, _IcebergTableState] = defaultdict(_IcebergTableState)

    def get_column_types(self, spark: SparkSession, table: Table) -> Mapping[str, str] | None:
        """Return the type (DDL) of each column, in table order, or None if there is no table.

        Raises:
            TableError: The folder has files but no Iceberg table, or the table was replaced during
                the run.
        """
        self._check_same(spark, table)
        folder = table.local_folder
        if folder is not None and not table_exists(folder):
            check_can_create(folder)
            return None
        table_ref = resolve_table(spark, table)
        if folder is None and not catalog_table_exists(spark, table_ref):
            return None
        schema = spark.table(table_ref.ref).schema
        return {field.name: column_ddl(field) for field in schema.fields}

    def create(
        self,
        spark: SparkSession,
        table: Table,
        table_schema: TableSchema,
        layout: TableLayout,
        *,
        has_rows: bool = False,  # noqa: ARG002  (a snapshot needs an existing table)
    ) -> None:
        """Create an empty Iceberg table, and its database if the catalog does not have it.

        ``has_rows`` is ignored, because the table is created in any case.

        Raises:
            TableError: Iceberg rejects the columns or the layout.
        """
        with _translate_errors(table):
            _create_table(spark, table, table_schema, layout)
        state = self._tables[table.key]
        state.is_empty, state.empty_at = True, None
        self._check_same(spark, table)

    def alter(self, spark: SparkSession, table: Table, changes: Sequence[SchemaChange]) -> None:
        """Add columns and nested fields to a table, and widen column types.

        Raises:
            TableError: Iceberg rejects a change.
        """
        with _translate_errors(table):
            self._alter(spark, table, build_alter_statements(changes))

    def sources(self, spark: SparkSession, table: Table) -> Mapping[str, str] | None:
        """Return the source property of each renamed column: ``{"`user_id`": "user-id"}``.

        Return None if another program created the table: the properties are then unknown.
        """
        return read_sources(get_table_properties(spark, resolve_table(spark, table).ref))

    def annotate(self, spark: SparkSession, table: Table, table_schema: TableSchema) -> None:
        """Store column comments, and the property names of renamed columns, in a table."""
        ref = resolve_table(spark, table).ref
        clauses = build_annotations(
            get_table_properties(spark, ref), spark.table(ref).schema, table_schema
        )
        self._alter(spark, table, clauses)

    def drop_not_null(self, spark: SparkSession, table: Table, keep: Collection[str]) -> None:
        """Drop the NOT NULL constraints of a table's columns, except of the columns ``keep``."""
        schema = spark.table(resolve_table(spark, table).ref).schema
        self._alter(spark, table, build_drop_not_null(schema, keep))

    def _alter(self, spark: SparkSession, table: Table, clauses: Iterable[str]) -> None:
        for clause in clauses:
            self._check_same(spark, table)
            spark.sql(f"ALTER TABLE {resolve_table(spark, table).ref} {clause}")

    def append(
        self, table: Table, df: DataFrame, commit: CommitMetadata, rows: int | None = None
    ) -> CommitStats:
        """Add the rows of a batch to a table in one commit. ``rows`` is their number, if known."""
        df, count = counted(df, rows)

        def write(ref: str, marker: str) -> None:
            df.writeTo(ref).options(**{_METADATA_OPTION: marker, **FANOUT_OPTIONS}).append()

        return self._commit(df.sparkSession, table, commit, write, rows=count)

    def replace(
        self, table: Table, df: DataFrame, commit: CommitMetadata, rows: int | None = None
    ) -> CommitStats:
        """Replace a table's rows by ``df`` in one commit. ``rows`` is its row count, if known."""
        df, count = counted(df, rows)

        def write(ref: str, marker: str) -> None:
            options = {_METADATA_OPTION: marker, **FANOUT_OPTIONS}
            df.writeTo(ref).options(**options).overwrite(F.lit(True))  # noqa: FBT003

        return self._commit(df.sparkSession, table, commit, write, rows=count)

    def commit_empty(self, spark: SparkSession, table: Table, commit: CommitMetadata) -> None:
        """Make a commit without rows, to store metadata such as the newest state in a table."""
        write = partial(_append_nothing, spark)
        self._commit(spark, table, commit, write, rows=lambda _: 0)

    def upsert(
        self, table: Table, df: DataFrame, keys: MergeKeys, commit: CommitMetadata
    ) -> CommitStats:
        """Replace the table rows whose keys occur in the batch, and add the rows with new keys.

        This is a MERGE if the table has rows. For a table without rows it is an append, which is
        faster.
        """
        spark, newest = df.sparkSession, latest_by_key(df, keys)
        if self.is_empty(spark, table):
            return self._append_first_rows(table, as_initial_rows(newest, keys), commit)
        columns = [name for name in newest.columns if name != DELETE_ONLY_COLUMN]
        skips_rows = keys.hard_delete or keys.by_cursor or keys.removed is not None
        merge = build_upsert(resolve_table(spark, table).ref, columns, keys)
        return self._merge(table, newest, merge, commit, is_count_checked=not skips_rows)

    def history(
        self, table: Table, df: DataFrame, keys: MergeKeys, commit: CommitMetadata
    ) -> CommitStats:
        """Insert new versions of changed rows into an SCD2 table, and end their old versions."""
        spark = df.sparkSession
        if self.is_empty(spark, table):
            return self._append_first_rows(table, initial_versions(df, keys), commit)
        self._convert_to_versions(spark, table, keys.deleted, commit)
        merge = build_scd2_merge(resolve_table(spark, table).ref, df, keys)
        read_at = next(snapshots(spark, table), None)
        changes = compute_changes(df, self.rows(spark, table), keys, commit.run_started * 1000)
        return self._merge(table, changes, merge, commit, read_at=read_at)

    def delete_versions(
        self, spark: SparkSession, table: Table, deletion: VersionDelete, commit: CommitMetadata
    ) -> CommitStats:
        """Delete rows of all table versions but ``deletion.version``, or mark them as deleted."""
        if deletion.history:
            self._convert_to_versions(spark, table, deletion.deleted, commit)

        def write(ref: str, marker: str) -> None:
            merge = Merge(
                ref,
                version_delete_condition(deletion),
                [Matched(build_end_values(deletion) or None)],
            )
            with spark_conf(spark, {_METADATA_SETTING: marker, **prepare_merge(spark, ref)}):
                merge.run(spark.sql("SELECT 1"))

        return self._commit(spark, table, commit, write, merged=True)

    def get_partition_columns(self, _spark: SparkSession, _table: Table, /) -> Collection[str]:
        """Return an empty collection, since Iceberg's partitions keep every text."""
        return ()

    def describe_layout_mismatch(
        self, spark: SparkSession, table: Table, table_schema: TableSchema, layout: TableLayout
    ) -> str | None:
        """Return an Iceberg table's partitioning if it differs from the settings, or None.

        An example is ``partitioned by days(at)``.
        """
        if not layout.partition_by:
            return None
        (row,) = spark.sql(f"SHOW CREATE TABLE {resolve_table(spark, table).ref}").collect()
        return describe_partition_mismatch(row[0], table_schema, layout)

    def maintain(self, spark: SparkSession, table: Table, options: MaintenanceOptions) -> None:
        """Compact a table, expire old snapshots and remove orphan files, as configured.

        Afterwards the newest snapshot has the metadata of target-spark's newest commit, so that the
        next run finds the state there.
        """
        self._check_same(spark, table)
        table_ref = resolve_table(spark, table)
        if options.compact:
            compact(spark, table_ref)
        marker = self.get_last_metadata(spark, table)
        newest = next(snapshots(spark, table), None)
        if newest is not None and marker is not None and newest.marker is None:
            _append_nothing(spark, table_ref.ref, encode_metadata(marker))
        if options.retain_days is not None:
            expire_snapshots(spark, table_ref, options.retain_days)
            remove_orphan_files(spark, table, table_ref, options.retain_days)

    def get_last_metadata(
        self, spark: SparkSession, table: Table, known: CommitMetadata | None = None
    ) -> CommitMetadata | None:
        """Return the metadata that target-spark stored in its newest commit to a table, or None."""
        state = self._tables[table.key]
        newest_first = list(snapshots(spark, table))
        state.newest = _find_newest_metadata(newest_first, state.newest or known)
        return state.newest

    def rows(self, spark: SparkSession, table: Table) -> DataFrame:
        """Return the current rows of an Iceberg table as a DataFrame."""
        return spark.table(resolve_table(spark, table).ref)

    def drop(self, spark: SparkSession, table: Table) -> None:
        """Drop an Iceberg table from its catalog and delete its files."""
        if table.identifier:
            spark.sql(f"DROP TABLE IF EXISTS {resolve_table(spark, table).ref} PURGE")
        else:
            remove_folder(spark, table.path)
        self._tables.pop(table.key, None)

    def is_empty(self, spark: SparkSession, table: Table) -> bool:
        """Return True if an Iceberg table has no rows.

        The result is cached until the next commit of this run.
        """
        state = self._tables[table.key]
        if state.is_empty is None:
            state.is_empty, state.empty_at = find_empty_snapshot(spark, table)
        return state.is_empty

    def _convert_to_versions(
        self, spark: SparkSession, table: Table, deleted: str | None, commit: CommitMetadata
    ) -> None:
        """Fill the SCD2 columns of rows that were loaded before the table was an SCD2 table.

        Each such row becomes a row version. If the row's column ``deleted`` is set, the version has
        ended.
        """
        state = self._tables[table.key]
        if state.is_converted:
            return
        is_unconverted = F.col(quote(IS_CURRENT)).isNull()
        with _report_lost_files(spark, table):
            is_unfinished = not self.rows(spark, table).where(is_unconverted).isEmpty()
        if is_unfinished:
            self._check_same(spark, table)
            ref = resolve_table(spark, table).ref
            with spark_conf(spark, prepare_merge(spark, ref)):
                spark.sql(build_conversion_sql(ref, commit.run_started * 1000, deleted))
        state.is_converted = True

    # Commits

    def _append_first_rows(
        self, table: Table, df: DataFrame, commit: CommitMetadata
    ) -> CommitStats:
        """Append the first rows of an empty Iceberg table.

        If another writer has added rows since the table was found empty, Iceberg reports a conflict
        and nothing is written.
        """
        df, count = counted(df, None)
        empty_at = self._tables[table.key].empty_at

        def write(ref: str, marker: str) -> None:
            insert_first(df.writeTo(ref).option(_METADATA_OPTION, marker), empty_at)

        return self._commit(df.sparkSession, table, commit, write, rows=count)

    def _merge(
        self,
        table: Table,
        batch: DataFrame,
        merge: Merge,
        commit: CommitMetadata,
        *,
        is_count_checked: bool = True,
        read_at: IcebergSnapshot | None = None,
    ) -> CommitStats:
        """Merge a batch into a table by running a MERGE statement, in one commit.

        Args:
            table: The table to merge into.
            batch: The rows.
            merge: The MERGE statement.
            commit: The metadata to store in the commit: batch number, run and newest state.
            is_count_checked: True to check the commit's statistics against the batch size, which is
                possible if each batch row inserts or updates exactly one table row.
            read_at: The snapshot that was read to compute the batch; None if the batch does not
                depend on the table.
        """
        spark = batch.sparkSession
        batch, count = counted(batch, None)

        def write(ref: str, marker: str) -> None:
            with spark_conf(spark, {_METADATA_SETTING: marker, **prepare_merge(spark, ref)}):
                merge.run(batch)
            if read_at is not None and spark.version.startswith("4.0."):
                _check_unchanged(spark, table, read_at, commit)

        source = count if is_count_checked else None
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
        """Write a batch, if the table does not contain it yet, and verify the resulting snapshot.

        Args:
            spark: The Spark session of the calling thread.
            table: The table to commit to.
            commit: The metadata to store in the commit: batch number, run and newest state.
            write: Function that makes the commit. Its arguments are the table's SQL name, and the
                commit metadata as text for the snapshot's summary.
            rows: Function that returns the number of rows that the commit must add; None if
                unknown.
            source: Function that returns the number of rows in the batch of a MERGE. Each of them
                must insert or update a row. None if unknown.
            merged: True if the commit is a MERGE; False if it is an append or overwrite.

        Returns:
            The statistics of the snapshot.
        """
        self._check_same(spark, table)
        state = self._tables[table.key]
        acknowledged = commit.has_same_batch(state.acknowledged)
        try:
            newest_first = list(snapshots(spark, table))
            _check_ancestry(table, state, newest_first)
            self._roll_back_batch(spark, table, commit)
            self._block_pending_commit(spark, table)
            before, is_made = self._find_committed_batch(spark, table, commit, newest_first)
            marker = next_metadata(before, commit, table, acknowledged=acknowledged)
            if not is_made:
                ref = resolve_table(spark, table).ref
                with _report_lost_files(spark, table):
                    write(ref, encode_metadata(marker))
            history = self._verify(spark, table, commit)
            snapshot = history[0]
            effect = parse_summary(snapshot, merged=merged)
            if not is_made:
                _check_counts(table, snapshot, effect, rows, source)
            check_files(spark, table, snapshot)
        except BaseException as error:  # the commit may be in the table, or may still be made
            state.knows_last_batch, state.is_empty = False, None
            kind = classify_failure(error)
            state.is_unsure |= kind in _MAY_STILL_COMMIT
            comes_from_spark = isinstance(error, Exception) and not isinstance(
                error, TargetSparkError
            )
            if kind in _MAY_BE_REPLACED and comes_from_spark:
                self._check_same(spark, table)
            if kind is FailureKind.CONFLICT and comes_from_spark:
                # Also if no retry follows, so that the table stays readable.
                with suppress(Exception):
                    self._roll_back_batch(spark, table, commit)
            raise
        state.newest = state.acknowledged = marker
        state.snapshot = state.seen = snapshot.id
        state.is_empty = False
        state.ancestors = frozenset(entry.parent for entry in history)
        return effect

    def _roll_back_batch(self, spark: SparkSession, table: Table, commit: CommitMetadata) -> None:
        """Roll back this batch's snapshot if its data files were deleted.

        Iceberg deletes the data files of a commit if the storage reports that the commit failed,
        even if it succeeded.

        Raises:
            ConflictError: The snapshot was rolled back, and the batch must be written again.
            CommitLostError: Another writer has committed after the snapshot, so it cannot be rolled
                back.
        """
        if self._tables[table.key].knows_last_batch:
            return
        newest = next(
            (snapshot for snapshot in snapshots(spark, table) if snapshot.marker is not None), None
        )
        if newest is None or not commit.has_same_batch(newest.marker):
            return
        missing = find_missing_file(spark, table, newest)
        if missing is None:
            return
        if not roll_back_snapshot(spark, table, newest):
            raise _files_lost_error(table, newest, missing)
        raise ConflictError(
            f"Snapshot {newest.id} of table {table.name} was committed, but Iceberg treated the"
            f" commit as failed and removed {missing}; the snapshot was rolled back"
        )

    def _block_pending_commit(self, spark: SparkSession, table: Table) -> None:
        """Make an empty commit if a failed commit of this run may still reach the catalog.

        The failed commit can then no longer succeed, because its parent is not the newest snapshot.
        """
        state = self._tables[table.key]
        if state.is_unsure:
            _prepare_empty_write(spark, resolve_table(spark, table).ref).append()
            self._check_same(spark, table)

    def _find_committed_batch(
        self,
        spark: SparkSession,
        table: Table,
        commit: CommitMetadata,
        newest_first: Sequence[IcebergSnapshot],
    ) -> tuple[CommitMetadata | None, bool]:
        """Return a tuple: the newest commit metadata, and True if the table already has the batch.

        The table already has the batch if an earlier attempt has succeeded but its response was
        lost. Snapshots of other writers are skipped. ``newest_first`` are the table's snapshots;
        after a failure they are read again.

        Raises:
            CommitLostError: The earlier attempt may have made a snapshot that has expired since.
        """
        state = self._tables[table.key]
        if state.knows_last_batch:
            state.newest = _find_newest_metadata(newest_first, state.newest)
            return state.newest, False
        newest_first = list(snapshots(spark, table))
        is_made = _find_committed_snapshot(newest_first, commit) is not None
        known_ids = {id_ for snapshot in newest_first for id_ in (snapshot.id, snapshot.parent)}
        if state.is_unsure and not is_made and state.seen not in {None, *known_ids}:
            raise _expired_error(table, commit)
        state.is_unsure, state.seen = False, newest_first[0].id if newest_first else None
        state.newest = _find_newest_metadata(newest_first, state.newest)
        state.knows_last_batch = True
        return state.newest, is_made

    def _check_same(self, spark: SparkSession, table: Table) -> None:
        """Check that a table was not removed or replaced since this run first read it.

        Raises:
            TableError: The table was removed or replaced.
        """
        state = self._tables[table.key]
        state.id = check_same_table(table, state.id, get_table_uuid(spark, table))

    def _verify(
        self, spark: SparkSession, table: Table, commit: CommitMetadata
    ) -> list[IcebergSnapshot]:
        """Return the snapshots from a commit's snapshot back to the oldest, and check the commit.

        Raises:
            CommitLostError: The run has no snapshot in the table, or its newest one is of another
                batch.
            TableError: The table was created again or rolled back, or another run has committed
                right before.
        """
        newest_first = list(snapshots(spark, table))
        _check_ancestry(table, self._tables[table.key], newest_first)
        newest = _find_committed_snapshot(newest_first, commit)
        if newest is None:
            raise _commit_lost_error(table, commit)
        history = newest_first[newest_first.index(newest) :]
        before = _find_newest_metadata(history[1:], None)
        if before is not None:
            check_predecessor(table, before, commit)
        return history


def _find_newest_metadata(
    newest_first: Sequence[IcebergSnapshot], known: CommitMetadata | None
) -> CommitMetadata | None:
    """Return the newest metadata of target-spark in snapshots, or None.

    If another program has expired all snapshots with metadata, return ``known``, the metadata that
    this run read before, so that the next commit repeats its state.
    """
    markers = (snapshot.marker for snapshot in newest_first)
    newest = next((marker for marker in markers if marker is not None), None)
    has_expired = bool(newest_first) and newest_first[-1].parent is not None
    return known if newest is None and has_expired else newest


def _find_committed_snapshot(
    candidates: Iterable[IcebergSnapshot], commit: CommitMetadata
) -> IcebergSnapshot | None:
    """Return the snapshot in which the run of ``commit`` committed its batch, or None.

    ``candidates`` are the snapshots of the table, newest first. Return None if the run's newest
    snapshot has another batch.
    """
    for snapshot in candidates:
        if commit.is_same_run(snapshot.marker):
            return snapshot if commit.has_same_batch(snapshot.marker) else None
    return None


def _create_table(
    spark: SparkSession, table: Table, table_schema: TableSchema, layout: TableLayout
) -> None:
    """Create a table with its sort order, and its database if the catalog does not have it."""
    table_ref = resolve_table(spark, table)
    database = quote(table_ref.catalog, *table_ref.database)
    if table.identifier and not spark.catalog.databaseExists(database):
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {database}")
    columns, clauses = build_column_list(table_schema), build_layout_ddl(table_schema, layout)
    spark.sql(f"CREATE TABLE IF NOT EXISTS {table_ref.ref} ({columns}) USING iceberg{clauses}")
    order = build_sort_order(table_schema, layout)
    if order:
        spark.sql(f"ALTER TABLE {table_ref.ref} {order}")


def _check_ancestry(
    table: Table, state: _IcebergTableState, newest_first: Iterable[IcebergSnapshot]
) -> None:
    """Check that the run's last commit is still in the history of a table.

    ``newest_first`` are the table's current snapshot and its ancestors. If all of them are newer
    than the commit, the commit may have expired, and the check passes.

    Raises:
        TableError: The table was created again or rolled back.
    """
    if state.snapshot is None:
        return
    parent: int | None = None
    for snapshot in newest_first:
        if snapshot.id == state.snapshot:
            return
        parent = snapshot.parent
        if parent in state.ancestors:
            break
    if parent is None or parent in state.ancestors:
        raise table_removed_error(table)


def _check_unchanged(
    spark: SparkSession, table: Table, read_at: IcebergSnapshot, commit: CommitMetadata
) -> None:
    """Check that no other writer changed rows after a batch was computed and before its commit.

    The check is needed because, before Spark 4.1, the query that computes the batch may read an
    older snapshot (``read_at``) than the MERGE.

    Raises:
        TableError: Another writer changed rows after the batch was computed.
    """
    newer = itertools.takewhile(lambda snapshot: snapshot.id != read_at.id, snapshots(spark, table))
    others = (snapshot for snapshot in newer if not commit.has_same_batch(snapshot.marker))
    if any(snapshot.changes_rows for snapshot in others):
        raise TableError(
            f"Another writer changed table {table.name} ({table.key}) while the versions of"
            f" batch {commit.batch} were written: keys may have two current versions. No state"
            f" that covers its rows is emitted. Roll the table back to snapshot {read_at.id} and"
            " start again."
        )


def _commit_lost_error(table: Table, commit: CommitMetadata) -> CommitLostError:
    return CommitLostError(
        f"Batch {commit.batch} of table {table.name} was written without an error, but no"
        " snapshot of the table has this batch's metadata: another program has replaced, rolled"
        " back or expired it, or the Spark setting spark.wap.branch or spark.wap.id keeps it out of"
        " the table. No state that covers its rows is emitted."
    )


def _expired_error(table: Table, commit: CommitMetadata) -> CommitLostError:
    return CommitLostError(
        f"Batch {commit.batch} of table {table.name} may be committed: there was no response, and"
        " another program has expired all snapshots since. It was not written again. No state that"
        " covers its rows is emitted; look for its rows in the table, and start again."
    )


@contextmanager
def _report_lost_files(spark: SparkSession, table: Table) -> Iterator[None]:
    """Context manager: raise a CommitLostError if the table's newest manifest list does not exist.

    An earlier run may have removed it after a commit (see `snapshot_rollback`). Other errors are
    raised unchanged.
    """
    try:
        yield
    except Exception as error:
        text = str(error)
        newest = next(snapshots(spark, table), None) if _MISSING_FILE in text else None
        location = None if newest is None else get_manifest_list(spark, table, newest)
        if newest is None or location is None or location not in text:
            raise
        _, database, name = resolve_table(spark, table)
        full_name = ".".join((*database, name))
        raise _manifest_list_lost_error(table, newest, location, full_name) from error


def _manifest_list_lost_error(
    table: Table, snapshot: IcebergSnapshot, missing: str, name: str
) -> CommitLostError:
    remedy = (
        "The snapshot has no parent: create the table again"
        if snapshot.parent is None
        else f"Its parent is snapshot {snapshot.parent}. If the file cannot be restored, roll the"
        " table back to the parent with Iceberg's procedure, CALL"
        f" <catalog>.system.rollback_to_snapshot('{name}', {snapshot.parent})"
    )
    return CommitLostError(
        f"The manifest list {missing} of snapshot {snapshot.id}, the newest of table {table.name}"
        f" ({table.key}), does not exist, so the table can neither be read nor written. Iceberg"
        " removes it if the storage reports that a commit failed which was made. Nothing of this"
        f" batch is committed and no state that covers it is emitted. {remedy}; then load again"
        " from the last state that was emitted before that snapshot."
    )


def _files_lost_error(table: Table, snapshot: IcebergSnapshot, missing: str) -> CommitLostError:
    return CommitLostError(
        f"Snapshot {snapshot.id} of table {table.name} names the file {missing}, which does not"
        " exist: the storage reported that its commit failed, and Iceberg removed its files."
        " Others have committed since. No state that covers its rows is emitted; roll the table"
        f" back to snapshot {snapshot.parent}, or create it again, and restart."
    )


def _check_counts(
    table: Table,
    snapshot: IcebergSnapshot,
    effect: CommitStats,
    rows: Count | None,
    source: Count | None,
) -> None:
    """Check the row counts in a snapshot's summary against the rows of the batch.

    A MERGE may change more table rows than the batch has rows, because one batch row can update
    several table rows with the same key.

    Args:
        table: The table, for the error message.
        snapshot: The snapshot.
        effect: The counts in the summary.
        rows: Function that returns the number of rows that the commit must add, or None.
        source: Function that returns the number of rows in the batch of a MERGE, or None.

    Raises:
        RowCountError: The counts differ.
    """
    added, merged = effect.inserted, effect.inserted + effect.updated
    if rows is not None and (expected := rows(added)) != added:
        raise _row_count_error(table, snapshot, expected, f"has {added}")
    if source is not None and snapshot.has_merge_counts and (expected := source(merged)) > merged:
        raise _row_count_error(table, snapshot, expected, f"inserted or updated {merged}")


def _row_count_error(
    table: Table, snapshot: IcebergSnapshot, expected: int, actual: str
) -> RowCountError:
    back = "" if snapshot.parent is None else f"; roll the table back to snapshot {snapshot.parent}"
    return RowCountError(
        f"Table {table.name}: {expected} rows were to be written, but snapshot {snapshot.id}"
        f" {actual}. No state that covers these rows is emitted{back} and start again."
    )


def find_empty_snapshot(spark: SparkSession, table: Table) -> tuple[bool, int | None]:
    """Return True if an Iceberg table has no rows, and the id of its newest snapshot or None."""
    newest = next(snapshots(spark, table), None)
    is_empty = newest is None or newest.summary.get("total-records") == "0"
    return is_empty, None if newest is None else newest.id


def insert_first(rows: DataFrameWriterV2, empty_at: int | None) -> None:
    """Append the first rows of a table, or fail if another writer has added rows.

    This is an Iceberg overwrite with a filter that matches no rows. Unlike an append, it fails with
    a conflict if files were added since the snapshot ``empty_at``.

    Args:
        rows: The rows, as Spark's ``DataFrame.writeTo`` returns them for the table.
        empty_at: The id of the snapshot without rows; None if the table had no snapshot.
    """
    options = {"isolation-level": "serializable", **FANOUT_OPTIONS}
    if empty_at is not None:
        options["validate-from-snapshot-id"] = str(empty_at)
    rows.options(**options).overwrite(F.lit(False))  # noqa: FBT003


def _append_nothing(spark: SparkSession, ref: str, marker: str) -> None:
    """Make a snapshot without rows that has the commit metadata ``marker`` in its summary."""
    _prepare_empty_write(spark, ref).option(_METADATA_OPTION, marker).append()


def _prepare_empty_write(spark: SparkSession, ref: str) -> DataFrameWriterV2:
    """Return Spark's writer of a DataFrame without rows to the table named ``ref``."""
    return spark.table(ref).where(F.lit(False)).writeTo(ref)  # noqa: FBT003


@contextmanager
def _translate_errors(table: Table) -> Iterator[None]:
    """Context manager: raise a TableError if Iceberg rejects a change of the table.

    The error has Iceberg's message without the Java stack trace.
    """
    try:
        yield
    except Exception as error:
        if not any(name in f"{type(error).__name__} {error}" for name in _REJECTIONS):
            raise
        raise TableError(
            f"Iceberg refuses the columns or the layout of table {table.name} ({table.key}):"
            f" {first_error_line(error)}. Nothing was written to it. Stream maps can rename or"
            " drop a property; partition_by and sort_by are settings."
        ) from error
