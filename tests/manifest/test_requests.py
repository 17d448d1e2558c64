"""Requests of a manifest's requester: URL, parameters, headers, body."""

from __future__ import annotations

import json
from urllib.parse import parse_qsl, urljoin, urlsplit

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from tap_core.exceptions import FatalAPIError
from tap_core.http.request import build_body_arguments
from tap_core.incremental.request_options import RequestOption
from tap_core.manifest.components.requester import HttpRequester, RequestPath, finalize_request
from tap_core.manifest.errors import ManifestError
from tests.manifest.pieces import build

BASES = (
    *("https://a.io", "https://a.io/", "https://a.io/v1", "https://a.io/v1?x=1", "https://a.io#y"),
    *("https://a.io/../v1", "https://a.io/v1;p", "a.io/v1", "mailto:x", "//a.io", "x"),
)
URL = "type: HttpRequester\nurl: http://api/v1\n"


def prepare(requester: HttpRequester, **scope):
    """Return the prepared request."""
    request = finalize_request(requester.request(scope))
    body = build_body_arguments(request.data, as_json=bool(request.as_json))
    headers = {**body.pop("headers", {}), **request.headers}
    plain = requests.Request(
        request.method, request.url, params=request.encode_params(), headers=headers, **body
    )
    return plain.prepare()


def get_query(requester: HttpRequester, **scope):
    parts = urlsplit(prepare(requester, **scope).url)
    return parse_qsl(parts.query, keep_blank_values=True)


@pytest.mark.parametrize(
    ("options", "url"),
    [
        ("url_base: http://api/v1\npath: users", "http://api/v1/users"),
        ("url_base: http://api/v1/\npath: /users/", "http://api/v1/users/"),
        ("url_base: http://api/v1", "http://api/v1"),
        ("url_base: http://api/v1\npath: http://other/x", "http://other/x"),
        ("url: http://api/v1/users", "http://api/v1/users"),
        ("url: http://api/v1\npath: users?a=1", "http://api/v1/users?a=1"),
        (
            "url_base: 'http://{{ config.host }}/v1'\npath: '{{ stream_partition.id }}'",
            "http://h/v1/7",
        ),
    ],
)
def test_url_is_joined_from_base_and_path(options, url):
    requester = build(f"type: HttpRequester\n{options}", HttpRequester, host="h")
    assert prepare(requester, stream_partition={"id": 7}).url == url


@pytest.mark.parametrize("value", ["..", "../../admin", "a/../../b", "%2e%2E/x", ".\t./x"])
@pytest.mark.parametrize(
    "options",
    [
        "url_base: http://api/v1\npath: 'users/{{ stream_partition.id }}/orders'",
        "url_base: http://api/v1\npath: '{{ stream_partition.id }}'",
        "url_base: 'http://api/v1/{{ stream_partition.id }}'",
        "url: 'http://api/v1/{{ stream_partition.id }}/orders'",
    ],
)
def test_value_that_leads_to_another_path_is_an_error(options, value):
    """A value of a response does not choose the path that is read with the credentials."""
    requester = build(f"type: HttpRequester\n{options}", HttpRequester)
    with pytest.raises(FatalAPIError, match=r"segment '\.' or '\.\.'"):
        requester.request({"stream_partition": {"id": value}})


def test_path_or_url_that_the_manifest_or_the_source_chooses_may_have_dots():
    text = "type: HttpRequester\nurl_base: http://api/v1\npath: ../x/{{ 1 }}"
    declared = build(text, HttpRequester)
    assert declared.request({}).url == "http://api/x/1"
    link = build("type: HttpRequester\nurl: '{{ stream_partition.link }}'", HttpRequester)
    linked = link.request({"stream_partition": {"link": "http://api/v1/../x"}})
    assert linked.url == "http://api/v1/../x"


@given(
    base=st.sampled_from(BASES),
    path=st.text("ab/.-_:?#;é%", min_size=1, max_size=8),
)
def test_fast_url_join_equals_urljoin(base: str, path: str):
    """The fast path for plain paths gives the result of the standard library."""
    requester, path = HttpRequester(url_base=base, path=path), path.lstrip("/")
    folder = base if base.endswith("/") else f"{base}/"
    assert requester.request({}).url == (urljoin(folder, path) if path else base)


def test_empty_parameters_are_omitted_and_lists_repeated():
    requester = build(
        f"""{URL}request_parameters:
  number: "{{{{ 1.50 }}}}"
  truth: "{{{{ true }}}}"
  list: "{{{{ [1, 'b'] }}}}"
  object: "{{{{ {{'a': 1}} }}}}"
  none: "{{{{ none }}}}"
  empty: ""
  missing: "{{{{ config['nothing'] }}}}"
  zeros: "{{{{ '007' }}}}"
  power: "1e3"
  quoted: "'x'"
  zero: "{{{{ stream_partition.zero }}}}"
  plain: 5
""",
        HttpRequester,
    )
    assert get_query(requester, stream_partition={"zero": 0}) == [
        *[("number", "1.5"), ("truth", "True"), ("list", "1"), ("list", "b")],
        *[("object", "{'a': 1}"), ("none", "None"), ("zeros", "007"), ("power", "1e3")],
        *[("quoted", "x"), ("zero", "0"), ("plain", "5")],
    ]


