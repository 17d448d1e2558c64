"""A server for each test, and small taps whose waits between tries are recorded, not slept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from tap_core.streams import RESTStream
from tap_core.tap_base import Tap
from tests.http.server import Server, serving


class Users(RESTStream):
    """A paginated stream of users; ``waits`` lists the seconds that it would have slept."""

    name = "users"
    path = "/users"
    records_jsonpath = "$.data[*]"
    next_page_token_jsonpath = "$.next"
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}

    @property
    def url_base(self) -> str:
        return self.config["url"]

    def get_url_params(self, context, next_page_token):
        return {"page": next_page_token}

    def backoff_jitter(self, value: float) -> float:
        return value + 0.25

    def request_decorator(self, func):
        decorated = super().request_decorator(func)

        def call(*args: Any) -> Any:
            with patch("backoff._sync.time.sleep", self.waits.append):
                return decorated(*args)

        return call

    @property
    def waits(self) -> list[float]:
        return self.__dict__.setdefault("_waits", [])


class UsersTap(Tap):
    name = "tap-users"
    config_jsonschema = {
        "type": "object",
        "properties": {
            "url": {"type": "string"},
            "login": {"type": "string", "secret": True},
        },
    }
    kind: type[RESTStream] = Users

    def discover_streams(self):
        return [self.kind(self)]

    def _setup_signal_handlers(self) -> None:
        """Leave the signals to pytest."""


class Source:
    """Creates streams that read from the test's server."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def stream(self, base: type[RESTStream] = Users, **members: Any) -> Any:
        """Return a stream whose class has these members."""
        config = members.pop("config", {})
        tap_members = members.pop("tap", {})
        kind = type("Mine", (base,), members)
        tap_class = type("MyTap", (UsersTap,), {"kind": kind, **tap_members})
        instance = tap_class(config={"url": self.server.url, **config}, validate_config=False)
        [stream] = instance.streams.values()
        return stream

    def records(self, base: type[RESTStream] = Users, **members: Any) -> list[Any]:
        return list(self.stream(base, **members).get_records(None))


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as http_server:
        yield http_server


@pytest.fixture
def source(server: Server) -> Source:
    return Source(server)
