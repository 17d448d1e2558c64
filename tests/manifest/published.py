"""Published manifests of others, run by either side against one API that fits all of them.

Rules of the room: the manifests lie in an environment of peers, and none of their text is kept
here. Their hosts become paths of a server on loopback. What it answers is made of the manifest:
under each path that an extractor looks at, two records with all fields that its schemas name.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tap_core.incremental.formats import format_of
from tap_core.manifest.load import read_manifest
from tap_core.manifest.spec import config_jsonschema
from tests.http.server import Asked, Reply, Server, serving

__all__ = ["Told", "by_airbyte_cdk", "by_us", "example"]

_START = (dt.datetime.now(dt.timezone.utc) - dt.timedelta(days=2)).replace(microsecond=0)
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T+ ]\d\d[:%\dA.]+(Z|[+-]\d\d:?\d\d)?")
_EPOCH = re.compile(r"\b1[789]\d{8}(\d{3})?\b")
_VALUES = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}

Told = tuple[list[str], dict[str, list[Any]], int]
"""The requests, each once, without the time of day; the records by stream; the exit code."""


def by_us(manifest: Path) -> Told:
    """Return what our Airbyte source makes of a manifest."""
    command = [sys.executable, "-m", "tap_core.manifest.command", "read", "--manifest"]
    return _ran(manifest, command)


def by_airbyte_cdk(manifest: Path, python: Path) -> Told:
    """Return what airbyte-cdk makes of it."""
    command = [str(python.with_name("source-declarative-manifest")), "read", "--manifest-path"]
    return _ran(manifest, command)


def example(schema: Mapping[str, Any], name: str = "") -> Any:
    """Return settings that fit a schema, dates a few days ago."""
    said = [schema[word] for word in ("const", "default") if word in schema]
    said += (schema.get("enum") or [])[:1]
    if said:
        return said[0]
    if choices := schema.get("oneOf") or schema.get("anyOf"):
        return example(choices[0])
    if "properties" in schema:
        return {key: example(one, key) for key, one in schema["properties"].items()}
    return _plain(schema, name)


def _plain(schema: Mapping[str, Any], name: str) -> Any:
    kind = schema.get("type", "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "array":
        return [example(schema.get("items") or {})]
    if "date" in name or schema.get("format") in {"date", "date-time"}:
        is_day = schema.get("format") == "date" or schema.get("pattern", "").endswith("{2}$")
        return _START.strftime("%Y-%m-%d" if is_day else "%Y-%m-%dT%H:%M:%SZ")
    return _VALUES.get(kind, "text")


def _ran(manifest: Path, command: list[str]) -> Told:
    with serving() as server, TemporaryDirectory() as folder:
        text = manifest.read_text(encoding="utf-8").replace("https://", f"{server.url}/")
        files = {"manifest.yaml": text}
        (path := Path(folder, "manifest.yaml")).write_text(text, encoding="utf-8")
        known = read_manifest(path)
        server.answers_by(_Api(known.tree).answer)
        streams = [str(one["name"]) for one in known.streams]
        files["config.json"] = json.dumps(example(config_jsonschema(known)))
        files["catalog.json"] = json.dumps({"streams": [_configured(one) for one in streams]})
        for name, content in files.items():
            Path(folder, name).write_text(content, encoding="utf-8")
        arguments = [str(path)]
        for name in ("config", "catalog"):
            arguments += [f"--{name}", str(Path(folder, f"{name}.json"))]
        root = str(Path(__file__).parents[2])
        ran = subprocess.run(
            [*command, *arguments],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={"PYTHONPATH": root, "PATH": ""},
        )
        return _told(server, ran)


def _configured(name: str) -> dict[str, Any]:
    modes = ["full_refresh", "incremental"]
    declared = {"name": name, "json_schema": {}, "supported_sync_modes": modes}
    return {"stream": declared, "sync_mode": "incremental", "destination_sync_mode": "append"}


def _told(server: Server, ran: subprocess.CompletedProcess[str]) -> Told:
    records: dict[str, list[Any]] = {}
    for line in ran.stdout.splitlines():
        message = json.loads(line)
        if message["type"] == "RECORD":
            found = records.setdefault(message["record"]["stream"], [])
            found.append(json.loads(_masked(json.dumps(message["record"]["data"]), server)))
    for found in records.values():
        found.sort(key=lambda one: json.dumps(one, sort_keys=True))
    requests = {_masked(_shown(one), server) for one in server.asked}
    return sorted(requests), records, ran.returncode


def _shown(asked: Asked) -> str:
    query = sorted((name, *values) for name, values in asked.query.items())
    body = asked.body.decode()
    if body.startswith("{"):
        body = json.dumps(json.loads(body), sort_keys=True)
    headers = {name.lower(): value for name, value in asked.headers.items()}
    return f"{asked.method} {asked.path} {query} {headers.get('authorization')} {body}"


def _masked(text: str, server: Server) -> str:
    text = text.replace(server.url.removeprefix("http://"), "the.server")
    return _EPOCH.sub("<epoch>", _TIME.sub(r"\1", text))


# What is answered


class _Api:
    """Answers every request alike, but for pages after the second."""

    def __init__(self, tree: Mapping[str, Any]) -> None:
        nodes = list(_nodes(tree))
        extractors = [one for one in nodes if one.get("type") == "DpathExtractor"]
        self._paths = [one.get("field_path") or [] for one in extractors]
        self._pages = {
            one["page_token_option"].get("field_name")
            for one in nodes
            if isinstance(one.get("page_token_option"), dict)
        }
        self._record = _record(nodes)

    def answer(self, asked: Asked) -> Reply:
        """Answer with two records under every path, with none on a page after the second."""
        is_late = any(asked.query.get(name, ["0"])[0] not in {"0", "1"} for name in self._pages)
        records = [] if is_late else [{**self._record, "id": number} for number in (1, 2)]
        document: dict[str, Any] = {} if is_late else dict(self._record, id=1)
        for path in self._paths:
            _put(document, [str(name) for name in path], records)
        return Reply(document)


def _put(document: dict[str, Any], path: list[str], records: list[Any]) -> None:
    if path:
        *way, last = path
        for name in way:
            inner = document.get(name)
            document[name] = document = inner if isinstance(inner, dict) else {}
        document[last] = records


def _record(nodes: list[Mapping[str, Any]]) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for node in nodes:
        properties = node.get("properties")
        if isinstance(properties, dict):
            record |= {name: _value(one) for name, one in properties.items()}
    for node in nodes:
        field, form = node.get("cursor_field"), node.get("datetime_format")
        if isinstance(field, str) and isinstance(form, str) and "{{" not in field + form:
            form = (node.get("cursor_datetime_formats") or [form])[0]
            record[field] = format_of(form).write(_START)
        if isinstance(key := node.get("parent_key"), str) and "." not in key:
            record.setdefault(key, 7)
    return record


def _value(schema: Any) -> Any:
    kinds = schema.get("type", "string") if isinstance(schema, dict) else "string"
    kind = next((one for one in [*kinds] if one != "null"), None)
    return _VALUES.get(kinds if isinstance(kinds, str) else str(kind), "a text")


def _nodes(node: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(node, dict):
        yield node
        for inner in node.values():
            yield from _nodes(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from _nodes(inner)
