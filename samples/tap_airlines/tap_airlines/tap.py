"""The tap class: its settings and its streams."""

from __future__ import annotations

from tap_airlines import streams
from tap_core import Stream, Tap
from tap_core import typing as th

__all__ = ["TapAirlines"]


class TapAirlines(Tap):
    """Reads airlines and flights from the API of `python -m tap_airlines.service`."""

    name = "tap-airlines"
    config_jsonschema = th.PropertiesList(
        th.Property("api_url", th.StringType, required=True, description="URL of the API"),
        th.Property("token", th.StringType, required=True, secret=True),
        th.Property("start_date", th.DateTimeType, description="Earliest change that is read"),
    ).to_dict()

    def discover_streams(self) -> list[Stream]:
        """Return the streams."""
        return [streams.Airlines(self), streams.Flights(self)]


if __name__ == "__main__":
    TapAirlines.cli()
