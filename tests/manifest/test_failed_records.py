"""Templates that fail on a record: it is skipped and reported, the others are emitted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tap_core.manifest.errors import FailedRecordsError
from tests.http.server import ReceivedRequest, Reply, Server, page, serving
from tests.manifest.running import DATE_CURSOR, RunResult, list_paths, manifest, run, stream

ONE, SEVERAL = (
    f"concurrency_level: {{type: ConcurrencyLevel, default_concurrency: {threads}}}"
    for threads in (1, 3)
)
GOOD = {"n": 3, "d": 2, "sub": {"deep": {"x": 3}}}
BAD = {"n": "a", "d": 0, "sub": {}}
RECORDS = [{"id": 1, **GOOD}, {"id": 2, **BAD}, {"id": 3, **GOOD}]


def add_field(value: str, path: str = "made") -> str:
    """Return a transformation that adds a field."""
    return f"""
primary_key: id
transformations:
- type: AddFields
  fields: [{{type: AddedFieldDefinition, path: [{path}], value: "{value}"}}]
"""


def remove_field(condition: str) -> str:
    return f"""
primary_key: id
transformations:
- {{type: RemoveFields, field_pointers: [[n]], condition: "{condition}"}}
"""


FAILING = [
    (add_field("{{ record['n'] + 1 }}"), "field 'made'"),
    (add_field("{{ record.n * 2 - 1 }}", "deep, er"), "field 'deep.er'"),
    (add_field("{{ 6 / record['d'] }}"), "field 'made'"),
    (add_field("{{ record['sub']['deep']['x'] }}"), "field 'made'"),
    (remove_field("{{ 1 / property == 7 }}"), "field 'd'"),
    (remove_field("{{ 1 / record['d'] == 7 }}"), "field 'id'"),
]


def list_ids(result: RunResult, name: str = "items") -> list[int]:
    return sorted(record["id"] for record in result.records(name))


@pytest.mark.parametrize(("options", "field"), FAILING)
def test_failed_record_is_skipped_and_named_with_its_field(
    tmp_path: Path, options: str, field: str
):
    path = manifest(tmp_path, stream("items", "/items", options=options))
    with serving() as server:
        server.answers(page(*RECORDS))
        result = run(path, server, fails=True)
    assert list_ids(result) == [1, 3]
    assert isinstance(result.error, FailedRecordsError)
    assert "Stream 'items': 1 record is skipped" in str(result.error)
    assert f"the one with id 2: {field}: manifest.yaml, line" in str(result.error)
    records = json.dumps([line for line in result.lines if line["type"] == "RECORD"])
    assert "{{" not in records
    assert "record[" not in records


def test_filter_that_fails_on_a_record_skips_only_that_record(tmp_path: Path):
    text = stream("items", "/items").replace(
        "extractor:",
        "record_filter: {type: RecordFilter, condition: \"{{ 1 / record['d'] < 1 }}\"}\n"
        "        extractor:",
    )
    with serving() as server:
        server.answers(page(*RECORDS))
        result = run(manifest(tmp_path, text), server, fails=True)
    assert list_ids(result) == [1, 3]
    assert "number 2 of its response" in str(result.error)
    assert "record_filter.condition" in str(result.error)


def test_template_that_fails_on_every_record_ends_the_stream(tmp_path: Path):
    def answer(request: ReceivedRequest) -> Reply:
        return page(*({"id": number, **BAD} for number in range(400)), next=len(server.requests))

    pages = """
paginator:
  type: DefaultPaginator
  pagination_strategy: {type: CursorPagination, cursor_value: "{{ response.next }}"}
  page_token_option: {type: RequestOption, inject_into: request_parameter, field_name: page}
