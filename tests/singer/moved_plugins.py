"""A tap, a target and a mapper written on singer_sdk, run by Meltano.

The module imports singer_sdk, which is tap_core under `tap-core run`. Settings select the point at
which the tap or the target fails.
"""

# mypy: ignore-errors

from __future__ import annotations

import json
import time
from pathlib import Path

import singer_sdk.singerlib as singer
from singer_sdk import BatchSink, Stream, Tap, Target
from singer_sdk import typing as th
from singer_sdk.mapper import PluginMapper
from singer_sdk.mapper_base import InlineMapper


class Orders(Stream):
    """Hourly orders sorted by time, as many as the setting `count`."""

    name = "orders"
    primary_keys = ("id",)
    replication_key = "updated_at"
    is_sorted = True
    schema = th.PropertiesList(
        th.Property("id", th.IntegerType, required=True),
        th.Property("updated_at", th.DateTimeType, required=True),
        th.Property("name", th.StringType),
        th.Property("price", th.NumberType),
        th.Property(
            "place",
            th.ObjectType(
                th.Property("city", th.StringType),
                th.Property("street", th.StringType),
            ),
        ),
    ).to_dict()

    def get_records(self, context):
        since = self.get_starting_replication_key_value(context) or ""
        for number in range(self.config["count"]):
            when = f"2024-01-{1 + number // 24:02}T{number % 24:02}:00:00+00:00"
            if when < since:
                continue
            if number == self.config.get("fail_at"):
                raise RuntimeError("the source is gone")
            time.sleep(self.config.get("wait_ms", 0) / 1000)
            yield {
                "id": number,
                "updated_at": when,
                "name": f"n{number}",
                "price": number,
                "place": {"city": "Bern", "street": "Gasse 1"},
            }


class Shops(Stream):
    """A full-table stream of three shops."""

    name = "shops"
    primary_keys = ("id",)
    schema = th.PropertiesList(
        th.Property("id", th.IntegerType, required=True),
        th.Property("title", th.StringType),
    ).to_dict()

    def get_records(self, context):
        yield from ({"id": number, "title": f"s{number}"} for number in range(3))

    def get_child_context(self, record, context):
        return {"shop": record["id"]}


class Visits(Stream):
    """Two visits of each shop."""

    name = "visits"
    primary_keys = ("id",)
    replication_key = "day"
    parent_stream_type = Shops
    schema = th.PropertiesList(
        th.Property("id", th.IntegerType, required=True),
        th.Property("shop", th.IntegerType),
        th.Property("day", th.DateType),
    ).to_dict()

    def get_records(self, context):
        for number in range(2):
            yield {"id": context["shop"] * 2 + number, "day": f"2024-02-0{number + 1}"}


class TapMoved(Tap):
    """A tap of orders, shops and visits."""

    name = "tap-moved"
    config_jsonschema = th.PropertiesList(
        th.Property("count", th.IntegerType, required=True),
        th.Property("api_key", th.StringType, secret=True, required=True),
        th.Property("fail_at", th.IntegerType),
        th.Property("wait_ms", th.IntegerType),
        th.Property("names", th.ArrayType(th.StringType)),
        th.Property(
            "service",
            th.ObjectType(
                th.Property("port", th.IntegerType),
                th.Property("login", th.ObjectType(th.Property("password", th.StringType))),
            ),
        ),
        th.Property("shown_in", th.StringType),
    ).to_dict()

    def discover_streams(self):
        if path := self.config.get("shown_in"):
            Path(path).write_text(json.dumps(dict(self.config)))
        return [Orders(self), Shops(self), Visits(self)]


class FileSink(BatchSink):
    """A sink that appends the rows of a stream to a file named after it."""

    max_size = 20

    def process_batch(self, context):
        path = Path(self.config["folder"], f"{self.stream_name}.jsonl")
        path.parent.mkdir(exist_ok=True)
        written = len(path.read_text().splitlines()) if path.exists() else 0
        if written >= self.config.get("full_at", 1_000_000):
            raise RuntimeError("the disk is full")
        with path.open("a") as file:
            file.writelines(f"{json.dumps(row, default=str)}\n" for row in context["records"])


class TargetMoved(Target):
    """A target that writes files into a folder."""

    name = "target-moved"
    default_sink_class = FileSink
    config_jsonschema = th.PropertiesList(
        th.Property("folder", th.StringType, required=True),
        th.Property("full_at", th.IntegerType),
    ).to_dict()


class MapperMoved(InlineMapper):
    """A mapper that applies stream maps between tap and target."""

    name = "mapper-moved"
    config_jsonschema = th.PropertiesList(
        th.Property("stream_maps", th.ObjectType(additional_properties=True), required=True),
    ).to_dict()

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.mapper = PluginMapper(plugin_config=dict(self.config), logger=self.logger)

    def map_schema_message(self, message_dict):
        name, keys = message_dict["stream"], message_dict["key_properties"]
        self.mapper.register_raw_stream_schema(name, message_dict["schema"], keys)
        for mapped in self.mapper.stream_maps[name]:
            yield singer.SchemaMessage(
                mapped.stream_alias,
                mapped.transformed_schema,
                mapped.transformed_key_properties,
            )

    def map_record_message(self, message_dict):
        for mapped in self.mapper.stream_maps[message_dict["stream"]]:
            record = mapped.transform(message_dict["record"])
            if record is not None:
                yield singer.RecordMessage(stream=mapped.stream_alias, record=record)

    def map_state_message(self, message_dict):
        yield singer.StateMessage(value=message_dict["value"])

    def map_activate_version_message(self, message_dict):
        yield singer.ActivateVersionMessage(**message_dict)

    def map_batch_message(self, message_dict):
        yield singer.Message.from_dict(message_dict)