def test_final_newline_of_a_text_block_is_removed():
    """As in airbyte-cdk, where every string is a template, which loses its last newline."""
    requester = build(
        f"""{URL}request_parameters:
  plain: |
    a
    b
  given: |
    {{{{ 1 }}}}
    b
  more: "a\\n\\n"
request_body_json:
  query: |
    {{ a }}
""",
        HttpRequester,
    )
    assert get_query(requester) == [("plain", "a\nb"), ("given", "1\nb"), ("more", "a\n")]
    assert json.loads(prepare(requester).body) == {"query": "{ a }"}


def test_parameters_are_inherited_by_a_body_with_a_type():
    """airbyte-cdk treats such a body as a component, except if its type is one of JSON Schema."""
    requester = build(
        f"""{URL}$parameters: {{size: 2, word: "{{{{ config.word }}}}"}}
request_body_json:
  type: report
  size: "{{{{ parameters.size }}}}"
  inner: [{{type: part}}, {{type: object}}, {{a: 1}}]
""",
        HttpRequester,
        word="w",
    )
    parameters = {"size": 2, "word": "w"}
    part = {"type": "part", **parameters, "$parameters": parameters}
    assert json.loads(prepare(requester).body) == {
        "type": "report",
        **parameters,
        "inner": [part, {"type": "object"}, {"a": 1}],
        "$parameters": parameters,
    }


def test_one_template_can_provide_all_parameters():
    requester = build(
        URL + """request_parameters: "{{ {'type': 'x', 'none': none, 'empty': ''} }}" """,
        HttpRequester,
    )
    assert get_query(requester) == [("type", "x"), ("empty", "")]


def test_parameter_that_is_an_object_is_rejected():
    requester = build(URL + "request_parameters: \"{{ {'a': stream_slice} }}\"", HttpRequester)
    with pytest.raises(ManifestError, match="'a' is an object"):
        prepare(requester, stream_slice={"b": 1})
    request = build(URL, HttpRequester).request({})
    RequestOption("request_parameter", "after").put(request, {})
    with pytest.raises(ManifestError, match="'after' is an object"):
        finalize_request(request)


@pytest.mark.parametrize("name", ["config", "stream_partition"])
def test_object_of_a_template_is_sent_with_its_empty_members(name):
    """As in airbyte-cdk, which omits only members of the manifest's own mappings."""
    body = (
        f"""{{one: "{{{{ {name}.one }}}}", two: "{{{{ {name}.two }}}}", none: "{{{{ none }}}}"}}"""
    )
    value = {"one": {"null": None, "empty": ""}, "two": [None, ""]}
    requester = build(f"{URL}request_body_json: {body}", HttpRequester, **value)
    assert json.loads(prepare(requester, stream_partition=value).body) == value
    from_template = build(
        f"""{URL}request_body_json: "{{{{ {name} }}}}\"""", HttpRequester, **value
    )
    assert json.loads(prepare(from_template, stream_partition=value).body) == value
    headers = build(f"""{URL}request_headers: "{{{{ {name}.one }}}}\"""", HttpRequester, **value)
    assert headers.request({"stream_partition": value}).headers == {"empty": ""}


def test_text_as_a_json_body_is_rejected():
    for value in ('{"a": true}', '{"a": {{ config.b }}}'):
        with pytest.raises(ManifestError, match="JSON body of a request is a text"):
            prepare(build(f"{URL}request_body_json: '{value}'", HttpRequester, b="true"))


def test_parameter_of_the_url_is_repeated_only_with_another_value():
    text = "type: HttpRequester\nurl: http://api/v1?a=1&b=2\nrequest_parameters: {a: '1', b: '3'}"
    assert get_query(build(text, HttpRequester)) == [("a", "1"), ("b", "2"), ("b", "3")]


def test_headers_are_parsed_as_literals_and_nulls_omitted():
    requester = build(
        f"""{URL}request_headers:
  x-number: "{{{{ 1.50 }}}}"
  x-power: "1e3"
  x-none: "{{{{ none }}}}"
  x-list: "{{{{ [1, 'b'] }}}}"
""",
        HttpRequester,
    )
    headers = prepare(requester).headers
    assert (headers["x-number"], headers["x-power"], headers["x-list"]) == (
        *("1.5", "1000.0"),
        "[1, 'b']",
    )
    assert "x-none" not in headers


