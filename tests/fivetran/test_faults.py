"""Error messages for users: they name the stream and the cause, and contain no address."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import nullcontext

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from tap_core.authenticators import AccessTokenError
from tap_core.exceptions import (
    ConfigurationError,
    ConfigValidationError,
    FatalAPIError,
    RetriableAPIError,
)
from tap_core.protocols.fivetran.connection_tests import run_test
from tap_core.protocols.fivetran.error_messages import format_error
from tap_core.redaction.fivetran_logs import remove_addresses
from tap_core.streams import RESTStream
from tap_core.tap_base import Tap
from target_spark.errors import TableError
from tests.http.server import Reply, Server, page, serving

SECRET = "sesame-42"


class Orders(RESTStream):
    name = "orders"
    path = "/v1/shops/orders"
    primary_keys = ("id",)
    records_jsonpath = "$.data[*]"
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}

    @property
    def url_base(self) -> str:
        return self.config["url"]

    def get_url_params(self, context, next_page_token):
        return {"cursor": "c-17", "key": SECRET}

    def backoff_wait_generator(self):
        return self.backoff_runtime(value=lambda _error: 0)

    def backoff_jitter(self, value: float) -> float:
        return 0


class TapOrders(Tap):
    name = "tap-orders"
    config_jsonschema = {"properties": {"url": {"type": "string"}}}
    connection_tests = {"connection": "Reaching", "rights": "Rights", "missing": "Nothing"}

    def discover_streams(self):
        return [Orders(self)]

    def check_rights(self) -> None:
        raise PermissionError(13, "Permission denied", "/srv/data/orders.csv")

    def _setup_signal_handlers(self) -> None:
        """Leave the signals to pytest."""


@pytest.fixture(scope="module")
def server():
    with serving() as http_server:
        yield http_server


@pytest.fixture
def tap(server: Server) -> TapOrders:
    return TapOrders(config={"url": server.url})


def run_tap_test(tap: TapOrders, name: str, hide: Callable[[str], str] = str) -> str | None:
    return run_test(tap.connection_tests, lambda: nullcontext(tap), name, hide)


def is_clean(text: str, server: Server) -> bool:
    parts = ("127.0.0.1", server.url[-5:], "shops", "/v1", "cursor", "c-17", SECRET, "key=")
    return not any(part in text for part in parts)


def answer(status: int, **headers: str) -> requests.Response:
    response = requests.Response()
    response.status_code = status
    response.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    return response


# ------------------------------------------------------------------ responses of a source


def test_missing_permission_is_reported_with_its_stream(tap: TapOrders, server: Server) -> None:
    """F4, F7: the connection test fails and names the permission and the stream."""
    refusal = {"error": "insufficient_scope", "message": "read:orders is needed"}
    headers = {"WWW-Authenticate": 'Bearer error="insufficient_scope", scope="read:orders"'}
    server.answers(Reply(refusal, 403, headers))
    text = run_tap_test(tap, "connection")
    assert text is not None
    assert text.startswith(
        "HTTP 403 (Forbidden) in stream orders, try 1: the credentials lack the permission to read"
        " it (needed: read:orders). Give them that permission in the source, or exclude the table."
        " The source says: "
    )
    assert is_clean(text, server)


def test_refused_credentials_are_not_reported_as_a_missing_permission(
    tap: TapOrders, server: Server
) -> None:
    """F7: a 401 response asks the user to check the credentials."""
    server.answers(Reply("", 401))
    text = run_tap_test(tap, "connection")
    assert text == (
        "HTTP 401 (Unauthorized) in stream orders, try 1: the source does not accept the"
        " credentials. Check those in the configuration: they may be wrong, have expired, or been"
        " revoked."
    )


@pytest.mark.parametrize(
    "reply, expected",
    [
        (Reply({"row": "of a customer"}, 503), "HTTP 503 (Service Unavailable) in stream orders,"),
        (Reply({"hint": "a day"}, 400), 'the source refuses the request. The source says: {"hint"'),
        (Reply("", 404), "try 1: the source refuses the request."),
        (Reply('{"data": [{"row": "of a customer"', 200), "The response was cut off"),
        (Reply("<p>of a customer</p>", 200, {"Content-Type": "text/html"}), "is not JSON"),
        (Reply({"data": []}, keep=3, reset=True), "(stream orders, try 2)"),
        (Reply("", 429), "try 2: the source is temporarily unavailable."),
    ],
)
def test_failed_request_is_reported_with_status_stream_and_try(
    tap: TapOrders, server: Server, reply: Reply, expected: str
) -> None:
    """F3, F4: without the address, and with the response body only of refusals."""
    server.answers(reply)
    text = run_tap_test(tap, "connection")
    assert text is not None
    assert expected in text
    assert is_clean(text, server)
    assert "customer" not in text


def test_unreachable_server_is_reported_without_its_address(tap: TapOrders) -> None:
    """F3: the message of the HTTP library contains host, port, path and query."""
    tap = TapOrders(config={"url": "http://127.0.0.1:9"})
    text = run_tap_test(tap, "connection")
    assert text is not None
    assert text.startswith("The source is temporarily unavailable: try again later.")
    assert text.endswith("(stream orders, try 2)")
    assert "127.0.0.1" not in text
    assert "shops" not in text


def test_retry_log_lines_are_scrubbed_of_addresses(
    tap: TapOrders, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """F3, F5: log lines about retries contain the path of the stream until they are scrubbed."""
    cut = Reply({"data": []}, keep=3, reset=True)
    server.answers(Reply({"row": "of a customer"}, 500), cut, page({"id": 1}))
    with caplog.at_level(logging.INFO):
        assert list(tap.streams["orders"].get_records(None)) == [{"id": 1}]
        server.answers(Reply({"row": "of a customer"}, 503))
        with pytest.raises(RetriableAPIError):
            list(tap.streams["orders"].get_records(None))
    lines = [record.getMessage() for record in caplog.records]
    assert any("/v1/shops" in line for line in lines)
    assert not any("of a customer" in line for line in lines)
    assert all(is_clean(remove_addresses(line), server) for line in lines)
    assert any("Backing off" in remove_addresses(line) for line in lines)


# ------------------------------------------------------------------ tests by name


def test_passed_connection_test_returns_no_message(tap: TapOrders, server: Server) -> None:
    """F7: success has no message."""
    server.answers(page({"id": 1}))
    assert run_tap_test(tap, "connection") is None


def test_unknown_connection_test_lists_the_known_ones(tap: TapOrders) -> None:
    """F7: an unknown name is a failure with a message."""
    text = run_tap_test(tap, "x" * 10_000)
    assert text is not None
    assert text.endswith("Known are: 'connection', 'rights', 'missing'.")
    assert run_tap_test(tap, "missing") == (
        "The test 'missing' cannot be run: the connector lacks the method check_missing."
    )


def test_unreadable_file_is_named_without_its_folder(tap: TapOrders) -> None:
    """F4: it is reported as a missing permission, with advice."""
    assert run_tap_test(tap, "rights") == (
        "The connector lacks the permission to use 'orders.csv': Permission denied. Give that right"
        " to the user it runs as, or name another place in the configuration."
    )


def test_failure_message_is_masked(tap: TapOrders) -> None:
    """F3: the answer of a connection test contains no secret setting."""
    text = run_tap_test(tap, "rights", lambda text: text.replace("orders.csv", "***"))
    assert text is not None
    assert "to use '***':" in text


# ------------------------------------------------------------------ other errors


class ProgrammingError(Exception):
    """An error as SQLAlchemy raises it: its message has the statement and the parameters."""

    def __init__(self, message: str, state: str | None = None) -> None:
        super().__init__(f"{message}\n[SQL: SELECT a]\n[parameters: ('of a customer',)]")
        self.orig = type("Orig", (Exception,), {"sqlstate": state})(message)


@pytest.mark.parametrize(
    "error, expected",
    [
        (
            ProgrammingError("permission denied for table orders", "42501"),
            "lacks a permission in the database: permission denied for table orders. Grant it",
        ),
        (ProgrammingError("SELECT command denied to user 'me'"), "lacks a permission"),
        (ProgrammingError("no password supplied", "28000"), "The source refuses the credentials"),
        (ProgrammingError("no such table\nDETAIL: of a customer"), "no such table"),
        (PermissionError("Access Denied"), "to use a file or folder: Access Denied."),
        (FileNotFoundError(2, "No such file", b"/srv/a.csv"), "No such file: 'a.csv'"),
        (ConfigValidationError("'token' is missing"), "'token' is missing"),
        (AccessTokenError("https://x.y/z: status 400", status=400), "refuses the credentials"),
        (FatalAPIError("403 Client Error: No for path: /a", response=answer(403)), "HTTP 403"),
        (FatalAPIError("499 no", response=answer(499)), "HTTP 499: the source"),
        (RetriableAPIError("busy", answer(429)), "Try again later. busy"),
        (
            requests.HTTPError("404 Client Error: N for url: http://a/b", response=answer(404)),
            "404",
        ),
        (TableError("The table is not ours. Name another."), "The table is not ours."),
        (KeyError("id"), "Internal error"),
        (ValueError(), "ValueError"),
    ],
)
def test_error_message_depends_on_the_kind_of_error(error: Exception, expected: str) -> None:
    """F4: each kind has a message, without row values and addresses."""
    text = format_error(error)
    assert expected in text
    assert not any(part in text for part in ("customer", "/", "SELECT a", "None"))


@pytest.mark.parametrize(
    "headers, right",
    [
        ({"X_Accepted_OAuth_Scopes": "repo"}, "repo"),
        ({"X_Accepted_GitHub_Permissions": "issues=read"}, "issues=read"),
    ],
)
def test_permission_named_in_a_response_header_is_reported(
    headers: dict[str, str], right: str
) -> None:
    """F4: response headers of GitHub name the required scope."""
    error = FatalAPIError("403 Client Error: No for path: /a", response=answer(403, **headers))
    assert f"(needed: {right})" in format_error(error)


def test_tap_authors_message_comes_before_the_http_error() -> None:
    """F4: the tap author's exception wraps the HTTP error."""
    inner = FatalAPIError("404 Client Error: Not Found for url: http://a/b", response=answer(404))
    outer = ConfigurationError("There is no shop of this number")
    outer.__cause__ = inner
    assert format_error(outer) == (
        "There is no shop of this number. HTTP 404 (Not Found): the source refuses the request."
    )


