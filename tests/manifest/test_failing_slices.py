"""A failing slice: the other slices are still read, and the stream fails at the end."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tap_core.exceptions import FatalAPIError, RetriableAPIError
from tap_core.manifest.tap import make_tap_class
from tap_core.protocols.singer.writer import SingerWriter
from tests.http.server import ReceivedRequest, Reply, Server, page, serving
from tests.manifest.running import DATE_CURSOR, manifest, run, stream

SLICES = """
partition_router: {type: ListPartitionRouter, cursor_field: kind, values: [a, b, c]}
"""
CURSOR = (
    DATE_CURSOR
    + """\
  end_datetime: "2024-01-25"
  start_time_option: {type: RequestOption, inject_into: request_parameter, field_name: since}
"""
)
TWO_THREADS = "concurrency_level: {type: ConcurrencyLevel, default_concurrency: 2}"
ONE_THREAD = "concurrency_level: {type: ConcurrencyLevel, default_concurrency: 1}"


def write_slices_manifest(folder: Path, concurrency: str, options: str = CURSOR) -> Path:
    items = stream("items", "/{{ stream_slice.kind }}", retriever=SLICES, options=options)
    return manifest(folder, items, tail=concurrency)


def serve_slices(server: Server, status: int, *failing_kinds: str) -> None:
    """Let the server fail the slices of these kinds, and return a record for the others."""

    def respond(request: ReceivedRequest) -> Reply:
        kind = request.path.strip("/")
        return Reply("", status) if kind in failing_kinds else page({"id": 1, "at": "2024-01-20"})

    server.answers_by(respond)


def list_kinds_with_bookmark(state: dict[str, Any]) -> list[str]:
    """Return the kinds of the slices that have a bookmark."""
    entries = state["bookmarks"]["items"].get("partitions", [])
    return sorted(entry["context"]["kind"] for entry in entries if "replication_key_value" in entry)


def test_wait_for_the_api_budget_ends_when_the_output_fails(tmp_path: Path):
    budget = """
api_budget:
  type: HTTPAPIBudget
  policies: [{type: FixedWindowCallRatePolicy, period: PT5M, call_limit: 1, matchers: []}]
"""

    def write(block: bytes) -> None:
        if b"RECORD" in block:
            raise BrokenPipeError

    with serving() as server:
        serve_slices(server, 404)
        path = write_slices_manifest(tmp_path, TWO_THREADS + budget)
        tap = make_tap_class(path)(config={"url": server.url})
        tap.protocol_writer = SingerWriter(write)
        start = time.monotonic()
        with pytest.raises(BrokenPipeError):
            tap.sync_all()
        assert time.monotonic() - start < 150
        assert len(server.requests) == 1


@pytest.mark.parametrize("concurrency", [ONE_THREAD, TWO_THREADS])
@pytest.mark.parametrize(
    ("status", "error_class"), [(404, FatalAPIError), (503, RetriableAPIError)]
)
def test_other_slices_are_read_and_keep_their_bookmarks(
    tmp_path: Path, concurrency: str, status: int, error_class: type[Exception]
):
    path = write_slices_manifest(tmp_path, concurrency)
    with serving() as server:
        serve_slices(server, status, "b")
        result = run(path, server, fails=True)
        first_kinds = list_kinds_with_bookmark(result.state)
        server.requests.clear()
        serve_slices(server, status)
        second_result = run(path, server, state=result.state)
    assert isinstance(result.error, error_class)
    assert len(result.records("items")) == 2
    assert first_kinds == ["a", "c"]
    since = {request.path: request.query["since"] for request in server.requests}
    assert since == {"/a": ["2024-01-20"], "/b": ["2024-01-01"], "/c": ["2024-01-20"]}
    assert list_kinds_with_bookmark(second_result.state) == ["a", "b", "c"]


def test_first_of_several_failures_is_raised(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    with serving() as server:
        serve_slices(server, 404, "a", "c")
        result = run(write_slices_manifest(tmp_path, ONE_THREAD), server, fails=True)
    assert f"{server.url}/a?" in str(result.error)
    assert caplog.text.count("A context of 'items' failed; the other contexts are still read") == 2
    assert list_kinds_with_bookmark(result.state) == ["b"]


@pytest.mark.parametrize("status", [401, 403])
def test_other_slices_are_not_read_with_wrong_credentials(tmp_path: Path, status: int):
    with serving() as server:
        serve_slices(server, status, "a", "b", "c")
        result = run(write_slices_manifest(tmp_path, ONE_THREAD), server, fails=True)
    assert isinstance(result.error, FatalAPIError)
    assert {request.path for request in server.requests} == {"/a"}


def test_global_cursor_does_not_advance_if_a_slice_failed(tmp_path: Path):
    cursor = CURSOR + "  global_substream_cursor: true\n"
    path = write_slices_manifest(tmp_path, ONE_THREAD, cursor)
    with serving() as server:
        serve_slices(server, 404, "b")
        result = run(path, server, fails=True)
        server.requests.clear()
        serve_slices(server, 404)
        run(path, server, state=result.state)
    assert {request.query["since"][0] for request in server.requests} == {"2024-01-01"}


PARENTS_RETRIEVER = """
paginator:
  type: DefaultPaginator
  pagination_strategy: {type: CursorPagination, cursor_value: "{{ response.next }}"}
  page_token_option: {type: RequestOption, inject_into: request_parameter, field_name: page}
"""
CHILDREN_RETRIEVER = """
partition_router:
  type: SubstreamPartitionRouter
  parent_stream_configs:
  - type: ParentStreamConfig
    parent_key: id
    partition_field: parent
    stream: {$ref: "#/streams/1"}
"""


@pytest.mark.parametrize("concurrency", [ONE_THREAD, TWO_THREADS])
def test_children_of_parents_before_a_failed_page_are_read(tmp_path: Path, concurrency: str):
    """This does not depend on the number of threads."""

    def respond(request: ReceivedRequest) -> Reply:
        if request.path == "/parents":
            rows = [{"id": number} for number in range(1, 6)]
            return Reply("", 404) if request.query else page(*rows, next="second")
        return page({"id": int(request.path.rpartition("/")[2])})

    children = stream(
        "children", "/children/{{ stream_slice.parent }}", retriever=CHILDREN_RETRIEVER
    )
    path = manifest(
        tmp_path,
        children,
        stream("parents", "/parents", retriever=PARENTS_RETRIEVER),
        tail=concurrency,
    )
    with serving() as server:
        server.answers_by(respond)
        result = run(path, server, fails=True)
    assert isinstance(result.error, FatalAPIError)
    assert sorted(record["id"] for record in result.records("children")) == [1, 2, 3, 4, 5]
