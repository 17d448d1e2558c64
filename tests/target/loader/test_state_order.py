"""The loader emits no state before the rows that it covers are committed, for any input."""

from __future__ import annotations

import json
import tempfile
import threading
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeGuard

from hypothesis import given, settings
from hypothesis import strategies as st

from tap_core.events import ActivateVersion, Checkpoint, Event, Rows, SchemaEvent, StreamId
from target_spark.columns import CanWiden, TableSchema
from target_spark.config.options import LoadOptions, StreamOptions, WriteMode
from target_spark.errors import IncompleteError, QuarantineError, TargetSparkError
from target_spark.loader.commit_request import CommitRequest, CommitResult
from target_spark.loader.loader import Loader
from target_spark.loader.pending_states import CoveredState
from target_spark.loader.report import Report
from target_spark.loader.state_release import Ledger
from target_spark.loader.version_tracker import VersionTracker
from target_spark.storage.spool import SpoolFolder
from target_spark.tables.table import Table, TableLayout

STREAMS = [StreamId(name) for name in "abc"]
VERSIONED = STREAMS[0]


class StubEngine:
    """An engine for tables in memory; it has no Spark."""

    started = False
    failure: TargetSparkError | None = None

    def begin(self) -> None:
        self.started = True

    def spark(self) -> Any:
        raise AssertionError

    def close(self) -> None: ...


class BrokenTableError(TargetSparkError):
    """The error of a commit that a test makes fail."""


@dataclass
class MemoryTables:
    """Tables in memory that record what each commit carried; the ``fails_at``-th commit fails."""

    fails_at: int | None = None
    rows: dict[str, list[int]] = field(default_factory=dict)
    carried: list[tuple[int, set[int]]] = field(default_factory=list)
    retired: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    lock: threading.Lock = field(default_factory=threading.Lock)
    busy: set[str] = field(default_factory=set)

    @property
    def can_widen(self) -> CanWiden:
        return lambda _old, _new: True

    def write(self, request: CommitRequest) -> CommitResult:
        with self.lock:
            assert request.table.name not in self.busy  # one table, one thread
            self.busy.add(request.table.name)
        covered = request.covered()
        lines = [
            json.loads(line)
            for batch in request.batches
            for path in batch.paths
            for line in Path(path).read_bytes().splitlines()
        ]
        with self.lock:
            self.busy.discard(request.table.name)
            if self.fails_at is not None:
                self.fails_at -= 1
                if self.fails_at < 0:
                    raise BrokenTableError("the disk is full")
            if request.kept_version is not None:
                assert not request.batches
                self.retired[request.table.name].add(request.kept_version)
            if request.mode is WriteMode.OVERWRITE:
                self.rows[request.table.name] = []
            self.rows.setdefault(request.table.name, []).extend(line["n"] for line in lines)
            if covered is not None:
                self.carried.append((covered.ordinal, self.safe()))
        return CommitResult(len(lines), 0, covered, {})

    def prepare(
        self, stream: StreamId, table: Table, table_schema: TableSchema, layout: TableLayout
    ) -> CommitResult:
        return CommitResult(0, 0, None, {})

    def has_other_versions(self, table: Table, version: int) -> bool:
        return True

    def commit_state(self, table: Table, covered: CoveredState) -> None:
        self.carried.append((covered.ordinal, self.safe()))

    def safe(self) -> set[int]:
        return {ordinal for table in self.rows.values() for ordinal in table}


def _no_states() -> Ledger:
    """Return a ledger of an input without states."""
    return Ledger(lambda _state: None, Report())


