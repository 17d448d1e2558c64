"""The tap class: its settings and its streams."""

from __future__ import annotations

from tap_core import Stream, Tap
from tap_core import typing as th
from tap_petstore import streams

__all__ = ["TapPetstore"]


class TapPetstore(Tap):
    """Reads pets and orders from a Swagger Petstore, such as `python -m tap_petstore.service`."""

    name = "tap-petstore"
    config_jsonschema = th.PropertiesList(
        th.Property("api_url", th.StringType, required=True, description="URL of the API"),
        th.Property("api_key", th.StringType, required=True, secret=True),
    ).to_dict()

    def discover_streams(self) -> list[Stream]:
        """Return the streams."""
        return [streams.Pets(self), streams.Orders(self)]


if __name__ == "__main__":
    TapPetstore.cli()
