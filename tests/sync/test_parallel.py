"""Partitions, children and streams in parallel threads: output, shared state, limits, errors."""

from __future__ import annotations

import json
import logging
import threading
import time
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tap_core.authenticators import APIKeyAuthenticator, OAuthAuthenticator
from tap_core.exceptions import (
    ConfigurationError,
    ConfigValidationError,
    InvalidStreamSortException,
)
from tap_core.parsing.datetimes import utc_now
from tap_core.state.checkpoint_policy import CheckpointPolicy
from tap_core.streams.rest import RESTStream
from tap_core.sync.sync_run import SyncRun
from tests.server_thread import serve_in_thread
from tests.sync.syncing import (
    INTEGER,
    STRING,
    FixedClockTap,
    Output,
    make,
    schema,
    stream,
    sync,
    sync_until_error,
    with_hook,
)

LONG = 60
PARTED = {"replication_key": "id", "schema": schema(id=INTEGER, p=INTEGER, at=STRING)}
both_paths = pytest.mark.parametrize(
    "on_path", [lambda kind: kind, with_hook], ids=["compiled", "hooked"]
)


def contexts(count):
    return [{"p": number} for number in range(count)]


def wait_for_all(count):
    """Return a source whose partitions continue only when ``count`` of them are being read."""
    barrier = threading.Barrier(count)

    def get_records(self, context):
        barrier.wait(LONG)
        yield {"id": context["p"]}

    return get_records


def record_peak_threads(at_once=1, **members):
    """Return a stream, and a list with the largest number of threads that read it at once.

    A context continues when ``at_once`` threads have been seen.
    """
    turn, now, peak = threading.Condition(), set(), [0]

    def get_records(self, context):
        with turn:
            now.add(threading.get_ident())
            peak[0] = max(peak[0], len(now))
            turn.notify_all()
            turn.wait_for(lambda: peak[0] >= at_once, LONG)
        time.sleep(0.02)
        yield {"id": context["p"]}
        with turn:
            now.discard(threading.get_ident())

    return stream("a", get_records, **{**PARTED, "partitions": contexts(6), **members}), peak


# Output


@both_paths
def test_partitions_are_synced_in_parallel(on_path):
    kind = on_path(
        stream("a", wait_for_all(4), partitions=contexts(4), max_parallel_partitions=4, **PARTED)
    )
    output = sync(kind)
    assert sorted(record["id"] for record in output.records("a")) == [0, 1, 2, 3]
    assert not [thread for thread in threading.enumerate() if "worker" in thread.name]


@both_paths
@pytest.mark.parametrize("method", ["FULL_TABLE", "INCREMENTAL"])
def test_schema_and_version_messages_come_once_and_first(on_path, method):
    members = {**PARTED, "replication_key": "id" if method == "INCREMENTAL" else None}
    rows = [{"id": number} for number in range(50)]
    kind = stream("a", rows, partitions=contexts(8), max_parallel_partitions=4, **members)
    output = sync(on_path(kind), config={"emit_activate_version_messages": True})
    kinds = [message["type"] for message in output.messages if message["type"] != "STATE"]
    versions = ["ACTIVATE_VERSION"] if method == "FULL_TABLE" else []
    assert kinds == ["SCHEMA", *versions, *["RECORD"] * 400, *versions]
    if versions:
        assert len({message["version"] for message in output.select("RECORD")}) == 1


def test_children_are_synced_while_their_parent_continues():
    parents_done, waited = threading.Event(), []

    def parents(self, context):
        for number in range(3):
            yield {"id": number}
        parents_done.set()

    def children(self, context):
        waited.append(parents_done.wait(LONG))
        yield {"id": context["of"]}

    parent = stream(
        "p", parents, get_child_context=lambda self, record, context: {"of": record["id"]}
    )
    child = stream(
        "c",
        children,
        parent_stream_type=parent,
        max_parallel_partitions=3,
        schema=schema(id=INTEGER),
    )
    output = sync(parent, child)
    assert waited == [True] * 3
    assert len(output.records("c")) == 3
    assert len(output.select("SCHEMA", "c")) == 1


