"""Credentials of a manifest are sent only to the origins that it declares."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from tap_core.exceptions import DiscoveryError, FatalAPIError
from tap_core.http.origins import UntrustedHostError
from tap_core.http.response_limits import ResponseTooLargeError, ResponseTooSlowError
from tap_core.manifest.errors import ManifestError
from tests.http.server import ReceivedRequest, Reply, Server, page, serving
from tests.manifest.reports import report_stream
from tests.manifest.running import RunResult, manifest, run, stream

KEY = "key-AAA-1234-and-long-enough-to-sign-with"

AUTHENTICATORS = {
    "bearer": "authenticator: {type: BearerAuthenticator, api_token: \"{{ config['api_key'] }}\"}",
    "basic": "authenticator: {type: BasicHttpAuthenticator, username: me,"
    " password: \"{{ config['api_key'] }}\"}",
    "header": "authenticator: {type: ApiKeyAuthenticator, header: X-Any,"
    " api_token: \"{{ config['api_key'] }}\"}",
    "query": "authenticator: {type: ApiKeyAuthenticator, api_token: \"{{ config['api_key'] }}\","
    " inject_into: {type: RequestOption, inject_into: request_parameter, field_name: k}}",
    "body": "http_method: POST\nauthenticator: {type: ApiKeyAuthenticator,"
    " api_token: \"{{ config['api_key'] }}\","
    " inject_into: {type: RequestOption, inject_into: body_json, field_name: k}}",
    "oauth": """
authenticator:
  type: OAuthAuthenticator
  token_refresh_endpoint: "{{ config['url'] }}/token"
  client_id: me
  client_secret: "{{ config['api_key'] }}"
  refresh_token: refr-555-AAA
""",
    "session": """
authenticator:
  type: SessionTokenAuthenticator
  login_requester:
    type: HttpRequester
    url_base: "{{ config['url'] }}"
    path: token
    http_method: POST
    request_body_json: {password: "{{ config['api_key'] }}"}
  session_token_path: [access_token]
  request_authentication: {type: ApiKey, inject_into:
    {type: RequestOption, inject_into: header, field_name: X-Any}}
""",
    "jwt": "authenticator: {type: JwtAuthenticator, secret_key: \"{{ config['api_key'] }}\","
    " algorithm: HS256}",
    "headers of its own": "request_headers: {X-Any: \"{{ config['api_key'] }}\"}",
    "parameters of its own": "request_parameters: {k: \"{{ config['api_key'] }}\"}",
}

LINKS = """
paginator:
  type: DefaultPaginator
  page_token_option: {type: RequestPath}
  pagination_strategy: {type: CursorPagination, cursor_value: "{{ response.next }}"}
