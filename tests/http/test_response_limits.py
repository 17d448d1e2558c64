"""Limits of the size and the duration of a response, also against hostile servers."""

from __future__ import annotations

import gzip
import io
import socket
import subprocess
import sys
import time
import tracemalloc
import zlib
from typing import Any

import pytest
import requests

from tap_core.authenticators import AccessTokenError, OAuthAuthenticator
from tap_core.authenticators.token_endpoint import RetryPolicy
from tap_core.exceptions import FatalAPIError, RetriableAPIError
from tap_core.http.request import prepare_request
from tap_core.http.response import JSONResponse
from tap_core.http.response_body import read_body
from tap_core.http.response_limits import (
    Deadline,
    ResponseLimits,
    ResponseTooLargeError,
    ResponseTooSlowError,
)
from tap_core.http.session import make_session
from tap_core.http.spooled_response import SpooledResponse, spool_to_file
from tap_core.http.transport import ask_token_endpoint
from tap_core.incremental.datetime_formats import get_format
from tap_core.manifest.components.transformations import KeysToSnakeCase
from tap_core.redaction import is_secret_name
from tests.http.conftest import Source, Users
from tests.http.raw import HEAD, RawServer, raw_server
from tests.http.server import Reply, page

SMALL = {"max_response_bytes": 1_000}
SHORT = {"max_response_seconds": 1.0}
"""Half of this time without a byte counts as a lost connection: send pieces more often."""


def members(server: RawServer, **overrides: Any) -> dict[str, Any]:
    return {"url_base": server.url, **overrides}


# Size


@pytest.mark.parametrize("chunked", [True, False])
def test_too_large_response_is_rejected_with_the_limit_and_stream(server, source, chunked):
    server.answers(Reply({"data": [{"id": 1}], "more": "x" * 1_000}, chunked=chunked))
    with pytest.raises(ResponseTooLargeError) as caught:
        source.records(**SMALL)
    assert "larger than 1,000 bytes" in str(caught.value)
    assert "raise max_response_bytes" in str(caught.value)
    assert "stream 'users'" in str(caught.value)
    assert len(server.requests) == 1
    if not chunked:
        assert source.records(max_response_bytes=2_000) == [{"id": 1}]
        assert source.records(max_response_bytes=None) == [{"id": 1}]


ENCODED = {
    "gzip": lambda body: gzip.compress(body, 1),
    "deflate": lambda body: zlib.compress(body, 1),
    "gzip, gzip": lambda body: gzip.compress(gzip.compress(body, 1), 1),
}


@pytest.mark.parametrize("encoding", sorted(ENCODED))
def test_size_limit_applies_to_the_decoded_body(server, source, encoding):
    """SEC13: the size of a response is counted after its Content-Encoding is decoded."""
    body = ENCODED[encoding](b'{"data": [{"id": 1}]}' + b" " * 110_000_000)
    assert len(body) < 1_000_000
    server.answers(Reply(body, headers={"Content-Encoding": encoding}))
    with pytest.raises(ResponseTooLargeError):
        source.records()


@pytest.mark.parametrize(
    "length", [b"5, 5", b"5\r\nContent-Length: 5", b"five", b"-5", b"+5", b"5_0"]
)
def test_invalid_content_length_does_not_lift_the_size_limit(length):
    """The size limit applies also if the Content-Length header is malformed or false."""

    def write(server: RawServer, connection: socket.socket) -> None:
        connection.sendall(HEAD + b"Content-Length: " + length + b"\r\n\r\n")
        connection.sendall(b'{"data": [' + b" " * 2_000)
        server.drip(connection, b" " * 2_000, 0.02)

    lengths: list[int] = []

    def validate_response(self: Any, response: requests.Response) -> None:
        lengths.append(len(response.content))

    with raw_server(write) as server, pytest.raises(Exception):  # noqa: B017,PT011
        Source(server).records(  # type: ignore[arg-type]
            **members(server, timeout=2, validate_response=validate_response, **SMALL)
        )
    assert max(lengths, default=0) <= 1_000


