"""Manifests with dynamic streams, and taps of them."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

from tap_core.manifest.tap import ManifestTap, make_tap_class
from tests.http.server import ReceivedRequest, Reply, Server, page
from tests.manifest.running import manifest, stream

__all__ = [
    "CONFIG",
    "CREATES",
    "HTTP",
    "MAP_NAME",
    "MAP_PATH",
    "NAME",
    "PARAMETRIZED",
    "TABLES",
    "dynamic_stream",
    "make_tap",
    "map_field",
    "serve_tables",
    "write_manifest",
]

HTTP = """
type: HttpComponentsResolver
retriever:
  type: SimpleRetriever
  requester: {$ref: "#/definitions/requester", path: tables}
  record_selector:
    type: RecordSelector
    extractor: {type: DpathExtractor, field_path: [data]}
"""
CONFIG = """
type: ConfigComponentsResolver
stream_config: {type: StreamConfig, configs_pointer: [tables]}
"""
PARAMETRIZED = """
type: ParametrizedComponentsResolver
stream_parameters:
  type: StreamParametersDefinition
  list_of_parameters_for_stream: [{name: a, at: x}, {name: b, at: y}]
"""
TABLES = {"tables": [{"name": "a"}, {"name": "b"}]}
"""A config with which the config resolver creates the same streams as the other resolvers."""
NAME = "{{ components_values['name'] }}"
CREATES = "create_or_update: true"


def map_field(path: str, value: str, *options: str) -> str:
    """Return a component mapping; ``options`` are further options of it."""
    lines = [f"field_path: {path}", f"value: {json.dumps(value)}", *options]
    return "".join(["- type: ComponentMappingDefinition\n", *(f"  {line}\n" for line in lines)])


MAP_NAME = map_field("[name]", NAME)
MAP_PATH = map_field("[retriever, requester, path]", f"of/{NAME}")


def dynamic_stream(
    resolver: str,
    mapping: str = MAP_NAME + MAP_PATH,
    template: str = "",
    *,
    name: str = "",
    options: str = "",
    **of_template: str,
) -> str:
    """Return a dynamic stream.

    ``template`` are further lines of its template, ``options`` of itself; ``of_template`` are
    arguments of `stream`.
    """
    of_template.setdefault("path", "/x")
    template_text = stream("x", options=template, **of_template).replace("  - type", "    type", 1)
    return f"""\
  - type: DynamicDeclarativeStream
    {f"name: {name}" if name else "# without a name"}
{indent(dedent(options).strip(), " " * 4)}
    stream_template:
{indent(template_text, "  ")}
    components_resolver:
{indent(dedent(resolver).strip(), " " * 6)}
      components_mapping:
{indent(dedent(mapping).strip(), " " * 8)}
"""


def write_manifest(
    folder: Path, *dynamics: str, streams: tuple[str, ...] = (), check: str = ""
) -> Path:
    """Write a manifest of dynamic streams."""
    path = manifest(folder, *streams)
    text = path.read_text(encoding="utf-8") + "dynamic_streams:\n" + "".join(dynamics)
    if not streams:
        text = text.replace("\nstreams:\n", "\n")
    if check:
        text = text.replace("{type: CheckStream, stream_names: [items]}", check)
    path.write_text(text, encoding="utf-8")
    return path


def serve_tables(server: Server, *tables: dict[str, Any]) -> None:
    """Let the server return these tables, and one record for each."""
    rows = tables or ({"name": "a"}, {"name": "b"})

    def answer(request: ReceivedRequest) -> Reply:
        return page(*rows) if request.path == "/tables" else page({"id": 1, "at": "2024-01-02"})

    server.answers_by(answer)


def make_tap(path: Path, url: str = "http://127.0.0.1:9", **config: Any) -> ManifestTap:
    """Return the tap of a manifest, before any request."""
    return make_tap_class(path)(config={"url": url, **config}, setup_mapper=False)
