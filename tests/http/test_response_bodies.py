"""Response bodies: JSON is parsed once with exact numbers; other content is a clear error."""

from __future__ import annotations

import gzip
import json
import zlib
from decimal import Decimal

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from tap_core.exceptions import FatalAPIError, RetriableAPIError
from tap_core.http.response import (
    JSONResponse,
    NotJSONError,
    TruncatedBodyError,
    check_content_length,
    is_empty_body,
    parse_json,
)
from tap_core.http.response_body import CHUNK
from tap_core.protocols.error_classification import is_known_error
from tap_core.redaction import Secrets
from tests.http.raw import raw_server
from tests.http.server import Reply, page

LOGIN = "<html><title>Sign in</title><script>var token='s3cr3t-9';</script>Welcome</html>"


def response(body: bytes, kind: str = "application/json", status: int = 200) -> requests.Response:
    result = requests.Response()
    result.status_code = status
    result._content = body
    result.headers["Content-Type"] = kind
    result.headers["Content-Length"] = str(len(body))
    result.encoding = requests.utils.get_encoding_from_headers(result.headers)
    return result


def test_json_numbers_keep_all_digits(source):
    source.server.answers(
        Reply(b'{"data": [{"id": 123456789012345678901234567890, "price": 0.10, "big": 1e400}]}')
    )
    [record] = source.records()
    assert record["id"] == 123456789012345678901234567890
    assert str(record["price"]) == "0.10"
    assert record["big"] == Decimal("1E400")


def test_json_body_is_decoded_once(source, monkeypatch):
    decoded = []
    read = JSONResponse.read

    def counting(self, *arguments):
        decoded.append(self.url)
        return read(self, *arguments)

    monkeypatch.setattr(JSONResponse, "read", counting)
    for function in (
        "tap_core.http.response.json.loads",
        "tap_core.http.response.JSONResponse.json",
    ):
        monkeypatch.setattr(function, lambda *_, **__: pytest.fail("decoded again"))
    source.server.answers(page({"id": 1}, next="b"), page({"id": 2}))
    assert source.records() == [{"id": 1}, {"id": 2}]
    assert len(decoded) == 2


@pytest.mark.parametrize(
    "body, kind, read",
    [
        (b'{"data": [{"id": NaN}]}', "application/json", "nan"),
        (b'{"data": [{"id": "\\ud800"}]}', "application/json", "\ud800"),
        ('{"data": [{"id": "é"}]}'.encode("utf-16"), "application/json", "é"),
        ('\ufeff{"data": [{"id": "é"}]}'.encode(), "application/json", "é"),
        ('{"data": [{"id": "é"}]}'.encode("latin-1"), "application/json; charset=iso-8859-1", "é"),
        ('{"data": [{"id": "é"}]}'.encode("latin-1"), "text/plain", "é"),
        ('{"data": [{"id": "é"}]}'.encode(), "text/plain", "é"),
        ('{"data": [{"id": "é"}]}'.encode(), "text/html", "é"),
        ('{"data": [{"id": "é"}]}'.encode(), "", "é"),
        ('{"data": [{"id": "é", "x": NaN}]}'.encode(), "text/plain", "é"),
        ('{"data": [{"id": "é"}]}'.encode("latin-1"), "application/json", "�"),
    ],
)
def test_json_is_read_in_any_encoding_and_content_type(source, body, kind, read):
    source.server.answers(Reply(body, headers={"Content-Type": kind}))
    [record] = source.records()
    assert str(record["id"]) == read


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    ),
    st.sampled_from(["application/json", "text/plain", "application/json; charset=utf-8", ""]),
)
def test_json_method_returns_what_requests_returns(value, kind):
    plain = response(json.dumps(value).encode(), kind)
    answer = JSONResponse.of(plain)
    assert isinstance(answer, JSONResponse)
    for settings in ({}, {"parse_float": Decimal}, {"parse_int": str}):
        assert repr(answer.json(**settings)) == repr(plain.json(**settings))


def test_parsed_document_is_not_shared_between_callers():
    answer = JSONResponse.of(response(b'{"a": [1.5]}'))
    first = answer.read(Secrets)
    assert answer.read(Secrets) is first
    assert parse_json(answer) is first
    second = parse_json(answer)
    assert second == first == {"a": [Decimal("1.5")]}
    assert second is not first
    assert answer.json() is not answer.json()


