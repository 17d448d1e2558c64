"""Commit of one batch to its table, with quarantine of the rows that do not match their schema.

- Nearly every batch is valid, so the writer first tries to commit it directly. The Spark job fails
  on the first bad row, and then nothing is committed. From that failure on, the good rows of every
  batch of that table are written to temporary files and the bad rows are committed to the
  quarantine table. Only then are the good rows committed together with the state.
- The rows written plus the rows quarantined must equal the rows received; a difference raises an
  error.
- Commits of a table are numbered from 1 within a run. No other writer may use the table during the
  run.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeVar

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as all of Spark's users call it)

from tap_core.events import StreamId
from tap_core.limits.memory import MIB
from target_spark.columns import (
    DELETED_AT,
    META,
    TABLE_VERSION,
    CanWiden,
    SchemaChange,
    TableSchema,
    diff_with_table,
)
from target_spark.config.options import LoadOptions, RunInfo, WriteMode
from target_spark.errors import StorageError
from target_spark.frames import BAD_ROWS_MARKER, BatchMetadata, CombinedFrame, Counts, SpoolFrame
from target_spark.frames.arrow_batch import ArrowBatch, UnsupportedBatchError, read_arrow_batch
from target_spark.frames.local_frame import MAX_LOCAL_BYTES, MAX_LOCAL_ROWS, read_local_frame
from target_spark.loader.batch_file_ingest import IngestedFiles, ingest_files, remove_batch_files
from target_spark.loader.commit_attempt import (
    BadRows,
    CommitAttempt,
    Prepared,
    Verified,
    Written,
    check_column_types,
    check_received_count,
)
from target_spark.loader.commit_request import CommitRequest, CommitResult
from target_spark.loader.engine_retry import retry_with_engine
from target_spark.loader.pending_states import CoveredState
from target_spark.loader.quarantine_limit import QuarantineGuard
from target_spark.loader.schema_change_errors import check_not_null_policy, name_refused_schema
from target_spark.loader.write_modes import (
    build_version_delete,
    check_scd2_compatible,
    find_distinct_key,
    find_metadata_column,
    format_key,
    get_merge_keys,
    has_other_versions,
    keeps_rows_of_sync,
    make_empty_frame,
    select_write_operation,
)
from target_spark.spark.row_counts import get_row_count
from target_spark.spark.spark_provider import SparkProvider, collect_garbage
from target_spark.storage.commit_retry import (
    disk_full_context,
    first_error_line,
    raise_translated_error,
)
from target_spark.storage.hadoop_fs import is_remote_session
from target_spark.storage.spool import Batch, SpoolFolder
from target_spark.storage.staged_rows import stage_frame, temporary_location, translate_write_errors
from target_spark.storage.staging_area import StagingArea, staged_for_spark
from target_spark.storage.uris import to_local_folder, to_spark_uri
from target_spark.tables import quarantine_table
from target_spark.tables.commit_metadata import (
    NO_METADATA,
    CommitMetadata,
    ExpectedMetadata,
    find_latest_metadata,
)
from target_spark.tables.constraint_violations import (
    check_constraint_violation,
    is_not_null_violation,
)
from target_spark.tables.identifiers import quote
from target_spark.tables.quarantine_summary import describe_reasons
from target_spark.tables.table import (
    QUARANTINE,
    CommitStats,
    MaintenanceOptions,
    Table,
    TableLayout,
)
from target_spark.writers import get_writer
from target_spark.writers.commit_checks import (
    table_moved_error,
    table_owner_error,
    table_removed_error,
)
from target_spark.writers.delta.small_batches import SmallBatch
from target_spark.writers.delta.writer import DeltaWriter
from target_spark.writers.sql_statements import (
    ONE_FILE_CONF,
    build_file_size_conf,
    find_small_commit_conf,
    spark_conf,
)

__all__ = ["BatchWriter"]

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

_QUARANTINED: Final = "Stream %s: rows that %s quarantined in table %s: %d. Reasons: %s"
_NULLED: Final = (
    "Stream %s: rows of %s that have null for a value that does not fit its column: %d. See column"
    " %s."
)

_SMALL_ROWS: Final = 50_000
_SMALL_BYTES: Final = 16 * MIB
"""Maximum size in bytes of a batch that is committed without Spark. Such a commit holds several
copies of the rows in memory."""

_SPARK_IS_NEEDED: Final = "Stream %s: its rows are committed by Spark from now on, because %s."

_NO_ROWS: Final = Counts(0, {})


@dataclass
class _TableProgress:
    """Properties of one table, and the progress of writing to it, which are kept during the run.

    Attributes:
        commits: Number of commits that this run made to the table.
        ordinal_shift: Number to add to the ordinals (input positions) of the table's next rows. It
            grows with each batch file, because the file's rows all come from one input position.
        stages_rows: True after a commit failed because a row did not fit its columns. From then on
            the rows of each batch are first written to temporary files, without the bad ones.
        needs_spark: True once a batch could only be committed with Spark, for example because it
            was large. Spark then also commits all later batches.
        wanted: The table schema that the stream required when the table was last prepared.
        prepared_columns: The columns of ``wanted``, with the types that they have in the table. The
            next commits use them if the stream still requires ``wanted``. None if the table must be
            compared with the stream's columns again.
        drops_not_null: True after a commit failed because a row has null in a NOT NULL column. The
            retry then drops the constraints.
        is_new: True if this run created the table.
        earlier_metadata: The newest commit metadata that earlier runs left in the table, or
            `NO_METADATA` if there is none. None until this run has read the table.
        distinct_key: The key columns, as JSON, if no two rows of the table have the same values in
            them. None if this is not known.
        written: Number of rows committed by this run.
        quarantined: Number of rows of this run committed to the quarantine table.
        changes: Column changes that no `CommitResult` has reported yet.
        known_changes: All column changes found so far, so that each is reported only once. Changes
            that ``on_schema_change`` prevents are found again by each comparison with the table.
        remarks: Further notes for the user about the table.
    """

    commits: int = 0
    ordinal_shift: int = 0
    stages_rows: bool = False
    needs_spark: bool = False
    wanted: TableSchema | None = None
    prepared_columns: TableSchema | None = None
    drops_not_null: bool = False
    is_new: bool = False
    earlier_metadata: CommitMetadata | None = None
    distinct_key: str | None = None
    written: int = 0
    quarantined: int = 0
    changes: list[SchemaChange] = field(default_factory=list)
    known_changes: set[SchemaChange] = field(default_factory=set)
    remarks: tuple[str, ...] = ()

    def begin_after(
        self, marker: CommitMetadata, table: Table, expected: CommitMetadata | None
    ) -> None:
        """Store the last commit metadata of earlier runs in the table. Later calls do nothing.

        Args:
            marker: The newest commit metadata in the table, or `NO_METADATA`.
            table: The table.
            expected: The commit metadata that the table had when this run read the state to resume
                from; None if unknown.

        Raises:
            TableError: ``marker`` and ``expected`` differ, because the table was restored or
                removed and lacks rows before the state, or another run has loaded newer rows.
        """
        if self.earlier_metadata is None:
            if expected is not None and not expected.has_same_batch(marker):
                raise table_moved_error(table, expected, marker)
            self.earlier_metadata = marker

    def add_changes(self, changes: Sequence[SchemaChange]) -> None:
        """Store column changes for the next `CommitResult`, except those stored before."""
        self.changes += (change for change in changes if change not in self.known_changes)
        self.known_changes.update(changes)

    def take_changes(self) -> tuple[SchemaChange, ...]:
        """Return the column changes that no `CommitResult` has reported yet, and clear the list."""
        changes = tuple(self.changes)
        self.changes.clear()
        return changes


class BatchWriter:
    """Writer that commits batches of rows to tables of one format, and quarantines bad rows.

    A row is bad if a value does not fit its column. A load has one instance. Several threads may
    use it at the same time, each for a different table.
    """

    def __init__(
        self,
        engine: SparkProvider,
        options: LoadOptions,
        run: RunInfo,
        folder: SpoolFolder,
        stopping: threading.Event | None = None,
    ) -> None:
        self._engine = engine
        self._stopping = stopping
        self._run, self._run_started = run, run.started
        self._run_started_lock = threading.Lock()
        self._folder = folder
        self._staging_area = StagingArea(
            folder, options.staging, run, is_exclusive=not options.dry_run
        )
        self._dry_run = options.dry_run
        self._writer = get_writer(options.format, dry=options.dry_run)
        self._delta_writer: DeltaWriter | None = None
        if options.small_batches_without_spark and not options.dry_run:
            self._writer = self._delta_writer = DeltaWriter(avoids_spark=True)
        self._tables: dict[str, _TableProgress] = defaultdict(_TableProgress)
        self._expected = ExpectedMetadata()
        self._stream_options = options.of
        self._version_column = options.columns.version_column
        # A run of an Airbyte destination loads one generation of a stream.
        self._has_single_generation = options.columns.airbyte
        self._guard = QuarantineGuard(options.max_quarantined, withholds=not run.replays)
        self._limits = options.batch_limits
        self._delete_files = options.delete_files and not options.dry_run

    @property
    def can_widen(self) -> CanWiden:
        """Function that returns True if the table format can change one type (DDL) to another."""
        return self._writer.can_widen

    @property
    def state_before(self) -> str | None:
        """The newest state (JSON) that earlier runs stored in this run's tables, or None."""
        markers = [progress.earlier_metadata for progress in self._tables.values()]
        last = find_latest_metadata(
            marker for marker in markers if marker and marker.job in self._run.jobs
        )
        return None if last is None else last.state

    def expect(self, expected: ExpectedMetadata) -> None:
        """Store the commit metadata that tables must have; else the first write to them fails."""
        self._expected = expected
        self._run_started = expected.find_run_start(self._run.started, self._run.jobs)

    def write(self, request: CommitRequest) -> CommitResult:
        """Commit batches of rows to a table, and quarantine the rows that do not fit its columns.

        Transient errors of the storage are retried. A retry uses the same commit number, so that no
        row is written twice.

        Raises:
            QuarantineError: More rows would be quarantined than the user allows.
            RowCountError: The rows to commit and the quarantined rows do not add up to the rows
                received.
            CommitLostError: The table does not contain the commit after the write.
            StorageError: The storage, the catalog or another writer still prevented the commit
                after all retries.
            DiskFullError: A disk is full.
        """
        progress = self._tables[request.table.key]
        with (
            self._with_reachable_spool(request) as reachable_request,
            self._with_spool_lines(reachable_request) as (converted_request, from_files),
        ):
            attempt = CommitAttempt(converted_request)
            verified = self._run_with_retries(request.table, partial(self._write, attempt))
            bad, written = verified.bad, verified.written
            progress.written += verified.rows
            progress.quarantined += bad.count if bad else 0
            if request.has_large_rows:
                collect_garbage(self._engine.spark())
        return CommitResult(
            written=verified.rows,
            quarantined=bad.count if bad else 0,
            carried=written.commit.covered if written else None,
            zoneless=verified.counts.zoneless,
            effect=written.stats if written else CommitStats(),
            changes=progress.take_changes(),
            remarks=progress.remarks,
            from_files=from_files,
            nulled=verified.counts.nulled,
            reasons=bad.reasons if bad else (),
            withheld=verified.withheld,
        )

    @contextmanager
    def _with_reachable_spool(self, request: CommitRequest) -> Iterator[CommitRequest]:
        """Context manager that copies a request's rows to storage that all Spark executors read.

        Rows are copied if they are on local disk and the setting ``staging`` is a remote URL. The
        yielded request has the URLs of the copies, which are deleted when the block ends.
        """
        spool_paths = (path for batch in request.batches for path in batch.paths)
        paths = [path for path in spool_paths if to_local_folder(path) is not None]
        if not paths or not self._staging_area.is_remote:
            yield request
            return
        with ExitStack() as stack:

            def step() -> Sequence[str]:
                spark = self._engine.spark_on_demand()
                return stack.enter_context(staged_for_spark(spark, self._staging_area, paths))

            copying = f"Stream {request.stream}: copying its rows to staging"
            copies = self._run_with_retries(request.table, step, copying)
            by_path = dict(zip(paths, copies, strict=True))
            batches = (
                replace(batch, paths=tuple(by_path.get(path, path) for path in batch.paths))
                for batch in request.batches
            )
            yield replace(request, batches=tuple(batches))

    @contextmanager
    def _with_spool_lines(self, request: CommitRequest) -> Iterator[tuple[CommitRequest, int]]:
        """Context manager that converts the files of BATCH messages to files of JSON lines.

        The new files are removed when the block ends.

        Yields:
            The commit request without files of BATCH messages, and the number of rows that were
            read from them: 0 if the request had none.
        """
        files = [file for batch in request.batches for file in batch.files]
        progress = self._tables[request.table.key]
        if not request.batches or not (files or progress.ordinal_shift):
            yield request, 0
            return
        with temporary_location(self._engine.spark(), self._staging_area, "lines") as location:
            locations = (f"{location}/{number}" for number in itertools.count(1))

            def step() -> IngestedFiles:
                spark, shift = self._engine.spark(), progress.ordinal_shift
                with translate_write_errors(self._staging_area):
                    return ingest_files(
                        spark, request, shift, next(locations), self._folder, self._limits
                    )

            ingested = self._run_with_retries(
                request.table, step, f"Stream {request.stream}: its batch files"
            )
            yield ingested.request, ingested.rows
        # Only now, because nothing is committed if the block fails.
        progress.ordinal_shift = ingested.ordinal_shift
        withheld = self._guard.find_withhold_reason(progress.written, progress.quarantined)
        if self._delete_files and not withheld:  # withheld rows may be read again
            remove_batch_files(self._engine.spark(), files)

    def _write(self, attempt: CommitAttempt) -> Verified:
        """Create or alter the table if necessary, then make the requested commit.

        The commit writes rows (see `_write_rows`), deletes the rows of other Singer table versions,
        or removes all rows (an overwrite without rows). The caller retries it after errors.
        """
        spark, request = self._engine.spark_on_demand(), attempt.request
        prepare_columns = partial(
            self._prepare_columns,
            spark,
            request.table,
            layout=request.layout,
            stream=request.stream,
            has_rows=request.kept_version is None,
        )
        older = request.older_schemas
        if older and self._writer.get_column_types(spark, request.table) is not None:
            for older_schema in older:  # an existing table may need another column for each
                prepare_columns(older_schema)
        table_schema = prepare_columns(request.table_schema)
        check_scd2_compatible(request, table_schema)
        if request.kept_version is not None:
            return self._delete_other_versions(spark, attempt, table_schema, request.kept_version)
        progress = self._tables[request.table.key]
        if attempt.keeps_rows is None:
            attempt.keeps_rows = keeps_rows_of_sync(
                self._writer, spark, request, table_schema, self._stream_options(request.stream)
            )
        progress.distinct_key = find_distinct_key(
            self._writer, spark, request, table_schema.keys, progress.distinct_key
        )
        if not request.batches:
            no_rows = make_empty_frame(spark, table_schema)
            written = self._commit_rows(attempt, table_schema, no_rows, rows=0)
            return written.verify(request, _NO_ROWS)
        return self._write_rows(spark, attempt, table_schema)

    def prepare(
        self, stream: StreamId, table: Table, table_schema: TableSchema, layout: TableLayout
    ) -> CommitResult:
        """Create a stream's table, or add and widen columns of an existing one to match a schema.

        Args:
            stream: The stream.
            table: The table of the stream.
            table_schema: The columns that the table must have.
            layout: The partitioning, clustering and file size of a new table.

        Returns:
            A result that lists the column changes; its row counts are 0.

        Raises:
            SchemaChangeError: The stream's policy forbids a change that the schema needs.
        """
        self._run_with_retries(
            table,
            lambda: self._prepare_columns(
                self._engine.spark_on_demand(), table, table_schema, layout, stream
            ),
        )
        progress = self._tables[table.key]
        changes = progress.take_changes()
        return CommitResult(0, 0, None, {}, changes=changes, remarks=progress.remarks)

    def maintain(self, table: Table, options: MaintenanceOptions) -> str | None:
        """Run maintenance (compaction, clean-up) on a table if this run committed to it.

        Return None on success, else the error message. A failure does not fail the run.
        """
        if not self._tables[table.key].commits:
            return None
        try:
            self._run_with_retries(
                table, lambda: self._writer.maintain(self._engine.spark(), table, options)
            )
        except Exception as error:  # noqa: BLE001  (the rows are safe; the next run repeats it)
            cause = error.__cause__ if isinstance(error, StorageError) else None
            reason = first_error_line(cause or error)
            logger.warning("Maintenance of table %s failed: %s", table.name, reason)
            return f"maintenance failed, the data is intact: {reason}"
        return None

    def commit_state(self, table: Table, covered: CoveredState) -> None:
        """Store a state in a commit without rows, for the next run. Retry transient errors."""
        marker = self._make_marker(table, covered)
        self._run_with_retries(
            table, lambda: self._writer.commit_empty(self._engine.spark_on_demand(), table, marker)
        )
        self._tables[table.key].commits += 1

    def _run_with_retries(
        self, table: Table, step: Callable[[], _T], description: str | None = None
    ) -> _T:
        """Call ``step``, and repeat the call after transient errors, such as a storage timeout.

        If ``step`` made a commit and then failed, it is not repeated, and its error is raised. Log
        messages begin with ``description``, or with the name of the table if it is None.

        Raises:
            StorageError: The error persisted until the retries were exhausted.
            DiskFullError: A disk is full.
            SparkDiedError: Spark has ended.
        """
        progress = self._tables[table.key]
        commits = progress.commits

        def before_retry(error: BaseException) -> None:
            if progress.commits != commits:
                raise error
            check_constraint_violation(table, error)
            progress.drops_not_null = is_not_null_violation(str(error))
            progress.prepared_columns = None

        operation = description or f"Table {table.name}"
        location = f"table {table.name} ({table.key})"
        with disk_full_context(location, "Free space there", may_be_committed=True):
            try:
                return retry_with_engine(
                    self._engine, step, operation, before_retry, self._stopping
                )
            except Exception as error:
                raise_translated_error(operation, error)
                raise

    # The table

    def _prepare_columns(
        self,
        spark: SparkSession,
        table: Table,
        wanted: TableSchema,
        layout: TableLayout,
        stream: StreamId | None = None,
        *,
        has_rows: bool = False,
    ) -> TableSchema:
        """Create a table, or add and widen its columns, to match the table schema ``wanted``.

        Return the columns of ``wanted``, with the types that they have in the table. The result is
        cached until ``wanted`` changes or a commit fails. Errors name the ``stream``; it is None
        for a quarantine table. ``has_rows`` is True if the caller writes rows next, which create
        the table in some formats.
        """
        progress = self._tables[table.key]
        if progress.prepared_columns is not None and progress.wanted == wanted:
            return progress.prepared_columns
        types = self._writer.get_column_types(spark, table)
        if types is None:
            if progress.commits:
                raise table_removed_error(table)
            progress.begin_after(NO_METADATA, table, self._expected.get(table))
            self._writer.create(spark, table, wanted, layout, has_rows=has_rows)
            progress.is_new = True
            progress.distinct_key = format_key(wanted.keys)
            progress.remarks = (_describe_creation(table, wanted),) if self._dry_run else ()
            prepared_columns = wanted
        else:
            if progress.prepared_columns is None:
                self._check_owner(spark, table)
                progress.remarks = ()
                if mismatch := self._writer.describe_layout_mismatch(spark, table, wanted, layout):
                    progress.remarks = (f"the table is {mismatch}, which is not changed",)
            full = wanted
            for name in (DELETED_AT, TABLE_VERSION):  # so that an update resets the old values
                full = full.with_metadata(name) if name in types else full
            with name_refused_schema(stream, table, full.on_change):
                prepared_columns = self._widen_table(spark, table, full, types)
        progress.wanted, progress.prepared_columns = wanted, prepared_columns
        return prepared_columns

    def _widen_table(
        self, spark: SparkSession, table: Table, wanted: TableSchema, types: Mapping[str, str]
    ) -> TableSchema:
        """Add missing columns to an existing table, and widen columns whose types are too narrow.

        ``wanted`` is the table schema that the stream requires; ``types`` has the type (DDL) of
        each existing column. Return the columns of ``wanted``, with the types that they have in the
        changed table.
        """
        progress, writer = self._tables[table.key], self._writer
        if progress.drops_not_null:
            check_not_null_policy(wanted.on_change)
        sources = writer.sources(spark, table)
        merged, changes = diff_with_table(wanted, types, writer.can_widen, sources)
        prepared_columns = merged.with_text_partitions(writer.get_partition_columns(spark, table))
        if changes_made := tuple(change for change in changes if change.is_made):
            writer.alter(spark, table, changes_made)
        progress.add_changes(changes)
        writer.annotate(spark, table, prepared_columns)
        if progress.drops_not_null:
            writer.drop_not_null(spark, table, prepared_columns.keys)
        return prepared_columns

    def _check_owner(self, spark: SparkSession, table: Table) -> None:
        """Store the metadata of a table's last commit, and check that this job made the commit.

        Two jobs must not load one table, because a run resumes from the state in the last commit.

        Raises:
            TableOwnerError: A job with another name made the commit.
            TableError: The table was restored, or another run of the job has loaded it, since the
                state of this run was read.
        """
        progress, expected = self._tables[table.key], self._expected.get(table)
        known = None if expected == NO_METADATA else expected
        marker = self._writer.get_last_metadata(spark, table, known)
        if marker is not None:
            if marker.job not in self._run.jobs:
                raise table_owner_error(table, marker.job, self._run.job)
            progress.distinct_key = marker.key
            if marker.run == self._run.id:  # not by time: the clock may have been set back
                return
            with self._run_started_lock:  # so that this run's states are the newest
                self._run_started = max(self._run_started, marker.run_started + 1)
        progress.begin_after(marker or NO_METADATA, table, expected)

    # Rows

    def _write_rows(
        self, spark: SparkSession, attempt: CommitAttempt, table_schema: TableSchema
    ) -> Verified:
        """Write the rows of a batch to the table, or to the quarantine table if they do not fit.

        A row is bad if one of its values does not fit its column. Two strategies are tried:

        1. All rows in one commit. Small batches are read in Python, or even committed without
           Spark; a Spark job writes all others. If a row is bad, nothing is written.
        2. `_split_and_write`: the bad rows in a commit to the quarantine table, then the good rows
           in a commit to the table. Only the second commit stores the state.

        After the first batch with bad rows, Spark uses only strategy 2 for the table in this run.
        A retry uses it too, because its first attempt may have committed rows.
        """
        request = attempt.request
        verified = self._write_without_spark(spark, attempt, table_schema)
        if verified is not None:
            return verified
        frame = self._make_frame(spark, request, table_schema)
        if not self._tables[request.table.key].stages_rows and attempt.prepared is None:
            verified = self._write_local(attempt, table_schema)
            verified = verified or self._write_all(spark, attempt, table_schema, frame)
        return verified or self._split_and_write(spark, attempt, table_schema, frame)

    def _make_frame(
        self, spark: SparkSession, request: CommitRequest, table_schema: TableSchema
    ) -> CombinedFrame:
        """Return the rows of a commit, each converted with the table schema of its batch.

        ``table_schema`` has the columns of the table. Batches with an older table schema, whose
        properties fill other columns, have a frame of their own.
        """
        metadata = self._make_batch_metadata(request)
        by_schema: dict[TableSchema | None, list[Batch]] = {}
        for batch in request.batches:
            by_schema.setdefault(batch.table_schema, []).append(batch)
        parts = []
        for older, batches in by_schema.items():
            columns = table_schema
            if older is not None:
                columns = _match_table(older, table_schema, self._writer.can_widen)
            frame = SpoolFrame(spark, _list_paths(batches), columns, metadata)
            parts.append((frame, sum(batch.count for batch in batches)))
        return CombinedFrame(parts)

    def _write_without_spark(
        self, spark: SparkSession, attempt: CommitAttempt, table_schema: TableSchema
    ) -> Verified | None:
        """Commit a small batch to a Delta table without Spark. All rows must fit their columns.

        Return None, without writing, if only Spark can commit the batch. Spark then also commits
        all later batches of the table in this run.
        """
        request, writer = attempt.request, self._delta_writer
        progress = self._tables[request.table.key]
        if writer is None or progress.needs_spark or request.older_schemas or attempt.keeps_rows:
            return None
        try:
            batch = _read_if_small(request, table_schema, self._make_batch_metadata(request))
        except UnsupportedBatchError as error:
            reason = str(error)
        else:
            small = SmallBatch.of(batch.table, table_schema)
            if writer.takes_small_batch(spark, request.table, small, request.mode):
                keys = get_merge_keys(table_schema, request, self._stream_options(request.stream))
                written = self._commit(
                    attempt,
                    lambda marker: writer.write_small_batch(
                        spark, request.table, small, request.mode, keys, marker
                    ),
                )
                return written.verify(request, Counts(batch.table.num_rows, batch.zoneless))
            reason = f"table {request.table.name} or its write mode needs Spark"
        progress.needs_spark = True
        logger.info(_SPARK_IS_NEEDED, request.stream, reason)
        return None

    def _write_local(self, attempt: CommitAttempt, table_schema: TableSchema) -> Verified | None:
        """Write the rows of a small batch, which are read in Python, to its table in one commit.

        Return None, without writing, if the batch is not small or only Spark can read its rows.
        """
        request, spark = attempt.request, self._engine.spark()
        is_small = request.count <= MAX_LOCAL_ROWS and request.nbytes <= MAX_LOCAL_BYTES
        if is_remote_session(spark) or not is_small or request.older_schemas:
            return None
        frame = read_local_frame(
            spark, _list_paths(request.batches), table_schema, self._make_batch_metadata(request)
        )
        if frame is None:
            return None
        check_received_count(request, frame.counts.rows, 0)
        reads_table = attempt.keeps_rows or request.mode in {WriteMode.UPSERT, WriteMode.SCD2}
        conf = {} if reads_table else find_small_commit_conf(spark)
        with spark_conf(spark, conf | ONE_FILE_CONF):
            written = self._commit_rows(
                attempt,
                table_schema,
                frame.df,
                rows=request.count,
                has_unique_keys=frame.has_unique_keys,
            )
        return written.verify(request, frame.counts)

    def _write_all(
        self,
        spark: SparkSession,
        attempt: CommitAttempt,
        table_schema: TableSchema,
        frame: CombinedFrame,
    ) -> Verified | None:
        """Write all rows of a batch to its table in one commit.

        Return None if a row does not fit the table's columns: the Spark job fails at the first one,
        and nothing is written.
        """
        request, df = attempt.request, frame.good(strict=True)
        commit_rows = partial(
            self._commit_rows, attempt, table_schema, rows=request.count, strict=True
        )
        try:
            if attempt.keeps_rows or self._evaluates_twice(spark, request):
                with stage_frame(spark, self._staging_area, df) as rows:
                    check_received_count(request, frame.counts(all_good=True).rows, 0)
                    written = commit_rows(rows)
            else:
                written = commit_rows(df)
        except Exception as error:
            if BAD_ROWS_MARKER not in str(error):
                raise
            self._tables[request.table.key].stages_rows = True
            attempt.prepared = None  # its job failed, so nothing was committed
            return None
        return written.verify(request, frame.counts(all_good=True))

    def _evaluates_twice(self, spark: SparkSession, request: CommitRequest) -> bool:
        """Return True if Spark would compute the rows of the batch twice, as a MERGE may do.

        The caller then writes the rows to temporary files first, and the MERGE reads the files.
        """
        if request.mode is WriteMode.UPSERT:
            # With Spark Connect the rows of a MERGE are not counted, so the batch is staged.
            is_kept = self._writer.keeps_batch and not is_remote_session(spark)
            return not (is_kept or self._writer.is_empty(spark, request.table))
        return request.mode is WriteMode.SCD2

    def _split_and_write(
        self,
        spark: SparkSession,
        attempt: CommitAttempt,
        table_schema: TableSchema,
        frame: CombinedFrame,
    ) -> Verified:
        """Quarantine the bad rows of a batch, then commit its good rows from temporary files.

        A row is bad if one of its values cannot be stored in its column. If the stream has too many
        bad rows, states after them must be held back: the commit then stores a state from before
        this batch.

        Raises:
            QuarantineError: More rows are bad than the user allows; nothing is committed.
            RowCountError: Good and bad rows do not add up to the rows received.
        """
        request = attempt.request
        progress = self._tables[request.table.key]
        with stage_frame(spark, self._staging_area, frame.good(strict=False)) as rows:
            counts = frame.counts()
            count = request.count - counts.rows
            bad = self._quarantine(spark, attempt, frame, count) if count else None
            withheld = self._guard.find_withhold_reason(
                progress.written + counts.rows, progress.quarantined + count
            )
            if withheld and request.mode is WriteMode.OVERWRITE:  # the old rows stay
                return Verified(counts, bad, None, withheld)
            if bad and attempt.prepared is not None and attempt.prepared.strict:
                attempt.prepared = None  # its job met a bad row, so nothing was committed
            written = self._commit_rows(
                attempt, table_schema, rows, rows=counts.rows, withheld=bool(withheld)
            )
        if counts.nulled:
            logger.warning(_NULLED, request.stream, request.table.name, counts.nulled, META)
        return replace(written.verify(request, counts, bad), withheld=withheld)

    def _commit_rows(
        self,
        attempt: CommitAttempt,
        table_schema: TableSchema,
        df: DataFrame,
        *,
        rows: int,
        strict: bool = False,
        withheld: bool = False,
        has_unique_keys: bool = False,
    ) -> Written:
        """Commit the rows of a DataFrame to a table in the stream's write mode.

        Args:
            attempt: The commit request, and what earlier attempts to commit it have achieved.
            table_schema: The table schema of the rows.
            df: The rows.
            rows: The number of rows in ``df``.
            strict: True if the Spark job fails at a row that does not fit its columns; False if
                such rows were already removed.
            withheld: True to store a state from before these rows, because too many rows were
                quarantined. False to store the newest state that the rows allow.
            has_unique_keys: True if ``df`` holds the rows in memory and no two have the same key.
                False if this is not known.
        """
        request, spark = attempt.request, df.sparkSession
        with spark_conf(spark, build_file_size_conf(request.layout)):
            write = select_write_operation(
                self._writer,
                request,
                table_schema,
                df,
                self._stream_options(request.stream),
                rows,
                has_unique_keys=has_unique_keys,
                keeps_rows=bool(attempt.keeps_rows),
            )
            types = self._writer.get_column_types(spark, request.table) or {}
            check_column_types(request.table, types, table_schema)
            return self._commit(attempt, write, strict=strict, withheld=withheld)

    def _commit(
        self,
        attempt: CommitAttempt,
        write: Callable[[CommitMetadata], CommitStats],
        *,
        strict: bool = False,
        withheld: bool = False,
    ) -> Written:
        """Make a commit by calling ``write`` with the metadata to store in it.

        The first attempt creates the metadata: the commit's number, and the newest state that may
        be stored. With ``withheld``, this is a state from before the commit's rows. A retry uses
        the same metadata. ``strict`` is True if the Spark job fails at a row that does not fit its
        columns. The row counts of the returned commit are not checked yet.
        """
        table = attempt.request.table
        if attempt.prepared is None:
            covered = attempt.request.covered(withheld=withheld)
            attempt.prepared = Prepared(self._make_marker(table, covered), covered, strict)
        stats = write(attempt.prepared.marker)
        self._tables[table.key].commits += 1
        return Written(attempt.prepared, stats)

    def _delete_other_versions(
        self, spark: SparkSession, attempt: CommitAttempt, table_schema: TableSchema, version: int
    ) -> Verified:
        """Commit the deletion of all rows whose Singer table version is not ``version``.

        With ``hard_delete`` the rows are removed, otherwise only marked as deleted.
        """
        request = attempt.request
        # Airbyte destination: a table that this run created has only rows of this version.
        if self._has_single_generation and self._tables[request.table.key].is_new:
            return Verified(_NO_ROWS, None, None)
        version_delete = build_version_delete(request, table_schema, version, self._version_column)
        written = self._commit(
            attempt,
            lambda marker: self._writer.delete_versions(
                spark, request.table, version_delete, marker
            ),
        )
        return written.verify(request, _NO_ROWS)

    def has_other_versions(self, table: Table, version: int) -> bool:
        """Return True if the table has rows of another Singer table version, not yet deleted."""
        prepared_columns = self._tables[table.key].prepared_columns
        column = find_metadata_column(prepared_columns, self._version_column)

        def step() -> bool:
            return has_other_versions(self._writer, self._engine.spark(), table, version, column)

        return self._run_with_retries(table, step)

    # Quarantine

    def _quarantine(
        self, spark: SparkSession, attempt: CommitAttempt, frame: CombinedFrame, count: int
    ) -> BadRows:
        """Commit the rows of a batch that do not fit their columns to the quarantine table.

        Return their number, which must be ``count``, and the reasons why they do not fit. Rows that
        an earlier attempt has already quarantined are not written again.

        Raises:
            QuarantineError: There are more bad rows than the user allows; nothing is written.
            RowCountError: The number of rows that do not fit is not ``count``.
        """
        bad, request = attempt.bad, attempt.request
        if bad is not None and bad.are_quarantined:
            return bad
        rows = frame.bad()
        progress = self._tables[request.table.key]
        if bad is None:
            bad = BadRows(count, quarantine_table.find_reasons(rows, request.table_schema))
            self._guard.add(request, count, progress.written, progress.quarantined, bad.reasons)
            attempt.bad = bad
        table = request.table.with_suffix(QUARANTINE)
        self._prepare_columns(spark, table, quarantine_table.SCHEMA, TableLayout(), has_rows=True)
        observed = Observation()
        counted = rows.observe(observed, F.count(F.lit(1)).alias("rows"))
        columns = quarantine_table.get_values(progress.commits + 1, self._run.id)
        values = counted.selectExpr(*columns)
        with stage_frame(spark, self._staging_area, values) as staged:
            check_received_count(
                request, request.count - count, get_row_count(spark, observed, lambda: staged)
            )
            self._writer.append(table, staged, self._make_marker(table, None), count)
        self._tables[table.key].commits += 1
        attempt.bad = replace(bad, are_quarantined=True)
        verb = "would be" if self._dry_run else "were"
        reasons = describe_reasons(bad.reasons)
        logger.warning(_QUARANTINED, request.stream, verb, table.name, count, reasons)
        return attempt.bad

    def _make_marker(self, table: Table, covered: CoveredState | None) -> CommitMetadata:
        """Return the metadata of the table's next commit, with the state to store (or None)."""
        run, progress = self._run, self._tables[table.key]
        return CommitMetadata(
            job=run.job,
            run=run.id,
            run_started=self._run_started,
            batch=progress.commits + 1,
            ordinal=0 if covered is None else covered.ordinal,
            state=None if covered is None else covered.state.decode(),
            replay=run.id if run.replays else None,
            key=progress.distinct_key,
            former=run.former,
            earlier=progress.earlier_metadata,
        )

    def _make_batch_metadata(self, request: CommitRequest) -> BatchMetadata:
        return BatchMetadata(
            received_at=request.received_at,
            batched_at=request.closed_at,
            sync_started_at=self._run_started,
            sync_id=self._stream_options(request.stream).sync_id,
            starts=dict(start for batch in request.batches for start in batch.starts.items()),
        )


