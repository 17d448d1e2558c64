"""Custom cursor classes of connectors and count cursors: requests, records and states."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

from tap_core.manifest.errors import ManifestError
from tap_core.manifest.lint import lint_manifest
from tap_core.manifest.tap import make_tap_class
from tests.http.server import ReceivedRequest, Reply, Server, page, serving
from tests.manifest.running import RunResult, list_paths, manifest, run, stream

PLACE = "source_declarative_manifest.components"
INCREMENTAL = "airbyte_cdk.sources.declarative.incremental"

HEAD = f"""\
from dataclasses import InitVar, dataclass, field
from typing import Any, Iterable, List, Mapping, Optional, Union
import dpath
from {INCREMENTAL} import DatetimeBasedCursor, DeclarativeCursor
from airbyte_cdk.models import AirbyteLogMessage, AirbyteMessage, Level, SyncMode, Type
from airbyte_cdk.sources.declarative.interpolation import InterpolatedString
from airbyte_cdk.sources.declarative.partition_routers.substream_partition_router import (
    ParentStreamConfig,
)
from airbyte_cdk.sources.message import MessageRepository
from airbyte_cdk.sources.streams.core import Stream
from airbyte_cdk.sources.types import Config, Record, StreamSlice, StreamState

"""

ONE_SLICE = '''
@dataclass
class OneSlice(DeclarativeCursor):
    """Keeps the latest record of one slice and the previous value, as old connectors do."""

    cursor_field: Union[InterpolatedString, str]
    config: Config
    parameters: InitVar[Mapping[str, Any]]
    message_repository: Optional[MessageRepository] = None

    def __post_init__(self, parameters: Mapping[str, Any]):
        self._state = {}
        self.cursor_field = InterpolatedString.create(self.cursor_field, parameters=parameters)

    @property
    def _name(self):
        return self.cursor_field.eval(self.config)

    def get_stream_state(self) -> StreamState:
        return self._state

    def select_state(self, stream_slice: Optional[StreamSlice] = None) -> Optional[StreamState]:
        return self.get_stream_state()

    def set_initial_state(self, stream_state: StreamState):
        if value := stream_state.get(self._name):
            self._state = {self._name: value, "prior_state": {self._name: value}}

    def close_slice(self, stream_slice: StreamSlice, most_recent_record: Optional[Record]) -> None:
        if not self.is_greater_than_or_equal(self._state, most_recent_record):
            self._state[self._name] = most_recent_record[self._name]

    def stream_slices(self) -> Iterable[Mapping[str, Any]]:
        yield {}

    def get_request_params(self, stream_state=None, stream_slice=None, next_page_token=None):
        since = (stream_state or {}).get(self._name)
        return {"since": since, "page": next_page_token and next_page_token["next_page_token"]}

    def should_be_synced(self, record: Record) -> bool:
        return record[self._name] >= self._state.get(self._name, 0)

    def is_greater_than_or_equal(self, first: Record, second: Record) -> bool:
        one = first.get(self._name) if first else None
        other = second.get(self._name) if second else None
        return one > other if one and other else bool(one or not other)
'''

FIELD = "cursor_field: at"


def cursor(name: str, *fields: str) -> str:
    return "incremental_sync:\n" + indent(
        "\n".join(["type: CustomIncrementalSync", f"class_name: {PLACE}.{name}", *fields]), "  "
    )


def run_with_classes(
    folder: Path, server: Server, classes: str, *streams: str, **options: Any
) -> RunResult:
    (folder / "components.py").write_text(HEAD + dedent(classes), encoding="utf-8")
    return run(manifest(folder, *streams), server, **options)


PAGES = """
paginator:
  type: DefaultPaginator
  pagination_strategy: {type: CursorPagination, cursor_value: "{{ response.next }}"}
