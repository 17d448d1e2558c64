"""The queues of the commit pipeline: order per table, parallel tables, the end after a failure."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tap_core.events import Checkpoint, Rows, SchemaEvent, StreamId
from tap_core.exceptions import InvalidInputLine
from tap_core.protocols.singer.reader import SingerReader
from target_spark import target
from target_spark.config.options import LoadOptions
from target_spark.errors import SchemaChangeError
from target_spark.loader.commit_pipeline import CommitPipeline
from target_spark.loader.commit_request import CommitRequest, CommitResult
from target_spark.loader.interfaces import ProtocolBinding
from target_spark.loader.loader import Loader
from target_spark.loader.report import Report
from target_spark.storage.spool import SpoolFolder
from tests.target.loader.test_state_order import MemoryTables, StubEngine

if TYPE_CHECKING:
    from target_spark.loader.load_session import LoadSession

A, B = StreamId("a"), StreamId("b")
SOON = 60


class Tables(MemoryTables):
    """Tables in memory that call ``before`` at each commit and record the order of commits."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []
        self.before: Callable[[CommitRequest], object] = lambda _request: None

    def write(self, work: CommitRequest) -> CommitResult:
        self.before(work)
        result = super().write(work)
        self.done.append(str(work.stream))
        return result


class StubStateWriter:
    """A writer for the states of an input without states."""

    def emit(self, _state: bytes) -> None: ...


class Load:
    """A loader of batches of one row into two tables, with two writer threads."""

    def __init__(self, folder: Path) -> None:
        self.tables, self.states, self.stopping = Tables(), list[bytes](), threading.Event()
        options = LoadOptions(str(folder), format="delta", flush_rows=1, writers=2)
        self.folder = SpoolFolder(folder)
        self.loader = Loader(
            options,
            StubEngine(),  # type: ignore[arg-type]
            self.folder,
            lambda: self.tables,
            Report(),
            self.states.append,
            self.stopping,
        )
        for stream in (A, B):
            self.loader.process_event(SchemaEvent(stream, {"properties": {"id": {}}}))

    @property
    def pipeline(self) -> CommitPipeline:
        return self.loader._pipeline

    def row(self, stream: StreamId) -> None:
        self.loader.process_event(Rows(stream, [b'{"id":1}']))

    def close(self) -> None:
        self.loader.close()
        self.folder.close()


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    opened = Load(tmp_path)
    yield opened
    opened.close()


def test_commits_of_one_table_are_in_order(load: Load) -> None:
    for _ in range(50):
        load.row(A)
    load.pipeline.wait()
    ordinals = load.tables.rows["a"]
    assert len(ordinals) == 50
    assert ordinals == sorted(ordinals)


def test_different_tables_are_committed_in_parallel_and_one_table_is_not(load: Load) -> None:
    meeting = threading.Barrier(2)
    load.tables.before = lambda _request: meeting.wait(SOON)
    load.row(A)
    load.row(B)
    load.pipeline.wait()
    assert load.pipeline.failure is None
    alone, clashes = threading.Lock(), list[bool]()

    def check(_request: CommitRequest) -> None:
        clashes.append(not alone.acquire(blocking=False))
        alone.release()

    load.tables.before = check
    for _ in range(20):
        load.row(A)
    load.pipeline.wait()
    assert clashes == [False] * 20


def test_no_commit_starts_after_a_failure(load: Load) -> None:
    def fail(_request: CommitRequest) -> None:
        raise RuntimeError("no")

    load.tables.before = fail
    load.row(A)
    load.pipeline.wait()
    load.tables.before = lambda _request: None
    load.row(A)
    load.row(B)
    load.pipeline.wait()
    assert str(load.pipeline.failure) == "no"
    assert load.tables.done == []


@pytest.mark.parametrize("is_signalled", [False, True])
def test_stop_waits_for_the_running_commit_and_starts_no_other(
    load: Load, is_signalled: bool
) -> None:
    started, go = threading.Event(), threading.Event()

    def slow(_request: CommitRequest) -> None:
        started.set()
        go.wait(SOON)

    load.tables.before = slow
    load.row(A)
    load.loader.process_event(Checkpoint(b'{"at":1}'))
    load.row(A)
    assert started.wait(SOON)
    if is_signalled:
        load.stopping.set()
        load.pipeline.wait()  # returns at once, and the commit still runs
        assert load.tables.done == []
    assert load.pipeline.uncommitted_bytes > 0
    threading.Timer(0.05, go.set).start()
    load.loader.stop()
    assert load.tables.done == ["a"]
    assert load.states == [b'{"at":1}']


def test_wait_for_space_ends_with_space_or_at_its_deadline(load: Load) -> None:
    go = threading.Event()
    load.tables.before = lambda _request: go.wait(SOON)
    load.row(A)
    nbytes = load.pipeline.uncommitted_bytes
    load.pipeline.wait_for_space(nbytes + 1, float("inf"))
    load.pipeline.wait_for_space(1, 0.0)
    assert load.pipeline.uncommitted_bytes == nbytes
    go.set()
    load.pipeline.wait_for_space(1, float("inf"))
    assert load.pipeline.uncommitted_bytes == 0


def test_commit_carries_a_state_received_after_its_batch_closed(load: Load) -> None:
    """The state is read right before the commit."""
    started, go = threading.Event(), threading.Event()

    def slow(_request: CommitRequest) -> Any:
        started.set()
        return go.wait(SOON)

    load.tables.before = slow
    load.row(A)
    assert started.wait(SOON)
    load.loader.process_event(Checkpoint(b'{"at":1}'))
    go.set()
    load.pipeline.wait()
    ordinal = max(load.tables.rows["a"]) + 1
    assert [carried for carried, _ in load.tables.carried] == [ordinal]


def test_a_run_reports_the_errors_of_its_input_and_of_all_failed_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meeting, tables = threading.Barrier(2), Tables()
    errors = {A: SchemaChangeError("a is protected"), B: RuntimeError("bug in the commit of b")}

    def fail(request: CommitRequest) -> None:
        meeting.wait(SOON)
        raise errors[request.stream]

    def feed(session: LoadSession) -> None:
        for stream in errors:
            session.loader.process_event(SchemaEvent(stream, {"properties": {"id": {}}}))
            session.loader.process_event(Rows(stream, [b'{"id":1}']))
        raise InvalidInputLine("line 3 is no JSON")

    tables.before = fail
    engine: Any = StubEngine()
    engine.application = None
    monkeypatch.setattr(target, "SparkProvider", lambda *_args, **_options: engine)
    monkeypatch.setattr(target, "_new_writer", lambda *_args: tables)
    binding = ProtocolBinding(
        SingerReader(),
        LoadOptions(str(tmp_path), run_history=False),
        open_state_writer=lambda: nullcontext(StubStateWriter()),  # type: ignore[arg-type]
    )
    faults = target.TargetSpark(config={"path": str(tmp_path)}).run_load(binding, feed)
    assert sorted(map(str, faults)) == [
        "a is protected",
        "bug in the commit of b",
        "line 3 is no JSON",
    ]