def _match_table(older: TableSchema, table_schema: TableSchema, can_widen: CanWiden) -> TableSchema:
    """Return the columns of an older table schema with the names that they have in the table."""
    columns, _ = diff_with_table(older, table_schema.types, can_widen, table_schema.sources)
    return columns.with_text_partitions(table_schema.names_fed_by(table_schema.text_partitions))


def _read_if_small(
    request: CommitRequest, table_schema: TableSchema, metadata: BatchMetadata
) -> ArrowBatch:
    """Read the rows of a small batch (up to 50,000 rows and 16 MiB) into memory.

    Raises:
        UnsupportedBatchError: The batch is not small, or only Spark can read it.
    """
    count, nbytes = request.count, request.nbytes
    if count > _SMALL_ROWS or nbytes > _SMALL_BYTES or request.has_large_rows:
        raise UnsupportedBatchError(f"a batch of {count} rows and {nbytes} bytes is large")
    return read_arrow_batch(_list_paths(request.batches), table_schema, metadata)


def _describe_creation(table: Table, table_schema: TableSchema) -> str:
    columns = ", ".join(f"{quote(name)} {ddl}" for name, ddl in table_schema.types.items())
    return f"table {table.name} would be created: {columns}"


def _list_paths(batches: Iterable[Batch]) -> list[str]:
    return [to_spark_uri(path) for batch in batches for path in batch.paths]
