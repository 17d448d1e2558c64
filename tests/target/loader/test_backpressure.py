"""Backpressure and parallel commits: the waits of the reader, batches and states."""

from __future__ import annotations

import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tap_core.events import Checkpoint, Rows, SchemaEvent, StreamId
from tap_core.protocols.singer.reader import SingerReader
from target_spark.config import settings
from target_spark.config.options import LoadOptions
from target_spark.loader.commit_request import CommitRequest, CommitResult
from target_spark.loader.loader import Loader
from target_spark.loader.report import Report
from target_spark.storage.spool import Spool, SpoolFolder
from tests.target.loader.test_state_order import MemoryTables, StubEngine

A, B = StreamId("a"), StreamId("b")
WAIT_SECONDS = 60.0
"""Seconds after which a test gives up waiting."""


@dataclass
class BlockedTables(MemoryTables):
    """Tables in memory whose commits wait for an event."""

    may_commit: threading.Event = field(default_factory=threading.Event)
    before_commit: Callable[[CommitRequest], None] = lambda _work: None
    requests: list[CommitRequest] = field(default_factory=list)

    def write(self, request: CommitRequest) -> CommitResult:
        self.requests.append(request)
        self.before_commit(request)
        assert self.may_commit.wait(WAIT_SECONDS)
        return super().write(request)


@contextmanager
def open_loader(
    tmp_path: Path, tables: MemoryTables, states: list[bytes], **options: Any
) -> Iterator[tuple[Loader, Report]]:
    report, folder = Report(), SpoolFolder(tmp_path)
    load_options = LoadOptions(str(tmp_path), format="delta", **options)
    loader = Loader(load_options, StubEngine(), folder, lambda: tables, report, states.append)
    try:
        yield loader, report
    finally:
        if isinstance(tables, BlockedTables):
            tables.may_commit.set()
        loader.close()
        folder.close()


def make_schema_events(*streams: StreamId) -> list[SchemaEvent]:
    return [SchemaEvent(stream, {"properties": {"id": {}}}) for stream in streams]


def make_rows(stream: StreamId, nbytes: int = 10) -> Rows:
    return Rows(stream, [b'{"x":"%s"}' % (b"x" * nbytes)])


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_reader_waits_only_at_the_spool_limit_and_the_wait_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables, wait_started = BlockedTables(), threading.Event()
    with open_loader(tmp_path, tables, [], flush_rows=1, spool_bytes=20_000) as (loader, report):
        for event in [*make_schema_events(A), *(make_rows(A, 1_000) for _ in range(15))]:
            loader.process_event(event)  # far more than one batch, and no commit has ended
        assert report.as_dict()["held_back_seconds"] == 0
        wait_for_space = loader._pipeline.wait_for_space
        monkeypatch.setattr(
            loader._pipeline,
            "wait_for_space",
            lambda *arguments: (wait_started.set(), wait_for_space(*arguments)),
        )
        reader = threading.Thread(target=lambda: loader.process_event(make_rows(A, 10_000)))
        reader.start()
        assert wait_started.wait(WAIT_SECONDS)
        time.sleep(0.1)
        assert reader.is_alive()
        tables.may_commit.set()
        reader.join(WAIT_SECONDS)
        assert not reader.is_alive()
        assert report.as_dict()["held_back_seconds"] >= 0.05
        loader.finish(whole=True)
    assert len(tables.safe()) == 16


def test_old_batches_are_committed_while_the_reader_waits_for_space(tmp_path: Path) -> None:
    tables = BlockedTables()
    options = {"flush_rows": 2, "spool_bytes": 5_000, "flush_seconds": 0.2}
    with open_loader(tmp_path, tables, [], **options) as (loader, _):
        for event in [*make_schema_events(A, B), make_rows(B), make_rows(A, 100)]:
            loader.process_event(event)
        reader = threading.Thread(target=lambda: loader.process_event(make_rows(A, 10_000)))
        reader.start()
        wait_until(lambda: {request.stream for request in tables.requests} == {A, B})
        assert reader.is_alive()
        tables.may_commit.set()
        reader.join(WAIT_SECONDS)


def test_old_batches_are_committed_while_the_tap_sends_nothing(tmp_path: Path) -> None:
    streams = [StreamId(f"s{number}") for number in range(200)]
    tables, states = MemoryTables(), []  # type: ignore[var-annotated]
    with open_loader(tmp_path, tables, states, flush_seconds=3_600) as (loader, _):
        for event in (
            *make_schema_events(*streams),
            *map(make_rows, streams),
            Checkpoint(b'{"n":1}'),
        ):
            loader.process_event(event)
        loader.poll()
        assert tables.rows == {}
        for loaded in loader._streams.values():
            loaded.spool.oldest -= 3_600  # as if the tap had sent nothing for an hour

        def all_are_safe() -> bool:
            loader.poll()
            return len(tables.safe()) == len(streams)

        wait_until(all_are_safe)
        wait_until(lambda: states == [b'{"n":1}'])


