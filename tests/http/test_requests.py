"""Requests of HTTP streams: URL, query, headers, body, and the hooks that change them."""

from __future__ import annotations

import logging
import sys
from decimal import Decimal
from urllib.parse import unquote, urlsplit

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from tap_core import metrics
from tap_core.exceptions import FatalAPIError, SingerSDKDeprecationWarning
from tap_core.http.request import HTTPRequest, PageContext, prepare_request
from tap_core.protocols.error_classification import failure_type, summarize_error
from tap_core.streams.rest import RESTStream, _HTTPStream
from tests.http.raw import raw_server
from tests.http.server import Reply, page

ONE = {"id": 1}
NAMES = st.text("aAbB-", min_size=1, max_size=3) | st.sampled_from(["user-agent", "Accept"])


@pytest.fixture
def one_page(source):
    source.server.answers(page(ONE))
    return source


def sent_request(source, **members):
    assert source.records(**members) == [ONE]
    return source.server.requests[-1]


def test_placeholders_are_filled_from_settings_and_context(one_page):
    stream = one_page.stream(path="/{org}/x/{id}", config={"org": "a/b", "id": 1})
    assert stream.get_url({"id": 7, "more": 1}).removeprefix(one_page.server.url) == "/a%2Fb/x/7"
    assert one_page.stream(path=None).get_url(None) == one_page.server.url


@pytest.mark.parametrize("value", ["?all=1", "x#", "../x", "..x", "...", "a.b"])
def test_value_in_a_path_is_one_segment(one_page, value):
    """A value of a parent's record does not change the rest of the path."""
    stream = one_page.stream(path="/users/{id}/orders")
    assert list(stream.get_records({"id": value})) == [ONE]
    path = urlsplit(one_page.server.requests[-1].path).path
    assert unquote(path) == f"/users/{value}/orders"


@pytest.mark.parametrize("value", [".", "..", "%2e%2E", ".%2e", ".\t."])
@pytest.mark.parametrize("path", ["/users/{id}/orders", "/users/{id}"])
def test_value_that_leads_to_another_path_is_an_error(one_page, value, path):
    """Clients and servers remove dot segments: the rows would be those of another path."""
    stream = one_page.stream(path=path)
    with pytest.raises(FatalAPIError, match=r"A value in the path .* segment '\.'"):
        list(stream.get_records({"id": value}))
    assert not one_page.server.requests


def test_constructor_accepts_path_name_and_method(one_page):
    stream = one_page.stream()
    changed = type(stream)(stream._tap, "other", {"properties": {}}, "/other", http_method="PUT")
    assert (changed.name, changed.path, changed.http_method) == ("other", "/other", "PUT")
    changed.http_method = "POST"
    assert changed.http_method == "POST"
    assert list(changed.get_records(None)) == [ONE]
    assert one_page.server.requests[0].method == "POST"


def test_rest_method_still_works_with_a_deprecation_warning(one_page):
    with pytest.warns(SingerSDKDeprecationWarning, match="http_method"):
        assert sent_request(one_page, rest_method="PUT").method == "PUT"


def test_query_parameter_is_omitted_for_none_and_repeated_for_a_list(one_page):
    params = {
        "a": None,
        "b": [1, None, 2],
        "c": ("x",),
        "d": "é &",
        "e": True,
        "f": Decimal("1.50"),
    }
    request = sent_request(one_page, get_url_params=lambda self, context, token: params)
    assert request.query == {
        "b": ["1", "2"],
        "c": ["x"],
        "d": ["é &"],
        "e": ["True"],
        "f": ["1.50"],
    }
    assert sent_request(one_page, get_url_params=lambda self, context, token: None).query == {}


def test_query_string_is_sent_unchanged(one_page):
    with pytest.warns(SingerSDKDeprecationWarning, match="safe_query_chars"):
        request = sent_request(one_page, get_url_params=lambda self, context, token: "a=(1)&a=2")
    assert request.query == {"a": ["(1)", "2"]}


def test_safe_query_chars_are_not_percent_encoded():
    request = HTTPRequest("https://h", params={"a": "(b,c)"}, safe_query_chars="(,")
    assert request.encode_params() == "a=(b,c%29"
    assert HTTPRequest("https://h") == HTTPRequest("https://h", "GET", {}, {}, None, "")


