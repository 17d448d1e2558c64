"""Dynamic streams: resolved from an API, from the config, or from a list in the manifest.

Complete manifests with all three are compared with airbyte-cdk in `test_airbyte_cdk_cases`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from tap_core.exceptions import ConfigurationError, DiscoveryError
from tap_core.manifest.errors import ManifestError
from tests.http.server import ReceivedRequest, Reply, Server, page, serving
from tests.manifest.airbyte_cdk_cases.cases import CASES, CDK
from tests.manifest.running import RunResult, list_paths, run, stream
from tests.manifest.templates import (
    CONFIG,
    CREATES,
    HTTP,
    MAP_NAME,
    MAP_PATH,
    NAME,
    PARAMETRIZED,
    TABLES,
    dynamic_stream,
    make_tap,
    map_field,
    serve_tables,
    write_manifest,
)
from tests.peers import missing_reason

CHECK_FIRST = "{type: CheckDynamicStream, stream_count: 2}"


def list_streams(result: RunResult) -> list[str]:
    return [line["stream"] for line in result.lines if line["type"] == "SCHEMA"]


class TestResolvers:
    @pytest.mark.parametrize("resolver", [HTTP, CONFIG, PARAMETRIZED])
    def test_each_resolver_creates_a_stream_per_value(self, tmp_path: Path, resolver: str):
        with serving() as server:
            serve_tables(server)
            result = run(write_manifest(tmp_path, dynamic_stream(resolver)), server, config=TABLES)
        assert list_streams(result) == ["a", "b"]
        assert [request for request in list_paths(server) if request != "/tables"] == [
            "/of/a",
            "/of/b",
        ]
        assert list_paths(server).count("/tables") == (resolver is HTTP)
        assert result.records("a") == [{"id": 1, "at": "2024-01-02"}]

    def test_dynamic_streams_are_added_to_declared_streams(self, tmp_path: Path):
        path = write_manifest(
            tmp_path, dynamic_stream(PARAMETRIZED), streams=(stream("items", "/i"),)
        )
        with serving() as server:
            serve_tables(server)
            assert list_streams(run(path, server)) == ["a", "b", "items"]

    def test_several_templates_share_one_request_of_the_resolver(self, tmp_path: Path):
        second = map_field("[name]", f"more_{NAME}")
        with serving() as server:
            serve_tables(server)
            result = run(
                write_manifest(tmp_path, dynamic_stream(HTTP), dynamic_stream(HTTP, second)), server
            )
        assert list_streams(result) == ["a", "b", "more_a", "more_b"]
        assert list_paths(server).count("/tables") == 1

    def test_null_in_a_resolver_response_is_none_in_templates(self, tmp_path: Path):
        mapping = MAP_NAME + map_field(
            "[retriever, requester, path]", "of/{{ components_values.why is none }}"
        )
        with serving() as server:
            serve_tables(server, {"name": "a", "why": None}, {"name": "b"})
            run(write_manifest(tmp_path, dynamic_stream(HTTP, mapping)), server)
        assert list_paths(server)[1:] == ["/of/True", "/of/False"]

    @pytest.mark.parametrize(
        ("config", "streams"),
        [({"tables": {"name": "only"}}, ["only"]), ({}, []), ({"tables": None}, [])],
    )
    def test_config_resolver_accepts_a_single_value_or_none(
        self, tmp_path: Path, config: dict[str, Any], streams: list[str]
    ):
        assert (
            list(make_tap(write_manifest(tmp_path, dynamic_stream(CONFIG)), **config).streams)
            == streams
        )

    def test_default_values_are_added_to_those_of_the_config(self, tmp_path: Path):
        usual = CONFIG.replace("[tables]", "[tables], default_values: [{name: usual}]")
        assert list(
            make_tap(write_manifest(tmp_path, dynamic_stream(usual)), **TABLES).streams
        ) == ["a", "b", "usual"]


class TestSchemaFiles:
    LOADER = "schema_loader: {type: JsonFileSchemaLoader}"

    def make(self, folder: Path, loader: str) -> Path:
        (folder / "connector").mkdir()
        path = write_manifest(folder / "connector", dynamic_stream(HTTP))
        text = path.read_text(encoding="utf-8")
        before, _, after = text.partition("      schema_loader:\n")
        path.write_text(f"{before}      {loader}\n{after.split(chr(10), 2)[2]}", encoding="utf-8")
        for file in ("connector/a.json", "a.json", "connector/x/a.json"):
            (folder / file).parent.mkdir(exist_ok=True)
            (folder / file).write_text('{"api_key": "Sup3rSecret"}', encoding="utf-8")
        return path

    @pytest.mark.parametrize("name", ["a", "x/a", "connector/a"])
    @pytest.mark.parametrize("loader", ["", LOADER])
    def test_response_does_not_choose_a_file_outside_of_schemas(
        self, tmp_path: Path, name: str, loader: str
    ):
        """SEC10: a stream named ``config`` read the settings, which a catalog then showed."""
        with serving() as server:
            serve_tables(server, {"name": name})
            path = self.make(tmp_path, loader)
            if loader:
                with pytest.raises(ManifestError, match=r"there is no file 'schemas/a\.json'"):
                    _ = make_tap(path, server.url).streams[name].schema
            else:
                assert make_tap(path, server.url).streams[name].schema == {}

    @pytest.mark.parametrize("loader", ["", LOADER])
    def test_schema_file_in_schemas_is_used(self, tmp_path: Path, loader: str):
        path = self.make(tmp_path, loader)
        (path.parent / "schemas").mkdir()
        (path.parent / "schemas/a.json").write_text('{"type": "object"}', encoding="utf-8")
        with serving() as server:
            serve_tables(server, {"name": "a"})
            assert make_tap(path, server.url).streams["a"].schema == {"type": "object"}


class TestMappings:
    def test_mapped_parameters_override_those_of_the_template(self, tmp_path: Path):
        """This is airbyte-cdk's default ``use_parent_parameters: true``."""
        mapping = MAP_NAME + map_field('["$parameters", of]', f"of/{NAME}")
        template_options = {
            "template": "$parameters: {of: nothing}",
            "path": "{{ parameters['of'] }}",
        }
        with serving() as server:
            serve_tables(server)
            run(
                write_manifest(tmp_path, dynamic_stream(PARAMETRIZED, mapping, **template_options)),
                server,
            )
            options = "use_parent_parameters: false"
            run(
                write_manifest(
                    tmp_path,
                    dynamic_stream(PARAMETRIZED, mapping, options=options, **template_options),
                ),
                server,
            )
        assert list_paths(server) == ["/of/a", "/of/b", "/nothing", "/nothing"]

    def test_parameters_of_the_dynamic_stream_apply_to_its_template(self, tmp_path: Path):
        options = "$parameters: {at: there}"
        declared = dynamic_stream(
            PARAMETRIZED, MAP_NAME, options=options, path="{{ parameters.at }}"
        )
        with serving() as server:
            serve_tables(server)
            run(write_manifest(tmp_path, declared), server)
        assert list_paths(server) == ["/there", "/there"]

    @pytest.mark.parametrize(("creates", "query"), [("true", "?n=a"), ("false", "")])
    def test_create_or_update_creates_a_missing_option(
        self, tmp_path: Path, creates: str, query: str
    ):
        path = "[retriever, requester, request_parameters, n]"
        mapping = MAP_NAME + map_field(path, NAME, f"create_or_update: {creates}")
        only = {"tables": {"name": "a"}}
        with serving() as server:
            serve_tables(server)
            run(write_manifest(tmp_path, dynamic_stream(CONFIG, mapping)), server, config=only)
        assert list_paths(server) == [f"/x{query}"]

    def test_numeric_path_step_creates_a_list(self, tmp_path: Path):
        path = "[transformations, '0']"
        value = "{type: AddFields, fields: [{path: [new], value: '{% raw %}{{ 1 }}{% endraw %}'}]}"
        with serving() as server:
            serve_tables(server)
            second = map_field("[transformations, 0, fields, '0', path, '0']", f"new_{NAME}")
            declared = dynamic_stream(
                PARAMETRIZED, MAP_NAME + map_field(path, value, CREATES) + second
            )
            result = run(write_manifest(tmp_path, declared), server)
        assert [record["new_a"] for record in result.records("a")] == [1]

    def test_mapping_condition_is_evaluated_per_stream(self, tmp_path: Path):
        condition = "{{ components_values['name'] == 'b' }}"
        mapping = MAP_NAME + MAP_PATH + f"  condition: {json.dumps(condition)}\n"
        with serving() as server:
            serve_tables(server)
            run(write_manifest(tmp_path, dynamic_stream(CONFIG, mapping)), server, config=TABLES)
        assert list_paths(server) == ["/x", "/of/b"]

    def test_mapped_value_can_be_a_component_as_yaml_text(self, tmp_path: Path):
        record = "{% raw %}{{ record.id }}{% endraw %}"
        fields = f'fields: [{{path: [of], value: "{NAME} {record}"}}]'
        mapping = MAP_NAME + map_field(
            "[transformations]", f"- type: AddFields\n  {fields}", CREATES
        )
        with serving() as server:
            serve_tables(server)
            result = run(write_manifest(tmp_path, dynamic_stream(PARAMETRIZED, mapping)), server)
        assert [record["of"] for record in result.records("b")] == ["b 1"]

    @pytest.mark.parametrize(
        ("resolver", "value", "option", "expected"),
        [
            (CONFIG, "%Y {{ '{{' }} a", "", "%Y {{ a"),
            (CONFIG, "{{ '{{ a }}' }}", "", "{{ a }}"),
            (CONFIG, "yes", "", True),
            (CONFIG, "yes", "value_type: string", "yes"),
            (CONFIG, "2024-01-02", "", "2024-01-02"),
            (HTTP, "yes", "", "yes"),
            (HTTP, "{{ [1] }}", "", [1]),
            (HTTP, "7", "value_type: string", "7"),
            (PARAMETRIZED, "yes", "value_type: string", True),
            (PARAMETRIZED, "", "", None),
            (PARAMETRIZED, "'7'", "", 7),
        ],
    )
    def test_mapped_text_is_parsed_by_resolver_and_value_type(
        self, tmp_path: Path, resolver: str, value: str, option: str, expected: Any
    ):
        """All resolvers read Python literals; all except the HTTP resolver then read YAML."""
        mapping = MAP_NAME + map_field("[description]", value, CREATES, *filter(None, [option]))
        declared = dynamic_stream(resolver, mapping, "description: x")
        with serving() as server:
            serve_tables(server)
            resolved_tap = make_tap(write_manifest(tmp_path, declared), server.url, **TABLES)
            assert resolved_tap.streams["a"].components.node["description"] == expected

    def test_stream_template_config_is_available_in_mappings(self, tmp_path: Path):
        value = f"{{{{ stream_template_config['name'] }}}}/{NAME}"
        mapping = MAP_NAME + map_field("[retriever, requester, path]", value)
        with serving() as server:
            serve_tables(server)
            run(write_manifest(tmp_path, dynamic_stream(PARAMETRIZED, mapping)), server)
        assert list_paths(server) == ["/x/a", "/x/b"]


