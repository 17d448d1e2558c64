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
from tests.manifest.running import RunResult, asked, run, stream
from tests.manifest.templates import (
    CONFIG,
    CREATES,
    HTTP,
    LISTED,
    NAME,
    NAMED,
    PATH,
    TABLES,
    dynamic,
    of_tables,
    put,
    tap,
    written,
)
from tests.peers import missing_reason

CHECK_FIRST = "{type: CheckDynamicStream, stream_count: 2}"


def names(ran: RunResult) -> list[str]:
    return [line["stream"] for line in ran.lines if line["type"] == "SCHEMA"]


class TestResolvers:
    @pytest.mark.parametrize("resolver", [HTTP, CONFIG, LISTED])
    def test_each_resolver_creates_a_stream_per_value(self, tmp_path: Path, resolver: str):
        with serving() as server:
            of_tables(server)
            ran = run(written(tmp_path, dynamic(resolver)), server, config=TABLES)
        assert names(ran) == ["a", "b"]
        assert [one for one in asked(server) if one != "/tables"] == ["/of/a", "/of/b"]
        assert asked(server).count("/tables") == (resolver is HTTP)
        assert ran.records("a") == [{"id": 1, "at": "2024-01-02"}]

    def test_dynamic_streams_are_added_to_declared_streams(self, tmp_path: Path):
        path = written(tmp_path, dynamic(LISTED), streams=(stream("items", "/i"),))
        with serving() as server:
            of_tables(server)
            assert names(run(path, server)) == ["a", "b", "items"]

    def test_several_templates_share_one_request_of_the_resolver(self, tmp_path: Path):
        second = put("[name]", f"more_{NAME}")
        with serving() as server:
            of_tables(server)
            ran = run(written(tmp_path, dynamic(HTTP), dynamic(HTTP, second)), server)
        assert names(ran) == ["a", "b", "more_a", "more_b"]
        assert asked(server).count("/tables") == 1

    def test_null_in_a_resolver_response_is_none_in_templates(self, tmp_path: Path):
        mapping = NAMED + put(
            "[retriever, requester, path]", "of/{{ components_values.why is none }}"
        )
        with serving() as server:
            of_tables(server, {"name": "a", "why": None}, {"name": "b"})
            run(written(tmp_path, dynamic(HTTP, mapping)), server)
        assert asked(server)[1:] == ["/of/True", "/of/False"]

    @pytest.mark.parametrize(
        ("given", "streams"),
        [({"tables": {"name": "only"}}, ["only"]), ({}, []), ({"tables": None}, [])],
    )
    def test_config_resolver_accepts_a_single_value_or_none(
        self, tmp_path: Path, given: dict[str, Any], streams: list[str]
    ):
        assert list(tap(written(tmp_path, dynamic(CONFIG)), **given).streams) == streams

    def test_default_values_are_added_to_those_of_the_config(self, tmp_path: Path):
        usual = CONFIG.replace("[tables]", "[tables], default_values: [{name: usual}]")
        assert list(tap(written(tmp_path, dynamic(usual)), **TABLES).streams) == ["a", "b", "usual"]


class TestSchemaFiles:
    LOADER = "schema_loader: {type: JsonFileSchemaLoader}"

    def make(self, folder: Path, loader: str) -> Path:
        (folder / "connector").mkdir()
        path = written(folder / "connector", dynamic(HTTP))
        text = path.read_text(encoding="utf-8")
        before, _, rest = text.partition("      schema_loader:\n")
        path.write_text(f"{before}      {loader}\n{rest.split(chr(10), 2)[2]}", encoding="utf-8")
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
            of_tables(server, {"name": name})
            path = self.make(tmp_path, loader)
            if loader:
                with pytest.raises(ManifestError, match=r"there is no file 'schemas/a\.json'"):
                    _ = tap(path, server.url).streams[name].schema
            else:
                assert tap(path, server.url).streams[name].schema == {}

    @pytest.mark.parametrize("loader", ["", LOADER])
    def test_schema_file_in_schemas_is_used(self, tmp_path: Path, loader: str):
        path = self.make(tmp_path, loader)
        (path.parent / "schemas").mkdir()
        (path.parent / "schemas/a.json").write_text('{"type": "object"}', encoding="utf-8")
        with serving() as server:
            of_tables(server, {"name": "a"})
            assert tap(path, server.url).streams["a"].schema == {"type": "object"}


