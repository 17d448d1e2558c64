"""The tap class: its settings and its stream."""

from __future__ import annotations

from tap_core import Stream, Tap
from tap_core import typing as th
from tap_planes.streams import Planes

__all__ = ["TapPlanes"]


class TapPlanes(Tap):
    """Reads planes from the API of `python -m tap_planes.service`."""

    name = "tap-planes"
    config_jsonschema = th.PropertiesList(
        th.Property("api_url", th.StringType, required=True, description="URL of the API"),
        th.Property("token", th.StringType, required=True, secret=True),
    ).to_dict()

    def discover_streams(self) -> list[Stream]:
        """Return the one stream."""
        return [Planes(self)]


if __name__ == "__main__":
    TapPlanes.cli()