def test_response_subclasses_of_other_libraries_are_not_replaced():
    class Cached(requests.Response):
        pass

    cached = Cached()
    assert JSONResponse.of(cached) is cached
    cached._content = b"[1]"
    assert parse_json(cached) == [1]


def test_hooks_of_the_author_can_read_the_body_again(source):
    def next_token(self, response, previous_token):
        document = response.json()
        assert document["ratio"] == 0.5
        assert type(document["ratio"]) is float
        return document.get("then")

    def post(self, response):
        for row in super(type(self), self).parse_response(response):
            yield row
            row.clear()

    source.server.answers(page({"id": 1}, then="b", ratio=0.5), page({"id": 2}, ratio=0.5))
    with pytest.warns(DeprecationWarning, match="get_next_page_token"):
        assert len(source.records(get_next_page_token=next_token, parse_response=post)) == 2
    assert source.server.requests[1].query == {"page": ["b"]}


def test_page_token_is_read_from_the_unmodified_body(source):
    def stream_records():
        for record in source.stream(next_page_token_jsonpath="$.data[-1].id").get_records(None):
            yield record.pop("id")

    source.server.answers(page({"id": 1}, {"id": 2}), page())
    assert list(stream_records()) == [1, 2]
    assert source.server.requests[1].query == {"page": ["2"]}


# Bodies that are not JSON


def test_html_body_is_an_error_without_retry(source):
    source.server.answers(Reply(LOGIN, headers={"Content-Type": "text/html; charset=utf-8"}))
    with pytest.raises(NotJSONError) as caught:
        source.records()
    assert len(source.server.requests) == 1
    assert isinstance(caught.value, FatalAPIError)
    assert isinstance(caught.value, requests.exceptions.JSONDecodeError)
    message = str(caught.value)
    assert message.startswith("The response is not JSON but text/html, 80 bytes, status 200")
    assert "it begins: Sign in Welcome" in message
    assert "[stream 'users', GET http://127.0.0.1" in message
    assert "s3cr3t" not in message


def test_redirect_to_a_login_page_is_named_in_the_error(source):
    def script(request):
        if request.path == "/login":
            return Reply(LOGIN, headers={"Content-Type": "text/html"})
        return Reply("", 302, {"Location": "/login?return_token=s3cr3t-1&next=/users"})

    source.server.answers_by(script)
    with pytest.raises(NotJSONError) as caught:
        source.records()
    message = str(caught.value)
    assert "after a redirect to http://127.0.0.1" in message
    assert "/login?return_token=***&next=/users: is the login still valid?" in message
    assert "s3cr3t" not in message


def test_redirect_that_is_not_followed_is_named_in_the_error(source):
    source.server.answers(Reply("", 302, {"Location": "https://u:p4ss@other.example/x"}))
    with pytest.raises(NotJSONError, match=r"a redirect to https://other.example/x that is not"):
        source.records(allow_redirects=False)


@pytest.mark.parametrize("body", [b'{"data": [', b'{"data": [{"id": 1}', b'{"data": [1.', b'{"a'])
def test_truncated_body_is_requested_again_then_reported(source, body):
    source.server.answers(Reply(body))
    with pytest.raises(TruncatedBodyError, match=f"cut off.*{len(body)} bytes.*try 5") as caught:
        source.records()
    assert isinstance(caught.value, RetriableAPIError)
    assert caught.value.response.status_code == 200
    assert len(source.server.requests) == 5


@pytest.mark.parametrize(
    "body", [b"[1] [2]", b'{"a" 1}', b"plain", b"fail", b"[" * 100_000 + b"]" * 100_000]
)
def test_invalid_json_is_an_error_without_retry(source, body):
    source.server.answers(Reply(body))
    with pytest.raises(NotJSONError):
        source.records()
    assert len(source.server.requests) == 1


def test_empty_body_is_an_error_unless_the_status_is_204(source):
    source.server.answers(Reply(b""))
    with pytest.raises(NotJSONError, match="0 bytes"):
        source.records()
    assert len(source.server.requests) == 1
    source.server.answers(Reply(b"", 204))
    assert source.records() == []
    assert not is_empty_body(response(b"x", status=204))


