"""A tap with eight partitions that wait for a slow server; a setting limits the threads."""

from __future__ import annotations

from typing import Any

import generator

from tap_core import Tap
from tap_core.streams import RESTStream

PARTITIONS = 8


class Orders(RESTStream):
    name = "narrow"
    path = "/orders"
    primary_keys = ("id",)
    replication_key = "updated_at"
    is_sorted = True
    max_parallel_partitions = PARTITIONS
    partitions = [{"part": number} for number in range(PARTITIONS)]
    records_jsonpath = "$.data[*]"
    next_page_token_jsonpath = "$.next"
    schema = generator.NARROW_SCHEMA

    @property
    def url_base(self) -> str:
        return str(self.config["url"])

    def get_url_params(self, context: Any, next_page_token: Any) -> dict[str, Any]:
        return {"page": next_page_token or 1}


class BenchParallelTap(Tap):
    name = "tap-bench-parallel"
    config_jsonschema = {"type": "object", "properties": {"url": {"type": "string"}}}

    def discover_streams(self) -> list[Any]:
        return [Orders(self)]


if __name__ == "__main__":
    BenchParallelTap.cli()
