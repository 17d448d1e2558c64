"""Retries of requests: which failures, after which waits, and when a stream gives up."""

from __future__ import annotations

import gzip
import logging
import threading
import zlib
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from types import SimpleNamespace
from unittest.mock import patch

import pytest
import requests

from tap_core.exceptions import FatalAPIError, RetriableAPIError
from tap_core.http.retry import RETRY_AFTER_LIMIT, is_permanent_failure, retry_after
from tests.http.raw import raw_server
from tests.http.server import Reply, page

BUSY = Reply({"error": "busy"}, 503)
ONE = {"id": 1}
READS_TEXT = {
    "next_page_token_jsonpath": None,
    "parse_response": lambda _, response: response.text.split(","),
}
"""Members of a stream of another format than JSON."""


def response(**headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return SimpleNamespace(headers=headers)


def test_server_errors_are_retried_after_growing_waits_with_jitter(source):
    source.server.answers(*[BUSY] * 4, page(ONE))
    stream = source.stream()
    assert list(stream.get_records(None)) == [ONE]
    assert stream.waits == [2.25, 4.25, 8.25, 16.25]


def test_stream_fails_after_five_tries_with_the_status(source):
    source.server.answers(BUSY)
    stream = source.stream()
    with pytest.raises(RetriableAPIError, match=r"^503 Server Error: Service Unavailable for path"):
        list(stream.get_records(None))
    assert len(source.server.requests) == 5


def test_retry_after_seconds_replace_the_backoff(source):
    source.server.answers(
        Reply("", 429, {"Retry-After": "7"}),
        Reply("", 503, {"Retry-After": "11"}),
        BUSY,
        page(ONE),
    )
    stream = source.stream()
    assert list(stream.get_records(None)) == [ONE]
    assert stream.waits == [7, 11, 2.25]


def test_retry_after_zero_is_obeyed_once_then_backoff_starts(source):
    at_once = Reply("", 503, {"Retry-After": "0"})
    source.server.answers(at_once, at_once, BUSY, at_once, page(ONE))
    stream = source.stream()
    assert list(stream.get_records(None)) == [ONE]
    assert stream.waits == [0, 2.25, 4.25, 0]


def test_429_without_retry_after_uses_the_backoff(source):
    source.server.answers(Reply("", 429), page(ONE))
    stream = source.stream()
    assert list(stream.get_records(None)) == [ONE]
    assert stream.waits == [2.25]


def test_author_can_ignore_retry_after(source):
    source.server.answers(Reply("", 429, {"Retry-After": "7"}), page(ONE))
    stream = source.stream(respect_retry_after=False)
    assert list(stream.get_records(None)) == [ONE]
    assert stream.waits == [2.25]


def test_author_can_read_the_wait_from_the_response(source):
    def seconds(error):
        return int(error.response.headers["X-Wait"])

    source.server.answers(Reply("", 429, {"X-Wait": "30"}), page(ONE))
    stream = source.stream(
        backoff_wait_generator=lambda self: self.backoff_runtime(value=seconds),
        backoff_jitter=lambda self, value: value,
    )
    assert list(stream.get_records(None)) == [ONE]
    assert stream.waits == [30]


def test_wait_until_a_time_in_the_past_is_no_wait(source):
    source.server.answers(Reply("", 429), page(ONE))
    stream = source.stream(
        backoff_wait_generator=lambda self: self.backoff_runtime(value=lambda _: -5.0),
        backoff_jitter=lambda self, value: value,
    )
    assert list(stream.get_records(None)) == [ONE]
    assert stream.waits == [0.0]


def test_exhausted_wait_generator_ends_the_retries(source):
    def twice(self):
        yield None
        yield 1
        yield 2

    source.server.answers(BUSY)
    with pytest.raises(RetriableAPIError):
        source.records(backoff_wait_generator=twice)
    assert len(source.server.requests) == 3


def test_author_sets_the_number_of_tries(source):
    source.server.answers(BUSY)
    with pytest.raises(RetriableAPIError):
        source.records(backoff_max_tries=lambda self: 2)
    assert len(source.server.requests) == 2


def test_default_jitter_is_less_than_a_second(source):
    stream = source.stream()
    assert 3 <= super(type(stream).__base__, stream).backoff_jitter(3) < 4


def test_successful_request_does_not_enter_the_retry_loop(source):
    source.server.answers(page(ONE))
    with patch("backoff.on_exception", side_effect=AssertionError):
        assert source.records() == [ONE]


def test_elapsed_time_is_measured_from_the_first_try(source):
    calls, starts = [], []

    def waits(self):
        starts.append(len(source.server.requests))
        yield 0
        yield 1
        yield 2

    def handler(self, details):
        calls.append((details["tries"], details["elapsed"] >= slow, type(details["exception"])))

    slow, replies = 0.2, iter([BUSY, BUSY, page(ONE)])

    def answer(_):
        threading.Event().wait(
            0 if len(source.server.requests) > 1 else slow
        )  # no wait in this test
        return next(replies)

    source.server.answers_by(answer)
    assert source.records(backoff_wait_generator=waits, backoff_handler=handler) == [ONE]
    assert starts == [0]
    assert calls == [(1, True, RetriableAPIError), (2, True, RetriableAPIError)]


def test_later_failure_is_not_chained_to_an_earlier_one(source):
    source.server.answers(BUSY, Reply("", 404))
    with pytest.raises(FatalAPIError, match=r"^404 .*, try 2\]$") as caught:
        source.records()
    assert caught.value.__context__ is None


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_other_client_errors_are_not_retried(source, status):
    source.server.answers(Reply("", status))
    with pytest.raises(FatalAPIError, match=f"^{status} Client Error"):
        source.records()
    assert len(source.server.requests) == 1


def test_extra_retry_statuses_are_retried(source):
    source.server.answers(Reply("", 403), page(ONE))
    assert source.records(extra_retry_statuses=[403]) == [ONE]


def test_tolerated_http_errors_yield_no_records(source, caplog):
    source.server.answers(Reply("nothing here", 404))
    caplog.set_level(logging.INFO)
    assert source.records(tolerated_http_errors=[404, 503]) == []
    assert "Pagination stopped after 0 pages" in caplog.text
    source.server.answers(Reply("", 503))
    assert source.records(tolerated_http_errors=[404, 503]) == []


@pytest.mark.parametrize(
    "broken",
    [
        Reply({"data": [ONE]}, keep=9),
        Reply({"data": [ONE]}, keep=9, reset=True),
        Reply({"data": [ONE]}, keep=9, chunked=True),
        Reply({"data": [ONE]}, keep=9, length=False),
        Reply({"data": [ONE]}, keep=0, length=False),
        Reply(b"\x1f\x8bnot gzip", headers={"Content-Encoding": "gzip"}),
    ],
    ids=["too short", "reset", "no last chunk", "no length", "nothing", "not compressed"],
)
def test_broken_response_body_is_retried(source, broken):
    source.server.answers(broken, page(ONE))
    assert source.records() == [ONE]
    assert len(source.server.requests) == 2


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/csv\r\nContent-Length:",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/csv\r\nTransfer-Encoding: chunked\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: /lo",
    ],
    ids=["reason", "status", "length", "chunked", "continue", "redirect"],
)
def test_response_whose_headers_are_cut_off_is_retried(source, head):
    """Without its headers, the body of a response looks empty: rows in a CSV file would be lost."""
    complete = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na,b"

    def write(server, connection):
        connection.sendall(head if len(server.requests) == 1 else complete)

    with raw_server(write) as server:
        source.server = server
        rows = source.records(**READS_TEXT)
    assert rows == ["a", "b"]


