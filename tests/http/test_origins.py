"""Credentials are sent only to the origin (scheme, host, port) that they belong to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from requests.auth import HTTPDigestAuth

from tap_core.authenticators import (
    APIKeyAuthenticator,
    BasicAuthenticator,
    BearerTokenAuthenticator,
    SimpleAuthenticator,
)
from tap_core.exceptions import ConfigurationError, FatalAPIError
from tap_core.http.https_policy import require_https
from tap_core.http.origins import (
    Origin,
    UntrustedHostError,
    check_allowed_hosts,
    declared_origin,
    has_secrets,
    parse_origin,
)
from tap_core.pagination import BaseAPIPaginator, BaseHATEOASPaginator
from tap_core.protocols.error_classification import failure_type, summarize_error
from tap_core.redaction import Secrets
from tap_core.streams import GraphQLStream, RESTStream
from tap_core.streams.credential_origins import make_route
from tests.http.certificates import over_tls, write_certificate
from tests.http.conftest import Source, Users
from tests.http.server import ReceivedRequest, Reply, Server, page, serving

SECRET = "s3cret-key-222"
HEADERS = ("Accept", "Accept-Encoding", "Connection", "Host", "User-Agent")

AUTHENTICATORS = {
    "bearer": lambda: BearerTokenAuthenticator(token=SECRET),
    "basic": lambda: BasicAuthenticator(username="me", password=SECRET),
    "header": lambda: APIKeyAuthenticator(key="X-Any-Name", value=SECRET),
    "query": lambda: APIKeyAuthenticator(key="k", value=SECRET, location="params"),
    "function": lambda: _sign,
}


def _sign(request: requests.PreparedRequest) -> requests.PreparedRequest:
    request.headers["X-Plain"] = SECRET
    return request


@pytest.fixture
def other() -> Iterator[Server]:
    """Another server: the same host, another port."""
    with serving() as http_server:
        http_server.answers(page({"id": 2}))
        yield http_server


def named(server: Server) -> str:
    """Return the address of a server by another name of this machine."""
    return server.url.replace("127.0.0.1", "localhost")


class Signed(Users):
    """A stream with an authenticator of each kind."""

    kind = "bearer"

    @property
    def authenticator(self) -> Any:
        return AUTHENTICATORS[self.kind]()


class Links(BaseAPIPaginator[str | None]):
    """A paginator whose token is the URL of the next page."""

    def __init__(self) -> None:
        super().__init__(None)

    def get_next(self, response: requests.Response) -> str | None:
        return response.json().get("next")


class Linked(Signed):
    """Requests the next link unchanged, as many taps do."""

    def get_new_paginator(self) -> Links:
        return Links()

    def get_http_request(self, *, page: Any) -> Any:
        request = super().get_http_request(page=page)
        request.params = {}
        request.url = page.next_page_token or request.url
        return request


class OlderLinked(Signed):
    """Requests the next link unchanged, in the older hook ``prepare_request``."""

    def get_new_paginator(self) -> Links:
        return Links()

    def prepare_request(self, context: Any, next_page_token: Any) -> Any:
        url = next_page_token or self.get_url(context)
        return self.build_prepared_request(method="GET", url=url)


def seen_secrets(server: Server) -> list[str]:
    """Return the requests to a server that contained the secret or an Authorization header."""
    texts = [
        f"{request.path}{request.query}{dict(request.headers)}{request.body!r}"
        for request in server.requests
    ]
    return [text for text in texts if SECRET in text or "Authorization" in text]


# Links to the next page


@pytest.mark.parametrize("kind", sorted(AUTHENTICATORS))
@pytest.mark.parametrize("base", [Linked, OlderLinked])
@pytest.mark.filterwarnings("ignore:prepare_request is deprecated")
def test_next_link_to_another_origin_is_not_requested(server, source, other, base, kind):
    """SEC8: a next link to another origin is refused before anything is sent."""
    for url in (other.url, named(server)):
        server.answers(page({"id": 1}, next=f"{url}/page2"))
        with pytest.raises(UntrustedHostError) as caught:
            source.records(base, kind=kind, config={"login": SECRET})
        assert url in str(caught.value)
        assert "`allowed_hosts` of the stream 'users'" in str(caught.value)
        assert SECRET not in str(caught.value)
        assert other.requests == []
        assert len(server.requests) == 1
        server.requests.clear()


def test_next_link_of_the_same_origin_is_requested_with_credentials(server, source):
    server.answers(page({"id": 1}, next=f"{server.url}/page2"), page({"id": 2}))
    assert source.records(Linked) == [{"id": 1}, {"id": 2}]
    assert [request.headers["Authorization"] for request in server.requests] == [
        f"Bearer {SECRET}"
    ] * 2


def test_next_link_to_an_allowed_host_is_requested_with_credentials(server, source, other):
    server.answers(page({"id": 1}, next=f"{other.url}/page2"))
    allowed = [other.url.removeprefix("http://")]
    assert source.records(Linked, allowed_hosts=allowed) == [{"id": 1}, {"id": 2}]
    assert other.requests[0].headers["Authorization"] == f"Bearer {SECRET}"
    with pytest.raises(UntrustedHostError):  # without a port, that of the scheme is meant
        source.records(Linked, allowed_hosts=["127.0.0.1"])


def test_next_link_to_another_origin_without_credentials_sends_no_cookies(server, source, other):
    server.answers(
        Reply({"data": [{"id": 1}], "next": f"{other.url}/2"}, headers={"Set-Cookie": "sid=abc"})
    )
    assert source.records(Linked, authenticator=SimpleAuthenticator()) == [{"id": 1}, {"id": 2}]
    assert "Cookie" not in other.requests[0].headers


@pytest.mark.parametrize(
    "members",
    [
        {"http_headers": {"X-Api-Key": "x"}},
        {"http_headers": {"X-Plain": SECRET}},
        {"config": {"login": "a-login-value"}, "http_headers": {"X": "is a-login-value"}},
    ],
)
def test_secret_headers_of_the_author_count_as_credentials(server, source, other, members):
    """A header is a credential by its name, or by the value of a secret setting."""
    server.answers(page({"id": 1}, next=f"{other.url}/page2"))
    members = {"authenticator": SimpleAuthenticator(), "config": {"login": SECRET}, **members}
    with pytest.raises(UntrustedHostError):
        source.records(Linked, **members)
    assert other.requests == []


@pytest.mark.parametrize("key", ["a-login-value", "a/login+value==", 'a "löginvalue"'])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_encoded_secrets_in_a_url_or_body_count_as_credentials(server, source, other, key, method):
    """SEC8: a secret setting is recognized in the encoding of a URL, a form and a JSON body."""

    class Keyed(Linked):
        http_method = method

        def get_http_request(self, *, page: Any) -> Any:
            request = super().get_http_request(page=page)
            request.params = {"k": key} if method == "GET" else {}
            return request

        def prepare_request_payload(self, context: Any, next_page_token: Any) -> Any:
            return {"k": key} if method == "POST" else None

    for as_json in (True, False):
        server.answers(page({"id": 1}, next=f"{other.url}/page2"))
        members = {"authenticator": SimpleAuthenticator(), "payload_as_json": as_json}
        with pytest.raises(UntrustedHostError):
            source.records(Keyed, config={"login": key}, **members)
    assert other.requests == []


def test_only_the_query_of_a_hateoas_link_is_used(server, source, other):
    class Walk(BaseHATEOASPaginator):
        def get_next_url(self, response: Any) -> Any:
            return response.json().get("next")

    def params(self: Any, context: Any, token: Any) -> dict[str, Any]:
        return {"p": token.query} if token else {}

    server.answers(page({"id": 1}, next=f"{other.url}/page2?p=2"), page({"id": 2}))
    members = {"get_new_paginator": lambda _: Walk(), "get_url_params": params}
    assert source.records(Signed, **members) == [{"id": 1}, {"id": 2}]
    assert other.requests == []


# URLs that the author provides


def test_first_page_may_be_at_any_origin_that_the_author_returns(server, source, other):
    """A URL that code returns before the first response is trusted with the credentials."""
    other.answers(page({"id": 1}, next=f"{other.url}/2"), page({"id": 2}))

    def get_url(self: Any, context: Any) -> str:
        return f"{other.url}/reports"

    assert source.records(Linked, get_url=get_url) == [{"id": 1}, {"id": 2}]
    assert [request.path for request in other.requests] == ["/reports", "/2"]
    other.answers(page({"id": 1}, next=f"{named(other)}/2"))
    with pytest.raises(UntrustedHostError):
        source.records(Linked, get_url=get_url)


class Child(Signed):
    """A child stream whose URL comes from the records of its parent."""

    url_base = "{link}"  # type: ignore[assignment]
    path = ""

    def get_url(self, context: Any) -> str:
        return str(context["link"])


def child(source: Source, base: Any, **members: Any) -> Any:
    """Return a stream that is a child of the stream ``Users``."""
    stream = source.stream(base, **members)
    stream.parent_stream_type = Users
    return stream


def test_url_from_a_parent_record_must_be_an_allowed_host(server, source, other):
    """SEC8: a URL from a parent's record gets credentials only if its host is allowed."""
    context = {"link": f"{other.url}/things"}
    with pytest.raises(UntrustedHostError, match=other.url):
        list(child(source, Child).request_records(context))
    assert other.requests == []
    stream = child(source, Child, allowed_hosts=[other.url])
    assert list(stream.request_records(context)) == [{"id": 2}]
    same = child(source, Child, url_base=other.url)
    assert list(same.request_records(context)) == [{"id": 2}]


