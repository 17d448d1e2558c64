"""Custom components that contain other components, or are used by several streams."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest

from tap_core.manifest.cdk_compat.records import TransformConfig, TypeTransformer
from tests.http.server import ReceivedRequest, Reply, page, serving
from tests.manifest.running import list_paths, manifest, run, stream
from tests.manifest.test_custom_components import CDK, CURSOR_WITH_MIGRATION, MODULE

REQUESTER = f"""
    from dataclasses import dataclass
    from {CDK}.requesters.http_requester import HttpRequester
    from {CDK}.schema.inline_schema_loader import InlineSchemaLoader

    @dataclass
    class Query(HttpRequester):
        schema_loader: InlineSchemaLoader = None

        def get_request_params(self, **kwargs):
            return {{"fields": ",".join(self.schema_loader.get_json_schema()["properties"])}}
"""
FILTER = f"""
    from dataclasses import dataclass
    from {CDK}.extractors.record_filter import RecordFilter

    @dataclass
    class Once(RecordFilter):
        def __post_init__(self, parameters):
            self._seen = set()

        def filter_records(self, records, stream_state, stream_slice=None, **kwargs):
            for record in records:
                if record["id"] not in self._seen:
                    self._seen.add(record["id"])
                    yield record
"""


def write_components(folder: Path, text: str) -> None:
    (folder / "components.py").write_text(dedent(text), encoding="utf-8")


@pytest.mark.parametrize(
    "loader",
    [
        "{type: InlineSchemaLoader, schema: {properties: {id: {}, at: {}}}}",
        "{type: JsonFileSchemaLoader, file_path: ./schemas/items.json}",
    ],
)
def test_custom_requester_can_contain_a_schema_loader(tmp_path: Path, loader: str):
    write_components(tmp_path, REQUESTER)
    (tmp_path / "schemas").mkdir()
    schema = {"type": "object", "properties": {"id": {}, "at": {}}}
    (tmp_path / "schemas" / "items.json").write_text(json.dumps(schema), encoding="utf-8")
    declared = stream("items", "/items").replace(
        '$ref: "#/definitions/requester"',
        f"type: CustomRequester\n        class_name: {MODULE}.Query\n"
        f"        schema_loader: {loader}\n"
        "        url_base: \"{{ config['url'] }}\"",
    )
    with serving() as server:
        server.answers(page({"id": 1}))
        result = run(manifest(tmp_path, declared), server)
    assert result.records("items") == [{"id": 1}]
    assert list_paths(server) == ["/items?fields=id,at"]


def test_each_child_stream_has_its_own_custom_components_of_the_parent(tmp_path: Path):
    """As in airbyte-cdk: what a filter has seen for one child has no effect on another child."""
    write_components(tmp_path, FILTER)
    parent = stream("parents", "/parents").replace(
        "        extractor:",
        f"        record_filter: {{type: CustomRecordFilter, class_name: {MODULE}.Once}}\n"
        "        extractor:",
    )
    router = """
    partition_router:
      type: SubstreamPartitionRouter
      parent_stream_configs:
        - {type: ParentStreamConfig, stream: "#/streams/0", parent_key: id, partition_field: of}
    """
    children = [
        stream(name, f"/{name}/{{{{ stream_partition.of }}}}", retriever=router)
        for name in ("first", "second")
    ]

    def answer(request: ReceivedRequest) -> Reply:
        ids = [1, 2, 1] if request.path == "/parents" else [int(request.path[-1])]
        return page(*({"id": number} for number in ids))

    with serving() as server:
        server.answers_by(answer)
        result = run(manifest(tmp_path, parent, *children), server)
    for name in ("parents", "first", "second"):
        assert [record["id"] for record in result.records(name)] == [1, 2]
    assert list_paths(server).count("/parents") == 1  # its response is cached


def test_type_transformer_converts_a_value_before_the_values_inside_it():
    """As airbyte-cdk: the function gets a list before its items are converted to their type."""
    config = TransformConfig.DefaultSchemaNormalization | TransformConfig.CustomSchemaNormalization
    transformer = TypeTransformer(config)
    transformer.registerCustomTransform(
        lambda value, _: (
            [json.dumps(element) for element in value] if isinstance(value, list) else value
        )
    )
    record = {"list": [{"key": "k"}], "object": {"n": "4"}}
    schema = {
        "definitions": {"number": {"type": "integer"}},
        "properties": {
            "list": {"type": ["null", "array"], "items": {"type": ["null", "string"]}},
            "object": {"type": "object", "properties": {"n": {"$ref": "#/definitions/number"}}},
        },
    }
    transformer.transform(record, schema)
    assert record == {"list": ['{"key": "k"}'], "object": {"n": 4}}


def test_state_migration_for_an_older_format_ignores_the_own_state_of_slices(tmp_path: Path):
    """As in airbyte-cdk, whose current states of slices have the key ``state``."""
    write_components(
        tmp_path,
        f"""
    from {CDK}.migrations.state_migration import StateMigration

    class Old(StateMigration):
        def should_migrate(self, stream_state):
            return bool(stream_state) and "state" not in stream_state

        def migrate(self, stream_state):
            return {{}}
    """,
    )
    router = "partition_router: {type: ListPartitionRouter, cursor_field: kind, values: [a, b]}"
    options = CURSOR_WITH_MIGRATION.replace("NAME", "Old")
    path = manifest(tmp_path, stream("items", "/items", retriever=router, options=options))
    with serving() as server:
        server.answers(page({"id": 1, "at": "2024-02-03"}))
        first = run(path, server)
        server.requests.clear()
        run(path, server, state=first.state)
    assert list_paths(server) == ["/items?since=2024-02-03"] * 2