def test_parent_waits_if_too_many_children_are_pending():
    started, free, ahead = [], threading.Event(), []

    def parents(self, context):
        for number in range(40):
            started.append(number)
            yield {"id": number}

    def children(self, context):
        if context["of"] == 0:
            time.sleep(0.3)
            ahead.append(len(started))
            free.set()
        free.wait(LONG)
        yield {"id": 1}

    parent = stream(
        "p", parents, get_child_context=lambda self, record, context: {"of": record["id"]}
    )
    child = stream("c", children, parent_stream_type=parent, max_parallel_partitions=2)
    sync(parent, child)
    assert ahead[0] < 10


@both_paths
def test_grandchildren_are_synced_in_the_thread_of_their_parent(on_path):
    def below(self, record, context):
        return {**(context or {}), self.name: record["id"]}

    rows = [{"id": number} for number in range(5)]
    members = {"max_parallel_partitions": 3, "schema": schema(id=INTEGER)}

    def kinds(threads):
        options = {**members, "max_parallel_partitions": threads}
        first = on_path(stream("x", rows, get_child_context=below, **options))
        second = stream("y", rows, parent_stream_type=first, get_child_context=below, **options)
        third = stream("z", rows, parent_stream_type=second, replication_key="id", **options)
        return first, second, third

    sequential, parallel = sync(*kinds(1)), sync(*kinds(3))
    assert len(parallel.records("z")) == 125
    for name in "xyz":
        rows_by_output = [
            sorted(map(str, output.records(name))) for output in (sequential, parallel)
        ]
        assert rows_by_output[0] == rows_by_output[1]
    parts = [
        sorted(output.states[-1]["bookmarks"]["z"]["partitions"], key=str)
        for output in (sequential, parallel)
    ]
    assert parts[0] == parts[1]


def test_rows_of_all_threads_are_written_while_their_sources_wait():
    class Awaited(Output):
        def __init__(self):
            super().__init__()
            self.all_seen = threading.Event()

        def append(self, data):
            super().append(data)
            if len(self.records("a")) == 8:
                self.all_seen.set()

    output, waited = Awaited(), []

    def get_records(self, context):
        yield {"id": 1}
        yield {"id": 2}
        waited.append(output.all_seen.wait(LONG))

    make(
        stream("a", get_records, partitions=contexts(4), max_parallel_partitions=4, **PARTED),
        output=output,
    ).sync_all()
    assert waited == [True] * 4


def test_lines_are_complete_and_counted_under_load(caplog):
    caplog.set_level(logging.INFO)
    rows = [{"id": number, "at": "x" * (number % 100)} for number in range(3_000)]
    kind = stream(
        "a",
        rows,
        partitions=contexts(8),
        max_parallel_partitions=8,
        STATE_MSG_FREQUENCY=500,
        **PARTED,
    )
    output = sync(kind)
    assert len(output.records("a")) == 24_000
    assert all(part.endswith(b"\n") for part in output)
    assert len(output.states) >= 24_000 // 500 // 2
    counted = [
        json.loads(record.getMessage().split("METRIC: ")[1])
        for record in caplog.records
        if "record_count" in record.getMessage()
    ]
    assert sum(point["value"] for point in counted) == 24_000


@both_paths
def test_state_frequency_counts_the_records_of_all_threads(on_path):
    """No partition has as many records as the frequency. Threads may write one state together."""
    rows = [{"id": number} for number in range(9)]
    kind = stream(
        "a",
        rows,
        partitions=contexts(10),
        max_parallel_partitions=4,
        STATE_MSG_FREQUENCY=10,
        **PARTED,
    )
    tap = make(on_path(kind), output=(output := Output()))
    sparing = CheckpointPolicy(0.0, allowance=0, clock=lambda: 0.0)
    tap._begin_run = lambda: SyncRun(tap.protocol_writer, tap.document, sparing)
    tap.sync_all()
    assert len(output.states) > 3


# Authors' code in threads


