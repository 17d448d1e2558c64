"""The stream: its query, the variables of the query, and cursor pagination."""

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
    """Paginator of a connection as defined by the Relay specification, with `pageInfo`."""

    def __init__(self, field: str) -> None:
        """Paginate the connection with the name ``field``."""
        super().__init__(f"$.data.{field}.pageInfo.endCursor")
        self.field = field

    def has_more(self, response: Response) -> bool:
        """Return True if there is another page. The last page has an `endCursor`, too."""
        return bool(response.json()["data"][self.field]["pageInfo"]["hasNextPage"])


class Planes(GraphQLStream[str | None]):
    """Aircraft, identified by their tail number."""

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
        """URL of the API, which is the same for all queries."""
        return f"{self.config['api_url']}/graphql"

    @cached_property
    def authenticator(self) -> BearerTokenAuthenticator:
        """The authenticator, which adds the token to each request."""
        return BearerTokenAuthenticator(token=self.config["token"])

    def get_new_paginator(self) -> ConnectionPaginator:
        """Return the paginator of a sync."""
        return ConnectionPaginator(self.name)

    def get_url_params(
        self, context: Context | None, next_page_token: str | None
    ) -> dict[str, Any]:
        """Return the variables of the query."""
        return {"first": self.page_size, "after": next_page_token}
