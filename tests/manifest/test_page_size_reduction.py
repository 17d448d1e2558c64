"""Page size reduction: sizes, waits, limits, and invalid configurations."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tap_core.exceptions import SyncError
from tap_core.http.fail_fast import fail_fast
from tap_core.manifest.components.page_size_reduction import PageSizeReduction, PageSizeState
from tap_core.manifest.components.retrievers import SimpleRetriever
from tap_core.manifest.errors import ManifestError
from tests.http.server import ReceivedRequest, Reply, page, serving
from tests.manifest.pieces import build
from tests.manifest.running import list_paths, manifest, run, stream

ERROR = SyncError("status 502")


def test_page_size_is_reduced_to_the_minimum_with_growing_waits():
    sizes = PageSizeState(PageSizeReduction(minimum_page_size=2, retries_at_minimum_page_size=1), 9)
    assert [(sizes.reduce(ERROR), sizes.size) for _ in range(3)] == [(0.5, 4), (1.0, 2), (0.5, 2)]
    with pytest.raises(SyncError, match=r"The API rejects a page of 2 records.* status 502"):
        sizes.reduce(ERROR)
    sizes.record_success()
    assert (sizes.reduce(ERROR), sizes.size) == (0.5, 2)


def test_consecutive_reductions_are_limited_and_reported():
    reduction = PageSizeReduction(
        max_attempts=1, failure_message="Select less.", reset_policy="AFTER_SUCCESSFUL_PAGE"
    )
    sizes = PageSizeState(reduction, 100)
    for _ in range(2):
        assert (sizes.reduce(ERROR), sizes.size) == (0.5, 50)
        sizes.record_success()
        assert sizes.size is None
    sizes.reduce(ERROR)
    with pytest.raises(SyncError, match=r"down to one of 50 .* Select less") as raised:
        sizes.reduce(ERROR)
    assert raised.value.failure_type == "transient_error"
    with pytest.raises(SyncError, match="no page size to reduce"):
        PageSizeState(reduction, None).reduce(ERROR)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("reduction_factor: 1", "does not reduce the page size"),
        ("minimum_page_size: 0", "at least 1"),
        ("backoff_seconds: -1", "at least 0"),
    ],
)
def test_invalid_page_size_reduction_is_rejected(option: str, message: str):
    with pytest.raises(ManifestError, match=message):
        build(f"{{type: PageSizeReduction, {option}}}", PageSizeReduction)


FILTER = "{type: HttpResponseFilter, http_codes: [502], action: REDUCE_PAGE_SIZE}"
CURSOR = "{type: CursorPagination, page_size: 9, cursor_value: x}"
SIZE_OPTION = "{type: RequestOption, inject_into: request_parameter, field_name: size}"
REDUCTION = "{type: PageSizeReduction, backoff_seconds: 0}"


def retriever(
    strategy: str = CURSOR,
    *,
    options: str = f"page_size_option: {SIZE_OPTION}",
    handler: str = f"{{type: DefaultErrorHandler, response_filters: [{FILTER}]}}",
    reduction: str = f"page_size_reduction: {REDUCTION}",
    requester: str = "",
) -> str:
    return (
        f"type: SimpleRetriever\n"
        f"requester: {{type: HttpRequester, url: x, error_handler: {handler}{requester}}}\n"
        f"record_selector: {{type: RecordSelector, extractor: {{type: DpathExtractor,"
        f" field_path: []}}}}\n"
        f"paginator: {{type: DefaultPaginator, {options}, pagination_strategy: {strategy}}}\n"
        f"{reduction}\n"
    )


HANDLER_WITHOUT_FILTER = "{type: DefaultErrorHandler}"
QUERY_PROPERTIES = ", query_properties: {type: QueryProperties, property_list: [a]}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (retriever(reduction=""), "the retriever needs a `page_size_reduction`"),
        (
            retriever(
                handler="{type: CompositeErrorHandler, error_handlers: [{type:"
                f" DefaultErrorHandler, response_filters: [{FILTER}]}}]}}",
                reduction="",
            ),
            "the retriever needs a `page_size_reduction`",
        ),
        (retriever(options="decoder: {type: JsonDecoder}"), "needs a DefaultPaginator"),
        (
            retriever(
                options=f"page_size_option: {SIZE_OPTION}, page_token_option: {{type: RequestPath}}"
            ),
            "RequestPath",
        ),
        (retriever("{type: PageIncrement, page_size: 9}"), "PageIncrement"),
        (retriever(CURSOR.replace("9", "1")), "above its `minimum_page_size`"),
        (retriever(requester=QUERY_PROPERTIES), "properties"),
        (
            retriever(CURSOR.replace("}", ', stop_condition: "{{ last_page_size < 9 }}"}')),
            "last_page_size without page_size",
        ),
    ],
)
def test_reduction_without_a_reducible_paginator_is_rejected(text: str, message: str):
    with pytest.raises(ManifestError, match=message):
        build(text, SimpleRetriever)


def test_stop_conditions_independent_of_the_page_size_are_accepted(
    caplog: pytest.LogCaptureFixture,
):
    for condition in ("last_page_size == 0", "last_page_size < page_size", "not response"):
        strategy = CURSOR.replace("}", f', stop_condition: "{{{{ {condition} }}}}"}}')
        assert build(retriever(strategy), SimpleRetriever).page_size_reduction
    with warnings.catch_warnings():
        build(retriever(handler=HANDLER_WITHOUT_FILTER), SimpleRetriever)
    assert "No response filter has the action REDUCE_PAGE_SIZE" in caplog.text


@pytest.mark.parametrize(("mode", "expected"), [(nullcontext, [2, 4]), (fail_fast, [1, 1])])
def test_wait_before_a_smaller_page_is_short_in_a_connection_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Any, expected: list[float]
):
    waits: list[float] = []
    monkeypatch.setattr(
        "tap_core.manifest.stream.poll_sleep", lambda _run, seconds: waits.append(seconds)
    )
    retriever_options = f"""\
    paginator:
      type: DefaultPaginator
      page_size_option: {SIZE_OPTION}
      page_token_option: {{type: RequestOption, inject_into: request_parameter, field_name: at}}
      pagination_strategy: {CURSOR.replace("x", "'{{ response.next }}'")}
    page_size_reduction: {{type: PageSizeReduction, backoff_seconds: 2}}
    """
    error_handler = f"error_handler: {{type: DefaultErrorHandler, response_filters: [{FILTER}]}}\n"
    with serving() as server, mode():
        server.answers(Reply(status=502), Reply(status=502), page({"id": 1}))
        run(
            manifest(tmp_path, stream("items", "/i", error_handler, retriever=retriever_options)),
            server,
        )
    assert waits == expected


CUSTOM_STRATEGIES = """
from dataclasses import dataclass
from airbyte_cdk.sources.declarative.requesters.paginators.strategies import PaginationStrategy

