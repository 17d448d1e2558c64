"""The stream: a query, its variables, and the cursor that leads from page to page."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from requests import Response

from tap_core import GraphQLStream
from tap_core import typing as th
from tap_core.authenticators import BearerTokenAuthenticator
from tap_core.pagination import JSONPathPaginator
from tap_core.types import Context

__all__ = ["Planes"]


class ConnectionPaginator(JSONPathPaginator):
    """Follows `pageInfo` of a connection, as the Relay specification names its parts."""

    def __init__(self, field: str) -> None:
        super().__init__(f"$.data.{field}.pageInfo.endCursor")
        self.field = field

    def has_more(self, response: Response) -> bool:
        """The last page has a cursor too, so it has to be asked."""
        return bool(response.json()["data"][self.field]["pageInfo"]["hasNextPage"])


class Planes(GraphQLStream[str | None]):
    """The aircraft, by the number on their tail."""

    name = "planes"
    primary_keys = ("tailNumber",)
    records_jsonpath = "$.data.planes.edges[*].node"
    page_size = 500
    schema = th.PropertiesList(
        th.Property("tailNumber", th.StringType, required=True),
        th.Property("year", th.IntegerType, description="Year of manufacture"),
        th.Property("model", th.StringType),
        th.Property("seats", th.IntegerType),
        th.Property("manufacturer", th.ObjectType(th.Property("name", th.StringType))),
        th.Property(
            "engines",
            th.ObjectType(th.Property("kind", th.StringType), th.Property("count", th.IntegerType)),
        ),
    ).to_dict()
    query = """
        query ($first: Int, $after: String) {
          planes(first: $first, after: $after) {
            edges {
              node { tailNumber year model seats manufacturer { name } engines { kind count } }
            }
            pageInfo { endCursor hasNextPage }
          }
        }
    """

    @property
    def url_base(self) -> str:
        """Where the API is: one address for all queries."""
        return f"{self.config['api_url']}/graphql"

    @cached_property
    def authenticator(self) -> BearerTokenAuthenticator:
        """What puts the token on each request."""
        return BearerTokenAuthenticator(token=self.config["token"])

    def get_new_paginator(self) -> ConnectionPaginator:
        """Lead from page to page."""
        return ConnectionPaginator(self.name)

    def get_url_params(
        self, context: Context | None, next_page_token: str | None
    ) -> dict[str, Any]:
        """The variables of the query."""
        return {"first": self.page_size, "after": next_page_token}