"""
    options = add_field("{{ record['n'] + 1 }}")
    path = manifest(tmp_path, stream("items", "/items", retriever=pages, options=options))
    with serving() as server:
        server.answers_by(answer)
        result = run(path, server, fails=True)
        assert len(server.requests) == 3
    assert "1,000 records are skipped" in str(result.error)
    assert "was not read to its end" in str(result.error)


def test_record_values_are_hidden_if_row_logging_is_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setenv("TAP_CORE_LOG_ROWS", "false")
    options = add_field("{{ '2024-01-01' | int / record['n'] }}")
    path = manifest(tmp_path, stream("items", "/items", options=options))
    with serving() as server:
        server.answers(page({"id": "sesame-1", "n": "sesame-2"}))
        result = run(path, server, fails=True)
    assert "the one with id <text of 8 characters>" in str(result.error)
    assert "sesame" not in f"{result.error} {caplog.text}"


# Bookmarks

CURSOR = (
    DATE_CURSOR
    + """\
  end_datetime: "2024-01-04"
  step: P1D
  cursor_granularity: P1D
  start_time_option: {type: RequestOption, inject_into: request_parameter, field_name: since}
"""
)


def serve_days(server: Server) -> None:
    """Let the server return a record per day, with an invalid one on the second day."""

    def answer(request: ReceivedRequest) -> Reply:
        [day] = request.query["since"]
        number = int(day[-2:])
        return page({"id": number, "at": day, **(BAD if number == 2 else GOOD)})

    server.answers_by(answer)


@pytest.mark.parametrize("tail", [ONE, SEVERAL])
def test_bookmark_does_not_advance_beyond_a_failed_record(tmp_path: Path, tail: str):
    options = add_field("{{ record['n'] + 1 }}") + CURSOR
    path = manifest(tmp_path, stream("items", "/items", options=options), tail=tail)
    with serving() as server:
        serve_days(server)
        result = run(path, server, fails=True)
        state = result.state["bookmarks"]["items"]
        assert list_ids(result) == [1, 3, 4]
        assert state.get("replication_key_value", "2024-01-01") == "2024-01-01"
        path.write_text(path.read_text().replace("record['n'] + 1", "record['n'] ~ 1"))
        second = run(path, server, state=result.state)
    assert set(list_ids(second)) >= {2, 3, 4}
    assert second.state["bookmarks"]["items"]["replication_key_value"] == "2024-01-04"


SLICES = """
partition_router: {type: ListPartitionRouter, cursor_field: kind, values: [a, b, c]}
"""


@pytest.mark.parametrize("tail", [ONE, SEVERAL])
def test_slices_without_failed_records_keep_their_bookmarks(tmp_path: Path, tail: str):
    def answer(request: ReceivedRequest) -> Reply:
        kind = request.path.strip("/")
        rows = [{"id": ord(kind), "at": "2024-01-02", **(BAD if kind == "b" else GOOD)}]
        return page(*rows, {"id": 1, "at": "2024-01-03", **GOOD})

    options = add_field("{{ record['n'] + 1 }}") + CURSOR.replace("  step: P1D\n", "").replace(
        "  cursor_granularity: P1D\n", ""
    )
    items = stream("items", "/{{ stream_slice.kind }}", retriever=SLICES, options=options)
    path = manifest(tmp_path, items, tail=tail)
    with serving() as server:
        server.answers_by(answer)
        result = run(path, server, fails=True)
        assert len(list_paths(server)) == 3
    entries: list[Any] = result.state["bookmarks"]["items"]["partitions"]
    bookmarks = {entry["context"]["kind"]: entry.get("replication_key_value") for entry in entries}
    assert bookmarks == {"a": "2024-01-03", "b": None, "c": "2024-01-03"}
    assert list_ids(result) == [1, 1, 1, ord("a"), ord("c")]


def test_children_of_other_parent_records_are_read(tmp_path: Path):
    parent = stream("parents", "/parents", options=add_field("{{ record['n'] + 1 }}"))
    router = """
partition_router:
  type: SubstreamPartitionRouter
  parent_stream_configs:
  - {type: ParentStreamConfig, parent_key: id, partition_field: parent, stream: PARENT}
"""
    child = stream("children", "/children/{{ stream_slice.parent }}", retriever=router)
    reference = '{$ref: "#/streams/0"}'
    path = manifest(tmp_path, parent, child.replace("PARENT", reference))

    def answer(request: ReceivedRequest) -> Reply:
        last = request.path.rpartition("/")[2]
        return page({"id": int(last)}) if last.isdigit() else page(*RECORDS)

    with serving() as server:
        server.answers_by(answer)
        result = run(path, server, fails=True)
    assert list_ids(result, "children") == [1, 3]
    assert isinstance(result.error, FailedRecordsError)