@pytest.mark.parametrize("charset", ["punycode", "IDNA", "undefined", "\0"])
@pytest.mark.parametrize("status", [200, 404])
def test_body_is_not_decoded_by_a_codec_for_names_of_hosts(server, source, charset, status):
    """SEC13: the time of such a codec grows with the length of the body squared."""
    body = b'{"data": [{"id": "\xff' + b"a" * 2_000_000 + b"-" + b"b" * 2_000_000
    kind = {"Content-Type": f"application/json; charset={charset}"}
    server.answers(Reply(body, status, kind))

    def parse_response(_, response):
        assert "bbb" in response.text
        yield from response.json()["data"]

    began = time.process_time()
    for overrides in ({}, {"parse_response": parse_response}):
        with pytest.raises((FatalAPIError, RetriableAPIError)):
            source.records(backoff_max_tries=lambda _: 1, **overrides)
    server.answers(Reply(b'{"data": [{"id": "\xc3\xa9"}]}', 200, kind))
    assert source.records() == [{"id": "\u00e9"}]
    assert time.process_time() - began < 10


def test_size_limit_applies_to_the_body_of_a_redirect(server, source):
    location = {"Location": "/there", "Content-Encoding": "gzip"}
    server.answers(Reply(gzip.compress(b" " * 100_000), status=302, headers=location), page())
    with pytest.raises(ResponseTooLargeError):
        source.records(**SMALL)


def test_size_limit_applies_to_the_body_of_an_error(server, source):
    server.answers(Reply(b"x" * 2_000, status=400))
    with pytest.raises(ResponseTooLargeError):
        source.records(**SMALL)


@pytest.mark.parametrize("document", ["[[],", "[{},", '[{"a":1},', "[0.1,", "[[[]],"])
def test_json_that_needs_too_much_memory_when_parsed_is_rejected(document):
    """The memory of the parsed document is estimated from its brackets and commas first."""
    body = (document[0] + document[1:] * 5_000 + "0]").encode()
    for read in (JSONResponse.json, lambda answer: answer.read(lambda: None)):
        answer = make_json_response(body, 100_000)
        with pytest.raises(ResponseTooLargeError, match="raise max_response_bytes"):
            read(answer)
    assert len(make_json_response(body, 10_000_000).json()) > 5_000
    assert len(make_json_response(body, None).json()) > 5_000


def make_json_response(body: bytes, max_bytes: int | None) -> Any:
    response = requests.Response()
    response.status_code, response.raw = 200, io.BytesIO(body)
    return JSONResponse.of(response, max_bytes)


def test_ordinary_records_may_use_half_of_the_size_limit():
    record = b'{"id":123456,"name":"John Smith","email":"j@example.com","when":"2024-01-01"},'
    body = b"[" + record * 6_000 + b"{}]"
    assert len(make_json_response(body, 2 * len(body)).json()) == 6_001


def test_download_has_its_own_larger_limit_and_stays_on_disk(server):
    server.answers(Reply(b"x" * 5_000))
    with requests.Session() as session:

        def download(limits: ResponseLimits) -> requests.Response:
            response = session.get(server.url, stream=True, timeout=5)
            return spool_to_file(response, limits, Deadline(limits))

        answer = download(ResponseLimits(1_000, 10_000))
        assert isinstance(answer, SpooledResponse)
        assert answer.body().read() == b"x" * 5_000
        with pytest.raises(ResponseTooLargeError, match="raise max_response_bytes"):
            _ = answer.content
        with pytest.raises(ResponseTooLargeError, match="raise max_download_bytes"):
            download(ResponseLimits(10_000, 1_000))


def test_body_is_read_from_the_connection_once():
    response = requests.Response()
    read_body(response, ResponseLimits())
    assert response.content is None
    response = make_json_response(b"x" * 10, None)
    read_body(response, ResponseLimits())
    read_body(response, ResponseLimits(1))
    assert response.content == b"x" * 10


_PEAK = r"""
import sys
from tests.http.conftest import Source, Users
from tests.http.server import Reply, serving
from tests.http.test_response_limits import WORST
from tests.process_memory import read_peak_memory

if __name__ == "__main__":
    with serving() as server:  # in threads of this process, so that its copies count as well
        server.answers(Reply(WORST[sys.argv[1]]()))
        sent = read_peak_memory()
        try:
            print("records", sum(1 for _ in Source(server).stream(Users).request_records(None)))
        except Exception as error:
            print(type(error).__name__)
    print(read_peak_memory() >> 20, sent >> 20)
"""

