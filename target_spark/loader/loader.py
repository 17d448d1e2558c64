"""The fold: events in, commits and states out. The only room that knows "data before state".

Rules of the room:

- One thread folds; a few others commit (`target_spark.loader.commit_queue`). What both touch
  stands in
  `target_spark.loader.state_release`, under its lock.
- Every message has an ordinal, its place in the input. A state leaves only when every row
  with a smaller ordinal is committed; it leaves right after the commit that allows it.
- A batch that is appended or kept as history, and full, ends at the next STATE, if that
  comes soon: then its commit carries a state that covers all of it, and a resume from it
  repeats no row.
- A batch ends by rows, bytes or age, or where the keys or types of its stream change in a
  way that its rows cannot follow.
- An overwritten stream keeps its rows until the stream is known to be complete; the end
  of the input alone does not say so. It counts as uncommitted from its first SCHEMA on,
  so no state overtakes it.
- After the first failure nothing new is committed.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

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
from target_spark.columns import can_share_batch, merge_layouts
from target_spark.config.options import LoadOptions, WriteMode
from target_spark.loader.batch_files import batch_files
from target_spark.loader.commit_dispatch import CommitDispatcher
from target_spark.loader.commit_queue import KeyedExecutor
from target_spark.loader.commit_request import CommitWriter
from target_spark.loader.finalization import TableFinalizer
from target_spark.loader.report import Report
from target_spark.loader.state_inspection import is_empty, is_final
from target_spark.loader.state_release import StateReleaser
from target_spark.loader.state_tracking import CoveredState, StateFormat
from target_spark.loader.stream_context import (
    LoadedStream,
    check_table_conflicts,
    normalized_digest,
    resolve_schema,
    schema_digest,
)
from target_spark.loader.table_versions import VersionTracker
from target_spark.loader.undeclared_properties import describe_undeclared
from target_spark.spark.engine import SparkProvider
from target_spark.storage.spool import LARGE_ROWS_BYTES, Batch, Spool, SpoolFolder

__all__ = ["Loader"]

logger = logging.getLogger(__name__)

_FILES_AT_ONCE: Final = 64
"""Files of rows that are committed together at most."""

_LONGEST_WAIT: Final = 1.5
"""How full, of what was asked for, a batch may become while it waits for a state."""

_AGES_EVERY: Final = 0.5
"""Seconds between two looks at the ages of all spools: there may be thousands."""


class Loader:
    """Loads one input.

    ``commits`` makes what writes, when it is first needed; ``emit`` puts a state out, in
    its ``form``; ``stopping`` says that a signal came.

    Call `fold` for each event, `beat` now and then, and at the end `finish` or, after
    a signal, `stop`; then `close`.
    """

    def __init__(
        self,
        options: LoadOptions,
        engine: SparkProvider,
        folder: SpoolFolder,
        commits: Callable[[], CommitWriter],
        report: Report,
        emit: Callable[[bytes], None],
        stopping: Callable[[], bool] = bool,
        form: StateFormat | None = None,
    ) -> None:
        self._options = options
        self._engine = engine
        self._folder = folder
        self._report = report
        self._stopping = stopping
        self._lanes = KeyedExecutor(options.writers)
        self._releases = StateReleaser(emit, report, form)
        self._dispatch = CommitDispatcher(self._lanes, self._releases, report, commits)
        self._completions = TableFinalizer(
            self._dispatch,
            self._releases,
            self._begin,
            self._cut,
            can_retire=options.can_upsert,
            by_status=options.by_status,
        )
        self._streams: dict[StreamId, LoadedStream] = {}
        self._taken: dict[str, StreamId] = {}
        self._versions: dict[StreamId, VersionTracker] = defaultdict(VersionTracker)
        self._ordinal = 0
        self._received = 0
        self._open_bytes = 0
        self._ages_due = 0.0
        self._full: dict[StreamId, LoadedStream] = {}
        self._has_states = False
        self._last_state: bytes | None = None
        self._folds: Mapping[type[Event], Callable[[Any], None]] = {
            SchemaEvent: self._describe,
            Rows: self._rows,
            Checkpoint: self._checkpoint,
            ActivateVersion: self._truncate,
            BatchFiles: self._files,
            SpooledRows: self._spooled,
            StreamStatus: self._status,
        }

    # While the input comes

    def fold(self, event: Event) -> None:
        """Take the next event.

        Raises:
            RecordsWithoutSchemaException: rows of a stream that was not described.
            TargetSparkError: the event asks for what cannot be done, or a commit failed.
        """
        fold = self._folds.get(type(event))
        if fold is None:
            return
        self._last_state = None
        fold(event)
        self._ordinal += len(event.rows) if isinstance(event, Rows) else 1

    def beat(self) -> None:
        """Do what is due: put states out, close old batches, raise what went wrong."""
        self._raise_failure()
        self._releases.release()
        self._cut_old()

    def _cut_old(self) -> None:
        """Close the batches whose oldest row has waited for long enough."""
        now = time.monotonic()
        if now < self._ages_due:
            return
        self._ages_due = now + min(_AGES_EVERY, self._options.flush_seconds / 4)
        for stream in self._streams.values():
            if not stream.overwrites and stream.spool.age() >= self._options.flush_seconds:
                self._cut(stream)

    def _describe(self, event: SchemaEvent) -> None:
        known = self._streams.get(event.stream)
        if known is not None and known.came == schema_digest(event):
            return
        schema = resolve_schema(event)
        form = normalized_digest(event, schema)
        if known is None:
            known = self._streams[event.stream] = self._new_stream(event, schema, form)
        elif known.form != form:
            self._describe_again(known, event, schema)
        known.described_as(event, form)
        self._completions.awaited(known, self._ordinal)

    def _new_stream(self, event: SchemaEvent, schema: JsonSchema, form: bytes) -> LoadedStream:
        options, versions = self._options, self._versions[event.stream]
        spool = Spool(self._folder, event.stream)
        stream = LoadedStream.new(event, schema, form, options, spool, versions)
        check_table_conflicts(stream, self._taken)
        self._report.described(str(event.stream), stream.table.name)
        for remark in stream.remarks:
            self._dispatch.note(stream.id, remark)
        return stream

    def _describe_again(self, stream: LoadedStream, event: SchemaEvent, schema: JsonSchema) -> None:
        """Let the columns grow; rows that cannot follow are cut off before."""
        wanted = stream.wanted(self._options, event, schema)
        layout, _ = merge_layouts(stream.layout, wanted, self._dispatch.commits.can_widen)
        if stream.spool.count and not can_share_batch(stream.layout, layout):
            self._cut(stream)
        stream.takes(schema, layout)
        stream.mode = self._options.mode(event.stream, keyed=bool(event.keys))

    def _rows(self, event: Rows) -> None:
        stream = self._taking(event)
        if not stream.looked_at:
            self._look_at(stream, event.rows[0])
        self._took(stream, len(event.rows), stream.spool.add(event, self._ordinal))
        if not stream.overwrites:
            self._bound(stream)

    def _took(self, stream: LoadedStream, count: int, nbytes: int) -> None:
        stream.received += count
        self._received += count
        self._report.received(str(stream.id), count, nbytes)
        if not stream.overwrites:
            self._open_bytes += nbytes

    def _look_at(self, stream: LoadedStream, body: bytes) -> None:
        """Tell what the first record has that its schema does not."""
        stream.looked_at = True
        if (told := describe_undeclared(body, stream.layout)) is not None:
            self._dispatch.note(stream.id, told)

    def _files(self, event: BatchFiles) -> None:
        known = self._streams.get(event.stream)
        schema = known.schema if known else {}
        options = self._options
        roots = [each for each in (options.path, options.staging) if each]
        files = batch_files(event, self._ordinal, schema, options.batch_limits, roots)
        if not files:
            return
        stream = self._taking(event)
        stream.spool.add_files(files, self._ordinal, event.version)
        waiting = stream.spool.files
        nbytes = sum(file.nbytes for file in waiting)
        if len(waiting) >= _FILES_AT_ONCE or nbytes >= self._options.flush_bytes:
            self._cut(stream)

    def _spooled(self, event: SpooledRows) -> None:
        """Take rows that stand in files of the spool's form, as a batch of their own."""
        stream = self._taking(event)
        if stream.spool.count:
            self._cut(stream)
            self._releases.opened(stream.id, self._ordinal)
        self._took(stream, event.count, event.nbytes)
        self._close(stream, Batch.of(event, self._ordinal))
        if not stream.overwrites:
            self._bound(stream)

    def reserve(self, count: int) -> int:
        """Keep so many ordinals for rows that others put down; return the first of them."""
        first = self._ordinal
        self._ordinal += count
        return first

    def _taking(self, event: Rows | BatchFiles | SpooledRows) -> LoadedStream:
        """Return the stream that rows are of, ready to take them."""
        stream = self._streams.get(event.stream)
        if stream is None:
            raise RecordsWithoutSchemaException(
                f"A record of stream {event.stream} came before any schema of it."
            )
        self._begin()
        stream.versions.rows(event.version)
        self._tell_versions(stream)
        spool = stream.spool
        if stream.overwrites and spool.count and spool.version != event.version:
            self._cut(stream)
        self._releases.opened(stream.id, self._ordinal)
        stream.has_rows = True
        return stream

    def _checkpoint(self, event: Checkpoint) -> None:
        if (self._options.by_status or not is_empty(event.state)) and not self._options.dry_run:
            self._releases.state_arrived(self._covered(event))
            self._has_states = True
            for stream in tuple(self._full.values()):
                if event.scope in {None, stream.id}:
                    self._cut(stream)
        self._last_state = event.state

    def _covered(self, event: Checkpoint) -> CoveredState:
        """Return a state with how many rows it covers; hold it back for an overwrite to come."""
        if event.scope is None:
            self._completions.stated(self._streams.values(), self._ordinal)
            return CoveredState(self._ordinal, event.state, rows=self._received)
        stream = self._streams.get(event.scope)
        if stream is None:
            return CoveredState(self._ordinal, event.state, event.scope)
        self._completions.stated([stream], self._ordinal)
        return CoveredState(self._ordinal, event.state, event.scope, stream.received)

    def _status(self, event: StreamStatus) -> None:
        stream = self._streams.get(event.stream)
        if stream is not None and event.progress is Progress.COMPLETE:
            stream.complete = True

    def _truncate(self, event: ActivateVersion) -> None:
        self._versions[event.stream].activate(event.version)
        stream = self._streams.get(event.stream)
        if stream is not None:
            self._tell_versions(stream)
            self._completions.announced(stream, self._ordinal)

    def _tell_versions(self, stream: LoadedStream) -> None:
        """Give the version of a row a column as soon as the input speaks of one."""
        if stream.versions.told and not stream.versioned:
            stream.versioned = True
            self._describe_again(stream, stream.described, stream.schema)

    # Batches

    def _begin(self) -> None:
        if not self._engine.started:
            self._engine.begin()

    def _bound(self, stream: LoadedStream) -> None:
        """Close the stream's batch where it is full, and wait where too much waits."""
        options, spool = self._options, stream.spool
        fill = max(spool.count / options.flush_rows, spool.nbytes / options.flush_bytes)
        waits = self._has_states and stream.mode in {WriteMode.APPEND, WriteMode.SCD2}
        if spool.large_bytes >= LARGE_ROWS_BYTES or fill >= (_LONGEST_WAIT if waits else 1):
            self._cut(stream)
        elif fill >= 1:
            self._full[stream.id] = stream
        if self._waiting() < options.spool_bytes:
            return
        if self._open_bytes > options.spool_bytes // 2:
            for other in self._streams.values():
                if other.spool.count and not other.overwrites:
                    self._cut(other)
        started = time.monotonic()
        while self._waiting() >= options.spool_bytes and not self._stopping():
            self._lanes.wait(self._may_go_on)
            self._raise_failure()
            self._cut_old()
        self._report.held_back(time.monotonic() - started)

    def _may_go_on(self) -> bool:
        """Say whether there is room again, or something else to do than to wait for it."""
        room = self._waiting() < self._options.spool_bytes
        return room or self._stopping() or time.monotonic() >= self._ages_due

    def _waiting(self) -> int:
        return self._open_bytes + self._lanes.nbytes

    def _cut(self, stream: LoadedStream) -> None:
        """Close the open batch, and let it be committed unless its stream overwrites."""
        self._close(stream, stream.spool.cut())

    def _close(self, stream: LoadedStream, batch: Batch) -> None:
        self._full.pop(stream.id, None)
        self._releases.cut(stream.id)
        if batch.has_deletes:
            stream.mark_deletions()
        if stream.overwrites:
            stream.held.append(batch)
            return
        self._open_bytes -= batch.nbytes
        self._dispatch.submit(stream, (batch,), batch.first)

    # The end

    def finish(self, *, whole: bool) -> None:
        """Commit what waits, and swap in what is complete. ``whole`` is False if torn.

        Raises:
            IncompleteError, QuarantineError: a stream is not complete.
            TargetSparkError: and others; a commit failed.
        """
        for stream in self._streams.values():
            if stream.spool.count:
                self._cut(stream)
        final = whole and self._is_final()
        self._completions.end(self._streams.values(), self._ordinal, final=final)
        if self._engine.started:
            self._make_missing_tables()
        self._lanes.wait(self._stopping)
        self._raise_failure()
        if self._stopping():
            self.stop()
            return
        for name in self._options.unknown(str(stream) for stream in self._streams):
            self._remark(f"The settings speak of a stream {name}, which did not come")
        fault = self._completions.fault(self._streams.values())
        self._releases.release()
        self._dispatch.carry_leftover()
        if fault is not None:
            raise fault
        if whole:
            self._tidy()

    def _tidy(self) -> None:
        """Do what is asked for each table that the run wrote to, after its last commit."""
        for stream in self._streams.values():
            care = replace(self._options.care, file_bytes=stream.design.file_bytes)
            if care.wanted and (stream.has_rows or stream.overwrites):
                self._dispatch.tidy(stream, care)
        self._lanes.wait(self._stopping)

    def stop(self) -> None:
        """Start no further commit, wait for those in flight, put out what they cover."""
        self._lanes.stop()
        self._lanes.wait(lambda: False)
        self._raise_failure()
        self._releases.release()

    def close(self) -> None:
        """End the threads; nothing further is committed."""
        self._lanes.close()

    def _is_final(self) -> bool:
        if self._options.by_status:
            return False
        if self._options.always_overwrite:
            return True
        return self._last_state is not None and is_final(self._last_state)

    def _make_missing_tables(self) -> None:
        for stream in self._streams.values():
            if not stream.has_rows and not stream.overwrites:
                self._dispatch.prepare(stream)

    def _raise_failure(self) -> None:
        failure = self._engine.failure or self._lanes.failure
        if failure is not None:
            raise failure

    def _remark(self, text: str) -> None:
        logger.warning("%s", text)
        self._report.remark(text)
