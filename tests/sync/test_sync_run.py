"""SyncRun: chunks, the time of their output, and no output after a failure."""

from __future__ import annotations

import sys
import threading

import pytest

from tap_core.events import Checkpoint, Rows, SchemaEvent, StreamId
from tap_core.protocols.singer.writer import SingerWriter
from tap_core.state.checkpoint_policy import CheckpointPolicy
from tap_core.state.document import StateDocument
from tap_core.sync.sync_run import CHUNK_ROWS, SyncRun
from tap_core.sync.thread_stop_signal import StopSignal, WorkerStopped
from tests.sync.syncing import NOW, Output, make, stream, sync, sync_until_error, with_hook

LONG = 60
"""The timeout in seconds for threads and events."""

SORTED = {"replication_key": "id", "is_sorted": True}


class Source:
    """The source of the rows of a chunk: a stream and its version."""

    def __init__(self, name: str, version: int | None = None) -> None:
        self.stream = StreamId(name)
        self.version = lambda: version

    def parts(self, rows):
        return [(self.stream, rows)]


class RecordingWriter:
    """Records events; raises an error at the event type ``fails_at``."""

    def __init__(self) -> None:
        self.events = []
        self.fails_at = None

    def encode(self, record):
        return repr(record).encode()

    def emit(self, event):
        if self.fails_at is not None and isinstance(event, self.fails_at):
            self.fails_at = None
            raise BrokenPipeError("the reader is gone")
        self.events.append(event)


@pytest.fixture
def recorder() -> RecordingWriter:
    return RecordingWriter()


def run_to(recorder: RecordingWriter) -> SyncRun:
    return SyncRun(
        recorder, StateDocument({"bookmarks": {}}), CheckpointPolicy(), clock=lambda: NOW
    )


@pytest.fixture
def run(recorder) -> SyncRun:
    return run_to(recorder)


def collect(run: SyncRun, *bodies: bytes) -> None:
    for body in bodies:
        if not run.bodies:
            run.begin_chunk()
        run.bodies.append(body)


def test_chunk_contains_rows_of_one_stream(run, recorder):
    a, b = Source("a"), Source("b", 7)
    run.open(a)
    collect(run, b"1", b"2")
    assert run.open(b) is a
    collect(run, b"3")
    run.open(a)
    assert recorder.events == [
        Rows(a.stream, [b"1", b"2"], extracted_at=NOW),
        Rows(b.stream, [b"3"], extracted_at=NOW, version=7),
    ]


def test_first_chunk_of_a_stream_has_one_row(run):
    a, b = Source("a"), Source("b")
    run.open(a)
    assert run.row_limit == 1
    collect(run, b"1")
    run.flush()
    assert run.row_limit == CHUNK_ROWS
    run.open(b)
    assert run.row_limit == 1
    run.open(a)
    assert run.row_limit == CHUNK_ROWS


def test_event_is_emitted_after_the_collected_rows(run, recorder):
    run.open(Source("a"))
    collect(run, b"1")
    run.emit(SchemaEvent(StreamId("b"), {}))
    assert [type(event) for event in recorder.events] == [Rows, SchemaEvent]


def test_schema_event_is_emitted_only_if_it_changed(run, recorder):
    first, second = SchemaEvent(StreamId("a"), {"x": 1}), SchemaEvent(StreamId("a"), {"x": 2})
    for event in (first, first, second, second, first):
        run.write_schema(event)
    assert recorder.events == [first, second, first]


@pytest.mark.parametrize("kind", [Rows, SchemaEvent])
def test_nothing_is_written_after_a_failed_write(run, recorder, kind):
    """In particular no state, which would cover lost rows."""
    recorder.fails_at = kind
    run.open(Source("a"))
    collect(run, b"1")
    with pytest.raises(BrokenPipeError):
        run.emit(SchemaEvent(StreamId("b"), {}))
    assert run.is_broken
    before = list(recorder.events)
    collect(run, b"2")
    for write in (run.flush, run.settle, lambda: run.checkpoint(required=True)):
        with pytest.raises(BrokenPipeError):
            write()
    assert recorder.events == before


