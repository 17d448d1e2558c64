"""The streams: their schemas are those of `swagger.json`, which the API's owners publish.

| stream | way                                                                             |
|--------|---------------------------------------------------------------------------------|
| pets   | the API wants to know which status: one partition for each                      |
| orders | the API has no list of them: asked for by number, and some numbers are not there |
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
"""Where schemas come from; a key is the name of a definition in the document."""


class PetstoreStream(RESTStream[None]):
    """What all streams of the API have in common."""

    primary_keys = ("id",)

    @property
    def url_base(self) -> str:
        """Where the API is."""
        return str(self.config["api_url"])

    @cached_property
    def authenticator(self) -> APIKeyAuthenticator:
        """The header that the document names in `securityDefinitions`."""
        return APIKeyAuthenticator(key="api_key", value=self.config["api_key"])

    def get_new_paginator(self) -> SinglePagePaginator:
        """Return what leads nowhere: this API has no pages."""
        return SinglePagePaginator()


class Pets(PetstoreStream):
    """The animals, by what has become of them."""

    name = "pets"
    path = "/pet/findByStatus"
    partitions = [{"status": "available"}, {"status": "pending"}, {"status": "sold"}]
    schema = StreamSchema(DOCUMENT, key="Pet")

    def get_url_params(self, context: Context | None, next_page_token: None) -> dict[str, Any]:
        """Ask for the status of the partition."""
        return dict(context or {})


class Orders(PetstoreStream):
    """Who buys what. The document says that numbers go from 1 to 10."""

    name = "orders"
    path = "/store/order/{id}"
    partitions = [{"id": number} for number in range(1, 11)]
    state_partitioning_keys = ()  # no bookmark, so no need to remember the numbers
    tolerated_http_errors = (404,)  # no such order: no record
    records_jsonpath = "$"
    schema = StreamSchema(DOCUMENT, key="Order")
