"""Sample tap for a Spark cluster, with streams that can be read in parallel.

| stream    | replication                                                      |
|-----------|------------------------------------------------------------------|
| orders    | incremental and unsorted, with one partition per region          |
| events    | incremental, in windows of one day                               |
| customers | full list in each run; parent stream of notes                    |
| notes     | child stream, incremental and sorted; bookmark per customer      |

`python samples/cluster/server.py` serves the API. The tap is a single file, so that
`spark-submit --py-files tap_regions.py` can copy it to the executors.
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


class RegionsAPIStream(RESTStream[str | None]):
    """Base class of the API's streams: URL, authentication and pagination."""

    records_jsonpath = "$.data[*]"
    next_page_token_jsonpath = "$.next"  # noqa: S105  (not a secret)

    @property
    def url_base(self) -> str:
        """Base URL of the API; the `path` of a stream is appended to it."""
        return str(self.config["api_url"])

    @cached_property
    def authenticator(self) -> BearerTokenAuthenticator:
        """The authenticator, which adds the token to each request."""
        return BearerTokenAuthenticator(token=self.config["token"])

    def get_url_params(
        self, context: Context | None, next_page_token: str | None
    ) -> dict[str, Any]:
        """Return the query parameters of a request; those that are None are not sent."""
        return {"limit": self.config.get("page_size"), "cursor": next_page_token}


class IncrementalStream(RegionsAPIStream):
    """Base class of streams that request the records changed at a time or later."""

    def get_url_params(
        self, context: Context | None, next_page_token: str | None
    ) -> dict[str, Any]:
        """Return the query parameters of a request, with the time of the bookmark."""
        since = self.get_starting_timestamp(context)
        text = since.strftime(ISO) if since else None
        return {**super().get_url_params(context, next_page_token), "updated_since": text}


class Orders(IncrementalStream):
    """Orders of each region; the API returns them sorted by number, not by time of change."""

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
        """The regions as partitions; each has a bookmark and can be read by any executor."""
        return [{"region": f"region-{n:02}"} for n in range(self.config["regions"])]


class Events(RegionsAPIStream):
    """Events, read in windows of one day."""

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


class Customers(RegionsAPIStream):
    """Customers; the stream has no replication key, so each run reads all of them."""

    name = "customers"
    path = "/customers"
    primary_keys = ("id",)
    schema = th.PropertiesList(
        th.Property("id", th.IntegerType, required=True),
        th.Property("name", th.StringType),
    ).to_dict()

    def get_child_context(self, record: Record, context: Context | None) -> Context:
        """Return the context of the customer's notes, which fills `{customer_id}` in their path."""
        return {"customer_id": record["id"]}


class Notes(IncrementalStream):
    """Notes on each customer, sorted by time of change."""

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
    """Reads orders, events, customers and notes from `python samples/cluster/server.py`."""

    name = "tap-regions"
    config_jsonschema = th.PropertiesList(
        th.Property("api_url", th.StringType, required=True, description="URL of the API"),
        th.Property("token", th.StringType, required=True, secret=True),
        th.Property("start_date", th.DateTimeType, default="2024-01-01T00:00:00Z"),
        th.Property("end_date", th.DateTimeType, default="2024-01-30T23:59:59Z"),
        th.Property("regions", th.IntegerType, default=50, description="Number of regions"),
        th.Property("page_size", th.IntegerType, description="Records per page; at most 1,000"),
    ).to_dict()

    def discover_streams(self) -> list[Stream]:
        """Return the streams."""
        return [Orders(self), Events(self), Customers(self), Notes(self)]


if __name__ == "__main__":
    TapRegions.cli()