"""


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running_server:
        yield running_server


@pytest.fixture
def other() -> Iterator[Server]:
    with serving() as other_server:
        other_server.answers(page({"id": 2}))
        yield other_server


def sync(folder: Path, server: Server, *streams: str, **config: Any) -> RunResult:
    settings = {"api_key": KEY, **config}
    return run(manifest(folder, *streams), server, config=settings, fails=True)


def describe_error(result: RunResult) -> str:
    assert result.error is not None
    return f"{result.error!r} {result.error.__cause__!r} {result.error.__context__!r}"


def serve(server: Server, replies: dict[str, Any]) -> None:
    """Let the server send these replies by path, and a token at the token endpoint."""

    def answer(request: ReceivedRequest) -> Reply:
        if request.path == "/token":
            return Reply({"access_token": "tok-777-AAA", "expires_in": 3600})
        reply = replies[request.path]
        return reply if isinstance(reply, Reply) else Reply(reply)

    server.answers_by(answer)


@pytest.mark.parametrize("kind", sorted(AUTHENTICATORS))
def test_next_link_to_another_origin_gets_no_credentials(tmp_path, server, other, kind):
    """SEC8: a link to another origin gets no credential of any authenticator."""
    for url in (other.url, other.url.replace("127.0.0.1", "localhost")):
        serve(server, {"/items": {"data": [{"id": 1}], "next": f"{url}/page2"}})
        result = sync(
            tmp_path, server, stream("items", "items", AUTHENTICATORS[kind], retriever=LINKS)
        )
        assert f"to {url}, and the credentials" in describe_error(result)
        assert "`allowed_hosts` of the requester of the stream 'items'" in describe_error(result)
        assert KEY not in describe_error(result)
        assert result.records("items") == [{"id": 1}]
        assert other.requests == []


@pytest.mark.parametrize("kind", sorted(AUTHENTICATORS))
@pytest.mark.parametrize("status", [302, 307])
def test_redirect_to_another_origin_gets_no_credentials(tmp_path, server, other, kind, status):
    """SEC8: a redirect to another origin gets no credentials."""
    redirect = Reply(b"", status=status, headers={"Location": f"{other.url}/elsewhere"})
    serve(server, {"/items": redirect})
    result = sync(tmp_path, server, stream("items", "items", AUTHENTICATORS[kind]))
    assert f"redirects to {other.url}" in describe_error(result)
    assert other.requests == []


@pytest.mark.parametrize("kind", sorted(AUTHENTICATORS))
def test_next_link_of_the_same_origin_is_followed(tmp_path, server, kind):
    serve(
        server,
        {
            "/items": {"data": [{"id": 1}], "next": f"{server.url}/page2"},
            "/page2": {"data": [{"id": 2}]},
        },
    )
    result = sync(tmp_path, server, stream("items", "items", AUTHENTICATORS[kind], retriever=LINKS))
    assert result.error is None
    assert result.records("items") == [{"id": 1}, {"id": 2}]


@pytest.mark.parametrize(
    "allowing",
    ["allowed_hosts: [\"{{ config['other'] }}\"]", '$parameters: {allowed_hosts: ["HOST"]}'],
)
def test_next_link_to_an_allowed_host_gets_credentials(tmp_path, server, other, allowing):
    serve(server, {"/items": {"data": [{"id": 1}], "next": f"{other.url}/page2"}})
    host = other.url.removeprefix("http://")
    body = f"{AUTHENTICATORS['bearer']}\n{allowing.replace('HOST', host)}"
    items = stream("items", "items", body, retriever=LINKS)
    result = sync(tmp_path, server, items, other=host)
    assert result.records("items") == [{"id": 1}, {"id": 2}]
    assert other.requests[0].headers["Authorization"] == f"Bearer {KEY}"


def test_next_link_without_credentials_is_followed(tmp_path, server, other):
    serve(server, {"/items": {"data": [{"id": 1}], "next": f"{other.url}/page2"}})
    result = sync(tmp_path, server, stream("items", "items", retriever=LINKS))
    assert result.records("items") == [{"id": 1}, {"id": 2}]


@pytest.mark.parametrize(
    "strategy",
    [
        "cursor_value: \"{{ headers['link']['next']['url'] }}\"",
        'cursor_value: "{{ last_record.next }}"',
    ],
)
def test_next_links_of_headers_and_records_are_checked(tmp_path, server, other, strategy):
    reply = Reply(
        {"data": [{"id": 1, "next": f"{other.url}/2"}]},
        headers={"Link": f'<{other.url}/2>; rel="next"'},
    )
    serve(server, {"/items": reply})
    links = LINKS.replace('cursor_value: "{{ response.next }}"', strategy)
    result = sync(
        tmp_path, server, stream("items", "items", AUTHENTICATORS["bearer"], retriever=links)
    )
    assert other.url in describe_error(result)
    assert other.requests == []


@pytest.mark.parametrize("option", ["path", "url_base", "url"])
def test_next_page_token_in_the_url_is_checked(tmp_path, server, other, option):
    """A manifest may use the next link in a template of its URL."""
    serve(server, {"/items": {"data": [{"id": 1}], "next": f"{other.url}/page2"}})
    links = LINKS.replace("  page_token_option: {type: RequestPath}\n", "")
    token = "{{ next_page_token.next_page_token if next_page_token else config.url ~ '/items' }}"
    items = stream("items", "", AUTHENTICATORS["header"], retriever=links)
    items = items.replace('path: ""', f'{option}: "{token}"')
    if option != "path":
        items = items.replace('$ref: "#/definitions/requester"', "type: HttpRequester")
    result = sync(tmp_path, server, items)
    assert other.url in describe_error(result)
    assert other.requests == []


# Records of a parent

PARENTS = stream("parents", "parents", AUTHENTICATORS["bearer"])


def child_stream(address: str, body: str) -> str:
    declared = stream(
        "children",
        "",
        body,
        retriever="""