@both_paths
def test_author_sees_the_state_of_the_current_partition(on_path):
    bookmarks = {}

    def get_records(self, context):
        start = self.get_starting_replication_key_value(context)
        for number in range(1, 4):
            yield {"id": 10 * context["p"] + number}
            partition_state = self.get_context_state(context)
            assert partition_state["context"] == context
            bookmarks[context["p"]] = (start, partition_state["replication_key_value"])
            assert partition_state in self.stream_state["partitions"]
            assert self.tap_state["bookmarks"]["a"] is self.stream_state

    order = [2, 0, 1, 3, 4, 5]
    members = {**PARTED, "partitions": [{"p": partition} for partition in order], "is_sorted": True}
    kind = stream("a", get_records, max_parallel_partitions=3, **members)
    known = {"context": {"p": 2}, "replication_key": "id", "replication_key_value": 20}
    state = {"bookmarks": {"a": {"partitions": [known]}}}
    final = sync(on_path(kind), state=state).states[-1]["bookmarks"]["a"]["partitions"]
    assert bookmarks == {p: (20 if p == 2 else None, 10 * p + 3) for p in range(6)}
    assert [entry["context"]["p"] for entry in final] == order


def test_attributes_set_in_a_thread_are_local_to_it():
    def get_records(self, context):
        self.partition = context["p"]
        for number in range(5):
            time.sleep(0.001)
            assert self.partition == context["p"]
            yield {"id": number}

    def cost(self, record, context=None):
        self._sync_costs["calls"] = self._sync_costs.get("calls", 0) + 1
        return record

    kind = stream(
        "a",
        get_records,
        partitions=contexts(8),
        max_parallel_partitions=4,
        post_process=cost,
        **PARTED,
    )
    tap = make(kind)
    tap.sync_all()
    assert not hasattr(tap.streams["a"], "partition")
    assert tap.streams["a"]._sync_costs == {"calls": 40}


def test_author_may_write_and_sync_another_stream_in_a_thread():
    def get_records(self, context):
        yield {"id": 1}
        self._write_state_message()
        other = self._tap.streams["b"]
        other._write_record_message({"id": 100 + context["p"]})
        other.sync({"q": context["p"]})
        assert other.context is None, "a worker has its own copy"
        yield {"id": 2}

    def others(self, context):
        if context:
            is_main_thread = threading.current_thread() is threading.main_thread()
            assert is_main_thread or dict(self.context) == dict(context)
            yield {"id": context["q"]}

    first = stream("a", get_records, partitions=contexts(6), max_parallel_partitions=3, **PARTED)
    second = stream("b", others, schema=schema(id=INTEGER, q=INTEGER))
    output = sync(first, second)
    assert len(output.records("a")) == 12
    ids = {record["id"] for record in output.records("b")}
    assert ids == {*range(6), *range(100, 106)}


def test_equal_contexts_are_synced_sequentially():
    now, starts = set(), []

    def get_records(self, context):
        assert context["p"] not in now
        now.add(context["p"])
        starts.append(self.get_starting_replication_key_value(context))
        time.sleep(0.01)
        yield {"id": 5}
        now.discard(context["p"])

    kind = stream(
        "a",
        get_records,
        partitions=[{"p": 1}] * 4,
        max_parallel_partitions=4,
        is_sorted=True,
        **PARTED,
    )
    assert len(sync(kind).records("a")) == 4
    assert starts == [None, 5, 5, 5]


def test_syncs_without_a_context_are_sequential():
    now, starts = set(), []

    def get_records(self, context):
        assert not now
        now.add("c")
        starts.append(self.get_starting_replication_key_value(context))
        time.sleep(0.01)
        yield {"id": 5}
        now.discard("c")

    parent = stream(
        "p",
        [{"id": number} for number in range(4)],
        get_child_context=lambda self, record, context: {},
    )
    child = stream(
        "c",
        get_records,
        parent_stream_type=parent,
        replication_key="id",
        is_sorted=True,
        max_parallel_partitions=4,
    )
    assert len(sync(parent, child).records("c")) == 4
    assert starts == [None, 5, 5, 5]