class TestNames:
    @pytest.mark.parametrize(
        ("resolver", "error"), [(CONFIG, ManifestError), (HTTP, DiscoveryError)]
    )
    def test_duplicate_dynamic_stream_name_is_an_error(
        self, tmp_path: Path, resolver: str, error: type[Exception]
    ):
        path = write_manifest(tmp_path, dynamic_stream(resolver, name="all of them"))
        twice = {"tables": [{"name": "a"}, {"name": "a"}]}
        with serving() as server:
            serve_tables(server, *twice["tables"])
            with pytest.raises(error, match=r"'all of them' .* second stream .* name 'a'"):
                _ = make_tap(path, server.url, **twice).streams

    def test_dynamic_stream_with_the_name_of_a_declared_stream_is_an_error(self, tmp_path: Path):
        path = write_manifest(tmp_path, dynamic_stream(CONFIG), streams=(stream("b", "/b"),))
        with pytest.raises(ManifestError, match=r"dynamic_stream_0.* 'b'"):
            _ = make_tap(path, **TABLES).streams

    @pytest.mark.parametrize("value", [7, "", None, [1]])
    def test_stream_name_that_is_not_a_string_is_an_error(self, tmp_path: Path, value: Any):
        path = write_manifest(tmp_path, dynamic_stream(CONFIG))
        with pytest.raises(ManifestError, match=r"line \d+, dynamic_streams\[0\].*not a text"):
            _ = make_tap(path, tables=[{"name": value}]).streams

    @pytest.mark.parametrize(("steps", "fails"), [("[name]", True), ('["**", name]', False)])
    def test_mapping_must_rename_both_variants_of_a_state_delegating_stream(
        self, tmp_path: Path, steps: str, fails: bool
    ):
        path = write_manifest(tmp_path, dynamic_stream(PARAMETRIZED, map_field(steps, NAME)))
        head, _, after = path.read_text().partition("    stream_template:\n")
        template, _, resolver = after.partition("    components_resolver:\n")
        kind = "      type: StateDelegatingStream\n      name: x\n"
        variants = [
            f"      {variant}:\n{indent(template, '  ')}"
            for variant in ("full_refresh_stream", "incremental_stream")
        ]
        parts = [
            head,
            "    stream_template:\n",
            kind,
            *variants,
            "    components_resolver:\n",
            resolver,
        ]
        path.write_text("".join(parts))
        if fails:
            with pytest.raises(ManifestError, match="'a' whose parts have another name"):
                _ = make_tap(path).streams
        else:
            assert list(make_tap(path).streams) == ["a", "b"]


