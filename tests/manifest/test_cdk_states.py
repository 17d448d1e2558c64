"""States stored by airbyte-cdk and by custom cursors, translated to states of this SDK."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from tap_core.exceptions import StateFileError
from tap_core.manifest.state_translation import (
    find_partition_field,
    from_cdk_state,
    to_cursor_state,
    to_parent_state,
    to_state_entry,
    translate_custom_state,
)
from tap_core.manifest.tap import make_tap_class
from tests.http.server import Reply, page, serving
from tests.manifest.running import DATE_CURSOR, list_paths, manifest, run, stream

NONE: dict[str, Any] = {}
CURSOR = (
    DATE_CURSOR
    + """\
  start_time_option: {type: RequestOption, inject_into: request_parameter, field_name: since}
  end_time_option: {type: RequestOption, inject_into: request_parameter, field_name: until}
"""
)
KINDS = "partition_router: {type: ListPartitionRouter, cursor_field: kind, values: [a, b]}"


def bookmark(value: Any) -> dict[str, Any]:
    """Return a stream state with this bookmark."""
    return {"replication_key": "at", "replication_key_value": value}


def completed_windows(*runs: tuple[str, str, str]) -> dict[str, Any]:
    """Return a date-range state of completed windows."""
    names = ("start", "end", "most_recent_cursor_value")
    return {
        "state_type": "date-range",
        "slices": [dict(zip(names, run, strict=True)) for run in runs],
    }


@pytest.mark.parametrize(
    ("stored", "ours"),
    [
        (NONE, NONE),
        ({"__ab_no_cursor_state_message": True}, NONE),
        ({"__ab_full_refresh_sync_complete": True}, NONE),
        ({"at": "2024-01-05"}, bookmark("2024-01-05")),
        ({"at": "1704207600"}, bookmark("1704207600")),
        ({"at": ""}, NONE),
        (bookmark("2024-01-05"), bookmark("2024-01-05")),
        ({"partitions": [{"context": {"a": 1}}]}, {"partitions": [{"context": {"a": 1}}]}),
        ({"something": "else"}, {"something": "else"}),
    ],
)
def test_state_without_slices_becomes_the_bookmark(stored: dict[str, Any], ours: dict[str, Any]):
    assert from_cdk_state(stored, cursor_field="at", partition_field=None) == ours


def test_windows_after_a_gap_are_ignored():
    """The end of the first contiguous windows is the bookmark."""
    stored = completed_windows(("03", "04", "04"), ("01", "02", "01-15"))
    assert from_cdk_state(stored, cursor_field="at", partition_field=None) == bookmark("01-15")


def test_each_slice_keeps_its_cursor_and_context():
    stored = {
        "use_global_cursor": False,
        "states": [
            {"partition": {"id": 1, "parent_slice": {}}, "cursor": {"at": "05"}},
            {"partition": {"id": 2, "parent_slice": {"of": 7, "parent_slice": {}}}, "cursor": {}},
            {"partition": {"id": 3}, "cursor": completed_windows(("01", "02", "02"))},
        ],
        "parent_state": {"parents": {"at": "04"}},
    }
    assert from_cdk_state(stored, cursor_field="at", partition_field="id") == {
        "partitions": [
            {"context": {"id": 1}, **bookmark("05")},
            {"context": {"id": 2, "parent_slice": {"of": 7}}},
            {"context": {"id": 3}, **bookmark("02")},
        ],
        "parent_state": {"parents": {"at": "04"}},
    }


@pytest.mark.parametrize("slices_also", [{}, {"states": []}])
def test_global_cursor_becomes_the_bookmark_of_the_stream(slices_also: dict[str, Any]):
    """airbyte-cdk has stored no ``states`` with a global cursor since version 6."""
    stored = {"use_global_cursor": True, "state": {"at": "05"}, **slices_also}
    translated = from_cdk_state(stored, cursor_field="at", partition_field="id")
    assert translated == {**bookmark("05"), "lookback_window": 0}


def test_union_of_routers_has_the_partition_field_of_legacy_states():
    inner = {"type": "ListPartitionRouter", "values": ["a"], "cursor_field": "id"}
    union = {"partition_field": "id", "partition_routers": [inner, inner]}
    assert find_partition_field({"retriever": {"partition_router": union}}) == "id"


def test_legacy_state_by_parent_keys_becomes_partitions():
    stored = {"13": {"at": "05"}, "14": {"at": "06"}}
    assert from_cdk_state(stored, cursor_field="at", partition_field="id") == {
        "partitions": [
            {"context": {"id": "13"}, **bookmark("05")},
            {"context": {"id": "14"}, **bookmark("06")},
        ]
    }


def test_state_of_a_stream_without_a_cursor_is_ignored():
    assert from_cdk_state({"at": "05"}, cursor_field=None, partition_field=None) == {}


# Custom cursors

MORE = {"at": 3, "prior_state": {"at": 1}}
NESTED = {"at": {"7": 3}}


@pytest.mark.parametrize(
    ("cursor_state", "state_entry"),
    [
        (NONE, NONE),
        ({"at": 3}, bookmark(3)),
        ({"at": None}, NONE),
        (MORE, {**bookmark(3), "cursor_state": MORE}),
        (NESTED, {"cursor_state": NESTED}),
        ({"7": {"at": 3}}, {"cursor_state": {"7": {"at": 3}}}),
    ],
)
def test_custom_cursor_state_survives_a_round_trip(
    cursor_state: dict[str, Any], state_entry: dict[str, Any]
):
    assert to_state_entry(cursor_state, "at") == state_entry
    assert translate_custom_state(cursor_state, "at", by_slices=True) == state_entry
    assert translate_custom_state(state_entry, "at", by_slices=True) == state_entry
    assert to_cursor_state(state_entry, "at") == {
        name: value for name, value in cursor_state.items() if value is not None
    }
    assert to_parent_state(state_entry, "at") == to_cursor_state(state_entry, "at")


def test_slices_keep_the_states_of_their_custom_cursors():
    stored = {
        "states": [{"partition": {"a": 1, "parent_slice": {}}, "cursor": MORE}],
        "state": {"at": 9},
        "use_global_cursor": False,
    }
    ours = translate_custom_state(stored, "at", by_slices=True)
    assert ours == {"partitions": [{"context": {"a": 1}, **bookmark(3), "cursor_state": MORE}]}
    parent_state = to_parent_state(ours, "at")
    assert parent_state == {"states": [{"partition": {"a": 1}, "cursor": MORE}]}
    assert translate_custom_state(parent_state, "at", by_slices=True) == ours
    assert translate_custom_state({**stored, "use_global_cursor": True}, "at", by_slices=True) == {
        **ours,
        **bookmark(9),
    }
    assert translate_custom_state(stored, "at", by_slices=False) == {"cursor_state": stored}


def test_state_without_a_position_is_empty():
    assert (
        translate_custom_state({"__ab_no_cursor_state_message": True}, "at", by_slices=False) == {}
    )
    assert to_parent_state(None, "at") == {}
    assert to_cursor_state({"replication_key": "other", "replication_key_value": 1}, "at") == {}


def test_slices_with_a_global_cursor_share_the_end_of_the_first_slice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Records that change while other slices are read are read by the next run."""
    days = (dt.datetime(2024, 1, day, tzinfo=dt.timezone.utc) for day in range(10, 30))
    monkeypatch.setattr("tap_core.streams.window_reader.utc_now", lambda: next(days))
    options = f"{CURSOR}  global_substream_cursor: true\n"
    declared = stream("items", "/{{ stream_partition.kind }}", retriever=KINDS, options=options)
    with serving() as server:
        server.answers_by(
            lambda request: page({"at": f"2024-01-{'08' if request.path == '/a' else 11}"})
        )
        result = run(manifest(tmp_path, declared), server)
        state = {"use_global_cursor": True, "state": {"at": "2024-01-05"}}
        state["lookback_window"] = 90_000
        resumed_run = run(
            manifest(tmp_path, declared), server, state={"bookmarks": {"items": state}}
        )
    first, second, *resumed = list_paths(server)
    assert (
        first.partition("?")[2] == second.partition("?")[2] == ("since=2024-01-01&until=2024-01-10")
    )
    assert result.state["bookmarks"]["items"]["replication_key_value"] == "2024-01-10"
    assert [request.partition("&")[0] for request in resumed] == [
        "/a?since=2024-01-03",
        "/b?since=2024-01-03",
    ]
    assert "lookback_window" not in resumed_run.state["bookmarks"]["items"]


