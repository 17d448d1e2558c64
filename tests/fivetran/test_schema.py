"""The Schema call: a tap's streams as tables."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tap_core import Stream, Tap
from tap_core.exceptions import DiscoveryError
from tap_core.protocols.fivetran.enums import DataType
from tests.fivetran.calls import Connector, group_by_table
from tests.fivetran.shop import TapShop


class Rows(Stream):
    schema = {
        "properties": {
            "id": {"type": "integer"},
            "price": {"type": "string", "format": "x-singer.decimal", "precision": 9, "scale": 3},
            "place": {"type": "object", "properties": {"city": {"type": "string"}}},
        }
    }
    primary_keys = ("id",)

    def get_records(self, context: Any):
        yield {"id": 1, "price": "1.5", "place": {"city": "Rome"}}


class InSchema(Rows):
    @property
    def namespace(self) -> str:
        return self.name.partition("-")[0]

    @property
    def name_in_namespace(self) -> str:
        return self.name.partition("-")[2]


def create_tap(*streams: tuple[type[Stream], str]) -> type[Tap]:
    class TapOf(Tap):
        name = "tap-of"

        def discover_streams(self):
            return [kind(self, name=name) for kind, name in streams]

    return TapOf


def test_schema_lists_tables_with_types_keys_and_digits():
    """F10: the answer is the same each time."""
    first, second = (
        Connector(create_tap((Rows, "b"), (Rows, "a"))).call("Schema") for _ in range(2)
    )
    assert first == second
    assert not first.selection_not_supported
    assert [table.name for table in first.without_schema.tables] == ["a", "b"]
    [identity, price, place] = first.without_schema.tables[0].columns
    assert (identity.name, identity.type, identity.primary_key) == ("id", DataType.LONG, True)
    assert (price.params.decimal.precision, price.params.decimal.scale) == (9, 3)
    assert (place.type, place.HasField("params")) == (DataType.JSON, False)


def test_tap_can_disable_table_selection():
    """F10: in the form and in the answer to Schema."""

    class TapWhole(create_tap((Rows, "a"))):
        selection_not_supported = True

    connector = Connector(TapWhole)
    assert connector.call("Schema").selection_not_supported
    form = connector.call("ConfigurationForm")
    assert not form.table_selection_supported
    assert not form.schema_selection_supported
    assert Connector(create_tap((Rows, "a"))).call("ConfigurationForm").table_selection_supported


def test_tables_are_grouped_by_schema_if_every_stream_has_one():
    """F10, F13: every record names its schema."""
    connector = Connector(create_tap((InSchema, "x-t"), (InSchema, "y-t"), (InSchema, "x-u")))
    answer = connector.call("Schema").with_schema
    tables = {schema.name: [table.name for table in schema.tables] for schema in answer.schemas}
    assert tables == {"x": ["t", "u"], "y": ["t"]}
    records = [r for response in connector.update() for r in response.records.records]
    assert {(r.schema_name, r.table_name) for r in records} == {("x", "t"), ("x", "u"), ("y", "t")}


def test_tables_have_stream_names_unless_every_stream_has_a_schema():
    connector = Connector(create_tap((InSchema, "x-t"), (Rows, "y")))
    assert [table.name for table in connector.call("Schema").without_schema.tables] == ["x-t", "y"]
    records = [r for response in connector.update() for r in response.records.records]
    assert not any(record.HasField("schema_name") for record in records)


def test_tables_with_equal_names_in_a_schema_get_stream_names():
    class Alike(InSchema):
        namespace = "s"
        name_in_namespace = "t"

    answer = Connector(create_tap((Alike, "x"), (Alike, "y"))).call("Schema").with_schema
    assert [table.name for table in answer.schemas[0].tables] == ["x", "y"]


def test_stream_maps_and_flattening_apply_to_schema_and_records():
    maps = {"a": {"__alias__": "c", "cents": "int(id) * 100", "price": None}}
    connector = Connector(
        create_tap((Rows, "a")),
        stream_maps=maps,
        flattening_enabled="true",
        flattening_max_depth="2",
    )
    [table] = connector.call("Schema").without_schema.tables
    assert (table.name, [column.name for column in table.columns]) == (
        "c",
        ["id", "place__city", "cents"],
    )
    sent = group_by_table(connector.update())
    assert sent == {"c": [("UPSERT", {"id": 1, "place__city": "Rome", "cents": 100})]}


def test_stream_maps_with_one_alias_for_two_streams_are_refused():
    maps = {"a": {"__alias__": "c"}, "b": {"__alias__": "c"}}
    connector = Connector(create_tap((Rows, "a"), (Rows, "b")), stream_maps=json.dumps(maps))
    with pytest.raises(DiscoveryError, match="2 tables are called 'c'"):
        connector.call("Schema")


def test_stream_not_selected_by_default_is_listed_but_not_sent():
    class Seldom(Rows):
        selected_by_default = False

    connector = Connector(create_tap((Rows, "a"), (Seldom, "b")))
    assert [table.name for table in connector.call("Schema").without_schema.tables] == ["a", "b"]
    assert group_by_table(connector.update()).keys() == {"a"}


def test_sdc_columns_are_not_in_the_schema():
    """F11."""
    answer = Connector(TapShop).call("Schema").without_schema
    names = {column.name for table in answer.tables for column in table.columns}
    assert not any(name.startswith("_sdc") for name in names)