@pytest.mark.parametrize("keep", [1, 12, -9, -1])
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "deflate, gzip"])
@pytest.mark.parametrize("chunked", [False, True])
def test_compressed_body_that_is_cut_off_is_retried(source, encoding, keep, chunked):
    """The decoded part of a CSV file looks complete: the rows after it would be lost."""
    body = ",".join(map(str, range(500))).encode()
    for part in encoding.split(", "):
        body = {"gzip": gzip.compress, "deflate": zlib.compress}[part](body)
    headers = {"Content-Encoding": encoding}
    cut_off, complete = (
        Reply(part, headers=headers, chunked=chunked) for part in (body[:keep], body)
    )
    source.server.answers(cut_off, complete)
    rows = source.records(**READS_TEXT)
    assert rows == [str(number) for number in range(500)]
    assert len(source.server.requests) == 2


@pytest.mark.parametrize(
    "body",
    [b"", gzip.compress(b"a") + gzip.compress(b",b"), gzip.compress(b"a,b") + b"\n"],
    ids=["empty", "two members", "line break"],
)
@pytest.mark.parametrize("chunked", [False, True])
def test_compressed_body_may_be_empty_or_have_several_members(source, body, chunked):
    source.server.answers(Reply(body, headers={"Content-Encoding": "gzip"}, chunked=chunked))
    rows = source.records(**READS_TEXT)
    assert rows == (["a", "b"] if body else [""])


