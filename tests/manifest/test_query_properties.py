"""Query properties: chunks of requested properties, and the merge of their records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tap_core.manifest.components.query_properties import PropertyChunking
from tap_core.manifest.components.requester import HttpRequester
from tap_core.manifest.errors import ManifestError
from tests.http.server import ReceivedRequest, Reply, page, serving
from tests.manifest.pieces import build
from tests.manifest.running import list_paths, manifest, run, stream

NAMES = ["one", "three", "eleventwelve", "x"]


@pytest.mark.parametrize(
    ("kind", "limit", "chunks"),
    [
        ("property_count", 2, [["id", "one", "three"], ["id", "eleventwelve", "x"]]),
        ("property_count", 4, [["id", *NAMES]]),
        ("characters", 14, [["id", "one", "three"], ["id", "eleventwelve"], ["id", "x"]]),
        ("characters", 4, [["id", "one"], ["id", "three"], ["id", "eleventwelve"], ["id", "x"]]),
        ("property_count", None, [[*NAMES, "id"]]),
    ],
)
def test_property_chunks_respect_the_limit(kind: Any, limit: int | None, chunks: Any):
    assert list(PropertyChunking(kind, limit).make_chunks(NAMES, ["id"], None)) == chunks


def test_properties_that_are_not_selected_are_not_requested():
    chunks = PropertyChunking("property_count", 2).make_chunks(NAMES, [], {"one", "x", "other"})
    assert list(chunks) == [["one", "x"]]
    assert list(PropertyChunking("property_count", 2).make_chunks(NAMES, [], ())) == [[]]


FIELDS = """\
    request_parameters:
      fields:
        type: QueryProperties
        property_list: [a, b]
        property_chunking:
          type: PropertyChunking
          property_limit_type: property_count
          property_limit: 1
"""


def test_ignored_error_of_a_chunk_keeps_the_records_of_others(tmp_path: Path):
    """Records without a merge key are not merged, and come before those with a key."""
    handler = """\
    error_handler:
      type: DefaultErrorHandler
      response_filters: [{type: HttpResponseFilter, http_codes: [404], action: IGNORE}]
    """
    declared = stream("items", "/items", FIELDS + handler)

    def answer(request: ReceivedRequest) -> Reply:
        if request.query["fields"] == ["a"]:
            return Reply({"data": []}, status=404)
        return page({"id": 7, "b": {"c": 1}}, {"id": "", "b": 2})

    with serving() as server:
        server.answers_by(answer)
        result = run(manifest(tmp_path, declared), server)
        assert list_paths(server) == ["/items?fields=a", "/items?fields=b"]
    assert result.records("items") == [{"id": "", "b": 2}, {"id": 7, "b": {"c": 1}}]


def test_record_with_key_0_is_merged():
    merging = PropertyChunking("property_count", 2).merging
    assert merging.group({"id": 0}) == ("0",)


def test_nested_objects_of_several_chunks_are_merged(tmp_path: Path):
    def answer(request: ReceivedRequest) -> Reply:
        [name] = request.query["fields"]
        return page({"id": 7, "inner": {name: 1}, "last": name})

    with serving() as server:
        server.answers_by(answer)
        result = run(manifest(tmp_path, stream("items", "/items", FIELDS)), server)
    assert result.records("items") == [{"id": 7, "inner": {"a": 1, "b": 1}, "last": "b"}]


def test_client_side_filter_drops_merged_records_not_parts_of_them(tmp_path: Path):
    """The part without the cursor field would be sent as a record that lacks its other fields."""
    cursor = """
    incremental_sync:
      type: DatetimeBasedCursor
      cursor_field: a
      datetime_format: "%Y-%m-%d"
      start_datetime: "2024-01-10"
      is_client_side_incremental: true
    """
    old, new = {"id": 1, "a": "2024-01-01", "b": 1}, {"id": 2, "a": "2024-01-20", "b": 2}

    def answer(request: ReceivedRequest) -> Reply:
        [name] = request.query["fields"]
        return page(*({"id": record["id"], name: record[name]} for record in (old, new)))

    with serving() as server:
        server.answers_by(answer)
        result = run(manifest(tmp_path, stream("items", "/items", FIELDS, options=cursor)), server)
    assert result.records("items") == [new]


def test_custom_requester_receives_the_properties(tmp_path: Path):
    (tmp_path / "components.py").write_text(
        "from dataclasses import dataclass\n"
        "from typing import Any\n"
        "from airbyte_cdk.sources.declarative.requesters import HttpRequester\n"
        "from airbyte_cdk.sources.declarative.requesters.request_options import (\n"
        "    InterpolatedRequestOptionsProvider)\n"
        "@dataclass\n"
        "class Asks(HttpRequester):\n"
        "    request_parameters: Any = None\n"
        "    query_properties_key: Any = None\n"
        "    def __post_init__(self, parameters):\n"
        "        self.request_options_provider = InterpolatedRequestOptionsProvider(\n"
        "            request_parameters=self.request_parameters, config=self.config,\n"
        "            query_properties_key=self.query_properties_key, parameters=parameters)\n"
        "        super().__post_init__(parameters)\n",
        encoding="utf-8",
    )
    requester = "type: CustomRequester\n    class_name: components.Asks\n    http_method: GET\n"
    declared = stream("items", "/items", f"    {requester}{FIELDS}      k: v\n")
    with serving() as server:
        server.answers(page({"id": 1}))
        run(manifest(tmp_path, declared), server)
        assert list_paths(server) == ["/items?k=v&fields=a", "/items?k=v&fields=b"]


def test_two_query_properties_in_a_requester_are_rejected():
    properties = "{type: QueryProperties, property_list: [a]}"
    text = (
        f"{{type: HttpRequester, url: x, request_parameters: {{a: {properties}, b: {properties}}}}}"
    )
    with pytest.raises(ManifestError, match="one list of properties"):
        build(text, HttpRequester)


@pytest.mark.parametrize(
    "option",
    [
        "request_body: {type: RequestBodyJsonObject, value: {fields: %s}}",
        "request_body_json: {filters: [{fields: %s}]}",
        "request_body_data: {fields: %s}",
        "request_headers: {fields: %s}",
    ],
)
def test_query_properties_in_a_body_or_a_header_are_rejected(option: str):
    fields = option % "{type: QueryProperties, property_list: [a]}"
    with pytest.raises(ManifestError, match=r"line .* as `query_properties` of the requester"):
        build(f"type: HttpRequester\nurl: x\n{fields}", HttpRequester)