# Errors


@both_paths
def test_first_error_ends_the_sync_and_names_the_partition(on_path, caplog):
    started, closed, all_started = [], [], threading.Barrier(3)

    def get_records(self, context):
        started.append(context["p"])
        try:
            yield {"id": 1}
            all_started.wait(LONG)
            if context["p"] == 1:
                raise KeyError("gone")
            for number in range(2, 100_000):
                time.sleep(0.001)
                yield {"id": number}
        finally:
            closed.append(context["p"])

    kind = stream("a", get_records, partitions=contexts(9), max_parallel_partitions=3, **PARTED)
    output, error = sync_until_error(KeyError, on_path(kind))
    assert error.args == ("gone",)
    assert sorted(started) == [0, 1, 2] == sorted(closed)
    assert "Stream 'a', {'p': 1}: KeyError: 'gone'" in caplog.text
    assert output.states[-1]["currently_syncing"] == "a"
    assert {record["p"] for record in output.records("a")} == {0, 1, 2}


def test_record_out_of_order_is_an_error_in_a_thread():
    def get_records(self, context):
        yield {"id": 3}
        yield {"id": 3 if context["p"] else 2}

    kind = stream(
        "a",
        get_records,
        partitions=contexts(3),
        max_parallel_partitions=3,
        is_sorted=True,
        **PARTED,
    )
    sync_until_error(InvalidStreamSortException, kind)


def test_failed_child_limits_the_bookmark_of_its_parent():
    first_ended = threading.Barrier(4)  # four threads are in other contexts than 0 and 1

    def children(self, context):
        yield {"id": 1}
        if context["of"] >= 2:
            first_ended.wait(LONG)
        if context["of"] == 2:
            raise KeyError("gone")

    parent = stream(
        "p",
        [{"id": number} for number in range(6)],
        replication_key="id",
        is_sorted=True,
        get_child_context=lambda self, record, context: {"of": record["id"]},
    )
    child = stream("c", children, parent_stream_type=parent, max_parallel_partitions=4)
    output, _ = sync_until_error(KeyError, parent, child)
    assert output.states[-1]["bookmarks"]["p"]["replication_key_value"] == 1


def test_parent_bookmark_waits_for_the_children_of_records_without_a_replication_key_value():
    others_ended = threading.Event()

    def children(self, context):
        if context["of"] == 0:
            others_ended.wait(LONG)
            raise KeyError("gone")
        if context["of"] == 3:
            others_ended.set()
        yield {"id": context["of"]}

    parent = stream(
        "p",
        [{"id": number, "n": number or None} for number in range(6)],
        replication_key="n",
        is_sorted=True,
        get_child_context=lambda self, record, context: {"of": record["id"]},
    )
    child = stream("c", children, parent_stream_type=parent, max_parallel_partitions=4)
    output, _ = sync_until_error(KeyError, parent, child)
    bookmark = output.states[-1]["bookmarks"]["p"]
    assert bookmark == {"starting_replication_value": None}


# Limits


@pytest.mark.parametrize(
    "members, config, expected",
    [
        ({}, {}, 1),
        ({"max_parallel_partitions": 3}, {}, 3),
        ({"max_parallel_partitions": 3}, {"max_parallel_partitions": 2}, 2),
        ({"max_parallel_partitions": 2}, {"max_parallel_partitions": 5}, 2),
        ({"max_parallel_partitions": 3}, {"max_parallel_partitions": 1}, 1),
        ({}, {"max_parallel_partitions": 5}, 1),
        ({"max_parallel_partitions": 3, "state_partitioning_keys": ["q"]}, {}, 3),
        (
            {
                "max_parallel_partitions": 3,
                "state_partitioning_keys": ["q"],
                "check_sorted": False,
            },
            {},
            1,
        ),
    ],
)
def test_setting_can_only_lower_the_number_of_threads_of_the_author(members, config, expected):
    kind, peak = record_peak_threads(expected, **members)
    sync(kind, config=config)
    assert peak[0] == expected