def test_get_http_request_can_change_query_and_headers(one_page):
    def override(self, *, page):
        request = super(type(self), self).get_http_request(page=page)
        request.params["token"] = f"{page.stream_context}-{page.next_page_token}"
        request.headers["X-Mine"] = "1"
        return request

    received = sent_request(one_page, get_http_request=override)
    assert received.query == {"token": ["None-None"]}
    assert received.headers["X-Mine"] == "1"
    assert PageContext({"a": 1}, 2) == PageContext(stream_context={"a": 1}, next_page_token=2)


def test_prepare_request_still_works_with_a_deprecation_warning(one_page):
    def override(self, context, next_page_token):
        request = super(type(self), self).prepare_request(context, next_page_token)
        request.headers["X-Mine"] = "older"
        return request

    with pytest.warns(SingerSDKDeprecationWarning, match="prepare_request is deprecated"):
        received = sent_request(one_page, prepare_request=override, payload_as_json=False)
    assert received.headers["X-Mine"] == "older"


@pytest.mark.parametrize(
    "data, as_json, sent, kind",
    [
        ({"a": [1, "é"]}, True, b'{"a": [1, "\\u00e9"]}', "application/json"),
        ({"a": [{"b": Decimal("1.50")}]}, True, b'{"a":[{"b":1.50}]}', "application/json"),
        ([(1, Decimal(2))], True, b"[[1,2]]", "application/json"),
        ({"a": "x y"}, False, b"a=x+y", "application/x-www-form-urlencoded"),
        (b"raw", False, b"raw", None),
        (None, True, b"", None),
        ({}, True, b"{}", "application/json"),
    ],
)
def test_payload_is_encoded_as_json_form_or_raw_bytes(one_page, data, as_json, sent, kind):
    request = sent_request(
        one_page,
        http_method="POST",
        payload_as_json=as_json,
        prepare_request_payload=lambda self, context, token: data,
    )
    assert (request.body, request.headers.get("Content-Type")) == (sent, kind)


def test_content_type_of_the_author_is_kept_for_a_body_with_decimals(one_page):
    request = sent_request(
        one_page,
        http_method="POST",
        http_headers={"Content-Type": "application/vnd.x+json"},
        prepare_request_payload=lambda self, context, token: {"a": Decimal(1)},
    )
    assert request.headers["Content-Type"] == "application/vnd.x+json"


def test_requests_have_a_user_agent_that_can_be_overridden(one_page):
    assert sent_request(one_page).headers["User-Agent"].startswith("tap-core/")
    request = sent_request(one_page, config={"user_agent": "mine/1"})
    assert request.headers["User-Agent"] == "mine/1"
    headers = {"user-agent": "theirs/2"}
    assert sent_request(one_page, http_headers=headers).headers["user-agent"] == "theirs/2"
    assert headers == {"user-agent": "theirs/2"}


@given(
    headers=st.dictionaries(NAMES, st.none() | NAMES, max_size=3),
    usual=st.dictionaries(NAMES, NAMES, max_size=3),
    params=st.none() | st.text(max_size=9) | st.dictionaries(st.text(), st.integers(), max_size=2),
    body=st.fixed_dictionaries({"data": st.none() | st.binary() | st.dictionaries(NAMES, NAMES)})
    | st.fixed_dictionaries({"json": st.none() | st.dictionaries(NAMES, st.integers())}),
    method=st.sampled_from(["GET", "post", "PUT"]),
)
def test_request_is_prepared_as_the_session_prepares_it(headers, usual, params, body, method):
    def make_request() -> requests.Request:
        return requests.Request(
            method, "http://a.example/ä b", headers, params=params, auth=signed, **body
        )

    session = requests.Session()
    session.headers.update(usual)
    ours = prepare_request(session, make_request(), user_agent="us/1")
    if not any(name.lower() == "user-agent" for name in headers):
        headers = {**headers, "User-Agent": "us/1"}
    theirs = session.prepare_request(make_request())
    assert [*ours.headers.items()] == [*theirs.headers.items()]
    known = (ours.method, ours.url, ours.body, ours.hooks)
    assert known == (theirs.method, theirs.url, theirs.body, theirs.hooks)
    assert vars(ours).keys() == vars(theirs).keys()


def signed(request):
    request.headers["Signed"] = request.url[-1]
    return request