class TestFailures:
    def test_failed_resolver_request_names_template_and_reason(self, tmp_path: Path):
        with serving() as server:
            server.answers(Reply(status=403))
            with pytest.raises(DiscoveryError, match=r"streams of 'shelves' .* discovered: 403"):
                _ = make_tap(
                    write_manifest(tmp_path, dynamic_stream(HTTP, name="shelves")), server.url
                ).streams

    def test_streams_can_be_resolved_again_after_a_failure(self, tmp_path: Path):
        with serving() as server:
            server.answers(Reply(status=403))
            resolved_tap = make_tap(write_manifest(tmp_path, dynamic_stream(HTTP)), server.url)
            with pytest.raises(DiscoveryError):
                _ = resolved_tap.streams
            serve_tables(server)
            assert list(resolved_tap.streams) == ["a", "b"]

    @pytest.mark.parametrize(
        ("command", "message_type"),
        [("check", "CONNECTION_STATUS"), ("discover", "TRACE"), ("read", "TRACE")],
    )
    def test_failed_resolver_is_a_config_error_for_airbyte(
        self, tmp_path: Path, command: str, message_type: str
    ):
        path = write_manifest(tmp_path, dynamic_stream(HTTP), check=CHECK_FIRST)
        with serving() as server:
            server.answers(Reply(status=403))
            messages = run_airbyte_command(path, command, {"url": server.url}, streams=["a"])
        message = (
            messages[-1]
            if command == "check"
            else next(message for message in messages if message["type"] == message_type)
        )
        text = json.dumps(message)
        assert message["type"] == message_type
        assert "FAILED" in text if command == "check" else '"config_error"' in text
        assert "in dynamic_streams cannot be discovered" in text

    def test_failing_mapping_template_names_its_line(self, tmp_path: Path):
        mapping = MAP_NAME + map_field("[retriever]", "{{ components_values.no.such }}")
        path = write_manifest(tmp_path, dynamic_stream(CONFIG, mapping))
        [line] = [n for n, line in enumerate(path.read_text().splitlines(), 1) if ".no." in line]
        with pytest.raises(ManifestError, match=rf"line {line}, .*components_mapping\[1\]\.value"):
            _ = make_tap(path, **TABLES).streams

    @pytest.mark.parametrize(
        ("steps", "message"),
        [("[name, of, it]", r"\[name, of, it\] leads nowhere"), ("[name, '']", "is empty")],
    )
    def test_invalid_mapping_path_names_its_line(self, tmp_path: Path, steps: str, message: str):
        path = write_manifest(
            tmp_path, dynamic_stream(CONFIG, MAP_NAME + map_field(steps, "x", CREATES))
        )
        text = path.read_text().splitlines()
        [line] = [n for n, line_text in enumerate(text) if f"field_path: {steps}" in line_text]
        with pytest.raises(ManifestError, match=rf"line {line}, dynamic_streams\[0\].*{message}"):
            _ = make_tap(path, **TABLES).streams


