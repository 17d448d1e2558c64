"""A tap whose partitions can be read anywhere: made in memory, or pages of a slow server.

Executors find it, and what it is made of, on their PYTHONPATH.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import made

from tap_core import Tap
from tap_core.streams import RESTStream, Stream


class Parted(Stream):
    """So many partitions of so many records, which cost nothing to get."""

    name = "parted"
    primary_keys = ("part", "id")
    replication_key = "updated_at"
    is_sorted = True
    schema = made.PART_SCHEMA

    @property
    def partitions(self) -> list[dict[str, Any]]:
        return [{"part": part} for part in range(self.config["parts"])]

    def get_records(self, context: Any) -> Iterable[dict[str, Any]]:
        return made.of_context(context["part"], self.config["records"])


class Pages(RESTStream):
    """The same from a server that says on each page which one follows."""

    name = "pages"
    path = "/orders"
    primary_keys = ("part", "id")
    replication_key = "updated_at"
    is_sorted = True
    records_jsonpath = "$.data[*]"
    next_page_token_jsonpath = "$.next"
    schema = made.PART_SCHEMA

    @property
    def partitions(self) -> list[dict[str, Any]]:
        return [{"part": part} for part in range(self.config["parts"])]

    @property
    def url_base(self) -> str:
        return str(self.config["url"])

    def get_url_params(self, context: Any, next_page_token: Any) -> dict[str, Any]:
        return {"page": next_page_token or 1}


class SpreadTap(Tap):
    name = "tap-bench-spread"
    config_jsonschema = {
        "type": "object",
        "properties": {
            "parts": {"type": "integer"},
            "records": {"type": "integer"},
            "url": {"type": "string"},
        },
    }

    def discover_streams(self) -> list[Any]:
        return [Pages(self) if "url" in self.config else Parted(self)]


if __name__ == "__main__":
    SpreadTap.cli()