partition_router:
  type: SubstreamPartitionRouter
  parent_stream_configs:
    - {type: ParentStreamConfig, stream: "#/streams/0", parent_key: link, partition_field: link}
""",
    )
    declared = declared.replace('$ref: "#/definitions/requester"', "type: HttpRequester")
    return declared.replace('path: ""', address)


ADDRESSES = {
    "url": 'url: "{{ stream_partition.link }}"',
    "url_base": 'url_base: "{{ stream_slice.link }}"',
    "path": "url_base: \"{{ config['url'] }}\"\n        path: \"{{ stream_partition['link'] }}\"",
    "part of it": "url_base: \"http://127.0.0.1:{{ stream_slice.link.split(':')[2] }}\"",
}


@pytest.mark.parametrize("option", sorted(ADDRESSES))
def test_url_from_a_parent_record_gets_credentials_only_on_declared_hosts(
    tmp_path, server, other, option
):
    """The URL of a child comes from a parent's record."""
    child = child_stream(ADDRESSES[option], AUTHENTICATORS["bearer"])
    declared_url = f"{server.url}/child"
    serve(
        server,
        {
            "/parents": {"data": [{"link": declared_url}, {"link": f"{other.url}/child"}]},
            "/child": {"data": [{"id": 5}]},
            "/": {"data": [{"id": 5}]},
            "": {"data": [{"id": 5}]},
        },
    )
    result = sync(tmp_path, server, PARENTS, child)
    assert other.url in describe_error(result)
    assert result.records("children") == [{"id": 5}]
    assert other.requests == []


def test_url_from_a_parent_record_without_credentials_is_requested(tmp_path, server, other):
    child = child_stream(ADDRESSES["url"], "")
    serve(server, {"/parents": {"data": [{"link": f"{other.url}/child"}]}})
    result = sync(tmp_path, server, PARENTS, child)
    assert result.records("children") == [{"id": 2}]
    assert "Authorization" not in other.requests[0].headers


def test_hosts_listed_in_the_manifest_get_credentials(tmp_path, server, other):
    router = """
partition_router:
  type: ListPartitionRouter
  cursor_field: base
  values: ["{{ config['url'] }}", "{{ config['other'] }}"]
"""
    declared = stream("items", "items", AUTHENTICATORS["bearer"], retriever=router)
    declared = declared.replace('$ref: "#/definitions/requester"', "type: HttpRequester")
    declared = declared.replace(
        'path: "items"', 'url_base: "{{ stream_partition.base }}"\n        path: items'
    )
    declared = declared.replace(
        "values: [\"{{ config['url'] }}\", \"{{ config['other'] }}\"]",
        f'values: ["{server.url}", "{other.url}"]',
    )
    serve(server, {"/items": {"data": [{"id": 1}]}})
    result = sync(tmp_path, server, declared)
    assert result.error is None
    assert sorted(record["id"] for record in result.records("items")) == [1, 2]


# Jobs


def serve_job(server: Server, **created: str) -> None:
    serve(
        server,
        {
            "/jobs": {"id": "1", "status": "queued", **created},
            "/jobs/1": {"status": "done", "file": created.get("file", "")},
            "/files/1": [{"id": 1}],
        },
    )


