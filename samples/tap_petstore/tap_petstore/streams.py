"""The streams. Their schemas are read from `swagger.json`, the published document of the API.

| stream | requests                                                                   |
|--------|----------------------------------------------------------------------------|
| pets   | one for each status, because the API requires a status                     |
| orders | one for each order number, because the API does not list the orders        |
"""

from __future__ import annotations

from functools import cached_property
from importlib.resources import files
from typing import Any

from tap_core import OpenAPISchema, RESTStream, StreamSchema
from tap_core.authenticators import APIKeyAuthenticator
from tap_core.pagination import SinglePagePaginator
from tap_core.types import Context

__all__ = ["DOCUMENT", "Orders", "Pets"]

DOCUMENT = OpenAPISchema(files("tap_petstore") / "swagger.json")
"""OpenAPI document with the schemas; a ``key`` is the name of a definition in it."""


class PetstoreStream(RESTStream[None]):
    """Base class of the API's streams: URL and authentication."""

    primary_keys = ("id",)

    @property
    def url_base(self) -> str:
        """Base URL of the API; the `path` of a stream is appended to it."""
        return str(self.config["api_url"])

    @cached_property
    def authenticator(self) -> APIKeyAuthenticator:
        """The authenticator, which sends the header of the document's `securityDefinitions`."""
        return APIKeyAuthenticator(key="api_key", value=self.config["api_key"])

    def get_new_paginator(self) -> SinglePagePaginator:
        """Return a paginator for a single page, because the API has no pagination."""
        return SinglePagePaginator()


class Pets(PetstoreStream):
    """Pets, with one partition for each status."""

    name = "pets"
    path = "/pet/findByStatus"
    partitions = [{"status": "available"}, {"status": "pending"}, {"status": "sold"}]
    schema = StreamSchema(DOCUMENT, key="Pet")

    def get_url_params(self, context: Context | None, next_page_token: None) -> dict[str, Any]:
        """Return the query parameters of a request: the partition's status."""
        return dict(context or {})


class Orders(PetstoreStream):
    """Orders, requested by their numbers, which the OpenAPI document limits to 1 to 10."""

    name = "orders"
    path = "/store/order/{id}"
    partitions = [{"id": number} for number in range(1, 11)]
    state_partitioning_keys = ()  # the stream has no bookmark, so the state needs no partitions
    tolerated_http_errors = (404,)  # the order does not exist: no record
    records_jsonpath = "$"
    schema = StreamSchema(DOCUMENT, key="Order")
