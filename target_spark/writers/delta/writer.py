"""Writer of Delta Lake tables, by their path or by their name in a catalog.

- A batch and its commit metadata are one commit; the metadata is in ``userMetadata``. Delta's
  transaction has the batch number as its version, and an application id per run and table.
- After each write the newest commit is read. It must have this batch's metadata, belong to the same
  table as before, and list files that exist and have the rows that were written.
- In a local folder, appends are committed through deltalake
  (`target_spark.writers.delta.deltalake_commit`), and so are other changes of small tables if
  ``avoids_spark`` is set. Everything else is committed through Spark's Delta. Session settings pass
  transaction id and metadata to MERGE and ALTER, so each writer thread has a session.
- Tables are created with the oldest possible reader version; type widening is enabled with the
  first column that is widened. `target_spark.tables.identifiers` produces only names that need no
  column mapping, so that all readers can read every table.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, takewhile, tee
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tap_core.limits.memory import MIB
from target_spark.columns import IS_CURRENT, SchemaChange, TableSchema
from target_spark.columns.ddl_parser import parse_ddl
from target_spark.config.options import WriteMode
from target_spark.errors import CommitLostError, ConflictError, RowCountError, TargetSparkError
from target_spark.spark.row_counts import Count, counted
from target_spark.tables.commit_metadata import CommitMetadata, txn_app_id
from target_spark.tables.identifiers import quote
from target_spark.tables.table import RUNS, CommitStats, MaintenanceOptions, Table, TableLayout
from target_spark.writers.base import MergeKeys, TableState, VersionDelete
from target_spark.writers.commit_checks import (
    check_predecessor,
    check_same_table,
    next_metadata,
    table_removed_error,
)
from target_spark.writers.deduplication import DELETE_ONLY_COLUMN, as_initial_rows, latest_by_key
from target_spark.writers.delta.catalog import (
    create_catalog_table,
    describe_layout_mismatch,
    drop_table,
    get_partition_columns,
    get_properties,
    get_schema,
    get_table_id,
    get_types,
    has_files,
    read_table_snapshot,
)
from target_spark.writers.delta.data_files import (
    DataFile,
    check_commit,
    remove_files,
    remove_stale_staging,
    write_arrow_file,
    write_files,
)
from target_spark.writers.delta.deltalake_commit import (
    MERGE_TARGET,
    add_columns,
    annotate_table,
    commit_files,
    delete_other_versions,
    merge_rows,
)
from target_spark.writers.delta.deltalake_snapshot import DeltaSnapshot
from target_spark.writers.delta.log_reader import (
    Commit,
    commits,
    delta_ref,
    find_newest_metadata,
)
from target_spark.writers.delta.maintenance import optimize_and_vacuum
from target_spark.writers.delta.small_batches import (
    SmallBatch,
    has_rounded_decimals,
    keep_initial_rows,
    latest_rows_by_key,
    may_round_decimals,
)
from target_spark.writers.delta.small_batches import sort_rows as sort_arrow_rows
from target_spark.writers.merge_statement import Merge, build_upsert
from target_spark.writers.scd2 import (
    build_conversion_sql,
    build_scd2_merge,
    compute_changes,
    initial_versions,
)
from target_spark.writers.spark_types import build_field, column_ddl
from target_spark.writers.sql_statements import (
    BATCH_VIEW,
    build_alter_statements,
    build_version_delete_sql,
    find_small_commit_conf,
    spark_conf,
    version_delete_condition,
)
from target_spark.writers.table_properties import (
    build_annotations,
    build_drop_not_null,
    find_new_comments,
    find_new_sources,
    read_sources,
)
from target_spark.writers.type_widening import delta_widens

__all__ = ["MATERIALIZE_SOURCE_CONF", "DeltaWriter", "insert_first"]

_WIDENING = "SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
_MATERIALIZE_SOURCE: Final = "spark.databricks.delta.merge.materializeSource"
MATERIALIZE_SOURCE_CONF = {_MATERIALIZE_SOURCE: "all"}
"""Spark setting that makes a MERGE store its batch on disk, because it reads the batch twice."""

_SMALL_TABLE_BYTES: Final = 32 * MIB
"""Maximum bytes of a table for which a MERGE of few rows uses Spark settings for small commits."""

_DELTA_SETTINGS: Final = "spark.databricks.delta."
_SNAPSHOT_PARTITIONS: Final = "spark.databricks.delta.snapshotPartitions"
_METADATA: Final = "spark.databricks.delta.commitInfo.userMetadata"
_APP_ID: Final = "spark.databricks.delta.write.txnAppId"
_TXN_VERSION: Final = "spark.databricks.delta.write.txnVersion"

_MERGED_BYTES: Final = 32 * MIB
"""Maximum bytes of a table's files for upserts and deletes by deltalake instead of Spark.
deltalake needs a multiple in memory: 150 MiB for 16 MiB of files, 250 MiB for 40 MiB."""

_HAS_ROWS: Final = "target-spark: the table has rows by now"


@dataclass
class _DeltaTableState(TableState):
    """Cached facts about one Delta table, which the writer keeps during a run.

    Attributes:
        version: The Delta version of the last successful commit.
        seen: The newest Delta version when this run last read the log; -1 if there was no version.
        effect: The statistics of the last successful commit.
        is_staging_clean: True once the temporary folders of killed runs were removed.
    """

    version: int | None = None
    seen: int = -1
    effect: CommitStats = field(default_factory=CommitStats)
    is_staging_clean: bool = False


class DeltaWriter:
    """Writer of Delta tables for one run. It caches facts about each table between commits."""

    keeps_batch = True
    can_widen = staticmethod(delta_widens)
    describe_layout_mismatch = staticmethod(describe_layout_mismatch)
    drop = staticmethod(drop_table)
    get_partition_columns = staticmethod(get_partition_columns)

    def __init__(self, *, avoids_spark: bool = False, is_exclusive: bool = True) -> None:
        """Create the writer of a run, which has not read any table yet.

        Args:
            avoids_spark: True to use Spark only for what the library deltalake cannot do. The user
                must have no Spark settings for Delta, since the library does not read them.
            is_exclusive: True if the caller holds the lock of the job. Temporary folders of the
                job's earlier runs may then be removed. False if they may belong to active runs.
        """
        self._is_exclusive = is_exclusive
        self._tables: defaultdict[str, _DeltaTableState] = defaultdict(_DeltaTableState)
        self._avoids_spark = avoids_spark
        self._has_own_settings: bool | None = False if avoids_spark else None

    def get_column_types(self, spark: SparkSession, table: Table) -> Mapping[str, str] | None:
        """Return the type (DDL) of each column, in table order, or None if there is no table.

        Raises:
            TableError: The folder has files but no Delta table, or the table was replaced during
                the run.
        """
        self._check_same(spark, table)
        return get_types(spark, table)

    def create(
        self,
        spark: SparkSession,
        table: Table,
        table_schema: TableSchema,
        layout: TableLayout,
        *,
        has_rows: bool = False,  # noqa: ARG002  (an empty table is made in any case)
    ) -> None:
        """Create an empty Delta table with the given columns, partitioning and clustering.

        ``has_rows`` is ignored, because the table is created in any case.
        """
        create_catalog_table(
            spark, table, table_schema, layout, through_spark=self._uses_spark_alone(spark)
        )
        state = self._tables[table.key]
        state.is_empty, state.newest = True, None
        self._check_same(spark, table)

    def alter(self, spark: SparkSession, table: Table, changes: Sequence[SchemaChange]) -> None:
        """Add columns and nested fields to a table, and widen column types."""
        if all(change.kind == "add" and len(change.path) == 1 for change in changes):
            fields = [
                build_field(change.path[0], parse_ddl(change.ddl), change.comment)
                for change in changes
            ]
            if self._change_without_spark(spark, table, partial(add_columns, fields=fields)):
                return
        self._alter(spark, table, build_alter_statements(changes, to_widen=_WIDENING))

    def sources(self, spark: SparkSession, table: Table) -> Mapping[str, str] | None:
        """Return the source property of each renamed column: ``{"`user_id`": "user-id"}``.

        Return None if another program created the table: the properties are then unknown.
        """
        return read_sources(get_properties(spark, table))

    def annotate(self, spark: SparkSession, table: Table, table_schema: TableSchema) -> None:
        """Store column comments, and the property names of renamed columns, in a table."""
        properties, schema = get_properties(spark, table), get_schema(spark, table)
        sources = find_new_sources(properties, table_schema)
        comments = find_new_comments(schema, table_schema)
        change = partial(annotate_table, properties=sources, comments=comments)
        if (sources or comments) and not self._change_without_spark(spark, table, change):
            self._alter(spark, table, build_annotations(properties, schema, table_schema))

    def drop_not_null(self, spark: SparkSession, table: Table, keep: Collection[str]) -> None:
        """Drop the NOT NULL constraints of a table's columns, except of the columns ``keep``."""
        self._alter(spark, table, build_drop_not_null(get_schema(spark, table), keep))

    def _change_without_spark(
        self, spark: SparkSession, table: Table, change: Callable[..., bool]
    ) -> bool:
        """Change a table by a commit of the library deltalake, if the table allows it.

        Args:
            spark: The Spark session of the calling thread.
            table: The table to change.
            change: Function that makes the commit. Its arguments are a snapshot and, as ``before``,
                the commit metadata to repeat. It returns False if another writer committed first,
                and is then called again.

        Returns:
            True if the table was changed; False if Spark must do it.
        """
        while True:
            self._check_same(spark, table)
            snapshot = read_table_snapshot(table)
            if snapshot is None or not self._allows_commit_without_spark(spark, snapshot, {}):
                return False
            if change(snapshot, before=self._read_newest_metadata(spark, table)):
                return True

    def _alter(self, spark: SparkSession, table: Table, clauses: Iterable[str]) -> None:
        """Run one ALTER TABLE statement per clause.

        Each resulting commit repeats the metadata of target-spark's newest commit.
        """
        for clause in clauses:
            self._check_same(spark, table)
            with spark_conf(spark, self._build_repeat_conf(spark, table)):
                spark.sql(f"ALTER TABLE {delta_ref(table)} {clause}")

    def append(
        self, table: Table, df: DataFrame, commit: CommitMetadata, rows: int | None = None
    ) -> CommitStats:
        """Add the rows of a batch to a table in one commit. ``rows`` is their number, if known."""
        return self._write_frame(table, df, commit, "append", rows)

    def replace(
        self, table: Table, df: DataFrame, commit: CommitMetadata, rows: int | None = None
    ) -> CommitStats:
        """Replace a table's rows by ``df`` in one commit. ``rows`` is its row count, if known."""
        return self._write_frame(table, df, commit, "overwrite", rows)

    def commit_empty(self, spark: SparkSession, table: Table, commit: CommitMetadata) -> None:
        """Make a commit without rows, to store metadata such as the newest state in a table."""
        with self._committing(spark, table, commit, lambda _written: 0) as marker:
            if marker is not None and not self._append_files(spark, table, _NO_FILES, marker):
                no_rows = spark.table(delta_ref(table)).where(F.lit(False))  # noqa: FBT003
                _write_by_spark(table, no_rows, marker, "append")

    def upsert(
        self, table: Table, df: DataFrame, keys: MergeKeys, commit: CommitMetadata
    ) -> CommitStats:
        """Replace the table rows whose keys occur in the batch, and add the rows with new keys.

        This is a MERGE if the table has rows. For a table without rows it is an append, which takes
        a quarter of the time.
        """
        spark, newest = df.sparkSession, latest_by_key(df, keys)
        with spark_conf(spark, self._find_small_conf(spark, table, keys)):
            if self.is_empty(spark, table):
                return self._append_first_rows(table, as_initial_rows(newest, keys), commit)
            columns = [name for name in newest.columns if name != DELETE_ONLY_COLUMN]
            merge = build_upsert(delta_ref(table), columns, keys)
            with spark_conf(spark, _choose_source_conf(keys)):
                return self._merge(table, newest, merge, commit, keys.unique_rows)

    def history(
        self, table: Table, df: DataFrame, keys: MergeKeys, commit: CommitMetadata
    ) -> CommitStats:
        """Insert new versions of changed rows into an SCD2 table, and end their old versions."""
        spark = df.sparkSession
        if self.is_empty(spark, table):
            return self._append_first_rows(table, initial_versions(df, keys), commit)
        self._convert_to_versions(spark, table, keys.deleted, commit)
        merge = build_scd2_merge(delta_ref(table), df, keys)
        changes = compute_changes(df, self.rows(spark, table), keys, commit.run_started * 1000)
        return self._merge(table, changes, merge, commit)

    def delete_versions(
        self, spark: SparkSession, table: Table, deletion: VersionDelete, commit: CommitMetadata
    ) -> CommitStats:
        """Delete rows of all table versions but ``deletion.version``, or mark them as deleted."""
        if self._avoids_spark and self._can_rewrite(spark, table, {}) and not deletion.history:
            with self._committing(spark, table, commit, None) as marker:
                if marker is not None:
                    delete = partial(delete_other_versions, deletion=deletion, marker=marker)
                    self._commit_after_newest(spark, table, {}, marker, delete, rewrites=True)
            return self._tables[table.key].effect
        if deletion.history:
            self._convert_to_versions(spark, table, deletion.deleted, commit)
        if self.rows(spark, table).where(version_delete_condition(deletion)).isEmpty():
            self.commit_empty(spark, table, commit)  # Delta makes no commit for an empty DELETE
            return CommitStats()
        statement = build_version_delete_sql(delta_ref(table), deletion)
        with self._committing(spark, table, commit, None) as marker:
            if marker is not None:
                with spark_conf(spark, _build_commit_conf(marker, table)):
                    spark.sql(statement)
        return self._tables[table.key].effect

    def get_last_metadata(
        self, spark: SparkSession, table: Table, known: CommitMetadata | None = None
    ) -> CommitMetadata | None:
        """Return the metadata that target-spark stored in its newest commit to a table, or None."""
        state = self._tables[table.key]
        state.newest = find_newest_metadata(commits(spark, table), state.newest or known)
        return state.newest

    def rows(self, spark: SparkSession, table: Table) -> DataFrame:
        """Return the current rows of a Delta table as a DataFrame."""
        return spark.table(delta_ref(table))

    def may_have_value(self, table: Table, column: str, value: int) -> bool:
        """Return False if no row of a table has the integer ``value`` in a column.

        This is determined without Spark. Return True if only Spark can read the table.
        """
        snapshot = read_table_snapshot(table)
        return snapshot is None or not snapshot.takes_rewrites or snapshot.has_value(column, value)

    def maintain(self, spark: SparkSession, table: Table, options: MaintenanceOptions) -> None:
        """Run OPTIMIZE and VACUUM on a table, if the options configure them.

        Each resulting commit repeats the metadata of target-spark's newest commit.
        """
        self._check_same(spark, table)
        conf = self._build_repeat_conf(spark, table)
        optimize_and_vacuum(spark, delta_ref(table), options, conf)

    def is_empty(self, spark: SparkSession, table: Table) -> bool:
        """Return True if a Delta table has no data files.

        The result is cached until the next commit of this run.
        """
        state = self._tables[table.key]
        if state.is_empty is None:
            state.is_empty = not has_files(spark, table)
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
        self._check_same(spark, table)
        is_unconverted = F.col(quote(IS_CURRENT)).isNull()
        if not self.rows(spark, table).where(is_unconverted).isEmpty():
            with spark_conf(spark, self._build_repeat_conf(spark, table)):
                spark.sql(
                    build_conversion_sql(delta_ref(table), commit.run_started * 1000, deleted)
                )
        state.is_converted = True

    # Commits

    def _write_frame(
        self, table: Table, df: DataFrame, commit: CommitMetadata, mode: str, rows: int | None
    ) -> CommitStats:
        spark = df.sparkSession
        df, count = counted(df, rows)
        with self._committing(spark, table, commit, count) as marker:
            if marker is not None:
                source = _build_file_source(df, table, marker, count)
                if mode != "append" or not self._append_files(spark, table, source, marker):
                    _write_by_spark(table, df, marker, mode)
        return self._tables[table.key].effect

    def _append_first_rows(
        self, table: Table, df: DataFrame, commit: CommitMetadata
    ) -> CommitStats:
        """Append the first rows of an empty Delta table.

        Raises:
            ConflictError: Another writer has added rows to the table; nothing was written. A retry
                reads the table and its commit metadata again.
        """
        spark = df.sparkSession
        df, count = counted(df, None)
        state = self._tables[table.key]
        with self._committing(spark, table, commit, count) as marker:
            if marker is not None and not self._append_files(
                spark, table, _build_file_source(df, table, marker, count), marker, first=True
            ):
                with spark_conf(spark, _build_commit_conf(marker, table)):
                    insert_first(spark, table, df)
        return state.effect

    def _append_files(
        self,
        spark: SparkSession,
        table: Table,
        source: _FileSource,
        marker: CommitMetadata,
        *,
        first: bool = False,
        replaces: bool = False,
    ) -> bool:
        """Write rows as data files, and commit the files by the library deltalake if possible.

        Args:
            spark: The Spark session of the calling thread.
            table: The table to write to.
            source: The rows, with a function that writes them as files.
            marker: The metadata to store in the commit, such as the newest state.
            first: True to fail if the table already has data files; False to allow them.
            replaces: True to replace all files of the table; False to keep them.

        Returns:
            True if the commit was made; False if nothing was done, and the caller must commit
            through Spark.

        Raises:
            ConflictError: The table was changed while the files were written, or ``first`` is True
                and the table has data files.
        """
        snapshot = read_table_snapshot(table)
        if snapshot is None:
            return False
        if not self._allows_commit_without_spark(spark, snapshot, source.types, rewrites=replaces):
            return False
        if first and snapshot.has_files():
            raise _not_empty_error(table)
        files = source.write(snapshot.folder)
        was_tried = False

        def commit(current: DeltaSnapshot, app_id: str) -> bool:
            nonlocal was_tried
            if first and current.has_files():
                raise _not_empty_error(table)
            was_tried = True
            return commit_files(current, files, marker, app_id, replaces=replaces)

        try:
            self._commit_after_newest(spark, table, source.types, marker, commit, rewrites=replaces)
        except TargetSparkError:  # no commit names the files, and no pending one can
            remove_files(files)
            raise
        if not was_tried:
            remove_files(files)  # an earlier attempt has made the commit with other files
        return True

    def _commit_after_newest(
        self,
        spark: SparkSession,
        table: Table,
        types: Mapping[str, str],
        marker: CommitMetadata,
        commit: Callable[[DeltaSnapshot, str], bool],
        *,
        rewrites: bool,
    ) -> None:
        """Make a commit of the library deltalake as the table version after the newest one.

        Args:
            spark: The Spark session of the calling thread.
            table: The table to write to.
            types: The type (DDL) of each column that the commit writes.
            marker: The metadata to store in the commit, such as the newest state.
            commit: Function that makes the commit, given the newest version and the application id
                of the transaction. It returns False if another writer committed first, and is then
                called again.
            rewrites: True if the commit replaces rows of the table; False if it only adds rows.

        Raises:
            ConflictError: Another writer of target-spark has committed, or the table's columns or
                features have changed.
            TableError: The table was removed or replaced.
        """
        app_id = txn_app_id(marker.job, table.name, marker.run)
        state = self._tables[table.key]
        while True:
            snapshot = read_table_snapshot(table)
            check_same_table(table, state.id, None if snapshot is None else snapshot.id)
            if snapshot is None:
                raise table_removed_error(table)
            if snapshot.has_batch(app_id, marker.batch):  # an earlier call made it after all
                return
            # Other runs may commit to the table of runs, since its commits have no state.
            is_known = marker.job == RUNS or (
                find_newest_metadata(commits(spark, table), state.newest) == state.newest
            )
            if not is_known or not self._allows_commit_without_spark(
                spark, snapshot, types, rewrites=rewrites
            ):
                raise ConflictError(
                    f"Table {table.name} was changed while rows were written to it."
                )
            if commit(snapshot, app_id):
                return

    def takes_small_batch(
        self, spark: SparkSession, table: Table, batch: SmallBatch, mode: WriteMode
    ) -> bool:
        """Return True if `write_small_batch` can write a batch to a table.

        Return False if only Spark can write to the table in this write mode or compare the keys of
        the rows, or if a merge would need too much memory in this process.
        """
        if mode is WriteMode.SCD2 or (batch.has_nested_keys and mode is not WriteMode.APPEND):
            return False
        if mode is WriteMode.UPSERT:
            can_rewrite = self._can_rewrite(spark, table, batch.types)
            return can_rewrite and not has_rounded_decimals(batch.rows)
        snapshot = read_table_snapshot(table)
        return snapshot is not None and self._allows_commit_without_spark(
            spark, snapshot, batch.types, rewrites=mode is WriteMode.OVERWRITE
        )

    def _can_rewrite(self, spark: SparkSession, table: Table, types: Mapping[str, str]) -> bool:
        """Return True if the library deltalake can update and delete rows of a table.

        Return False if the table has unsupported features. Also return False if its files have more
        than 32 MiB in total, because the library would need too much memory, or if they have
        decimals whose bounds the library would round. ``types`` has the type (DDL) of each column
        to write.
        """
        snapshot = read_table_snapshot(table)
        return (
            snapshot is not None
            and self._allows_commit_without_spark(spark, snapshot, types, rewrites=True)
            and snapshot.file_bytes() <= _MERGED_BYTES
            and not has_rounded_decimals(snapshot.read_columns(may_round_decimals))
        )

    def write_small_batch(
        self,
        spark: SparkSession,
        table: Table,
        batch: SmallBatch,
        mode: WriteMode,
        keys: MergeKeys,
        commit: CommitMetadata,
    ) -> CommitStats:
        """Append, upsert or overwrite with a small batch, by the library deltalake without Spark.

        Call this method only if `takes_small_batch` returns True.

        Args:
            spark: The Spark session of the calling thread.
            table: The table to write to.
            batch: The rows.
            mode: Append, upsert or overwrite.
            keys: The rules for matching and deleting rows.
            commit: The metadata to store in the commit: batch number, run and newest state.

        Raises:
            ConflictError: The table was changed since `takes_small_batch` was called.
        """
        if mode is WriteMode.UPSERT and not self.is_empty(spark, table):
            return self._merge_small_batch(spark, table, batch, keys, commit)
        if mode is not WriteMode.APPEND and keys.columns:
            rows = keep_initial_rows(latest_rows_by_key(batch.rows, keys), keys)
        else:
            rows = sort_arrow_rows(batch.rows.drop_columns([keys.order]), keys)
        source = _FileSource(batch.types, partial(write_arrow_file, rows, table, job=commit.job))
        with self._committing(spark, table, commit, lambda _count: rows.num_rows) as marker:
            if marker is not None and not self._append_files(
                spark,
                table,
                source,
                marker,
                first=mode is WriteMode.UPSERT,
                replaces=mode is WriteMode.OVERWRITE,
            ):
                raise ConflictError(f"Table {table.name} was changed before rows were written.")
        return self._tables[table.key].effect

    def _merge_small_batch(
        self,
        spark: SparkSession,
        table: Table,
        batch: SmallBatch,
        keys: MergeKeys,
        commit: CommitMetadata,
    ) -> CommitStats:
        rows = latest_rows_by_key(batch.rows, keys)
        columns = [name for name in rows.column_names if name != DELETE_ONLY_COLUMN]
        merge = build_upsert(MERGE_TARGET, columns, keys)
        with self._committing(
            spark, table, commit, None, source=lambda _count: rows.num_rows
        ) as marker:
            if marker is not None:
                self._commit_after_newest(
                    spark,
                    table,
                    batch.types,
                    marker,
                    lambda snapshot, app_id: merge_rows(snapshot, rows, merge, marker, app_id),
                    rewrites=True,
                )
        return self._tables[table.key].effect

    def _merge(
        self,
        table: Table,
        batch: DataFrame,
        merge: Merge,
        commit: CommitMetadata,
        rows: int | None = None,
    ) -> CommitStats:
        """Run a MERGE statement that merges a batch into a table, in one commit.

        ``rows`` is the number of rows of the batch if it is known; otherwise Spark counts them.
        """
        spark = batch.sparkSession
        batch, count = counted(batch, rows)
        with self._committing(spark, table, commit, None, source=count) as marker:
            if marker is not None:
                with spark_conf(spark, _build_commit_conf(marker, table)):
                    merge.run(batch)
        return self._tables[table.key].effect

    @contextmanager
    def _committing(
        self,
        spark: SparkSession,
        table: Table,
        commit: CommitMetadata,
        rows: Count | None,
        *,
        source: Count | None = None,
    ) -> Iterator[CommitMetadata | None]:
        """Context manager for a commit, which the block makes: prepare and verify its metadata.

        Args:
            spark: The Spark session of the calling thread.
            table: The table to commit to.
            commit: The metadata to store in the commit: batch number, run and newest state.
            rows: Function that returns the number of rows that the commit must add; None if
                unknown.
            source: Function that returns the number of batch rows that a MERGE must read; None if
                unknown.

        Yields:
            The commit metadata to write. None if the table already contains the batch, because an
            earlier commit succeeded but its response was lost.
        """
        self._check_same(spark, table)
        state = self._tables[table.key]
        acknowledged = commit.has_same_batch(state.acknowledged)
        try:
            before = self._read_newest_metadata(spark, table, commit)
            marker = next_metadata(before, commit, table, acknowledged=acknowledged)
            self._clean_staging(table, commit.job)
            is_made = commit.has_same_batch(before)
            yield None if is_made else marker
            verified = self._verify(spark, table, commit)
            if not is_made:
                _check_counts(table, verified, rows, source)
        except BaseException as error:  # the commit may be in the table in spite of the error
            state.is_empty = None
            if isinstance(error, Exception) and not isinstance(error, TargetSparkError):
                self._check_same(spark, table)  # the table may have been replaced
            raise
        state.newest = state.acknowledged = marker
        state.effect = verified.effect
        state.is_empty = False

    def _check_same(self, spark: SparkSession, table: Table) -> None:
        """Check that a table was not removed or replaced since this run first read it.

        Raises:
            TableError: The table was removed or replaced.
        """
        state = self._tables[table.key]
        state.id = check_same_table(table, state.id, get_table_id(spark, table))

    def _verify(self, spark: SparkSession, table: Table, commit: CommitMetadata) -> Commit:
        """Return this run's newest commit of a table, after checking that it contains the batch.

        Raises:
            CommitLostError: The newest commit has another batch, or this run has no commit in the
                table.
            TableError: An earlier commit of this run is missing, or another run has committed
                right before.
        """
        history = commits(spark, table)
        newest = next((entry for entry in history if commit.is_same_run(entry.marker)), Commit(0))
        if not commit.has_same_batch(newest.marker):
            raise CommitLostError(
                f"Batch {commit.batch} of table {table.name} was written without an error,"
                " but no commit in the table has this batch's metadata: Delta skipped it as a"
                " transaction that it had already, or another writer replaced it. No state that"
                " covers its rows is emitted."
            )
        state = self._tables[table.key]
        to_check, before = tee(history)
        self._check_history(table, chain([newest], to_check))
        meanwhile = find_newest_metadata(
            takewhile(lambda entry: entry.version > state.seen, before)
        )
        if meanwhile is not None:
            check_predecessor(table, meanwhile, commit)
        folder = table.local_folder
        if folder is not None:
            newest = newest._replace(added_bytes=check_commit(table, folder, newest.version))
        state.version = newest.version
        return newest

    def _check_history(self, table: Table, history: Iterable[Commit]) -> None:
        """Check that this run's last commit is still in the history of a table.

        If all commits in the log are newer, Delta may have removed the commit from the log, and the
        check passes.

        Args:
            table: The table.
            history: The commits in the table's log, newest first.

        Raises:
            TableError: The commit is missing, or another program has restored an earlier version.
        """
        last = self._tables[table.key].version
        if last is None:
            return
        reached = Commit(-1)
        for reached in history:
            if reached.version <= last:
                break
        if reached.version == last:
            return
        # If all commits are newer, Delta has removed the others, or a RESTORE has undone them.
        if reached.version < last or reached.restored is not None:
            raise table_removed_error(table)

    def _build_repeat_conf(self, spark: SparkSession, table: Table) -> dict[str, str]:
        """Return the Spark setting that makes a commit repeat target-spark's newest metadata.

        The dictionary is empty if target-spark has made no commit to the table.
        """
        before = self._read_newest_metadata(spark, table)
        return {} if before is None else {_METADATA: before.to_json()}

    def _read_newest_metadata(
        self, spark: SparkSession, table: Table, commit: CommitMetadata | None = None
    ) -> CommitMetadata | None:
        """Return the metadata of target-spark's newest commit to a table, or None.

        Also store the newest Delta version, so that `_verify` can find later commits of other runs.
        ``commit`` is the commit to be made next; None if no commit follows.

        Raises:
            TableError: This run's last commit is no longer in the history of the table.
        """
        to_check, history = tee(commits(spark, table))
        self._check_history(table, to_check)
        state = self._tables[table.key]
        last = next(history, Commit(-1))
        state.newest = find_newest_metadata(chain([last], history), state.newest)
        # An earlier attempt may have made the commit although its response was lost.
        if commit is None or not commit.has_same_batch(state.newest):
            state.seen = last.version
        return state.newest

    def _clean_staging(self, table: Table, job: str) -> None:
        state, folder = self._tables[table.key], table.local_folder
        if folder is not None and self._is_exclusive and not state.is_staging_clean:
            remove_stale_staging(folder, job)
            state.is_staging_clean = True

    def _allows_commit_without_spark(
        self,
        spark: SparkSession,
        snapshot: DeltaSnapshot,
        types: Mapping[str, str],
        *,
        rewrites: bool = False,
    ) -> bool:
        """Return True if rows may be committed without Spark, by the library deltalake.

        The result depends on the table's features, its column types and the user's Spark settings.
        ``types`` has the type (DDL) of each column to write. ``rewrites`` is True if the commit
        replaces rows, False if it only adds rows.
        """
        is_supported = snapshot.takes_rewrites if rewrites else snapshot.takes_files
        if not is_supported or self._uses_spark_alone(spark):
            return False
        existing = {field.name: column_ddl(field) for field in snapshot.fields}
        return all(existing.get(name) == ddl for name, ddl in types.items())

    def _find_small_conf(
        self, spark: SparkSession, table: Table, keys: MergeKeys
    ) -> Mapping[str, str]:
        """Return Spark settings that speed up an upsert if the batch and the table are small.

        The result is empty unless the batch is in Spark's memory, and the table is small, in a
        local folder, and without partitions or features such as widened types.
        """
        if keys.unique_rows is None:
            return {}
        snapshot = read_table_snapshot(table)
        # To read other tables, Spark needs the code generation that the settings turn off.
        if snapshot is None or not snapshot.takes_files:
            return {}
        if snapshot.file_bytes() > _SMALL_TABLE_BYTES:
            return {}
        return find_small_commit_conf(spark) | {_SNAPSHOT_PARTITIONS: "1"}

    def _uses_spark_alone(self, spark: SparkSession) -> bool:
        """Return True if Spark must make every commit, because of the user's Spark settings.

        The library deltalake does not read settings that begin with ``spark.databricks.delta.``.
        """
        if self._has_own_settings is None:  # read once: Spark returns hundreds of settings
            self._has_own_settings = any(
                # target-spark itself sets the number of snapshot partitions in each session.
                key.startswith(_DELTA_SETTINGS) and key != _SNAPSHOT_PARTITIONS
                for key in spark.conf.getAll
            )
        return self._has_own_settings