@pytest.mark.parametrize(
    "members", [{"cookies": {"a": "1"}}, {"params": {"x": "1"}}, {"auth": ("user", "word")}]
)
def test_cookies_params_and_auth_of_a_session_are_sent(one_page, members):
    session = requests.Session()
    vars(session).update(members)
    if "cookies" in members:
        session.cookies = requests.cookies.cookiejar_from_dict(members["cookies"])
    request = requests.Request("GET", one_page.server.url)
    ours, theirs = (
        prepare_request(session, request, user_agent="us"),
        session.prepare_request(request),
    )
    assert ours.headers == theirs.headers
    assert ours.url == theirs.url
    assert len(ours.headers) + len(ours.url) > len(requests.Session().headers) + len(request.url)


def test_session_without_any_defaults_is_accepted():
    session = requests.Session()
    vars(session).update(hooks=None, params=None, headers=None, cookies=None)
    request = requests.Request("GET", "http://a.example", auth=signed)
    assert dict(prepare_request(session, request, user_agent="us").headers) == {
        "User-Agent": "us",
        "Signed": "/",
    }


def test_each_stream_has_its_own_session(one_page):
    stream, other = one_page.stream(), one_page.stream()
    assert stream.requests_session is stream.requests_session
    assert stream.requests_session is not other.requests_session
    stream._requests_session = None
    assert isinstance(stream.requests_session, requests.Session)


def test_authenticator_is_applied_before_each_try(one_page):
    values = []

    def authenticator(request):
        values.append(request.headers.get("X-Auth"))
        request.headers["X-Auth"] = str(len(values))
        return request

    one_page.server.answers(Reply("", 500), page(ONE))
    sent_request(one_page, authenticator=property(lambda self: authenticator))
    assert values == [None, "1", "2"]
    assert [received.headers["X-Auth"] for received in one_page.server.requests] == ["2", "3"]


# Costs and metrics


def test_sync_costs_of_requests_are_summed(one_page, caplog):
    caplog.set_level(logging.INFO)
    one_page.server.answers(page(ONE, next="b"), page(ONE))
    stream = one_page.stream(calculate_sync_cost=lambda self, request, response, context: {"x": 2})
    list(stream.get_records(None))
    assert stream._sync_costs == {"x": 4}
    stream.log_sync_costs()
    assert "{'x': 4}" in caplog.text
    assert one_page.stream().calculate_sync_cost(None, None, None) == {}


def test_sync_costs_of_a_kind_are_kept_if_a_later_request_has_costs_of_another_kind(one_page):
    one_page.server.answers(page(ONE, next="b"), page(ONE))
    costs = iter([{"read": 2, "total": 2}, {"write": 1, "total": 1}])
    stream = one_page.stream(
        calculate_sync_cost=lambda self, request, response, context: next(costs)
    )
    list(stream.get_records(None))
    assert stream._sync_costs == {"read": 2, "write": 1, "total": 3}


def measured(caplog, metric):
    points = [record.args[0] for record in caplog.records if record.msg == "METRIC: %s"]
    return [point for point in points if point.metric is metric]


def test_requests_emit_count_and_duration_metrics(one_page, caplog):
    caplog.set_level(logging.INFO)
    one_page.server.answers(Reply("", 500), page(ONE))
    stream = one_page.stream(_LOG_REQUEST_METRIC_URLS=True)
    list(stream.get_records({"org": 1}))
    [count] = measured(caplog, metrics.Metric.HTTP_REQUEST_COUNT)
    assert count.value == 1
    assert count.tags["context"] == {"org": 1}
    failed, succeeded = measured(caplog, metrics.Metric.HTTP_REQUEST_DURATION)
    assert failed.tags == {
        "stream": "users",
        "endpoint": "/users",
        "http_status_code": 500,
        "status": "failed",
        "url": "/users",
        "context": {"org": 1},
    }
    assert succeeded.tags["status"] == "succeeded"
    assert succeeded.value > 0


def test_request_metrics_can_be_disabled(one_page, caplog):
    caplog.set_level(logging.INFO)
    sent_request(one_page, _LOG_REQUEST_METRICS=False)
    assert not measured(caplog, metrics.Metric.HTTP_REQUEST_DURATION)


# Streams of other formats