def test_json_body_keeps_types_and_omits_empty_values():
    requester = build(
        f"""{URL}http_method: POST
request_body_json:
  number: "{{{{ 1 }}}}"
  zeros: "007"
  none: "{{{{ none }}}}"
  truth: true
  below: {{empty: "", id: "{{{{ stream_partition.id }}}}"}}
  list: ["", "{{{{ [1] }}}}"]
""",
        HttpRequester,
    )
    request = prepare(requester, stream_partition={"id": "x"})
    assert json.loads(request.body) == {
        "number": 1,
        "zeros": "007",
        "truth": True,
        "below": {"id": "x"},
        "list": [None, [1]],
    }
    assert request.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("request_body_data: {a: '{{ [1, 2] }}', b: ''}", b"a=1&a=2"),
        ("request_body_data: 'plain {{ config.x }} \u00e4'", "plain 5 \u00e4".encode()),
        ("request_body_data: '{\"a\": 1}'", b"a=1"),
        ("request_body_data: '{\"a\": null}'", b'{"a": null}'),
        ("request_body_data: '[1, 2]'", b"[1,2]"),
        ("request_body_data: '{{ config.nothing }}'", None),
        ("request_body: {type: RequestBodyPlainText, value: text}", b"text"),
        ("request_body: {type: RequestBodyUrlEncodedForm, value: {a: 1e3}}", b"a=1e3"),
        ("request_body: {type: RequestBodyJsonObject, value: {a: 1}}", b'{"a": 1}'),
        (
            "request_body: {type: RequestBodyGraphQL, value: {query: '{ me }', variables: {a: 1}}}",
            b'{"query": "{ me }", "variables": {"a": 1}}',
        ),
        ("request_body_json: {}", None),
    ],
)
def test_request_body_types_are_encoded(body, expected):
    request = prepare(build(f"{URL}http_method: POST\n{body}", HttpRequester, x=5))
    content = request.body.encode() if isinstance(request.body, str) else request.body
    assert content == expected


def test_get_request_can_have_a_body():
    """airbyte-cdk 7.39 sends the same."""
    requester = build(f"{URL}request_body_json: {{a: 1}}", HttpRequester)
    request = requester.request({})
    RequestOption(inject_into="body_json", field_name="b").put(request, 2)
    assert (finalize_request(request).method, request.data, request.as_json) == (
        "GET",
        {"a": 1, "b": 2},
        True,
    )


def test_request_options_are_added_to_the_body():
    requester = build(f"{URL}http_method: POST\nrequest_body_json: {{a: {{x: 1}}}}", HttpRequester)
    request = requester.request({})
    RequestOption(inject_into="body_json", field_path=["a", "y"]).put(request, 2)
    assert finalize_request(request).data == {"a": {"x": 1, "y": 2}}
    assert requester.request({}).data == {"a": {"x": 1}}


@pytest.mark.parametrize(
    ("options", "token", "url"),
    [
        ("url_base: http://api/v1\npath: users", "http://other/x?p=2", "http://other/x?p=2"),
        ("url_base: http://api/v1\npath: users", "/v1/users?p=2", "http://api/v1/users?p=2"),
        ("url_base: http://api/v1\npath: users", "users?p=2", "http://api/v1/users?p=2"),
        ("url_base: http://api/v1\npath: users", "?p=2", "http://api/v1/?p=2"),
    ],
)
def test_page_token_can_be_the_path_of_the_next_page(options, token, url):
    request = build(f"type: HttpRequester\n{options}", HttpRequester).request({})
    RequestPath().put(request, token)
    assert request.url == url


def test_body_may_contain_the_name_of_a_component_as_its_type():
    body = {
        "limit": {"type": "Rate", "limit": 3},
        "type": "RecordFilter",
        "a": [{"type": "NoAuth"}],
    }
    assert json.loads(prepare(build(f"{URL}request_body_json: {body}", HttpRequester)).body) == body


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("type: HttpRequester\npath: x", "needs a `url`"),
        (f"{URL}request_body_json: {{a: 1}}\nrequest_body_data: {{a: 1}}", "has one body"),
        (f"{URL}http_method: PURGE", "PURGE"),
        (f"{URL}verb: GET", "no option 'verb'"),
    ],
)
def test_invalid_requester_is_rejected_with_its_line(text, message):
    with pytest.raises(ManifestError, match=message) as error:
        build(text, HttpRequester)
    assert "line" in str(error.value)
    assert "piece" in str(error.value)


def test_read_timeout_is_passed_to_the_client():
    assert build(URL, HttpRequester).timeout is None
    limited = build(f"{URL}read_timeout_in_seconds: 5", HttpRequester)
    assert limited.timeout == (None, 5)


@given(st.text(min_size=1, max_size=20), st.integers(-(10**20), 10**20))
def test_slice_values_are_sent_unchanged_as_parameters(text, number):
    requester = REQUESTER
    request = requester.request({"stream_partition": {"text": f"x{text}", "number": number}})
    assert request.params == {"text": f"x{text}", "number": str(number)}


REQUESTER = build(
    URL
    + """request_parameters:
  text: "{{ stream_partition.text }}"
  number: "{{ stream_partition.number }}"
""",
    HttpRequester,
)
