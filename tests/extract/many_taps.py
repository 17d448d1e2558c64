"""A tap with hundreds of contexts of a few rows each, of which some fail when first read."""

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
    """One context for each shop, with as many rows as the rest of its number by three."""

    name = "shops"
    primary_keys = ("shop", "id")
    schema: ClassVar[JsonSchema] = {
        "type": "object",
        "properties": {"shop": {"type": "integer"}, "id": {"type": "integer"}},
    }

    @property
    def partitions(self) -> list[Context]:
        """The shops."""
        return [{"shop": shop} for shop in range(CONTEXTS)]

    def get_records(self, context: Context | None) -> Iterable[Record]:
        """Yield the rows of a shop; the first time, some fail behind their first row."""
        shop = int((context or {})["shop"])
        read = Path(self.config["visits"]) / str(shop)
        for number in range(1 + shop % 3):
            yield {"shop": shop, "id": number}
            if shop % _FAILS_EVERY == 0 and not read.exists():
                read.touch()
                raise ConnectionError("the first try fails")


class ManyTap(Tap):
    """That stream."""

    name = "tap-many"
    config_jsonschema = th.PropertiesList(
        th.Property("visits", th.StringType, required=True, description="A folder"),
    ).to_dict()

    def discover_streams(self) -> list[Stream]:
        """Return it."""
        return [Shops(self)]
