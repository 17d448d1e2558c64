"""One run: what leaves, when it leaves, and what no longer leaves after a failure."""

from __future__ import annotations

import sys
import threading

import pytest

from tap_core.events import Rows, SchemaEvent, StreamId
from tap_core.protocols.singer.writer import SingerWriter
from tap_core.state.checkpoint_policy import CheckpointPolicy
from tap_core.state.document import StateDocument
from tap_core.sync.sync_run import CHUNK_ROWS, SyncRun
from tests.sync.syncing import NOW, Output, failed, hooked, make, stream, sync

LONG = 60
"""Seconds after which a thread that should have been woken is given up."""

SORTED = {"replication_key": "id", "is_sorted": True}


class Source:
    """Whose rows a chunk holds."""

    def __init__(self, name: str, version: int | None = None) -> None:
        self.stream = StreamId(name)
        self.version = lambda: version

    def parts(self, rows):
        return [(self.stream, rows)]


class Door:
    """Takes events, until it is told to fail."""

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
def recorder() -> Door:
    return Door()


def run_to(recorder: Door) -> SyncRun:
    return SyncRun(
        recorder, StateDocument({"bookmarks": {}}), CheckpointPolicy(), clock=lambda: NOW
    )


@pytest.fixture
def run(recorder) -> SyncRun:
    return run_to(recorder)


def collect(run: SyncRun, *bodies: bytes) -> None:
    for body in bodies:
        if not run.bodies:
            run.begin()
        run.bodies.append(body)


def test_a_chunk_is_of_one_stream(run, recorder):
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


def test_the_first_chunk_of_a_stream_has_one_row(run):
    a, b = Source("a"), Source("b")
    run.open(a)
    assert run.limit == 1
    collect(run, b"1")
    run.flush()
    assert run.limit == CHUNK_ROWS
    run.open(b)
    assert run.limit == 1
    run.open(a)
    assert run.limit == CHUNK_ROWS


def test_an_event_goes_behind_the_rows(run, recorder):
    run.open(Source("a"))
    collect(run, b"1")
    run.emit(SchemaEvent(StreamId("b"), {}))
    assert [type(event) for event in recorder.events] == [Rows, SchemaEvent]


def test_a_schema_goes_out_when_it_changes(run, recorder):
    first, second = SchemaEvent(StreamId("a"), {"x": 1}), SchemaEvent(StreamId("a"), {"x": 2})
    for event in (first, first, second, second, first):
        run.describe(event)
    assert recorder.events == [first, second, first]


@pytest.mark.parametrize("kind", [Rows, SchemaEvent])
def test_nothing_follows_a_write_that_failed(run, recorder, kind):
    """Above all no state: it would cover rows that are lost."""
    recorder.fails_at = kind
    run.open(Source("a"))
    collect(run, b"1")
    with pytest.raises(BrokenPipeError):
        run.emit(SchemaEvent(StreamId("b"), {}))
    assert run.is_broken
    before = list(recorder.events)
    collect(run, b"2")
    for write in (run.flush, run.settle, lambda: run.checkpoint(owed=True)):
        with pytest.raises(BrokenPipeError):
            write()
    assert recorder.events == before


def test_a_failure_of_the_timer_is_raised_by_the_next_write(run, recorder):
    recorder.fails_at = Rows
    run.open(Source("a"))
    with run.timer():
        collect(run, b"1")
        run._opened -= LONG  # as if it had waited that long
        deadline = threading.Event()
        while not run.is_broken and not deadline.wait(0.01):
            pass
        with pytest.raises(BrokenPipeError):
            run.flush()
        with pytest.raises(BrokenPipeError):
            run.checkpoint(owed=True)
    assert recorder.events == []


def test_a_stop_waits_for_what_is_half_done(recorder):
    stopped = []

    class Stop(Exception):  # noqa: N818
        pass

    def leave():
        stopped.append(list(recorder.events))
        raise Stop

    class Slow(Door):
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


def test_a_stop_between_taking_rows_and_sending_them_loses_none(run, recorder):
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


