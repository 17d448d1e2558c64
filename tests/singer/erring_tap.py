"""A tap with one error, which its first argument selects."""

from __future__ import annotations

import sys
import time

from tap_core import RESTStream, Stream, Tap
from tap_core import typing as th

KIND = sys.argv.pop(1)


class Rows(Stream):
    """Stream whose records are wrong in one way."""

    name = "rows"
    schema = {"properties": {"id": {"type": "integer"}}}

    if KIND == "key":
        primary_keys = ("row_id",)
    if KIND == "deselected":
        selected_by_default = False
    if KIND == "unsorted":
        replication_key = "id"
        is_sorted = True

    def get_records(self, context):
        if KIND == "none":
            return None
        return self.yield_records()

    def yield_records(self):
        if KIND == "list":
            yield [{"id": 1}]
        if KIND == "not text":
            yield {"id": 1, "text": b"\xff".decode()}
        if KIND == "unsorted":
            yield from self.yield_unsorted_records()
        if KIND in {"late", "sleeping"}:
            yield from ({"id": number} for number in range(57))
        if KIND == "sleeping":
            time.sleep(600)
        if KIND in {"bug", "late"}:
            yield {"id": {}["no such key"]}
        yield {"id": 1}

    def yield_unsorted_records(self):
        try:
            yield from ({"id": number} for number in (2, 1))
        finally:
            self.logger.info("The source was closed")


class Pages(RESTStream):
    """Stream of an API, tried twice."""

    name = "pages"
    path = "/pages"
    schema = Rows.schema
    next_page_token_jsonpath = "$.next"

    @property
    def url_base(self):
        return self.config["api_url"]

    @property
    def http_headers(self):
        return {"Authorization": f"Bearer {self.config['token']}"}

    def backoff_wait_generator(self):
        return self.backoff_runtime(value=lambda error: 0)

    def backoff_jitter(self, value):
        return value

    def backoff_max_tries(self):
        return 2


class Incomplete(RESTStream):
    """Stream without its required member ``url_base``."""

    name = "incomplete"
    schema = Rows.schema


class Bare(Tap):
    """Tap without streams."""

    name = "tap-err"
    config_jsonschema = th.PropertiesList(
        th.Property("api_url", th.StringType),
        th.Property("token", th.StringType, secret=True),
        th.Property("format", th.StringType, allowed_values=["delta", "iceberg"]),
    ).to_dict()


class TapErr(Bare):
    """Tap with one stream."""

    def discover_streams(self):
        if KIND == "no streams":
            return None
        if KIND == "class":
            return [Rows]
        if KIND == "schema":
            Rows.schema = th.PropertiesList(th.Property("id", th.IntegerType))
        if KIND == "empty":
            return []
        return [{"pages": Pages, "loop": Pages, "incomplete": Incomplete}.get(KIND, Rows)(self)]


if KIND == "config schema":
    Bare.config_jsonschema = th.PropertiesList(th.Property("token", th.StringType))
(Bare if KIND == "bare" else TapErr).cli()