@pytest.mark.parametrize("sign", ["a", "ä", "%", '"', "🙂", "\ud800", "\x00"])
def test_message_fits_into_a_header(sign: str) -> None:
    """F4: below 8 kB, also when characters outside ASCII are percent-encoded."""
    text = format_error(ValueError(sign * 20_000))
    assert len(text) > 500
    assert sum(3 if byte > 126 or byte == 37 else 1 for byte in text.encode()) < 8_000


def test_secret_is_masked_before_the_message_is_truncated() -> None:
    """F3: the truncated message contains no part of a secret."""
    for length in range(7_700, 7_900, 7):
        text = format_error(
            ValueError("x" * length + SECRET), lambda text: text.replace(SECRET, "***")
        )
        assert SECRET[:3] not in text


# ------------------------------------------------------------------ addresses in texts


@pytest.mark.parametrize(
    "text",
    [
        "and/or 01/02/2020, 2020/01/02 application/json; n/a. 24/7 TCP/IP w/o HTTP/1.1 (I/O)",
        "America/New_York is a time zone? Is it and/or? 5 / 6 = 0.8",
        "id=7, stream='orders', state={'a': 1} at 12:30:00+02:00 for somebody@example",
        "AT&T says: no. What? 100% & more",
        "The setting for url is missing, path: none.",
    ],
)
def test_text_without_addresses_is_unchanged(text: str) -> None:
    """F3: slashes and punctuation in ordinary text are kept."""
    assert remove_addresses(text) == text


