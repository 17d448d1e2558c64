"""Iteration over the pages of a stream until its paginator ends."""

from __future__ import annotations

import logging

import pytest

from tap_core.http.page_iteration import iterate_records
from tap_core.pagination import BaseHATEOASPaginator, JSONPathPaginator, PageNumberPaginator
from tap_core.streams import RESTStream
from tests.http.server import Reply, page


def test_next_page_token_is_read_from_the_body(source):
    source.server.answers(page({"id": 1}, next="b"), page({"id": 2}, next="c"), page({"id": 3}))
    assert [record["id"] for record in source.records()] == [1, 2, 3]
    assert [request.query for request in source.server.requests] == [
        {},
        {"page": ["b"]},
        {"page": ["c"]},
    ]


@pytest.mark.parametrize("token", ["b", 7, 1.5, {"after": [3]}])
def test_changed_records_do_not_change_the_next_page_token(source, token):
    class Walk(JSONPathPaginator):
        tokens: list[object] = []

        def get_next(self, response):
            self.tokens.append(super().get_next(response))
            return self.tokens[-1]

    def post_process(self, row, context=None):
        row["next"].clear()
        return {"id": row["id"]}

    walk = Walk("$.data[0].next[0]")
    source.server.answers(page({"id": 1, "next": [token]}), page())
    members = {
        "get_new_paginator": lambda self: walk,
        "get_url_params": lambda self, context, token: {"page": str(token)},
        "post_process": post_process,
    }
    for path in ("$.data[0].next[0]", "$.another"):
        stream = source.stream(next_page_token_jsonpath=path, **members)
        for record in stream.get_records(None):
            stream.post_process(record)
        assert walk.tokens == [token]
        assert type(walk.tokens.pop()) is type(token)
        walk = Walk("$.data[0].next[0]")
        source.server.answers(page({"id": 1, "next": [token]}), page())


def test_next_page_token_is_read_from_a_header_by_default(source):
    source.server.answers(Reply({"data": [{"id": 1}]}, headers={"X-Next-Page": "2"}), page())
    assert len(source.records(next_page_token_jsonpath=None)) == 1
    assert source.server.requests[1].query == {"page": ["2"]}


def test_empty_page_ends_the_pagination(source, caplog):
    caplog.set_level(logging.INFO)
    source.server.answers(page({"id": 1}, next="b"), page(next="c"), page({"id": 3}))
    assert len(source.records()) == 1
    assert "Pagination stopped after 1 pages because no records were found" in caplog.text


def test_paginator_may_continue_after_an_empty_page(source):
    class Patient(PageNumberPaginator):
        def continue_if_empty(self, response):
            return True

        def has_more(self, response):
            return self.count < 3

    source.server.answers(page({"id": 1}), page(), page({"id": 3}))
    assert len(source.records(get_new_paginator=lambda self: Patient(1))) == 2
    assert [request.query["page"] for request in source.server.requests] == [["1"], ["2"], ["3"]]


def test_stream_without_a_paginator_requests_one_page(source):
    source.server.answers(page({"id": 1}, next="b"))
    assert len(source.records(get_new_paginator=lambda self: None)) == 1
    assert len(source.server.requests) == 1


def test_hateoas_link_is_followed(source):
    class Links(BaseHATEOASPaginator):
        def get_next_url(self, response):
            return response.json().get("link")

    def follow(self, *, page):
        request = RESTStream.get_http_request(self, page=page)
        if page.next_page_token:
            request.url = page.next_page_token.geturl()
            request.params = {}
        return request

    source.server.answers(page({"id": 1}, link=f"{source.server.url}/more?at=7"), page({"id": 2}))
    assert len(source.records(get_new_paginator=lambda self: Links(), get_http_request=follow)) == 2
    assert (source.server.requests[1].path, source.server.requests[1].query) == (
        "/more",
        {"at": ["7"]},
    )


def test_repeated_page_token_is_a_loop_error(source):
    source.server.answers(page({"id": 1}, next="b"))
    with pytest.raises(RuntimeError, match="Loop detected in pagination"):
        source.records()
    assert len(source.server.requests) == 2


def test_alternating_page_tokens_are_a_loop_error(source):
    def script(request):
        return page({"id": 1}, next="a" if request.query == {"page": ["b"]} else "b")

    source.server.answers_by(script)
    with pytest.raises(RuntimeError, match="Loop detected in pagination"):
        source.records()
    assert len(source.server.requests) < 10


def test_same_request_may_be_repeated_if_its_page_changes(source):
    numbers = iter(range(100))

    class Again(PageNumberPaginator):
        def has_more(self, response):
            return self.count < 6

    def script(request):
        return page({"id": next(numbers)})

    source.server.answers_by(script)
    same = {
        "get_new_paginator": lambda self: Again(1),
        "get_url_params": lambda self, context, token: {},
        "prepare_request_payload": lambda self, context, token: {"q": 1},
    }
    assert len(source.records(**same)) == 6


def test_page_iteration_accepts_responses_without_a_request():
    class Fake:
        request = None
        content = b"x"

    class Walk(PageNumberPaginator):
        def has_more(self, response):
            return self.count < 5

    assert list(iterate_records(Walk(1), Fake, lambda _: [1], print)) == [1] * 5


def test_requests_with_iterator_bodies_are_not_a_loop(source):
    class Again(PageNumberPaginator):
        def has_more(self, response):
            return self.count < 4

    source.server.answers(page({"id": 1}))
    bodies = []

    def payload(self, context, token):
        bodies.append(iter([b"abc"]))
        return bodies[-1]

    records = source.records(
        get_new_paginator=lambda self: Again(1),
        get_url_params=lambda self, context, token: {},
        prepare_request_payload=payload,
        payload_as_json=False,
        http_headers={"Transfer-Encoding": ""},
        http_method="GET",
    )
    assert len(records) == 4
