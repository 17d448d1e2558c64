"""Taps whose streams have different cursors, keys, nested columns and children.

Every stream yields all of its rows from the bookmark on, so that a test sees the starting value.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from tap_core import Stream, Tap
from tap_core import typing as th

__all__ = ["TapShapes", "TapTables"]

PEOPLE = [
    {
        "id": number,
        "at": f"2024-01-0{number}T00:00:00Z",
        "name": f"n{number}",
        "home": {"city": "Bern", "geo": {"lat": 1.5, "lon": 2.5}, "note": None},
        "pets": [{"kind": "cat", "name": "Tom"}, {"kind": "dog", "name": "Rex"}],
        "more": "undeclared",
    }
    for number in (1, 2, 3)
]


SHOPS = [1, 2]


class People(Stream):
    """An incremental stream with nested objects and lists."""

    name = "people"
    primary_keys = ("id",)
    replication_key = "at"
    is_sorted = True
    schema = th.PropertiesList(
        th.Property("id", th.IntegerType, required=True),
        th.Property("at", th.DateTimeType, required=True),
        th.Property("name", th.StringType),
        th.Property(
            "home",
            th.ObjectType(
                th.Property("city", th.StringType),
                th.Property(
                    "geo",
                    th.ObjectType(
                        th.Property("lat", th.NumberType), th.Property("lon", th.NumberType)
                    ),
                ),
                th.Property("note", th.StringType),
            ),
        ),
        th.Property(
            "pets",
            th.ArrayType(
                th.ObjectType(
                    th.Property("kind", th.StringType), th.Property("name", th.StringType)
                )
            ),
        ),
    ).to_dict()

    def get_records(self, context: Any) -> Any:
        since = self.get_starting_replication_key_value(context) or ""
        for row in PEOPLE:
            if row["at"] >= since:
                yield {**row, "home": {**row["home"], "geo": dict(row["home"]["geo"])}}


class Open(People):
    """Stream with the rows of its base class and a schema that allows undeclared properties."""

    name = "open"
    schema = {**People.schema, "additionalProperties": True}


class Hooked(People):
    """The same stream with an overridden state hook."""

    name = "hooked"

    def _increment_stream_state(self, latest_record: Any, *, context: Any = None) -> None:
        super()._increment_stream_state(latest_record, context=context)


class Spoken(People):
    """The same stream with an overridden message hook."""

    name = "spoken"

    def _generate_record_messages(self, record: Any) -> Any:
        yield from super()._generate_record_messages(record)


class Colours(Stream):
    """A stream without a cursor."""

    name = "colours"
    schema = th.PropertiesList(th.Property("code", th.StringType)).to_dict()

    def get_records(self, context: Any) -> Any:
        yield {"code": "r"}


class Changes(Stream):
    """A log-based stream, whose source keeps its position."""

    name = "changes"
    forced_replication_method = "LOG_BASED"
    schema = th.PropertiesList(th.Property("op", th.StringType)).to_dict()

    def __init__(self, tap: Any) -> None:
        super().__init__(tap)
        self.forced_replication_method = "LOG_BASED"

    def get_records(self, context: Any) -> Any:
        yield {"op": "i"}


class Shops(Stream):
    """An incremental stream, the parent of visits and of shelves."""

    name = "shops"
    primary_keys = ("id",)
    replication_key = "id"
    schema = th.PropertiesList(th.Property("id", th.IntegerType)).to_dict()

    def get_records(self, context: Any) -> Any:
        since = self.get_starting_replication_key_value(context) or 0
        yield from ({"id": number} for number in SHOPS if number >= since)

    def get_child_context(self, record: Any, context: Any) -> Any:
        return {"shop": record["id"]}


class Stands(Shops):
    """The same stream with an overridden state hook; the parent of wares."""

    name = "stands"

    def _increment_stream_state(self, latest_record: Any, *, context: Any = None) -> None:
        super()._increment_stream_state(latest_record, context=context)


class Visits(Stream):
    """An incremental child stream."""

    name = "visits"
    parent_stream_type = Shops
    replication_key = "day"
    schema = th.PropertiesList(
        th.Property("shop", th.IntegerType), th.Property("day", th.IntegerType)
    ).to_dict()

    def get_records(self, context: Any) -> Any:
        since = self.get_starting_replication_key_value(context) or 0
        yield from ({"day": day} for day in (1, 2, 3) if day >= since)


class Shelves(Stream):
    """A child stream without a state."""

    name = "shelves"
    parent_stream_type = Shops
    state_partitioning_keys = ()
    schema = th.PropertiesList(th.Property("shop", th.CustomType({}))).to_dict()

    def get_records(self, context: Any) -> Any:
        yield {"shop": context["shop"]}


class Wares(Shelves):
    """The same child stream, with stands as its parent."""

    name = "wares"
    parent_stream_type = Stands


class Regions(Stream):
    """An incremental stream with two partitions, the parent of sites."""

    name = "regions"
    replication_key = "id"
    partitions = [{"land": "ch"}, {"land": "at"}]
    schema = th.PropertiesList(
        th.Property("land", th.StringType), th.Property("id", th.IntegerType)
    ).to_dict()

    def get_records(self, context: Any) -> Any:
        since = self.get_starting_replication_key_value(context) or 0
        yield from ({"id": number} for number in SHOPS if number >= since)

    def get_child_context(self, record: Any, context: Any) -> Any:
        return {"shop": f"{context['land']}{record['id']}"}


class Sites(Shelves):
    """A child stream without a state, whose parent has partitions."""

    name = "sites"
    parent_stream_type = Regions


class TapShapes(Tap):
    name = "tap-shapes"
    config_jsonschema = {"properties": {}}

    def discover_streams(self) -> Any:
        alone = (People, Open, Hooked, Spoken, Colours, Changes)
        families = (Shops, Visits, Shelves, Stands, Wares, Regions, Sites)
        return [kind(self) for kind in (*alone, *families)]


def TapTables(path: str, *, discovers_once: bool = False) -> Tap:  # noqa: N802 - a tap
    """Return a tap of the tables of a SQLite file.

    SQLAlchemy, an extra, is imported late. Many database taps have their own catalog, which ignores
    a given one.
    """
    from tap_core.sql import SQLStream, SQLTap

    class Table(SQLStream):
        supports_nulls_first = True

    class Tables(SQLTap):
        name = "tap-tables"
        default_stream_class = Table
        config_jsonschema = {"properties": {"sqlalchemy_url": {"type": "string"}}}

    class TablesOnce(Tables):
        @cached_property
        def catalog_dict(self) -> dict[str, Any]:
            entries = self.tap_connector.discover_catalog_entries()
            for entry in entries:
                entry["metadata"][-1]["metadata"]["selected-by-default"] = True
            return {"streams": entries}

    kind = TablesOnce if discovers_once else Tables
    return kind(config={"sqlalchemy_url": f"sqlite:///{path}"})
