"""Paginators against a real server, their public state, and the detection of loops."""

from __future__ import annotations

import json
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import ParseResult, parse_qs, parse_qsl, urlparse

import pytest
import requests
from hypothesis import given, settings
from hypothesis import strategies as st

from tap_core import pagination as module
from tap_core.exceptions import SingerSDKPendingDeprecationWarning
from tap_core.pagination import (
    BaseAPIPaginator,
    BaseHATEOASPaginator,
    BaseOffsetPaginator,
    BasePageNumberPaginator,
    HeaderLinkPaginator,
    JSONPathPaginator,
    LegacyStreamPaginator,
    OffsetPaginator,
    PageNumberPaginator,
    SimpleHeaderPaginator,
    SinglePagePaginator,
    first,
)
from tests.pagination.peer_pages import page
from tests.server_thread import serve_in_thread

ROWS = [{"id": number} for number in range(1, 12)]
SIZE = 4
HOLE = range(4, 8)  # rows that the paths below /holes leave out: their second page is empty


class Api(BaseHTTPRequestHandler):
    """Returns rows by offset, with the next page as link, header, cursor and total."""

    def do_GET(self):
        url = urlparse(self.path)
        query = {name: int(value) for name, value in parse_qsl(url.query)}
        start = query.get("offset", (query.get("page", 1) - 1) * SIZE)
        rows = ROWS[start : start + SIZE]
        if url.path.startswith("/holes"):
            rows = [row for row in rows if row["id"] - 1 not in HOLE]
        self.send_response(200)
        body = {"data": rows, "total": len(ROWS), "next": None, "cursor": None}
        if start + SIZE < len(ROWS):
            link = f"http://{self.headers['Host']}{url.path}?offset={start + SIZE}"
            self.send_header("Link", f'<{link}>; rel="next"')
            self.send_header("X-Next-Page", str(start // SIZE + 2))
            body |= {"next": link, "cursor": {"after": start + SIZE}}
        content = json.dumps(body).encode()
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format, *args):
        """Log nothing."""


@pytest.fixture(scope="module")
def api():
    with serve_in_thread(ThreadingHTTPServer(("127.0.0.1", 0), Api)) as server:
        yield f"http://127.0.0.1:{server.server_port}"


class LinkInBody(BaseHATEOASPaginator):
    def get_next_url(self, response):
        return response.json()["next"]


class UntilTotal(OffsetPaginator):
    def has_more(self, response):
        return self.current_value + self.page_size < response.json()["total"]


class ContinuesAfterEmptyPage(PageNumberPaginator):
    def continue_if_empty(self, response):
        return (self.current_value - 1) * SIZE < response.json()["total"]


class Stream:
    def get_next_page_token(self, response, previous_token):
        return response.headers.get("X-Next-Page")


def params(token):
    """Return the query parameters for a token, as authors do in get_url_params."""
    if isinstance(token, ParseResult):
        return dict(parse_qsl(token.query))
    return {} if token is None else {"page": token}


def walk(url, paginator, params=params):
    """Fetch all pages as a REST stream does, and return their rows."""
    rows = []
    with requests.Session() as session:
        while not paginator.finished:
            response = session.get(url, params=params(paginator.current_value), timeout=60)
            page = response.json()["data"]
            rows += page
            if not page and not paginator.continue_if_empty(response):
                break
            paginator.advance(response)
    return rows


WALKS = {
    "link in a header": (HeaderLinkPaginator, params),
    "link in the body": (LinkInBody, params),
    "token in the body": (
        lambda: JSONPathPaginator("$.cursor.after"),
        lambda token: {"offset": token},
    ),
    "number in a header": (lambda: SimpleHeaderPaginator("x-next-page"), params),
    "offset": (lambda: UntilTotal(0, SIZE), lambda token: {"offset": token}),
    "offset to an empty page": (lambda: OffsetPaginator(0, SIZE), lambda token: {"offset": token}),
    "page number to an empty page": (lambda: PageNumberPaginator(1), params),
    "the stream itself": (lambda: LegacyStreamPaginator(Stream()), params),
}


@pytest.mark.parametrize("name", WALKS)
def test_each_row_is_read_once_and_in_order(api, name):
    make, to_params = WALKS[name]
    paginator = make()
    assert walk(f"{api}/rows", paginator, to_params) == ROWS
    assert paginator.count == 3
    assert paginator.finished is ("empty page" not in name)


def test_single_page_paginator_reads_one_page(api):
    paginator = SinglePagePaginator()
    assert walk(f"{api}/rows", paginator) == ROWS[:SIZE]
    assert (paginator.count, paginator.finished, paginator.current_value) == (1, True, None)
    assert paginator.get_next(page({})) is None


def test_empty_page_ends_the_pages_unless_continue_if_empty(api):
    assert walk(f"{api}/holes", PageNumberPaginator(1)) == ROWS[:4]
    assert walk(f"{api}/holes", ContinuesAfterEmptyPage(1)) == ROWS[:4] + ROWS[8:]


# The public state of a paginator


def test_paginator_shows_value_count_and_finished():
    paginator = JSONPathPaginator("$.next")
    assert (paginator.current_value, paginator.count, paginator.finished) == (None, 0, False)
    assert not paginator.continue_if_empty(page({}))
    assert paginator.has_more(page({}))
    paginator.advance(page({"next": "p2"}))
    assert (paginator.current_value, paginator.count, paginator.finished) == ("p2", 1, False)
    assert str(paginator) == repr(paginator) == "JSONPathPaginator<p2>"
    paginator.advance(page({}))
    assert (paginator.current_value, paginator.count, paginator.finished) == ("p2", 2, True)


def test_token_of_a_link_header_is_a_parsed_url():
    paginator = HeaderLinkPaginator()
    paginator.advance(page({}, link='<https://api.test/x?page=2>; rel="next"'))
    assert paginator.current_value.netloc == "api.test"
    assert parse_qs(paginator.current_value.query) == {"page": ["2"]}


@given(st.sampled_from(["", 0, None, [], {}, False]))
def test_falsy_token_ends_the_pagination(token):
    paginator = JSONPathPaginator("$.next")
    paginator.advance(page({"next": token}))
    assert paginator.finished


def test_get_next_is_not_called_if_has_more_is_false():
    class WithoutMore(BaseAPIPaginator):
        def has_more(self, response):
            return False

        def get_next(self, response):
            raise AssertionError

    paginator = WithoutMore("start")
    paginator.advance(page({}))
    assert (paginator.finished, paginator.current_value) == (True, "start")


@settings(deadline=None)
@given(st.integers(-5, 5), st.integers(1, 100), st.integers(1, 9))
def test_page_numbers_and_offsets_grow_by_their_step(start, size, pages):
    by_one, by_size = PageNumberPaginator(start), OffsetPaginator(start, size)
    values = []
    for _ in range(pages):
        values.append((by_one.current_value, by_size.current_value))
        by_one.advance(page({}))
        by_size.advance(page({}))
        if by_one.finished or by_size.finished:  # the step to zero is a falsy token
            break
    assert values == [(start + n, start + n * size) for n in range(len(values))]
    assert len(values) == pages or 0 in (start + len(values), start + len(values) * size)


# Loops


class FixedToken(BaseAPIPaginator):
    """Always returns the start value as next token."""

    def get_next(self, response):
        return self._value


SECRET = "s3cr3t"
LINK = urlparse(f"https://user:{SECRET}@api.test/{SECRET}?page=2&key={SECRET}#{SECRET}")


@pytest.mark.parametrize(
    "token, message",
    [
        (7, "the token, int 7, is"),
        (2.5, "the token, float 2.5, is"),
        ("12", "the token, str '12', is"),
        ("12345678901", "the token, str of 11 characters, is"),
        (SECRET, "the token, str of 6 characters, is"),
        ({"cursor": SECRET}, "the token, dict, is"),
        (LINK, "the token, a link to api.test (ParseResult), is"),
        (urlparse(f"/x?key={SECRET}"), "the token, a link to the same host (ParseResult), is"),
    ],
)
def test_repeated_token_is_an_error_without_secrets(token, message):
    paginator = FixedToken(token)
    with pytest.raises(RuntimeError, match=r"^Loop detected in pagination\. Page 1 ") as caught:
        paginator.advance(page({}))
    assert message in str(caught.value)
    assert "FixedToken" in str(caught.value)
    assert SECRET not in str(caught.value)
    assert "12345678901" not in str(caught.value)


def test_loop_is_detected_at_the_page_that_repeats_its_token():
    paginator = JSONPathPaginator("$.next")
    for token in ("a", "b", "a"):
        paginator.advance(page({"next": token}))
    with pytest.raises(RuntimeError, match="Page 4 asks for itself"):
        paginator.advance(page({"next": "a"}))
    assert not paginator.finished


# Old names and helpers


@pytest.mark.parametrize(
    "old, new, arguments",
    [
        (BasePageNumberPaginator, PageNumberPaginator, (1,)),
        (BaseOffsetPaginator, OffsetPaginator, (0, 10)),
    ],
)
def test_old_paginator_name_works_with_a_deprecation_warning(old, new, arguments):
    expected_warning = pytest.warns(
        SingerSDKPendingDeprecationWarning, match=f"Use {new.__name__} instead"
    )
    with expected_warning as caught:
        paginator = old(*arguments)
    assert isinstance(paginator, new)
    assert [warning.filename for warning in caught] == [__file__]
    with pytest.warns(SingerSDKPendingDeprecationWarning):
        derived = type("Derived", (old,), {})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert derived(*arguments).current_value == arguments[0]


def test_first_returns_the_first_item_or_raises_stop_iteration():
    assert first("ABC") == "A"
    assert first(number for number in (1, 2)) == 1
    with pytest.raises(StopIteration):
        first([])


def test_abstract_paginators_cannot_be_instantiated():
    for unfinished in (BaseAPIPaginator, BaseHATEOASPaginator):
        with pytest.raises(TypeError, match="abstract"):
            unfinished(None)
    assert set(module.__all__) <= set(vars(module))
