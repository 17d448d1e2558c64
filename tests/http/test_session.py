"""The HTTP session of a stream behaves as that of requests, with less work per request."""

from __future__ import annotations

import io
import json
import random
import socket
from contextlib import redirect_stdout
from decimal import Decimal
from enum import Enum
from http.client import HTTPMessage, HTTPResponse
from types import SimpleNamespace
from unittest.mock import patch
from urllib.parse import urlencode

import pytest
import requests
from requests.adapters import HTTPAdapter
from requests.cookies import extract_cookies_to_jar
from urllib3.response import HTTPResponse as RawResponse

from tap_core.http import connection_pools
from tap_core.http.request import HTTPRequest, prepare_request
from tap_core.http.session import make_session
from tests.http.conftest import Users, UsersTap
from tests.http.server import Reply, page

OK = b"HTTP/1.1 200 OK\r\n"
HEADS = [
    OK + b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
    OK + b"Content-Length:2\r\nX-Empty:\r\nX-Space: \t a b \t\r\n\r\n{}",
    OK + b"Set-Cookie: a=1\r\nset-cookie: b=2\r\nContent-Length: 2\r\nContent-Length: 1\r\n\r\n{}",
    OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    OK + b"Transfer-Encoding: Chunked\r\nContent-Length: 9\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    OK + b"Transfer-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
    OK + b"Connection: Close\r\nContent-Length: 2\r\n\r\n{}",
    OK + b"Connection: keep-alive\r\n\r\n{}",
    OK + b"\r\n{}",
    OK + b"Content-Length: -2\r\n\r\n{}",
    OK + b"Content-Length: two\r\n\r\n{}",
    OK + b"Content-Length: \r\n\r\n{}",
    OK + b"Content-Length: 2 \r\n\r\n{}",
    OK + b"Content-Length: 2\r\nX-Folded: a\r\n b\r\n\r\n{}",
    OK + b"Content-Length: 2\r\nX-Latin: \xe9\r\n\r\n{}",
    OK + b"Content-Length: 2\r\nX-Bell: a\x0bb\r\n\r\n{}",
    OK + b"Content-Length: 2\nX-Bare: line feed\n\n{}",
    OK + b"Content-Length: 2\r\nno colon\r\n\r\n{}",
    OK + b"Content-Type: multipart/mixed; boundary=x\r\nContent-Length: 2\r\n\r\n{}",
    OK + b"Content-Type: message/rfc822\r\nContent-Length: 2\r\n\r\n{}",
    OK + b"".join(b"X-%d: v\r\n" % n for n in range(80)) + b"Content-Length: 2\r\n\r\n{}",
    OK + b"X-Long: " + b"v" * 40_000 + b"\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 200  All is  well \r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 2\r\n\r\n{}",
    b"nothing of HTTP",
    b"",
]
READ = "version status code reason chunked chunk_left length will_close"