class Lines(_HTTPStream):
    """Reads lines of text."""

    name = "lines"
    path = "/lines"
    schema = {"type": "object", "properties": {"line": {"type": "string"}}}
    url_base = ""

    def parse_response(self, response):
        for line in response.text.splitlines():
            yield {"line": line}

    def get_new_paginator(self):
        return None


def test_http_stream_reads_a_format_other_than_json(source):
    source.server.answers(Reply("a\nb", headers={"Content-Type": "text/csv"}))
    records = source.records(Lines, url_base=source.server.url)
    assert records == [{"line": "a"}, {"line": "b"}]
    assert Lines.payload_as_json is False
    assert RESTStream.payload_as_json is True


def test_other_request_exception_gets_stream_and_url_in_its_message(source):
    class Odd(requests.exceptions.RequestException):
        pass

    def odd(self, response):
        raise Odd(404, "x")

    source.server.answers(page(ONE))
    with pytest.raises(Odd, match=r"404.*\[stream 'lines', GET http.*, try 1\]"):
        source.records(Lines, url_base=source.server.url, validate_response=odd)


def test_author_error_with_any_argument_gets_the_stream_in_its_message(source):
    source.server.answers(page(ONE))

    def odd(self, response):
        raise FatalAPIError({"code": 7})

    with pytest.raises(FatalAPIError, match=r"^\{'code': 7\} \[stream 'lines'"):
        source.records(Lines, url_base=source.server.url, validate_response=odd)
    with pytest.raises(requests.exceptions.ConnectionError, match=r"url: / .*stream 'lines', GET"):
        source.records(Lines, url_base="http://127.0.0.1:9", path="", backoff_max_tries=lambda _: 1)


def test_error_before_the_first_request_names_the_stream(source):
    def odd(self, *, page):
        raise requests.exceptions.InvalidURL

    with pytest.raises(requests.exceptions.InvalidURL, match=r"\[stream 'users'\]"):
        source.records(get_http_request=odd)


@pytest.mark.parametrize(
    ("is_signed", "value", "reason"),
    [
        (True, "t-1\n", "a line break"),
        (True, "t€", "a character that is not in ISO 8859-1"),
        (False, "t-1\n", "a line break"),
        (False, " t-1", "a space at its start"),
    ],
)
def test_header_that_cannot_be_sent_is_named_without_its_value(source, is_signed, value, reason):
    """A token is often copied with a line break; http.client does not name the header."""

    def sign(request):
        request.headers["X-Token"] = value
        return request

    members = (
        {"authenticator": staticmethod(sign)} if is_signed else {"http_headers": {"X-Token": value}}
    )
    with pytest.raises(requests.exceptions.InvalidHeader) as failed:
        source.records(**members)
    assert f"header 'X-Token' cannot be sent, because its value has {reason}" in str(failed.value)
    assert "[stream 'users'" in str(failed.value)
    assert value.strip() not in str(failed.value)
    assert summarize_error(failed.value) == str(failed.value)
    assert failure_type(failed.value) == "config_error"