WORST = {
    "decimals": lambda: b'{"data":[' + b"0.1," * 3_400_000 + b"0]}",
    "objects": lambda: b'{"data":[' + b'{"a":1},' * 1_600_000 + b"{}]}",
    "arrays": lambda: b'{"data":[' + b"[[[]]]," * 1_100_000 + b"[]]}",
    "refused": lambda: b'{"data":[' + b"{}," * 30_000_000 + b"{}]}",
    "text": lambda: b'{"data":["' + "é".encode() * 45_000_000 + b'"],"x":NaN}',
}


@pytest.mark.parametrize(
    "kind",
    ["objects", *(pytest.param(name, marks=pytest.mark.thorough) for name in sorted(WORST))],
)
def test_largest_allowed_response_needs_less_than_600_megabytes(kind):
    """SEC13: with the defaults no response takes more than 600 MB of memory."""
    process = subprocess.run(
        [sys.executable, "-c", _PEAK, kind],
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    outcome, sizes = process.stdout.splitlines()
    peak, _ = map(int, sizes.split())
    assert outcome.startswith("records") == (kind != "refused"), outcome
    assert peak < 600, outcome


class LongAddress(Users):
    """A stream whose URL contains a long value, as a link in a response may."""

    def get_url(self, context: Any) -> str:
        return f"{self.url_base}/{'x' * 100_000}"


def test_too_long_url_is_not_requested(server, source):
    """SEC13: the parts of many URLs are cached, and a link may have a hundred megabytes."""
    with pytest.raises(
        FatalAPIError, match=r"has 100,0\d\d characters, more than 100,000"
    ) as caught:
        source.records(LongAddress)
    assert server.requests == []
    assert str(caught.value).endswith(f"[stream 'users', GET {server.url}/…, try 1]")


def rename(text: str) -> None:
    KeysToSnakeCase().transform({text: 1}, {})


def parse_date(text: str) -> None:
    with pytest.raises(ValueError, match="is not a date-time"):
        get_format("%H:%M %d.%m.%Y").read(f"12:00{' ' * len(text)}{text[:1]}.1.2020")


def prepare(text: str) -> None:
    request = requests.Request("GET", "http://h/", {"X-Page": text}, auth=("user", "word"))
    prepare_request(make_session(), request, user_agent="a")


@pytest.mark.parametrize("read", [is_secret_name, rename, parse_date, prepare])
def test_long_texts_of_a_source_are_not_kept(read):
    """SEC13: results are cached by name, but a source may send thousands of names of a megabyte."""
    read("x" * 3_000)
    tracemalloc.start()
    try:
        for number in range(1, 10):
            read(f"{number}{'x' * 100_000}")
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size < 500_000


def redirecting(location: bytes) -> bytes:
    return b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: " + location + b"\r\n\r\n"


@pytest.mark.parametrize(
    "response",
    [
        redirecting(b"http://[bad"),
        redirecting(b"http://\xff\xfe/"),
        redirecting(b"http://a..b/"),
        redirecting(b"http://" + b"a" * 300 + b"/"),
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
        HEAD + b"Content-Length: " + b"9" * 5_000 + b"\r\n\r\n[",
    ],
    ids=["brackets", "no UTF-8", "dots", "long", "chunk", "length"],
)
def test_malformed_response_is_an_error_of_the_http_client(source, response):
    """SEC15: no malformed header or chunk ends in a built-in exception."""
    with raw_server(lambda _, connection: connection.sendall(response)) as server:
        with pytest.raises(requests.exceptions.RequestException, match=r"\[stream 'users', GET"):
            source.records(**members(server, backoff_max_tries=lambda _: 1))
        session = requests.Session()
        with pytest.raises(requests.exceptions.RequestException):
            ask_token_endpoint(session, server.url, timeout=10).json()


# Time


def drip_body(server: RawServer, connection: socket.socket) -> None:
    connection.sendall(HEAD + b"Content-Length: 100000\r\n\r\n")
    server.drip(connection, b" ", 0.02)


def drip_chunks(server: RawServer, connection: socket.socket) -> None:
    connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    server.drip(connection, b"1\r\n \r\n", 0.02)


def drip_the_length_of_a_chunk(server: RawServer, connection: socket.socket) -> None:
    connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;")
    server.drip(connection, b"x", 0.02)


def drip_a_header(server: RawServer, connection: socket.socket) -> None:
    connection.sendall(HEAD + b"X: ")
    server.drip(connection, b"x", 0.02)


def drip_the_status(server: RawServer, connection: socket.socket) -> None:
    server.drip(connection, b"H", 0.02)


def say_continue(server: RawServer, connection: socket.socket) -> None:
    server.drip(connection, b"HTTP/1.1 100 Continue\r\n\r\n", 0.01)


def redirect_slowly(server: RawServer, connection: socket.socket) -> None:
    for (
        byte
    ) in b"HTTP/1.1 302 Found\r\nLocation: /\r\nConnection: close\r\nContent-Length: 0\r\n\r\n":
        connection.sendall(bytes([byte]))
        if server.closing.wait(0.003):
            return


SLOW = [
    *(drip_body, drip_chunks, drip_the_length_of_a_chunk, drip_a_header, drip_the_status),
    *(say_continue, redirect_slowly),
]


@pytest.mark.every_nth_case(2)
@pytest.mark.parametrize("write", SLOW, ids=lambda write: write.__name__)
def test_slow_response_is_aborted_after_the_time_limit(write, monkeypatch):
    """SEC13: a server that sends slowly is cut off, in headers and body alike.

    No silence counts as a lost connection, because a busy machine may send the bytes too late.
    """
    monkeypatch.setattr(Deadline, "longest_silence", lambda _deadline, remaining: remaining)
    with raw_server(write) as server, pytest.raises(ResponseTooSlowError) as caught:
        Source(server).records(**members(server, timeout=60, **SHORT))  # type: ignore[arg-type]
    assert "1 seconds after its first byte" in str(caught.value)
    assert "raise max_response_seconds" in str(caught.value)
    if write is not redirect_slowly:
        assert len(server.requests) == 1


def test_endless_100_continue_responses_hit_the_size_limit():
    def flood(server: RawServer, connection: socket.socket) -> None:
        while not server.closing.is_set():
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000)

    small = {"max_response_bytes": 1_000, "max_response_seconds": None}
    with raw_server(flood) as server, pytest.raises(ResponseTooLargeError):
        Source(server).records(**members(server, **small))  # type: ignore[arg-type]