class TestMappings:
    def test_mapped_parameters_override_those_of_the_template(self, tmp_path: Path):
        """This is airbyte-cdk's default ``use_parent_parameters: true``."""
        mapping = NAMED + put('["$parameters", of]', f"of/{NAME}")
        given = {"template": "$parameters: {of: nothing}", "path": "{{ parameters['of'] }}"}
        with serving() as server:
            of_tables(server)
            run(written(tmp_path, dynamic(LISTED, mapping, **given)), server)
            more = "use_parent_parameters: false"
            run(written(tmp_path, dynamic(LISTED, mapping, more=more, **given)), server)
        assert asked(server) == ["/of/a", "/of/b", "/nothing", "/nothing"]

    def test_parameters_of_the_dynamic_stream_apply_to_its_template(self, tmp_path: Path):
        more = "$parameters: {at: there}"
        made = dynamic(LISTED, NAMED, more=more, path="{{ parameters.at }}")
        with serving() as server:
            of_tables(server)
            run(written(tmp_path, made), server)
        assert asked(server) == ["/there", "/there"]

    @pytest.mark.parametrize(("creates", "query"), [("true", "?n=a"), ("false", "")])
    def test_create_or_update_creates_a_missing_option(
        self, tmp_path: Path, creates: str, query: str
    ):
        path = "[retriever, requester, request_parameters, n]"
        mapping = NAMED + put(path, NAME, f"create_or_update: {creates}")
        only = {"tables": {"name": "a"}}
        with serving() as server:
            of_tables(server)
            run(written(tmp_path, dynamic(CONFIG, mapping)), server, config=only)
        assert asked(server) == [f"/x{query}"]

    def test_numeric_path_step_creates_a_list(self, tmp_path: Path):
        path = "[transformations, '0']"
        value = "{type: AddFields, fields: [{path: [new], value: '{% raw %}{{ 1 }}{% endraw %}'}]}"
        with serving() as server:
            of_tables(server)
            second = put("[transformations, 0, fields, '0', path, '0']", f"new_{NAME}")
            made = dynamic(LISTED, NAMED + put(path, value, CREATES) + second)
            ran = run(written(tmp_path, made), server)
        assert [one["new_a"] for one in ran.records("a")] == [1]

    def test_mapping_condition_is_evaluated_per_stream(self, tmp_path: Path):
        condition = "{{ components_values['name'] == 'b' }}"
        mapping = NAMED + PATH + f"  condition: {json.dumps(condition)}\n"
        with serving() as server:
            of_tables(server)
            run(written(tmp_path, dynamic(CONFIG, mapping)), server, config=TABLES)
        assert asked(server) == ["/x", "/of/b"]

    def test_mapped_value_can_be_a_component_as_yaml_text(self, tmp_path: Path):
        record = "{% raw %}{{ record.id }}{% endraw %}"
        fields = f'fields: [{{path: [of], value: "{NAME} {record}"}}]'
        mapping = NAMED + put("[transformations]", f"- type: AddFields\n  {fields}", CREATES)
        with serving() as server:
            of_tables(server)
            ran = run(written(tmp_path, dynamic(LISTED, mapping)), server)
        assert [one["of"] for one in ran.records("b")] == ["b 1"]

    @pytest.mark.parametrize(
        ("resolver", "value", "more", "given"),
        [
            (CONFIG, "%Y {{ '{{' }} a", "", "%Y {{ a"),
            (CONFIG, "{{ '{{ a }}' }}", "", "{{ a }}"),
            (CONFIG, "yes", "", True),
            (CONFIG, "yes", "value_type: string", "yes"),
            (CONFIG, "2024-01-02", "", "2024-01-02"),
            (HTTP, "yes", "", "yes"),
            (HTTP, "{{ [1] }}", "", [1]),
            (HTTP, "7", "value_type: string", "7"),
            (LISTED, "yes", "value_type: string", True),
            (LISTED, "", "", None),
            (LISTED, "'7'", "", 7),
        ],
    )
    def test_mapped_text_is_parsed_by_resolver_and_value_type(
        self, tmp_path: Path, resolver: str, value: str, more: str, given: Any
    ):
        """All resolvers read Python literals; all except the HTTP resolver then read YAML."""
        mapping = NAMED + put("[description]", value, CREATES, *filter(None, [more]))
        made = dynamic(resolver, mapping, "description: x")
        with serving() as server:
            of_tables(server)
            found = tap(written(tmp_path, made), server.url, **TABLES)
            assert found.streams["a"].components.node["description"] == given

    def test_stream_template_config_is_available_in_mappings(self, tmp_path: Path):
        value = f"{{{{ stream_template_config['name'] }}}}/{NAME}"
        mapping = NAMED + put("[retriever, requester, path]", value)
        with serving() as server:
            of_tables(server)
            run(written(tmp_path, dynamic(LISTED, mapping)), server)
        assert asked(server) == ["/x/a", "/x/b"]