def test_rows_of_a_worker_that_may_not_write_them_are_written_before_the_next_state(run, recorder):
    """A worker stores its bookmark, but may write nothing if its pool no longer waits for it."""
    signal = StopSignal()
    worker = run.branch(signal, may_create_pools=False)
    with worker.entered():
        worker.open(Source("a"))
        collect(worker, b"1")
        signal.is_abandoned = True
        run.document.change("a")["replication_key_value"] = 1
        with pytest.raises(WorkerStopped):
            worker.flush()
    run.checkpoint(required=True)
    assert [type(event) for event in recorder.events] == [Rows, Checkpoint]


def test_error_in_the_timer_thread_is_raised_by_the_next_write(run, recorder):
    recorder.fails_at = Rows
    run.open(Source("a"))
    with run.timer():
        collect(run, b"1")
        run._chunk_began -= LONG  # as if it had waited that long
        deadline = threading.Event()
        while not run.is_broken and not deadline.wait(0.01):
            pass
        with pytest.raises(BrokenPipeError):
            run.flush()
        with pytest.raises(BrokenPipeError):
            run.checkpoint(required=True)
    assert recorder.events == []


def test_stop_waits_for_the_write_in_progress(recorder):
    stopped = []

    class Stop(Exception):  # noqa: N818
        pass

    def leave():
        stopped.append(list(recorder.events))
        raise Stop

    class Slow(RecordingWriter):
        def emit(self, event):
            run.stop(leave)
            super().emit(event)

    slow = Slow()
    run = run_to(slow)
    run.open(Source("a"))
    collect(run, b"1")
    with pytest.raises(Stop):
        run.flush()
    assert [event.rows for event in slow.events] == [[b"1"]]
    assert run.bodies == []


def test_stop_during_a_flush_loses_no_row(run, recorder):
    class Stop(Exception):  # noqa: N818
        pass

    def leave():
        raise Stop

    def stopping_version():
        run.stop(leave)

    source = Source("a")
    source.version = stopping_version  # asked after the rows were taken from the chunk
    run.open(source)
    collect(run, b"1", b"2")
    with pytest.raises(Stop):
        run.flush()
    assert [event.rows for event in recorder.events] == [[b"1", b"2"]]


def test_second_stop_exits_immediately():
    class Stuck(RecordingWriter):
        def emit(self, event):
            run.stop(lambda: None)
            run.stop(lambda: None)

    run = run_to(Stuck())
    run.open(Source("a"))
    collect(run, b"1")
    with pytest.raises(SystemExit) as caught:
        run.flush()
    assert caught.value.code == 1
    assert run.is_broken


# Through a tap


class Awaited(Output):
    """An output that sets an event when it contains ``text``."""

    def __init__(self, text: bytes) -> None:
        super().__init__()
        self._awaited = text
        self.has_text = threading.Event()

    def append(self, data):
        super().append(data)
        if self._awaited in self.text:
            self.has_text.set()


@pytest.mark.parametrize("on_path", [lambda kind: kind, with_hook])
def test_first_row_of_a_stream_is_written_immediately(on_path):
    """The first row is written before the second one is read from the source."""
    output, counts = Output(), []

    def rows(self, context):
        for number in range(3):
            yield {"id": number}
            counts.append(len(output.records("a")))

    make(on_path(stream("a", rows)), output=output).sync_all()
    assert counts[0] == 1
    assert counts[1:] == [1, 1], "the ones after it are collected"


@pytest.mark.parametrize("on_path", [lambda kind: kind, with_hook])
def test_row_is_written_while_its_source_waits(on_path):
    output = Awaited(b'"id":2}')
    waited = []

    def rows(self, context):
        yield {"id": 1}
        yield {"id": 2}
        waited.append(output.has_text.wait(LONG))
        yield {"id": 3}

    make(on_path(stream("a", rows)), output=output).sync_all()
    assert waited == [True]
    assert [record["id"] for record in output.records("a")] == [1, 2, 3]


