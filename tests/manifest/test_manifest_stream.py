"""Declared streams in a sync: requests, records, slices, parents, errors."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tap_core import metrics
from tap_core.exceptions import FatalAPIError
from tests.http.server import ReceivedRequest, Reply, page, serving
from tests.manifest.running import DATE_CURSOR, list_paths, manifest, run, stream

PAGES = """
paginator:
  type: DefaultPaginator
  page_token_option: {type: RequestOption, inject_into: request_parameter, field_name: page}
  pagination_strategy: {type: PageIncrement, page_size: 2}
"""
CHILDREN = """
partition_router:
  type: SubstreamPartitionRouter
  parent_stream_configs:
    - {type: ParentStreamConfig, stream: "#/streams/0", parent_key: id, partition_field: parent}
"""


def test_pages_are_requested_until_one_is_incomplete(tmp_path: Path):
    with serving() as server:
        server.answers(page({"id": 1}, {"id": 2}), page({"id": 3}))
        result = run(manifest(tmp_path, stream("items", "/items", retriever=PAGES)), server)
    assert list_paths(server) == ["/items", "/items?page=1"]
    assert [record["id"] for record in result.records("items")] == [1, 2, 3]


def test_only_top_level_nulls_of_a_record_are_removed(tmp_path: Path):
    with serving() as server:
        server.answers(page({"id": 1, "a": None, "b": {"c": None}, "d": [None]}))
        result = run(manifest(tmp_path, stream("items", "/items")), server)
    assert result.records("items") == [{"id": 1, "b": {"c": None}, "d": [None]}]


def test_parameters_of_a_stream_are_available_in_its_templates(tmp_path: Path):
    body = 'request_headers: {X-Kind: "{{ parameters.kind }}"}'
    declared = stream("items", "/{{ parameters.kind }}s", body, options="$parameters: {kind: cat}")
    with serving() as server:
        server.answers(page({"id": 1}))
        run(manifest(tmp_path, declared), server)
    assert list_paths(server) == ["/cats"]
    assert server.requests[0].headers["X-Kind"] == "cat"


def test_templates_read_the_partition_and_the_cursor_part_of_a_slice(tmp_path: Path):
    """As in airbyte-cdk; the partition comes first. Before, both parts were empty."""
    router = "partition_router: {type: ListPartitionRouter, cursor_field: kind, values: [a]}"
    text = "{{ stream_slice.partition }}|{{ stream_slice.cursor_slice.keys() | list }}|"
    options = f"""{DATE_CURSOR}
    transformations:
      - type: AddFields
        fields:
          - type: AddedFieldDefinition
            path: [z]
            value: "{text}{{{{ stream_slice._partition.kind }}}}|{{{{ stream_slice | list }}}}"
    """.replace("\n    ", "\n")
    with serving() as server:
        server.answers(page({"id": 1, "at": "2024-01-09"}))
        result = run(
            manifest(tmp_path, stream("items", "/items", retriever=router, options=options)), server
        )
    [record] = result.records("items")
    partition, interval = "{'kind': 'a'}", ["start_time", "end_time"]
    assert record["z"] == f"{partition}|{interval}|a|{['kind', *interval]}"


def test_paginator_reads_the_response_before_transformations(tmp_path: Path):
    retriever = """
    paginator:
      type: DefaultPaginator
      page_token_option: {type: RequestOption, inject_into: request_parameter, field_name: after}
      pagination_strategy:
        type: CursorPagination
        cursor_value: "{{ response.data[-1].key }}"
        stop_condition: "{{ last_page_size == 0 }}"
    """
    options = "transformations: [{type: RemoveFields, field_pointers: [[key]]}]"
    with serving() as server:
        server.answers(page({"id": 1, "key": "k1"}), page({"id": 2, "key": "k2"}), page())
        result = run(
            manifest(tmp_path, stream("items", "/i", retriever=retriever, options=options)), server
        )
    assert list_paths(server) == ["/i", "/i?after=k1", "/i?after=k2"]
    assert result.records("items") == [{"id": 1}, {"id": 2}]


class TestSlices:
    def test_parent_is_requested_once_for_several_child_streams(self, tmp_path: Path):
        def answer(request: ReceivedRequest) -> Reply:
            is_parent = request.path == "/items"
            return page({"id": 1}, {"id": 2}) if is_parent else page({"of": request.path})

        children = stream("sub", "/sub/{{ stream_partition.parent }}", retriever=CHILDREN)
        more_children = stream("more", "/more/{{ stream_slice['parent'] }}", retriever=CHILDREN)
        with serving() as server:
            server.answers_by(answer)
            result = run(
                manifest(tmp_path, stream("items", "/items"), children, more_children), server
            )
        assert sorted(list_paths(server)) == ["/items", "/more/1", "/more/2", "/sub/1", "/sub/2"]
        assert result.records("sub") == [{"of": "/sub/1"}, {"of": "/sub/2"}]
        assert result.records("items") == [{"id": 1}, {"id": 2}]

    def test_several_routers_yield_all_combinations(self, tmp_path: Path):
        retriever = """
        partition_router:
          - type: ListPartitionRouter
            cursor_field: a
            values: ["1", "2"]
            request_option: {type: RequestOption, inject_into: request_parameter, field_name: a}
          - {type: ListPartitionRouter, cursor_field: b, values: [x, y]}
        """
        declared = stream("items", "/{{ stream_partition.b }}", retriever=retriever)
        with serving() as server:
            server.answers(page())
            run(manifest(tmp_path, declared), server)
        assert list_paths(server) == ["/x?a=1", "/y?a=1", "/x?a=2", "/y?a=2"]

    def test_slices_without_a_cursor_are_not_in_the_state(self, tmp_path: Path):
        with serving() as server:
            server.answers(page({"id": 1}))
            result = run(
                manifest(
                    tmp_path,
                    stream("items", "/items"),
                    stream("sub", "/sub", retriever=CHILDREN),
                ),
                server,
            )
        assert result.state["bookmarks"] == {"items": {}, "sub": {}}

    def test_grandchild_has_the_slice_of_its_parent(self, tmp_path: Path):
        grand = CHILDREN.replace("/streams/0", "/streams/1").replace("field: parent", "field: sub")
        with serving() as server:
            server.answers(page({"id": 7}))
            run(
                manifest(
                    tmp_path,
                    stream("items", "/items"),
                    stream("sub", "/sub/{{ stream_partition.parent }}", retriever=CHILDREN),
                    stream(
                        "zz",
                        "/{{ stream_slice.parent_slice.parent }}/{{ stream_slice.sub }}",
                        retriever=grand,
                    ),
                ),
                server,
            )
        assert list_paths(server) == ["/items", "/sub/7", "/7/7"]


class TestErrors:
    def test_ignored_response_ends_the_slice_without_records(self, tmp_path: Path):
        body = """
        error_handler:
          type: DefaultErrorHandler
          response_filters: [{type: HttpResponseFilter, http_codes: [404], action: IGNORE}]
        """
        with serving() as server:
            server.answers(Reply({"data": [{"id": 1}]}, status=404))
            result = run(manifest(tmp_path, stream("items", "/items", body)), server)
        assert result.records("items") == []
        assert len(server.requests) == 1

    def test_temporary_failure_is_retried_by_the_error_handler(self, tmp_path: Path):
        body = "error_handler: {type: DefaultErrorHandler, max_retries: 2}"
        with serving() as server:
            server.answers(Reply(status=503), Reply(status=503), page({"id": 1}))
            result = run(manifest(tmp_path, stream("items", "/items", body)), server)
        assert result.records("items") == [{"id": 1}]
        with serving() as server:
            server.answers(Reply(status=503))
            result = run(manifest(tmp_path, stream("items", "/items", body)), server, fails=True)
        assert len(server.requests) == 3
        assert "503" in str(result.error)

    @pytest.mark.parametrize(("status", "kind"), [(401, "config_error"), (400, "system_error")])
    def test_refused_request_is_not_retried_and_has_a_failure_type(
        self, tmp_path: Path, status: int, kind: str
    ):
        with serving() as server:
            server.answers(Reply({"message": "no"}, status=status))
            result = run(manifest(tmp_path, stream("items", "/items")), server, fails=True)
        assert isinstance(result.error, FatalAPIError)
        assert result.error.failure_type == kind
        assert len(server.requests) == 1

    def test_error_message_of_a_filter_is_shown_without_secrets(self, tmp_path: Path):
        body = """
        authenticator:
          type: ApiKeyAuthenticator
          api_token: "{{ config['api_key'] }}"
          inject_into: {type: RequestOption, inject_into: request_parameter, field_name: key}
        error_handler:
          type: DefaultErrorHandler
          response_filters:
            - type: HttpResponseFilter
              predicate: "{{ response.code == 7 }}"
              action: FAIL
              error_message: "Out of cats: {{ response.why }}"
        """
        with serving() as server:
            server.answers(Reply({"code": 7, "why": "holiday s3cr3t-key"}))
            path = manifest(tmp_path, stream("items", "/items", body))
            result = run(path, server, config={"api_key": "s3cr3t-key"}, fails=True)
        assert "Out of cats: holiday" in str(result.error)
        assert "s3cr3t-key" not in str(result.error)
        assert server.requests[0].query["key"] == ["s3cr3t-key"]


def test_children_in_the_parent_record_are_not_requested(tmp_path: Path):
    """With ``lazy_read_pointer`` a parent record contains the first page of its children."""
    router = CHILDREN.replace(
        "partition_field: parent", "partition_field: parent, lazy_read_pointer: [kids]"
    )
    with serving() as server:
        server.answers(page({"id": 1, "kids": {"data": [{"id": 7}, {"id": 8}]}}))
        items = stream("items", "/items")
        result = run(manifest(tmp_path, items, stream("sub", "/sub", retriever=router)), server)
    assert list_paths(server) == ["/items"]
    assert result.records("sub") == [{"id": 7}, {"id": 8}]


def test_duplicate_slice_with_a_bookmark_is_read_once(tmp_path: Path):
    cursor = """
    incremental_sync:
      type: DatetimeBasedCursor
      cursor_field: at
      datetime_format: "%Y-%m-%d"
      start_datetime: "2024-01-01"
      end_datetime: "2024-01-25"
    """
    declared = stream("sub", "/sub", retriever=CHILDREN, options=cursor)
    with serving() as server:
        server.answers(page({"id": 1, "at": "2024-01-02"}, {"id": 1, "at": "2024-01-03"}))
        run(manifest(tmp_path, stream("items", "/items"), declared), server)
    assert list_paths(server) == ["/items", "/sub"]


@pytest.mark.parametrize(
    ("outer", "sub"),
    [
        ("type: GroupingPartitionRouter, group_size: 2, underlying_partition_router: {INNER}", 1),
        (
            """type: UnionPartitionRouter, partition_field: parent, partition_routers:
      [{INNER}, {type: ListPartitionRouter, cursor_field: parent, values: ['x']}]""",
            3,
        ),
    ],
)
def test_parents_within_a_router_are_requested_once(tmp_path: Path, outer: str, sub: int):
    inner = """type: SubstreamPartitionRouter, parent_stream_configs: [{type: ParentStreamConfig,
      stream: "#/streams/0", parent_key: id, partition_field: parent}]"""
    router = f"partition_router: {{{outer.replace('INNER', inner)}}}"
    items, children = stream("items", "/items"), stream("sub", "/sub", retriever=router)
    with serving() as server:
        server.answers(page({"id": 1}, {"id": 2}))
        run(manifest(tmp_path, items, children), server)
    assert list_paths(server) == ["/items", *["/sub"] * sub]


def test_reset_pagination_restarts_a_limited_number_of_times(tmp_path: Path):
    body = """
    error_handler:
      type: DefaultErrorHandler
      max_retries: 1
      response_filters: [{type: HttpResponseFilter, http_codes: [410], action: RESET_PAGINATION}]
    """
    declared = stream("items", "/i", body, retriever=PAGES)
    with serving() as server:
        pages = [page({"id": 1}, {"id": 2}), Reply(status=410)]
        server.answers(*pages, page({"id": 1}, {"id": 2}), page({"id": 3}))
        result = run(manifest(tmp_path, declared), server)
    assert list_paths(server) == ["/i", "/i?page=1", "/i", "/i?page=1"]
    assert [record["id"] for record in result.records("items")] == [1, 2, 1, 2, 3]
    with serving() as server:
        server.answers(Reply(status=410))
        result = run(manifest(tmp_path, declared), server, fails=True)
    assert list_paths(server) == ["/i", "/i"]
    assert "410" in str(result.error)


@pytest.mark.parametrize(
    ("bookmark", "start"),
    [(None, "2024-01-05"), ("2024-02-01", "2024-02-01"), ("2023-01-01", "2024-01-05")],
)
def test_intermediate_states_have_the_start_of_the_manifest(
    tmp_path: Path, bookmark: str | None, start: str
):
    """A setting ``start_date`` that the manifest does not use is ignored."""
    cursor = """
    incremental_sync:
      type: DatetimeBasedCursor
      cursor_field: at
      start_datetime: "2024-01-05"
      datetime_format: "%Y-%m-%d"
    """
    path = manifest(tmp_path, stream("items", "/items", options=cursor))
    known = {"replication_key": "at", "replication_key_value": bookmark}
    state = {"bookmarks": {"items": known}} if bookmark else None
    with serving() as server:
        server.answers(Reply(status=404))
        failed = run(path, server, state=state, config={"start_date": "2020-01-01"}, fails=True)
    entry = failed.state["bookmarks"]["items"]
    assert entry["starting_replication_value"] == start


def test_login_has_the_error_handler_of_its_requester(tmp_path: Path):
    """The filters of the stream do not match the response to a login."""
    body = """
    error_handler:
      type: DefaultErrorHandler
      response_filters: [{type: HttpResponseFilter, http_codes: [503], action: IGNORE}]
    authenticator:
      type: SessionTokenAuthenticator
      session_token_path: [token]
      request_authentication: {type: Bearer}
      login_requester:
        type: HttpRequester
        url_base: "{{ config['url'] }}/login"
        error_handler:
          type: DefaultErrorHandler
          response_filters:
            - {type: HttpResponseFilter, predicate: "{{ response.busy }}", action: RETRY}
    """
    path = manifest(tmp_path, stream("items", "/items", body))
    with serving() as server:
        server.answers(Reply({"busy": True}), Reply({"token": "t"}), page({"id": 1}))
        assert run(path, server).records("items") == [{"id": 1}]
        assert list_paths(server) == ["/login", "/login", "/items"]
    with serving() as server:
        server.answers(Reply(status=503), Reply({"token": "t"}), page({"id": 1}))
        assert run(path, server).records("items") == [{"id": 1}]


def test_count_of_requests_is_logged_each_minute_across_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    router = "partition_router: {type: ListPartitionRouter, cursor_field: n, values: [a, b, c]}"
    with serving() as server:
        monkeypatch.setattr("tap_core.metrics.time", lambda: 40.0 * len(server.requests))
        server.answers_by(lambda _: page())
        run(
            manifest(tmp_path, stream("items", "/{{ stream_partition.n }}", retriever=router)),
            server,
        )
    points = [record.args[0] for record in caplog.records if record.msg == "METRIC: %s"]
    counts = [point.value for point in points if point.metric is metrics.Metric.HTTP_REQUEST_COUNT]
    assert counts == [2, 1]