@pytest.mark.parametrize("hook", ["_sync_records", "state_manager"])
def test_hooks_over_all_contexts_disable_threads_with_a_warning(hook, caplog):
    kind, peak = record_peak_threads(max_parallel_partitions=3)
    if hook == "_sync_records":

        def override(self, context=None, *, write_messages=True):
            return super(subclass, self)._sync_records(context, write_messages=write_messages)
    else:
        override = property(lambda self: super(subclass, self).state_manager)
    subclass = type("Own", (kind,), {hook: override})
    sync(subclass)
    assert peak[0] == 1
    assert caplog.text.count("max_parallel_partitions of stream 'a' has no effect") == 1


def test_child_without_threads_keeps_its_parent_in_one_thread():
    lock = threading.Lock()

    def children(self, context):
        assert lock.acquire(blocking=False)
        time.sleep(0.005)
        yield {"id": 1}
        lock.release()

    kind, peak = record_peak_threads(
        max_parallel_partitions=3, get_child_context=lambda self, record, context: dict(context)
    )
    child = stream("c", children, parent_stream_type=kind)
    sync(kind, child)
    assert peak[0] == 1


def test_connection_test_runs_in_one_thread():
    kind, peak = record_peak_threads(max_parallel_partitions=3)
    make(kind).run_connection_test()
    assert peak[0] == 1


@pytest.mark.parametrize("value", [0, -1, "4", 2.5])
def test_invalid_thread_count_is_rejected(value):
    with pytest.raises(ConfigValidationError, match="max_parallel_partitions"):
        AllowingTap(config={"max_parallel_partitions": value})


@pytest.mark.parametrize("value", [0, True, "4"])
def test_invalid_undeclared_setting_is_rejected_in_the_sync(value):
    kind, _ = record_peak_threads(max_parallel_partitions=3)
    with pytest.raises(ConfigurationError, match="max_parallel_partitions"):
        sync(kind, config={"max_parallel_partitions": value})


@pytest.mark.parametrize("value", ["4", None, 2.5])
def test_invalid_thread_count_in_the_code_is_named_in_the_error(value):
    kind, _ = record_peak_threads(max_parallel_partitions=value)
    with pytest.raises(ConfigurationError, match=r"'max_parallel_partitions' is .* the tap's"):
        sync(kind)


def test_number_of_threads_can_be_a_property(monkeypatch):
    kind, peak = record_peak_threads(3, max_parallel_partitions=property(lambda _: 3))
    sync(kind)
    assert peak[0] == 3
    monkeypatch.setattr(Allowing, "max_parallel_partitions", property(lambda _: 3))
    assert "max_parallel_partitions" in AllowingTap._full_schema()["properties"]


class Allowing(RESTStream):
    """A stream that allows threads, so that taps of this module have the setting."""

    name = "allowing"
    url_base = "http://127.0.0.1:1"
    max_parallel_partitions = 16
    schema = schema(id=INTEGER)


class AllowingTap(FixedClockTap):
    """A tap that has the setting ``max_parallel_partitions``."""

    kinds = (Allowing,)


def test_settings_of_threads_are_listed_only_if_they_have_an_effect():
    class Both(FixedClockTap):
        max_parallel_streams = 2

    names = {"max_parallel_partitions", "max_parallel_streams"}
    assert names & set(Both._full_schema()["properties"]) == names
    assert names & set(AllowingTap._full_schema()["properties"]) == {"max_parallel_partitions"}
    elsewhere = type("Elsewhere", (FixedClockTap,), {"__module__": "tests.sync.syncing"})
    assert not names & set(elsewhere._full_schema()["properties"])


# Concurrent streams


def make_concurrent_tap(*kinds, number=3, output=None, **options):
    tap_class = type("SideTap", (FixedClockTap,), {"kinds": kinds, "max_parallel_streams": number})
    tap = tap_class(**options)
    tap.protocol_writer = type(tap.protocol_writer)((Output() if output is None else output).append)
    return tap