@pytest.mark.parametrize("status", ["100 Continue", "102 Processing", "103 Early Hints"])
def test_interim_responses_are_skipped(source, status):
    interim = f"HTTP/1.1 {status}\r\nLink: </style.css>; rel=preload\r\n\r\n".encode()
    final = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na,b"
    with raw_server(lambda _, connection: connection.sendall(interim * 2 + final)) as server:
        source.server = server
        rows = source.records(
            next_page_token_jsonpath=None,
            parse_response=lambda _, response: response.text.split(","),
        )
    assert rows == ["a", "b"]


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("size", [CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK])
@pytest.mark.parametrize("form", ["members", "raw deflate"])
def test_compressed_body_is_read_once_and_to_its_end(source, form, size, chunked):
    """urllib3 repeats or omits data at the end of a gzip member or body that fills a chunk."""
    text = "a" * size
    if form == "members":
        encoding = "gzip"
        body = b"".join(gzip.compress(part.encode()) for part in (text, ",b", ",c"))
        text += ",b,c"
    else:
        encoding, compressor = "deflate", zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
        body = compressor.compress(text.encode()) + compressor.flush()
    source.server.answers(Reply(body, headers={"Content-Encoding": encoding}, chunked=chunked))
    rows = source.records(
        next_page_token_jsonpath=None, parse_response=lambda _, response: response.text.split(",")
    )
    assert list(map(len, rows)) == list(map(len, text.split(",")))
    assert rows == text.split(",")


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
@pytest.mark.parametrize("chunked", [False, True])
def test_json_without_the_end_of_its_compressed_data_is_read(source, encoding, chunked):
    """Some servers only flush the data, which browsers, curl and requests accept."""
    compressor = zlib.compressobj(wbits=31 if encoding == "gzip" else 15)
    body = compressor.compress(b'{"data": [{"id": 1}]}') + compressor.flush(zlib.Z_SYNC_FLUSH)
    reply = Reply(body, headers={"Content-Encoding": encoding}, chunked=chunked)
    source.server.answers(reply)
    assert source.records() == [{"id": 1}]
    assert len(source.server.requests) == 1
    lines = Reply(body, headers={**reply.headers, "Content-Type": "application/jsonl"})
    source.server.answers(lines)
    with pytest.raises(requests.exceptions.ContentDecodingError, match="cut off"):
        source.records()  # other lines may be missing


def test_custom_parse_response_may_read_any_format(source):
    def lines(self, response):
        return [{"line": line} for line in response.text.splitlines()]

    source.server.answers(Reply("a\nb", headers={"Content-Type": "text/html"}))
    assert len(source.records(parse_response=lines, next_page_token_jsonpath=None)) == 2
    source.server.answers(Reply('{"a": 1}\n{"b": 2'), Reply('{"a": 1}\n{"b": 2}'))
    assert len(source.records(parse_response=lines, next_page_token_jsonpath=None)) == 2


def test_json_error_in_custom_parse_response_names_stream_and_request(source):
    def own(self, response):
        yield from response.json()["data"]

    source.server.answers(Reply(LOGIN, headers={"Content-Type": "text/html"}))
    pattern = r"The response is not JSON but text/html.*Welcome.*stream 'users', GET http"
    with pytest.raises(requests.exceptions.JSONDecodeError, match=pattern) as caught:
        source.records(parse_response=own)
    assert is_known_error(caught.value)
    assert "s3cr3t" not in str(caught.value)
    source.server.answers(Reply({"data": [{"id": 1}]}, keep=15, length=False), page({"id": 2}))
    assert source.records(parse_response=own) == [{"id": 2}]


def test_only_json_bodies_are_checked_for_truncation():
    check_content_length(response(b'{"a": 1', "text/csv"))
    check_content_length(response(b'{"a": 1}'))
    check_content_length(response(b"[1] x"))
    with pytest.raises(TruncatedBodyError):
        check_content_length(response(b'{"a": 1'))


def test_author_can_catch_the_json_error_of_requests(source):
    def own(self, response):
        try:
            yield from super(type(self), self).parse_response(response)
        except requests.exceptions.JSONDecodeError:
            yield {"id": 0}

    source.server.answers(Reply("not json"))
    assert source.records(parse_response=own, next_page_token_jsonpath=None) == [{"id": 0}]
