"""The response cache: a response is requested once for all streams that need it."""

from __future__ import annotations

import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests

from tap_core.http.response import parse_json
from tap_core.manifest.response_cache import ResponseCache
from tests.http.server import ReceivedRequest, Reply, Server, serving


@pytest.fixture
def server():
    with serving() as running_server:
        running_server.answers_by(
            lambda request: Reply({"path": request.path, "query": request.query, "n": 1.50})
        )
        yield running_server


def prepare_request(server: Server, path: str = "/a", **options: Any) -> requests.PreparedRequest:
    method = options.pop("method", "GET")
    return requests.Request(method, f"{server.url}{path}", **options).prepare()


def fetch(cache: ResponseCache, request: requests.PreparedRequest) -> requests.Response:
    with requests.Session() as session:
        return cache.fetch(
            request, lambda request: session.send(request, timeout=10), lambda _: True
        )


def test_equal_requests_are_sent_once(server):
    cache = ResponseCache()
    first, second, third = (fetch(cache, prepare_request(server)) for _ in range(3))
    assert len(server.requests) == 1
    assert parse_json(first) == parse_json(second) == parse_json(third)
    assert second.headers == first.headers
    assert (second.url, second.status_code, second.reason) == (first.url, 200, first.reason)
    assert second.json() is not third.json(), "each caller may change its records"


@pytest.mark.parametrize(
    "other",
    [
        {"path": "/b"},
        {"params": {"page": 2}},
        {"headers": {"X-Account": "2"}},
        {"method": "POST"},
        {"method": "POST", "json": {"page": 2}},
    ],
)
def test_different_requests_have_separate_responses(server, other):
    """Requests differ by method, URL, headers (such as an account) and body."""
    cache = ResponseCache()
    fetch(cache, prepare_request(server))
    fetch(cache, prepare_request(server, **other))
    assert len(server.requests) == 2


def test_error_response_is_not_cached(server):
    replies = [Reply("no", status=500), Reply({"id": 1})]
    server.answers(*replies)
    cache = ResponseCache()
    assert fetch(cache, prepare_request(server)).status_code == 500
    assert fetch(cache, prepare_request(server)).json() == {"id": 1}
    assert fetch(cache, prepare_request(server)).json() == {"id": 1}
    assert len(server.requests) == 2


def test_threads_with_the_same_request_wait_for_one_response(server):
    barrier = threading.Barrier(5)
    all_waiting = threading.Event()
    cache = ResponseCache()

    def respond_when_all_wait(_: ReceivedRequest) -> Reply:
        all_waiting.wait(60)
        return Reply({"id": 1})

    def fetch_json() -> Any:
        barrier.wait(60)
        return fetch(cache, prepare_request(server)).json()

    server.answers_by(respond_when_all_wait)
    with ThreadPoolExecutor(4) as threads:
        futures = [threads.submit(fetch_json) for _ in range(4)]
        barrier.wait(60)
        all_waiting.set()
        assert [future.result(60) for future in futures] == [{"id": 1}] * 4
    assert len(server.requests) == 1


def test_waiting_thread_sends_the_request_if_the_first_failed(server):
    cache = ResponseCache()

    def fail_to_send(_: requests.PreparedRequest) -> requests.Response:
        raise requests.ConnectionError("gone")

    with pytest.raises(requests.ConnectionError):
        cache.fetch(prepare_request(server), fail_to_send, lambda _: True)
    assert fetch(cache, prepare_request(server)).ok


def test_requests_with_streamed_bodies_are_not_cached(server):
    cache = ResponseCache()
    for _ in range(2):
        fetch(cache, prepare_request(server, method="POST", data=iter([b"1"])))
    assert len(server.requests) == 2


def test_cached_responses_are_in_an_unlinked_private_file(server):
    cache = ResponseCache()
    fetch(cache, prepare_request(server))
    status = os.fstat(cache._file.fileno())
    assert stat.S_IMODE(status.st_mode) == 0o600
    assert status.st_nlink == 0
