"""Distributed syncs: the same rows and the same state as a sync in one process.

The worker is another tap in the test's process that gets only pickled work units.
"""

from __future__ import annotations

import logging
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tap_core.events import Rows
from tap_core.exceptions import InvalidStreamSortException, PartitionsFailedError
from tap_core.incremental.cursor import DatetimeBasedCursor
from tap_core.protocols.singer.writer import SingerWriter, encode_body
from tap_core.sync.work_units import WorkResult, WorkResults
from tests.http.server import Server, serving
from tests.incremental.apis import END_DATE_OPTION, SECONDS, START_DATE_OPTION, Api, ArticleStream
from tests.sync.syncing import DATETIME, INTEGER, STRING, Output, make, schema, stream, sync

ORDERS = {
    "schema": schema(id=INTEGER, p=INTEGER, at=DATETIME),
    "primary_keys": ("id",),
    "replication_key": "at",
    "partitions": [{"p": number} for number in range(5)],
}


@pytest.fixture
def server():
    with serving() as http_server:
        yield http_server


def day(number):
    return f"2024-01-{1 + number % 28:02d}T00:00:00Z"


def orders(self, context):
    """Yield the unsorted records of a partition from its starting value on."""
    start = self.get_starting_replication_key_value(context)
    for number in (3, 9, 1, 7):
        timestamp = day(number + context["p"])
        if start is None or timestamp >= start:
            yield {"id": 100 * context["p"] + number, "at": timestamp}


def _pickle_and_load(value):
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - our own


class Worker:
    """Syncs work units with a separate tap; those of ``bad`` contexts fail."""

    def __init__(self, kinds, bad=(), max_units=1_000, **options):
        self.max_units = max_units
        self.bad = list(bad)
        self.parts = []
        self._rows = []
        self._tap = make(*kinds, **options)
        self._tap.set_protocol_writer(self)

    def encode(self, record):
        return encode_body(record)

    def emit(self, event):
        if isinstance(event, Rows):
            self._rows.append(event)

    def explain_refusal(self, stream):
        return None

    def sync(self, parts, *, in_order):
        events, results = [], []
        for part in _pickle_and_load(list(parts)):
            self.parts.append(part)
            self._rows.clear()
            if part.context in self.bad or (
                part.interval is not None and part.interval.window.start_time in self.bad
            ):
                results.append(WorkResult(part.number, error="RuntimeError: bad"))
                continue
            bookmarks = _pickle_and_load(self._tap.sync_part(part))
            counts = {str(item.stream): len(item.rows) for item in self._rows}
            if not (in_order and any(item.error for item in results)):
                events += self._rows
            results.append(WorkResult(part.number, bookmarks, counts))
        return WorkResults(events, results)


class DistributingWriter(SingerWriter):
    """A Singer writer with a work distributor."""

    def __init__(self, write, distributor):
        super().__init__(write)
        self.distributor = distributor


def sync_distributed(*kinds, bad=(), max_units=1_000, error=None, **options):
    """Sync a tap whose contexts are distributed; return its output and the work units."""
    output, worker = Output(), Worker(kinds, bad, max_units)
    tap = make(*kinds, **options)
    tap.protocol_writer = DistributingWriter(output.append, worker)
    if error is None:
        tap.sync_all()
    else:
        with pytest.raises(error) as caught:
            tap.sync_all()
        output.error = str(caught.value)
    return output, worker.parts


def check_same_output(*kinds, **options):
    """Check that local and distributed syncs have the same rows and last state."""
    local = sync(*kinds, **options)
    distributed, parts = sync_distributed(*kinds, **options)
    names = {kind.name for kind in kinds}
    for name in names:
        assert sorted(map(str, distributed.records(name))) == sorted(map(str, local.records(name)))
    assert distributed.states[-1] == local.states[-1]
    return distributed, parts


# The same as in one process


def test_each_partition_is_a_work_unit():
    """Each partition of a stream is one work unit with its own bookmark."""
    out, parts = check_same_output(stream("orders", orders, **ORDERS))
    assert [part.context for part in parts] == ORDERS["partitions"]
    assert len(out.records("orders")) == 20