def received(kind, sent, method):
    """Return the results of a response class for some bytes, or its error."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(sent)
        theirs.shutdown(socket.SHUT_WR)
        response = kind(ours, method=method)
        try:
            response.begin()
            headers = response.headers
            read = {name: getattr(response, name, None) for name in READ.split()}
            read |= {"headers": headers.items(), "defects": list(map(str, headers.defects))}
            read |= {"message": (type(headers), str(headers)), "body": response.read()}
        except Exception as error:  # noqa: BLE001 - each error is compared
            return type(error), str(error)
        finally:
            response.close()
        return read


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("sent", HEADS)
def test_head_of_a_response_is_read_as_http_client_reads_it(sent, method):
    ours = received(connection_pools._Response, sent, method)
    assert ours == received(HTTPResponse, sent, method)


def test_head_that_arrives_in_pieces_is_read(source):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        response = connection_pools._Response(ours, method="GET")
        theirs.sendall(OK + b"Content-Le")
        response.fp.peek()
        theirs.sendall(b"ngth: 2\r\n\r\n{}")
        response.begin()
        assert (response.length, response.read()) == (2, b"{}")


URLS = [
    "https://api.example.com",
    "https://api.example.com/",
    "HTTP://API.Example.com:80/Path/",
    "https://api.example.com/a b/ü/%2f%7e/%zz",
    "https://api.example.com/%7Euser/%e4",
    "https://bücher.example/x",
    "https://user:pa%40ss@api.example.com:8443/x;y=1",
    "https://[::1]:8080/x",
    "https://api.example.com/x?kept=1",
    "https://api.example.com/x?",
    "https://api.example.com/x#part",
    " https://api.example.com/x",
    "https://api.example.com/../a/./b",
    "https://api.example.com/x%",
    "https:///x",
    "https://*.example.com/x",
    "api.example.com/x",
    "mailto:someone@example.com",
]
QUERIES = ["", "page=2&per_page=100", "q=a%20b%7E%2F&r=%C3%BC", "q=%zz", "q=ü", "a=1#b", "%", "?"]


def prepared(prepare, **parts):
    """Return a prepared request's parts, or the error."""
    try:
        result = prepare(requests.Request(**parts))
    except Exception as error:  # noqa: BLE001 - each error is compared
        return type(error), str(error)
    return result.method, result.url, list(result.headers.items()), result.body


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("url", URLS)
def test_url_is_prepared_as_requests_prepares_it(url, query):
    session = requests.Session()
    parts = {"method": "GET", "url": url, "params": query, "headers": {"User-Agent": "us"}}
    parts["auth"] = lambda request: request
    ours = prepared(
        lambda unprepared: prepare_request(session, unprepared, user_agent="us"), **parts
    )
    assert ours == prepared(session.prepare_request, **parts)


class Order(str, Enum):
    UP = "up"


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"page": 2, "per_page": "100", "_-.~": "aZ09"},
        {"order": Order.UP, Order.UP: 1},
        {"a": b"b", "c": True, "d": 1.5, "e": Decimal("1.50")},
        {"a=b": 1, "c": "d=e", "f": "g&h", "": "", "i": ""},
        {"a&b=": "&=", "c d": "e f", "ü": "€", "100%": "%41"},
        {"list": [1, None, "x&y"], "pair": (1, 2), "none": None},
    ],
)
def test_parameters_are_quoted_as_urlencode_quotes_them(params):
    pairs = [
        (name, item)
        for name, value in params.items()
        for item in (value if isinstance(value, (list, tuple)) else [value])
        if item is not None
    ]
    url = "https://api.example.com"
    assert HTTPRequest(url, params=params).encode_params() == urlencode(pairs)
    safe = HTTPRequest(url, params=params, safe_query_chars="&= ")
    assert safe.encode_params() == urlencode(pairs, safe="&= ")


def test_changed_headers_of_a_request_do_not_change_the_next_request():
    session = requests.Session()

    def prepare():
        request = requests.Request(
            "GET", "https://api.example.com/x", headers={"X-A": "1"}, auth=lambda signed: signed
        )
        return prepare_request(session, request, user_agent="us")

    first = prepare()
    first.headers["Authorization"] = "Bearer one"
    del first.headers["X-A"]
    assert "Authorization" not in prepare().headers
    assert prepare().headers["X-A"] == "1"


class Plain(Users):
    """A stream that overrides none of the hooks that are only called if they are overridden."""

    schema = {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "x": {"type": "number"},
            "text": {"type": "string"},
        },
    }


class Overriding(Plain):
    """Stream that overrides each hook for which there is a faster path."""

    @property
    def requests_session(self):
        if "_own" not in vars(self):
            self._own = requests.Session()
            self._own.hooks["response"].append(lambda response, **_: response)
        return self._own

    def request_records(self, context):
        yield from super().request_records(context)

    def parse_response(self, response):
        yield from super().parse_response(response)


PAGES = [
    page({"id": 1, "x": 1.50}, {"id": 2}, next="2 ä/?&~"),
    Reply({"data": [{"id": 3}], "next": 3}, headers={"Set-Cookie": "a=b; Path=/"}),
    Reply({"message": "busy"}, status=503),
    Reply({"data": [{"id": 4}] * 20, "next": 4}, headers={"Location": "/x"}),
    Reply("", status=307, headers={"Location": "/users?moved=1"}),
    page({"id": 5, "text": "é" * 70_000}),
]