def job_requesters(authenticator: str = "") -> str:
    return f"""
polling_requester:
  type: HttpRequester
  url: "{{{{ creation_response.poll }}}}"
  {AUTHENTICATORS["bearer"]}
download_target_extractor: {{type: DpathExtractor, field_path: [file]}}
download_requester:
  type: HttpRequester
  url: "{{{{ download_target }}}}"
  {authenticator}
"""


def job_stream(authenticator: str = "") -> str:
    declared = report_stream(body=AUTHENTICATORS["bearer"], retriever="EXTRA")
    head, _, tail = declared.partition("      polling_requester:")
    _, _, tail = tail.partition("      abort_requester:")
    body = "".join(f"      {line}\n" for line in job_requesters(authenticator).strip().splitlines())
    return head + body + "      abort_requester:" + tail.replace("      EXTRA\n", "")


@pytest.mark.parametrize(
    ("poll", "file", "authenticator", "is_refused"),
    [
        ("home", "other", "", False),
        ("home", "home", AUTHENTICATORS["bearer"], False),
        ("home", "other", AUTHENTICATORS["bearer"], True),
        ("other", "home", "", True),
        ("home", "other", AUTHENTICATORS["bearer"] + "\n  allowed_hosts: [HOST]", False),
    ],
)
def test_job_urls_get_credentials_only_on_allowed_hosts(
    tmp_path, server, other, poll, file, authenticator, is_refused
):
    """SEC8: addresses of an asynchronous job on another host get no credentials."""
    urls = {"home": server.url, "other": other.url}
    other.answers(Reply([{"id": 9}]))
    serve_job(server, poll=f"{urls[poll]}/jobs/1", file=f"{urls[file]}/files/1")
    host = other.url.removeprefix("http://")
    result = sync(tmp_path, server, job_stream(authenticator.replace("HOST", host)))
    if is_refused:
        assert other.url in describe_error(result)
        assert other.requests == []
        return
    assert result.error is None, describe_error(result)
    assert result.records("items") == [{"id": 9 if file == "other" else 1}]
    signed = ["Authorization" in request.headers for request in other.requests]
    assert signed == ([bool(authenticator)] if file == "other" else [])


# Tokens and logins


@pytest.mark.parametrize("kind", ["oauth", "session"])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("is_same_host", [True, False])
def test_token_requests_follow_no_redirect(tmp_path, server, other, kind, status, is_same_host):
    """SEC9: a request for a token follows no redirect."""
    location = f"{server.url if is_same_host else other.url}/moved"
    server.answers(Reply(b"", status=status, headers={"Location": location}))
    result = sync(tmp_path, server, stream("items", "items", AUTHENTICATORS[kind]))
    assert f"redirects to {server.url if is_same_host else other.url}" in describe_error(result)
    assert "follows no redirect" in describe_error(result)
    assert KEY not in describe_error(result)
    assert len(server.requests) == 1
    assert other.requests == []


# Dynamic streams