@pytest.mark.parametrize("value", ["evil.example?", "evil.example#", "me@evil.example", "a.b"])
def test_record_values_cannot_change_the_host_of_url_base(source, value):
    class Shops(Signed):
        url_base = "http://{shop}.example.invalid"

    with pytest.raises(UntrustedHostError, match=value.rpartition("@")[2][:3]):
        list(child(source, Shops).request_records({"shop": value}))


# Redirects


def redirect(url: str, status: int = 302) -> Reply:
    return Reply(b"", status=status, headers={"Location": url})


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("kind", sorted(AUTHENTICATORS))
def test_redirect_to_another_origin_is_not_followed(server, source, other, status, kind):
    """SEC8: a redirect of a signed request to another origin is refused."""
    for url in (other.url, named(server)):
        server.answers(redirect(f"{url}/elsewhere", status))
        with pytest.raises(UntrustedHostError) as caught:
            source.records(Signed, kind=kind, config={"login": SECRET})
        assert url in str(caught.value)
        assert SECRET not in str(caught.value)
        assert other.requests == []
        assert len(server.requests) == 1
        server.requests.clear()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirect_within_the_origin_keeps_the_credentials(server, source, status):
    server.answers(redirect("/there", status), page({"id": 1}))
    assert source.records(Signed, kind="header") == [{"id": 1}]
    assert [request.path for request in server.requests] == ["/users", "/there"]
    assert [request.headers["X-Any-Name"] for request in server.requests] == [SECRET] * 2


