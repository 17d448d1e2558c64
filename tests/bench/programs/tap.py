"""A tap of generated records for two SDKs: the variable `BENCH_SDK` names the package.

The code is the same for both SDKs. The value `msgspec` of the variable `BENCH_WRITER` selects
singer_sdk's msgspec writer.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable
from typing import Any

import generator

SDK: Any = importlib.import_module(os.environ["BENCH_SDK"])


class Narrow(SDK.Stream):
    name = "narrow"
    primary_keys = ("id",)
    replication_key = "updated_at"
    is_sorted = True
    schema = generator.NARROW_SCHEMA

    def get_records(self, context: Any) -> Iterable[dict[str, Any]]:
        return generator.narrow(self.config["records"])


class StateHook(Narrow):
    name = "state-hook"

    def _write_state_message(self) -> None:
        super()._write_state_message()


class RecordHook(Narrow):
    name = "record-hook"

    def _process_record(self, *args: Any, **kwargs: Any) -> None:
        super()._process_record(*args, **kwargs)


class BookmarkHook(Narrow):
    name = "bookmark-hook"

    def _increment_stream_state(self, *args: Any, **kwargs: Any) -> None:
        super()._increment_stream_state(*args, **kwargs)


class MessageHook(Narrow):
    name = "message-hook"

    def _generate_record_messages(self, record: dict[str, Any]) -> Iterable[Any]:
        yield from super()._generate_record_messages(record)


class Nested(Narrow):
    name = "nested"
    schema = generator.NESTED_SCHEMA

    def get_records(self, context: Any) -> Iterable[dict[str, Any]]:
        return generator.nested(self.config["records"])


class Wide(Narrow):
    name = "wide"
    schema = generator.WIDE_SCHEMA

    def get_records(self, context: Any) -> Iterable[dict[str, Any]]:
        return generator.wide(self.config["records"])


class Partitioned(Narrow):
    name = "partitioned"
    primary_keys = ("part", "id")
    schema = generator.PARTITION_SCHEMA

    @property
    def partitions(self) -> list[dict[str, Any]]:
        return [{"part": part} for part in range(self.config["parts"])]

    def get_records(self, context: Any) -> Iterable[dict[str, Any]]:
        return generator.partition(context["part"], self.config["records"])


class Parent(SDK.Stream):
    name = "parent"
    primary_keys = ("part",)
    schema = generator.PARENT_SCHEMA

    def get_records(self, context: Any) -> Iterable[dict[str, Any]]:
        return generator.parents(self.config["parts"])

    def get_child_context(self, record: dict[str, Any], context: Any) -> dict[str, Any]:
        return {"part": record["part"]}


class Child(Narrow):
    name = "child"
    primary_keys = ("part", "id")
    parent_stream_type = Parent
    schema = generator.CHILD_SCHEMA

    def get_records(self, context: Any) -> Iterable[dict[str, Any]]:
        return generator.partition(context["part"], self.config["records"])


CASES: dict[str, tuple[type, ...]] = {
    "narrow": (Narrow,),
    "state-hook": (StateHook,),
    "record-hook": (RecordHook,),
    "bookmark-hook": (BookmarkHook,),
    "message-hook": (MessageHook,),
    "nested": (Nested,),
    "wide": (Wide,),
    "partitioned": (Partitioned,),
    "children": (Parent, Child),
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
        return [stream_class(self) for stream_class in CASES[self.config["case"]]]


if os.environ.get("BENCH_WRITER") == "msgspec":
    BenchTap.message_writer_class = importlib.import_module(
        "singer_sdk.contrib.msgspec"
    ).MsgSpecWriter

if __name__ == "__main__":
    BenchTap.cli()
