"""A tap of a REST API for two SDKs: the variable `BENCH_SDK` names the package.

The code is the same for both SDKs.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

import generator

SDK: Any = importlib.import_module(os.environ["BENCH_SDK"])
REST: Any = importlib.import_module(os.environ["BENCH_SDK"] + ".streams")


class Orders(REST.RESTStream):
    name = "narrow"
    path = "/orders"
    primary_keys = ("id",)
    replication_key = "updated_at"
    is_sorted = True
    records_jsonpath = "$.data[*]"
    next_page_token_jsonpath = "$.next"
    schema = generator.NARROW_SCHEMA

    @property
    def url_base(self) -> str:
        return self.config["url"]

    def get_url_params(self, context: Any, next_page_token: Any) -> dict[str, Any]:
        params: dict[str, Any] = {"per_page": 100}
        if next_page_token:
            params["page"] = next_page_token
        return params


class BenchRestTap(SDK.Tap):
    name = "tap-bench-rest"
    config_jsonschema = {"type": "object", "properties": {"url": {"type": "string"}}}

    def discover_streams(self) -> list[Any]:
        return [Orders(self)]


if __name__ == "__main__":
    BenchRestTap.cli()