@pytest.mark.parametrize(
    ("stored", "since"),
    [
        ({"use_global_cursor": True, "state": {"at": "2024-01-20"}}, "2024-01-20"),
        (
            {"use_global_cursor": True, "state": {"at": "2024-01-20"}, "lookback_window": 90_000},
            "2024-01-18",
        ),
        ({"at": "2024-01-20"}, "2024-01-20"),
    ],
)
def test_slices_resume_from_the_cursor_that_airbyte_cdk_stored_for_all_of_them(
    tmp_path: Path, stored: dict[str, Any], since: str
):
    """airbyte-cdk stores one cursor for a stream with more than 10,000 slices."""
    declared = stream("items", "/{{ stream_partition.kind }}", retriever=KINDS, options=CURSOR)
    path = manifest(tmp_path, declared)
    with serving() as server:
        server.answers_by(lambda request: page(*[{"at": "2024-01-22"}] * (request.path == "/a")))
        result = run(path, server, state={"bookmarks": {"items": stored}})
        run(path, server, state=result.state)
    begins = [(request.path, request.query["since"][0]) for request in server.requests]
    assert begins == [("/a", since), ("/b", since), ("/a", "2024-01-22"), ("/b", since)]
    assert "lookback_window" not in result.state["bookmarks"]["items"]


