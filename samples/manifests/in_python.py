"""The streams of these manifests as classes: the same cursors, the same requests.

`python samples/manifests/in_python.py --config config.json` is a tap like any other. The settings
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


class OfPress(RESTStream):
    """What these streams share: where the API is."""

    @property
    def url_base(self) -> str:
        """Where the API is; `path` of a stream comes behind it."""
        return str(self.config["api_url"])


class ArticlePages(PageNumberPaginator):
    """Pages of which each says how many there are."""

    def has_more(self, response: Any) -> bool:
        """Whether there is a page behind this one."""
        about = response.json()["response"]
        return bool(about["currentPage"] < about["pages"])


class Articles(OfPress):
    """Both ends of the interval are parameters, as for The Guardian's search."""

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
        """What puts the key on each request."""
        return APIKeyAuthenticator(key="api-key", value=self.config["api_key"], location="header")

    def get_new_paginator(self) -> ArticlePages:
        """What follows the pages of one interval."""
        return ArticlePages(1)

    def get_url_params(self, context: Any, next_page_token: Any) -> dict[str, Any]:
        """The first page needs no number; None is left out."""
        return {"page": next_page_token if next_page_token != 1 else None}


class Posts(OfPress):
    """Newest first and without a filter: pages are read down to what is known."""

    name = "posts"
    path = "/r/{board}/new"  # a setting
    primary_keys = ("name",)
    records_jsonpath = "$.data.children[*].data"
    next_page_token_jsonpath = "$.data.after"  # noqa: S105  (no password)
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
        """Where the page before ended."""
        return {"limit": "25", "after": next_page_token}


class Rates(OfPress):
    """One day in each request: the day is part of the path."""

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
        """What the rates are of."""
        return {"base": self.config["base"]}


class Messages(OfPress):
    """Both ends of the interval in one parameter, with words around them."""

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
        """What puts the key on each request, another way."""
        return BearerTokenAuthenticator(token=self.config["api_key"])

    def get_url_params(self, context: Any, next_page_token: Any) -> dict[str, Any]:
        """Everything around the interval stands here, so the cursor injects nothing."""
        interval = self.stream_interval
        assert interval is not None  # noqa: S101  (a window is being read)
        return {
            "limit": "1000",
            "query": f'last_event_time BETWEEN TIMESTAMP "{interval.start_time}"'
            f' AND TIMESTAMP "{interval.end_time}"',
        }


class TapPress(Tap):
    """Articles, posts, rates and messages."""

    name = "tap-press"
    config_jsonschema = th.PropertiesList(
        th.Property("api_url", th.StringType, required=True),
        th.Property("api_key", th.StringType, secret=True),
        th.Property("board", th.StringType),
        th.Property("base", th.StringType),
        th.Property("start_date", th.StringType, required=True),
        th.Property("end_date", th.StringType),
    ).to_dict()

    def discover_streams(self) -> list[OfPress]:
        """The streams of this tap."""
        return [Articles(self), Posts(self), Rates(self), Messages(self)]


if __name__ == "__main__":
    TapPress.cli()