def test_rows_written_by_the_timer_are_covered_by_later_states():
    output = Awaited(b'"id":2}')

    def rows(self, context):
        yield {"id": 1}
        yield {"id": 2}
        output.has_text.wait(LONG)
        self._write_state_message()
        yield {"id": 3}

    make(stream("a", rows, **SORTED), output=output).sync_all()
    values = [state["bookmarks"]["a"].get("replication_key_value") for state in output.states]
    assert values == [2, 3]


def test_chunk_is_closed_by_its_size_in_bytes():
    """With a limit on rows only, the memory of a tap would grow with the size of its records."""
    big = "x" * 50_000
    output = sync(stream("a", [{"at": big} for _ in range(9)]))
    assert max(map(len, output)) < 150_000
    assert len(output.records("a")) == 9


def test_broken_output_ends_the_sync(caplog):
    pulled = []

    def rows(self, context):
        for number in range(10 * CHUNK_ROWS):
            pulled.append(number)
            yield {"id": number}

    output = Output()
    tap = make(stream("a", rows, **SORTED), output=output)

    def write(data):
        if len(output) == 3:
            raise BrokenPipeError
        output.append(data)

    tap.protocol_writer = SingerWriter(write)
    with pytest.raises(BrokenPipeError):
        tap.sync_all()
    assert len(pulled) < 4 * CHUNK_ROWS
    assert len(output) == 3
    assert output.states == []
    assert "could not be written" not in caplog.text, "there is no point in a last state"


def test_broken_pipe_error_of_the_author_is_an_ordinary_error():
    def rows(self, context):
        yield {"id": 1}
        raise BrokenPipeError("the source hung up")

    output, error = sync_until_error(BrokenPipeError, stream("a", rows, **SORTED))
    assert str(error) == "the source hung up"
    assert output.states[-1]["bookmarks"]["a"]["replication_key_value"] == 1
    assert output.states[-1]["currently_syncing"] == "a"


@pytest.fixture
def eager_timer(monkeypatch):
    """Let the timer write all collected rows whenever it runs."""
    monkeypatch.setattr("tap_core.sync.sync_run.MAX_CHUNK_AGE_SECONDS", 0)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("on_path", [lambda kind: kind, with_hook])
def test_timer_keeps_rows_with_their_stream_and_in_order(eager_timer, on_path):
    """Several streams write while the timer runs: each row is written once and in order."""
    names = "abcd"

    def post_process(self, row, context=None):
        other = names[row["n"] % len(names)]
        self._tap.streams[other]._write_record_message({"id": row["id"], "at": other})
        if row["id"] % 50 == 0:
            self._write_state_message()
        return row

    rows = [{"id": n, "n": n % 7, "at": "a"} for n in range(3_000)]
    first = on_path(stream("a", rows, **SORTED, post_process=post_process))
    output = sync(first, *(on_path(stream(name, [])) for name in names[1:]))
    for name in names:
        records = output.records(name)
        assert {record["at"] for record in records} == {name}
        numbers = [record["id"] for record in records]
        assert numbers == sorted(numbers)
        expected = [n for n in range(3_000) if names[n % 7 % 4] == name]
        assert len(records) == len(expected) + (3_000 if name == "a" else 0)
    last = 0
    for message in output.messages:
        if message["type"] == "STATE":
            assert message["value"]["bookmarks"]["a"].get("replication_key_value", 0) <= last
        elif message["type"] == "RECORD" and "n" in message["record"]:
            last = message["record"]["id"]


def test_stream_cannot_change_while_rows_are_written(run, recorder):
    """While the timer writes the rows of a stream, the sync cannot open another one."""
    other, turned = Source("b"), threading.Event()

    class Interrupting(CheckpointPolicy):
        def record_rows(self, nbytes):
            thread = threading.Thread(target=lambda: (run.open(other), turned.set()), daemon=True)
            thread.start()
            turned.wait(0.1)

    run.outbox.checkpoint_policy = Interrupting()
    run.open(Source("a"))
    collect(run, b"1")
    run.flush()
    assert turned.wait(LONG)
    assert [event.stream.name for event in recorder.events] == ["a"]