def test_request_without_a_response_times_out_and_is_retried(source):
    is_asked = threading.Event()

    def answer(_asked):
        if is_asked.is_set():
            return page(ONE)
        is_asked.set()
        return Reply(silent=True)

    def choose_timeout(stream):
        """Return a short time for the response of the first try only."""
        assert not stream.waits or is_asked.wait(60)
        return 60 if stream.waits else (60, 0.2)

    source.server.answers_by(answer)
    stream = source.stream(timeout=property(choose_timeout))
    assert list(stream.get_records(None)) == [ONE]
    assert len(source.server.requests) == 2


@pytest.mark.parametrize("timeout", [None, 0])
def test_each_request_has_a_timeout(source, timeout):
    class Session(requests.Session):
        timeouts = []

        def send(self, request, **settings):
            self.timeouts.append(settings["timeout"])
            return super().send(request, **settings)

    source.server.answers(page(ONE))
    assert source.records(requests_session=Session(), timeout=timeout) == [ONE]
    assert source.records(requests_session=Session()) == [ONE]
    assert Session.timeouts == [300, 300]


def test_refused_connection_is_retried_and_names_the_stream(source):
    with pytest.raises(
        requests.exceptions.ConnectionError, match=r"stream 'users', GET http.*try 5"
    ):
        source.records(url_base="http://127.0.0.1:9")


def test_failed_try_is_logged_before_the_wait(source, caplog):
    caplog.set_level(logging.INFO)
    source.server.answers(BUSY, Reply({}, keep=0), page(ONE))
    source.records()
    retried = [record for record in caplog.records if "Backing off" in record.msg]
    assert [record.levelno for record in retried] == [logging.INFO, logging.INFO]
    logged = [record.getMessage() for record in retried]
    assert logged[0] == (
        "Stream 'users': Backing off 2.25 seconds after try 1 for URL /users, failing with"
        " status 503: Service Unavailable"
    )
    assert logged[1].startswith(
        "Stream 'users': Backing off 4.25 seconds after try 2 for URL /users, failing with"
        " ChunkedEncodingError"
    )


# Retry-After


@pytest.mark.parametrize(
    "text, wait",
    [
        ("120", 120),
        (" 5 ", 5),
        ("0", 0),
        ("-3", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        ("²", None),
        ("9" * 400, RETRY_AFTER_LIMIT),
        (f"Mon, 01 Jan {'9' * 20} 00:00:00 GMT", None),
        (f"Mon, 01 Jan 2030 00:00:00 +{'9' * 20}", None),
        (str(RETRY_AFTER_LIMIT + 1).removesuffix(".0"), RETRY_AFTER_LIMIT),
    ],
)
def test_retry_after_seconds_are_parsed_and_bounded(text, wait):
    assert retry_after(response(Retry_After=text)) == wait


def test_retry_after_date_is_relative_to_the_date_of_the_server():
    then = datetime(2001, 2, 3, 4, 5, 6, tzinfo=timezone.utc)
    dates = {"Retry_After": format_datetime(then, usegmt=True)}
    sent = format_datetime(then - timedelta(seconds=90), usegmt=True)
    assert retry_after(response(**dates, Date=sent)) == 90
    assert retry_after(response(**dates)) is None  # long ago
    late = format_datetime(datetime.now(timezone.utc) + timedelta(minutes=30), usegmt=True)
    assert 1700 < retry_after(response(Retry_After=late)) <= 1800
    assert 1700 < retry_after(response(Retry_After=late.replace("GMT", "-0000"))) <= 1800


def test_failure_without_a_response_has_no_retry_after():
    assert retry_after(None) is None


def test_invalid_certificate_or_a_response_without_tls_is_a_permanent_failure():
    error = requests.exceptions.SSLError
    assert is_permanent_failure(error("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed"))
    assert is_permanent_failure(error("[SSL: WRONG_VERSION_NUMBER] wrong version number"))
    assert not is_permanent_failure(error("EOF occurred in violation of protocol"))
    assert not is_permanent_failure(
        requests.exceptions.ConnectionError("CERTIFICATE_VERIFY_FAILED")
    )
