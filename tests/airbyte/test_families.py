"""Parent and child streams, each with its own sync mode and state.

A child without a state has to be read for all records of its parent, while its parent is
incremental.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tap_core.protocols.airbyte.catalog import parse_configured_catalog
from tap_core.protocols.airbyte.read_command import read
from tap_core.protocols.airbyte.state import parse_states
from tests.airbyte.configurable_taps import TapShapes

AT_TWO = {"replication_key": "id", "replication_key_value": 2}
DAYS = {
    "partitions": [
        {"context": {"shop": shop}, "replication_key": "day", "replication_key_value": 3}
        for shop in (1, 2)
    ]
}


def read_streams(modes: dict[str, str], states: dict[str, Any]) -> tuple[dict[str, list[Any]], Any]:
    """Read the streams in these modes, from these states; return the rows and last states."""
    entries = [{"stream": {"name": name}, "sync_mode": mode} for name, mode in modes.items()]
    state_messages = [
        {"type": "STREAM", "stream": {"stream_descriptor": {"name": name}, "stream_state": state}}
        for name, state in states.items()
    ]
    catalog = parse_configured_catalog(json.dumps({"streams": entries}), "c")
    written: list[bytes] = []
    read(TapShapes(), catalog, parse_states(json.dumps(state_messages), "s"), written.append, print)
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
def test_full_refresh_child_is_complete_below_an_incremental_parent(
    parent: str, child: str
) -> None:
    """RD6, RD7, ST13: with compiled streams and with overridden hooks."""
    modes = {parent: "incremental", child: "full_refresh"}
    rows, last = read_streams(modes, {parent: AT_TWO, child: {}})
    assert rows == {parent: [{"id": 2}], child: [{"shop": 1}, {"shop": 2}]}
    assert last[parent]["replication_key_value"] == 2


def test_parent_resumes_each_of_its_partitions() -> None:
    """RD6, RD7: a partition without a bookmark is read in full."""
    entry = {"context": {"land": "ch"}, **AT_TWO}
    modes = {"regions": "incremental", "sites": "full_refresh"}
    rows, _ = read_streams(modes, {"regions": {"partitions": [entry]}})
    assert [row["shop"] for row in rows["sites"]] == ["ch1", "ch2", "at1", "at2"]
    assert [(row["land"], row["id"]) for row in rows["regions"]] == [
        ("ch", 2),
        ("at", 1),
        ("at", 2),
    ]


@pytest.mark.parametrize("state", [{}, {"visits": None}])
def test_added_or_reset_child_is_read_from_the_start(state: dict[str, Any]) -> None:
    """ST3, RD8: also for records that its parent sent in an earlier sync."""
    modes = {"shops": "incremental", "visits": "incremental"}
    rows, last = read_streams(modes, {"shops": AT_TWO, **state})
    assert rows["shops"] == [{"id": 2}]
    assert [row["day"] for row in rows["visits"]] == [1, 2, 3, 1, 2, 3]
    assert last["shops"]["replication_key_value"] == 2


def test_child_without_its_parent_ignores_the_parents_state() -> None:
    """RD8, ST13: the parent's state of another sync has no effect."""
    rows, _ = read_streams({"visits": "incremental"}, {"shops": AT_TWO})
    assert [row["day"] for row in rows["visits"]] == [1, 2, 3, 1, 2, 3]


def test_interrupted_child_is_complete_if_its_parent_is_no_longer_in_the_catalog() -> None:
    """ST8: the parent's old state does not show for which shops visits were read."""
    only_shop_two = {"partitions": DAYS["partitions"][1:]}
    states = {"shops": AT_TWO, "visits": only_shop_two}
    rows, _ = read_streams({"visits": "incremental"}, states)
    assert [(row["shop"], row["day"]) for row in rows["visits"]] == [(1, 1), (1, 2), (1, 3), (2, 3)]


def test_child_that_was_not_selected_for_a_while_gets_the_records_in_between() -> None:
    """ST8: its parent has advanced without it, and is not sent again."""
    at_zero = {"replication_key": "id", "replication_key_value": 0}
    _, alone = read_streams({"shops": "incremental"}, {"shops": at_zero, "visits": {}})
    assert alone["shops"] == {**AT_TWO, "skipped_children": ["visits"]}
    _, second = read_streams({"shops": "incremental"}, {**alone, "visits": {}})
    assert second["shops"] == alone["shops"]
    modes = {"shops": "incremental", "visits": "incremental"}
    rows, last = read_streams(modes, {**second, "visits": {}})
    assert rows["shops"] == [{"id": 2}]
    assert [row["day"] for row in rows["visits"]] == [1, 2, 3, 1, 2, 3]
    assert last["shops"] == AT_TWO


def test_child_that_has_no_state_is_not_remembered() -> None:
    """It restarts its parent in any case."""
    _, last = read_streams({"shops": "incremental"}, {"shops": AT_TWO})
    assert last["shops"] == AT_TWO


def test_parent_and_child_with_states_both_resume() -> None:
    """RD7."""
    modes = {"shops": "incremental", "visits": "incremental"}
    rows, _ = read_streams(modes, {"shops": AT_TWO, "visits": DAYS})
    assert rows["shops"] == [{"id": 2}]
    assert [row["day"] for row in rows["visits"]] == [3]


def test_full_refresh_parent_ignores_its_state() -> None:
    """RD6."""
    modes = {"shops": "full_refresh", "shelves": "full_refresh"}
    rows, _ = read_streams(modes, {"shops": AT_TWO})
    assert rows == {"shops": [{"id": 1}, {"id": 2}], "shelves": [{"shop": 1}, {"shop": 2}]}


def test_parent_without_a_state_is_read_from_the_start() -> None:
    """RD8."""
    rows, _ = read_streams(
        {"shops": "incremental", "shelves": "full_refresh"}, {"shelves": {"x": 1}}
    )
    assert rows["shops"] == [{"id": 1}, {"id": 2}]


def test_parent_state_of_another_replication_key_is_ignored() -> None:
    """ST10: a bookmark of a former replication key has no meaning."""
    other = {"replication_key": "at", "replication_key_value": 2}
    rows, _ = read_streams({"shops": "incremental", "shelves": "full_refresh"}, {"shops": other})
    assert rows["shops"] == [{"id": 1}, {"id": 2}]