@pytest.fixture
def behind_a_proxy(source, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", source.server.url)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return source


def test_each_host_uses_the_proxy_of_the_environment_for_it(behind_a_proxy):
    source = behind_a_proxy
    remote, local = "http://api.example.test", source.server.url
    turns = {None: remote, "2": local, "3": remote, "4": local}

    def get_alternating_request(self, *, page):
        request = RESTStream.get_http_request(self, page=page)
        request.url = f"{turns[page.next_page_token]}/users"
        return request

    source.server.answers(*(page(ONE, next=token) for token in ("2", "3", "4", None)))
    assert source.records(get_http_request=get_alternating_request) == [ONE] * 4
    hosts = [received.headers["Host"] for received in source.server.requests]
    assert [f"http://{host}" for host in hosts] == [remote, local, remote, local]


def test_proxy_of_the_environment_may_lack_a_scheme(behind_a_proxy, monkeypatch):
    """The requests package, pip and curl accept ``HTTP_PROXY=proxy:3128``."""
    source = behind_a_proxy
    monkeypatch.setenv("http_proxy", source.server.url.removeprefix("http://"))
    source.server.answers(page(ONE))
    assert source.records(config={"url": "http://api.example.test"}) == [ONE]
    assert source.server.requests[-1].headers["Host"] == "api.example.test"


@pytest.mark.parametrize(
    ("proxy", "expected"),
    [
        ("http://me:pa55word@proxy:99999", "is not a valid URL"),
        ("foo://proxy:1", "must be a URL such as"),
        ("socks5://me:pa55word@127.0.0.1:9", "pip install 'requests[socks]'"),
    ],
)
def test_unusable_proxy_is_named_without_its_password(behind_a_proxy, monkeypatch, proxy, expected):
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.setitem(sys.modules, "socks", None)
    with pytest.raises(requests.exceptions.InvalidProxyURL) as failed:
        behind_a_proxy.records(config={"url": "http://api.example.test"})
    summary = summarize_error(failed.value)
    assert summary.startswith("The proxy '")
    assert expected in summary
    assert "pa55word" not in summary
    assert failure_type(failed.value) == "config_error"


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("403 Forbidden", "refuses to connect to the server (403 Forbidden)"),
        ("407 Authentication Required", "needs a valid user name and password (407"),
    ],
)
@pytest.mark.parametrize("is_set_by_tap", [False, True])
def test_proxy_that_refuses_a_connection_is_asked_once_and_named(
    source, monkeypatch, reason, expected, is_set_by_tap
):
    def refuse(_server, connection):
        connection.sendall(f"HTTP/1.1 {reason}\r\nContent-Length: 0\r\n\r\n".encode())

    config, session = {"url": "https://api.example.test"}, requests.Session()
    with raw_server(refuse) as proxy:
        address = proxy.url.replace("//", "//me:pa55word@")
        if is_set_by_tap:
            session.proxies = {"https": address}
        else:
            monkeypatch.setenv("https_proxy", address)
        with pytest.raises(requests.exceptions.ProxyError) as failed:
            source.records(config=config, requests_session=property(lambda _: session))
    assert len(proxy.requests) == 1
    summary = summarize_error(failed.value)
    assert summary.startswith(f"The proxy '{proxy.url}' {expected}")
    assert "pa55word" not in summary
    assert failure_type(failed.value) == "config_error"


def test_proxy_settings_of_a_custom_session_are_kept(behind_a_proxy):
    source = behind_a_proxy
    options = {"config": {"url": "http://api.example.test"}}

    class Trusting(requests.Session):
        def send(self, request, **kwargs):
            assert "proxies" not in kwargs
            return super().send(request, **kwargs)

    def wary():
        session = requests.Session()
        session.trust_env = False
        session.proxies = {"http": source.server.url}
        return session

    source.server.answers(page(ONE))
    for session in (Trusting(), wary()):
        assert source.records(requests_session=session, **options) == [ONE]
        assert source.server.requests[-1].headers["Host"] == "api.example.test"


def test_https_address_of_a_server_without_tls_is_an_error_of_the_configuration(source):
    with pytest.raises(requests.exceptions.SSLError) as failed:
        source.records(config={"url": source.server.url.replace("http:", "https:")})
    assert failure_type(failed.value) == "config_error"
    sentence = summarize_error(failed.value)
    assert sentence.startswith(
        "The source answers without TLS: if its address must begin with http:"
    )
    assert "cannot be reached: wrong version number [stream 'users'" in sentence
    assert "try 1]" in sentence


def test_stream_may_have_own_members_for_sending_and_reading(source):
    names = ("_build_request", "_check_body", "_get_reader", "_parse_checked", "_plan", "_proxies")
    names += ("_reader", "_record_filter", "_secrets", "_send")
    source.server.answers(page(ONE))
    stream = source.stream()
    for name in names:
        setattr(stream, name, name)
    assert list(stream._sync_records(write_messages=False)) == [ONE]
    assert [getattr(stream, name) for name in names] == list(names)


@pytest.mark.parametrize(
    "members",
    [
        {"get_url_params": lambda *_: {"name": "cut \ud83d"}},
        {
            "http_method": "POST",
            "payload_as_json": False,
            "prepare_request_payload": lambda *_: {"name": "cut \ud83d"},
        },
    ],
    ids=["parameter", "form"],
)
def test_lone_surrogate_in_a_request_is_a_clear_error(source, members):
    """A server that cuts texts after some UTF-16 units may send half of an emoji."""
    with pytest.raises(FatalAPIError, match=r"has a lone surrogate \(U\+D83D\).*'users'"):
        source.records(**members)
