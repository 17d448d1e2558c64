"""Manifests as taps: windows and states, connection check, settings, commands."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

from tap_core.exceptions import ConfigurationError
from tap_core.manifest.cli import main
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.tap import make_tap_class
from tests.http.server import ReceivedRequest, Reply, Server, page, serving
from tests.manifest.running import DATE_CURSOR, RunResult, list_paths, manifest, run, stream

CURSOR = """
incremental_sync:
  type: DatetimeBasedCursor
  cursor_field: at
  datetime_format: "%Y-%m-%d"
  cursor_datetime_formats: ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ"]
  start_datetime: "2024-01-01"
  end_datetime: "2024-01-25"
  step: P10D
  cursor_granularity: P1D
  start_time_option: {type: RequestOption, inject_into: request_parameter, field_name: since}
  end_time_option: {type: RequestOption, inject_into: request_parameter, field_name: until}
"""
GROWING = CURSOR.replace('"2024-01-25"', "\"{{ config.get('end', '2024-01-20') }}\"")
"""A cursor without steps; the setting ``end`` is the end of the window."""
GROWING = GROWING.replace("step: P10D", "").replace("cursor_granularity: P1D", "")
DAYS = [f"2024-01-{day:02}" for day in range(1, 26)]


def serve_days(server: Server) -> None:
    """Let the server return records by date."""

    def answer(request: ReceivedRequest) -> Reply:
        since, until = (request.query.get(name, [""])[0] for name in ("since", "until"))
        numbered_days = [(n, day) for n, day in enumerate(DAYS) if since <= day <= until]
        return page(*({"id": n, "at": day} for n, day in numbered_days if n % 3 == 0))

    server.answers_by(answer)


class TestWindows:
    def test_each_window_is_requested_and_updates_the_bookmark(self, tmp_path: Path):
        with serving() as server:
            serve_days(server)
            result = run(manifest(tmp_path, stream("items", "/i", options=CURSOR)), server)
        assert list_paths(server) == [
            "/i?since=2024-01-01&until=2024-01-10",
            "/i?since=2024-01-11&until=2024-01-20",
            "/i?since=2024-01-21&until=2024-01-25",
        ]
        bookmarks = [
            state["bookmarks"]["items"].get("replication_key_value") for state in result.states
        ]
        assert list(dict.fromkeys(bookmarks)) == ["2024-01-10", "2024-01-19", "2024-01-25"]

    def test_sync_can_resume_from_each_of_its_states(self, tmp_path: Path):
        path = manifest(tmp_path, stream("items", "/i", options=CURSOR))
        with serving() as server:
            serve_days(server)
            full = run(path, server)
            all_ids = {record["id"] for record in full.records("items")}
            for number, line in enumerate(full.lines):
                if line["type"] == "STATE":
                    before = [
                        message for message in full.lines[:number] if message["type"] == "RECORD"
                    ]
                    remaining = run(path, server, state=line["value"]).records("items")
                    resumed_ids = {message["record"]["id"] for message in before} | {
                        record["id"] for record in remaining
                    }
                    assert resumed_ids == all_ids

    def test_sync_resumes_from_a_state_of_airbyte_cdk(self, tmp_path: Path):
        path = manifest(tmp_path, stream("items", "/i", options=CURSOR))
        with serving() as server:
            serve_days(server)
            run(path, server, state={"bookmarks": {"items": {"at": "2024-01-20"}}})
        assert list_paths(server) == ["/i?since=2024-01-20&until=2024-01-25"]

    def test_cutoff_and_boundary_can_be_set_from_outside(self, tmp_path: Path):
        path = manifest(tmp_path, stream("items", "/i", options=CURSOR))
        with serving() as server:
            serve_days(server)
            result = run(path, server, changes={"cutoff": "interval_end"})
            second = run(path, server, state=result.state, changes={"boundary": "drop"})
        bookmarks = [
            state["bookmarks"]["items"].get("replication_key_value") for state in result.states
        ]
        assert list(dict.fromkeys(bookmarks)) == ["2024-01-10", "2024-01-20", "2024-01-25"]
        assert second.records("items") == []

    def test_window_is_available_in_path_templates(self, tmp_path: Path):
        path = "/{{ stream_interval.start_time }}/{{ stream_slice['end_time'] }}"
        with serving() as server:
            server.answers(page())
            run(manifest(tmp_path, stream("items", path, options=CURSOR)), server)
        assert list_paths(server)[0] == "/2024-01-01/2024-01-10?since=2024-01-01&until=2024-01-10"

    def test_parallel_windows_give_the_same_records_in_order(self, tmp_path: Path):
        level = "concurrency_level: {type: ConcurrencyLevel, default_concurrency: 3}"
        declared = stream("items", "/i", options=CURSOR)
        with serving() as server:
            serve_days(server)
            single = run(manifest(tmp_path, declared), server)
            parallel = run(manifest(tmp_path, declared, tail=level), server)
        assert parallel.records("items") == single.records("items")
        assert parallel.state == single.state

    def test_grouped_partitions_share_a_cursor(self, tmp_path: Path):
        """A new value changes the later groups; airbyte-cdk also has one state for all groups."""
        router = """
        partition_router:
          type: GroupingPartitionRouter
          group_size: 2
          underlying_partition_router:
            {type: ListPartitionRouter, cursor_field: kind, values: "{{ config['kinds'] }}"}
        """
        path = "/{{ stream_slice.kind | join('+') }}"
        path = manifest(tmp_path, stream("items", path, retriever=router, options=GROWING))
        with serving() as server:
            serve_days(server)
            result = run(path, server, config={"kinds": ["a", "b", "c"]})
            run(
                path,
                server,
                state=result.state,
                config={"kinds": ["new", "a", "b", "c"], "end": "2024-01-25"},
            )
        assert list_paths(server) == [
            "/a+b?since=2024-01-01&until=2024-01-20",
            "/c?since=2024-01-01&until=2024-01-20",
            "/new+a?since=2024-01-19&until=2024-01-25",
            "/b+c?since=2024-01-19&until=2024-01-25",
        ]
        assert "partitions" not in result.state["bookmarks"]["items"]

    def test_last_page_size_counts_only_records_that_the_cursor_keeps(self, tmp_path: Path):
        """With ``is_client_side_incremental`` a page of old records is empty, as in airbyte-cdk."""
        pages = """
        paginator:
          type: DefaultPaginator
          page_token_option: {type: RequestOption, inject_into: request_parameter, field_name: page}
          pagination_strategy:
            type: CursorPagination
            cursor_value: "{{ last_record.id }}:{{ last_page_size }}"
            stop_condition: "{{ last_page_size == 0 }}"
        """
        cursor = CURSOR.replace("step: P10D", "is_client_side_incremental: true")
        cursor = cursor.replace("cursor_granularity: P1D", "")
        path = manifest(tmp_path, stream("items", "/i", retriever=pages, options=cursor))
        state = {"bookmarks": {"items": {"at": "2024-01-20"}}}
        days = [["25", "20", "19"], ["18", "21"], ["03"], ["24"]]
        answers = [
            page(*({"id": int(day), "at": f"2024-01-{day}"} for day in page_days))
            for page_days in days
        ]
        with serving() as server:
            server.answers(*answers)
            result = run(path, server, state=state)
        assert [request.query.get("page") for request in server.requests] == [
            None,
            ["20:2"],
            ["21:1"],
        ]
        assert [record["id"] for record in result.records("items")] == [25, 20, 21]

    def test_each_slice_has_its_own_cursor(self, tmp_path: Path):
        router = """
        partition_router: {type: ListPartitionRouter, cursor_field: kind, values: [a, b]}
        """
        declared = stream("items", "/{{ stream_slice.kind }}", retriever=router, options=CURSOR)
        with serving() as server:
            serve_days(server)
            result = run(manifest(tmp_path, declared), server)
            run(manifest(tmp_path, declared), server, state=result.state)
        assert result.state["bookmarks"]["items"]["partitions"] == [
            {
                "context": {"kind": kind},
                "replication_key": "at",
                "replication_key_value": "2024-01-25",
            }
            for kind in "ab"
        ]
        assert list_paths(server)[6:] == [
            f"/{kind}?since=2024-01-25&until=2024-01-25" for kind in "ab"
        ]


def test_slices_have_separate_states_if_a_parameter_names_the_cursor_field(tmp_path: Path):
    router = "partition_router: {type: ListPartitionRouter, cursor_field: kind, values: [a, b]}"
    options = CURSOR.replace("cursor_field: at", "cursor_field: \"{{ parameters['key'] }}\"", 1)
    declared = stream(
        "items",
        "/{{ stream_partition.kind }}",
        retriever=router,
        options=f"{options}$parameters: {{key: at}}",
    )
    with serving() as server:
        server.answers_by(
            lambda request: page({"at": "2024-01-04" if request.path == "/a" else "2024-01-22"})
        )
        result = run(manifest(tmp_path, declared), server)
    partitions = result.state["bookmarks"]["items"]["partitions"]
    assert [(entry["context"]["kind"], entry["replication_key_value"]) for entry in partitions] == [
        *(("a", "2024-01-04"), ("b", "2024-01-22")),
    ]


def test_killed_sync_resumes_after_the_last_completed_window(tmp_path: Path):
    path = manifest(tmp_path, stream("items", "/i", options=CURSOR))
    config = tmp_path / "c.json"
    with serving() as server:
        serve_days(server)
        answer = server.reply

        def silent_at_last(request: ReceivedRequest) -> Reply:
            reply = answer(request)
            return Reply(silent=True) if request.query["since"] == ["2024-01-21"] else reply

        server.reply = silent_at_last
        config.write_text(json.dumps({"url": server.url}), encoding="utf-8")
        arguments = ["--manifest", str(path), "--config", str(config)]
        command = [sys.executable, "-m", "tap_core.manifest.cli", *arguments]
        lines: list[dict[str, Any]] = []
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            while sum(line["type"] == "STATE" for line in lines) < 2:
                lines.append(json.loads(process.stdout.readline()))
            process.kill()
        server.reply = answer
        before = RunResult(lines)
        result = run(path, server, state=before.state)
    assert list_paths(server)[-1] == "/i?since=2024-01-19&until=2024-01-25"
    ids = {record["id"] for record in [*before.records("items"), *result.records("items")]}
    assert ids == set(range(0, 25, 3))


class TestIncrementalDependency:
    """``incremental_dependency``: parents resume from the position in their child's state."""

    ROUTER = """
    partition_router:
      type: SubstreamPartitionRouter
      parent_stream_configs:
        - type: ParentStreamConfig
          stream: "#/streams/0"
          parent_key: id
          partition_field: parent
          incremental_dependency: true
    """

    def declared(self, folder: Path) -> Path:
        of_parent = CURSOR.replace("step: P10D", "").replace("cursor_granularity: P1D", "")
        sub = stream(
            "sub", "/sub/{{ stream_slice.parent }}", retriever=self.ROUTER, options=of_parent
        )
        return manifest(folder, stream("items", "/i", options=of_parent), sub)

    def test_child_without_a_cursor_stores_no_parent_position(self, tmp_path: Path):
        """As in airbyte-cdk: such a child reads all parents in each sync."""
        sub = stream("sub", "/sub/{{ stream_slice.parent }}", retriever=self.ROUTER)
        path = manifest(tmp_path, stream("items", "/i", options=DATE_CURSOR), sub)
        with serving() as server:
            server.answers_by(lambda _: page({"id": 1, "at": "2024-01-09"}))
            result = run(path, server)
        assert "parent_state" not in result.state["bookmarks"]["sub"]

    def test_parent_position_is_stored_in_the_state_of_the_child(self, tmp_path: Path):
        path = self.declared(tmp_path)
        with serving() as server:
            serve_days(server)
            result = run(path, server)
            first = len(server.requests)
            state = {"bookmarks": {"sub": result.state["bookmarks"]["sub"]}}
            run(path, server, state=state)
        parents = result.state["bookmarks"]["sub"]["parent_state"]
        assert parents["items"]["replication_key_value"] == "2024-01-25"
        requests = list_paths(server)[first:]
        assert requests == ["/i?since=2024-01-01&until=2024-01-25"]  # the parent stream's own sync

    def test_all_parents_are_read_with_several_routers(self, tmp_path: Path):
        """As in airbyte-cdk, which stores no parent position in this case."""
        other_router = "- {type: ListPartitionRouter, cursor_field: kind, values: [a, b]}"
        head, router = dedent(self.ROUTER).strip().split("\n", 1)
        several = f"{head}\n- {indent(dedent(router), '  ').strip()}\n{other_router}\n"
        sub = stream("sub", "/sub/{{ stream_slice.parent }}", retriever=several, options=GROWING)
        path = manifest(tmp_path, stream("items", "/i", options=GROWING), sub)
        with serving() as server:
            serve_days(server)
            result = run(path, server)
            first_requests = list_paths(server)
            server.requests.clear()
            known = {
                **result.state["bookmarks"]["sub"],
                "parent_state": {"items": {"at": "2024-01-20"}},
            }
            run(path, server, state={"bookmarks": {"sub": known}}, config={"end": "2024-01-25"})
        assert "parent_state" not in result.state["bookmarks"]["sub"]
        paths = {request.partition("?")[0] for request in list_paths(server)}
        assert paths > {request.partition("?")[0] for request in first_requests}

    def test_parent_position_of_an_airbyte_cdk_state_is_used(self, tmp_path: Path):
        path = self.declared(tmp_path)
        stored = {
            "use_global_cursor": False,
            "states": [
                {"partition": {"parent": 3, "parent_slice": {}}, "cursor": {"at": "2024-01-09"}}
            ],
            "parent_state": {"items": {"at": "2024-01-20"}},
        }
        with serving() as server:
            serve_days(server)
            run(path, server, state={"bookmarks": {"sub": stored}})
        assert "/i?since=2024-01-20&until=2024-01-25" in list_paths(server)
        slices = {
            request.partition("?")[0]
            for request in list_paths(server)
            if request.startswith("/sub")
        }
        assert slices == {"/sub/21", "/sub/24"}

    def test_position_of_the_parents_of_parents_is_stored(self, tmp_path: Path):
        inner = dedent(self.ROUTER)
        outer = inner.replace("streams/0", "streams/1").replace("field: parent", "field: child")
        path = manifest(
            tmp_path,
            stream("items", "/i", options=GROWING),
            stream("sub", "/s", retriever=inner, options=GROWING),
            stream("last", "/l", retriever=outer, options=GROWING),
        )
        with serving() as server:
            server.answers_by(lambda _: page({"id": 1, "at": "2024-01-18"}))
            result = run(path, server)
            server.requests.clear()
            run(path, server, state={"bookmarks": {"last": result.state["bookmarks"]["last"]}})
        parents = result.state["bookmarks"]["last"]["parent_state"]["sub"]["parent_state"]
        assert parents["items"]["replication_key_value"] == "2024-01-18"
        assert "/i?since=2024-01-18&until=2024-01-20" in list_paths(server)

    def test_parents_resume_from_the_cursor_that_airbyte_cdk_stored_for_all_slices(
        self, tmp_path: Path
    ):
        kinds = "partition_router: {type: ListPartitionRouter, cursor_field: kind, values: [a, b]}"
        items = stream("items", "/{{ stream_slice.kind }}", retriever=kinds, options=GROWING)
        sub = stream("sub", "/sub", retriever=self.ROUTER, options=GROWING)
        of_parent = {"use_global_cursor": True, "state": {"at": "2024-01-16"}}
        stored = {"use_global_cursor": False, "states": [], "parent_state": {"items": of_parent}}
        with serving() as server:
            server.answers_by(lambda _: page({"id": 1, "at": "2024-01-18"}))
            result = run(
                manifest(tmp_path, items, sub), server, state={"bookmarks": {"sub": stored}}
            )
        begins = [
            request.query["since"] for request in server.requests if request.path in {"/a", "/b"}
        ]
        assert ["2024-01-16"] in begins
        position = result.state["bookmarks"]["sub"]["parent_state"]["items"]
        assert {entry["replication_key_value"] for entry in position["partitions"]} == {
            "2024-01-18"
        }
        assert "lookback_window" not in position

    def test_parents_after_the_end_of_the_window_do_not_move_the_position(self, tmp_path: Path):
        """A feed drops such parents until a later sync reads them all."""
        feed = GROWING + "  is_data_feed: true\n"
        sub = stream("sub", "/{{ stream_slice.parent }}", retriever=self.ROUTER, options=GROWING)
        path = manifest(tmp_path, stream("items", "/i", options=feed), sub)
        parents = [{"id": day, "at": f"2024-01-{day}"} for day in (24, 22, 18)]
        with serving() as server:
            server.answers_by(lambda request: page(*(parents if request.path == "/i" else ())))
            result = run(path, server)
            run(path, server, state=result.state, config={"end": "2024-01-25"})
        position = result.state["bookmarks"]["sub"]["parent_state"]["items"]
        assert position["replication_key_value"] == "2024-01-18"
        assert {request.path for request in server.requests} == {"/i", "/24", "/22", "/18"}

    def test_parent_with_a_date_in_the_future_does_not_move_the_position_past_the_window(
        self, tmp_path: Path
    ):
        path = self.declared(tmp_path)
        with serving() as server:
            server.answers_by(lambda _: page({"id": 1, "at": "2099-01-01"}))
            result = run(path, server)
        position = result.state["bookmarks"]["sub"]["parent_state"]["items"]
        assert position["replication_key_value"] == "2024-01-25"

    def test_each_slice_of_a_parent_with_one_cursor_for_all_slices_is_read_from_its_position(
        self, tmp_path: Path
    ):
        kinds = "partition_router: {type: ListPartitionRouter, cursor_field: kind, values: [a, b]}"
        shared = GROWING + "  global_substream_cursor: true\n"
        items = stream("items", "/{{ stream_slice.kind }}", retriever=kinds, options=shared)
        sub = stream("sub", "/sub", retriever=self.ROUTER, options=GROWING)
        with serving() as server:
            server.answers_by(lambda request: page({"id": 1, "at": "2024-01-18"}))
            result = run(manifest(tmp_path, items, sub), server)
        begins = [
            request.query["since"] for request in server.requests if request.path in {"/a", "/b"}
        ]
        assert begins == [["2024-01-01"]] * len(begins)
        position = result.state["bookmarks"]["sub"]["parent_state"]["items"]
        assert position["replication_key_value"] == "2024-01-18"