"""


def test_custom_cursor_state_is_stored_and_restored(tmp_path: Path):
    declared = stream("items", "/items", retriever=PAGES, options=cursor("OneSlice", FIELD))
    with serving() as server:
        server.answers(
            *(page({"at": 5}, {"at": 9}, next="n2"), page({"at": 7}), page({"at": 8}, {"at": 12})),
        )
        first = run_with_classes(tmp_path, server, ONE_SLICE, declared)
        assert first.state["bookmarks"]["items"] == {
            "replication_key": "at",
            "replication_key_value": 9,
        }
        second = run_with_classes(tmp_path, server, ONE_SLICE, declared, state=first.state)
    assert list_paths(server) == ["/items", "/items?page=n2", "/items?since=9"]
    assert second.records("items") == [{"at": 8}, {"at": 12}]
    assert second.state["bookmarks"]["items"] == {
        "replication_key": "at",
        "replication_key_value": 12,
        "cursor_state": {"at": 12, "prior_state": {"at": 9}},
    }


def test_stream_state_in_templates_is_the_state_at_the_start_of_the_slice(tmp_path: Path):
    """As in airbyte-cdk up to version 5; streams with other cursors have no stream_state."""
    declared = stream(
        "items",
        "/items/{{ stream_state.get('prior_state', {}).get('at', 'none') }}",
        options=cursor("OneSlice", FIELD),
    )
    declared = declared.replace(
        "extractor:",
        "record_filter: {condition: \"{{ record.at > stream_state.get('at', 0) }}\"}\n"
        "        extractor:",
        1,
    )
    state = {"bookmarks": {"items": {"at": 5}}}
    with serving() as server:
        server.answers(page({"at": 5}, {"at": 9}, {"at": 6}))
        result = run_with_classes(tmp_path, server, ONE_SLICE, declared, state=state)
        assert list_paths(server) == ["/items/5?since=5"]
        assert result.records("items") == [{"at": 9}, {"at": 6}]
        path = manifest(tmp_path, declared, stream("others", "/{{ stream_state.at }}"))
    [problem] = lint_manifest(path).problems
    assert problem.path == "streams[1].retriever.requester.path"
    assert "uses `stream_state`, which is no longer available" in problem.message


def test_state_of_airbyte_cdk_with_several_values_is_kept(tmp_path: Path):
    class_text = """
    class Strange(OneSlice):
        def set_initial_state(self, stream_state):
            self._state = dict(stream_state)

        def get_request_params(self, stream_state=None, stream_slice=None, next_page_token=None):
            return {"known": sorted(stream_state)}
    """
    declared = stream("items", "/items", options=cursor("Strange", FIELD))
    state = {"bookmarks": {"items": {"7": {"at": 3}, "states": []}}}
    with serving() as server:
        server.answers(page())
        result = run_with_classes(
            tmp_path, server, ONE_SLICE + dedent(class_text), declared, state=state
        )
    assert list_paths(server) == ["/items?known=7,states"]
    assert result.state["bookmarks"]["items"] == {"cursor_state": {"7": {"at": 3}, "states": []}}


DAYS = '''
@dataclass
class Days(DatetimeBasedCursor):
    """airbyte-cdk's cursor, which also sends its state in a header."""

    def get_request_headers(self, *, stream_state=None, stream_slice=None, next_page_token=None):
        return {"X-State": (stream_state or {}).get("at", "none")}
