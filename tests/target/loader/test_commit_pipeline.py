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
WAIT_SECONDS = 60


class RecordingTables(MemoryTables):
    """Tables in memory that call ``before_commit`` and record the order of commits."""

    def __init__(self) -> None:
        super().__init__()
        self.committed: list[str] = []
        self.before_commit: Callable[[CommitRequest], object] = lambda _request: None

    def write(self, request: CommitRequest) -> CommitResult:
        self.before_commit(request)
        result = super().write(request)
        self.committed.append(str(request.stream))
        return result


class StubStateWriter:
    """A writer for the states of an input without states."""

    def emit(self, _state: bytes) -> None: ...


class Load:
    """A loader of batches of one row into two tables, with two writer threads."""

    def __init__(self, folder: Path) -> None:
        self.tables, self.states, self.stopping = (
            RecordingTables(),
            list[bytes](),
            threading.Event(),
        )
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

    def add_row(self, stream: StreamId) -> None:
        self.loader.process_event(Rows(stream, [b'{"id":1}']))

    def close(self) -> None:
        self.loader.close()
        self.folder.close()


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    running_load = Load(tmp_path)
    yield running_load
    running_load.close()


def test_commits_of_one_table_are_in_order(load: Load) -> None:
    for _ in range(50):
        load.add_row(A)
    load.pipeline.wait()
    ordinals = load.tables.rows["a"]
    assert len(ordinals) == 50
    assert ordinals == sorted(ordinals)


def test_different_tables_are_committed_in_parallel_and_one_table_is_not(load: Load) -> None:
    barrier = threading.Barrier(2)
    load.tables.before_commit = lambda _request: barrier.wait(WAIT_SECONDS)
    load.add_row(A)
    load.add_row(B)
    load.pipeline.wait()
    assert load.pipeline.failure is None
    lock, overlaps = threading.Lock(), list[bool]()

    def check(_request: CommitRequest) -> None:
        overlaps.append(not lock.acquire(blocking=False))
        lock.release()

    load.tables.before_commit = check
    for _ in range(20):
        load.add_row(A)
    load.pipeline.wait()
    assert overlaps == [False] * 20


def test_no_commit_starts_after_a_failure(load: Load) -> None:
    def fail(_request: CommitRequest) -> None:
        raise RuntimeError("no")

    load.tables.before_commit = fail
    load.add_row(A)
    load.pipeline.wait()
    load.tables.before_commit = lambda _request: None
    load.add_row(A)
    load.add_row(B)
    load.pipeline.wait()
    assert str(load.pipeline.failure) == "no"
    assert load.tables.committed == []


@pytest.mark.parametrize("is_signalled", [False, True])
def test_stop_waits_for_the_running_commit_and_starts_no_other(
    load: Load, is_signalled: bool
) -> None:
    started, may_commit = threading.Event(), threading.Event()

    def wait_for_permission(_request: CommitRequest) -> None:
        started.set()
        may_commit.wait(WAIT_SECONDS)

    load.tables.before_commit = wait_for_permission
    load.add_row(A)
    load.loader.process_event(Checkpoint(b'{"at":1}'))
    load.add_row(A)
    assert started.wait(WAIT_SECONDS)
    if is_signalled:
        load.stopping.set()
        load.pipeline.wait()  # returns at once, and the commit still runs
        assert load.tables.committed == []
    assert load.pipeline.uncommitted_bytes > 0
    threading.Timer(0.05, may_commit.set).start()
    load.loader.stop()
    assert load.tables.committed == ["a"]
    assert load.states == [b'{"at":1}']


def test_wait_for_space_ends_with_space_or_at_its_deadline(load: Load) -> None:
    may_commit = threading.Event()
    load.tables.before_commit = lambda _request: may_commit.wait(WAIT_SECONDS)
    load.add_row(A)
    nbytes = load.pipeline.uncommitted_bytes
    load.pipeline.wait_for_space(nbytes + 1, float("inf"))
    load.pipeline.wait_for_space(1, 0.0)
    assert load.pipeline.uncommitted_bytes == nbytes
    may_commit.set()
    load.pipeline.wait_for_space(1, float("inf"))
    assert load.pipeline.uncommitted_bytes == 0


def test_commit_carries_a_state_received_after_its_batch_closed(load: Load) -> None:
    """The state is read right before the commit."""
    started, may_commit = threading.Event(), threading.Event()

    def wait_for_permission(_request: CommitRequest) -> Any:
        started.set()
        return may_commit.wait(WAIT_SECONDS)

    load.tables.before_commit = wait_for_permission
    load.add_row(A)
    assert started.wait(WAIT_SECONDS)
    load.loader.process_event(Checkpoint(b'{"at":1}'))
    may_commit.set()
    load.pipeline.wait()
    ordinal = max(load.tables.rows["a"]) + 1
    assert [carried for carried, _ in load.tables.carried] == [ordinal]


def test_a_run_reports_the_errors_of_its_input_and_of_all_failed_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    barrier, tables = threading.Barrier(2), RecordingTables()
    errors = {A: SchemaChangeError("a is protected"), B: RuntimeError("bug in the commit of b")}

    def fail(request: CommitRequest) -> None:
        barrier.wait(WAIT_SECONDS)
        raise errors[request.stream]

    def feed(session: LoadSession) -> None:
        for stream in errors:
            session.loader.process_event(SchemaEvent(stream, {"properties": {"id": {}}}))
            session.loader.process_event(Rows(stream, [b'{"id":1}']))
        raise InvalidInputLine("line 3 is no JSON")

    tables.before_commit = fail
    engine: Any = StubEngine()
    engine.application = None
    monkeypatch.setattr(target, "SparkProvider", lambda *_args, **_options: engine)
    monkeypatch.setattr(target, "_new_writer", lambda *_args: tables)
    binding = ProtocolBinding(
        SingerReader(),
        LoadOptions(str(tmp_path), run_history=False),
        open_state_writer=lambda: nullcontext(StubStateWriter()),  # type: ignore[arg-type]
    )
    run_errors = target.TargetSpark(config={"path": str(tmp_path)}).run_load(binding, feed)
    assert sorted(map(str, run_errors)) == [
        "a is protected",
        "bug in the commit of b",
        "line 3 is no JSON",
    ]
