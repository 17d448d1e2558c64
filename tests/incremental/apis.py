"""A small API of dated records on loopback, and incremental streams that read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tap_core.incremental.cursor import DatetimeBasedCursor
from tap_core.incremental.request_options import RequestOption
from tap_core.streams.rest import RESTStream
from tests.http.server import ReceivedRequest, Reply, Server
from tests.sync.syncing import DATETIME, INTEGER, STRING, schema

SECONDS = "%Y-%m-%dT%H:%M:%SZ"
START_DATE_OPTION = RequestOption("request_parameter", "from-date")
END_DATE_OPTION = RequestOption("request_parameter", "to-date")


class Api:
    """Returns the records between two dates, in pages; records the requests."""

    def __init__(self, server: Server, records: list[dict[str, Any]], size: int = 100) -> None:
        self.server = server
        self.records = records
        self.size = size
        self.fails_at: str | None = None
        server.answers_by(self._answer)

    def _answer(self, request: ReceivedRequest) -> Reply:
        query = {name: values[0] for name, values in request.query.items()}
        start, end = query.get("from-date", ""), query.get("to-date", "9999")
        if self.fails_at is not None and self.fails_at == start:
            return Reply(status=400)
        matching = [
            record for record in self.records if start <= (record.get("at") or start) <= end
        ]
        begin = int(query.get("page", 0)) * self.size
        page, remaining = matching[begin : begin + self.size], matching[begin + self.size :]
        following = {"next": int(query.get("page", 0)) + 1} if remaining else {}
        return Reply({"data": page, **following})

    @property
    def requests(self) -> list[str]:
        """The dates and page numbers of all requests, such as ``2023-01-01..2023-02-01 p1``."""
        return [_describe_request(request) for request in self.server.requests]


def _describe_request(request: ReceivedRequest) -> str:
    query = {name: values[0] for name, values in request.query.items()}
    dates = "..".join(query[name] for name in ("from-date", "to-date") if name in query)
    return dates + (f" p{query['page']}" if "page" in query else "")


class ArticleStream(RESTStream):
    """Articles by date, read from the server at ``url``."""

    name = "articles"
    path = "/search"
    records_jsonpath = "$.data[*]"
    next_page_token_jsonpath = "$.next"
    primary_keys = ("id",)
    schema = schema(id=INTEGER, at=DATETIME, label=STRING)

    @property
    def url_base(self) -> str:
        return self.config["url"]

    def get_url_params(self, context, next_page_token):
        return {"page": next_page_token}


def cursor(**changes: Any) -> DatetimeBasedCursor:
    """Return a cursor from 2023-01-01 to 2023-02-05 with these changes."""
    defaults: dict[str, Any] = {
        "cursor_field": "at",
        "datetime_format": SECONDS,
        "start_datetime": "2023-01-01T00:00:00Z",
        "end_datetime": "2023-02-05T00:00:00Z",
        "start_time_option": START_DATE_OPTION,
        "end_time_option": END_DATE_OPTION,
    }
    return DatetimeBasedCursor(**{**defaults, **changes})


def make_stream_class(**members: Any) -> type[ArticleStream]:
    """Return a stream class; cursor options among the members are passed to its cursor."""
    options = {name: members.pop(name) for name in list(members) if name in _OPTIONS}
    return type("Articles", (ArticleStream,), {"incremental_sync": cursor(**options), **members})


_OPTIONS = frozenset(DatetimeBasedCursor.__dataclass_fields__)


def make_dated_records(*dates: str) -> list[dict[str, Any]]:
    """Return a record for each date, numbered from 1."""
    return [{"id": number, "at": date} for number, date in enumerate(dates, 1)]


def get_bookmark(state: Mapping[str, Any], stream: str = "articles") -> Any:
    return state.get("bookmarks", {}).get(stream, {}).get("replication_key_value")
