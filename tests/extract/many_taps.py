"""A tap with hundreds of contexts of a few rows, some of which fail when they are first read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from tap_core import Stream, Tap
from tap_core import typing as th
from tap_core.types import Context, JsonSchema, Record

__all__ = ["CONTEXTS", "ManyTap"]

CONTEXTS = 400
_FAILS_EVERY = 50


class Shops(Stream):
    """One context per shop, with one to three rows each."""

    name = "shops"
    primary_keys = ("shop", "id")
    schema: ClassVar[JsonSchema] = {
        "type": "object",
        "properties": {"shop": {"type": "integer"}, "id": {"type": "integer"}},
    }

    @property
    def partitions(self) -> list[Context]:
        """Return one context per shop."""
        return [{"shop": shop} for shop in range(CONTEXTS)]

    def get_records(self, context: Context | None) -> Iterable[Record]:
        """Yield the rows of a shop; at the first read, some shops fail after their first row."""
        shop = int((context or {})["shop"])
        read = Path(self.config["visits"]) / str(shop)
        for number in range(1 + shop % 3):
            yield {"shop": shop, "id": number}
            if shop % _FAILS_EVERY == 0 and not read.exists():
                read.touch()
                raise ConnectionError("the first try fails")


class ManyTap(Tap):
    """The tap with the stream ``shops``."""

    name = "tap-many"
    config_jsonschema = th.PropertiesList(
        th.Property("visits", th.StringType, required=True, description="A folder"),
    ).to_dict()

    def discover_streams(self) -> list[Stream]:
        """Return the stream."""
        return [Shops(self)]
