"""Text of answers, settings and states is data: it is never rendered, and never names code."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from tap_core.manifest.errors import ManifestError
from tests.http.server import Asked, Reply, page, serving
from tests.manifest.running import asked, manifest, run, stream
from tests.manifest.templates import CONFIG, HTTP, LISTED, NAME, NAMED, dynamic, put, tap, written

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


def queries(server: Any) -> list[str]:
    return [value for one in server.asked for value in one.query.get("q", [])]


def seen(server: Any) -> str:
    return json.dumps(
        [[one.path, one.query, dict(one.headers), str(one.body)] for one in server.asked]
    )


def filled_by(
    tmp_path: Path, resolver: str, value: str, table: dict[str, Any], **given: Any
) -> Any:
    """Read a stream that a mapping filled with a value of a table; return the server."""
    mapping = NAMED + put(PARAM, value)
    made = dynamic(resolver, mapping, body="request_parameters: {q: x}")

    def answer(request: Asked) -> Reply:
        return page(table) if request.path == "/tables" else page({"id": 1})

    with serving() as server:
        server.answers_by(answer)
        config = {**SETTINGS, "tables": [table], **given}
        run(written(tmp_path, made), server, config=config)
        return server


class TestResolvers:
    @pytest.mark.parametrize("resolver", [HTTP, CONFIG])
    @pytest.mark.parametrize("planted", PLANTED)
    def test_a_value_of_an_answer_or_a_setting_is_sent_as_it_is(
        self, tmp_path: Path, resolver: str, planted: str
    ):
        """SEC10: a value of an answer or a setting is sent as it is."""
        value = "a {{ components_values['id'] }} z"
        server = filled_by(tmp_path, resolver, value, {"name": "a", "id": planted})
        assert queries(server) == [f"a {planted} z"]
        assert SECRET not in seen(server)

    @pytest.mark.parametrize("resolver", [HTTP, CONFIG])
    def test_it_stays_data_within_a_template_of_the_manifest(self, tmp_path: Path, resolver: str):
        """SEC10: a value of a response stays data within a template of the manifest."""
        value = "{{ components_values.id }}-{% raw %}{{ config['plain'] }}{% endraw %}"
        table = {"name": "a", "id": PLANTED[0]}
        server = filled_by(tmp_path, resolver, value, table, plain="yes")
        assert queries(server) == [f"{PLANTED[0]}-yes"]

    @pytest.mark.parametrize("key", ["plain'] ~ config['other_secret", "config", "x }}{{ config"])
    def test_it_is_no_part_of_an_expression(self, tmp_path: Path, key: str):
        value = "{% raw %}{{ config.{% endraw %}{{ components_values.id }}{% raw %} }}{% endraw %}"
        with pytest.raises(ManifestError, match="put it outside the braces"):
            filled_by(tmp_path, HTTP, value, {"name": "a", "id": key})

    def test_between_quotes_it_may_name_a_field(self, tmp_path: Path):
        value = (
            "{% raw %}{{ config['{% endraw %}{{ components_values.id }}{% raw %}'] }}{% endraw %}"
        )
        server = filled_by(tmp_path, HTTP, value, {"name": "a", "id": "plain"}, plain="yes")
        assert queries(server) == ["yes"]

    def test_a_setting_is_data_for_a_resolver_of_lists_too(self, tmp_path: Path):
        server = filled_by(tmp_path, LISTED, "{{ config['mine'] }}", {}, mine=PLANTED[0])
        assert set(queries(server)) == {PLANTED[0]}

    @pytest.mark.parametrize("resolver", [HTTP, CONFIG])
    def test_nested_values_and_keys_are_data(self, tmp_path: Path, resolver: str):
        table = {"name": "a", "id": {PLANTED[0]: [PLANTED[1], {"k": PLANTED[0]}]}}
        mapping = NAMED + put("[description]", "{{ components_values['id'] }}")
        made = dynamic(resolver, mapping, "description: x")
        with serving() as server:
            server.answers(page(table))
            found = tap(written(tmp_path, made), server.url, tables=[table], **SETTINGS)
            node = found.streams["a"]._components.node["description"]
        assert node == table["id"]

    @pytest.mark.parametrize("resolver", [HTTP, CONFIG])
    def test_no_component_comes_from_them(self, tmp_path: Path, resolver: str):
        """SEC10: values of a response or a setting bring no component."""
        (tmp_path / "components.py").write_text("open('ran', 'w')\nclass X: pass\n")
        custom = {"type": "CustomTransformation", "class_name": "components.X"}
        for path, value in (
            ("[transformations, 0]", custom),
            ("[transformations]", [custom]),
            ("[transformations, 0, type]", "CustomTransformation"),
        ):
            table = {"name": "a", "id": value}
            more = "transformations: [{type: RemoveFields, field_pointers: [[x]]}]"
            mapping = NAMED + put(path, "{{ components_values['id'] }}")
            with serving() as server:
                server.answers(page(table))
                made = tap(
                    written(tmp_path, dynamic(resolver, mapping, more)), server.url, tables=[table]
                )
                with pytest.raises(ManifestError, match=r"a response|responses and|no `type`"):
                    list(made.streams["a"].get_records(None))
        assert not Path("ran").exists()

    def test_a_text_of_a_setting_is_not_read_as_yaml_in_the_midst_of_a_component(
        self, tmp_path: Path
    ):
        value = f'[{{type: AddFields, fields: [{{path: [new], value: "{NAME}"}}]}}]'
        mapping = put("[name]", "x") + put("[transformations]", value, "create_or_update: true")
        name = (
            '"}]}, {type: CustomTransformation, class_name: components.X}, {type: y, fields: [{q: z'
        )
        with serving() as server:
            server.answers(page({"id": 1}))
            path = written(tmp_path, dynamic(CONFIG, mapping))
            ran = run(path, server, config={"tables": [{"name": name}]})
        assert [one["new"] for one in ran.records("x")] == [name]


class TestElsewhere:
    """Values of records, pages, slices and states are rendered into a request once."""

    @pytest.mark.parametrize("planted", PLANTED[:4])
    def test_parents_and_pages_and_added_fields(self, tmp_path: Path, planted: str):
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
        more = (
            "transformations: [{type: AddFields, fields: [{path: [a], value: '{{ record.v }}'}]}]"
        )
        path = manifest(
            tmp_path,
            stream("parents", "/parents"),
            stream("items", "/items", body, retriever=retriever, more=more),
        )

        def answer(request: Asked) -> Reply:
            if request.path == "/parents":
                return page({"id": planted})
            more = {} if "n" in request.query else {"next": planted}
            return page({"id": 1, "v": planted}, **more)

        with serving() as server:
            server.answers_by(answer)
            ran = run(path, server, config=SETTINGS)
        assert set(queries(server)) == {planted}
        assert [one.query["n"] for one in server.asked if "n" in one.query] == [[planted]]
        assert {one["a"] for one in ran.records("items")} == {planted}
        assert SECRET not in seen(server)
        assert SECRET not in json.dumps(ran.lines)
        assert asked(server)


def test_code_beside_a_manifest_is_told_of_when_it_is_loaded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """SEC12: loading code beside a manifest is logged."""
    (tmp_path / "components.py").write_text(
        "from dataclasses import dataclass\n"
        "@dataclass\n"
        "class Change:\n"
        "    def transform(self, record, **kwargs): record['x'] = 1\n"
    )
    more = "transformations: [{type: CustomTransformation, class_name: components.Change}]"
    path = manifest(tmp_path, stream("items", "/i", more=more))
    with serving() as server, caplog.at_level(logging.INFO):
        server.answers(page({"id": 1}))
        ran = run(path, server)
    assert [one["x"] for one in ran.records("items")] == [1]
    told = [one for one in caplog.messages if "runs custom Python code" in one]
    assert len(told) == 1
    assert str(tmp_path / "components.py") in told[0]
    assert "SHA-256" in told[0]