def test_netrc_file_does_not_replace_credentials_on_a_redirect(
    server, source, monkeypatch, tmp_path
):
    netrc = tmp_path / "netrc"
    netrc.write_text("default login someone password netrc-password\n")
    monkeypatch.setenv("NETRC", str(netrc))
    server.answers(redirect("/there"), page({"id": 1}))
    assert source.records(Signed) == [{"id": 1}]
    assert server.requests[1].headers["Authorization"] == f"Bearer {SECRET}"


def test_redirect_to_an_allowed_host_sends_no_credentials(
    server, source, other, monkeypatch, tmp_path
):
    """The allowed host, for example of a signed file URL, gets only the standard headers."""
    netrc = tmp_path / "netrc"
    netrc.write_text("default login someone password netrc-password\n")
    monkeypatch.setenv("NETRC", str(netrc))
    server.answers(Reply(status=302, headers={"Location": f"{other.url}/f", "Set-Cookie": "a=b"}))
    assert source.records(Signed, allowed_hosts=[other.url]) == [{"id": 2}]
    assert sorted(other.requests[0].headers) == sorted(HEADERS)
    assert seen_secrets(other) == []


@pytest.mark.parametrize("location", ["{}/there", "http://{}.invalid/there"])
def test_redirect_past_the_proxy_sends_no_credentials_of_the_proxy(
    server, source, other, monkeypatch, location
):
    """SEC8: ``NO_PROXY`` names a host that is requested without the proxy."""
    for name in ("http_proxy", "no_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", server.url.replace("://", "://someone:proxy-password@"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    is_direct = location.startswith("{")
    server.answers(redirect(location.format(other.url if is_direct else "other")), page({"id": 2}))
    records = source.records(url_base="http://api.invalid", authenticator=SimpleAuthenticator())
    assert records == [{"id": 2}]
    through = ["Proxy-Authorization" in request.headers for request in server.requests]
    assert through == [True] * (1 if is_direct else 2)
    assert not [request for request in other.requests if "Proxy-Authorization" in request.headers]


def test_redirect_of_a_request_without_credentials_is_followed(server, source, other):
    server.answers(redirect(f"{other.url}/there"))
    assert source.records(authenticator=SimpleAuthenticator()) == [{"id": 2}]
    assert sorted(other.requests[0].headers) == sorted(HEADERS)


class Challenged(Users):
    """A stream that authenticates with HTTP Digest, which answers the challenge of a server."""

    def build_prepared_request(self, *args: Any, **kwargs: Any) -> requests.PreparedRequest:
        auth = HTTPDigestAuth("someone", self.config["password"])
        return super().build_prepared_request(*args, auth=auth, **kwargs)


class ChallengedLinks(Challenged, OlderLinked):
    """The same, and it requests the next link unchanged."""

    authenticator = SimpleAuthenticator()


CHALLENGE = Reply(status=401, headers={"WWW-Authenticate": 'Digest realm="a", nonce="b"'})


@pytest.mark.parametrize("first", [[], [CHALLENGE]])
@pytest.mark.filterwarnings("ignore:prepare_request is deprecated")
def test_challenge_of_another_origin_is_not_answered(server, source, other, first):
    """SEC8: the answer is a hash of the password, from which the password can be found."""
    link = page({"id": 1}, next=f"{other.url}/page2")
    for kind, reply in ((Challenged, redirect(f"{other.url}/there")), (ChallengedLinks, link)):
        server.answers(*first, reply)
        with pytest.raises(UntrustedHostError):
            source.records(kind, config={"password": SECRET})
        assert other.requests == []
    assert len(seen_secrets(server)) == 2 * len(first)  # Digest works at the origin


def test_challenge_after_a_redirect_to_an_allowed_host_is_not_answered(server, source, other):
    """SEC8: the request that follows the redirect has no credentials, and gets none later."""
    server.answers(redirect(f"{other.url}/there"))
    other.answers(CHALLENGE, page({"id": 2}))
    with pytest.raises(FatalAPIError, match="401"):
        source.records(Challenged, config={"password": SECRET}, allowed_hosts=[other.url])
    assert seen_secrets(other) == []


def test_second_redirect_of_a_chain_is_checked(server, source, other):
    """A redirect to another origin is refused also after a redirect within the origin."""
    server.answers(redirect("/there"), redirect(f"{other.url}/elsewhere"))
    with pytest.raises(UntrustedHostError, match=other.url):
        source.records(Signed)
    assert other.requests == []


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("allowed", [False, True])
def test_request_body_is_never_redirected_to_another_origin(server, source, other, status, allowed):
    """SEC8: a body is never redirected to another origin."""

    class Asking(GraphQLStream):
        name = "users"
        schema = Users.schema
        url_base = server.url
        query = "query { users { id } }"

    server.answers(redirect(f"{other.url}/elsewhere", status))
    hosts = [other.url] if allowed else []
    with pytest.raises(UntrustedHostError, match=r"body|credentials"):
        source.records(Asking, allowed_hosts=hosts)
    with pytest.raises(UntrustedHostError, match=r"credentials|body"):
        source.records(Asking, allowed_hosts=hosts, authenticator=property(lambda _: _sign))
    assert other.requests == []


def test_redirect_loop_is_an_error(server, source):
    server.answers(redirect("/users"))
    with pytest.raises(requests.exceptions.TooManyRedirects, match="stream 'users'") as failed:
        source.records(Signed)
    assert failure_type(failed.value) == "config_error"
    assert summarize_error(failed.value).startswith(
        "The server redirects the request more than 30 times: check the address and the credentials"
    )


def test_response_has_the_history_and_final_url_of_redirects(server, source):
    responses: list[requests.Response] = []

    def parse_response(self: Any, response: requests.Response) -> Any:
        responses.append(response)
        return response.json()["data"]

    server.answers(redirect("/a"), redirect("b"), page({"id": 1}))
    source.records(Signed, parse_response=parse_response)
    assert [previous.status_code for previous in responses[0].history] == [302, 302]
    assert responses[0].url == f"{server.url}/b"


def test_redirects_of_a_custom_session_are_checked(server, source, other):
    class Own(requests.Session):
        """Session that sends requests like one of the requests library."""

    session = Own()
    server.answers(redirect(f"{other.url}/elsewhere"))
    with pytest.raises(UntrustedHostError):
        source.records(Signed, requests_session=session)
    session.close()
    assert other.requests == []


# HTTPS


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    return write_certificate(tmp_path)


@pytest.fixture
def secure(certificate: Path) -> Iterator[Server]:
    with serving(over_tls(certificate)) as http_server:
        yield http_server


@pytest.mark.parametrize("signs", [True, False])
@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize("via", ["link", "redirect"])
def test_https_never_falls_back_to_http(secure, certificate, other, signs, allowed, via):
    """SEC9: HTTPS never falls back to HTTP, by no link and no redirect."""
    link = page({"id": 1}, next=f"{other.url}/2")
    secure.answers(link if via == "link" else redirect(f"{other.url}/2"))
    session = requests.Session()
    session.verify = str(certificate)
    members = {"allowed_hosts": [other.url] if allowed else [], "requests_session": session}
    if not signs:
        members["authenticator"] = SimpleAuthenticator()
    with pytest.raises(UntrustedHostError, match="plain HTTP"):
        Source(secure).records(Linked, **members)
    session.close()
    assert other.requests == []


def test_redirect_from_http_to_https_is_allowed(server, secure, certificate, source):
    session = requests.Session()
    session.verify = str(certificate)
    secure.answers(page({"id": 3}))
    server.answers(redirect(f"{secure.url}/there"))
    allowed = {"allowed_hosts": [secure.url], "requests_session": session}
    assert source.records(Signed, **allowed) == [{"id": 3}]
    with pytest.raises(UntrustedHostError):  # at other ports than the usual ones it is another
        source.records(Signed, requests_session=session)
    session.close()
    assert Origin("https", "h", 443).is_tls_upgrade_from(Origin("http", "h", 80))
    assert not Origin("https", "h", 8443).is_tls_upgrade_from(Origin("http", "h", 80))


def test_redirect_to_plain_http_is_refused_if_https_is_required(server, source, monkeypatch):
    """SEC9: under --port every hop of a request must be encrypted."""
    monkeypatch.setattr("tap_core.http.https_policy._is_required", threading.Event())
    require_https()
    server.answers(redirect("http://plain.example/there"))
    with pytest.raises(ConfigurationError, match="plain HTTP"):
        source.records(authenticator=SimpleAuthenticator())


# Names


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://API.example.com/v1", "https://api.example.com"),
        ("https://api.example.com:443", "https://api.example.com"),
        ("http://api.example.com:443/x", "http://api.example.com:443"),
        ("https://user:pass@api.example.com/", "https://api.example.com"),
        ("http://evil.example\\@api.example.com/", "http://evil.example"),
        ("https://api.example.com@evil.example/", "https://evil.example"),
        ("http://[::1]:8080/x", "http://[::1]:8080"),
        ("https://münchen.example/", "https://xn--mnchen-3ya.example"),
        ("https://{shop}.example.com", "https://%7Bshop%7D.example.com"),
        ("/relative", None),
        ("https://", None),
        ("", None),
    ],
)
def test_origin_is_parsed_as_the_http_client_parses_it(url, origin):
    result = declared_origin(url)
    assert (str(result) if result else None) == origin