@dataclass
class QuarantiningTables(MemoryTables):
    """Tables of which one quarantines all rows of its first ``quarantined_commits`` commits."""

    quarantining: str = "b"
    quarantined_commits: int = 0
    quarantined_rows: list[int] = field(default_factory=list)

    def write(self, request: CommitRequest) -> CommitResult:
        if (
            request.table.name != self.quarantining
            or not request.batches
            or self.rows.get(self.quarantining)
        ):
            outcome = super().write(request)
            return replace(
                outcome,
                quarantined=len(self.quarantined_rows) * (request.table.name == self.quarantining),
            )
        self.quarantined_commits -= 1
        if self.quarantined_commits < 0:
            return super().write(request)
        unfit_rows = MemoryTables()
        quarantined = unfit_rows.write(replace(request, ledger=_no_states())).written
        covered = request.covered(withheld=True)
        with self.lock:
            self.quarantined_rows += unfit_rows.safe()
            if covered is not None and request.mode is not WriteMode.OVERWRITE:
                self.carried.append((covered.ordinal, self.safe()))
        return CommitResult(
            0, quarantined, covered, {}, withheld="none of its rows could be written"
        )

    def safe(self) -> set[int]:
        """Return the rows that states may cover; quarantined rows count once others are written."""
        return super().safe() | set(
            self.quarantined_rows if self.rows.get(self.quarantining) else ()
        )


