"""A child table that is selected again, or for the first time, gets the rows of all parents."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tap_core import Stream, Tap
from tap_core import typing as th
from tests.fivetran.calls import Connector, group_by_table, list_states, make_selection

SCHEMA = th.PropertiesList(
    th.Property("id", th.IntegerType), th.Property("shop", th.IntegerType)
).to_dict()


class Shops(Stream):
    """Two shops, read from the bookmark on."""

    name = "shops"
    primary_keys = ("id",)
    replication_key = "id"
    is_sorted = True
    schema = SCHEMA

    def get_records(self, context: Any) -> Iterator[dict[str, Any]]:
        start = self.get_starting_replication_key_value(context) or 0
        yield from ({"id": number} for number in (1, 2) if number >= start)

    def get_child_context(self, record: Mapping[str, Any], context: Any) -> Any:
        return {"shop": record["id"]}


class Shelves(Stream):
    """One shelf in each shop, without a replication key."""

    name = "shelves"
    parent_stream_type: type[Stream] = Shops
    primary_keys = ("shop",)
    schema = SCHEMA

    def get_records(self, context: Any) -> Iterator[dict[str, Any]]:
        yield {"id": 1}

    def get_child_context(self, record: Mapping[str, Any], context: Any) -> Any:
        return {"shop": record["shop"], "shelf": record["id"]}


class Wares(Shelves):
    """One ware on each shelf."""

    name = "wares"
    parent_stream_type = Shelves


class TapShelves(Tap):
    """A tap of three levels."""

    name = "tap-shelves"

    def discover_streams(self) -> list[Stream]:
        return [Shops(self), Shelves(self), Wares(self)]


def sync(names: Sequence[str], state: Any) -> tuple[dict[str, list[int]], dict[str, Any]]:
    """Sync the tables with these names; return the shops of their rows, and the last state."""
    choice = make_selection({name: name in names for name in ("shops", "shelves", "wares")})
    responses = list(Connector(TapShelves).update(json.dumps(state), choice))
    shops = {
        name: [row["id"] if name == "shops" else row["shop"] for _, row in rows]
        for name, rows in group_by_table(responses).items()
    }
    return shops, list_states(responses)[-1]


def test_child_that_was_not_selected_for_a_while_gets_all_rows() -> None:
    before = {"shops": {"replication_key": "id", "replication_key_value": 0}, "shelves": {}}
    rows, state = sync(["shops"], {"bookmarks": before})
    assert rows == {"shops": [1, 2]}
    rows, state = sync(["shops", "shelves"], state)
    assert rows == {"shops": [2], "shelves": [1, 2]}
    assert sync(["shops", "shelves"], state)[0] == {"shops": [2], "shelves": [2]}


def test_child_that_was_only_read_for_its_own_children_gets_all_rows() -> None:
    rows, state = sync(["shops", "wares"], {})
    assert rows == {"shops": [1, 2], "wares": [1, 2]}
    rows, state = sync(["shops", "shelves", "wares"], state)
    assert rows["shelves"] == [1, 2]
    assert sync(["shops", "shelves"], state)[0] == {"shops": [2], "shelves": [2]}