def test_origin_requires_a_host():
    assert parse_origin(None) is None
    assert parse_origin("http://[bad/") is None
    assert parse_origin(b"http://a.example/?x=/") == Origin("http", "a.example", 80)


@pytest.mark.parametrize(
    ("name", "url", "is_allowed"),
    [
        ("files.example.com", "https://files.example.com/x", True),
        ("Files.Example.com", "https://files.example.com/x", True),
        ("files.example.com", "http://files.example.com/x", True),
        ("files.example.com", "https://files.example.com:8443/x", False),
        ("files.example.com:8443", "https://files.example.com:8443/x", True),
        ("https://files.example.com", "http://files.example.com/x", False),
        ("files.example.com", "https://x.files.example.com/", False),
        ("files.example.com", "https://files.example.com.evil.example/", False),
        ("*.example.com", "https://a.example.com/", True),
        ("*.example.com", "https://a.b.example.com/", True),
        ("*.example.com", "https://example.com/", False),
        ("*.example.com", "https://badexample.com/", False),
        ("*.example.com", "https://.example.com/", False),
    ],
)
def test_allowed_hosts_match_names_ports_and_wildcards(source, name, url, is_allowed):
    route = make_route(source.stream(Signed, allowed_hosts=[name]), _sign)
    request = requests.Request("GET", "http://x/").prepare()
    request.url = url
    if is_allowed:
        route.check(request)
    else:
        with pytest.raises(UntrustedHostError):
            route.check(request)


