"""A small tap with a stream of each kind; also a program: ``shop.py --port 0``."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import Any

from tap_core import Stream, Tap
from tap_core import typing as th

PEOPLE = 6


class People(Stream):
    """A sorted incremental stream that repeats the record at its bookmark."""

    name = "people"
    primary_keys = ("id",)
    replication_key = "seen_at"
    is_sorted = True
    schema = th.PropertiesList(
        th.Property("id", th.IntegerType),
        th.Property("name", th.StringType),
        th.Property("seen_at", th.DateTimeType),
        th.Property("is_new", th.BooleanType),
        th.Property("_sdc_deleted_at", th.DateTimeType),
    ).to_dict()

    def get_records(self, context: Any) -> Iterable[dict[str, Any]]:
        start = self.get_starting_replication_key_value(context) or ""
        for number in range(self.config["people"]):
            seen_at = f"2024-01-01T00:00:{number:02}Z"
            if seen_at >= start:
                yield {"id": number, "name": f"p{number}", "seen_at": seen_at, "is_new": True}
                time.sleep(float(self.config["pause"]))
            if number == self.config.get("fails_after"):
                raise RuntimeError("The source is broken for good.")

    def get_child_context(self, record: Any, context: Any) -> dict[str, Any]:
        return {"person": record["id"]}


class Orders(Stream):
    """A child, with a composite key."""

    name = "orders"
    parent_stream_type = People
    primary_keys = ("person", "number")
    schema = th.PropertiesList(
        th.Property("person", th.IntegerType),
        th.Property("number", th.IntegerType),
        th.Property("lines", th.ArrayType(th.StringType)),
    ).to_dict()

    def get_records(self, context: Any) -> Iterable[dict[str, Any]]:
        for number in range(2):
            yield {"number": number, "lines": ["a", "b"]}


class Visits(Stream):
    """A full-table stream without a key."""

    name = "visits"
    schema = th.PropertiesList(
        th.Property("place", th.StringType), th.Property("count", th.IntegerType)
    ).to_dict()

    def get_records(self, context: Any) -> Iterable[dict[str, Any]]:
        yield from ({"place": place, "count": len(place)} for place in ("here", "there"))


class Wide(Stream):
    """A stream with many columns and few values."""

    name = "wide"
    primary_keys = ("id",)
    schema = {
        "properties": {
            "id": {"type": "integer"},
            **{f"c{number}": {"type": ["null", "string"]} for number in range(40)},
        }
    }

    def get_records(self, context: Any) -> Iterable[dict[str, Any]]:
        yield {"id": 1, "c7": "seven"}


class TapShop(Tap):
    """The tap of these streams."""

    name = "tap-shop"
    config_jsonschema = th.PropertiesList(
        th.Property("people", th.IntegerType, default=PEOPLE),
        th.Property("pause", th.NumberType, default=0),
        th.Property("fails_after", th.IntegerType),
        th.Property("emit_activate_version_messages", th.BooleanType),
        th.Property("token", th.StringType, secret=True),
    ).to_dict()

    def discover_streams(self) -> list[Stream]:
        return [kind(self) for kind in (People, Orders, Visits, Wide)]

    def check_connection(self) -> None:
        if self.config.get("token") == "wrong":
            raise PermissionError("The token is refused.")


if __name__ == "__main__":
    TapShop.cli(sys.argv[1:])
