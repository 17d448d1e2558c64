"""Queues of closed batches, one per table, and the writer threads that commit them.

- The input thread closes batches, and their commit requests are queued per table. A writer thread
  takes a request, commits it, adds the result to the report, and emits states. Tasks of one table
  run one after the other in order of submission, so two threads never write to the same table.
- A commit is added to the report, and states are emitted, only after the batch writer has returned.
- After the first failure, and after `CommitPipeline.stop`, no further task starts; running tasks
  finish. A schema that the user's policy forbids stops only the tasks of its table. Waits are short
  and repeated, so that a signal can interrupt the waiting thread.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tap_core.config.similar_names import list_names
from tap_core.events import StreamId
from tap_core.telemetry import trace_batch
from target_spark.columns import SchemaChange, TableSchema
from target_spark.config.options import WriteMode
from target_spark.errors import SchemaChangeError
from target_spark.loader.commit_request import CommitRequest, CommitResult
from target_spark.loader.metrics import batch_timer, count_records
from target_spark.loader.report import Report
from target_spark.loader.state_release import Ledger
from target_spark.loader.stream_context import LoadedStream
from target_spark.storage.spool import Batch
from target_spark.tables.table import QUARANTINE, MaintenanceOptions, Table, TableLayout

if TYPE_CHECKING:
    from target_spark.loader.batch_commit import BatchWriter

__all__ = ["CommitPipeline"]

logger = logging.getLogger(__name__)

_WAIT_SECONDS: Final = 0.2

_OLD_VERSIONS_STAY: Final = (
    "rows of other versions are not deleted: too many rows of this run do not fit their columns"
)


@dataclass(frozen=True, slots=True)
class _Creation:
    """Task for a writer thread: create the table of a stream without rows.

    If the table exists, its columns are altered to match the stream's schema.
    """

    stream: StreamId
    table: Table
    table_schema: TableSchema
    layout: TableLayout


@dataclass(frozen=True, slots=True)
class _Maintenance:
    """Task for a writer thread: compact and clean up a table after its last commit."""

    stream: StreamId
    table: Table
    options: MaintenanceOptions


_Task: TypeAlias = CommitRequest | _Creation | _Maintenance


class CommitPipeline:
    """Queues of batches that are ready to be committed, one per table, and the writer threads.

    A batch is ready when it is closed: no more rows are added to it.

    Args:
        new_writer: Function that creates the batch writer when it is first needed.
        ledger: The record of uncommitted batches and of the states that they hold back.
        report: The run report to update.
        stopping: Event that a signal handler sets to stop the run.
        threads: The maximum number of writer threads.
    """

    def __init__(
        self,
        new_writer: Callable[[], BatchWriter],
        ledger: Ledger,
        report: Report,
        stopping: threading.Event,
        threads: int,
    ) -> None:
        self.ledger = ledger
        self._report = report
        self._stopping = stopping
        self._new_writer = new_writer
        self._made_writer: BatchWriter | None = None
        self._making_writer = threading.Lock()
        self._large_rows = threading.Lock()
        """Lock that lets only one batch with large rows be written at a time, for memory."""
        self._last_table: Table | None = None
        self._open_bytes = 0
        self._changed = threading.Condition()
        self._queues: dict[str, deque[_Task]] = {}  # by table, as are the next two
        self._refused: set[str] = set()
        self._ready: deque[str] = deque()
        """Tables with queued tasks and no running one."""
        self._running = 0
        self._queued_bytes = 0
        self._stopped = False
        self._closed = False
        self._failures: list[BaseException] = []
        self._max_threads = threads
        self._threads: list[threading.Thread] = []

    @property
    def writer(self) -> BatchWriter:
        """The batch writer that all threads share; created at first use, since it imports Spark."""
        with self._making_writer:
            if self._made_writer is None:
                self._made_writer = self._new_writer()
            return self._made_writer

    @property
    def state_before(self) -> str | None:
        """The newest state (JSON) that earlier runs stored in this run's tables, or None."""
        return None if self._made_writer is None else self._made_writer.state_before

    @property
    def open_bytes(self) -> int:
        """Bytes of received rows that are not yet queued for a commit.

        Streams that overwrite their table are not counted.
        """
        return self._open_bytes

    @property
    def uncommitted_bytes(self) -> int:
        """Bytes of received rows that are not yet committed: collected in a batch, or queued.

        Streams that overwrite their table are not counted.
        """
        return self._open_bytes + self._queued_bytes

    @property
    def failure(self) -> BaseException | None:
        """The first exception that was raised in a writer thread, or None."""
        return self._failures[0] if self._failures else None

    @property
    def failures(self) -> tuple[BaseException, ...]:
        """All exceptions that were raised in writer threads, in the order of their occurrence."""
        return tuple(self._failures)

    # Called by the input thread

    def add_open_bytes(self, stream: LoadedStream, nbytes: int) -> None:
        """Add the size of rows that were just received to the bytes not yet queued for a commit.

        Rows of streams that overwrite their table are not counted.
        """
        if not stream.overwrites:
            self._open_bytes += nbytes

    def queue_batch(self, stream: LoadedStream) -> None:
        """Close a stream's open batch, and queue its commit.

        If the stream overwrites its table, the batch is kept until the stream is complete.
        """
        self.close_batch(stream, stream.spool.close_batch())

    def close_batch(self, stream: LoadedStream, batch: Batch) -> None:
        """Queue the commit of a batch that will receive no more rows.

        If the stream overwrites its table, no commit is queued: the batch is kept, and all kept
        batches are committed together when the stream is complete.
        """
        stream.waits_for_state = False
        self.ledger.close_batch(stream.id)
        if batch.has_deletes:
            stream.mark_deletions()
        if stream.overwrites:
            stream.keep_batch(batch)
            return
        self._open_bytes -= batch.nbytes
        self._enqueue(self._make_request(stream, (batch,), batch.first))

    def replace_table(self, stream: LoadedStream, upto: int) -> None:
        """Queue a commit that replaces all rows of a table by the rows of its complete stream.

        Args:
            stream: The stream, whose batches were kept until now.
            upto: A position in the input. The overwrite commits the stream's batches that begin at
                or before it, and releases the states that they hold back.
        """
        self.ledger.close_batch(stream.id)
        self._enqueue(self._make_request(stream, stream.valid_batches(), upto))

    def delete_versions(self, stream: LoadedStream, upto: int) -> None:
        """Queue the deletion of all rows of a table that do not have the activated table version.

        The stream's collected rows are queued first. Without hard delete, old rows are only marked
        as deleted.

        Args:
            stream: The stream of the table.
            upto: The input position of the ACTIVATE_VERSION message, or of the end of the input.
        """
        if stream.spool.count:
            self.queue_batch(stream)
        if not stream.hard_delete:
            stream.mark_deletions()
        stream.versions.is_deletion_queued = True
        self.ledger.close_batch(stream.deletion_key)
        self._enqueue(self._make_request(stream, (), upto, kept_version=stream.versions.activated))

    def create_table(self, stream: LoadedStream) -> None:
        """Queue the creation of a table for a stream without rows.

        If the table exists, its columns are added or widened to match the stream's schema.
        """
        self._enqueue(_Creation(stream.id, stream.table, stream.table_schema, stream.layout))

    def maintain_table(self, stream: LoadedStream, options: MaintenanceOptions) -> None:
        """Queue the compaction and clean-up of a stream's table, after its queued commits."""
        self._enqueue(_Maintenance(stream.id, stream.table, options))

    def commit_leftover_state(self) -> None:
        """Store the last emitted state in a commit without rows, unless a commit has it already.

        The next run can then resume from this state. Call this method after all tasks have
        finished. Nothing happens if this run wrote no table.
        """
        leftover = self.ledger.get_uncarried_state()
        if leftover is not None and self._last_table is not None:
            self.writer.commit_state(self._last_table, leftover)

    def add_remark(self, stream: StreamId, text: str) -> None:
        """Log a note for the user about a stream, and add it to the run report.

        If the report has the same note already, nothing happens.
        """
        if self._report.add_stream_remark(str(stream), text):
            logger.info("Stream %s: %s", stream, text)

    def wait(self) -> None:
        """Block until all queued tasks, such as commits, have finished or one has failed.

        A signal ends the wait. After `stop`, only running tasks are awaited. A schema change that
        the user forbids fails only the tasks of its table; the tasks of other tables are awaited.
        """
        with self._changed:
            while not (
                (self._failures and self._stopped) or self._is_idle() or self._is_interrupted()
            ):
                self._changed.wait(_WAIT_SECONDS)

    def wait_for_space(self, limit: int, until: float) -> None:
        """Block until fewer than ``limit`` bytes are uncommitted, or until a given time.

        The method also returns if a task fails, a signal arrives, or all tasks have ended.

        Args:
            limit: The number of bytes.
            until: The latest time to return, as a value of `time.monotonic`.
        """
        with self._changed:
            while not (
                self.uncommitted_bytes < limit
                or time.monotonic() >= until
                or self._failures
                or self._is_idle()
                or self._is_interrupted()
            ):
                self._changed.wait(_WAIT_SECONDS)

    def stop(self) -> None:
        """Tell the writer threads to start no more commits. Running commits finish."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def close(self) -> None:
        """Start no more commits, wait for the running ones, and join the writer threads."""
        self.stop()
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            while thread.is_alive():
                thread.join(_WAIT_SECONDS)

    def _make_request(
        self,
        stream: LoadedStream,
        batches: tuple[Batch, ...],
        upto: int,
        kept_version: int | None = None,
    ) -> CommitRequest:
        """Return a request to commit batches, or to delete rows of old Singer table versions.

        Args:
            stream: The stream.
            batches: The batches to commit; empty for a deletion.
            upto: A position in the input. After the commit, the stream's batches that begin at or
                before it count as committed.
            kept_version: The table version to keep, for a deletion; None to commit the batches.
        """
        return CommitRequest(
            stream=stream.id,
            table=stream.table,
            table_schema=stream.table_schema,
            mode=stream.mode,
            batches=batches,
            ledger=self.ledger,
            waiting=stream.id if kept_version is None else stream.deletion_key,
            upto=upto,
            layout=stream.layout,
            hard_delete=stream.hard_delete,
            kept_version=kept_version,
            cursor=stream.cursor,
        )

    def _enqueue(self, task: _Task) -> None:
        with self._changed:
            if task.table.key in self._refused:
                return
            queue = self._queues.get(task.table.key)
            if queue is None:
                queue = self._queues[task.table.key] = deque()
                self._ready.append(task.table.key)
            queue.append(task)
            self._queued_bytes += _count_limited_bytes(task)
            if len(self._threads) < self._max_threads:
                name = f"writer-{len(self._threads) + 1}"
                thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()
            self._changed.notify_all()

    def _is_idle(self) -> bool:
        return not self._running and (self._stopped or not self._queues)

    def _is_interrupted(self) -> bool:
        return self._stopping.is_set() and not self._stopped

    # Run in a writer thread

    def _work(self) -> None:
        while (task := self._take()) is not None:
            failure: BaseException | None = None
            try:
                self._run(task)
            except SchemaChangeError as error:
                for column, type_, old in error.refused:
                    self._report.record_column_change(
                        str(task.stream), column, type_, "refuse", old=old
                    )
                failure = error
            except BaseException as error:  # noqa: BLE001  raised in the input thread
                failure = error
            self._finish_task(task, failure)

    def _take(self) -> _Task | None:
        """Wait for the next queued task and return it. Return None once the pipeline is closed.

        Tasks of a table that already has a running task are skipped, so that the tasks of one table
        run one after the other.
        """
        with self._changed:
            while self._stopped or not self._ready:
                if self._closed:
                    return None
                self._changed.wait()
            self._running += 1
            return self._queues[self._ready.popleft()].popleft()

    def _finish_task(self, task: _Task, failure: BaseException | None) -> None:
        with self._changed:
            self._running -= 1
            self._queued_bytes -= _count_limited_bytes(task)
            if failure is not None:
                self._failures.append(failure)
            if isinstance(failure, SchemaChangeError):
                self._refused.add(task.table.key)
                self._queues[task.table.key].clear()
            elif failure is not None:
                self._stopped = True
            if self._queues[task.table.key]:
                self._ready.append(task.table.key)
            else:
                del self._queues[task.table.key]
            self._changed.notify_all()

    def _run(self, task: _Task) -> None:
        if isinstance(task, CommitRequest):
            self._commit(task)
        elif isinstance(task, _Creation):
            self._report_changes(
                task.stream,
                self.writer.prepare(task.stream, task.table, task.table_schema, task.layout),
            )
        elif (failure := self.writer.maintain(task.table, task.options)) is not None:
            self.add_remark(task.stream, failure)

    def _commit(self, request: CommitRequest) -> None:
        """Commit a request, add the result to the report, and emit the states that it held back.

        If too many rows of the stream were quarantined, a request to delete rows of old table
        versions is skipped, and states stay held back.
        """
        if request.kept_version is not None and request.stream in self.ledger.withheld():
            self.ledger.mark_committed(request.waiting, request.upto, withheld=True)
            self.add_remark(request.stream, _OLD_VERSIONS_STAY)
            return
        started = time.monotonic()
        name = str(request.stream)
        with (
            batch_timer(name),
            trace_batch(name, request.table.name) as trace,
            self._report.run_commit(name),
            self._large_rows if request.has_large_rows else nullcontext(),
        ):
            result = self.writer.write(request)
            trace.describe(_describe_batch(request, result))
        # A withheld overwrite may not have created the table.
        if not (result.withheld and request.mode is WriteMode.OVERWRITE):
            self._last_table = request.table
        self._count_commit(request, result, time.monotonic() - started)
        self._report_changes(request.stream, result)
        if result.quarantined:
            self._report_quarantined(request, result)
        self.ledger.mark_committed(
            request.waiting, request.upto, result.carried, withheld=bool(result.withheld)
        )
        self.ledger.release()
        for batch in request.batches:
            batch.remove()

    def _count_commit(self, request: CommitRequest, result: CommitResult, seconds: float) -> None:
        name = str(request.stream)
        self._report.count_commit(
            name, result.written, result.quarantined, seconds, result.effect, request.nbytes
        )
        self._report.record_withheld(name, result.withheld)
        self._report.count_nulled(name, result.nulled)
        self._report.count_zoneless(name, result.zoneless)
        self._report.count_received(name, result.from_files, 0)
        count_records(name, result.written)

    def _report_quarantined(self, request: CommitRequest, result: CommitResult) -> None:
        table = request.table.with_suffix(QUARANTINE)
        can_replay = request.mode is not WriteMode.OVERWRITE
        name = str(request.stream)
        self._report.record_quarantine(
            name, table.name, table.key, result.reasons, can_replay=can_replay
        )
        self.ledger.count_rejected(request.stream, result.quarantined)

    def _report_changes(self, stream: StreamId, result: CommitResult) -> None:
        """Add the column changes and notes that a commit returned to the run report."""
        for change in result.changes:
            column = ".".join(change.path)
            self._report.record_column_change(
                str(stream), column, change.ddl, change.kind, change.instead_of, change.old
            )
            if change.kind != "omit":
                self.add_remark(stream, change.describe())
        omitted = [change for change in result.changes if change.kind == "omit"]
        if omitted:
            self.add_remark(stream, _describe_omitted(omitted))
        for remark in result.remarks:
            self.add_remark(stream, remark)


def _count_limited_bytes(task: _Task) -> int:
    """Return the bytes of a queued task that count toward the limit on uncommitted bytes.

    An overwrite counts as 0 bytes: its rows are kept until the stream is complete, so waiting for
    them would never end.
    """
    if not isinstance(task, CommitRequest) or task.mode is WriteMode.OVERWRITE:
        return 0
    return task.nbytes


def _describe_batch(request: CommitRequest, result: CommitResult) -> dict[str, Any]:
    """Return the OpenTelemetry span attributes of a commit: operation, row counts and bytes."""
    return {
        "db.operation.name": request.mode.value,
        "tap_core.records": result.written,
        "tap_core.quarantined": result.quarantined,
        "tap_core.bytes": request.nbytes,
    }


def _describe_omitted(omitted: Sequence[SchemaChange]) -> str:
    """Return a note for the user that lists properties without a column in the table.

    These properties have no column because the setting ``on_schema_change`` is ``ignore``.
    """
    names = [".".join(change.path) for change in omitted]
    properties = "1 property" if len(names) == 1 else f"{len(names)} properties"
    return (
        f"has {properties} without a column in its table, left out because on_schema_change is"
        f" ignore: {list_names(names)}"
    )