def test_other_slices_start_at_the_common_cursor_after_an_interrupted_sync(tmp_path: Path):
    declared = stream("items", "/{{ stream_partition.kind }}", retriever=KINDS, options=CURSOR)
    path = manifest(tmp_path, declared)
    stored = {"use_global_cursor": True, "state": {"at": "2024-01-20"}}
    with serving() as server:
        server.answers_by(lambda request: Reply("", 401) if request.path == "/b" else page())
        result = run(path, server, state={"bookmarks": {"items": stored}}, fails=True)
        server.requests.clear()
        run(path, server, state=result.state, fails=True)
    assert [request.query["since"] for request in server.requests] == [
        ["2024-01-20"],
        ["2024-01-20"],
    ]


def test_lookback_of_the_cursor_is_added_to_that_of_the_state(tmp_path: Path):
    """As in airbyte-cdk: records of other slices may have changed during the last sync."""
    options = f"{CURSOR}  global_substream_cursor: true\n  lookback_window: P1D\n"
    declared = stream("items", "/{{ stream_partition.kind }}", retriever=KINDS, options=options)
    state = {"use_global_cursor": True, "state": {"at": "2024-01-20"}, "lookback_window": 86_400}
    with serving() as server:
        server.answers(page())
        run(manifest(tmp_path, declared), server, state={"bookmarks": {"items": state}})
    assert [request.query["since"] for request in server.requests] == [["2024-01-18"]] * 2


@pytest.mark.parametrize(
    ("bookmarks", "message"),
    [
        ([1], "State, bookmarks: expected an object, found list"),
        ({"items": 5}, "State, bookmarks.items: expected an object, found int"),
        ({"items": [1]}, "State, bookmarks.items: expected an object, found list"),
        ({"items": {"partitions": [{}, None]}}, "items.partitions.1: expected an object"),
        ({"items": {"partitions": [{"context": None}]}}, "items.partitions.0.context: expected"),
    ],
)
def test_bookmark_of_another_type_is_an_error(tmp_path: Path, bookmarks: Any, message: str):
    tap = make_tap_class(manifest(tmp_path, stream("items", "/a", options=CURSOR)))
    with pytest.raises(StateFileError, match=message):
        tap(config={"url": "http://127.0.0.1"}, state={"bookmarks": bookmarks})
