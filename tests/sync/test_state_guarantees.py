"""Guarantees of states in complete syncs: interruptions, signposts, cost, older states."""

from __future__ import annotations

import copy
import datetime as dt
import json

import pytest

from tests.state.encoding_cost import count_encoded_bytes
from tests.sync.syncing import (
    DATETIME,
    INTEGER,
    STARTED,
    STRING,
    Output,
    make,
    schema,
    stream,
    sync,
    sync_until_error,
    with_hook,
)

both_paths = pytest.mark.parametrize(
    "on_path", [lambda kind: kind, with_hook], ids=["compiled", "hooked"]
)

STARTED_AT = dt.datetime.fromtimestamp(STARTED / 1000, tz=dt.timezone.utc).isoformat(
    timespec="microseconds"
)


class InterruptedSyncError(Exception):
    """A failure of the source, the network or the machine."""


def partitioned_stream(rows, fails_in=None, **members):
    """Return a stream of three partitions that fails in one, and its starting values."""
    starts = {}

    def get_records(self, context):
        starts[context["p"]] = self.get_starting_replication_key_value(context)
        for row in rows:
            if context["p"] == fails_in and row is rows[-1]:
                raise InterruptedSyncError
            yield dict(row)

    attributes = {
        "replication_key": "id",
        "partitions": [{"p": name} for name in "xyz"],
        "schema": schema(id=INTEGER, p=STRING),
    }
    return stream("a", get_records, **{**attributes, **members}), starts


ROWS = [{"id": 3}, {"id": 9}, {"id": 5}]


@both_paths
def test_interrupted_sync_keeps_the_bookmarks_of_completed_partitions(on_path):
    kind, _ = partitioned_stream(ROWS, fails_in="y")
    output, _ = sync_until_error(InterruptedSyncError, on_path(kind))
    state = output.states[-1]
    assert state["currently_syncing"] == "a"
    entries = {entry["context"]["p"]: entry for entry in state["bookmarks"]["a"]["partitions"]}
    assert entries["x"] == {
        "context": {"p": "x"},
        "replication_key": "id",
        "replication_key_value": 9,
    }
    assert entries["y"]["progress_markers"]["replication_key_value"] == 9
    assert "replication_key_value" not in entries["y"]

    resumed, starts = partitioned_stream(ROWS)
    final = sync(on_path(resumed), state=state).states[-1]
    assert starts == {"x": 9, "y": None, "z": None}
    assert {entry["replication_key_value"] for entry in final["bookmarks"]["a"]["partitions"]} == {
        9
    }
    assert "currently_syncing" not in final


@both_paths
def test_sorted_stream_resumes_where_it_stopped(on_path):
    kind, _ = partitioned_stream([{"id": n} for n in range(1, 6)], fails_in="y", is_sorted=True)
    output, _ = sync_until_error(InterruptedSyncError, on_path(kind))
    resumed, starts = partitioned_stream([{"id": 7}], is_sorted=True)
    sync(on_path(resumed), state=output.states[-1])
    assert starts == {"x": 5, "y": 4, "z": None}


@both_paths
def test_shared_bookmark_is_finalized_with_the_stream(on_path):
    members = {"is_sorted": True, "state_partitioning_keys": []}
    kind, _ = partitioned_stream(ROWS, fails_in="z", **members)
    output, _ = sync_until_error(InterruptedSyncError, on_path(kind))
    entry = output.states[-1]["bookmarks"]["a"]
    assert entry["progress_markers"]["replication_key_value"] == 9
    assert "replication_key_value" not in entry
    kind, _ = partitioned_stream(ROWS, **members)
    assert sync(on_path(kind)).states[-1]["bookmarks"]["a"] == {
        "replication_key": "id",
        "replication_key_value": 9,
    }


@both_paths
def test_signpost_limits_every_partition(on_path):
    rows = [{"at": "2024-01-01T00:00:00Z"}, {"at": "2099-01-01T00:00:00Z"}]
    kind = stream(
        "a",
        rows,
        replication_key="at",
        schema=schema(at=DATETIME, p=INTEGER),
        partitions=[{"p": 1}, {"p": 2}],
    )
    state = sync(on_path(kind)).states[-1]["bookmarks"]["a"]
    assert [entry["replication_key_value"] for entry in state["partitions"]] == [STARTED_AT] * 2
    assert b"signpost" not in json.dumps(state).encode()