class TestNames:
    @pytest.mark.parametrize(
        ("resolver", "error"), [(CONFIG, ManifestError), (HTTP, DiscoveryError)]
    )
    def test_duplicate_dynamic_stream_name_is_an_error(
        self, tmp_path: Path, resolver: str, error: type[Exception]
    ):
        path = written(tmp_path, dynamic(resolver, name="all of them"))
        twice = {"tables": [{"name": "a"}, {"name": "a"}]}
        with serving() as server:
            of_tables(server, *twice["tables"])
            with pytest.raises(error, match=r"'all of them' .* second stream .* name 'a'"):
                _ = tap(path, server.url, **twice).streams

    def test_dynamic_stream_with_the_name_of_a_declared_stream_is_an_error(self, tmp_path: Path):
        path = written(tmp_path, dynamic(CONFIG), streams=(stream("b", "/b"),))
        with pytest.raises(ManifestError, match=r"dynamic_stream_0.* 'b'"):
            _ = tap(path, **TABLES).streams

    @pytest.mark.parametrize("value", [7, "", None, [1]])
    def test_stream_name_that_is_not_a_string_is_an_error(self, tmp_path: Path, value: Any):
        path = written(tmp_path, dynamic(CONFIG))
        with pytest.raises(ManifestError, match=r"line \d+, dynamic_streams\[0\].*not a text"):
            _ = tap(path, tables=[{"name": value}]).streams

    @pytest.mark.parametrize(("steps", "fails"), [("[name]", True), ('["**", name]', False)])
    def test_mapping_must_rename_both_variants_of_a_state_delegating_stream(
        self, tmp_path: Path, steps: str, fails: bool
    ):
        path = written(tmp_path, dynamic(LISTED, put(steps, NAME)))
        head, _, rest = path.read_text().partition("    stream_template:\n")
        template, _, resolver = rest.partition("    components_resolver:\n")
        kind = "      type: StateDelegatingStream\n      name: x\n"
        ways = [
            f"      {way}:\n{indent(template, '  ')}"
            for way in ("full_refresh_stream", "incremental_stream")
        ]
        whole = [
            head,
            "    stream_template:\n",
            kind,
            *ways,
            "    components_resolver:\n",
            resolver,
        ]
        path.write_text("".join(whole))
        if fails:
            with pytest.raises(ManifestError, match="'a' whose parts have another name"):
                _ = tap(path).streams
        else:
            assert list(tap(path).streams) == ["a", "b"]


