"""A tap of a small API that runs on both SDKs: the test changes only its import lines."""

from __future__ import annotations

from tap_core import Tap
from tap_core import typing as th
from tap_core.authenticators import APIKeyAuthenticator, BearerTokenAuthenticator
from tap_core.pagination import OffsetPaginator, PageNumberPaginator
from tap_core.streams import GraphQLStream, RESTStream


class Api(RESTStream):
    """Settings that all streams of this tap share."""

    records_jsonpath = "$.data[*]"
    next_page_token_jsonpath = "$.meta.next"
    primary_keys = ("id",)

    @property
    def url_base(self):
        return self.config["url"] + "/v1"

    @property
    def authenticator(self):
        return BearerTokenAuthenticator(token=self.config["token"])

    @property
    def http_headers(self):
        return {"Accept": "application/json", "X-Org": "{org}"}


class Projects(Api):
    """A parent stream, paginated by a token in the body."""

    name = "projects"
    path = "/orgs/{org}/projects"
    schema = th.PropertiesList(
        th.Property("id", th.IntegerType),
        th.Property("name", th.StringType),
        th.Property("cost", th.NumberType),
    ).to_dict()

    def get_url_params(self, context, next_page_token):
        return {"per_page": 2, "token": next_page_token, "expand": ["a", "b"], "q": "x y/é"}

    def get_child_context(self, record, context):
        return {"project_id": record["id"], "slug": f"p/{record['id']}"}


class Numbers(PageNumberPaginator):
    def has_more(self, response):
        return response.json()["meta"]["more"]


class Issues(Api):
    """A child stream of projects, paginated by number, incremental by an unsorted timestamp."""

    name = "issues"
    path = "/projects/{slug}/issues"
    parent_stream_type = Projects
    ignore_parent_replication_key = True
    replication_key = "updated_at"
    schema = th.PropertiesList(
        th.Property("id", th.IntegerType),
        th.Property("project_id", th.IntegerType),
        th.Property("updated_at", th.DateTimeType),
        th.Property("seen", th.BooleanType),
    ).to_dict()

    def get_new_paginator(self):
        return Numbers(1)

    def get_url_params(self, context, next_page_token):
        params = {"page": next_page_token}
        if since := self.get_starting_timestamp(context):
            params["since"] = since.isoformat()
        return params

    def post_process(self, row, context=None):
        row["seen"] = bool(row.pop("state", None))
        return row


class Offsets(OffsetPaginator):
    def has_more(self, response):
        return len(response.json()) == self.page_size


class Search(Api):
    """A search by POST, with a body for each page."""

    name = "search"
    path = "/search"
    http_method = "POST"
    records_jsonpath = "$[*]"
    schema = th.PropertiesList(th.Property("id", th.IntegerType)).to_dict()

    @property
    def authenticator(self):
        return APIKeyAuthenticator(key="api_key", value=self.config["token"], location="params")

    def get_new_paginator(self):
        return Offsets(0, 2)

    def prepare_request_payload(self, context, next_page_token):
        return {"filter": {"names": ["é", None]}, "offset": next_page_token}


class Form(Search):
    """Stream that sends the body of the search as a form."""

    name = "form"
    payload_as_json = False

    def prepare_request_payload(self, context, next_page_token):
        return {"offset": next_page_token, "text": "a b&c"}


class Events(Api):
    """Sorted and incremental, paginated by the default header; the token is sent in the query."""

    name = "events"
    path = "/events"
    replication_key = "id"
    is_sorted = True
    next_page_token_jsonpath = None
    schema = th.PropertiesList(
        th.Property("id", th.IntegerType), th.Property("big", th.IntegerType)
    ).to_dict()

    def get_http_request(self, *, page):
        request = super().get_http_request(page=page)
        request.params = {
            "after": self.get_starting_replication_key_value(page.stream_context),
            "cursor": page.next_page_token,
            "fields": "id,big",
        }
        request.safe_query_chars = ","
        return request


class Parts(Api):
    """One request for each partition."""

    name = "parts"
    path = "/parts/{part}"
    partitions = [{"part": "a"}, {"part": "b c"}]
    schema = th.PropertiesList(
        th.Property("id", th.IntegerType), th.Property("part", th.StringType)
    ).to_dict()


class Legacy(Api):
    """A stream that overrides the hooks of old singer_sdk versions."""

    name = "legacy"
    path = "/legacy"
    rest_method = "PUT"
    schema = th.PropertiesList(th.Property("id", th.IntegerType)).to_dict()

    def get_next_page_token(self, response, previous_token):
        return response.json()["meta"].get("next")

    def get_url_params(self, context, next_page_token):
        return f"fixed=(1)&token={next_page_token}" if next_page_token else "fixed=(1)"

    def prepare_request(self, context, next_page_token):
        request = super().prepare_request(context, next_page_token)
        request.headers["X-Legacy"] = "yes"
        return request

    def parse_response(self, response):
        yield from response.json()["data"]


class Cities(GraphQLStream):
    """A GraphQL stream."""

    name = "cities"
    primary_keys = ("id",)
    schema = th.PropertiesList(
        th.Property("id", th.IntegerType), th.Property("rate", th.NumberType)
    ).to_dict()
    query = """
        cities(first: 2) {
            id
            rate
        }
    """

    @property
    def url_base(self):
        return self.config["url"] + "/graphql"

    def get_url_params(self, context, next_page_token):
        return {"first": 2}


class PeerTap(Tap):
    """The tap with all streams of this module."""

    name = "tap-peer"
    config_jsonschema = th.PropertiesList(
        th.Property("url", th.StringType),
        th.Property("org", th.StringType),
        th.Property("token", th.StringType, secret=True),
        th.Property("start_date", th.DateTimeType),
    ).to_dict()

    def discover_streams(self):
        kinds = (Projects, Issues, Search, Form, Events, Parts, Legacy, Cities)
        return [kind(self) for kind in kinds]


if __name__ == "__main__":
    PeerTap.cli()