def synced(kind, server):
    """Return the output of a sync, and the requests without the order of their headers."""
    server.requests.clear()
    server.answers(*PAGES)
    tap = type("Tap", (UsersTap,), {"kind": kind})(config={"url": server.url})
    with redirect_stdout(io.TextIOWrapper(io.BytesIO())) as output:
        tap.sync_all()
        output.flush()
        lines = output.buffer.getvalue().splitlines()
    records = [line.partition(b',"time_extracted"')[0] for line in lines]
    return records, [
        (request.method, request.path, request.query, dict(request.headers))
        for request in server.requests
    ]


def test_stream_that_overrides_the_hooks_sends_and_writes_the_same_bytes(server):
    records, requests_sent = synced(Plain, server)
    assert sum(b'"RECORD"' in line for line in records) == 24
    assert len(requests_sent) == 6
    assert (records, requests_sent) == synced(Overriding, server)


def test_code_that_replaces_the_adapters_send_sees_every_request(source):
    def send(_adapter, request, **_):
        body = io.BytesIO(json.dumps({"data": [{"id": request.url[-1]}]}).encode())
        raw = RawResponse(body, status=200, preload_content=False)
        return HTTPAdapter().build_response(request, raw)

    with patch("requests.adapters.HTTPAdapter.send", send):
        stream = source.stream(get_url_params=lambda *_: {"page": 7})
        assert list(stream.get_records(None)) == [{"id": "7"}]
    assert source.server.requests == []


def test_session_keeps_adapters_that_other_code_gives_to_new_sessions():
    class Own(HTTPAdapter):
        pass

    class Session(requests.Session):
        def __init__(self):
            super().__init__()
            self.mount("https://", Own())

    with patch("requests.Session", Session):
        session = make_session()
    assert type(session) is Session
    assert type(session.get_adapter("https://api.example.com")) is Own


def test_session_can_be_used_after_it_was_closed(source):
    source.server.answers(page({"id": 1}))
    stream = source.stream()
    assert list(stream.get_records(None)) == [{"id": 1}]
    stream.requests_session.close()
    stream._prepare_for_threads(20)
    assert list(stream.get_records(None)) == [{"id": 1}]
    assert list(stream.get_records(None)) == [{"id": 1}]


def test_cookie_of_a_response_is_sent_with_the_next_request(source):
    source.server.answers(
        Reply({"data": [{"id": 1}], "next": 2}, headers={"Set-Cookie": "a=b; Path=/"}),
        page({"id": 2}),
    )
    assert len(source.records()) == 2
    assert [request.headers.get("Cookie") for request in source.server.requests] == [None, "a=b"]


def test_number_and_length_of_cookies_are_limited(source):
    """SEC13: a server may set ninety cookies of 60 kB with each page, which the session keeps."""

    def reply(number: int, cookie: str) -> Reply:
        headers = {"Set-Cookie": f"{cookie}; Path=/elsewhere"}
        return Reply({"data": [{"id": number}], "next": number + 1}, headers=headers)

    new = [reply(number, f"c{number}=first") for number in range(305)]
    known = [reply(305, "c7=second"), reply(306, f"c8={'x' * 5_000}")]
    source.server.answers(*new, *known, page({"id": 307}))
    stream = source.stream()
    assert len(list(stream.get_records(None))) == 308
    cookies = stream.requests_session.cookies.get_dict()
    assert len(cookies) == 300
    assert (cookies["c7"], cookies["c8"], cookies.get("c304")) == ("second", "first", None)


def test_cookies_of_one_name_with_other_paths_are_limited():
    """SEC13: a cookie without a path gets the path of the request, which has the id of a parent."""
    cookies = make_session().cookies
    for number in range(305):
        request = requests.Request("GET", f"http://api/users/{number}/orders").prepare()
        head = HTTPMessage()
        head["Set-Cookie"] = "session=1"
        received = SimpleNamespace(_original_response=SimpleNamespace(msg=head))
        extract_cookies_to_jar(cookies, request, received)
    assert len(cookies) == 300


@pytest.mark.parametrize("size", [1, 30_000, 70_000, 140_000])
def test_large_body_is_read_whole(source, size):
    text = "".join(random.Random(size).choices("aé€", k=size))
    source.server.answers(page({"text": text}))
    assert source.records() == [{"text": text}]