def test_streams_that_allow_it_run_concurrently_and_others_alone():
    barrier, running = threading.Barrier(3), set()

    def get_records(self, context):
        running.add(self.name)
        barrier.wait(LONG)
        yield {"id": 1}
        running.discard(self.name)

    def alone(self, context):
        assert not running
        yield {"id": 1}

    kinds = [
        stream(
            name,
            alone if name in "bd" else get_records,
            max_parallel_partitions=1 if name in "bd" else 2,
        )
        for name in "abcde"
    ]
    output = Output()
    make_concurrent_tap(*kinds, output=output).sync_all()
    assert list(output.states[-1]["bookmarks"]) == list("acebd")
    records = [message["stream"] for message in output.select("RECORD")]
    assert sorted(records[:3]) == ["a", "c", "e"]
    assert records[3:] == ["b", "d"]


def test_streams_with_a_common_child_run_sequentially():
    """The first stream finalizes the child's state, which the second would still change."""
    parent = stream(
        "a",
        [{"id": 1}, {"id": 2}],
        max_parallel_partitions=2,
        get_child_context=lambda self, record, context: {"of": self.name},
    )

    def get_records(self, context):
        time.sleep(0.01)
        yield {"id": 1 if context["of"] == "a" else 2}

    child = stream(
        "c",
        get_records,
        parent_stream_type=parent,
        replication_key="id",
        max_parallel_partitions=2,
        _state_partitioning_keys=(),
    )

    class Twins(FixedClockTap):
        max_parallel_streams = 3

        def discover_streams(self):
            return [parent(self), parent(self, name="b"), child(self)]

    output, tap = Output(), Twins()
    tap.protocol_writer = type(tap.protocol_writer)(output.append)
    tap.sync_all()
    assert [record["id"] for record in output.records("c")] == [1, 1, 2, 2]
    ended = next(state for state in output.states if "b" in state["bookmarks"])
    assert ended["bookmarks"]["c"]["replication_key_value"] == 1


def test_concurrent_streams_have_separate_threads():
    barrier = threading.Barrier(6)

    def get_records(self, context):
        barrier.wait(LONG)
        yield {"id": 1}

    kinds = [
        stream(name, get_records, partitions=contexts(3), max_parallel_partitions=3, **PARTED)
        for name in "ab"
    ]
    output = Output()
    make_concurrent_tap(*kinds, output=output).sync_all()
    assert len(output.records()) == 6
    assert {len(entry["partitions"]) for entry in output.states[-1]["bookmarks"].values()} == {3}


@pytest.mark.parametrize("fails", ["a", "b"])
def test_error_in_one_stream_ends_concurrent_streams(fails):
    def get_records(self, context):
        for number in range(100_000):
            time.sleep(0.001)
            yield {"id": number}
            if self.name == fails and number == 20:
                raise KeyError("gone")

    kinds = [
        stream(name, get_records, partitions=contexts(2), max_parallel_partitions=2, **PARTED)
        for name in "ab"
    ]
    output = Output()
    with pytest.raises(KeyError, match="gone"):
        make_concurrent_tap(*kinds, output=output).sync_all()
    assert output.states[-1]["currently_syncing"] == "a"
    assert not [thread for thread in threading.enumerate() if "worker" in thread.name]


def test_setting_lowers_the_number_of_concurrent_streams():
    names = []

    def get_records(self, context):
        names.append(threading.current_thread().name)
        yield {"id": 1}

    kinds = [stream(name, get_records, max_parallel_partitions=2) for name in "ab"]
    make_concurrent_tap(*kinds, config={"max_parallel_streams": 1}).sync_all()
    assert names == ["MainThread"] * 2


# Over HTTP


