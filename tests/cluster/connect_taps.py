"""A tap that runs in an environment without Spark's jars."""

from __future__ import annotations

from collections.abc import Iterator

from tap_core import Stream, Tap
from tap_core import typing as th
from tap_core.types import Context, Record

__all__ = ["DaysTap"]


class Days(Stream):
    """The first days of a year, from the bookmark on."""

    name = "days"
    replication_key = "day"
    is_sorted = True
    schema = th.PropertiesList(th.Property("day", th.DateType)).to_dict()

    def get_records(self, context: Context | None) -> Iterator[Record]:
        """Yield the days up to the setting ``last``."""
        begin = self.get_starting_replication_key_value(context) or "2024-01-01"
        for day in range(int(begin[-2:]), self.config["last"] + 1):
            yield {"day": f"2024-01-0{day}"}


class DaysTap(Tap):
    """A tap with the stream of days."""

    name = "tap-days"
    config_jsonschema = th.PropertiesList(th.Property("last", th.IntegerType)).to_dict()

    def discover_streams(self) -> list[Stream]:
        """Return the stream."""
        return [Days(self)]
