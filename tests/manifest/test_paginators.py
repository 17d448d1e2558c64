"""Paginators of a manifest: the parameters of each page, and the end of the pagination."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tap_core.http.request import HTTPRequest
from tap_core.manifest.components.paginators import DefaultPaginator, NoPagination
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import Page
from tests.manifest.pieces import build, make_response


def page(
    size: int = 0, *, kept_size: int | None = None, last: Any = None, body: Any = None, **headers
):
    document = {} if body is None else body
    response = make_response(200, json.dumps(document).encode(), **headers)
    return Page(response, lambda: document, size, size if kept_size is None else kept_size, last)


def paginator(strategy: str, *, option: str = "request_parameter", **config: Any):
    return build(
        f"""
        type: DefaultPaginator
        page_size_option: {{type: RequestOption, inject_into: {option}, field_name: limit}}
        page_token_option: {{type: RequestOption, inject_into: {option}, field_name: page}}
        pagination_strategy: {{{strategy}}}
        """,
        DefaultPaginator,
        **config,
    )


def paginate(declared: Any, *pages: Page, scope: dict[str, Any] | None = None):
    """Return the query parameters of each requested page."""
    pages_state, tokens = declared.start_pagination(), []
    for page_read in pages:
        request = HTTPRequest("http://api")
        pages_state.put(request)
        tokens.append(request.params)
        if not pages_state.advance(page_read, scope or {}):
            break
    return tokens


PAGES = "type: PageIncrement, page_size: 2"
OFFSETS = "type: OffsetIncrement, page_size: '{{ config.size }}'"


@pytest.mark.parametrize(
    ("strategy", "sizes", "tokens"),
    [
        (PAGES, [2, 2, 1, 2], [None, 1, 2]),
        (f"{PAGES}, start_from_page: 1", [2, 2, 0], [None, 2, 3]),
        (f"{PAGES}, start_from_page: 1, inject_on_first_request: true", [2, 0], [1, 2]),
        (f"{PAGES}, inject_on_first_request: true", [2, 1], [0, 1]),
        (OFFSETS, [2, 3, 1], [None, 2, 5]),
        (f"{OFFSETS}, inject_on_first_request: true", [2, 0], [0, 2]),
    ],
)
def test_pagination_ends_after_an_incomplete_page(strategy, sizes, tokens):
    queries = paginate(paginator(strategy, size=2), *map(page, sizes))
    assert [params.get("page") for params in queries] == tokens
    assert {params["limit"] for params in queries} == {2}


@pytest.mark.parametrize("strategy", ["type: PageIncrement", "type: OffsetIncrement"])
def test_pagination_without_a_page_size_ends_after_an_empty_page(strategy):
    declared = build(
        f"type: DefaultPaginator\npagination_strategy: {{{strategy}}}", DefaultPaginator
    )
    assert len(paginate(declared, page(9), page(1), page(0), page(5))) == 3


def test_record_filter_does_not_end_the_pagination():
    """The size of a page is the number of records in the response, before the filter."""
    assert len(paginate(paginator(PAGES), page(2, kept_size=0), page(1))) == 2


def test_page_size_can_be_read_from_the_response():
    strategy = "{type: OffsetIncrement, page_size: \"{{ response['per_page'] }}\"}"
    declared = build(f"type: DefaultPaginator\npagination_strategy: {strategy}", DefaultPaginator)
    body = {"per_page": 3}
    assert len(paginate(declared, page(3, body=body), page(2, body=body), page(3))) == 2


def cursor(value: str, stop: str = "") -> str:
    """Return a CursorPagination strategy; the templates must use single quotes."""
    until = f', stop_condition: "{{{{ {stop} }}}}"' if stop else ""
    return f'type: CursorPagination, page_size: 2, cursor_value: "{{{{ {value} }}}}"{until}'


@pytest.mark.parametrize(
    ("strategy", "pages", "tokens"),
    [
        (
            cursor("response.next"),
            [page(body={"next": "b"}), page(body={"next": 7}), page(body={})],
            [None, "b", 7],
        ),
        (
            cursor("response.get('paging', {}).get('next', {})"),
            [page(body={"paging": {"next": "b"}}), page(body={"paging": {}})],
            [None, "b"],
        ),
        (
            cursor("last_record['id']", stop="last_page_size < page_size"),
            [page(2, last={"id": 5}), page(1, last={"id": 6})],
            [None, 5],
        ),
        (
            cursor("headers['link']['next']['url']", stop="'next' not in headers['link']"),
            [page(Link='<http://api?page=2>; rel="next"'), page()],
            [None, "http://api?page=2"],
        ),
        (cursor("headers['X-Next']"), [page(X_Next="0042"), page(X_Next="0")], [None, "0042"]),
        (
            cursor("stream_partition.id ~ '-' ~ response.n"),
            [page(body={"n": 1}), page(body={"n": 2}), page()],
            [None, "p-1", "p-2"],
        ),
    ],
)
def test_cursor_value_is_read_from_the_response(strategy, pages, tokens):
    queries = paginate(paginator(strategy), *pages, scope={"stream_partition": {"id": "p"}})
    assert [params.get("page") for params in queries] == tokens


@pytest.mark.parametrize(
    ("strategy", "option"),
    [
        (cursor("next_page_token + 1"), "cursor_value"),
        (cursor("response.next", stop="next_page_token == 9"), "stop_condition"),
    ],
)
def test_templates_of_a_cursor_cannot_use_the_token_of_the_requested_page(strategy, option):
    """airbyte-cdk fails with an undeclared variable after the first page."""
    with pytest.raises(ManifestError, match=f"{option}` uses `next_page_token`"):
        paginator(strategy)


def test_next_page_token_is_that_of_the_requested_page():
    declared = paginator(f"{PAGES}, inject_on_first_request: true")
    pages_state = declared.start_pagination()
    assert pages_state.token == {"next_page_token": 0}
    pages_state.advance(page(2), {})
    assert pages_state.token == {"next_page_token": 1}
    assert declared.start_pagination().token == {"next_page_token": 0}
    assert paginator(PAGES).start_pagination().token is None


@pytest.mark.parametrize(
    ("option", "expected"),
    [("body_json", {"page": 1, "limit": 2}), ("body_data", {"page": 1, "limit": 2})],
)
def test_page_token_and_size_can_be_injected_into_the_body(option, expected):
    pages_state = paginator(PAGES, option=option).start_pagination()
    pages_state.advance(page(2), {})
    request = HTTPRequest("http://api", "POST")
    pages_state.put(request)
    assert (request.data, request.as_json) == (expected, option == "body_json")


def test_page_token_can_replace_the_url():
    declared = build(
        """
        type: DefaultPaginator
        page_token_option: {type: RequestPath}
        pagination_strategy: {type: CursorPagination, cursor_value: "{{ response.next }}"}
        """,
        DefaultPaginator,
    )
    pages_state = declared.start_pagination()
    pages_state.advance(page(body={"next": "http://api/x?page=2"}), {})
    request = HTTPRequest("http://api/y?page=1")
    pages_state.put(request)
    assert request.url == "http://api/x?page=2"


def test_no_pagination_requests_one_page():
    pages_state = build("type: NoPagination", NoPagination).start_pagination()
    request = HTTPRequest("http://api")
    pages_state.put(request)
    assert (request, pages_state.token, pages_state.advance(page(9), {})) == (
        HTTPRequest("http://api"),
        None,
        False,
    )


def test_page_size_option_without_a_page_size_is_an_error():
    with pytest.raises(ManifestError, match="no page size to send"):
        paginator("type: PageIncrement")


def test_page_size_must_be_an_integer():
    with pytest.raises(ManifestError, match="'many', and must be an integer"):
        paginate(paginator(OFFSETS, size="many"), page(1))