def test_second_sync_continues_from_the_bookmarks_of_the_first():
    """A work unit contains only the bookmark of its context."""
    kind = stream("orders", orders, **ORDERS)
    state = sync(kind).states[-1]
    out, parts = check_same_output(kind, state=state)
    assert len(out.records("orders")) == 5
    entries = [part.bookmarks["orders"]["partitions"] for part in parts]
    assert [[entry["context"] for entry in part_entries] for part_entries in entries] == [
        [context] for context in ORDERS["partitions"]
    ]


@pytest.mark.parametrize("keys", [[], ["q"]])
def test_shared_bookmark_is_the_greatest_value_of_its_contexts(keys):
    """Contexts of all work units update the bookmark that they share."""
    partitions = [{"p": number, "q": number % 2} for number in range(5)]
    members = {**ORDERS, "partitions": partitions, "state_partitioning_keys": keys}
    kind = stream("orders", orders, **members)
    check_same_output(kind)
    check_same_output(kind, state=sync(kind).states[-1])


def test_bookmark_with_all_keys_of_its_context_is_final_with_its_work_unit():
    """It is stored as without ``state_partitioning_keys``, also if another context fails."""
    kind = stream("orders", orders, **ORDERS, state_partitioning_keys=["p"])
    check_same_output(kind)
    check_same_output(kind, state=sync(kind).states[-1])
    out, _ = sync_distributed(kind, bad=[{"p": 3}], error=PartitionsFailedError)
    resumed, _ = sync_distributed(kind, state=out.states[-1])
    assert len(resumed.records("orders")) == 4 + 4
    assert resumed.states[-1]["bookmarks"] == sync(kind).states[-1]["bookmarks"]


def test_full_table_rows_of_all_workers_have_one_version():
    """The version does not depend on the process that reads a row."""
    members = {"schema": schema(id=INTEGER, p=INTEGER), "partitions": ORDERS["partitions"]}
    members["emit_activate_version_messages"] = True
    kind = stream("full", lambda _, context: [{"id": context["p"]}], **members)
    out, _ = check_same_output(kind)
    versions = {message["version"] for message in out.select("RECORD", "full")}
    assert len(versions) == 1
    assert {message["version"] for message in out.select("ACTIVATE_VERSION")} == versions


def parent_and_descendants(bad=()):
    """Return a parent stream, its child and its grandchild."""
    parent = stream(
        "parents",
        lambda self, _: [
            {"id": number, "at": day(number)}
            for number in range(6)
            if day(number) >= (self.get_starting_replication_key_value(None) or "")
        ],
        schema=schema(id=INTEGER, at=DATETIME),
        replication_key="at",
        get_child_context=lambda self, record, context: {"parent": record["id"]},
    )
    child = stream(
        "children",
        lambda self, context: [{"n": number, "at": day(number)} for number in range(3)],
        schema=schema(parent=INTEGER, n=INTEGER, at=DATETIME),
        replication_key="at",
        parent_stream_type=parent,
        get_child_context=lambda self, record, context: {**context, "n": record["n"]},
    )
    grandchild = stream(
        "grandchildren",
        lambda self, context: [{"m": 10 * context["n"], "at": day(context["n"])}],
        schema=schema(parent=INTEGER, n=INTEGER, m=INTEGER, at=DATETIME),
        replication_key="at",
        parent_stream_type=child,
    )
    return parent, child, grandchild


def test_parent_is_read_locally_and_its_children_are_distributed():
    """Each child context is a work unit, which includes its grandchildren."""
    out, parts = check_same_output(*parent_and_descendants())
    assert {part.stream for part in parts} == {"children"}
    assert len(parts) == 6
    assert len(out.records("grandchildren")) == 18
    check_same_output(*parent_and_descendants(), state=out.states[-1])


