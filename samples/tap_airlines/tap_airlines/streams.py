"""The streams: their base class, a parent stream and its child stream.

| stream   | replication                                                                 |
|----------|-----------------------------------------------------------------------------|
| airlines | full list in each run; parent stream of flights                             |
| flights  | child stream, incremental; bookmark per airline, four airlines in parallel  |
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from tap_core import RESTStream
from tap_core import typing as th
from tap_core.authenticators import BearerTokenAuthenticator
from tap_core.types import Context, Record

__all__ = ["Airlines", "Flights"]


class AirlinesAPIStream(RESTStream[str | None]):
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
        start = self.get_starting_timestamp(context)
        return {"updated_since": start.isoformat() if start else None, "cursor": next_page_token}


class Airlines(AirlinesAPIStream):
    """Airlines, identified by their carrier code.

    The stream has no replication key, so each run reads all airlines.
    """

    name = "airlines"
    path = "/airlines"
    primary_keys = ("carrier",)
    schema = th.PropertiesList(
        th.Property("carrier", th.StringType, required=True, description="Two-letter code"),
        th.Property("name", th.StringType),
    ).to_dict()

    def get_child_context(self, record: Record, context: Context | None) -> Context:
        """Return the context of the airline's flights, which fills `{carrier}` in their path."""
        return {"carrier": record["carrier"]}


class Flights(AirlinesAPIStream):
    """Flights of each airline, sorted by `updated_at`.

    The API returns the oldest change first. With `is_sorted`, the next run after an interrupted one
    resumes each airline at its last flight.
    """

    name = "flights"
    path = "/airlines/{carrier}/flights"
    parent_stream_type = Airlines
    primary_keys = ("carrier", "number", "origin", "updated_at")
    replication_key = "updated_at"
    is_sorted = True
    max_parallel_partitions = 4
    schema = th.PropertiesList(
        th.Property("carrier", th.StringType, required=True, description="From the context"),
        th.Property("number", th.IntegerType, required=True),
        th.Property("origin", th.StringType, required=True),
        th.Property("updated_at", th.DateTimeType, required=True),
        th.Property("destination", th.StringType),
        th.Property("tail_number", th.StringType),
        th.Property("delay", th.IntegerType, description="Minutes; negative if early"),
    ).to_dict()