def run_airbyte_command(
    path: Path, command_name: str, config: dict[str, Any], *, streams: list[str] | None = None
) -> list[dict[str, Any]]:
    """Return the messages of tap_core's Airbyte source for a command."""
    folder = path.parent
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    arguments = [command_name, "--manifest", str(path), "--config", str(folder / "config.json")]
    if command_name == "read":
        declared = {"json_schema": {}, "supported_sync_modes": ["full_refresh"]}
        listed = [
            {
                "stream": {"name": name, **declared},
                "sync_mode": "full_refresh",
                "destination_sync_mode": "append",
            }
            for name in streams or []
        ]
        (folder / "catalog.json").write_text(json.dumps({"streams": listed}), encoding="utf-8")
        arguments += ["--catalog", str(folder / "catalog.json")]
    command = [sys.executable, "-m", "tap_core.manifest.cli", *arguments]
    result = subprocess.run(command, capture_output=True, check=False)
    return [json.loads(line) for line in result.stdout.splitlines()]


class TestDiscovery:
    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tap_core.manifest.cli", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_discovery_lists_dynamic_streams(self, tmp_path: Path):
        path, config = write_manifest(tmp_path, dynamic_stream(CONFIG)), tmp_path / "c.json"
        config.write_text(json.dumps({"url": "http://127.0.0.1:9", **TABLES}), encoding="utf-8")
        result = self.command("--manifest", str(path), "--config", str(config), "--discover")
        streams = json.loads(result.stdout)["streams"]
        assert [stream["stream"] for stream in streams] == ["a", "b"]
        assert "id" in streams[0]["schema"]["properties"]

    def test_about_and_spec_work_without_a_config(self, tmp_path: Path):
        path = write_manifest(tmp_path, dynamic_stream(HTTP))
        for argument in ("--about", "spec"):
            result = self.command(argument, "--manifest", str(path))
            assert result.returncode == 0
            assert "api_key" in result.stdout

    def test_discovery_without_a_config_is_an_error(self, tmp_path: Path):
        result = self.command(
            "--manifest", str(write_manifest(tmp_path, dynamic_stream(HTTP))), "--discover"
        )
        assert result.returncode == 1
        assert "'url'" in result.stderr

    def test_refresh_token_replaced_during_discovery_is_written_back(self, tmp_path: Path):
        """Streams are resolved before the sync, when the config file is already known."""
        path, config = write_manifest(tmp_path, dynamic_stream(HTTP)), tmp_path / "c.json"
        login = """
    authenticator:
      type: OAuthAuthenticator
      token_refresh_endpoint: "{{ config['url'] }}/token"
      client_id: x
      client_secret: y
      refresh_token: "{{ config['refresh_token'] }}"
"""
        begins = "definitions:\n  requester:\n"
        path.write_text(path.read_text().replace(begins, begins.rstrip() + login, 1))

        def answer(request: ReceivedRequest) -> Reply:
            if request.path == "/token":
                return Reply({"access_token": "t", "expires_in": 3600, "refresh_token": "new"})
            return page({"name": "a"}) if request.path == "/tables" else page({"id": 1})

        with serving() as server:
            server.answers_by(answer)
            for arguments in (["--config", str(config)], [f"--config={config}"]):
                settings = {"url": server.url, "refresh_token": "old"}
                config.write_text(json.dumps(settings), encoding="utf-8")
                assert self.command("--manifest", str(path), *arguments).returncode == 0
                assert json.loads(config.read_text())["refresh_token"] == "new"


