"""Hand-over of commit requests from the input reader to the writer threads.

The input reader only submits requests; the callbacks in this module run in the writer threads. A
commit counts, in the report and for waiting states, only after the writer has returned from it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable
from contextlib import nullcontext
from functools import partial
from typing import Final

from tap_core.events import StreamId
from target_spark.config.options import WriteMode
from target_spark.loader.commit_queue import KeyedExecutor
from target_spark.loader.commit_request import CommitRequest, CommitResult, CommitWriter
from target_spark.loader.metrics import batch_timer, count_records
from target_spark.loader.report import Report
from target_spark.loader.state_release import StateReleaser
from target_spark.loader.stream_context import LoadedStream
from target_spark.storage.spool import Batch
from target_spark.tables.model import QUARANTINE, MaintenanceOptions, Table

__all__ = ["CommitDispatcher"]

logger = logging.getLogger(__name__)

_OLD_VERSIONS_STAY: Final = (
    "rows of other versions are not deleted: too many rows of this run do not fit their columns"
)


class CommitDispatcher:
    """Submits commit requests to the queue of their table.

    ``new_commits`` creates the commit writer when it is first needed.
    """

    def __init__(
        self,
        lanes: KeyedExecutor,
        releases: StateReleaser,
        report: Report,
        new_commits: Callable[[], CommitWriter],
    ) -> None:
        self._lanes = lanes
        self._releases = releases
        self._report = report
        self._new_commits = new_commits
        self._made_commits: CommitWriter | None = None
        self._making_commits = threading.Lock()
        self._large_rows = threading.Lock()
        self._last_table: Table | None = None

    @property
    def commits(self) -> CommitWriter:
        """The commit writer, created at first use (it loads Spark's libraries) for all threads."""
        with self._making_commits:
            if self._made_commits is None:
                self._made_commits = self._new_commits()
            return self._made_commits

    def submit(
        self,
        stream: LoadedStream,
        batches: tuple[Batch, ...],
        upto: int,
        retires: int | None = None,
    ) -> None:
        """Queue a commit of batches, or a deletion of old versions.

        Args:
            stream: The stream of the rows.
            batches: The closed batches to commit; empty for a deletion of old versions.
            upto: The ordinal up to which batches were cut.
            retires: The version whose rows stay, if the rows of all others are to be deleted.
        """
        waits = stream.id if retires is None else stream.removal
        work = CommitRequest(
            stream=stream.id,
            table=stream.table,
            layout=stream.layout,
            mode=stream.mode,
            batches=batches,
            covered=partial(self._releases.covered_by, waits, upto),
            design=stream.design,
            hard_delete=stream.hard_delete,
            retires=retires,
            cursor=stream.cursor,
            covered_without=self._releases.covered_without,
        )
        nbytes = 0 if stream.overwrites else sum(batch.nbytes for batch in batches)
        self._lanes.submit(stream.table.key, partial(self._commit, work, waits, upto), nbytes)

    def prepare(self, stream: LoadedStream) -> None:
        """Queue the creation or schema update of the table of a stream without rows."""
        self._lanes.submit(stream.table.key, partial(self._prepare, stream))

    def queue_maintenance(self, stream: LoadedStream, care: MaintenanceOptions) -> None:
        """Queue the maintenance of a table after its last commit."""
        self._lanes.submit(stream.table.key, partial(self._run_maintenance, stream, care))

    def carry_leftover(self) -> None:
        """Commit the last emitted state to a table if no earlier commit carried it."""
        leftover = self._releases.leftover()
        if leftover is not None and self._last_table is not None:
            self.commits.carry(self._last_table, leftover)

    def note(self, stream: StreamId, text: str) -> None:
        """Log and report a remark on a stream, once."""
        if self._report.note(str(stream), text):
            logger.info("Stream %s %s", stream, text)

    def describe_incomplete(self, stream: StreamId) -> str:
        """Return the reason why a stream with quarantined rows is not complete."""
        return self._report.describe_incomplete(str(stream))

    # Run in a writer thread

    def _commit(self, work: CommitRequest, waits: Hashable, upto: int) -> None:
        if work.retires is not None and work.stream in self._releases.withheld():
            self._releases.withhold(waits, upto)
            self.note(work.stream, _OLD_VERSIONS_STAY)
            return
        started = time.monotonic()
        name, nbytes = str(work.stream), sum(batch.nbytes for batch in work.batches)
        is_large = any(batch.has_large_rows for batch in work.batches)
        with batch_timer(name), self._large_rows if is_large else nullcontext():
            outcome = self.commits.write(work)
        if not (outcome.withheld and work.mode is WriteMode.OVERWRITE):  # may not exist
            self._last_table = work.table
        seconds = time.monotonic() - started
        written, quarantined = outcome.written, outcome.quarantined
        self._report.committed(name, written, quarantined, seconds, outcome.effect, nbytes)
        self._report.withheld(name, outcome.withheld)
        self._report.nulled(name, outcome.nulled)
        self._report.zoneless(name, outcome.zoneless)
        self._report.received(name, outcome.from_files, 0)
        count_records(name, written)
        self._tell(work.stream, outcome)
        if quarantined:
            self._set_aside(work, outcome)
        done = self._releases.withhold if outcome.withheld else self._releases.committed
        done(waits, upto, outcome.carried)
        for batch in work.batches:
            batch.remove()

    def _set_aside(self, work: CommitRequest, outcome: CommitResult) -> None:
        """Report the quarantined rows of a commit and the reasons."""
        table = work.table.beside(QUARANTINE)
        again = work.mode is not WriteMode.OVERWRITE
        name = str(work.stream)
        self._report.set_aside(name, table.name, table.key, outcome.reasons, can_replay=again)
        self._releases.rejected(work.stream, outcome.quarantined)

    def _prepare(self, stream: LoadedStream) -> None:
        outcome = self.commits.prepare(stream.table, stream.layout, stream.design)
        self._tell(stream.id, outcome)

    def _run_maintenance(self, stream: LoadedStream, care: MaintenanceOptions) -> None:
        failure = self.commits.care(stream.table, care)
        if failure is not None:
            self.note(stream.id, failure)

    def _tell(self, stream: StreamId, outcome: CommitResult) -> None:
        """Report the column changes and remarks of a commit."""
        for change in outcome.changes:
            column = ".".join(change.path)
            self._report.changed(str(stream), column, change.ddl, change.kind, change.instead_of)
            self.note(stream, change.told())
        for remark in outcome.remarks:
            self.note(stream, remark)
