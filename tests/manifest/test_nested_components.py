"""Custom components that contain other components, or are used by several streams."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest

from tests.http.server import page, serving
from tests.manifest.running import asked, manifest, run, stream

PLACE = "source_declarative_manifest.components"
CDK = "airbyte_cdk.sources.declarative"
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
        f"type: CustomRequester\n        class_name: {PLACE}.Query\n"
        f"        schema_loader: {loader}\n"
        "        url_base: \"{{ config['url'] }}\"",
    )
    with serving() as server:
        server.answers(page({"id": 1}))
        ran = run(manifest(tmp_path, declared), server)
    assert ran.records("items") == [{"id": 1}]
    assert asked(server) == ["/items?fields=id,at"]
