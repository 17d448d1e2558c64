"""Contexts that are synced elsewhere: the same rows and the same state as in one process.

Elsewhere is another tap in this process here, which knows of a part only what is handed to it,
after a trip through pickle.
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
from tests.incremental.apis import FROM, SECONDS, TO, Api, Dated
from tests.sync.syncing import DATETIME, INTEGER, STRING, Output, make, schema, stream, sync

ORDERS = {
    "schema": schema(id=INTEGER, p=INTEGER, at=DATETIME),
    "primary_keys": ("id",),
    "replication_key": "at",
    "partitions": [{"p": number} for number in range(5)],
}


@pytest.fixture
def server():
    with serving() as found:
        yield found


def day(number):
    return f"2024-01-{1 + number % 28:02d}T00:00:00Z"


def orders(self, context):
    """Yield what a partition has, in no order, from its start on."""
    start = self.get_starting_replication_key_value(context)
    for number in (3, 9, 1, 7):
        at = day(number + context["p"])
        if start is None or at >= start:
            yield {"id": 100 * context["p"] + number, "at": at}


def _travelled(value):
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - our own


class Elsewhere:
    """Syncs parts by a tap of its own; those of ``bad`` contexts fail."""

    def __init__(self, kinds, bad=(), most=1_000, **given):
        self.most = most
        self.bad = list(bad)
        self.parts = []
        self._rows = []
        self._tap = make(*kinds, **given)
        self._tap.speak_by(self)

    def encode(self, record):
        return encode_body(record)

    def emit(self, event):
        if isinstance(event, Rows):
            self._rows.append(event)

    def refuses(self, stream):
        return None

    def sync(self, parts, *, in_order):
        events, results = [], []
        for part in _travelled(list(parts)):
            self.parts.append(part)
            self._rows.clear()
            if part.context in self.bad or (
                part.interval is not None and part.interval.window.start_time in self.bad
            ):
                results.append(WorkResult(part.number, error="RuntimeError: bad"))
                continue
            bookmarks = _travelled(self._tap.sync_part(part))
            counts = {str(each.stream): len(each.rows) for each in self._rows}
            if not (in_order and any(each.error for each in results)):
                events += self._rows
            results.append(WorkResult(part.number, bookmarks, counts))
        return WorkResults(events, results)


class Spreading(SingerWriter):
    """Singer's outlet, with somebody elsewhere who reads."""

    def __init__(self, write, spreader):
        super().__init__(write)
        self.spreader = spreader


def spread(*kinds, bad=(), most=1_000, error=None, **given):
    """Sync a tap whose contexts are synced elsewhere; return what it wrote, and the parts."""
    output, elsewhere = Output(), Elsewhere(kinds, bad, most)
    tap = make(*kinds, **given)
    tap.outlet = Spreading(output.append, elsewhere)
    if error is None:
        tap.sync_all()
    else:
        with pytest.raises(error) as caught:
            tap.sync_all()
        output.error = str(caught.value)
    return output, elsewhere.parts


def alike(*kinds, **given):
    """Check that a tap writes the same rows and the same last state both ways."""
    here = sync(*kinds, **given)
    there, parts = spread(*kinds, **given)
    names = {kind.name for kind in kinds}
    for name in names:
        assert sorted(map(str, there.records(name))) == sorted(map(str, here.records(name)))
    assert there.states[-1] == here.states[-1]
    return there, parts


# The same as in one process


def test_partitions_are_parts():
    """Each partition of a stream is a part, with its own bookmark."""
    out, parts = alike(stream("orders", orders, **ORDERS))
    assert [part.context for part in parts] == ORDERS["partitions"]
    assert len(out.records("orders")) == 20


def test_a_second_sync_goes_on_from_the_bookmarks_of_the_first():
    """What is handed over has the bookmark of its context, and of no other."""
    kind = stream("orders", orders, **ORDERS)
    state = sync(kind).states[-1]
    out, parts = alike(kind, state=state)
    assert len(out.records("orders")) == 5
    entries = [part.bookmarks["orders"]["partitions"] for part in parts]
    assert [[entry["context"] for entry in each] for each in entries] == [
        [context] for context in ORDERS["partitions"]
    ]


@pytest.mark.parametrize("keys", [[], ["q"]])
def test_contexts_that_share_a_bookmark(keys):
    """A bookmark that contexts share is that of the greatest value of all."""
    places = [{"p": number, "q": number % 2} for number in range(5)]
    members = {**ORDERS, "partitions": places, "state_partitioning_keys": keys}
    kind = stream("orders", orders, **members)
    alike(kind)
    alike(kind, state=sync(kind).states[-1])


def test_the_version_of_a_full_table_is_the_same_everywhere():
    """Rows of a table that is read in full carry one version, whichever process reads them."""
    members = {"schema": schema(id=INTEGER, p=INTEGER), "partitions": ORDERS["partitions"]}
    members["emit_activate_version_messages"] = True
    kind = stream("full", lambda _, context: [{"id": context["p"]}], **members)
    out, _ = alike(kind)
    versions = {message["version"] for message in out.of("RECORD", "full")}
    assert len(versions) == 1
    assert {message["version"] for message in out.of("ACTIVATE_VERSION")} == versions


def families(bad=()):
    """Return a parent, its children, and theirs."""
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