def test_state_is_emitted_with_the_commit_that_covers_it(tmp_path: Path) -> None:
    """No further input and no timer is needed."""
    tables, states = BlockedTables(), []  # type: ignore[var-annotated]
    with open_loader(tmp_path, tables, states, flush_rows=1) as (loader, _):
        for event in (*make_schema_events(A), make_rows(A), Checkpoint(b'{"n":1}')):
            loader.process_event(event)
        assert states == []
        tables.may_commit.set()
        wait_until(lambda: states == [b'{"n":1}'])


def test_states_do_not_split_batches(tmp_path: Path) -> None:
    tables, states = MemoryTables(), []  # type: ignore[var-annotated]
    with open_loader(tmp_path, tables, states) as (loader, report):
        for event in make_schema_events(A, B):
            loader.process_event(event)
        for number in range(100):
            for event in (make_rows(A), make_rows(B), Checkpoint(b'{"n":%d}' % number)):
                loader.process_event(event)
            loader.poll()
        assert states == []
        loader.finish(whole=True)
    commits = [stream["commits"] for stream in report.as_dict()["streams"].values()]
    assert (commits, states) == ([1, 1], [b'{"n":99}'])


@pytest.mark.parametrize("limit", [1, 3])
def test_max_parallel_commits_limits_concurrent_commits(tmp_path: Path, limit: int) -> None:
    config = {"path": "x", "max_parallel_commits": limit}
    writers = settings.load_options(config).writers
    assert settings.load_options({"path": "x"}).writers == LoadOptions("x").writers
    tables, streams = BlockedTables(), [StreamId(f"s{number}") for number in range(8)]
    with open_loader(tmp_path, tables, [], flush_rows=1, writers=writers) as (loader, _):
        for event in (*make_schema_events(*streams), *map(make_rows, streams)):
            loader.process_event(event)
        wait_until(lambda: len(tables.requests) == limit)
        time.sleep(0.05)
        assert len(tables.requests) == limit
        tables.may_commit.set()
        loader.finish(whole=True)
    assert len(tables.safe()) == len(streams)


def test_repeated_or_extended_schema_does_not_end_the_batch(tmp_path: Path) -> None:
    tables = MemoryTables()
    properties = {f"x{number}": {"type": "string"} for number in range(2_000)}
    with open_loader(tmp_path, tables, []) as (loader, report):
        loader.process_event(SchemaEvent(A, {"properties": properties}))
        loader.process_event(make_rows(A))
        loader.process_event(SchemaEvent(A, {"properties": dict(reversed(properties.items()))}))
        loader.process_event(SchemaEvent(A, {"properties": {**properties, "y": {}}}, cursor="y"))
        loader.process_event(make_rows(A))
        loader.finish(whole=True)
    assert report.as_dict()["streams"]["a"]["commits"] == 1


def test_schema_of_a_catalog_with_a_fraction_is_loaded(tmp_path: Path) -> None:
    """`target-spark run` passes the schemas of a catalog, whose fractions are decimals."""
    price = {"type": "number", "multipleOf": Decimal("0.01")}
    with open_loader(tmp_path, MemoryTables(), []) as (loader, report):
        loader.process_event(SchemaEvent(A, {"properties": {"id": {}, "price": price}}))
        loader.process_event(make_rows(A))
        loader.finish(whole=True)
    assert report.as_dict()["streams"]["a"]["written"] == 1


@pytest.mark.thorough
def test_schemas_of_wide_streams_use_little_memory(tmp_path: Path) -> None:
    property_schemas = [{"type": ["null", "string"]}, {"type": ["null", "integer"]}]
    with open_loader(tmp_path, MemoryTables(), []) as (loader, _):
        tracemalloc.start()
        for number in range(5):
            properties = {
                f"column_{number}_{c}": dict(property_schemas[c % 2]) for c in range(2_000)
            }
            loader.process_event(SchemaEvent(StreamId(f"s{number}"), {"properties": properties}))
        del properties
        nbytes, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert nbytes / 10_000 < 300  # bytes per column of a layout


def test_long_record_is_copied_at_most_twice_before_the_disk(tmp_path: Path) -> None:
    """Once from the input blocks into a line, once from the line into a record."""
    size = 15 << 20
    line = b'{"type":"RECORD","stream":"a","record":{"x":"%s"}}\n' % (b"x" * size)
    folder = SpoolFolder(tmp_path)
    spool, decoder, count = Spool(folder, A), SingerReader(), 0
    tracemalloc.start()
    for start in range(0, len(line), 1 << 20):
        for event in decoder.feed(line[start : start + (1 << 20)]):
            assert isinstance(event, Rows)
            spool.add(event, count)
            del event
            count += 1
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 1
    batch = spool.close_batch()
    (path,) = batch.paths
    assert Path(path).read_bytes() == b'{"n":0,"t":null,"v":null,"r":{"x":"%s"}}\n' % (b"x" * size)
    assert batch.nbytes == Path(path).stat().st_size
    assert peak < 2.3 * size
    folder.close()
