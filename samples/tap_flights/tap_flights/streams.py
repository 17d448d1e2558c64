"""The five tables as streams, each showing one way to read a source.

| stream             | way                                                                  |
|--------------------|----------------------------------------------------------------------|
| airlines, planes   | the whole table, each time                                           |
| airports           | the whole table, and the parent of weather                           |
| weather            | child of airports, incremental, in order: resumes where it stopped   |
| flights            | incremental, not in order, one partition per airport of departure    |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from tap_core import Stream
from tap_core import typing as th
from tap_core.types import Context, Record
from tap_flights.data import default_folder, rows

__all__ = ["Airlines", "Airports", "Flights", "Planes", "Weather"]

NEW_YORK = ("EWR", "JFK", "LGA")
"""The airports whose departures and weather were recorded."""


class TableStream(Stream):
    """A stream that is one CSV file: subclasses give its name, its keys and its columns."""

    def get_records(self, context: Context | None) -> Iterable[Record]:
        """Yield every row of the file."""
        return map(self.record, self.rows())

    def rows(self) -> Iterator[dict[str, str]]:
        """Yield the rows of this stream's file, all cells as text."""
        folder = self.config.get("folder")
        return rows(Path(folder) if folder else default_folder(), self.name)

    def record(self, row: dict[str, str]) -> Record:
        """Make a record of a row: the columns of the schema, numbers as numbers."""
        return {name: convert(row[name]) for name, convert in self.converters.items()}

    @cached_property
    def converters(self) -> dict[str, Callable[[str], Any]]:
        """What makes a value of a cell, per column, chosen once by the column's type."""
        columns = self.schema["properties"].items()
        return {name: _converter(column["type"]) for name, column in columns}


def _converter(types: list[str]) -> Callable[[str], Any]:
    convert = int if "integer" in types else float if "number" in types else str
    return lambda cell: None if cell in {"NA", ""} else convert(cell)


class HourlyStream(TableStream):
    """A table that grows by the hour at each airport: `time_hour` says where a run goes on."""

    replication_key = "time_hour"

    def get_records(self, context: Context | None) -> Iterator[Record]:
        """Yield the rows of one airport, from the hour of its bookmark (included) on.

        Hours are compared as text: in the files all are written alike, in UTC.
        """
        start = self.get_starting_timestamp(context)
        first_hour = f"{start:%Y-%m-%dT%H:%M:%SZ}" if start else ""
        end_hour = self.config.get("until", "9999")
        origin = (context or {})["origin"]
        for row in self.rows():
            if row["origin"] == origin and first_hour <= row["time_hour"] < end_hour:
                yield self.record(row)


class Airlines(TableStream):
    """The companies, by their code."""

    name = "airlines"
    primary_keys = ("carrier",)
    schema = th.PropertiesList(
        th.Property("carrier", th.StringType, required=True, description="Two-letter code"),
        th.Property("name", th.StringType),
    ).to_dict()


class Planes(TableStream):
    """The aircraft, by the number on their tail."""

    name = "planes"
    primary_keys = ("tailnum",)
    schema = th.PropertiesList(
        th.Property("tailnum", th.StringType, required=True),
        th.Property("year", th.IntegerType, description="Year of manufacture"),
        th.Property("type", th.StringType),
        th.Property("manufacturer", th.StringType),
        th.Property("model", th.StringType),
        th.Property("engines", th.IntegerType),
        th.Property("seats", th.IntegerType),
        th.Property("speed", th.IntegerType, description="Cruising speed in miles per hour"),
        th.Property("engine", th.StringType),
    ).to_dict()


class Airports(TableStream):
    """Where flights go to and come from; the parent of `Weather`."""

    name = "airports"
    primary_keys = ("faa",)
    schema = th.PropertiesList(
        th.Property("faa", th.StringType, required=True, description="Three-letter code"),
        th.Property("name", th.StringType),
        th.Property("lat", th.NumberType),
        th.Property("lon", th.NumberType),
        th.Property("alt", th.IntegerType, description="Feet above the sea"),
        th.Property("tz", th.IntegerType, description="Hours from UTC"),
        th.Property("dst", th.StringType),
        th.Property("tzone", th.StringType),
    ).to_dict()

    def generate_child_contexts(
        self, record: Record, context: Context | None
    ) -> Iterable[Context | None]:
        """Weather was recorded in New York alone: other airports have no child."""
        if record["faa"] in NEW_YORK:
            yield {"origin": record["faa"]}


class Weather(HourlyStream):
    """The weather at each airport of New York, hour by hour and in order."""

    name = "weather"
    parent_stream_type = Airports
    primary_keys = ("origin", "time_hour")
    is_sorted = True  # within an airport, and an airport is one context: resumable at any row
    schema = th.PropertiesList(
        th.Property("origin", th.StringType, required=True),
        th.Property("time_hour", th.DateTimeType, required=True),
        th.Property("temp", th.NumberType, description="Degrees Fahrenheit"),
        th.Property("dewp", th.NumberType),
        th.Property("humid", th.NumberType),
        th.Property("wind_dir", th.IntegerType),
        th.Property("wind_speed", th.NumberType, description="Miles per hour"),
        th.Property("wind_gust", th.NumberType),
        th.Property("precip", th.NumberType, description="Inches"),
        th.Property("pressure", th.NumberType, description="Millibars"),
        th.Property("visib", th.NumberType, description="Miles"),
    ).to_dict()


class Flights(HourlyStream):
    """Every departure. The hours of an airport are mixed up in the file, so `is_sorted` stays off.

    A bookmark of an airport moves when all of its flights are read, not before.
    """

    name = "flights"
    primary_keys = ("time_hour", "origin", "carrier", "flight")
    partitions = [{"origin": origin} for origin in NEW_YORK]
    schema = th.PropertiesList(
        th.Property("time_hour", th.DateTimeType, required=True, description="Hour it was due"),
        th.Property("origin", th.StringType, required=True),
        th.Property("dest", th.StringType),
        th.Property("carrier", th.StringType, required=True),
        th.Property("flight", th.IntegerType, required=True),
        th.Property("tailnum", th.StringType),
        th.Property("dep_time", th.IntegerType, description="Local time as HHMM"),
        th.Property("sched_dep_time", th.IntegerType),
        th.Property("dep_delay", th.IntegerType, description="Minutes; negative is early"),
        th.Property("arr_time", th.IntegerType),
        th.Property("sched_arr_time", th.IntegerType),
        th.Property("arr_delay", th.IntegerType),
        th.Property("air_time", th.IntegerType, description="Minutes"),
        th.Property("distance", th.IntegerType, description="Miles"),
    ).to_dict()
