"""One tap for two SDKs: `BENCH_SDK` says which one its classes come from.

Written as an author writes a tap, and the same lines for both. `BENCH_WRITER`
chooses the peer's msgspec writer.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable
from typing import Any

import made

SDK: Any = importlib.import_module(os.environ["BENCH_SDK"])


class Narrow(SDK.Stream):
    name = "narrow"
    primary_keys = ("id",)
    replication_key = "updated_at"
    is_sorted = True
    schema = made.NARROW_SCHEMA

    def get_records(self, context: Any) -> Iterable[dict[str, Any]]:
        return made.narrow(self.config["records"])


class Nested(Narrow):
    name = "nested"
    schema = made.NESTED_SCHEMA

    def get_records(self, context: Any) -> Iterable[dict[str, Any]]:
        return made.nested(self.config["records"])


class Wide(Narrow):
    name = "wide"
    schema = made.WIDE_SCHEMA

    def get_records(self, context: Any) -> Iterable[dict[str, Any]]:
        return made.wide(self.config["records"])


class Parted(Narrow):
    name = "parted"
    primary_keys = ("part", "id")
    schema = made.PART_SCHEMA

    @property
    def partitions(self) -> list[dict[str, Any]]:
        return [{"part": part} for part in range(self.config["parts"])]

    def get_records(self, context: Any) -> Iterable[dict[str, Any]]:
        return made.of_context(context["part"], self.config["records"])


class Parent(SDK.Stream):
    name = "parent"
    primary_keys = ("part",)
    schema = made.PARENT_SCHEMA

    def get_records(self, context: Any) -> Iterable[dict[str, Any]]:
        return made.parents(self.config["parts"])

    def get_child_context(self, record: dict[str, Any], context: Any) -> dict[str, Any]:
        return {"part": record["part"]}


class Child(Narrow):
    name = "child"
    primary_keys = ("part", "id")
    parent_stream_type = Parent
    schema = made.CHILD_SCHEMA

    def get_records(self, context: Any) -> Iterable[dict[str, Any]]:
        return made.of_context(context["part"], self.config["records"])


CASES: dict[str, tuple[type, ...]] = {
    "narrow": (Narrow,),
    "nested": (Nested,),
    "wide": (Wide,),
    "parted": (Parted,),
    "family": (Parent, Child),
}


class BenchTap(SDK.Tap):
    name = "tap-bench"
    config_jsonschema = {
        "type": "object",
        "properties": {
            "case": {"type": "string"},
            "records": {"type": "integer"},
            "parts": {"type": "integer"},
        },
    }

    def discover_streams(self) -> list[Any]:
        return [kind(self) for kind in CASES[self.config["case"]]]


if os.environ.get("BENCH_WRITER") == "msgspec":
    BenchTap.message_writer_class = importlib.import_module(
        "singer_sdk.contrib.msgspec"
    ).MsgSpecWriter

if __name__ == "__main__":
    BenchTap.cli()