@pytest.mark.parametrize("name", ["", "*", "*.com", "a/b", "a*.example.com", "u@h", "h:x", "h?q"])
def test_invalid_allowed_host_is_rejected(server, source, name):
    with pytest.raises(ConfigurationError, match="allowed_hosts"):
        source.records(Signed, allowed_hosts=[name])
    assert server.requests == []


def test_allowed_hosts_accepts_a_single_string():
    assert check_allowed_hosts("files.example.com") == ("files.example.com",)


def test_extra_requests_of_a_stream_are_checked(server, source, other):
    """A stream that requests the URL of a record follows the same rules as its pages."""

    class Details(Signed):
        def parse_response(self, response: requests.Response) -> Any:
            for row in response.json()["data"]:
                request = self.build_prepared_request(method="GET", url=row["url"])
                yield self._request(request, None).json()["data"][0]

    server.answers(page({"url": f"{other.url}/1"}))
    with pytest.raises(UntrustedHostError):
        source.records(Details)
    assert other.requests == []
    server.answers(page({"url": f"{server.url}/1"}), page({"id": 7}))
    assert source.records(Details) == [{"id": 7}]


def test_requests_sent_with_the_stream_session_are_checked(server, source, other):
    """The stream's session adds credentials and checks the origin for the author's code."""

    class Details(Signed):
        kind = "header"

        def parse_response(self, response: requests.Response) -> Any:
            for row in response.json()["data"]:
                yield self.requests_session.get(row["url"], timeout=5).json()["data"][0]

    server.answers(page({"url": f"{other.url}/1"}))
    with pytest.raises(UntrustedHostError, match=other.url):
        source.records(Details)
    server.answers(page({"url": f"{server.url}/1"}), redirect(f"{other.url}/elsewhere"))
    with pytest.raises(UntrustedHostError, match="redirects"):
        source.records(Details)
    assert other.requests == []
    server.answers(page({"url": f"{server.url}/1"}), redirect("/2"), page({"id": 7}))
    assert source.records(Details) == [{"id": 7}]
    assert server.requests[-1].headers["X-Any-Name"] == SECRET