class TestFailures:
    def test_failed_resolver_request_names_template_and_reason(self, tmp_path: Path):
        with serving() as server:
            server.answers(Reply(status=403))
            with pytest.raises(DiscoveryError, match=r"streams of 'shelves' .* discovered: 403"):
                _ = tap(written(tmp_path, dynamic(HTTP, name="shelves")), server.url).streams

    def test_streams_can_be_resolved_again_after_a_failure(self, tmp_path: Path):
        with serving() as server:
            server.answers(Reply(status=403))
            made = tap(written(tmp_path, dynamic(HTTP)), server.url)
            with pytest.raises(DiscoveryError):
                _ = made.streams
            of_tables(server)
            assert list(made.streams) == ["a", "b"]

    @pytest.mark.parametrize(
        ("word", "message_type"),
        [("check", "CONNECTION_STATUS"), ("discover", "TRACE"), ("read", "TRACE")],
    )
    def test_failed_resolver_is_a_config_error_for_airbyte(
        self, tmp_path: Path, word: str, message_type: str
    ):
        path = written(tmp_path, dynamic(HTTP), check=CHECK_FIRST)
        with serving() as server:
            server.answers(Reply(status=403))
            done = run_airbyte_command(path, word, {"url": server.url}, streams=["a"])
        message = (
            done[-1]
            if word == "check"
            else next(one for one in done if one["type"] == message_type)
        )
        text = json.dumps(message)
        assert message["type"] == message_type
        assert "FAILED" in text if word == "check" else '"config_error"' in text
        assert "in dynamic_streams cannot be discovered" in text

    def test_failing_mapping_template_names_its_line(self, tmp_path: Path):
        mapping = NAMED + put("[retriever]", "{{ components_values.no.such }}")
        path = written(tmp_path, dynamic(CONFIG, mapping))
        [line] = [n for n, one in enumerate(path.read_text().splitlines(), 1) if ".no." in one]
        with pytest.raises(ManifestError, match=rf"line {line}, .*components_mapping\[1\]\.value"):
            _ = tap(path, **TABLES).streams

    @pytest.mark.parametrize(
        ("steps", "message"),
        [("[name, of, it]", r"\[name, of, it\] leads nowhere"), ("[name, '']", "is empty")],
    )
    def test_invalid_mapping_path_names_its_line(self, tmp_path: Path, steps: str, message: str):
        path = written(tmp_path, dynamic(CONFIG, NAMED + put(steps, "x", CREATES)))
        text = path.read_text().splitlines()
        [line] = [n for n, one in enumerate(text) if f"field_path: {steps}" in one]
        with pytest.raises(ManifestError, match=rf"line {line}, dynamic_streams\[0\].*{message}"):
            _ = tap(path, **TABLES).streams


def run_airbyte_command(
    path: Path, word: str, config: dict[str, Any], *, streams: list[str] | None = None
) -> list[dict[str, Any]]:
    """Return the messages of tap_core's Airbyte source for a command."""
    folder = path.parent
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    words = [word, "--manifest", str(path), "--config", str(folder / "config.json")]
    if word == "read":
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
        words += ["--catalog", str(folder / "catalog.json")]
    command = [sys.executable, "-m", "tap_core.manifest.cli", *words]
    done = subprocess.run(command, capture_output=True, check=False)
    return [json.loads(line) for line in done.stdout.splitlines()]


