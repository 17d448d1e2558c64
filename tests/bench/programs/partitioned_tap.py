"""A tap whose partitions are generated in memory, or read from a slow server.

Executors import this module and the generator from their PYTHONPATH.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import generator

from tap_core import Tap
from tap_core.streams import RESTStream, Stream


class Partitioned(Stream):
    """Partitions of generated records."""

    name = "partitioned"
    primary_keys = ("part", "id")
    replication_key = "updated_at"
    is_sorted = True
    schema = generator.PARTITION_SCHEMA

    @property
    def partitions(self) -> list[dict[str, Any]]:
        return [{"part": part} for part in range(self.config["parts"])]

    def get_records(self, context: Any) -> Iterable[dict[str, Any]]:
        return generator.partition(context["part"], self.config["records"])


class Pages(RESTStream):
    """Partitions of a server that returns the number of the next page with each page."""

    name = "pages"
    path = "/orders"
    primary_keys = ("part", "id")
    replication_key = "updated_at"
    is_sorted = True
    records_jsonpath = "$.data[*]"
    next_page_token_jsonpath = "$.next"
    schema = generator.PARTITION_SCHEMA

    @property
    def partitions(self) -> list[dict[str, Any]]:
        return [{"part": part} for part in range(self.config["parts"])]

    @property
    def url_base(self) -> str:
        return str(self.config["url"])

    def get_url_params(self, context: Any, next_page_token: Any) -> dict[str, Any]:
        return {"page": next_page_token or 1}


class PartitionedTap(Tap):
    name = "tap-bench-partitioned"
    config_jsonschema = {
        "type": "object",
        "properties": {
            "parts": {"type": "integer"},
            "records": {"type": "integer"},
            "url": {"type": "string"},
        },
    }

    def discover_streams(self) -> list[Any]:
        return [Pages(self) if "url" in self.config else Partitioned(self)]


if __name__ == "__main__":
    PartitionedTap.cli()