DYNAMIC_SCHEMA = """\
      type: DynamicSchemaLoader
      retriever:
        type: SimpleRetriever
        requester: {$ref: "#/definitions/requester", path: fields}
        record_selector:
          type: RecordSelector
          extractor: {type: DpathExtractor, field_path: []}
      schema_type_identifier:
        type: SchemaTypeIdentifier
        schema_pointer: [data]
        key_pointer: [name]
"""


def manifest_with_dynamic_schema(folder: Path, *streams: str) -> Path:
    """Write a manifest whose last stream requests its schema; return the path."""
    path = manifest(folder, *streams)
    text = path.read_text()
    path.write_text(text[: text.rindex("      type: InlineSchemaLoader")] + DYNAMIC_SCHEMA)
    return path


class TestTapClass:
    def test_tap_is_named_after_the_file_or_folder(self, tmp_path: Path):
        folder = tmp_path / "source-cats"
        folder.mkdir()
        path = manifest(folder, stream("items", "/i"))
        assert make_tap_class(path).name == "tap-cats"
        assert make_tap_class(path.rename(folder / "big_dogs.yaml")).name == "tap-big-dogs"

    def test_config_schema_comes_from_the_manifest(self, tmp_path: Path):
        kind = make_tap_class(manifest(tmp_path, stream("items", "/i")))
        settings = kind.config_jsonschema
        assert settings["required"] == ["url"]
        assert settings["properties"]["api_key"]["secret"] is True

    def test_defaults_of_settings_are_not_applied(self, tmp_path: Path):
        """A template provides its own default for a missing setting."""
        path = manifest(tmp_path, stream("items", "/i/{{ config.get('kind', 'cats') }}"))
        text = path.read_text().replace(
            "url: {type: string}", "url: {type: string}\n      kind: {type: string, default: dogs}"
        )
        path.write_text(text)
        with serving() as server:
            server.answers(page())
            run(path, server)
        assert list_paths(server) == ["/i/cats"]

    def test_connection_check_reads_the_named_streams(self, tmp_path: Path):
        path = manifest(tmp_path, stream("items", "/i"), stream("other", "/o"))
        with serving() as server:
            server.answers(page({"id": 1}))
            make_tap_class(path)(config={"url": server.url}).check_connection()
        assert list_paths(server) == ["/i"]

    def test_connection_check_without_names_makes_no_request(self, tmp_path: Path, caplog: Any):
        """As in airbyte-cdk. Before, it read every stream."""
        tail = "check: {type: CheckStream, stream_names: []}"
        path = manifest(tmp_path, stream("items", "/i"), tail=tail)
        make_tap_class(path)(config={"url": "http://127.0.0.1:9"}).check_connection()
        assert "check names no streams: no request was made" in caplog.text

    def test_connection_check_accepts_a_stream_without_slices(self, tmp_path: Path):
        router = """
        partition_router: {type: ListPartitionRouter, cursor_field: kind, values: []}
        """
        path = manifest(tmp_path, stream("items", "/{{ stream_slice.kind }}/i", retriever=router))
        with serving() as server:
            server.answers(Reply("", 404))
            make_tap_class(path)(config={"url": server.url}).check_connection()
        assert server.requests == []

    def test_connection_check_of_an_unknown_stream_is_an_error(self, tmp_path: Path):
        path = manifest(tmp_path, stream("other", "/o"))
        with pytest.raises(ConfigurationError, match=r"'items'.*'other'"):
            make_tap_class(path)(config={"url": "http://127.0.0.1:9"}).check_connection()

    def test_settings_of_the_connection_check_apply_to_the_check_only(self, tmp_path: Path):
        tail = """
        check: {type: CheckStream, stream_names: [items], config_overrides: {end: "{{ 1 }}"}}
        """
        path = manifest(tmp_path, stream("items", "/{{ config.end }}"), tail=tail)
        with serving() as server:
            server.answers(page(), page())
            tap = make_tap_class(path)(config={"url": server.url, "end": "all"})
            tap.check_connection()
            tap.sync_all()
        assert list_paths(server) == ["/%7B%7B%201%20%7D%7D", "/all"]

    def test_settings_of_the_connection_check_are_never_stored(self, tmp_path: Path):
        login = """
        authenticator:
          type: OAuthAuthenticator
          token_refresh_endpoint: "https://login.example/token"
          client_id: a
          client_secret: b
          refresh_token_updater: {}
        """
        tail = "check: {type: CheckDynamicStream, stream_count: 1, config_overrides: {end: '1'}}"
        path = manifest(tmp_path, stream("items", "/i", login), tail=tail)
        with pytest.raises(ManifestError, match=r"manifest\.yaml, line .*`refresh_token_updater`"):
            make_tap_class(path)(config={"url": "http://127.0.0.1:9"}).check_connection()

    def test_discovery_works_without_settings(self, tmp_path: Path):
        tap = make_tap_class(manifest(tmp_path, stream("items", "/i", options=CURSOR)))
        streams = tap(config={}, validate_config=False).catalog_dict["streams"]
        assert [(entry["stream"], entry["replication_key"]) for entry in streams] == [
            ("items", "at")
        ]

    def test_dynamic_schema_is_discovered(self, tmp_path: Path):
        """The response cache is set up before any schema is loaded."""
        path = manifest_with_dynamic_schema(tmp_path, stream("items", "/i"))
        with serving() as server:
            server.answers(page({"name": "a"}))
            streams = make_tap_class(path)(config={"url": server.url}).catalog_dict["streams"]
        assert list(streams[0]["schema"]["properties"]) == ["a"]
        assert list_paths(server) == ["/fields"]

    def test_schema_of_a_stream_outside_of_the_catalog_is_not_requested(self, tmp_path: Path):
        path = manifest_with_dynamic_schema(tmp_path, stream("other", "/o"), stream("items", "/i"))
        tap_class = make_tap_class(path)
        with serving() as server:
            server.answers(page({"name": "a"}), page({"id": 1}))
            catalog = tap_class(config={"url": server.url}).catalog_dict
            catalog["streams"] = [
                stream for stream in catalog["streams"] if stream["stream"] == "other"
            ]
            tap_class(config={"url": server.url}, catalog=catalog).sync_all()
        assert list_paths(server) == ["/fields", "/o"]