@pytest.mark.parametrize("max_units", [1, 2, 4, 6, 7])
def test_contexts_are_distributed_in_groups(max_units):
    """Each context is read once for any size of the groups."""
    local = sync(*parent_and_descendants())
    out, parts = sync_distributed(*parent_and_descendants(), max_units=max_units)
    assert len(parts) == 6
    assert out.states[-1] == local.states[-1]
    assert len(out.records("children")) == 18


@pytest.mark.parametrize("max_units", [1, 2, 1_000])
@pytest.mark.parametrize(
    "names, keys", [(("n",), None), (("parent", "n"), None), (("parent", "n"), ["parent"])]
)
def test_descendants_continue_from_their_bookmarks(max_units, names, keys):
    """Their contexts may have other keys than the work unit, or share a bookmark."""
    parent, child, grandchild = parent_and_descendants()
    child.get_child_context = lambda self, record, context: {
        name: 10 * context["parent"] + record["n"] if name == "n" else context[name]
        for name in names
    }
    grandchild.get_records = lambda self, context: [
        {"m": number, "at": day(number + context["n"] % 3)}
        for number in range(4)
        if day(number + context["n"] % 3)
        >= (self.get_starting_replication_key_value(context) or "")
    ]
    grandchild.state_partitioning_keys = keys
    kinds = parent, child, grandchild
    parent.replication_key = None
    state = sync(*kinds).states[-1]
    out, parts = sync_distributed(*kinds, max_units=max_units, state=state)
    local = sync(*kinds, state=state)
    assert len(parts) == 6
    assert len(out.records("grandchildren")) == len(local.records("grandchildren")) < 72
    assert out.states[-1] == local.states[-1]


def windows(server, **members):
    cursor = DatetimeBasedCursor(
        cursor_field="at",
        datetime_format=SECONDS,
        start_datetime="2024-01-01T00:00:00Z",
        end_datetime="2024-01-10T00:00:00Z",
        step="P1D",
        cursor_granularity="PT1S",
        start_time_option=START_DATE_OPTION,
        end_time_option=END_DATE_OPTION,
        **members,
    )
    return type("Articles", (ArticleStream,), {"incremental_sync": cursor, "url_base": server.url})


ARTICLES = [
    {"id": number, "at": f"2024-01-0{1 + number % 9}T0{number % 7}:00:00Z"} for number in range(40)
]


@pytest.mark.parametrize("cutoff", ["last_record", "interval_end"])
def test_each_window_is_a_work_unit(server: Server, cutoff):
    """The bookmark of a stream with a date-time cursor is that of its last window."""
    Api(server, ARTICLES)
    _, parts = check_same_output(windows(server, cutoff=cutoff))
    assert len(parts) > 8
    state = sync(windows(server, cutoff=cutoff)).states[-1]
    check_same_output(windows(server, cutoff=cutoff), state=state)


def test_windows_after_a_failed_window_are_discarded(server: Server):
    """Bookmark and rows end before the first failed window."""
    Api(server, ARTICLES)
    kind = windows(server)
    out, _ = sync_distributed(kind, bad=["2024-01-04T00:00:00Z"], error=PartitionsFailedError)
    first = out.records("articles")
    assert max(record["at"] for record in first) < "2024-01-04"
    resumed, _ = sync_distributed(kind, state=out.states[-1])
    ids = [record["id"] for record in (*first, *resumed.records("articles"))]
    assert set(ids) == {article["id"] for article in ARTICLES}
    assert resumed.states[-1]["bookmarks"] == sync(kind).states[-1]["bookmarks"]


# Failures


def test_failed_context_does_not_affect_the_others():
    """The other bookmarks are kept, the error names the context, and the next sync resumes."""
    kind = stream("orders", orders, **ORDERS)
    out, _ = sync_distributed(kind, bad=[{"p": 3}], error=PartitionsFailedError)
    assert "orders {'p': 3}: RuntimeError: bad" in out.error
    assert len(out.records("orders")) == 16
    state = out.states[-1]
    assert state["currently_syncing"] == "orders"
    values = [
        entry.get("replication_key_value") for entry in state["bookmarks"]["orders"]["partitions"]
    ]
    assert [value is None for value in values] == [False, False, False, True, False]
    resumed, _ = sync_distributed(kind, state=state)
    assert len(resumed.records("orders")) == 4 + 4
    assert resumed.states[-1]["bookmarks"] == sync(kind).states[-1]["bookmarks"]


