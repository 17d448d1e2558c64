"""The streams: what all requests have in common, a parent, and its child.

| stream   | way                                                                        |
|----------|----------------------------------------------------------------------------|
| airlines | the whole list, each time; the parent of flights                           |
| flights  | child: asked for each airline, four at a time, from its own bookmark on    |
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
        start = self.get_starting_timestamp(context)
        return {"updated_since": start.isoformat() if start else None, "cursor": next_page_token}


class Airlines(AirlinesAPIStream):
    """The companies, by their code. It has no replication key, so all of it is read each time."""

    name = "airlines"
    path = "/airlines"
    primary_keys = ("carrier",)
    schema = th.PropertiesList(
        th.Property("carrier", th.StringType, required=True, description="Two-letter code"),
        th.Property("name", th.StringType),
    ).to_dict()

    def get_child_context(self, record: Record, context: Context | None) -> Context:
        """What tells the flights of one airline from those of another; it fills `{carrier}`."""
        return {"carrier": record["carrier"]}


class Flights(AirlinesAPIStream):
    """The flights of each airline, oldest change first.

    An interrupted run goes on where it was, airline by airline: the API sends the oldest change
    first, which is what `is_sorted` says.
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
        th.Property("delay", th.IntegerType, description="Minutes; negative is early"),
    ).to_dict()