@dataclass
class Sized(PaginationStrategy):
    def next_page_token(self, response, last_page_size, last_record, last_page_token_value=None,
                        page_size_override=None):
        return None if last_page_size < (page_size_override or 8) else "more"

    def get_page_size(self):
        return 8

@dataclass
class Unsized(Sized):
    def next_page_token(self, response, last_page_size, last_record, last_page_token_value=None):
        return None
"""


def test_custom_strategy_receives_the_reduced_page_size(tmp_path: Path):
    (tmp_path / "components.py").write_text(CUSTOM_STRATEGIES, encoding="utf-8")
    retriever_options = f"""\
    paginator:
      type: DefaultPaginator
      page_size_option: {SIZE_OPTION}
      page_token_option: {{type: RequestOption, inject_into: request_parameter, field_name: at}}
      pagination_strategy: {{type: CustomPaginationStrategy, class_name: components.Sized}}
    page_size_reduction: {REDUCTION}
    """
    error_handler = f"error_handler: {{type: DefaultErrorHandler, response_filters: [{FILTER}]}}\n"

    def respond(request: ReceivedRequest) -> Reply:
        size = int(request.query["size"][0])
        if size > 2:
            return Reply(status=502)
        return page({"id": 1}, {"id": 2}) if "at" not in request.query else page({"id": 3})

    with serving() as server:
        server.answers_by(respond)
        result = run(
            manifest(tmp_path, stream("items", "/i", error_handler, retriever=retriever_options)),
            server,
        )
        assert list_paths(server) == ["/i?size=8", "/i?size=4", "/i?size=2", "/i?at=more&size=2"]
    assert [record["id"] for record in result.records("items")] == [1, 2, 3]
    with serving() as server:
        server.answers_by(respond)
        path = manifest(
            tmp_path,
            stream(
                "items",
                "/i",
                error_handler,
                retriever=retriever_options.replace("Sized", "Unsized"),
            ),
        )
        result = run(path, server, fails=True)
    assert "page_size_override" in str(result.error)