@both_paths
def test_sorted_stream_has_no_signpost(on_path):
    rows = [{"at": "2024-01-01T00:00:00Z"}, {"at": "2099-01-01T00:00:00Z"}]
    kind = stream(
        "a",
        rows,
        replication_key="at",
        schema=schema(at=DATETIME),
        is_sorted=True,
        STATE_MSG_FREQUENCY=1,
    )
    output = sync(on_path(kind))
    assert b"signpost" not in output.text
    assert output.states[-1]["bookmarks"]["a"]["replication_key_value"] == "2099-01-01T00:00:00Z"


@both_paths
def test_signpost_of_the_author_limits_the_bookmark(on_path):
    """The signpost of an author may be a log position, for example."""
    kind, _ = partitioned_stream(ROWS, get_replication_key_signpost=lambda self, context=None: 6)
    state = sync(on_path(kind)).states[-1]["bookmarks"]["a"]
    assert [entry["replication_key_value"] for entry in state["partitions"]] == [6, 6, 6]


def test_date_time_bookmarks_are_compared_as_instants():
    rows = [
        {"at": "2024-01-01T12:00:00+00:00"},
        {"at": "2024-01-01T13:00:00+02:00"},  # an hour earlier
        {"at": "2024-01-01T05:00:00-08:00"},  # an hour later
    ]
    kind = stream("a", rows, replication_key="at", schema=schema(at=DATETIME))
    bookmark = sync(kind).states[-1]["bookmarks"]["a"]["replication_key_value"]
    assert bookmark == "2024-01-01T05:00:00-08:00"


# Cost


def check_share_of_states(output, last_ones):
    """Check that states are at most 2 % of the rows, plus an allowance and the last states."""
    lines = output.text.splitlines()
    states = [len(line) for line in lines if line.startswith(b'{"type":"STATE"')]
    rows = len(output.text) - sum(states)
    assert len(states) > 10
    assert sum(states) < 65_536 + rows * 0.02 + last_ones * states[-1]


@both_paths
@pytest.mark.parametrize("count", [1_000, 4_000])
def test_states_of_many_partitions_are_a_small_share_of_the_output(on_path, count):
    """A state after each partition would be thousands of times the size of the rows."""
    kind = stream(
        "a",
        [{"id": n, "at": "x" * 100} for n in range(5)],
        replication_key="id",
        partitions=[{"p": n} for n in range(count)],
        schema=schema(id=INTEGER, at=STRING, p=INTEGER),
        STATE_MSG_FREQUENCY=1_000_000,
    )
    output = sync(on_path(kind))
    assert len(output.states[-1]["bookmarks"]["a"]["partitions"]) == count
    check_share_of_states(output, last_ones=2)


@both_paths
def test_states_of_many_child_contexts_are_a_small_share_of_the_output(on_path):
    count = 3_000
    parent = stream(
        "p",
        [{"id": n} for n in range(count)],
        get_child_context=lambda self, record, context: {"of": record["id"]},
    )
    child = stream(
        "c",
        [{"id": n, "at": "x" * 100} for n in range(5)],
        replication_key="id",
        parent_stream_type=parent,
        schema=schema(id=INTEGER, at=STRING, of=INTEGER),
    )
    if on_path is with_hook:
        child = with_hook(child)
    output = sync(parent, child)
    assert len(output.states[-1]["bookmarks"]["c"]["partitions"]) == count
    assert len(output.records("c")) == 5 * count
    check_share_of_states(output, last_ones=3)


def test_state_encoding_costs_only_what_changed(monkeypatch):
    """The cost is the number of newly encoded bytes, without copied bytes."""
    count, encoded_bytes = 200, count_encoded_bytes(monkeypatch)
    kind = stream(
        "a",
        [{"id": n} for n in range(5)],
        replication_key="id",
        partitions=[{"p": n} for n in range(count)],
        STATE_MSG_FREQUENCY=1,
        schema=schema(id=INTEGER, p=INTEGER),
    )
    output = Output()
    tap = make(kind, output=output)
    tap.sync_all()
    assert len(output.select("STATE")) >= 5 * count
    assert encoded_bytes() < 3_000 * count, "a few pieces of 200 bytes per state"


