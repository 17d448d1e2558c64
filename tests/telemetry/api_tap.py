"""A tap of an API that a test runs as a process, with the URL of the API in its settings."""

from __future__ import annotations

from tap_core import Tap
from tap_core import typing as th
from tap_core.streams import RESTStream


class Items(RESTStream):
    """One page of items; the credentials are in the query."""

    name = "items"
    path = "/items"
    records_jsonpath = "$.data[*]"
    schema = th.PropertiesList(th.Property("id", th.IntegerType)).to_dict()

    @property
    def url_base(self):
        return self.config["url"]

    def get_url_params(self, context, next_page_token):
        return {"api_key": self.config["token"], "q": self.config["token"], "page": 1}

    def backoff_wait_generator(self):
        return self.backoff_runtime(value=lambda _: 0)

    def backoff_jitter(self, value):
        return value

    def get_new_paginator(self):
        return None


class TapApi(Tap):
    """The tap."""

    name = "tap-api"
    config_jsonschema = th.PropertiesList(
        th.Property("url", th.StringType, required=True),
        th.Property("token", th.StringType, required=True, secret=True),
    ).to_dict()

    def discover_streams(self):
        return [Items(tap=self)]


if __name__ == "__main__":
    TapApi.cli()