@settings(max_examples=40, deadline=None)  # 1,024 inputs in all
@given(
    bad=st.sets(st.integers(0, 5), max_size=6), max_units=st.integers(1, 8), ordered=st.booleans()
)
def test_failed_children_are_read_by_the_next_sync(bad, max_units, ordered):
    """The parent's bookmark does not advance beyond failed children."""
    parent, child, grandchild = parent_and_descendants()
    parent.is_sorted = ordered
    lost = [{"parent": number} for number in bad]
    out, _ = sync_distributed(
        parent,
        child,
        grandchild,
        bad=lost,
        max_units=max_units,
        error=PartitionsFailedError if bad else None,
    )
    resumed, _ = sync_distributed(parent, child, grandchild, state=out.states[-1])
    received = {
        (record["parent"], record["n"])
        for record in (*out.records("children"), *resumed.records("children"))
    }
    assert received == {(number, n) for number in range(6) for n in range(3)}


def test_sort_error_in_a_worker_is_raised():
    """A sorted stream that is out of order fails as in a local sync."""
    kind = stream("orders", orders, **{**ORDERS, "is_sorted": True})
    with pytest.raises(InvalidStreamSortException):
        sync_distributed(kind)


# Streams that cannot be distributed


@pytest.mark.parametrize(
    "members, reason",
    [
        ({"state_partition_limit": 3}, "state_partition_limit"),
        ({"ABORT_AT_RECORD_COUNT": 10**6}, "it has a record limit"),
        ({"partitions": None}, "one context"),
        (
            {"is_sorted": True, "check_sorted": False, "state_partitioning_keys": []},
            "depends on their order",
        ),
    ],
)
def test_stream_that_cannot_be_distributed_is_read_locally(members, reason, caplog):
    """The log states the reason."""
    rows = [{"id": 1, "at": day(1)}]
    kind = stream("orders", lambda self, context: rows, **{**ORDERS, **members})
    with caplog.at_level(logging.INFO):
        out, parts = sync_distributed(kind)
    assert parts == []
    assert out.records("orders")
    assert reason in caplog.text


def test_stream_whose_bookmarks_the_user_limits_is_read_locally():
    """The setting has the effect of the attribute: the partitions share a bookmark at the end."""
    kind = stream("orders", orders, **ORDERS)
    _, parts = check_same_output(kind, config={"state_partition_limit": 3})
    assert parts == []


@pytest.mark.parametrize(
    "members, reason",
    [
        ({"state_partition_limit": 3}, "state_partition_limit"),
        (
            {"is_sorted": True, "check_sorted": False, "state_partitioning_keys": []},
            "depends on their order",
        ),
    ],
)
def test_descendant_that_cannot_be_distributed_is_read_locally(members, reason, caplog):
    """A work unit also syncs its descendants, so the same conditions apply to them."""
    parent, child, grandchild = parent_and_descendants()
    for name, value in members.items():
        setattr(grandchild, name, value)
    with caplog.at_level(logging.INFO):
        _, parts = check_same_output(parent, child, grandchild)
    assert parts == []
    assert "because of its descendant 'grandchildren': " in caplog.text
    assert reason in caplog.text


def test_context_values_keep_their_types():
    """Contexts of strings, numbers, booleans and null are distributed unchanged."""
    partitions = [{"p": value} for value in ("ä", 1.5, True, None, "")]
    kind = stream(
        "orders",
        lambda self, context: [{"id": 1, "at": day(2)}],
        **{**ORDERS, "schema": schema(id=INTEGER, p=STRING, at=DATETIME), "partitions": partitions},
    )
    check_same_output(kind)