# States of older versions and other SDKs


SEED = {
    "bookmarks": {
        "orders": {
            "partitions": [
                {
                    "context": {"storeId": "a"},
                    "replication_key": "updatedOn",
                    "replication_key_value": "2021-01-02T0:00:00Z",
                },
                {
                    "context": {"storeId": "b"},
                    "replication_key": "updatedOn",
                    "replication_key_value": "2021-01-15T0:00:00Z",
                    "progress_markers": {
                        "Note": "Progress is not resumable if interrupted.",
                        "replication_key": "updatedOn",
                        "replication_key_value": "2021-01-20T0:00:00Z",
                    },
                },
            ]
        }
    }
}


@both_paths
@pytest.mark.parametrize("start_date", [None, "2021-01-10T00:00:00Z"])
def test_documented_state_is_resumed_exactly(on_path, start_date):
    """The state has partitions by storeId and datetimes with one-digit hours."""
    starts = {}

    def rows(self, context):
        starts[context["storeId"]] = self.get_starting_timestamp(context)
        yield {"updatedOn": "2021-01-12T00:00:00Z"}

    kind = stream(
        "orders",
        rows,
        replication_key="updatedOn",
        schema=schema(updatedOn=DATETIME, storeId=STRING),
    )
    config = {"start_date": start_date} if start_date else {}
    output = sync(on_path(kind), state=SEED, config=config)
    day = 10 if start_date else 2
    assert starts == {
        "a": dt.datetime(2021, 1, day, tzinfo=dt.timezone.utc),
        "b": dt.datetime(2021, 1, 15, tzinfo=dt.timezone.utc),
    }
    assert [record["storeId"] for record in output.records()] == ["a", "b"]
    assert output.states[-1]["bookmarks"]["orders"]["partitions"] == [
        {
            "context": {"storeId": "a"},
            "replication_key": "updatedOn",
            "replication_key_value": "2021-01-12T00:00:00Z",
        },
        {
            "context": {"storeId": "b"},
            "replication_key": "updatedOn",
            "replication_key_value": "2021-01-12T00:00:00Z",
        },
    ]


@both_paths
def test_progress_markers_of_an_interrupted_sync_are_removed_first(on_path):
    state = copy.deepcopy(SEED)
    state["bookmarks"]["orders"]["progress_tracking"] = {"replication_key_value": "x"}
    kind = stream(
        "orders", [], replication_key="updatedOn", schema=schema(updatedOn=DATETIME, storeId=STRING)
    )
    first = sync(on_path(kind), state=state).states[0]["bookmarks"]["orders"]
    assert "progress" not in json.dumps(first)
    assert [entry["replication_key_value"] for entry in first["partitions"]] == [
        "2021-01-02T0:00:00Z",
        "2021-01-15T0:00:00Z",
    ]


@pytest.mark.parametrize("bookmark", ["0", 0, "", None])
def test_bookmark_of_another_key_or_without_a_value_is_no_start(bookmark):
    starts = []

    def rows(self, context):
        starts.append(self.get_starting_replication_key_value(context))
        return []

    kind = stream("a", rows, replication_key="id")
    entry = {"replication_key": "other", "replication_key_value": 5}
    sync(kind, state={"bookmarks": {"a": entry}})
    entry = {"replication_key": "id", "replication_key_value": bookmark or None}
    sync(kind, state={"bookmarks": {"a": entry}})
    assert starts == [None, bookmark or None]


def test_duplicate_contexts_in_the_state_are_an_error():
    entries = [{"context": {"p": 1}}, {"context": {"p": 1.0}}]
    kind, _ = partitioned_stream(ROWS, partitions=[{"p": 1}])
    _, error = sync_until_error(
        ValueError, kind, state={"bookmarks": {"a": {"partitions": entries}}}
    )
    assert "more than one entry" in str(error)


@both_paths
def test_other_members_of_the_state_are_emitted(on_path):
    """A tap may keep its own keys next to the bookmarks."""
    kind = on_path(stream("a", [{"id": 1}], replication_key="id"))
    output = Output()
    tap = make(kind, output=output)
    tap.state["legacy"] = {"offset": 7}
    tap.sync_all()
    assert output.states[-1]["legacy"] == {"offset": 7}
