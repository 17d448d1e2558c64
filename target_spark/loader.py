"""The fold: events in, commits and states out. The only room that knows "data before state".

Rules of the room:

- One thread folds; a few others commit (`target_spark.lanes`). What both touch stands in
  `target_spark.releases`, under its lock.
- Every message has an ordinal, its place in the input. A state leaves only when every row
  with a smaller ordinal is committed; it leaves right after the commit that allows it.
- A batch ends by rows, bytes or age, or where the keys or types of its stream change in a
  way that its rows cannot follow.
- An overwritten stream keeps its rows until the stream is known to be complete; the end
  of the input alone does not say so. It counts as uncommitted from its first SCHEMA on,
  so no state overtakes it.
- After the first failure nothing new is committed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from tap_core.events import Checkpoint, Describe, Event, Files, Rows, StreamId, Truncate
from tap_core.exceptions import RecordsWithoutSchemaException
from tap_core.schema.references import normal_form, resolve_schema_references
from tap_core.types import JsonSchema
from target_spark.columns import (
    METADATA_COLUMNS,
    Column,
    Feed,
    Layout,
    can_share_batch,
    evolve,
    layout_of,
)
from target_spark.columns.layout import DELETED_AT
from target_spark.completeness import is_empty, is_final
from target_spark.engine import Engine
from target_spark.errors import IncompleteError, UnsupportedError
from target_spark.lanes import Lanes
from target_spark.options import LoadOptions, WriteMode, design_of
from target_spark.releases import Releases
from target_spark.report import Report
from target_spark.spool import Batch, Spool, SpoolFolder
from target_spark.tables import Design, Table
from target_spark.work import Commits, Work

__all__ = ["Loader"]

logger = logging.getLogger(__name__)

_AGES_EVERY: Final = 0.5
"""Seconds between two looks at the ages of all spools: there may be thousands."""


@dataclass
class _Stream:
    """What the fold knows of one stream. ``form`` is its description in normal form."""

    described: Describe
    schema: JsonSchema
    form: Any
    table: Table
    spool: Spool
    layout: Layout
    mode: WriteMode
    design: Design
    hard_delete: bool
    versioned: bool = False
    activated: int | None = None
    closed_by_activation: bool = False
    has_rows: bool = False
    held: list[Batch] = field(default_factory=list)

    @property
    def id(self) -> StreamId:
        return self.described.stream

    @property
    def overwrites(self) -> bool:
        return self.mode is WriteMode.OVERWRITE

    def has_rows_of(self, version: int) -> bool:
        """Say whether rows of this version wait to be swapped in."""
        open_ones = self.spool.count > 0 and self.spool.version == version
        return open_ones or any(batch.version == version for batch in self.held)

    def valid_batches(self) -> tuple[Batch, ...]:
        """Return what a swap puts in: one version's rows if its source announced one."""
        if self.activated is None or not self.has_rows_of(self.activated):
            return tuple(self.held)
        return tuple(batch for batch in self.held if batch.version in {self.activated, None})