def test_time_limit_starts_with_the_first_byte():
    def think(server: RawServer, connection: socket.socket) -> None:
        server.closing.wait(1.5)
        connection.sendall(HEAD + b'Content-Length: 20\r\n\r\n{"data":[{"id": 1}]}')

    with raw_server(think) as server:
        source = Source(server)  # type: ignore[arg-type]
        assert source.records(**members(server, **SHORT)) == [{"id": 1}]


def test_slow_response_succeeds_with_a_higher_time_limit():
    def slowly(server: RawServer, connection: socket.socket) -> None:
        connection.sendall(HEAD + b"Content-Length: 20\r\n\r\n")
        for byte in b'{"data":[{"id": 1}]}':
            server.closing.wait(0.06)
            connection.sendall(bytes([byte]))

    with raw_server(slowly) as server:
        source = Source(server)  # type: ignore[arg-type]
        with pytest.raises(ResponseTooSlowError):
            source.records(**members(server, **SHORT))
        assert source.records(**members(server, max_response_seconds=60)) == [{"id": 1}]
        assert source.records(**members(server, max_response_seconds=None)) == [{"id": 1}]


def test_stalled_connection_is_retried():
    """A stalled connection counts as broken, which is a temporary failure."""

    def stop(server: RawServer, connection: socket.socket) -> None:
        connection.sendall(HEAD + b'Content-Length: 20\r\n\r\n{"data":')
        if len(server.requests) < 2:
            server.closing.wait(60)
        else:
            connection.sendall(b'[{"id": 1}]}')

    with raw_server(stop) as server:
        source = Source(server)  # type: ignore[arg-type]
        assert source.records(**members(server, max_response_seconds=3)) == [{"id": 1}]
    assert len(server.requests) == 2


def stop_after_a_byte(server: RawServer, connection: socket.socket) -> None:
    connection.sendall(HEAD + b"Content-Length: 20\r\n\r\n{")
    server.closing.wait(60)


def break_after_a_while(server: RawServer, connection: socket.socket) -> None:
    connection.sendall(HEAD + b"Content-Length: 20\r\n\r\n{")
    server.closing.wait(1.1)