@pytest.mark.parametrize(
    "text, result",
    [
        ("GET https://me:word@api.x.io:80/a(b)?c=d#e, try 5]", "GET ***, try 5]"),
        ("{'url': 'https://x.io/a', 'b': 1}", "{'url': '***', 'b': 1}"),
        ("https:\\/\\/x.io\\/a and https%3A%2F%2Fx.io%2Fa", "*** and ***"),
        ("jdbc:postgresql://host/db", "jdbc:***"),
        ("exceeded with url: /v1/x?y=z (Caused", "exceeded with url: *** (Caused"),
        ("failed for path: users, content", "failed for path: ***, content"),
        ("for URL users, failing", "for URL ***, failing"),
        ("path='a b', url=users", "path=***, url=***"),
        ("v1/users/12 users?page=2 a=1&b=2", "*** *** ***"),
        ("api.x.io/users localhost:80/x me:word@host", "*** *** ***"),
        ("(/users) '/users' \"/users\"", "(***) '***' \"***\""),
        ("HTTPSConnectionPool(host='api.x.io', port=443): Read", "the server: Read"),
        ("Failed to resolve 'api.x.io' (Name", "Failed to resolve the server (Name"),
        ("no, content is {a: 1}, headers: B", "no, content is ***, headers: B"),
    ],
)
def test_addresses_paths_and_parameters_are_removed(text: str, result: str) -> None:
    """F3: URLs, request paths and query parameters are removed from messages."""
    assert remove_addresses(text) == result


PIECES = [
    *("a", "B1", "0", " ", "/", "//", ":", "://", "?", "=", "&", "@", ".", ",", "'", '"', "(", ")"),
    *("*", "%", "\\/", "[", "]", "{", "}", "\n", "for URL ", "for path: ", "with url: ", "path="),
    *("query=", "http://x.io/a", "x.io", "%2F", "<", ">", "***", "HTTPSConnectionPool(host='"),
]


@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join) | st.text())
def test_scrubbing_is_idempotent_and_complete(text: str) -> None:
    """F3: scrubbing again changes nothing, and no address is left."""
    once = remove_addresses(text)
    assert remove_addresses(once) == once
    assert not any(mark in once for mark in ("a://", "1://", "x.io/"))


@pytest.mark.parametrize("piece", PIECES)
def test_scrubbing_time_is_linear_in_the_length(piece: str) -> None:
    """The regular expressions have no quadratic runtime for repeated text."""

    def seconds(times: int) -> float:
        text = piece * times
        before = time.thread_time()
        format_error(ValueError(text))
        remove_addresses(text)
        return time.thread_time() - before

    short_seconds, long_seconds = (
        min(seconds(500) for _ in range(3)),
        min(seconds(8_000) for _ in range(2)),
    )
    assert long_seconds < 100 * short_seconds + 0.05