def test_a_parent_is_read_here_and_its_children_elsewhere():
    """Contexts that a parent gives are parts; what is below these is read with them."""
    out, parts = alike(*families())
    assert {part.stream for part in parts} == {"children"}
    assert len(parts) == 6
    assert len(out.records("grandchildren")) == 18
    alike(*families(), state=out.states[-1])


@pytest.mark.parametrize("most", [1, 2, 4, 6, 7])
def test_contexts_go_in_groups(most):
    """However many are handed over at once, all are read, once."""
    here = sync(*families())
    out, parts = spread(*families(), most=most)
    assert len(parts) == 6
    assert out.states[-1] == here.states[-1]
    assert len(out.records("children")) == 18


def windows(server, **members):
    cursor = DatetimeBasedCursor(
        cursor_field="at",
        datetime_format=SECONDS,
        start_datetime="2024-01-01T00:00:00Z",
        end_datetime="2024-01-10T00:00:00Z",
        step="P1D",
        cursor_granularity="PT1S",
        start_time_option=FROM,
        end_time_option=TO,
        **members,
    )
    return type("Articles", (Dated,), {"incremental_sync": cursor, "url_base": server.url})


ARTICLES = [
    {"id": number, "at": f"2024-01-0{1 + number % 9}T0{number % 7}:00:00Z"} for number in range(40)
]


@pytest.mark.parametrize("cutoff", ["last_record", "interval_end"])
def test_windows_are_parts(server: Server, cutoff):
    """Each window of a stream that is read by date is a part; the bookmark is that of the last."""
    Api(server, ARTICLES)
    _, parts = alike(windows(server, cutoff=cutoff))
    assert len(parts) > 8
    state = sync(windows(server, cutoff=cutoff)).states[-1]
    alike(windows(server, cutoff=cutoff), state=state)


def test_behind_a_window_that_failed_nothing_counts(server: Server):
    """The bookmark stays before the first window that failed, and so do the rows."""
    Api(server, ARTICLES)
    kind = windows(server)
    out, _ = spread(kind, bad=["2024-01-04T00:00:00Z"], error=PartitionsFailedError)
    first = out.records("articles")
    assert max(record["at"] for record in first) < "2024-01-04"
    again, _ = spread(kind, state=out.states[-1])
    ids = [record["id"] for record in (*first, *again.records("articles"))]
    assert set(ids) == {article["id"] for article in ARTICLES}
    assert again.states[-1]["bookmarks"] == sync(kind).states[-1]["bookmarks"]


# What fails


def test_a_context_that_fails_leaves_the_others_done():
    """The others are kept with their bookmarks; the error names the context; then it goes on."""
    kind = stream("orders", orders, **ORDERS)
    out, _ = spread(kind, bad=[{"p": 3}], error=PartitionsFailedError)
    assert "orders {'p': 3}: RuntimeError: bad" in out.error
    assert len(out.records("orders")) == 16
    state = out.states[-1]
    assert state["currently_syncing"] == "orders"
    values = [
        each.get("replication_key_value") for each in state["bookmarks"]["orders"]["partitions"]
    ]
    assert [value is None for value in values] == [False, False, False, True, False]
    again, _ = spread(kind, state=state)
    assert len(again.records("orders")) == 4 + 4
    assert again.states[-1]["bookmarks"] == sync(kind).states[-1]["bookmarks"]


@settings(max_examples=40, deadline=None)  # 1,024 inputs in all
@given(bad=st.sets(st.integers(0, 5), max_size=6), most=st.integers(1, 8), ordered=st.booleans())
def test_children_that_fail_are_read_the_next_time(bad, most, ordered):
    """Whichever children fail, the parent's bookmark lets each be read by a later sync."""
    parent, child, grandchild = families()
    parent.is_sorted = ordered
    lost = [{"parent": number} for number in bad]
    out, _ = spread(
        parent, child, grandchild, bad=lost, most=most, error=PartitionsFailedError if bad else None
    )
    again, _ = spread(parent, child, grandchild, state=out.states[-1])
    seen = {
        (record["parent"], record["n"])
        for record in (*out.records("children"), *again.records("children"))
    }
    assert seen == {(number, n) for number in range(6) for n in range(3)}


def test_an_error_of_order_is_reported():
    """A sorted stream that is not fails elsewhere as it does here."""
    kind = stream("orders", orders, **{**ORDERS, "is_sorted": True})
    with pytest.raises(InvalidStreamSortException):
        spread(kind)


# What is not spread


@pytest.mark.parametrize(
    "members, why",
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
def test_what_cannot_be_spread_is_read_here_and_said(members, why, caplog):
    """A stream that must be read by one process is, and the log says why."""
    rows = [{"id": 1, "at": day(1)}]
    kind = stream("orders", lambda self, context: rows, **{**ORDERS, **members})
    with caplog.at_level(logging.INFO):
        out, parts = spread(kind)
    assert parts == []
    assert out.records("orders")
    assert why in caplog.text


def test_labels_stay_text():
    """A context of any plain values comes back as it went."""
    places = [{"p": value} for value in ("ä", 1.5, True, None, "")]
    kind = stream(
        "orders",
        lambda self, context: [{"id": 1, "at": day(2)}],
        **{**ORDERS, "schema": schema(id=INTEGER, p=STRING, at=DATETIME), "partitions": places},
    )
    alike(kind)