class TestConnectionCheck:
    def checked(self, server: Server, path: Path, **config: Any) -> list[str]:
        serve_tables(server)
        make_tap(path, server.url, **config).check_connection()
        return list_paths(server)

    def test_check_dynamic_stream_reads_declared_streams_first(self, tmp_path: Path):
        items = (stream("items", "/i"),)
        with serving() as server:
            path = write_manifest(tmp_path, dynamic_stream(HTTP), streams=items, check=CHECK_FIRST)
            assert self.checked(server, path) == ["/tables", "/i", "/of/a"]

    def test_check_without_availability_only_resolves_streams(self, tmp_path: Path):
        check = "{type: CheckDynamicStream, stream_count: 1, use_check_availability: false}"
        path = write_manifest(tmp_path, dynamic_stream(HTTP), check=check)
        with serving() as server:
            assert self.checked(server, path) == ["/tables"]

    def test_check_fails_without_streams(self, tmp_path: Path):
        with pytest.raises(ConfigurationError, match="no stream"):
            make_tap(
                write_manifest(tmp_path, dynamic_stream(CONFIG), check=CHECK_FIRST)
            ).check_connection()

    def test_check_of_declared_streams_does_not_resolve_dynamic_ones(self, tmp_path: Path):
        router = """
        partition_router:
          type: SubstreamPartitionRouter
          parent_stream_configs:
            - {type: ParentStreamConfig, stream: "#/streams/0", parent_key: id, partition_field: p}
        """
        items = (stream("other", "/o"), stream("items", "/i", retriever=router))
        path = write_manifest(tmp_path, dynamic_stream(HTTP), streams=items)
        with serving() as server:
            assert self.checked(server, path) == ["/o", "/i"]

    @pytest.mark.parametrize(
        ("count", "tried"), [(", stream_count: 1", ["/of/a"]), ("", ["/of/a", "/of/b"])]
    )
    def test_check_reads_streams_of_the_named_template(
        self, tmp_path: Path, count: str, tried: list[str]
    ):
        check = (
            "{type: CheckStream, dynamic_streams_check_configs:"
            f" [{{type: DynamicStreamCheckConfig, dynamic_stream_name: mine{count}}}]}}"
        )
        path = write_manifest(tmp_path, dynamic_stream(PARAMETRIZED, name="mine"), check=check)
        with serving() as server:
            assert self.checked(server, path) == tried
        path = write_manifest(tmp_path, dynamic_stream(PARAMETRIZED, name="yours"), check=check)
        with pytest.raises(ConfigurationError, match=r"'mine'. Known are 'yours'"):
            make_tap(path).check_connection()

    def test_check_finds_a_dynamic_stream_by_name(self, tmp_path: Path):
        check = "{type: CheckStream, stream_names: [b]}"
        with serving() as server:
            assert self.checked(
                server, write_manifest(tmp_path, dynamic_stream(PARAMETRIZED), check=check)
            ) == ["/of/b"]


