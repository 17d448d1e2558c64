"""Warnings for a state from which no stream, or not a selected stream, can resume."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from tap_core.protocols.airbyte.catalog import parse_configured_catalog
from tap_core.protocols.airbyte.read_command import read
from tap_core.protocols.airbyte.state import parse_states
from tap_core.sync.sync_warnings import find_unused_state
from tests.airbyte.configurable_taps import TapShapes
from tests.fivetran.calls import Connector
from tests.fivetran.shop import TapShop
from tests.sync.syncing import FixedClockTap, make, stream

FOREIGN = (
    "The state has bookmarks of other streams only ('table0', 'table1', 'table2', 'table3',"
    " 'table4' and 2 more): all streams are read in full. Check that it is the state of this tap."
)
WITHOUT_BOOKMARKS = (
    "The state has no bookmarks, but 'users': all streams are read in full. Check that it is the"
    " state of this tap."
)
OTHER_KEY = (
    "The bookmarks in the state have other replication keys than the streams, which are read in"
    " full: 'users' ('at', now 'id')."
)
USERS = stream("users", [{"id": 1}], replication_key="id")
BOOKMARK = {"replication_key": "id", "replication_key_value": 1}
OTHER = {"replication_key": "at", "replication_key_value": "2024"}


def list_warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    result = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    return [line for line in result if "read in full" in line]


@pytest.mark.parametrize(
    ("state", "warning"),
    [
        ({"bookmarks": {f"table{number}": BOOKMARK for number in range(7)}}, FOREIGN),
        ({"users": {"id": 1}, "currently_syncing": "users"}, WITHOUT_BOOKMARKS),
        ({"bookmarks": {"users": OTHER}}, OTHER_KEY),
        ({"bookmarks": {"users": {"partitions": [{"context": {"a": 1}, **OTHER}]}}}, OTHER_KEY),
        ({}, None),
        ({"bookmarks": {}, "currently_syncing": "users"}, None),
        ({"bookmarks": {"gone": {}}}, None),
        ({"bookmarks": {"users": {}, "gone": OTHER}}, None),
        ({"bookmarks": {"users": BOOKMARK}}, None),
        ({"bookmarks": {"users": {"partitions": [OTHER, BOOKMARK]}}}, None),
    ],
)
def test_state_without_effect_is_one_warning(
    state: dict[str, Any], warning: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    make(USERS, state=state).sync_all()
    assert list_warnings(caplog) == ([warning] if warning else [])


@pytest.mark.parametrize(
    "bookmark",
    [
        {"replication_key": ["id"]},
        {"partitions": ["x", None]},
        {"replication_key": 5, "partitions": [OTHER]},
    ],
)
def test_search_for_unused_bookmarks_accepts_a_bookmark_of_any_form(bookmark: Any) -> None:
    list(find_unused_state(make(USERS, state={"bookmarks": {"users": bookmark}})))


def test_state_that_the_tap_uses_causes_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    """A full-table stream needs no bookmark, and a tap may read other keys than ``bookmarks``."""

    class Converting(FixedClockTap):
        """A tap that converts the states of its earlier versions."""

        kinds = (USERS,)

        def load_state(self, state: dict[str, Any]) -> None:
            super().load_state(state)
            self.state["bookmarks"] = {"users": state["positions"]["users"]}

    Converting(state={"positions": {"users": BOOKMARK}}).sync_all()
    make(stream("users", [{"id": 1}]), state={"bookmarks": {"users": OTHER}}).sync_all()
    sharing = make(USERS)
    sharing.has_shared_state = True
    sharing.load_state({"position": 5})
    sharing.sync_all()
    assert list_warnings(caplog) == []


@pytest.mark.parametrize(
    ("name", "mode", "warning"),
    [
        ("gone", "incremental", "The state has bookmarks of other streams only ('gone')"),
        ("shops", "incremental", "'shops' ('at', now 'id')."),
        ("shops", "full_refresh", ""),
    ],
)
def test_airbyte_state_without_effect_is_one_warning(
    name: str, mode: str, warning: str, caplog: pytest.LogCaptureFixture
) -> None:
    entry = {
        "stream": {"name": "shops", "supported_sync_modes": [mode]},
        "sync_mode": mode,
        "destination_sync_mode": "append",
    }
    state = {
        "type": "STREAM",
        "stream": {"stream_descriptor": {"name": name}, "stream_state": OTHER},
    }
    catalog = parse_configured_catalog(json.dumps({"streams": [entry]}), "catalog")
    read(TapShapes(), catalog, parse_states(json.dumps(state), "state"), lambda _line: None, print)
    result = list_warnings(caplog)
    assert len(result) == bool(warning)
    assert warning in "".join(result)


@pytest.mark.parametrize(
    ("state", "warning"),
    [
        ({"bookmarks": {"gone": OTHER}}, "The state has bookmarks of other streams only ('gone')"),
        ({"cursor": 5}, "The state has no bookmarks, but 'cursor': all streams are read in full."),
        ({}, ""),
    ],
)
def test_fivetran_state_without_effect_is_one_warning(
    state: dict[str, Any], warning: str, caplog: pytest.LogCaptureFixture
) -> None:
    list(Connector(TapShop).update(json.dumps(state)))
    result = list_warnings(caplog)
    assert len(result) == bool(warning)
    assert warning in "".join(result)