def events(plan: list[tuple[str, int]]) -> list[Event]:
    """Return the events of a plan of (kind, number)."""
    sequence: list[Event] = [SchemaEvent(stream, {"properties": {"id": {}}}) for stream in STREAMS]
    for kind, number in plan:
        stream = STREAMS[number % len(STREAMS)]
        if kind == "rows":
            version = {15: 1, 18: None}.get(number, 0) if stream == VERSIONED else None
            sequence.append(Rows(stream, [b"{}"] * (number % 3 + 1), version=version))
        elif kind == "state":
            sequence.append(Checkpoint(b'{"n":%d}' % len(sequence)))
        elif kind == "truncate":
            sequence.append(ActivateVersion(stream, number // 18))
        else:
            sequence.append(SchemaEvent(stream, {"properties": {"id": {}, f"x{number}": {}}}))
    return sequence


def row_ordinals(sequence: list[Event]) -> dict[int, list[int]]:
    """Return, for each state's index among the events, the ordinals of the rows before it."""
    before: dict[int, list[int]] = {}
    ordinals: list[int] = []
    ordinal = 0
    for index, event in enumerate(sequence):
        if isinstance(event, Rows):
            ordinals.extend(range(ordinal, ordinal + len(event.rows)))
            ordinal += len(event.rows)
        else:
            if isinstance(event, Checkpoint):
                before[index] = list(ordinals)
            ordinal += 1
    return before


PLANS = st.lists(
    st.tuples(
        st.sampled_from(["rows", "rows", "rows", "state", "state", "describe", "truncate"]),
        st.integers(0, 20),
    ),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(
    PLANS,
    st.integers(1, 5),
    st.none() | st.integers(0, 8),
    st.sampled_from(["finish", "torn", "stop"]),
    st.sampled_from([None, "b"]),
    st.integers(60, 2000),
)
def test_emitted_state_covers_committed_rows_only(
    plan: list[tuple[str, int]],
    flush_rows: int,
    fails_at: int | None,
    end: str,
    overwritten: str | None,
    spool_bytes: int,
) -> None:
    sequence = events(plan)
    before = row_ordinals(sequence)
    tables = MemoryTables(fails_at)
    released: list[int] = []

    def emit(state: bytes) -> None:
        index = json.loads(state)["n"]
        with tables.lock:
            assert tables.safe() >= set(before[index])
            assert get_due_deletion(sequence, index) <= tables.retired["a"] | get_superseded(
                sequence, index
            )
        assert not released or released[-1] < index
        released.append(index)

    modes = {overwritten: StreamOptions(WriteMode.OVERWRITE)} if overwritten else {}
    options = LoadOptions("/tables", streams=modes, flush_rows=flush_rows, spool_bytes=spool_bytes)
    with tempfile.TemporaryDirectory() as base:
        folder = SpoolFolder(base)
        loader = Loader(options, StubEngine(), folder, lambda: tables, Report(), emit)
        fault = run(loader, sequence, end)
        loader.close()
        folder.close()
    complete = end == "finish" and fault is None
    if complete:
        assert tables.safe() == set(get_all_row_ordinals(sequence))
        assert released[-1:] == list(before)[-1:]
    by_ordinal = map_state_ordinals(sequence)
    for ordinal, safe in tables.carried:
        # The state in a commit is covered once the commit is made.
        assert safe >= set(before[by_ordinal[ordinal]])


@settings(max_examples=150, deadline=None)
@given(PLANS, st.integers(1, 5), st.integers(0, 4), st.sampled_from([None, "b"]))
def test_no_state_covers_a_stream_whose_rows_were_all_quarantined(
    plan: list[tuple[str, int]], flush_rows: int, quarantined_commits: int, overwritten: str | None
) -> None:
    sequence = [event for event in events(plan) if not isinstance(event, ActivateVersion)]
    before = row_ordinals(sequence)
    tables = QuarantiningTables(quarantined_commits=quarantined_commits)
    released: list[int] = []

    def emit(state: bytes) -> None:
        released.append(json.loads(state)["n"])
        index = next(i for i, e in enumerate(sequence) if getattr(e, "state", None) == state)
        with tables.lock:
            assert tables.safe() >= set(before[index])

    modes = {overwritten: StreamOptions(WriteMode.OVERWRITE)} if overwritten else {}
    options = LoadOptions("/tables", streams=modes, flush_rows=flush_rows)
    report = Report(["target.json"])
    with tempfile.TemporaryDirectory() as base:
        folder = SpoolFolder(base)
        loader = Loader(options, StubEngine(), folder, lambda: tables, report, emit)
        fault = run(loader, sequence, "finish")
        loader.close()
        folder.close()
    counts = report.streams()["b"]
    if isinstance(fault, QuarantineError):
        assert (counts.written, bool(counts.quarantined)) == (0, True)
        assert "Stream b is not complete: none of its rows could be written" in str(fault)
    elif fault is None:
        assert released[-1:] == [json.loads(e.state)["n"] for e in sequence if is_state(e)][-1:]
    by_ordinal = map_state_ordinals(sequence)
    for ordinal, safe in tables.carried:
        assert safe >= set(before[by_ordinal[ordinal]])


def is_state(event: Event) -> TypeGuard[Checkpoint]:
    return isinstance(event, Checkpoint)


def get_due_deletion(sequence: list[Event], index: int) -> set[int]:
    """Return the version whose activation must be applied before a state at this index."""
    results = [
        e.version
        for e in sequence[:index]
        if isinstance(e, ActivateVersion) and e.stream == VERSIONED
    ]
    versions = VersionTracker()
    for event in sequence:
        if isinstance(event, Rows) and event.stream == VERSIONED:
            versions.record_rows(event.version)
        elif isinstance(event, ActivateVersion) and event.stream == VERSIONED:
            versions.activate(event.version)
    return set() if versions.may_delete_current_rows else set(results[-1:])


def get_superseded(sequence: list[Event], index: int) -> set[int]:
    """Return all versions if there is a later activation, because that may have been applied."""
    later = sequence[index:]
    return (
        {0, 1}
        if any(isinstance(e, ActivateVersion) and e.stream == VERSIONED for e in later)
        else set()
    )


def run(loader: Loader, sequence: list[Event], end: str) -> TargetSparkError | None:
    try:
        for event in sequence:
            loader.process_event(event)
            loader.poll()
        if end == "stop":
            loader.stop()
        else:
            loader.finish(whole=end == "finish")
    except (BrokenTableError, IncompleteError, QuarantineError) as error:
        return error
    return None


def get_all_row_ordinals(sequence: list[Event]) -> list[int]:
    return row_ordinals([*sequence, Checkpoint(b"")])[len(sequence)]


def map_state_ordinals(sequence: list[Event]) -> dict[int, int]:
    """Return the index among the events of the state at each ordinal."""
    indexes: dict[int, int] = {}
    ordinal = 0
    for index, event in enumerate(sequence):
        if isinstance(event, Checkpoint):
            indexes[ordinal] = index
        ordinal += len(event.rows) if isinstance(event, Rows) else 1
    return indexes
