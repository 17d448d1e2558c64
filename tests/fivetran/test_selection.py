"""Update with a selection: the tables and columns that are sent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tap_core.protocols.fivetran import proto_messages
from tests.fivetran.calls import Connector, group_by_table, list_states, make_selection
from tests.fivetran.shop import PEOPLE, TapShop
from tests.fivetran.test_schema import InSchema, create_tap

SHOP = Connector(TapShop)
EVERYTHING = {"people": True, "orders": True, "visits": True, "wide": True}


def columns(responses: Any) -> dict[str, set[str]]:
    return {
        name: set().union(*(data for _, data in rows))
        for name, rows in group_by_table(responses).items()
    }


@pytest.mark.parametrize(
    "choices, new_tables, expected",
    [
        (EVERYTHING, False, {"people", "orders", "visits", "wide"}),
        ({**EVERYTHING, "visits": False}, True, {"people", "orders", "wide"}),
        ({"visits": True}, False, {"visits"}),
        ({"visits": True, "wide": False}, True, {"people", "orders", "visits"}),
        ({}, False, set()),
        ({"gone": True}, False, set()),
    ],
)
def test_only_selected_tables_are_sent(choices, new_tables, expected):
    """F19: excluded tables, absent ones, and new ones; a checkpoint is always sent."""
    responses = list(SHOP.update(selection=make_selection(choices, new_tables=new_tables)))
    assert group_by_table(responses).keys() == expected
    assert list_states(responses)


@pytest.mark.parametrize(
    "choices, expected",
    [
        ({"name": True, "is_new": False, "seen_at": False}, {"id", "name"}),
        ({"name": False, "*": True}, {"id", "seen_at", "is_new"}),
        ({"id": False, "*": False}, {"id"}),
        ({}, {"id"}),
    ],
)
def test_selected_columns_and_all_keys_are_sent(choices, expected):
    """F19: the state has the replication key although it is not sent."""
    responses = list(SHOP.update(selection=make_selection({"people": choices})))
    assert columns(responses) == {"people": expected}
    assert list_states(responses)[-1]["bookmarks"]["people"]["replication_key_value"] == (
        f"2024-01-01T00:00:{PEOPLE - 1:02}Z"
    )


def test_table_without_keys_and_selected_columns_sends_nothing():
    """F19: its rows could not be distinguished."""
    choices = {"visits": {"place": False, "count": False, "*": True}}
    assert group_by_table(SHOP.update(selection=make_selection(choices))) == {}


def test_state_of_an_unselected_table_is_kept():
    """F19."""
    old = {"replication_key": "seen_at", "replication_key_value": "2024-01-01T00:00:02Z"}
    state = json.dumps({"bookmarks": {"people": old, "unheard_of": {"x": 1}}})
    responses = list(SHOP.update(state, make_selection({"wide": True})))
    assert group_by_table(responses).keys() == {"wide"}
    assert list_states(responses)[-1]["bookmarks"]["people"] == old
    assert list_states(responses)[-1]["bookmarks"]["unheard_of"] == {"x": 1}


def test_child_of_an_unselected_parent_is_sent():
    responses = list(SHOP.update(selection=make_selection({"orders": True})))
    assert {name: len(rows) for name, rows in group_by_table(responses).items()} == {
        "orders": 2 * PEOPLE
    }


def test_child_selected_later_is_read_for_all_records_of_its_parent():
    first = list(SHOP.update(selection=make_selection({"people": True})))
    later = list(
        SHOP.update(json.dumps(list_states(first)[-1]), make_selection({"people": 1, "orders": 1}))
    )
    sent = {name: len(rows) for name, rows in group_by_table(later).items()}
    assert sent == {"people": 1, "orders": 2 * PEOPLE}  # the record at the bookmark is repeated
    third = list(
        SHOP.update(json.dumps(list_states(later)[-1]), make_selection({"people": 1, "orders": 1}))
    )
    assert {name: len(rows) for name, rows in group_by_table(third).items()} == {
        "people": 1,
        "orders": 2,
    }


@pytest.mark.parametrize(
    "choices, new_schemas, expected",
    [
        ({"x": {"t": True}}, False, {("x", "t")}),
        ({"x": {"t": False, "*": True}}, False, {("x", "u")}),
        ({"x": {"*": True}}, False, {("x", "t"), ("x", "u")}),
        ({"x": {"t": True}}, True, {("x", "t"), ("y", "t")}),
        ({"x": None}, True, {("y", "t")}),
        ({}, True, {("x", "t"), ("x", "u"), ("y", "t")}),
    ],
)
def test_only_selected_schemas_are_sent(choices, new_schemas, expected):
    """F19: excluded schemas, absent ones, and new ones."""
    connector = Connector(create_tap((InSchema, "x-t"), (InSchema, "y-t"), (InSchema, "x-u")))
    schemas = [
        proto_messages.SchemaSelection(
            included=named is not None,
            schema_name=schema,
            tables=[
                proto_messages.TableSelection(
                    included=on, table_name=table, include_new_columns=True
                )
                for table, on in (named or {}).items()
                if table != "*"
            ],
            include_new_tables=bool(named and named.get("*")),
        )
        for schema, named in choices.items()
    ]
    with_schema = proto_messages.TablesWithSchema(schemas=schemas, include_new_schemas=new_schemas)
    responses = connector.update(selection=proto_messages.Selection(with_schema=with_schema))
    records = [record for response in responses for record in response.records.records]
    assert {(record.schema_name, record.table_name) for record in records} == expected


def test_columns_made_by_a_stream_map_can_be_deselected():
    maps = {"visits": {"double": "int(count) * 2", "place": "place + '!'"}}
    connector = Connector(TapShop, stream_maps=maps)
    choices = {"visits": {"double": True, "place": True, "*": False}}
    [(_, row), *_] = group_by_table(connector.update(selection=make_selection(choices)))["visits"]
    assert row == {"double": 8, "place": "here!"}


def test_one_of_two_tables_mapped_from_a_stream_can_be_deselected():
    maps = {"copy": {"__source__": "visits", "place": None}}
    connector = Connector(TapShop, stream_maps=maps)
    names = {table.name for table in connector.call("Schema").without_schema.tables}
    assert {"visits", "copy"} <= names
    sent = group_by_table(
        connector.update(selection=make_selection({"copy": True, "visits": False}))
    )
    assert sent == {"copy": [("UPSERT", {"count": 4}), ("UPSERT", {"count": 5})]}


def test_empty_selection_selects_everything():
    assert (
        group_by_table(SHOP.update(selection=proto_messages.Selection())).keys()
        == EVERYTHING.keys()
    )
