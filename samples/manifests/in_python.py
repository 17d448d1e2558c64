"""The streams of the sample manifests as Python classes, which send the same requests.

`python samples/manifests/in_python.py --config config.json` runs them as a Singer tap. The settings
are those of the manifests.
"""

from __future__ import annotations

from typing import Any

from tap_core import RESTStream, Tap
from tap_core import typing as th
from tap_core.authenticators import APIKeyAuthenticator, BearerTokenAuthenticator
from tap_core.incremental.cursor import DatetimeBasedCursor, MinMaxDatetime
from tap_core.incremental.request_options import RequestOption
from tap_core.pagination import PageNumberPaginator

ISO = "%Y-%m-%dT%H:%M:%SZ"


class PressAPIStream(RESTStream):
    """Base class of the streams: URL of the API."""

    @property
    def url_base(self) -> str:
        """Base URL of the API; the `path` of a stream is appended to it."""
        return str(self.config["api_url"])


class ArticlePages(PageNumberPaginator):
    """Paginator of responses that contain the number of pages."""

    def has_more(self, response: Any) -> bool:
        """Return True if there is another page."""
        body = response.json()["response"]
        return bool(body["currentPage"] < body["pages"])


class Articles(PressAPIStream):
    """Articles, filtered by two parameters for start and end of the interval."""

    name = "articles"
    path = "/search"
    primary_keys = ("id",)
    records_jsonpath = "$.response.results[*]"
    incremental_sync = DatetimeBasedCursor(
        cursor_field="webPublicationDate",
        datetime_format=ISO,
        start_datetime=lambda config: config["start_date"],
        end_datetime=lambda config: config.get("end_date", "now"),
        start_time_option=RequestOption("request_parameter", "from-date"),
        end_time_option=RequestOption("request_parameter", "to-date"),
    )
    schema = th.PropertiesList(
        th.Property("id", th.StringType, required=True),
        th.Property("webPublicationDate", th.DateTimeType, required=True),
        th.Property("webTitle", th.StringType),
    ).to_dict()

    @property
    def authenticator(self) -> APIKeyAuthenticator:
        """The authenticator, which sends the API key in a header."""
        return APIKeyAuthenticator(key="api-key", value=self.config["api_key"], location="header")

    def get_new_paginator(self) -> ArticlePages:
        """Return the paginator of one interval."""
        return ArticlePages(1)

    def get_url_params(self, context: Any, next_page_token: Any) -> dict[str, Any]:
        """Return the query parameters of a request; that for the first page has no page number."""
        return {"page": next_page_token if next_page_token != 1 else None}


class Posts(PressAPIStream):
    """Posts, newest first, read up to the first page with a post of the last sync."""

    name = "posts"
    path = "/r/{board}/new"  # {board} is filled from the settings
    primary_keys = ("name",)
    records_jsonpath = "$.data.children[*].data"
    next_page_token_jsonpath = "$.data.after"  # noqa: S105  (not a secret)
    incremental_sync = DatetimeBasedCursor(
        cursor_field="created_utc",
        datetime_format="%s",
        start_datetime=MinMaxDatetime(lambda config: config["start_date"], "%Y-%m-%d"),
        is_data_feed=True,
    )
    schema = th.PropertiesList(
        th.Property("name", th.StringType, required=True),
        th.Property("title", th.StringType),
        th.Property("created_utc", th.IntegerType, required=True),
    ).to_dict()

    def get_url_params(self, context: Any, next_page_token: Any) -> dict[str, Any]:
        """Return the query parameters of a request: page size, last post of the previous page."""
        return {"limit": "25", "after": next_page_token}


class Rates(PressAPIStream):
    """Exchange rates, with one request per day; the day is part of the path."""

    name = "rates"
    path = "/rates/{day}"
    primary_keys = ("date",)
    records_jsonpath = "$"
    incremental_sync = DatetimeBasedCursor(
        cursor_field="date",
        datetime_format="%Y-%m-%d",
        start_datetime=lambda config: config["start_date"],
        end_datetime=lambda config: config.get("end_date", "now"),
        step="P1D",
        cursor_granularity="P1D",
        start_time_option=RequestOption("path", "day"),
    )
    schema = th.PropertiesList(
        th.Property("base", th.StringType),
        th.Property("date", th.DateType, required=True),
        th.Property("rates", th.ObjectType(additional_properties=th.NumberType)),
    ).to_dict()

    def get_url_params(self, context: Any, next_page_token: Any) -> dict[str, Any]:
        """Return the query parameters of a request: the base currency."""
        return {"base": self.config["base"]}


class Messages(PressAPIStream):
    """Messages, filtered by one parameter with a condition on start and end of the interval."""

    name = "messages"
    path = "/v3/messages"
    primary_keys = ("msg_id",)
    records_jsonpath = "$.messages[*]"
    incremental_sync = DatetimeBasedCursor(
        cursor_field="last_event_time",
        datetime_format=ISO,
        start_datetime=lambda config: config["start_date"],
        end_datetime=lambda config: config["end_date"],
        step="P1M",
        cursor_granularity="PT1S",
    )
    schema = th.PropertiesList(
        th.Property("msg_id", th.StringType, required=True),
        th.Property("last_event_time", th.DateTimeType, required=True),
        th.Property("status", th.StringType),
    ).to_dict()

    @property
    def authenticator(self) -> BearerTokenAuthenticator:
        """The authenticator, which sends the API key as a bearer token."""
        return BearerTokenAuthenticator(token=self.config["api_key"])

    def get_url_params(self, context: Any, next_page_token: Any) -> dict[str, Any]:
        """Return the query parameters of a request, with the condition on the interval."""
        interval = self.stream_interval
        assert interval is not None  # noqa: S101  (set because the stream has a cursor)
        return {
            "limit": "1000",
            "query": f'last_event_time BETWEEN TIMESTAMP "{interval.start_time}"'
            f' AND TIMESTAMP "{interval.end_time}"',
        }


class TapPress(Tap):
    """Reads articles, posts, rates and messages from `python samples/manifests/serve.py`."""

    name = "tap-press"
    config_jsonschema = th.PropertiesList(
        th.Property("api_url", th.StringType, required=True),
        th.Property("api_key", th.StringType, secret=True),
        th.Property("board", th.StringType),
        th.Property("base", th.StringType),
        th.Property("start_date", th.StringType, required=True),
        th.Property("end_date", th.StringType),
    ).to_dict()

    def discover_streams(self) -> list[PressAPIStream]:
        """Return the streams."""
        return [Articles(self), Posts(self), Rates(self), Messages(self)]


if __name__ == "__main__":
    TapPress.cli()