def test_dynamic_stream_resumes_from_its_state(tmp_path: Path):
    cursor = """
    incremental_sync:
      type: DatetimeBasedCursor
      cursor_field: at
      datetime_format: "%Y-%m-%d"
      start_datetime: "2024-01-01"
      end_datetime: "2024-01-31"
      start_time_option: {type: RequestOption, inject_into: request_parameter, field_name: since}
    """
    path = write_manifest(tmp_path, dynamic_stream(HTTP, template=cursor))
    with serving() as server:
        serve_tables(server)
        first = run(path, server)
        state = {"bookmarks": {"a": first.state["bookmarks"]["a"], "b": {"at": "2024-01-20"}}}
        run(path, server, state=state)
    assert list_paths(server) == [
        *("/tables", "/of/a?since=2024-01-01", "/of/b?since=2024-01-01"),
        *("/tables", "/of/a?since=2024-01-02", "/of/b?since=2024-01-20"),
    ]


# Comparison with airbyte-cdk


@pytest.mark.peer
@pytest.mark.thorough
@pytest.mark.skipif(CDK is None, reason=missing_reason("airbyte_cdk"))
@pytest.mark.parametrize("word", ["discover", "check"])
def test_catalog_and_check_equal_those_of_airbyte_cdk(tmp_path: Path, word: str):
    case = CASES["library"]
    assert CDK is not None
    theirs = [str(CDK.with_name("source-declarative-manifest")), word, "--manifest-path"]
    ours = [sys.executable, "-m", "tap_core.manifest.cli", word, "--manifest"]
    first, second = (_run_command(case, command, tmp_path / "c.json") for command in (ours, theirs))
    assert first == second
    assert first[0]


def _run_command(case: Any, command: list[str], config: Path) -> tuple[list[Any], set[str]]:
    with serving() as server:
        server.answers_by(case.api(server.url))
        config.write_text(json.dumps({**case.config, "url": server.url}), encoding="utf-8")
        arguments = [*command, str(case.manifest), "--config", str(config)]
        result = subprocess.run(arguments, capture_output=True, check=True)
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        keys = ("name", "json_schema", "source_defined_primary_key", "default_cursor_field")
        streams = [
            {key: stream[key] for key in keys if key in stream}
            for line in lines
            if line["type"] == "CATALOG"
            for stream in line["catalog"]["streams"]
        ]
        streams.sort(key=lambda entry: str(entry["name"]))
        ends = [line["connectionStatus"] for line in lines if line["type"] == "CONNECTION_STATUS"]
        return [*streams, *ends], set(list_paths(server))