def cut_json_after_a_while(server: RawServer, connection: socket.socket) -> None:
    connection.sendall(HEAD + b"Content-Length: 1\r\n\r\n")
    server.closing.wait(0.55)
    connection.sendall(b"{")


@pytest.mark.parametrize("write", [stop_after_a_byte, break_after_a_while, cut_json_after_a_while])
def test_retries_of_a_request_share_one_time_limit(write):
    """SEC13: retries do not extend the time limit of a server that stops in mid-response."""
    with raw_server(write) as server, pytest.raises(ResponseTooSlowError) as caught:
        Source(server).records(  # type: ignore[arg-type]
            **members(server, max_response_seconds=1.5)
        )
    assert 2 <= len(server.requests) <= 3
    assert "for earlier responses" in str(caught.value)
    assert "raise max_response_seconds" in str(caught.value)


def test_each_page_has_its_own_time_limit():
    """The time of failed tries counts only for the page that they requested."""

    def stop_once_each(server: RawServer, connection: socket.socket) -> None:
        number = len(server.requests)
        body = b'{"data":[{"id": 1}],"next":"%d"}' % number
        body = body if number < 6 else b'{"data":[{"id": 2}]}'
        connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n{" % len(body))
        if number % 2:
            server.closing.wait(60)
        connection.sendall(body[1:])

    with raw_server(stop_once_each) as server:
        source = Source(server)  # type: ignore[arg-type]
        assert len(source.records(**members(server, max_response_seconds=2))) == 3


def test_retried_download_gets_the_full_limits_again():
    deadline = Deadline(
        ResponseLimits(max_download_bytes=1_000_000, max_response_seconds=0.1), is_file=True
    )
    deadline.count(10_000_000)
    deadline.begin_retry()
    deadline.count(10_000_000)
    assert (deadline.left() or 0) > 1


def test_reused_connection_has_its_usual_timeout(server, source):
    server.answers(page({"id": 1}, next="2"), page({"id": 2}))
    timeouts: list[Any] = []

    def parse_response(self: Any, response: requests.Response) -> Any:
        manager = self.requests_session.get_adapter(response.url).poolmanager
        [key] = manager.pools.keys()
        timeouts.extend(
            connection.sock.gettimeout()
            for connection in manager.pools[key].pool.queue
            if connection
        )
        return response.json()["data"]

    assert len(source.records(parse_response=parse_response, timeout=77)) == 2
    assert timeouts == [77, 77]


def test_time_limit_of_a_download_grows_with_the_received_bytes():
    deadline = Deadline(ResponseLimits(max_response_seconds=0.05), is_file=True)
    deadline.count(1)
    time.sleep(0.1)
    with pytest.raises(ResponseTooSlowError):
        deadline.left()
    deadline.count(200_000)
    assert 0 < (deadline.left() or 0) < 3.1
    assert Deadline(ResponseLimits()).left() is None


# Token endpoints


class Login(OAuthAuthenticator):
    oauth_request_body = {"grant_type": "client_credentials"}


@pytest.mark.every_nth_case(2)
@pytest.mark.parametrize("write", SLOW[:5], ids=lambda write: write.__name__)
def test_slow_token_response_is_aborted_after_the_time_limit(write):
    with raw_server(write) as server:
        login = Login(auth_endpoint=f"{server.url}/token")
        login.patience = RetryPolicy(max_response_seconds=1)
        with pytest.raises(AccessTokenError, match=r"1 seconds after its first byte"):
            login.update_access_token()
        login._session.close()
    assert len(server.requests) == 1


def test_retries_of_a_token_request_share_one_time_limit():
    with raw_server(stop_after_a_byte) as server:
        login = Login(auth_endpoint=f"{server.url}/token")
        login.patience = RetryPolicy(max_response_seconds=1.5, sleep=lambda _: None)
        with pytest.raises(AccessTokenError, match=r"1\.5 seconds after its first byte"):
            login.update_access_token()
        login._session.close()
    assert len(server.requests) == 2


def test_size_limit_applies_to_token_responses(server):
    server.answers(Reply(gzip.compress(b" " * 50_000_000), headers={"Content-Encoding": "gzip"}))
    login = Login(auth_endpoint=f"{server.url}/token")
    with pytest.raises(AccessTokenError, match="larger than 10,000,000 bytes"):
        login.update_access_token()
    login._session.close()