class Loader:
    """Loads one input.

    ``commits`` makes what writes, when it is first needed; ``emit`` puts a state out;
    ``stopping`` says that a signal came.

    Call `fold` for each event, `beat` now and then, and at the end `finish` or, after
    a signal, `stop`; then `close`.
    """

    def __init__(
        self,
        options: LoadOptions,
        engine: Engine,
        folder: SpoolFolder,
        commits: Callable[[], Commits],
        report: Report,
        emit: Callable[[bytes], None],
        stopping: Callable[[], bool] = bool,
    ) -> None:
        self._options = options
        self._engine = engine
        self._folder = folder
        self._new_commits = commits
        self._made_commits: Commits | None = None
        self._making_commits = threading.Lock()
        self._report = report
        self._stopping = stopping
        self._lanes = Lanes()
        self._releases = Releases(emit, report)
        self._streams: dict[StreamId, _Stream] = {}
        self._activated: dict[StreamId, int] = {}
        self._ordinal = 0
        self._open_bytes = 0
        self._ages_due = 0.0
        self._last_state: bytes | None = None
        self._last_table: Table | None = None
        self._folds: Mapping[type[Event], Callable[[Any], None]] = {
            Describe: self._describe,
            Rows: self._rows,
            Checkpoint: self._checkpoint,
            Truncate: self._truncate,
            Files: self._files,
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
        now = time.monotonic()
        if now < self._ages_due:
            return
        self._ages_due = now + min(_AGES_EVERY, self._options.flush_seconds / 4)
        for stream in self._streams.values():
            if not stream.overwrites and stream.spool.age() >= self._options.flush_seconds:
                self._cut(stream)

    def _describe(self, event: Describe) -> None:
        known = self._streams.get(event.stream)
        if known is not None and known.described == event:
            return
        schema = resolve_schema_references(dict(event.schema), cut_circles=True)
        form = (normal_form(schema), event.keys)
        if known is None:
            known = self._streams[event.stream] = self._new_stream(event, schema, form)
        elif known.form != form:
            self._describe_again(known, event, schema)
        known.described, known.form = event, form
        if known.overwrites:
            self._releases.opened(known.id, self._ordinal)

    def _new_stream(self, event: Describe, schema: JsonSchema, form: Any) -> _Stream:
        options = self._options.of(event.stream)
        table = self._options.table(event.stream)
        versioned = event.stream in self._activated
        self._report.described(str(event.stream), table.name)
        return _Stream(
            described=event,
            schema=schema,
            form=form,
            table=table,
            spool=Spool(self._folder, event.stream),
            layout=self._layout_of(schema, event.keys, versioned=versioned),
            mode=self._mode(event),
            design=design_of(options),
            hard_delete=bool(options.hard_delete),
            versioned=versioned,
            activated=self._activated.get(event.stream),
        )

    def _mode(self, event: Describe) -> WriteMode:
        mode = self._options.mode(event.stream, keyed=bool(event.keys))
        if event.keys and mode is WriteMode.APPEND and not self._options.can_upsert:
            self._note(
                event.stream,
                "has keys, but this table format cannot upsert: rows that are sent again"
                " are appended again",
            )
        return mode

    def _layout_of(self, schema: JsonSchema, keys: tuple[str, ...], *, versioned: bool) -> Layout:
        columns = self._options.columns
        return layout_of(schema, keys, replace(columns, table_version=versioned))

    def _describe_again(self, stream: _Stream, event: Describe, schema: JsonSchema) -> None:
        """Let the columns grow; rows that cannot follow are cut off before."""
        wanted = self._layout_of(schema, event.keys, versioned=stream.versioned)
        layout, changes = evolve(stream.layout, wanted, self._commits.can_widen)
        if stream.spool.count and not can_share_batch(stream.layout, layout):
            self._cut(stream)
        for change in changes:
            path, beside = ".".join(change.path), change.instead_of
            self._note(
                stream.id,
                f"column {path} is now {change.ddl}"
                + (f", beside {beside}, which cannot take it" if beside else ""),
            )
        stream.layout, stream.schema = layout, schema
        stream.mode = self._mode(event)

    def _rows(self, event: Rows) -> None:
        stream = self._streams.get(event.stream)
        if stream is None:
            raise RecordsWithoutSchemaException(
                f"A record of stream {event.stream} came before any schema of it."
            )
        self._begin()
        if event.version is not None and not stream.versioned:
            stream.versioned = True
            self._describe_again(stream, stream.described, stream.schema)
        spool = stream.spool
        if stream.overwrites and spool.count and spool.version != event.version:
            self._cut(stream)
        self._releases.opened(stream.id, self._ordinal)
        nbytes = spool.add(event, self._ordinal)
        stream.has_rows, stream.closed_by_activation = True, False
        self._report.received(str(stream.id), len(event.rows), nbytes)
        if not stream.overwrites:
            self._open_bytes += nbytes
            self._bound(stream)

    def _checkpoint(self, event: Checkpoint) -> None:
        if not is_empty(event.state):
            self._releases.state_arrived(self._ordinal, event.state)
        self._last_state = event.state

    def _truncate(self, event: Truncate) -> None:
        self._activated[event.stream] = event.version
        stream = self._streams.get(event.stream)
        if stream is None:
            return
        stream.activated = event.version
        stream.closed_by_activation = stream.has_rows_of(event.version)
        if not stream.overwrites:
            self._note(stream.id, "ACTIVATE_VERSION is noted; no rows are removed")

    def _files(self, event: Files) -> None:
        raise UnsupportedError(
            f"Stream {event.stream} comes as BATCH messages, which cannot be read yet."
            " Take batch_config out of the tap's settings."
        )

    # Batches

    @property
    def _commits(self) -> Commits:
        """What writes; made late, since it loads Spark's libraries, and once for all threads."""
        with self._making_commits:
            if self._made_commits is None:
                self._made_commits = self._new_commits()
            return self._made_commits

    def _begin(self) -> None:
        if not self._engine.started:
            self._engine.begin()

    def _bound(self, stream: _Stream) -> None:
        """Close the stream's batch where it is full, and wait where too much waits."""
        options, spool = self._options, stream.spool
        if spool.count >= options.flush_rows or spool.nbytes >= options.flush_bytes:
            self._cut(stream)
        if self._waiting() < options.spool_bytes:
            return
        if self._open_bytes > options.spool_bytes // 2:
            for other in self._streams.values():
                if other.spool.count and not other.overwrites:
                    self._cut(other)
        self._lanes.wait(lambda: self._waiting() < options.spool_bytes or self._stopping())
        self._raise_failure()

    def _waiting(self) -> int:
        return self._open_bytes + self._lanes.nbytes

    def _cut(self, stream: _Stream) -> None:
        """Close the open batch, and let it be committed unless its stream overwrites."""
        batch = stream.spool.cut()
        self._releases.cut(stream.id)
        if batch.has_deletes:
            stream.layout = _with_deletions(stream.layout)
        if stream.overwrites:
            stream.held.append(batch)
            return
        self._open_bytes -= batch.nbytes
        self._submit(stream, (batch,), batch.first)

    def _submit(self, stream: _Stream, batches: tuple[Batch, ...], upto: int) -> None:
        work = Work(
            stream=stream.id,
            table=stream.table,
            layout=stream.layout,
            mode=stream.mode,
            batches=batches,
            covered=partial(self._releases.covered_by, stream.id, upto),
            design=stream.design,
            hard_delete=stream.hard_delete,
        )
        nbytes = 0 if stream.overwrites else batches[0].nbytes
        self._lanes.submit(stream.table.key, partial(self._commit, work, upto), nbytes)

    def _commit(self, work: Work, upto: int) -> None:
        """Write one piece of work; runs in a writer's thread."""
        started = time.monotonic()
        outcome = self._commits.write(work)
        self._last_table = work.table
        seconds = time.monotonic() - started
        name = str(work.stream)
        self._report.committed(name, outcome.written, outcome.quarantined, seconds)
        self._report.zoneless(name, outcome.zoneless)
        self._releases.committed(work.stream, upto, outcome.carried)
        for batch in work.batches:
            batch.remove()

    # The end

    def finish(self, *, whole: bool) -> None:
        """Commit what waits, and swap in what is complete. ``whole`` is False if torn.

        Raises:
            IncompleteError: an overwrite was not swapped in.
            TargetSparkError: and others; a commit failed.
        """
        for stream in self._streams.values():
            if stream.spool.count:
                self._cut(stream)
        kept = self._swap(final=whole and self._is_final())
        if self._engine.started:
            self._make_missing_tables()
        self._lanes.wait(self._stopping)
        self._raise_failure()
        if self._stopping():
            self.stop()
            return
        self._releases.release()
        self._commit_leftover()
        if kept:
            raise IncompleteError(
                f"The tables of {', '.join(kept)} were not overwritten and stay as they were:"
                " the input ended without a sign that these streams are complete (a STATE at"
                " the very end without progress markers, or an ACTIVATE_VERSION after the"
                " rows). For taps that send no STATE, set overwrite_on_eof to always."
            )

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
        if self._options.always_overwrite:
            return True
        return self._last_state is not None and is_final(self._last_state)

    def _swap(self, *, final: bool) -> list[str]:
        """Let complete overwrites go in; return the streams whose tables stay."""
        kept = []
        for stream in self._streams.values():
            if not stream.overwrites:
                continue
            if final or stream.closed_by_activation:
                self._begin()
                self._releases.cut(stream.id)
                self._submit(stream, stream.valid_batches(), self._ordinal)
            else:
                self._note(stream.id, "not overwritten: the stream may be incomplete")
                kept.append(str(stream.id))
        return kept

    def _make_missing_tables(self) -> None:
        for stream in self._streams.values():
            if not stream.has_rows and not stream.overwrites:
                make = partial(self._commits.prepare, stream.table, stream.layout, stream.design)
                self._lanes.submit(stream.table.key, make)

    def _commit_leftover(self) -> None:
        """Let a table hold the last state too, where no commit carried it."""
        leftover = self._releases.leftover()
        if leftover is not None and self._last_table is not None:
            self._commits.carry(self._last_table, leftover)

    def _raise_failure(self) -> None:
        failure = self._lanes.failure or self._engine.failure
        if failure is not None:
            raise failure

    def _note(self, stream: StreamId, text: str) -> None:
        if self._report.note(str(stream), text):
            logger.info("Stream %s %s", stream, text)


def _with_deletions(layout: Layout) -> Layout:
    """Give the time of a deletion a column, so that such records change nothing else."""
    if DELETED_AT in layout.types:
        return layout
    column = Column(DELETED_AT, DELETED_AT, METADATA_COLUMNS[DELETED_AT], feed=Feed.METADATA)
    return replace(layout, columns=(*layout.columns, column))