def test_who_asks_twice_to_stop_is_heard():
    class Stuck(Door):
        def emit(self, event):
            run.stop(lambda: None)
            run.stop(lambda: None)

    run = run_to(Stuck())
    run.open(Source("a"))
    collect(run, b"1")
    with pytest.raises(SystemExit) as left:
        run.flush()
    assert left.value.code == 1
    assert run.is_broken


# Through a tap


class Awaited(Output):
    """An output that says when something has left."""

    def __init__(self, text: bytes) -> None:
        super().__init__()
        self._awaited = text
        self.seen = threading.Event()

    def append(self, data):
        super().append(data)
        if self._awaited in self.text:
            self.seen.set()


@pytest.mark.parametrize("on_path", [lambda kind: kind, hooked])
def test_the_first_row_of_a_stream_leaves_at_once(on_path):
    """Before the second is pulled: nothing has to become old first."""
    output, seen = Output(), []

    def rows(self, context):
        for number in range(3):
            yield {"id": number}
            seen.append(len(output.records("a")))

    make(on_path(stream("a", rows)), output=output).sync_all()
    assert seen[0] == 1
    assert seen[1:] == [1, 1], "the ones after it are collected"


@pytest.mark.parametrize("on_path", [lambda kind: kind, hooked])
def test_a_row_leaves_while_its_source_is_silent(on_path):
    output = Awaited(b'"id":2}')
    waited = []

    def rows(self, context):
        yield {"id": 1}
        yield {"id": 2}
        waited.append(output.seen.wait(LONG))
        yield {"id": 3}

    make(on_path(stream("a", rows)), output=output).sync_all()
    assert waited == [True]
    assert [record["id"] for record in output.records("a")] == [1, 2, 3]


def test_rows_that_the_timer_sends_are_covered_by_the_states_after_them():
    output = Awaited(b'"id":2}')

    def rows(self, context):
        yield {"id": 1}
        yield {"id": 2}
        output.seen.wait(LONG)
        self._write_state_message()
        yield {"id": 3}

    make(stream("a", rows, **SORTED), output=output).sync_all()
    values = [state["bookmarks"]["a"].get("replication_key_value") for state in output.states]
    assert values == [2, 3]


def test_a_chunk_closes_by_bytes():
    """Else the memory of a tap would depend on the size of its records."""
    big = "x" * 50_000
    output = sync(stream("a", [{"at": big} for _ in range(9)]))
    assert max(map(len, output)) < 150_000
    assert len(output.records("a")) == 9


def test_the_output_that_breaks_ends_the_sync(caplog):
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

    tap.outlet = SingerWriter(write)
    with pytest.raises(BrokenPipeError):
        tap.sync_all()
    assert len(pulled) < 4 * CHUNK_ROWS
    assert len(output) == 3
    assert output.states == []
    assert "could not be written" not in caplog.text, "there is no point in a last state"


def test_an_authors_own_broken_pipe_is_an_error_like_any_other():
    def rows(self, context):
        yield {"id": 1}
        raise BrokenPipeError("the source hung up")

    output, error = failed(BrokenPipeError, stream("a", rows, **SORTED))
    assert str(error) == "the source hung up"
    assert output.states[-1]["bookmarks"]["a"]["replication_key_value"] == 1
    assert output.states[-1]["currently_syncing"] == "a"


@pytest.fixture
def hasty(monkeypatch):
    """A timer that sends whatever waits, at every turn it gets."""
    monkeypatch.setattr("tap_core.sync.sync_run.MAX_CHUNK_AGE_SECONDS", 0)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("on_path", [lambda kind: kind, hooked])
def test_the_timer_takes_no_row_from_its_stream(hasty, on_path):
    """Streams take turns while the timer sends: each row leaves once, in order, as its own."""
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


def test_no_other_stream_gets_in_while_rows_are_sent(run, recorder):
    """The timer has taken the rows of one stream; the sync must not turn to the next yet."""
    other, turned = Source("b"), threading.Event()

    class Interrupting(CheckpointPolicy):
        def rows(self, nbytes):
            thread = threading.Thread(target=lambda: (run.open(other), turned.set()), daemon=True)
            thread.start()
            turned.wait(0.1)

    run.outbox.cadence = Interrupting()
    run.open(Source("a"))
    collect(run, b"1")
    run.flush()
    assert turned.wait(LONG)
    assert [event.stream.name for event in recorder.events] == ["a"]