def insert_first(spark: SparkSession, table: Table, rows: DataFrame) -> None:
    """Append the first rows of a table by an SQL statement that fails if the table has rows.

    If another writer adds rows while the statement runs, Delta reports a conflict.

    Raises:
        ConflictError: The table already has rows of another writer; nothing was written.
    """
    ref, names = delta_ref(table), ", ".join(map(quote, rows.columns))
    statement = (
        f"INSERT INTO {ref} ({names}) SELECT {names} FROM {BATCH_VIEW} WHERE CASE WHEN EXISTS"  # noqa: S608
        f" (SELECT 1 FROM {ref}) THEN raise_error('{_HAS_ROWS}') ELSE true END"
    )
    rows.createOrReplaceTempView(BATCH_VIEW)
    try:
        spark.sql(statement)
    except Exception as error:
        if _HAS_ROWS not in str(error):
            raise
        raise _not_empty_error(table) from error
    finally:
        spark.catalog.dropTempView(BATCH_VIEW)


def _not_empty_error(table: Table) -> ConflictError:
    return ConflictError(f"Another writer has added the first rows to table {table.name}.")


def _choose_source_conf(keys: MergeKeys) -> Mapping[str, str]:
    """Return the Spark setting that decides if a MERGE copies the rows of the batch to disk.

    Rows that Spark holds in memory are not copied, because each read gives the same rows. Other
    rows are copied, so that Spark computes them only once.
    """
    return MATERIALIZE_SOURCE_CONF if keys.unique_rows is None else {_MATERIALIZE_SOURCE: "none"}