START, END = '"2024-01-01"', '"2024-01-25"'
FROM = "{{ config['from'] }}"
LATER_OF_TWO = (
    "{type: MinMaxDatetime, datetime: \"{{ config.get('from') }}\","
    ' min_datetime: "{{ config.floor }}"}'
)


class TestDatesFromSettings:
    """An invalid start or end date is rejected before a catalog is written."""

    @pytest.mark.every_nth_case(2)
    @pytest.mark.parametrize(
        ("replaced", "date", "named"),
        [
            (START, f'"{FROM}"', "The start_datetime is not a date-time: .*the setting 'from'"),
            (END, f'"{FROM}"', "The end_datetime is not a date-time: .*the setting 'from'"),
            (START, LATER_OF_TWO, "The start_datetime is .*the settings 'floor' and 'from'"),
        ],
    )
    @pytest.mark.parametrize("command", ["discover", "--discover"])
    def test_invalid_date_names_stream_and_setting(
        self,
        tmp_path: Path,
        command: str,
        replaced: str,
        date: str,
        named: str,
    ):
        declared = stream("items", "/i", options=CURSOR.replace(replaced, date))
        path = manifest(tmp_path, stream("other", "/o"), declared)
        config = {"url": "http://127.0.0.1:9", "floor": "2024-01-01"}
        for start, code in [("01/02/2024", 1), ("2024-01-02", 0)]:
            file = tmp_path / "config.json"
            file.write_text(json.dumps({**config, "from": start}), encoding="utf-8")
            arguments = ["--manifest", str(path), "--config", str(file)]
            command_line = [command, *arguments] if command == "discover" else [*arguments, command]
            result = subprocess.run(
                [sys.executable, "-m", "tap_core.manifest.cli", *command_line],
                capture_output=True,
                text=True,
                check=False,
            )
            assert result.returncode == code
            assert ('"streams"' in result.stdout) != bool(code)
            match = re.search(f"Stream 'items': {named}", result.stdout + result.stderr)
            assert bool(match) == bool(code)

    def test_missing_date_setting_is_named(self, tmp_path: Path):
        declared = stream("items", "/i", options=CURSOR.replace(START, f'"{FROM}"'))
        tap = make_tap_class(manifest(tmp_path, declared))(config={"url": "http://127.0.0.1:9"})
        with pytest.raises(ConfigurationError, match=r"Stream 'items': .*the setting 'from'"):
            tap.check_streams()

    def test_error_of_another_component_names_no_setting(self, tmp_path: Path):
        declared = stream("items", "/i", options=CURSOR.replace(START, f'"{FROM}"')).replace(
            "{type: DpathExtractor, field_path: [data]}",
            "{type: CustomRecordExtractor, class_name: source_declarative_manifest.components.X}",
        )
        (tmp_path / "components.py").write_text("import not_installed_anywhere", encoding="utf-8")
        config = {"url": "http://127.0.0.1:9", "from": "2024-01-02"}
        with pytest.raises(ConfigurationError, match=r"streams\[0\].*not_installed_any") as raised:
            make_tap_class(manifest(tmp_path, declared))(config=config).check_streams()
        assert "'from'" not in str(raised.value)

    def test_error_of_the_end_names_its_setting(self, tmp_path: Path):
        date = "\"{{ (config['until'] ~ '').year.real }}\""
        declared = stream(
            "items", "/i", options=CURSOR.replace(START, f'"{FROM}"').replace(END, date)
        )
        config = {"url": "http://127.0.0.1:9", "from": "2024-01-02", "until": "2024-01-03"}
        with pytest.raises(ConfigurationError, match=r"end_datetime.*setting 'until'") as raised:
            make_tap_class(manifest(tmp_path, declared))(config=config).check_streams()
        assert "'from'" not in str(raised.value)

    def test_wrong_name_of_a_component_is_not_blamed_on_the_setting(self, tmp_path: Path):
        declared = stream("items", "/i", options=CURSOR.replace(START, f'"{FROM}"'))
        path = manifest(tmp_path, declared)
        path.write_text(path.read_text().replace("DeclarativeStream", "DeclarativeStrem"))
        with pytest.raises(ManifestError, match=r"Did you mean 'DeclarativeStream'[?]$"):
            make_tap_class(path)(config={"url": "http://127.0.0.1:9"}).check_streams()

    def test_secret_used_as_a_date_is_not_shown(self, tmp_path: Path):
        date = "\"{{ config['api_key'] }}\""
        declared = stream("items", "/i", options=CURSOR.replace(START, date))
        config = {"url": "http://127.0.0.1:9", "api_key": "sesame-open"}
        with pytest.raises(ConfigurationError, match="'api_key'") as raised:
            make_tap_class(manifest(tmp_path, declared))(config=config).check_streams()
        assert "sesame" not in str(raised.value)

    def test_invalid_start_date_does_not_affect_other_streams(self, tmp_path: Path):
        declared = stream("items", "/i", options=CURSOR.replace(START, f'"{FROM}"'))
        path = manifest(tmp_path, declared, stream("other", "/o"))
        with serving() as server:
            server.answers(page({"id": 1}))
            tap = make_tap_class(path)(config={"url": server.url, "from": "soon"})
            assert [record["id"] for record in tap.streams["other"].get_records(None)] == [1]