@pytest.mark.parametrize(
    ("kind", "field_path", "path"),
    [
        ("bearer", "retriever, requester, url_base", ""),
        ("oauth", "retriever, requester, authenticator, token_refresh_endpoint", "/token"),
    ],
)
def test_resolver_response_cannot_choose_the_host_of_credentials(
    tmp_path, server, other, kind, field_path, path
):
    """SEC8: dynamic streams of an API get credentials only on the hosts of the template."""
    text = manifest(tmp_path, "  []\n").read_text()
    (tmp_path / "manifest.yaml").write_text(
        text.replace("streams:\n  []\n", "")
        + f"""
dynamic_streams:
  - type: DynamicDeclarativeStream
    stream_template:
      type: DeclarativeStream
      name: x
      retriever:
        type: SimpleRetriever
        requester:
          type: HttpRequester
          url_base: "{{{{ config['url'] }}}}"
          path: items
          {indent(AUTHENTICATORS[kind], "          ").strip()}
        record_selector:
          type: RecordSelector
          extractor: {{type: DpathExtractor, field_path: [data]}}
      schema_loader: {{type: InlineSchemaLoader, schema: {{type: object, properties: {{}}}}}}
    components_resolver:
      type: HttpComponentsResolver
      retriever:
        type: SimpleRetriever
        requester: {{$ref: "#/definitions/requester", path: tables}}
        record_selector:
          type: RecordSelector
          extractor: {{type: DpathExtractor, field_path: [data]}}
      components_mapping:
        - type: ComponentMappingDefinition
          field_path: [name]
          value: "{{{{ components_values.id }}}}"
        - type: ComponentMappingDefinition
          field_path: [{field_path}]
          value: "{{{{ components_values.base }}}}"
"""
    )
    bases = {"a_good": f"{server.url}{path}", "z_bad": f"{other.url}{path}"}
    tables = [{"id": name, "base": base} for name, base in bases.items()]
    serve(server, {"/tables": {"data": tables}, "/items": {"data": [{"id": 1}]}})
    file = tmp_path / "manifest.yaml"
    if kind == "oauth":  # a token endpoint is checked when streams are found
        with pytest.raises(ManifestError, match=f"to {re.escape(other.url)}, which"):
            run(file, server, config={"api_key": KEY}, fails=True)
    else:
        result = run(file, server, config={"api_key": KEY}, fails=True)
        assert other.url in describe_error(result)
        assert result.records("a_good") == [{"id": 1}]
    assert other.requests == []


# Custom components

CODE = """
from dataclasses import dataclass
from airbyte_cdk.sources.declarative.requesters.http_requester import HttpRequester

@dataclass
class Mine(HttpRequester):
    def get_url_base(self, *, stream_state=None, stream_slice=None, next_page_token=None):
        if next_page_token:
            return next_page_token["next_page_token"]
        return self.config["url"]

    def get_path(self, *, stream_state=None, stream_slice=None, next_page_token=None):
        return "" if next_page_token else "items"
"""


def test_custom_requester_sends_credentials_only_to_its_origin(tmp_path, server, other):
    (tmp_path / "components.py").write_text(CODE)
    declared = stream(
        "items",
        "",
        f"class_name: source_declarative_manifest.components.Mine\n{AUTHENTICATORS['bearer']}",
        retriever=LINKS.replace("  page_token_option: {type: RequestPath}\n", ""),
    )
    declared = declared.replace('$ref: "#/definitions/requester"', "type: CustomRequester").replace(
        'path: ""', ""
    )
    serve(
        server,
        {
            "/items": {"data": [{"id": 1}], "next": f"{server.url}/2"},
            "/2": {"data": [{"id": 2}], "next": f"{other.url}/3"},
        },
    )
    result = sync(tmp_path, server, declared)
    assert other.url in describe_error(result)
    assert result.records("items") == [{"id": 1}, {"id": 2}]
    assert other.requests == []


# Limits


def test_response_size_limit_of_a_requester_ends_its_stream(tmp_path, server):
    """The other streams are read."""
    serve(
        server,
        {"/big": {"data": [{"id": 1}], "x": "x" * 2_000}, "/items": {"data": [{"id": 2}]}},
    )
    big = stream("big", "big", "max_response_bytes: 1000")
    result = sync(tmp_path, server, stream("an_item", "items"), big)
    assert "larger than 1,000 bytes" in describe_error(result)
    assert result.records("an_item") == [{"id": 2}]
    enough = stream("big", "big", "max_response_bytes: 3000\nmax_response_seconds: 5")
    assert sync(tmp_path, server, enough).error is None


def test_origin_and_limit_errors_are_stream_errors():
    for kind in (UntrustedHostError, ResponseTooLargeError, ResponseTooSlowError):
        assert issubclass(kind, FatalAPIError)
        assert not issubclass(kind, DiscoveryError)
