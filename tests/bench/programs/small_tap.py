"""A small tap with three streams that are declared with the typing helpers, to measure start-up.

The variable `BENCH_SDK` names the package of the SDK.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable
from typing import Any

SDK: Any = importlib.import_module(os.environ["BENCH_SDK"])
th: Any = importlib.import_module(os.environ["BENCH_SDK"] + ".typing")


class Users(SDK.Stream):
    name = "users"
    primary_keys = ("id",)
    replication_key = "updated_at"
    schema = th.PropertiesList(
        th.Property("id", th.IntegerType, required=True),
        th.Property("name", th.StringType),
        th.Property("email", th.EmailType, description="Where to write to"),
        th.Property("updated_at", th.DateTimeType),
        th.Property("address", th.ObjectType(th.Property("city", th.StringType))),
    ).to_dict()

    def get_records(self, context: Any) -> Iterable[dict[str, Any]]:
        yield from ()


class Orders(Users):
    name = "orders"
    schema = th.PropertiesList(
        th.Property("id", th.IntegerType, required=True),
        th.Property("user_id", th.IntegerType),
        th.Property("total", th.NumberType),
        th.Property("lines", th.ArrayType(th.ObjectType(th.Property("sku", th.StringType)))),
        th.Property("updated_at", th.DateTimeType),
    ).to_dict()


class Events(Users):
    name = "events"
    schema = th.PropertiesList(
        th.Property("id", th.StringType, required=True),
        th.Property("kind", th.StringType, allowed_values=["open", "click"]),
        th.Property("updated_at", th.DateTimeType),
    ).to_dict()


class SmallTap(SDK.Tap):
    name = "tap-small"
    config_jsonschema = th.PropertiesList(
        th.Property("api_url", th.StringType, default="https://example.com"),
        th.Property("start_date", th.DateTimeType),
    ).to_dict()

    def discover_streams(self) -> list[Any]:
        return [Users(self), Orders(self), Events(self)]


if __name__ == "__main__":
    SmallTap.cli()