class TestDiscovery:
    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tap_core.manifest.cli", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_discovery_lists_dynamic_streams(self, tmp_path: Path):
        path, config = written(tmp_path, dynamic(CONFIG)), tmp_path / "c.json"
        config.write_text(json.dumps({"url": "http://127.0.0.1:9", **TABLES}), encoding="utf-8")
        done = self.command("--manifest", str(path), "--config", str(config), "--discover")
        found = json.loads(done.stdout)["streams"]
        assert [one["stream"] for one in found] == ["a", "b"]
        assert "id" in found[0]["schema"]["properties"]

    def test_about_and_spec_work_without_a_config(self, tmp_path: Path):
        path = written(tmp_path, dynamic(HTTP))
        for word in ("--about", "spec"):
            done = self.command(word, "--manifest", str(path))
            assert done.returncode == 0
            assert "api_key" in done.stdout

    def test_discovery_without_a_config_is_an_error(self, tmp_path: Path):
        done = self.command("--manifest", str(written(tmp_path, dynamic(HTTP))), "--discover")
        assert done.returncode == 1
        assert "'url'" in done.stderr

    def test_refresh_token_replaced_during_discovery_is_written_back(self, tmp_path: Path):
        """Streams are resolved before the sync, when the config file is already known."""
        path, config = written(tmp_path, dynamic(HTTP)), tmp_path / "c.json"
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
            for words in (["--config", str(config)], [f"--config={config}"]):
                given = {"url": server.url, "refresh_token": "old"}
                config.write_text(json.dumps(given), encoding="utf-8")
                assert self.command("--manifest", str(path), *words).returncode == 0
                assert json.loads(config.read_text())["refresh_token"] == "new"


class TestConnectionCheck:
    def checked(self, server: Server, path: Path, **config: Any) -> list[str]:
        of_tables(server)
        tap(path, server.url, **config).check_connection()
        return asked(server)

    def test_check_dynamic_stream_reads_declared_streams_first(self, tmp_path: Path):
        items = (stream("items", "/i"),)
        with serving() as server:
            path = written(tmp_path, dynamic(HTTP), streams=items, check=CHECK_FIRST)
            assert self.checked(server, path) == ["/tables", "/i", "/of/a"]

    def test_check_without_availability_only_resolves_streams(self, tmp_path: Path):
        check = "{type: CheckDynamicStream, stream_count: 1, use_check_availability: false}"
        path = written(tmp_path, dynamic(HTTP), check=check)
        with serving() as server:
            assert self.checked(server, path) == ["/tables"]

    def test_check_fails_without_streams(self, tmp_path: Path):
        with pytest.raises(ConfigurationError, match="no stream"):
            tap(written(tmp_path, dynamic(CONFIG), check=CHECK_FIRST)).check_connection()

    def test_check_of_declared_streams_does_not_resolve_dynamic_ones(self, tmp_path: Path):
        router = """
        partition_router:
          type: SubstreamPartitionRouter
          parent_stream_configs:
            - {type: ParentStreamConfig, stream: "#/streams/0", parent_key: id, partition_field: p}
        """
        items = (stream("other", "/o"), stream("items", "/i", retriever=router))
        path = written(tmp_path, dynamic(HTTP), streams=items)
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
        path = written(tmp_path, dynamic(LISTED, name="mine"), check=check)
        with serving() as server:
            assert self.checked(server, path) == tried
        path = written(tmp_path, dynamic(LISTED, name="yours"), check=check)
        with pytest.raises(ConfigurationError, match=r"'mine'. Known are 'yours'"):
            tap(path).check_connection()

    def test_check_finds_a_dynamic_stream_by_name(self, tmp_path: Path):
        check = "{type: CheckStream, stream_names: [b]}"
        with serving() as server:
            assert self.checked(server, written(tmp_path, dynamic(LISTED), check=check)) == [
                "/of/b"
            ]


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
    path = written(tmp_path, dynamic(HTTP, template=cursor))
    with serving() as server:
        of_tables(server)
        first = run(path, server)
        again = {"bookmarks": {"a": first.state["bookmarks"]["a"], "b": {"at": "2024-01-20"}}}
        run(path, server, state=again)
    assert asked(server) == [
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
        words = [*command, str(case.manifest), "--config", str(config)]
        done = subprocess.run(words, capture_output=True, check=True)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        kept = ("name", "json_schema", "source_defined_primary_key", "default_cursor_field")
        streams = [
            {key: one[key] for key in kept if key in one}
            for line in lines
            if line["type"] == "CATALOG"
            for one in line["catalog"]["streams"]
        ]
        streams.sort(key=lambda one: str(one["name"]))
        ends = [line["connectionStatus"] for line in lines if line["type"] == "CONNECTION_STATUS"]
        return [*streams, *ends], set(asked(server))