@dataclass(frozen=True, slots=True)
class _FileSource:
    """Rows of a batch, with the function that writes them to Parquet files of a Delta table.

    Attributes:
        types: The type (DDL) of each column by name.
        write: Function that writes the rows as files into the table's folder.
    """

    types: Mapping[str, str]
    write: Callable[[Path], list[DataFile]]


_NO_FILES: Final = _FileSource({}, lambda _folder: [])


def _build_file_source(
    df: DataFrame, table: Table, marker: CommitMetadata, count: Count
) -> _FileSource:
    types = {field.name: column_ddl(field) for field in df.schema.fields}
    return _FileSource(types, lambda folder: write_files(df, table, folder, marker.job, count))


def _check_counts(table: Table, commit: Commit, rows: Count | None, source: Count | None) -> None:
    """Check the row counts that Delta reports for a commit against the rows of the batch.

    ``rows`` returns the number of rows that the commit must add, and ``source`` the number of batch
    rows that a MERGE must read. If one of them is None, its number is not checked.

    Raises:
        RowCountError: The counts differ.
    """
    inserted, read = commit.effect.inserted, commit.source_rows
    for count, actual, verb in ((rows, inserted, "has"), (source, read, "was made from")):
        if count is not None and commit.metrics and count(actual) != actual:
            raise RowCountError(
                f"Table {table.name}: {count(actual)} rows were to be written, but commit"
                f" {commit.version} {verb} {actual}. No state that covers these rows is emitted;"
                f" restore the table to version {commit.version - 1} and start again."
            )


def _build_commit_conf(marker: CommitMetadata, table: Table) -> dict[str, str]:
    return {
        _METADATA: marker.to_json(),
        _APP_ID: txn_app_id(marker.job, table.name, marker.run),
        _TXN_VERSION: str(marker.batch),
    }


def _write_by_spark(table: Table, df: DataFrame, marker: CommitMetadata, mode: str) -> None:
    """Append the rows of ``df`` to a table, or overwrite the table, depending on ``mode``."""
    rows = df.writeTo(delta_ref(table)).options(
        userMetadata=marker.to_json(),
        txnAppId=txn_app_id(marker.job, table.name, marker.run),
        txnVersion=marker.batch,
    )
    rows.overwrite(F.lit(True)) if mode == "overwrite" else rows.append()  # noqa: FBT003