'''

DATES = (
    *(FIELD, 'datetime_format: "%Y-%m-%d"', 'start_datetime: "2024-01-01"'),
    *('end_datetime: "2024-01-06"', "step: P2D", "cursor_granularity: P1D"),
    "start_time_option: {inject_into: request_parameter, field_name: since}",
)


def test_bookmark_advances_after_each_slice_and_a_failed_slice_is_read_again(tmp_path: Path):
    declared = stream("items", "/items", options=cursor("Days", *DATES))
    with serving() as server:
        server.answers(
            *(page({"at": "2024-01-02"}), page({"at": "2024-01-03"}), Reply(status=400)),
        )
        first = run_with_classes(tmp_path, server, DAYS, declared, fails=True)
        values = [
            state["bookmarks"]["items"].get("replication_key_value") for state in first.states
        ]
        assert list(dict.fromkeys(values)) == ["2024-01-02", "2024-01-03"]
        assert first.error is not None
        server.requests.clear()
        server.answers(page({"at": "2024-01-04"}), page({"at": "2024-01-05"}))
        second = run_with_classes(tmp_path, server, DAYS, declared, state=first.state)
    assert list_paths(server) == ["/items?since=2024-01-03", "/items?since=2024-01-05"]
    assert [request.headers["X-State"] for request in server.requests] == [
        "2024-01-03",
        "2024-01-04",
    ]
    assert second.state["bookmarks"]["items"] == {
        "replication_key": "at",
        "replication_key_value": "2024-01-05",
    }


def test_each_partition_has_its_own_cursor_object_and_state(tmp_path: Path):
    router = """
    partition_router:
      type: ListPartitionRouter
      cursor_field: kind
      values: [a, b, c]
    """
    declared = stream(
        "items",
        "/{{ stream_partition.kind }}/{{ stream_interval.end_time }}",
        retriever=router,
        options=cursor("Days", *DATES[:4], DATES[-1]),
    )
    state = {"bookmarks": {"items": {"at": "2024-01-03"}}}  # one for all
    with serving() as server:
        server.answers_by(
            lambda request: page({"at": "2024-01-05" if request.path[1] == "a" else None})
        )
        result = run_with_classes(tmp_path, server, DAYS, declared, state=state)
    assert list_paths(server) == [f"/{kind}/2024-01-06?since=2024-01-03" for kind in "abc"]
    partitions = result.state["bookmarks"]["items"]["partitions"]
    assert [(entry["context"]["kind"], entry["replication_key_value"]) for entry in partitions] == [
        *(("a", "2024-01-05"), ("b", "2024-01-03"), ("c", "2024-01-03")),
    ]


@pytest.mark.parametrize(
    ("option", "paths", "records"),
    [
        ("is_data_feed: true", ["/items", "/items?page=2"], [9, 8, 6, 3]),
        (
            "is_client_side_incremental: true",
            ["/items", "/items?page=2", "/items?page=3"],
            [9, 8, 6],
        ),
    ],
)
def test_custom_cursor_decides_which_records_are_new(
    tmp_path: Path, option: str, paths: list[str], records: list[int]
):
    fed = """
    class Fed(OneSlice):
        def get_request_params(self, stream_state=None, stream_slice=None, next_page_token=None):
            return {"page": next_page_token and next_page_token["next_page_token"]}
    """
    declared = stream("items", "/items", retriever=PAGES, options=cursor("Fed", FIELD, option))
    state = {"bookmarks": {"items": {"at": 5}}}
    with serving() as server:
        server.answers(
            page({"at": 9}, {"at": 8}, next=2), page({"at": 6}, {"at": 3}, next=3), page({"at": 1})
        )
        result = run_with_classes(tmp_path, server, ONE_SLICE + dedent(fed), declared, state=state)
    assert list_paths(server) == paths
    assert [record["at"] for record in result.records("items")] == records
    assert result.state["bookmarks"]["items"]["replication_key_value"] == 9


OF_PARENT = """
@dataclass
class OfParent(OneSlice):
    parent_stream_configs: List[ParentStreamConfig] = field(default_factory=list)

    def __post_init__(self, parameters: Mapping[str, Any]):
        super().__post_init__(parameters)
        parent = self.parent_stream_configs[0]
        self.parent: Stream = parent.stream
        self.parent_cursor_field: str = self.parent.cursor_field
        self.mode = SyncMode.incremental if self.parent.supports_incremental else None
        self.slice_field = parent.partition_field.eval(self.config)
        self.parent_key = parent.parent_key.eval(self.config)

    def set_initial_state(self, stream_state: StreamState):
        self._state = dict(stream_state)

    def close_slice(self, stream_slice, most_recent_record):
        super().close_slice(stream_slice, most_recent_record)
        self._state[self.parent.name] = self.parent.state or {self.parent_cursor_field: "first"}

    def stream_slices(self):
        known = self._state.get(self.parent.name, {})
        self.parent.state = known
        for parent_slice in self.parent.stream_slices(
            sync_mode=self.mode, cursor_field=self.parent_cursor_field, stream_state=known
        ):
            for record in self.parent.read_records(
                sync_mode=self.mode,
                cursor_field=self.parent_cursor_field,
                stream_slice=parent_slice,
                stream_state=known,
            ):
                if isinstance(record, AirbyteMessage):
                    continue
                key = dpath.get(record, self.parent_key)
                yield StreamSlice(partition={self.slice_field: key}, cursor_slice={})

    def get_request_params(self, *args, **kwargs):
        return {}
"""


def test_custom_cursor_reads_its_parent_from_the_state_that_it_sets(tmp_path: Path):
    options = [
        FIELD,
        "parent_stream_configs:",
        '  - stream: "#/streams/0"',
        "    parent_key: id",
        "    partition_field: parent",
    ]
    parents = stream("items", "/items", options=cursor("Days", *DATES[:4], DATES[-1]))
    children = stream(
        "children", "/of/{{ stream_slice.parent }}", options=cursor("OfParent", *options)
    )

    def answer(request: ReceivedRequest) -> Reply:
        if request.path != "/items":
            return page({"at": 4})
        days = {"2024-01-01": (1, 2), "2024-01-05": (5,)}[request.query["since"][0]]
        return page(*({"id": day, "at": f"2024-01-0{day}"} for day in days))

    classes = DAYS + ONE_SLICE + OF_PARENT
    with serving() as server:
        server.answers_by(answer)
        first = run_with_classes(tmp_path, server, classes, parents, children)
        assert "/of/1" in list_paths(server)
        state = first.state["bookmarks"]["children"]["cursor_state"]
        assert state == {"at": 4, "items": {"at": "first"}}
        state["items"]["at"] = "2024-01-05"
        server.requests.clear()
        second = run_with_classes(
            tmp_path, server, classes, parents, children, state={"bookmarks": {"children": state}}
        )
    assert [request for request in list_paths(server) if request.startswith("/of")] == ["/of/5"]
    assert second.state["bookmarks"]["children"]["cursor_state"] == {
        "at": 4,
        "items": {"at": "2024-01-05"},
    }


def test_parent_with_a_custom_cursor_resumes_from_the_parent_state_of_children(tmp_path: Path):
    router = """
    partition_router:
      type: SubstreamPartitionRouter
      parent_stream_configs:
        - stream: "#/streams/0"
          parent_key: at
          partition_field: day
          incremental_dependency: true
    """
    parents = stream("items", "/items", options=cursor("Days", *DATES[:4], DATES[-1]))
    children = stream(
        "children",
        "/of/{{ stream_slice.day }}",
        retriever=router,
        options=cursor("OneSlice", FIELD),
    )

    def answer(request: ReceivedRequest) -> Reply:
        return page({"at": "2024-01-03"} if request.path == "/items" else {"at": 1})

    classes = DAYS + ONE_SLICE
    with serving() as server:
        server.answers_by(answer)
        first = run_with_classes(tmp_path, server, classes, parents, children)
        state = first.state["bookmarks"]["children"]
        assert state["parent_state"]["items"]["replication_key_value"] == "2024-01-03"
        del first.state["bookmarks"]["items"]
        server.requests.clear()
        run_with_classes(tmp_path, server, classes, parents, children, state=first.state)
    assert list_paths(server).count("/items?since=2024-01-03") == 1


def test_full_table_sync_ignores_the_custom_cursor_state(tmp_path: Path):
    declared = stream("items", "/items", options=cursor("Days", *DATES))
    (tmp_path / "components.py").write_text(HEAD + DAYS, encoding="utf-8")
    state = {"bookmarks": {"items": {"at": "2024-01-04"}}}
    with serving() as server:
        server.answers_by(lambda _: page({"at": "2024-01-06"}))
        tap = make_tap_class(manifest(tmp_path, declared))(config={"url": server.url}, state=state)
        tap.streams["items"].forced_replication_method = "FULL_TABLE"
        tap.sync_all()
    assert list_paths(server)[0] == "/items?since=2024-01-01"
    assert "2024-01-06" not in str(tap.state)


def test_connection_check_reads_one_slice(tmp_path: Path):
    declared = stream("items", "/items", options=cursor("Days", *DATES))
    (tmp_path / "components.py").write_text(HEAD + DAYS, encoding="utf-8")
    with serving() as server:
        server.answers_by(lambda _: page())
        tap = make_tap_class(manifest(tmp_path, declared))(config={"url": server.url})
        tap.check_connection()
    assert list_paths(server) == ["/items?since=2024-01-01"]


def test_catalog_has_the_replication_key_of_custom_cursors(tmp_path: Path):
    options = "incremental_sync: {class_name: source_x.components.OneSlice, cursor_field: at}"
    declared = (
        stream("items", "/items", options=options),
        stream("counted", "/c", options=count_cursor()),
    )
    (tmp_path / "components.py").write_text(HEAD + ONE_SLICE, encoding="utf-8")
    kind = make_tap_class(manifest(tmp_path, *declared))
    streams = kind(config={"url": "http://localhost"}).catalog_dict["streams"]
    keys = [(stream["tap_stream_id"], stream["replication_key"]) for stream in streams]
    assert sorted(keys) == [("counted", "id"), ("items", "at")]
    assert {stream["replication_method"] for stream in streams} == {"INCREMENTAL"}


def test_state_that_is_not_json_is_an_error_that_names_the_class(tmp_path: Path):
    class_text = """
    class Odd(OneSlice):
        def get_stream_state(self):
            return {"at": {1, 2}}
    """
    declared = stream("items", "/items", options=cursor("Odd", FIELD))
    with serving() as server:
        server.answers(page({"at": 1}))
        result = run_with_classes(
            tmp_path, server, ONE_SLICE + dedent(class_text), declared, fails=True
        )
    assert "components.Odd cannot be stored" in str(result.error)


def test_custom_cursor_ignores_the_setting_start_date(tmp_path: Path):
    declared = stream("items", "/items", options=cursor("OneSlice", FIELD))
    state = {"bookmarks": {"items": {"at": 5}}}
    with serving() as server:
        server.answers(page())
        options = {"state": state, "config": {"start_date": "2024-01-01T00:00:00Z"}}
        run_with_classes(tmp_path, server, ONE_SLICE, declared, **options)
    assert list_paths(server) == ["/items?since=5"]


# Errors before the first request

REFUSED = f"""
from {INCREMENTAL} import GlobalSubstreamCursor

class Global(GlobalSubstreamCursor): pass

class Half(DeclarativeCursor):
    def stream_slices(self): ...

class Days(DatetimeBasedCursor): pass

{ONE_SLICE}
@dataclass
class More(OneSlice):
    unit: str = field(kw_only=True)
"""


@pytest.mark.parametrize(
    ("name", "fields", "reason"),
    [
        ("Global", [FIELD], "'GlobalSubstreamCursor' of airbyte_cdk.* is not supported in"),
        ("Half", [FIELD], r"Half must override set_initial_state\(\)"),
        ("OneSlice", [], "OneSlice needs cursor_field"),
        ("More", [FIELD], "More needs unit"),
        ("Days", [FIELD], "Days needs datetime_format, start_datetime"),
        ("OneSlice", [FIELD, "global_substream_cursor: true"], "global_substream_cursor is not"),
        ("Days", [*DATES[:4], "step: P1D"], "belong together"),
        ("Days", [*DATES[:4], "lookback_window: 2 days"], "'2 days' is not an ISO 8601 duration"),
        ("Days", [FIELD, DATES[2], 'datetime_format: "%Q"'], "%Q"),
    ],
)
def test_invalid_custom_cursor_is_rejected_with_its_line(
    tmp_path: Path, name: str, fields: list[str], reason: str
):
    (tmp_path / "components.py").write_text(HEAD + REFUSED, encoding="utf-8")
    path = manifest(tmp_path, stream("items", "/items", options=cursor(name, *fields)))
    with serving() as server, pytest.raises(ManifestError, match=reason) as raised:
        run(path, server)
    assert "manifest.yaml, line" in str(raised.value)
    assert "streams[0].incremental_sync" in str(raised.value)
    assert server.requests == []
    assert [problem.path for problem in lint_manifest(path).problems] == [
        "streams[0].incremental_sync"
    ]


# Count cursors


def count_cursor(**fields: Any) -> str:
    options = {"type": "IncrementingCountCursor", "cursor_field": "id", **fields}
    lines = "\n".join(f"  {name}: {value}" for name, value in options.items())
    return f"incremental_sync:\n{lines}"


SINCE = "{type: RequestOption, inject_into: request_parameter, field_name: since}"


def test_count_cursor_continues_from_the_highest_number(tmp_path: Path):
    declared = stream("items", "/items", options=count_cursor(start_value_option=SINCE))
    with serving() as server:
        server.answers(page({"id": 9}, {"id": 10}), page({"id": 10}, {"id": 2}))
        path = manifest(tmp_path, declared)
        first = run(path, server)
        second = run(path, server, state=first.state)
    assert list_paths(server) == ["/items?since=0", "/items?since=10"]
    assert second.state["bookmarks"]["items"] == {
        "replication_key": "id",
        "replication_key_value": 10,
    }


def test_count_cursor_never_starts_below_its_start_value(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    options = count_cursor(start_value_option=SINCE, start_value="\"{{ config['first'] }}\"")
    declared = stream("items", "/items/{{ stream_interval.start }}", options=options)
    with serving() as server:
        server.answers(page({"id": "many"}, {"name": "x"}, {"id": 9}))
        state = {"bookmarks": {"items": {"id": 3}}}
        result = run(manifest(tmp_path, declared), server, state=state, config={"first": 7})
    assert list_paths(server) == ["/items/7?since=7"]
    assert result.records("items") == [{"id": "many"}, {"name": "x"}, {"id": 9}]
    assert result.state["bookmarks"]["items"]["replication_key_value"] == 9
    assert caplog.text.count("which is not a number") == 1


def test_count_cursor_has_a_bookmark_per_partition(tmp_path: Path):
    router = "partition_router: {type: ListPartitionRouter, cursor_field: kind, values: [a, b]}"
    declared = stream(
        "items",
        "/{{ stream_partition.kind }}",
        retriever=router,
        options=count_cursor(start_value_option=SINCE),
    )
    with serving() as server:
        server.answers_by(lambda request: page({"id": {"/a": 1, "/b": 2}[request.path]}))
        path = manifest(tmp_path, declared)
        run(path, server, state=run(path, server).state)
    assert list_paths(server) == ["/a?since=0", "/b?since=0", "/a?since=1", "/b?since=2"]


def test_invalid_start_value_of_a_count_cursor_is_rejected_with_its_line(tmp_path: Path):
    path = manifest(tmp_path, stream("items", "/items", options=count_cursor(start_value="first")))
    [problem] = lint_manifest(path).problems
    assert problem.is_error
    assert problem.path == "streams[0].incremental_sync.start_value"
    assert "'first' is not an integer" in problem.message
