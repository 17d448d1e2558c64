"""The event loop of a load: reads events, batches their rows, and emits states after commits.

- One thread processes events; the threads of `target_spark.loader.commit_pipeline` commit batches.
  They share the `Ledger` of `target_spark.loader.state_release`, which has a lock.
- A state is emitted as soon as all rows before it are committed.
- In append or scd2 mode, a full batch stays open until the next STATE, up to 1.5 times its maximum
  size. Its commit then stores a state that includes all of its rows, and a resume repeats no row.
- A batch is closed when it reaches a limit of rows, bytes or age, or when the stream's keys or
  types change incompatibly.
- If a stream overwrites its table, its rows are kept until the stream is known to be complete, and
  states are held back from its first SCHEMA on. After a failure no new commit starts.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tap_core.events import (
    ActivateVersion,
    BatchFiles,
    Checkpoint,
    Event,
    Progress,
    Rows,
    SchemaEvent,
    SpooledRows,
    StreamId,
    StreamStatus,
)
from tap_core.exceptions import RecordsWithoutSchemaException
from tap_core.types import JsonSchema
from target_spark.columns import OnSchemaChange, can_share_batch, merge_table_schemas
from target_spark.config.options import LoadOptions, WriteMode
from target_spark.errors import SchemaChangeError
from target_spark.loader.batch_file_checks import check_batch_files
from target_spark.loader.commit_pipeline import CommitPipeline
from target_spark.loader.final_commits import FinalCommits
from target_spark.loader.pending_states import CoveredState, StateFormat
from target_spark.loader.report import Report
from target_spark.loader.state_inspection import is_empty, is_final
from target_spark.loader.state_release import Ledger
from target_spark.loader.stream_context import (
    LoadedStream,
    build_table_schema,
    check_table_conflicts,
    compute_normalized_digest,
    compute_schema_digest,
    resolve_schema,
)
from target_spark.loader.undeclared_properties import describe_undeclared
from target_spark.loader.version_tracker import VersionTracker
from target_spark.spark.spark_provider import SparkProvider
from target_spark.storage.spool import LARGE_ROWS_BYTES, Batch, Spool, SpoolFolder
from target_spark.tables.commit_metadata import ExpectedMetadata
from target_spark.tables.table import Table

if TYPE_CHECKING:
    from target_spark.loader.batch_commit import BatchWriter

__all__ = ["Loader"]

logger = logging.getLogger(__name__)

_FILES_AT_ONCE: Final = 64
"""Number of files of BATCH messages at which a batch is closed and queued for its commit."""

_STATE_WAIT_FACTOR: Final = 1.5
"""Maximum size of a batch that waits for the next state, as a multiple of the usual limit."""

_AGE_CHECK_SECONDS: Final = 0.5
"""Seconds between two checks of the age of all open batches. There may be thousands of them."""


class Loader:
    """Event loop of one load: collects rows in batches and emits states after their rows' commit.

    Call `process_event` for each event, and `poll` regularly. At the end call `finish`, or `stop`
    after a signal. Call `close` last.

    Args:
        options: The options of the load.
        engine: The Spark process, which starts when the first row arrives.
        folder: The folder for spool files, which keep rows on disk until their commit.
        new_writer: Function that creates the `BatchWriter` when it is first needed.
        report: The run report to update.
        emit: Function that writes a state to the output.
        stopping: Event that a signal handler sets to stop the run.
        state_format: Encoder of the states; None to emit them as they were received.
    """

    def __init__(
        self,
        options: LoadOptions,
        engine: SparkProvider,
        folder: SpoolFolder,
        new_writer: Callable[[], BatchWriter],
        report: Report,
        emit: Callable[[bytes], None],
        stopping: threading.Event | None = None,
        state_format: StateFormat | None = None,
    ) -> None:
        self._options = options
        self._engine = engine
        self._folder = folder
        self._report = report
        self._stopping = stopping or threading.Event()
        self._ledger = Ledger(emit, report, state_format)
        self._pipeline = CommitPipeline(
            new_writer, self._ledger, report, self._stopping, options.writers
        )
        self._final_commits = FinalCommits(
            self._pipeline,
            engine,
            report,
            can_delete=options.can_upsert,
            by_status=options.by_status,
        )
        self._streams: dict[StreamId, LoadedStream] = {}
        self._table_owners: dict[str, StreamId] = {}
        self._versions: dict[StreamId, VersionTracker] = defaultdict(VersionTracker)
        self._ordinal = 0
        self._received = 0
        self._next_age_check = 0.0
        self._full: dict[StreamId, LoadedStream] = {}
        """Streams whose full batch waits for the next state."""
        self._has_states = False
        self._last_state: bytes | None = None
        self._handlers: Mapping[type[Event], Callable[[Any], None]] = {
            SchemaEvent: self._process_schema,
            Rows: self._add_rows,
            Checkpoint: self._checkpoint,
            ActivateVersion: self._activate_version,
            BatchFiles: self._add_files,
            SpooledRows: self._add_spooled_rows,
            StreamStatus: self._apply_status,
        }

    # During the input

    def process_event(self, event: Event) -> None:
        """Process one event of the input: rows, a schema, a state, a table version or a status.

        Raises:
            RecordsWithoutSchemaException: The event has rows of a stream without a schema.
            TargetSparkError: The event cannot be processed, or a commit failed.
        """
        handler = self._handlers.get(type(event))
        if handler is None:
            return
        self._last_state = None
        handler(event)
        self._ordinal += len(event.rows) if isinstance(event, Rows) else 1

    def poll(self) -> None:
        """Do periodic work: raise errors of writer threads, emit states, and close old batches.

        Call this method at least every few hundred milliseconds.
        """
        self._raise_failure()
        self._ledger.release()
        self._close_old_batches()

    def _close_old_batches(self) -> None:
        """Close the batches whose oldest row was received more than ``flush_seconds`` ago.

        A closed batch is queued for its commit.
        """
        now = time.monotonic()
        if now < self._next_age_check:
            return
        self._next_age_check = now + min(_AGE_CHECK_SECONDS, self._options.flush_seconds / 4)
        for stream in self._streams.values():
            if not stream.overwrites and stream.spool.age() >= self._options.flush_seconds:
                self._pipeline.queue_batch(stream)

    def _process_schema(self, event: SchemaEvent) -> None:
        stream = self._streams.get(event.stream)
        if stream is not None and stream.received_digest == compute_schema_digest(event):
            return
        schema = resolve_schema(event)
        normal_digest = compute_normalized_digest(event, schema)
        if stream is None:
            stream = self._streams[event.stream] = self._new_stream(event, schema, normal_digest)
        elif stream.normal_digest != normal_digest:
            self._merge_schema(stream, event, schema)
        stream.set_schema_message(event, normal_digest)
        self._final_commits.hold_states(stream, self._ordinal)

    def _new_stream(
        self, event: SchemaEvent, schema: JsonSchema, normal_digest: bytes
    ) -> LoadedStream:
        options = self._options
        versions = self._versions[event.stream]
        spool = Spool(self._folder, event.stream)
        stream = LoadedStream.new(event, schema, normal_digest, options, spool, versions)
        check_table_conflicts(stream, self._table_owners, options.runs_table)
        self._report.record_table(str(event.stream), stream.table.name, stream.table.key)
        for remark in stream.remarks:
            self._pipeline.add_remark(stream.id, remark)
        return stream

    def _merge_schema(self, stream: LoadedStream, event: SchemaEvent, schema: JsonSchema) -> None:
        """Add the columns and types of a new SCHEMA message to the table schema of its stream.

        If the stream's policy ``on_schema_change`` may forbid the change, all open batches are
        committed first, so that an error does not affect earlier rows and states.
        """
        table_schema = build_table_schema(self._options, event, schema, versioned=stream.versioned)
        may_refuse = table_schema.on_change is not OnSchemaChange.EVOLVE
        if stream.has_rows or not may_refuse:  # else the new schema replaces the old one
            table_schema, changes = merge_table_schemas(
                stream.table_schema, table_schema, self._pipeline.writer.can_widen
            )
            if may_refuse and changes:
                self._close_open_batches()
                self._pipeline.wait()
        if stream.spool.count and not can_share_batch(stream.table_schema, table_schema):
            self._pipeline.queue_batch(stream)
        stream.set_schema(schema, table_schema)
        stream.mode = self._options.mode(event.stream, keyed=bool(event.keys))

    def _add_rows(self, event: Rows) -> None:
        stream = self._prepare_stream(event)
        if not stream.is_inspected:
            self._report_undeclared(stream, event.rows[0])
        self._count_received(stream, len(event.rows), stream.spool.add(event, self._ordinal))
        if not stream.overwrites:
            self._limit_batch(stream)

    def _count_received(self, stream: LoadedStream, count: int, nbytes: int) -> None:
        stream.received += count
        self._received += count
        self._report.count_received(str(stream.id), count, nbytes)
        self._pipeline.add_open_bytes(stream, nbytes)

    def _report_undeclared(self, stream: LoadedStream, body: bytes) -> None:
        """Add a note to the run report about properties of a record that the schema lacks.

        ``body`` is the first record after a SCHEMA message, as JSON.
        """
        stream.is_inspected = True
        if (remark := describe_undeclared(body, stream.table_schema)) is not None:
            self._pipeline.add_remark(stream.id, remark)

    def _add_files(self, event: BatchFiles) -> None:
        """Add the files of a BATCH message to the open batch of their stream.

        The batch is closed when it has 64 files, or files with ``flush_bytes`` bytes in total.
        """
        known_stream = self._streams.get(event.stream)
        schema = known_stream.schema if known_stream else {}
        options = self._options
        roots = [folder for folder in (options.path, options.staging) if folder]
        files = check_batch_files(event, self._ordinal, schema, options.batch_limits, roots)
        if not files:
            return
        stream = self._prepare_stream(event)
        stream.spool.add_files(files, self._ordinal, event.version)
        batch_files = stream.spool.files
        nbytes = sum(file.nbytes for file in batch_files)
        if len(batch_files) >= _FILES_AT_ONCE or nbytes >= options.flush_bytes:
            self._pipeline.queue_batch(stream)

    def _add_spooled_rows(self, event: SpooledRows) -> None:
        """Queue the commit of a batch of rows that other processes have written to files.

        The other processes are usually Spark workers, which read partitions of a stream.
        """
        stream = self._prepare_stream(event)
        if stream.spool.count:
            self._pipeline.queue_batch(stream)
            self._ledger.record_rows(stream.id, self._ordinal)
        self._count_received(stream, event.count, event.nbytes)
        self._pipeline.close_batch(stream, Batch.of(event, self._ordinal))
        if not stream.overwrites:
            self._limit_batch(stream)

    def reserve(self, count: int) -> int:
        """Reserve ``count`` consecutive ordinals (input positions), and return the first one.

        Other processes, such as Spark workers, use them to number the rows that they read.
        """
        first = self._ordinal
        self._ordinal += count
        return first

    def _prepare_stream(self, event: Rows | BatchFiles | SpooledRows) -> LoadedStream:
        """Return the stream of an event with rows, after recording that these rows were received.

        All later states are then held back until the rows are committed. The Singer table version
        of the rows is recorded, too.

        Raises:
            RecordsWithoutSchemaException: The stream has no schema yet.
        """
        stream = self._streams.get(event.stream)
        if stream is None:
            raise RecordsWithoutSchemaException(
                f"A record of stream {event.stream} came before the SCHEMA message of the stream,"
                " which a tap must send first."
            )
        self._engine.begin()
        stream.versions.record_rows(event.version)
        self._add_version_column(stream)
        spool = stream.spool
        if stream.overwrites and spool.count and spool.version != event.version:
            self._pipeline.queue_batch(stream)
        self._ledger.record_rows(stream.id, self._ordinal)
        stream.has_rows = True
        return stream

    def _checkpoint(self, event: Checkpoint) -> None:
        if (self._options.by_status or not is_empty(event.state)) and not self._options.dry_run:
            self._ledger.add_state(self._make_covered_state(event))
            self._has_states = True
            self._close_full_batches(event.scope)
        self._last_state = event.state

    def _close_full_batches(self, scope: StreamId | None) -> None:
        """Queue the commit of full batches that waited for a state, which has now been received.

        Args:
            scope: The stream of the received state, or None for a state of all streams.
        """
        for stream in tuple(self._full.values()):
            if stream.waits_for_state and scope in {None, stream.id}:
                self._pipeline.queue_batch(stream)
            if not stream.waits_for_state:
                del self._full[stream.id]

    def _make_covered_state(self, event: Checkpoint) -> CoveredState:
        """Return a received state with its position in the input and the number of rows before it.

        Under Airbyte's protocol, the state is also recorded as waiting until the tables of its
        streams are overwritten.
        """
        if event.scope is None:
            self._final_commits.add_state(self._streams.values(), self._ordinal)
            return CoveredState(self._ordinal, event.state, rows=self._received)
        stream = self._streams.get(event.scope)
        if stream is None:
            return CoveredState(self._ordinal, event.state, event.scope)
        self._final_commits.add_state([stream], self._ordinal)
        return CoveredState(self._ordinal, event.state, event.scope, stream.received)

    def _apply_status(self, event: StreamStatus) -> None:
        """Mark the event's stream as complete if the status is COMPLETE. Ignore other statuses."""
        stream = self._streams.get(event.stream)
        if stream is not None and event.progress is Progress.COMPLETE:
            stream.complete = True

    def _activate_version(self, event: ActivateVersion) -> None:
        self._versions[event.stream].activate(event.version)
        stream = self._streams.get(event.stream)
        if stream is not None:
            self._add_version_column(stream)
            self._final_commits.add_version(stream, self._ordinal)

    def _add_version_column(self, stream: LoadedStream) -> None:
        """Add the Singer table version column to a stream's schema once its rows have versions."""
        if stream.versions.is_versioned and not stream.versioned:
            stream.versioned = True
            self._merge_schema(stream, stream.schema_message, stream.schema)

    # Batches

    def _limit_batch(self, stream: LoadedStream) -> None:
        """Close a stream's batch if it is full, and block while too many bytes are uncommitted.

        In append and scd2 mode, if the input has states, a full batch stays open until the next
        state arrives or its size is 1.5 times the limit.
        """
        options = self._options
        spool = stream.spool
        fill = max(spool.count / options.flush_rows, spool.nbytes / options.flush_bytes)
        waits = self._has_states and stream.mode in {WriteMode.APPEND, WriteMode.SCD2}
        if spool.large_bytes >= LARGE_ROWS_BYTES or fill >= (_STATE_WAIT_FACTOR if waits else 1):
            self._pipeline.queue_batch(stream)
        elif fill >= 1:
            stream.waits_for_state = True
            self._full[stream.id] = stream
        pipeline = self._pipeline
        limit = options.spool_bytes
        if pipeline.uncommitted_bytes < limit:
            return
        if pipeline.open_bytes > limit // 2:
            self._close_open_batches()
        started = time.monotonic()
        while pipeline.uncommitted_bytes >= limit and not self._stopping.is_set():
            pipeline.wait_for_space(limit, self._next_age_check)
            self._raise_failure()
            self._close_old_batches()
        self._report.add_wait(time.monotonic() - started)

    def _close_open_batches(self) -> None:
        """Queue the commit of all open batches, except for streams that overwrite their table."""
        for stream in self._streams.values():
            if stream.spool.count and not stream.overwrites:
                self._pipeline.queue_batch(stream)

    # The end

    def finish(self, *, whole: bool) -> None:
        """Commit the remaining batches, then overwrite tables and delete old table versions.

        Tables are overwritten, and old versions deleted, only for streams that are complete.

        Args:
            whole: True if all input was read; False if the input ended with an error.

        Raises:
            IncompleteError: A table was not overwritten, or keeps rows of old versions, because its
                stream may be incomplete.
            QuarantineError: A stream is not complete because of quarantined rows.
            TargetSparkError: A commit failed.
        """
        for stream in self._streams.values():
            if stream.spool.count:
                self._pipeline.queue_batch(stream)
        final = whole and self._is_final()
        self._final_commits.finish_streams(self._streams.values(), self._ordinal, final=final)
        if self._engine.started:
            self._make_missing_tables()
        self._pipeline.wait()
        self._raise_failure()
        if self._stopping.is_set():
            self.stop()
            return
        if whole:
            self._report_absent_streams()
        error = self._final_commits.find_error(self._streams.values())
        self._ledger.release()
        self._pipeline.commit_leftover_state()
        if error is not None:
            raise error
        if whole:
            self._maintain_tables()

    def _report_absent_streams(self) -> None:
        """Report the streams that are named in the settings but absent from the whole input."""
        for name in self._options.unknown(str(stream) for stream in self._streams):
            text = f"The settings name a stream {name}, which is not in the input"
            logger.warning("%s", text)
            self._report.add_remark(text)

    def _maintain_tables(self) -> None:
        """Run the configured maintenance on all tables that the run wrote to, and wait for it."""
        for stream in self._streams.values():
            options = replace(self._options.maintenance, file_bytes=stream.layout.file_bytes)
            if options.is_configured and (stream.has_rows or stream.overwrites):
                self._pipeline.maintain_table(stream, options)
        self._pipeline.wait()

    def commit_received(self) -> None:
        """Commit the rows received so far, and emit the states that waited for them.

        The input may be incomplete, so no table is overwritten and no old table version is deleted.

        Raises:
            TargetSparkError: A commit failed.
        """
        self._close_open_batches()
        self._pipeline.wait()
        self.stop()

    def stop(self) -> None:
        """Start no more commits, wait for the running ones, and emit states of committed rows."""
        self._pipeline.stop()
        self._pipeline.wait()
        self._raise_failure()
        self._ledger.release()

    def expect_metadata(self, expected: ExpectedMetadata) -> None:
        """Set the commit metadata that this run must find in the tables, else it fails.

        The caller read the metadata together with the state from which the run resumes, so other
        metadata shows that another run has changed the table. Call this before the first record.
        """
        self._pipeline.writer.expect(expected)

    def get_states(self) -> tuple[str | None, str | None]:
        """Return the state before this run and the state after it, as JSON; None if missing.

        The state before is the newest that earlier runs stored in this run's tables. The state
        after is the last that this run emitted.
        """
        emitted = self._ledger.get_emitted_state()
        return self._pipeline.state_before, None if emitted is None else emitted.state.decode()

    @property
    def failures(self) -> tuple[BaseException, ...]:
        """All errors of commits. Other methods raise only the first one."""
        return self._pipeline.failures

    def get_tables(self) -> dict[str, Table]:
        """Return the tables of all streams whose schema was received, by stream name."""
        return {str(stream.id): stream.table for stream in self._streams.values()}

    def get_columns(self) -> dict[str, dict[str, str]]:
        """Return the column types (DDL) of all streams, as ``{stream: {column: type}}``."""
        return {str(stream.id): stream.table_schema.types for stream in self._streams.values()}

    def close(self) -> None:
        """End the writer threads; nothing is committed after this call."""
        self._pipeline.close()

    def _is_final(self) -> bool:
        if self._options.by_status:
            return False
        if self._options.always_overwrite:
            return True
        return self._last_state is not None and is_final(self._last_state)

    def _make_missing_tables(self) -> None:
        for stream in self._streams.values():
            if not stream.has_rows and not stream.overwrites:
                self._pipeline.create_table(stream)

    def _raise_failure(self) -> None:
        failure = self._engine.failure or self._pipeline.failure
        if isinstance(failure, SchemaChangeError):
            self._pipeline.wait()  # the other tables are still written
        if failure is not None:
            raise failure