class TestCommand:
    def test_command_without_a_manifest_prints_its_usage(self, capsys: pytest.CaptureFixture[str]):
        assert main([]) == 2
        assert "--manifest FILE" in capsys.readouterr().err

    def test_invalid_manifest_is_reported_with_its_line(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ):
        path = tmp_path / "m.yaml"
        path.write_text("a: [\n", encoding="utf-8")
        assert main(["--manifest", str(path), "--discover"]) == 1
        assert "m.yaml, line 2" in capsys.readouterr().err

    def test_missing_package_is_named_with_the_extra_to_install(self, tmp_path: Path):
        path = manifest(tmp_path, stream("items", "/i"))
        program = (
            "import sys; sys.modules['yaml'] = None\n"
            "from tap_core.manifest.cli import main\n"
            f"sys.exit(main(['--manifest', {str(path)!r}, '--discover']))"
        )
        result = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
        assert result.returncode == 1
        assert b"tap-core-sdk[manifest]" in result.stderr

    def test_invalid_option_value_is_rejected(self, capsys: pytest.CaptureFixture[str]):
        assert main(["--manifest", "m.yaml", "--cutoff", "later"]) == 2
        assert "last_record, interval_end" in capsys.readouterr().err

    def test_lint_lists_problems_by_line(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        good = manifest(tmp_path, stream("items", "/i"))
        assert main(["lint", str(good)]) == 0
        assert capsys.readouterr().out == f"{good}: 1 stream, no problems.\n"
        bad = manifest(tmp_path, stream("items", "/{{ confg.x }}"))
        assert main(["lint", str(bad)]) == 1
        output = capsys.readouterr().out
        assert f"{bad}:" in output
        assert "confg" in output
        assert output.endswith(f"\n{bad}: 1 stream, 1 error.\n")

    def test_lint_accepts_the_manifest_like_other_commands(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ):
        path = str(manifest(tmp_path, stream("items", "/{{ confg.x }}")))
        for arguments in ([path], ["--manifest", path], [f"--manifest={path}"]):
            assert main(["lint", *arguments]) == 1
            assert capsys.readouterr().out.startswith(f"{path}:")
        monkeypatch.setenv("TAP_MANIFEST_FILE", path)
        assert main(["lint"]) == 1
        assert main(["lint", "--manifest", "there-is-none.yaml"]) == 1
        output = capsys.readouterr().out.splitlines()
        assert [line for line in output if line.startswith(path)][
            1
        ] == f"{path}: 1 stream, 1 error."
        assert output[-1] == "there-is-none.yaml: 1 error."

    def test_lint_of_a_missing_file_names_no_line(self, capsys: pytest.CaptureFixture[str]):
        assert main(["lint", "there-is-none.yaml"]) == 1
        assert capsys.readouterr().out.startswith("there-is-none.yaml: error: ")

    def test_refused_credentials_are_one_line_of_standard_error(self, tmp_path: Path):
        path = manifest(tmp_path, stream("items", "/i"))
        config = tmp_path / "c.json"
        with serving() as server:
            server.answers(Reply({"error": "bad key"}, 401))
            config.write_text(json.dumps({"url": server.url}), encoding="utf-8")
            command = [sys.executable, "-m", "tap_core.manifest.cli"]
            result = subprocess.run(
                [*command, "--manifest", str(path), "--config", str(config)],
                capture_output=True,
                text=True,
                check=False,
            )
        assert result.returncode == 1
        [error] = [line for line in result.stderr.splitlines() if "| ERROR " in line]
        assert "The source refuses the credentials: check those in the config" in error
        assert "[stream 'items', GET " in error
        assert "Traceback" not in result.stderr

    def test_installed_program_runs_its_manifest(self, tmp_path: Path):
        path = manifest(tmp_path, stream("items", "/i"))
        program, victim = tmp_path / "source-items", tmp_path / "victim"
        program.symlink_to(victim)  # the link is replaced, its target is not written
        assert main(["install", str(program), "--manifest", str(path)]) == 0
        assert not victim.exists()
        result = subprocess.run(
            [str(program), "spec"], capture_output=True, check=True, cwd=Path.cwd()
        )
        message: dict[str, Any] = json.loads(result.stdout)
        settings = message["spec"]["connectionSpecification"]["properties"]
        assert settings["api_key"]["airbyte_secret"] is True

    def test_program_that_cannot_be_written_is_one_sentence(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ):
        path = manifest(tmp_path, stream("items", "/i"))
        program = tmp_path / "no" / "source-items"
        assert main(["install", str(program), "--manifest", str(path)]) == 1
        [line] = capsys.readouterr().err.splitlines()
        assert line.startswith(f"The executable '{program}' cannot be written: No such file")

    def test_manifest_can_be_set_by_an_environment_variable(self, tmp_path: Path):
        path = manifest(tmp_path, stream("items", "/i"))
        with serving() as server:
            server.answers(page({"id": 1}))
            config = tmp_path / "c.json"
            config.write_text(json.dumps({"url": server.url}), encoding="utf-8")
            result = subprocess.run(
                [sys.executable, "-m", "tap_core.manifest.cli", "--config", str(config)],
                capture_output=True,
                check=True,
                env={"TAP_MANIFEST_FILE": str(path), "PATH": ""},
            )
        kinds = [json.loads(line)["type"] for line in result.stdout.splitlines()]
        assert kinds == ["SCHEMA", "RECORD", "STATE"]


class TestFailingStream:
    def refusing(self, server: Server) -> None:
        def answer(request: ReceivedRequest) -> Reply:
            return Reply(status=403) if request.path == "/a" else page({"id": 1})

        server.answers_by(answer)

    def read(self, folder: Path, server: Server, *names: str) -> tuple[int, list[dict[str, Any]]]:
        """Run Airbyte's read of streams, and return the exit code and the messages."""
        path = manifest(folder, *(stream(name, f"/{name}") for name in names))
        config, catalog = folder / "config.json", folder / "catalog.json"
        declared = {"json_schema": {}, "supported_sync_modes": ["full_refresh"]}
        streams = [
            {
                "stream": {"name": name, **declared},
                "sync_mode": "full_refresh",
                "destination_sync_mode": "append",
            }
            for name in names
        ]
        catalog.write_text(json.dumps({"streams": streams}), encoding="utf-8")
        config.write_text(json.dumps({"url": server.url}), encoding="utf-8")
        arguments = ["read", "--manifest", path, "--config", config, "--catalog", catalog]
        result = subprocess.run(
            [sys.executable, "-m", "tap_core.manifest.cli", *map(str, arguments)],
            capture_output=True,
            check=False,
        )
        return result.returncode, [json.loads(line) for line in result.stdout.splitlines()]

    def test_other_streams_are_read_under_airbyte(self, tmp_path: Path):
        """As in airbyte-cdk; the exit code reports the failure."""
        with serving() as server:
            self.refusing(server)
            code, messages = self.read(tmp_path, server, "a", "other")
        traces = [message["trace"] for message in messages if message["type"] == "TRACE"]
        ends = {
            trace["stream_status"]["stream_descriptor"]["name"]: trace["stream_status"]["status"]
            for trace in traces
            if trace["type"] == "STREAM_STATUS"
        }
        assert code == 1
        assert ends == {"a": "INCOMPLETE", "other": "COMPLETE"}
        assert [
            message["record"]["stream"] for message in messages if message["type"] == "RECORD"
        ] == ["other"]
        [error] = [trace["error"] for trace in traces if trace["type"] == "ERROR"]
        assert error["failure_type"] == "config_error"

    def test_error_of_each_stream_names_it_under_airbyte(self, tmp_path: Path):
        """As in airbyte-cdk, so that the platform can attribute the failures."""
        statuses = {"/a": 403, "/b": 404}
        with serving() as server:
            server.answers_by(
                lambda request: (
                    Reply(status=statuses[request.path])
                    if request.path in statuses
                    else page({"id": 1})
                )
            )
            _, messages = self.read(tmp_path, server, "a", "b", "other")
        errors = [
            message["trace"]["error"] for message in messages if "error" in message.get("trace", {})
        ]
        assert [(error["stream_descriptor"], error["failure_type"]) for error in errors] == [
            ({"name": "a"}, "config_error"),
            ({"name": "b"}, "system_error"),
        ]

    def test_singer_tap_ends_at_the_first_failing_stream(self, tmp_path: Path):
        """A Singer target would take the last state as complete for all streams."""
        path = manifest(tmp_path, stream("items", "/a"), stream("other", "/b"))
        with serving() as server:
            self.refusing(server)
            result = run(path, server, fails=True)
        assert list_paths(server) == ["/a"]
        assert result.state["currently_syncing"] == "items"
