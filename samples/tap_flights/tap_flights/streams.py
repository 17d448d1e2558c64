"""Streams of the five tables, with different replication methods.

| stream           | replication                                                        |
|------------------|--------------------------------------------------------------------|
| airlines, planes | full table in each run                                             |
| airports         | full table in each run; parent stream of weather                   |
| weather          | child stream of airports; incremental and sorted, so resumable     |
| flights          | incremental and unsorted, with one partition per departure airport |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from tap_core import Stream
from tap_core import typing as th
from tap_core.types import Context, Record
from tap_flights.data import find_default_folder, read_rows

__all__ = ["Airlines", "Airports", "Flights", "Planes", "Weather"]

NEW_YORK = ("EWR", "JFK", "LGA")
"""Codes of the airports for which the data has departures and weather."""


class TableStream(Stream):
    """Base class of streams that read one CSV file, which has the name of the stream."""

    def get_records(self, context: Context | None) -> Iterable[Record]:
        """Return the records of all rows of the file."""
        return map(self.make_record, self.read_rows())

    def read_rows(self) -> Iterator[dict[str, str]]:
        """Return the rows of the stream's file, as dicts of column name to text."""
        folder = self.config.get("folder")
        return read_rows(Path(folder) if folder else find_default_folder(), self.name)

    def make_record(self, row: dict[str, str]) -> Record:
        """Return the record of a row: the columns of the schema, with converted values."""
        return {name: convert(row[name]) for name, convert in self.converters.items()}

    @cached_property
    def converters(self) -> dict[str, Callable[[str], Any]]:
        """Functions that convert the text of a cell, by column name."""
        columns = self.schema["properties"].items()
        return {name: _make_converter(column["type"]) for name, column in columns}


def _make_converter(types: list[str]) -> Callable[[str], Any]:
    """Return the function that converts a cell to one of the JSON Schema types, or to None."""
    convert = int if "integer" in types else float if "number" in types else str
    return lambda cell: None if cell in {"NA", ""} else convert(cell)


class HourlyStream(TableStream):
    """Base class of incremental streams with hourly rows; the replication key is `time_hour`."""

    replication_key = "time_hour"

    def get_records(self, context: Context | None) -> Iterator[Record]:
        """Yield the records of one airport, starting at the hour of its bookmark.

        Hours are compared as text, because all are in the same format and in UTC.
        """
        start = self.get_starting_timestamp(context)
        first_hour = f"{start:%Y-%m-%dT%H:%M:%SZ}" if start else ""
        end_hour = self.config.get("until", "9999")
        origin = (context or {})["origin"]
        for row in self.read_rows():
            if row["origin"] == origin and first_hour <= row["time_hour"] < end_hour:
                yield self.make_record(row)


class Airlines(TableStream):
    """Airlines, identified by their carrier code."""

    name = "airlines"
    primary_keys = ("carrier",)
    schema = th.PropertiesList(
        th.Property("carrier", th.StringType, required=True, description="Two-letter code"),
        th.Property("name", th.StringType),
    ).to_dict()


class Planes(TableStream):
    """Aircraft, identified by their tail number."""

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
    """Airports; parent stream of `Weather`."""

    name = "airports"
    primary_keys = ("faa",)
    schema = th.PropertiesList(
        th.Property("faa", th.StringType, required=True, description="Three-letter code"),
        th.Property("name", th.StringType),
        th.Property("lat", th.NumberType),
        th.Property("lon", th.NumberType),
        th.Property("alt", th.IntegerType, description="Altitude in feet"),
        th.Property("tz", th.IntegerType, description="Offset from UTC in hours"),
        th.Property("dst", th.StringType),
        th.Property("tzone", th.StringType),
    ).to_dict()

    def generate_child_contexts(
        self, record: Record, context: Context | None
    ) -> Iterable[Context | None]:
        """Yield the context of the airport's weather, which exists only for New York."""
        if record["faa"] in NEW_YORK:
            yield {"origin": record["faa"]}


class Weather(HourlyStream):
    """Hourly weather at the airports of New York, sorted by time."""

    name = "weather"
    parent_stream_type = Airports
    primary_keys = ("origin", "time_hour")
    is_sorted = True  # within each airport, which is a context: a run can resume at any row
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
    """Departures, with one partition per airport.

    The rows of an airport are not sorted by time, so `is_sorted` is False: the bookmark of an
    airport advances only when all of its flights have been read.
    """

    name = "flights"
    primary_keys = ("time_hour", "origin", "carrier", "flight")
    partitions = [{"origin": origin} for origin in NEW_YORK]
    schema = th.PropertiesList(
        th.Property("time_hour", th.DateTimeType, required=True, description="Scheduled hour"),
        th.Property("origin", th.StringType, required=True),
        th.Property("dest", th.StringType),
        th.Property("carrier", th.StringType, required=True),
        th.Property("flight", th.IntegerType, required=True),
        th.Property("tailnum", th.StringType),
        th.Property("dep_time", th.IntegerType, description="Local time as HHMM"),
        th.Property("sched_dep_time", th.IntegerType),
        th.Property("dep_delay", th.IntegerType, description="Minutes; negative if early"),
        th.Property("arr_time", th.IntegerType),
        th.Property("sched_arr_time", th.IntegerType),
        th.Property("arr_delay", th.IntegerType),
        th.Property("air_time", th.IntegerType, description="Minutes"),
        th.Property("distance", th.IntegerType, description="Miles"),
    ).to_dict()
