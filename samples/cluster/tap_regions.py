"""A tap that is worth a cluster: fifty partitions, a month of days, a parent and its children.

| stream    | way                                                                            |
|-----------|--------------------------------------------------------------------------------|
| orders    | a partition for each region, incremental, in no order                          |
| events    | incremental, asked for a day at a time                                         |
| customers | the whole list, each time; the parent of notes                                 |
| notes     | child: asked for each customer, from its own bookmark on                       |

`python samples/cluster/server.py` serves what it reads. It is one file, so that
`spark-submit --py-files tap_regions.py` takes it wherever it is needed.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from tap_core import RESTStream, Stream, Tap
from tap_core import typing as th
from tap_core.authenticators import BearerTokenAuthenticator
from tap_core.incremental.cursor import DatetimeBasedCursor
from tap_core.incremental.request_options import RequestOption
from tap_core.types import Context, Record

__all__ = ["TapRegions"]

ISO = "%Y-%m-%dT%H:%M:%SZ"


class OfRegions(RESTStream[str | None]):
    """What all streams of the API have in common: where it is, who asks, how pages follow."""

    records_jsonpath = "$.data[*]"
    next_page_token_jsonpath = "$.next"  # noqa: S105  (a path, no secret)

    @property
    def url_base(self) -> str:
        """Where the API is; `path` of a stream comes behind it."""
        return str(self.config["api_url"])

    @cached_property
    def authenticator(self) -> BearerTokenAuthenticator:
        """What puts the token on each request."""
        return BearerTokenAuthenticator(token=self.config["token"])

    def get_url_params(
        self, context: Context | None, next_page_token: str | None
    ) -> dict[str, Any]:
        """What stands behind the question mark; None is left out."""
        return {"limit": self.config.get("page_size"), "cursor": next_page_token}


class SinceThen(OfRegions):
    """Streams that are asked for what has changed since a moment, that moment included."""

    def get_url_params(
        self, context: Context | None, next_page_token: str | None
    ) -> dict[str, Any]:
        """The same, and since when."""
        since = self.get_starting_timestamp(context)
        text = since.strftime(ISO) if since else None
        return {**super().get_url_params(context, next_page_token), "updated_since": text}


class Orders(SinceThen):
    """The orders of each region; the API sends them in the order of their numbers."""

    name = "orders"
    path = "/regions/{region}/orders"
    primary_keys = ("region", "id")
    replication_key = "updated_at"
    schema = th.PropertiesList(
        th.Property("region", th.StringType, required=True, description="From the context"),
        th.Property("id", th.IntegerType, required=True),
        th.Property("amount", th.NumberType),
        th.Property("customer_id", th.IntegerType),
        th.Property("note", th.StringType),
        th.Property("updated_at", th.DateTimeType, required=True),
    ).to_dict()

    @property
    def partitions(self) -> list[dict[str, Any]]:
        """A region is a partition: it has a bookmark of its own, and may be read anywhere."""
        return [{"region": f"region-{n:02}"} for n in range(self.config["regions"])]


class Events(OfRegions):
    """What happened, a day at a time."""

    name = "events"
    path = "/events"
    primary_keys = ("id",)
    incremental_sync = DatetimeBasedCursor(
        cursor_field="updated_at",
        datetime_format=ISO,
        start_datetime=lambda config: config["start_date"],
        end_datetime=lambda config: config.get("end_date", "now"),
        start_time_option=RequestOption("request_parameter", "from"),
        end_time_option=RequestOption("request_parameter", "to"),
        step="P1D",
        cursor_granularity="PT1S",
    )
    schema = th.PropertiesList(
        th.Property("id", th.StringType, required=True),
        th.Property("kind", th.StringType),
        th.Property("updated_at", th.DateTimeType, required=True),
    ).to_dict()


class Customers(OfRegions):
    """The customers; without a replication key all of them are read each time."""

    name = "customers"
    path = "/customers"
    primary_keys = ("id",)
    schema = th.PropertiesList(
        th.Property("id", th.IntegerType, required=True),
        th.Property("name", th.StringType),
    ).to_dict()

    def get_child_context(self, record: Record, context: Context | None) -> Context:
        """What tells the notes on one customer from those on another."""
        return {"customer_id": record["id"]}


class Notes(SinceThen):
    """The notes on each customer, oldest first."""

    name = "notes"
    path = "/customers/{customer_id}/notes"
    parent_stream_type = Customers
    primary_keys = ("customer_id", "id")
    replication_key = "updated_at"
    is_sorted = True
    schema = th.PropertiesList(
        th.Property("customer_id", th.IntegerType, required=True),
        th.Property("id", th.IntegerType, required=True),
        th.Property("text", th.StringType),
        th.Property("updated_at", th.DateTimeType, required=True),
    ).to_dict()


class TapRegions(Tap):
    """Reads the API that `python samples/cluster/server.py` serves."""

    name = "tap-regions"
    config_jsonschema = th.PropertiesList(
        th.Property("api_url", th.StringType, required=True, description="Where the API is"),
        th.Property("token", th.StringType, required=True, secret=True),
        th.Property("start_date", th.DateTimeType, default="2024-01-01T00:00:00Z"),
        th.Property("end_date", th.DateTimeType, default="2024-01-30T23:59:59Z"),
        th.Property("regions", th.IntegerType, default=50, description="How many there are"),
        th.Property("page_size", th.IntegerType, description="Records of a page; at most 1,000"),
    ).to_dict()

    def discover_streams(self) -> list[Stream]:
        """Return the streams."""
        return [Orders(self), Events(self), Customers(self), Notes(self)]


if __name__ == "__main__":
    TapRegions.cli()
