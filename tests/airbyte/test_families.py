"""Parents and children, each in its own mode and with a state of its own, or none.

A child that begins has to see all of its parent's records, and its parent goes on from where it
was: both are what the protocol says of a stream.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tap_core.protocols.airbyte.read import ReadRequest, read
from tests.airbyte.shapes import TapShapes

AT_TWO = {"replication_key": "id", "replication_key_value": 2}
DAYS = {
    "partitions": [
        {"context": {"shop": shop}, "replication_key": "day", "replication_key_value": 3}
        for shop in (1, 2)
    ]
}


def told(modes: dict[str, str], states: dict[str, Any]) -> tuple[dict[str, list[Any]], Any]:
    """Read the streams in these modes, from these states; return the rows and last states."""
    entries = [{"stream": {"name": name}, "sync_mode": mode} for name, mode in modes.items()]
    given = [
        {"type": "STREAM", "stream": {"stream_descriptor": {"name": name}, "stream_state": state}}
        for name, state in states.items()
    ]
    catalog = json.dumps({"streams": entries}).encode()
    request = ReadRequest.of(catalog, json.dumps(given).encode(), sources=("c", "s"))
    written: list[bytes] = []
    read(TapShapes(), request, written.append)
    rows: dict[str, list[Any]] = {name: [] for name in modes}
    last: dict[str, Any] = {}
    for message in map(json.loads, b"".join(written).splitlines()):
        if message["type"] == "RECORD":
            rows[message["record"]["stream"]].append(message["record"]["data"])
        elif message["type"] == "STATE":
            state = message["state"]["stream"]
            last[state["stream_descriptor"]["name"]] = state["stream_state"]
    return rows, last


@pytest.mark.parametrize(("parent", "child"), [("shops", "shelves"), ("stands", "wares")])
def test_a_child_in_full_has_all_and_its_parent_what_is_new(parent: str, child: str) -> None:
    """RD6, RD7, ST13: whether the parent's records go through hooks or not."""
    modes = {parent: "incremental", child: "full_refresh"}
    rows, last = told(modes, {parent: AT_TWO, child: {}})
    assert rows == {parent: [{"id": 2}], child: [{"shop": 1}, {"shop": 2}]}
    assert last[parent]["replication_key_value"] == 2


def test_a_parent_goes_on_in_each_of_its_partitions() -> None:
    """RD6, RD7: a partition without a bookmark is new."""
    entry = {"context": {"land": "ch"}, **AT_TWO}
    modes = {"regions": "incremental", "sites": "full_refresh"}
    rows, _ = told(modes, {"regions": {"partitions": [entry]}})
    assert [row["shop"] for row in rows["sites"]] == ["ch1", "ch2", "at1", "at2"]
    assert [(row["land"], row["id"]) for row in rows["regions"]] == [
        ("ch", 2),
        ("at", 1),
        ("at", 2),
    ]


@pytest.mark.parametrize("state", [{}, {"visits": None}])
def test_a_child_that_was_added_or_reset_begins_at_its_beginning(state: dict[str, Any]) -> None:
    """ST3, RD8: also below records that its parent had sent already."""
    modes = {"shops": "incremental", "visits": "incremental"}
    rows, last = told(modes, {"shops": AT_TWO, **state})
    assert rows["shops"] == [{"id": 2}]
    assert [row["day"] for row in rows["visits"]] == [1, 2, 3, 1, 2, 3]
    assert last["shops"]["replication_key_value"] == 2


def test_a_child_alone_begins_at_its_beginning_whatever_its_parent_s_state() -> None:
    """RD8, ST13: a parent's state from another sync changes nothing."""
    rows, _ = told({"visits": "incremental"}, {"shops": AT_TWO})
    assert [row["day"] for row in rows["visits"]] == [1, 2, 3, 1, 2, 3]


def test_where_all_have_a_state_all_go_on() -> None:
    """RD7."""
    modes = {"shops": "incremental", "visits": "incremental"}
    rows, _ = told(modes, {"shops": AT_TWO, "visits": DAYS})
    assert rows["shops"] == [{"id": 2}]
    assert [row["day"] for row in rows["visits"]] == [3]


def test_a_parent_in_full_sends_all() -> None:
    """RD6."""
    modes = {"shops": "full_refresh", "shelves": "full_refresh"}
    rows, _ = told(modes, {"shops": AT_TWO})
    assert rows == {"shops": [{"id": 1}, {"id": 2}], "shelves": [{"shop": 1}, {"shop": 2}]}


def test_a_parent_without_a_state_sends_all() -> None:
    """RD8."""
    rows, _ = told({"shops": "incremental", "shelves": "full_refresh"}, {"shelves": {"x": 1}})
    assert rows["shops"] == [{"id": 1}, {"id": 2}]


def test_a_parent_by_another_key_sends_all() -> None:
    """ST10: what was kept by a key that is none any more says nothing."""
    other = {"replication_key": "at", "replication_key_value": 2}
    rows, _ = told({"shops": "incremental", "shelves": "full_refresh"}, {"shops": other})
    assert rows["shops"] == [{"id": 1}, {"id": 2}]