class Api(BaseHTTPRequestHandler):
    """An API with delayed pages and a token endpoint."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_GET(self):
        if self.server.barrier is not None:
            self.server.barrier.wait(LONG)
        time.sleep(self.server.pause)
        if self.headers.get("Authorization") != self.server.expected_token:
            return self.answer(401, {})
        partition, page = map(int, self.path.strip("/").split("/"))
        rows = [{"id": 10 * page + number} for number in range(2)]
        return self.answer(
            200, {"data": rows, "next": page + 1 if page < 2 else None, "p": partition}
        )

    def do_POST(self):
        self.server.tokens += 1
        time.sleep(0.05)
        self.rfile.read(int(self.headers["Content-Length"]))
        return self.answer(200, {"access_token": "new", "expires_in": 3600})

    def answer(self, status, document):
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, *args):
        """Log nothing."""


class Server(ThreadingHTTPServer):
    request_queue_size = 64
    pause = 0.0
    barrier: threading.Barrier | None = None
    expected_token: str | None = None
    tokens = 0

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def server():
    with serve_in_thread(Server(("127.0.0.1", 0), Api)) as http_server:
        yield http_server


def pages(server, count, **members):
    """Return a stream of partitions of three pages."""

    class Pages(Allowing):
        name = "pages"
        url_base = server.url
        schema = PARTED["schema"]
        replication_key = "id"
        records_jsonpath = "$.data[*]"
        next_page_token_jsonpath = "$.next"
        partitions = contexts(count)

        def get_url(self, context):
            return f"{self.url_base}/{context['p']}"

        def get_http_request(self, *, page):
            request = super().get_http_request(page=page)
            request.url += f"/{page.next_page_token or 0}"
            return request

    return type("Pages", (Pages,), members)


def test_pages_of_all_partitions_are_requested_concurrently(server):
    """The server responds only after it received a request of every partition."""
    server.barrier = threading.Barrier(16)
    output = sync(pages(server, 16, max_parallel_partitions=16))
    assert len(output.records("pages")) == 16 * 6


def test_shared_session_has_a_connection_per_thread(server, caplog):
    caplog.set_level(logging.DEBUG, "urllib3")
    server.pause = 0.02
    sync(pages(server, 32))
    assert "pool is full" not in caplog.text
    assert caplog.text.count("Starting new HTTP connection") <= 16


def login(stream):
    class Login(OAuthAuthenticator):
        @property
        def oauth_request_body(self):
            return {"grant_type": "client_credentials"}

    return Login(auth_endpoint=f"{stream.url_base}/token")


def test_threads_request_one_token(server):
    server.expected_token = "Bearer new"

    class New(pages(server, 16)):
        @cached_property
        def authenticator(self):
            return login(self)

    assert len(sync(New).records("pages")) == 16 * 6
    assert server.tokens == 1


def test_threads_renew_a_refused_token_once(server):
    server.expected_token = "Bearer new"

    class Old(pages(server, 16)):
        @cached_property
        def authenticator(self):
            oauth = login(self)
            oauth.access_token, oauth.last_refreshed = "old", utc_now()
            return oauth

    assert len(sync(Old).records("pages")) == 16 * 6
    assert server.tokens == 1


def test_each_thread_uses_its_own_authenticator(server):
    """The session is shared, but its authenticator must not be that of another thread."""
    matches = []

    class Checking(pages(server, 8)):
        @property
        def authenticator(self):
            name = f"X-{threading.get_ident()}"
            return APIKeyAuthenticator(key=name, value="1")

        def validate_response(self, response):
            names = [name for name in response.request.headers if name.startswith("X-")]
            matches.append(names == [f"X-{threading.get_ident()}"])

    sync(Checking)
    assert matches == [True] * 24


def test_threads_share_the_rate_limit(server, monkeypatch):
    waited = []
    monkeypatch.setattr("tap_core.http.rate_limit.time.sleep", waited.append)
    sync(pages(server, 4, rate_limit=1.0))
    assert sum(waited) > 11, "twelve requests, a second apart"


def test_parents_run_concurrently_with_their_children():
    def kinds(threads):
        for name in "ab":
            parent = stream(
                f"{name}_parent",
                [{"id": number} for number in range(4)],
                get_child_context=lambda self, record, context: {"of": record["id"]},
                max_parallel_partitions=threads,
            )
            yield parent
            yield stream(
                f"{name}_child",
                [{"id": number} for number in range(3)],
                parent_stream_type=parent,
                replication_key="id",
                schema=schema(id=INTEGER),
                max_parallel_partitions=threads,
            )

    parallel, sequential = Output(), sync(*kinds(1))
    make_concurrent_tap(*kinds(3), output=parallel).sync_all()
    assert parallel.states[-1] == sequential.states[-1]
    assert list(parallel.states[-1]["bookmarks"]) == list(sequential.states[-1]["bookmarks"])
    assert len(parallel.records()) == len(sequential.records()) == 2 * (4 + 12)


@both_paths
def test_signpost_limits_the_partitions_of_all_threads(on_path):
    kind = stream(
        "a",
        [{"id": 3}, {"id": 9}],
        partitions=contexts(4),
        max_parallel_partitions=2,
        get_replication_key_signpost=lambda self, context=None: 6,
        **PARTED,
    )
    entries = sync(on_path(kind)).states[-1]["bookmarks"]["a"]["partitions"]
    assert [entry["replication_key_value"] for entry in entries] == [6] * 4


def test_deselected_parent_waits_for_its_children():
    parent = stream(
        "p",
        [{"id": number} for number in range(5)],
        selected_by_default=False,
        get_child_context=lambda self, record, context: {"of": record["id"]},
    )
    child = stream("c", [{"id": 1}], parent_stream_type=parent, max_parallel_partitions=2)
    output = sync(parent, child)
    assert len(output.records("c")) == 5
    assert output.records("p") == []


def test_parent_record_without_children_does_not_limit_the_bookmark():
    def parents(self, context):
        yield {"id": None, "n": 0}
        for number in range(1, 8):
            yield {"id": number, "n": number}

    def make_context(self, record, context):
        return {"of": record["n"]} if record["n"] % 4 == 0 else None

    parent = stream(
        "p", parents, replication_key="id", is_sorted=True, get_child_context=make_context
    )
    child = stream("c", [{"id": 1}], parent_stream_type=parent, max_parallel_partitions=2)
    output = sync(parent, child)
    assert len(output.records("c")) == 2
    assert output.states[-1]["bookmarks"]["p"]["replication_key_value"] == 7


def test_bookmark_written_by_the_author_is_not_lowered():
    def parents(self, context):
        yield {"id": 1}
        state = self.get_context_state(context)
        state.update(replication_key="id", replication_key_value=50)
        yield {"id": 2}

    parent = stream(
        "p",
        parents,
        replication_key="id",
        is_sorted=True,
        get_child_context=lambda self, record, context: {"of": record["id"]},
    )
    child = stream("c", [{"id": 1}], parent_stream_type=parent, max_parallel_partitions=2)
    output = sync(parent, child)
    assert output.states[-1]["bookmarks"]["p"]["replication_key_value"] == 50


def test_custom_get_batches_disables_threads_with_a_warning(tmp_path, caplog):
    kind, peak = record_peak_threads(
        max_parallel_partitions=3, get_batches=lambda self, batch_config, context=None: ()
    )
    config = {
        "batch_config": {
            "encoding": {"format": "jsonl", "compression": "gzip"},
            "storage": {"root": tmp_path.as_uri()},
        }
    }
    make(kind, config=config).sync_all()
    assert peak[0] == 0
    assert "max_parallel_partitions of stream 'a' has no effect" in caplog.text


def test_batch_files_contain_the_rows_of_all_threads(tmp_path):
    kind, peak = record_peak_threads(3, max_parallel_partitions=3)
    config = {
        "batch_config": {
            "encoding": {"format": "jsonl"},
            "storage": {"root": tmp_path.as_uri()},
        }
    }
    output = sync(kind, config=config)
    assert peak[0] == 3
    texts = [path.read_text() for path in tmp_path.rglob("*")]
    lines = [json.loads(line) for text in texts for line in text.splitlines()]
    assert sorted(line["id"] for line in lines) == list(range(6))
    assert output.select("RECORD") == []
