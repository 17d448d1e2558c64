"""Texts of responses, config and states are data: never rendered as templates or run as code."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tap_core.manifest.errors import ManifestError
from tests.http.server import ReceivedRequest, Reply, page, serving
from tests.manifest.running import list_paths, manifest, run, stream
from tests.manifest.templates import (
    CONFIG,
    HTTP,
    MAP_NAME,
    NAME,
    PARAMETRIZED,
    dynamic_stream,
    make_tap,
    map_field,
    write_manifest,
)

SECRET = "the-other-secret"
PLANTED = (
    "{{ config['other_secret'] }}",
    "{% if true %}{{ config.other_secret }}{% endif %}",
    "{# gone #}x",
    "{{ config }}",
    "{% raw %}{{ config.other_secret }}{% endraw %}",
    "' ~ config.other_secret ~ '",
    "}}{{ config.other_secret }}{{ '",
)
SETTINGS = {"other_secret": SECRET}
PARAM = "[retriever, requester, request_parameters, q]"


def list_queries(server: Any) -> list[str]:
    return [value for request in server.requests for value in request.query.get("q", [])]


def dump_requests(server: Any) -> str:
    return json.dumps(
        [
            [request.path, request.query, dict(request.headers), str(request.body)]
            for request in server.requests
        ]
    )


def read_mapped_stream(
    tmp_path: Path, resolver: str, value: str, table: dict[str, Any], **settings: Any
) -> Any:
    """Read a stream with a value of a table as query parameter; return the server."""
    mapping = MAP_NAME + map_field(PARAM, value)
    declared = dynamic_stream(resolver, mapping, body="request_parameters: {q: x}")

    def answer(request: ReceivedRequest) -> Reply:
        return page(table) if request.path == "/tables" else page({"id": 1})

    with serving() as server:
        server.answers_by(answer)
        config = {**SETTINGS, "tables": [table], **settings}
        run(write_manifest(tmp_path, declared), server, config=config)
        return server


class TestResolvers:
    @pytest.mark.parametrize("resolver", [HTTP, CONFIG])
    @pytest.mark.parametrize("planted", PLANTED)
    def test_response_or_config_value_is_not_rendered_as_a_template(
        self, tmp_path: Path, resolver: str, planted: str
    ):
        """SEC10: a value of a response or of the config is sent unchanged."""
        value = "a {{ components_values['id'] }} z"
        server = read_mapped_stream(tmp_path, resolver, value, {"name": "a", "id": planted})
        assert list_queries(server) == [f"a {planted} z"]
        assert SECRET not in dump_requests(server)

    @pytest.mark.parametrize("resolver", [HTTP, CONFIG])
    def test_value_stays_data_within_a_template_of_the_manifest(
        self, tmp_path: Path, resolver: str
    ):
        """SEC10: a value of a response stays data within a template of the manifest."""
        value = "{{ components_values.id }}-{% raw %}{{ config['plain'] }}{% endraw %}"
        table = {"name": "a", "id": PLANTED[0]}
        server = read_mapped_stream(tmp_path, resolver, value, table, plain="yes")
        assert list_queries(server) == [f"{PLANTED[0]}-yes"]

    @pytest.mark.parametrize("key", ["plain'] ~ config['other_secret", "config", "x }}{{ config"])
    def test_value_inside_a_template_expression_is_rejected(self, tmp_path: Path, key: str):
        value = "{% raw %}{{ config.{% endraw %}{{ components_values.id }}{% raw %} }}{% endraw %}"
        with pytest.raises(ManifestError, match="put it outside the braces"):
            read_mapped_stream(tmp_path, HTTP, value, {"name": "a", "id": key})

    def test_value_in_quotes_may_be_a_field_name(self, tmp_path: Path):
        value = (
            "{% raw %}{{ config['{% endraw %}{{ components_values.id }}{% raw %}'] }}{% endraw %}"
        )
        server = read_mapped_stream(
            tmp_path, HTTP, value, {"name": "a", "id": "plain"}, plain="yes"
        )
        assert list_queries(server) == ["yes"]

    def test_setting_is_data_for_a_parametrized_resolver(self, tmp_path: Path):
        server = read_mapped_stream(
            tmp_path, PARAMETRIZED, "{{ config['mine'] }}", {}, mine=PLANTED[0]
        )
        assert set(list_queries(server)) == {PLANTED[0]}

    @pytest.mark.parametrize("resolver", [HTTP, CONFIG])
    def test_nested_values_and_keys_are_data(self, tmp_path: Path, resolver: str):
        table = {"name": "a", "id": {PLANTED[0]: [PLANTED[1], {"k": PLANTED[0]}]}}
        mapping = MAP_NAME + map_field("[description]", "{{ components_values['id'] }}")
        declared = dynamic_stream(resolver, mapping, "description: x")
        with serving() as server:
            server.answers(page(table))
            resolved_tap = make_tap(
                write_manifest(tmp_path, declared), server.url, tables=[table], **SETTINGS
            )
            node = resolved_tap.streams["a"].components.node["description"]
        assert node == table["id"]

    @pytest.mark.parametrize("resolver", [HTTP, CONFIG])
    def test_values_cannot_create_components(self, tmp_path: Path, resolver: str):
        """SEC10: values of a response or of the config cannot create a component."""
        (tmp_path / "components.py").write_text("open('ran', 'w')\nclass X: pass\n")
        custom = {"type": "CustomTransformation", "class_name": "components.X"}
        for path, value in (
            ("[transformations, 0]", custom),
            ("[transformations]", [custom]),
            ("[transformations, 0, type]", "CustomTransformation"),
        ):
            table = {"name": "a", "id": value}
            options = "transformations: [{type: RemoveFields, field_pointers: [[x]]}]"
            mapping = MAP_NAME + map_field(path, "{{ components_values['id'] }}")
            with serving() as server:
                server.answers(page(table))
                resolved_tap = make_tap(
                    write_manifest(tmp_path, dynamic_stream(resolver, mapping, options)),
                    server.url,
                    tables=[table],
                )
                with pytest.raises(ManifestError, match=r"a response|responses and|no `type`"):
                    list(resolved_tap.streams["a"].get_records(None))
        assert not Path("ran").exists()

    def test_setting_inside_a_yaml_component_is_not_parsed_as_yaml(self, tmp_path: Path):
        value = f'[{{type: AddFields, fields: [{{path: [new], value: "{NAME}"}}]}}]'
        mapping = map_field("[name]", "x") + map_field(
            "[transformations]", value, "create_or_update: true"
        )
        name = (
            '"}]}, {type: CustomTransformation, class_name: components.X}, {type: y, fields: [{q: z'
        )
        with serving() as server:
            server.answers(page({"id": 1}))
            path = write_manifest(tmp_path, dynamic_stream(CONFIG, mapping))
            result = run(path, server, config={"tables": [{"name": name}]})
        assert [record["new"] for record in result.records("x")] == [name]


class TestOtherValues:
    """Values of records, pages, slices and states are not rendered a second time."""

    @pytest.mark.parametrize("planted", PLANTED[:4])
    def test_values_of_parents_pages_and_added_fields_are_not_rendered(
        self, tmp_path: Path, planted: str
    ):
        """SEC10: text of parents, pages and added fields is not rendered as a template."""
        token = "{{ next_page_token.next_page_token }}"
        body = f'request_parameters: {{q: "{{{{ stream_partition.p }}}}", n: "{token}"}}'
        retriever = (
            "partition_router:\n"
            "  type: SubstreamPartitionRouter\n"
            "  parent_stream_configs:\n"
            "    - {type: ParentStreamConfig, parent_key: id, partition_field: p,"
            " stream: {$ref: '#/streams/0'}}\n"
            "paginator:\n"
            "  type: DefaultPaginator\n"
            "  page_token_option: {type: RequestOption, inject_into: header, field_name: X-Next}\n"
            "  pagination_strategy: {type: CursorPagination,"
            " cursor_value: '{{ response.next }}', stop_condition: '{{ not response.next }}'}\n"
        )
        options = (
            "transformations: [{type: AddFields, fields: [{path: [a], value: '{{ record.v }}'}]}]"
        )
        path = manifest(
            tmp_path,
            stream("parents", "/parents"),
            stream("items", "/items", body, retriever=retriever, options=options),
        )

        def answer(request: ReceivedRequest) -> Reply:
            if request.path == "/parents":
                return page({"id": planted})
            next_page = {} if "n" in request.query else {"next": planted}
            return page({"id": 1, "v": planted}, **next_page)

        with serving() as server:
            server.answers_by(answer)
            result = run(path, server, config=SETTINGS)
        assert set(list_queries(server)) == {planted}
        assert [request.query["n"] for request in server.requests if "n" in request.query] == [
            [planted]
        ]
        assert {record["a"] for record in result.records("items")} == {planted}
        assert SECRET not in dump_requests(server)
        assert SECRET not in json.dumps(result.lines)
        assert list_paths(server)


def test_loading_custom_code_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """SEC12: loading code from the folder of a manifest is logged."""
    (tmp_path / "components.py").write_text(
        "from dataclasses import dataclass\n"
        "@dataclass\n"
        "class Change:\n"
        "    def transform(self, record, **kwargs): record['x'] = 1\n"
    )
    options = "transformations: [{type: CustomTransformation, class_name: components.Change}]"
    path = manifest(tmp_path, stream("items", "/i", options=options))
    with serving() as server, caplog.at_level(logging.INFO):
        server.answers(page({"id": 1}))
        result = run(path, server)
    assert [record["x"] for record in result.records("items")] == [1]
    logged = [message for message in caplog.messages if "runs custom Python code" in message]
    assert len(logged) == 1
    assert str(tmp_path / "components.py") in logged[0]
    assert "SHA-256" in logged[0]
    linted = subprocess.run(
        [sys.executable, "-m", "tap_core.manifest.cli", "lint", str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"runs custom Python code: {tmp_path / 'components.py'}" in linted.stderr