def test_rest_and_graphql_streams_share_the_origin_check():
    assert GraphQLStream._request is RESTStream._request


def test_sent_request_has_no_hooks_of_the_origin_check(server, source):
    responses: list[requests.Response] = []

    def parse_response(self: Any, response: requests.Response) -> Any:
        responses.append(response)
        return ()

    server.answers(redirect("/there"), page())
    source.records(Signed, parse_response=parse_response)
    assert responses[0].request.hooks == {"response": []}


def test_digest_authentication_works_within_the_response_limits(server, source):
    """Digest authentication sends its second request from a response hook of requests."""

    class Digest(Users):
        authenticator = requests.auth.HTTPDigestAuth("me", "password")  # type: ignore[assignment]

    def answer(request: ReceivedRequest) -> Reply:
        if "Authorization" in request.headers:
            return page({"id": 1})
        challenge = 'Digest realm="r", nonce="n", qop="auth"'
        return Reply(b"", status=401, headers={"WWW-Authenticate": challenge})

    server.answers_by(answer)
    assert source.records(Digest) == [{"id": 1}]


@pytest.mark.parametrize("body", ["<p>a&amp;b'c</p>", '{"p": "a\\u0026b\\u0027c"}'])
def test_secret_is_found_in_every_escape_of_a_body(body: str):
    """SEC8: a body contains a secret also where XML or JSON escapes only some of its characters."""
    request = requests.Request("POST", "https://other.example/", data=body).prepare()
    assert has_secrets(request, Secrets.from_values(["a&b'c"]))
    assert not has_secrets(request, Secrets.from_values(["a&b&c"]))


@pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_certificates_in_the_file_of_the_environment_are_trusted(
    secure, certificate, monkeypatch, variable
):
    """As by airbyte-cdk, and as in requests for access tokens."""
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    monkeypatch.setenv(variable, str(certificate))
    secure.answers(page({"id": 1}))
    assert Source(secure).records() == [{"id": 1}]


def test_settings_of_the_session_precede_the_certificates_of_the_environment(
    secure, certificate, monkeypatch, tmp_path
):
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path))
    secure.answers(page({"id": 1}))
    with requests.Session() as session:
        session.verify = str(certificate)
        assert Source(secure).records(requests_session=session) == [{"id": 1}]


@pytest.mark.parametrize(
    ("options", "is_listed", "expected"),
    [
        ({}, False, "The certificate of the source is not trusted: to trust it, write it"),
        ({"starts_in": -9}, True, "The certificate of the source has expired"),
        ({"starts_in": 9}, True, "The certificate of the source is not valid yet: check the clock"),
        ({"hosts": ["a.test"]}, True, "The source has a certificate of another host"),
    ],
)
def test_rejected_certificate_is_explained_and_not_retried(
    tmp_path, monkeypatch, options, is_listed, expected
):
    path = write_certificate(tmp_path, **options)
    if is_listed:
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(path))
    with serving(over_tls(path)) as server:
        source = Source(server)
        with pytest.raises(requests.exceptions.SSLError) as failed:
            source.records()
    sentence = summarize_error(failed.value)
    assert sentence.startswith(expected)
    assert "127.0.0.1" in sentence
    assert "try 1]" in sentence


def test_file_without_certificates_is_an_error_of_the_configuration(secure, tmp_path, monkeypatch):
    path = tmp_path / "none.pem"
    path.touch()
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(path))
    with pytest.raises(requests.exceptions.SSLError, match=r"try 1\]") as failed:
        Source(secure).records()
    assert failure_type(failed.value) == "config_error"
    assert "REQUESTS_CA_BUNDLE" in summarize_error(failed.value)


def test_missing_file_of_certificates_is_named_with_its_variable(secure, monkeypatch):
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/none.pem")
    with pytest.raises(ConfigurationError, match=r"no file '/none\.pem' .* REQUESTS_CA_BUNDLE"):
        Source(secure).records()
    assert secure.requests == []
