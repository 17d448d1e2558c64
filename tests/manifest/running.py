"""Manifests for an API on loopback, and runs of them with their output."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent, indent
from typing import Any
from unittest.mock import patch

from tap_core.manifest.tap import ManifestTap, make_tap_class
from tests.http.server import ReceivedRequest, Server

__all__ = ["DATE_CURSOR", "RunResult", "list_paths", "manifest", "run", "stream"]

DATE_CURSOR = """
incremental_sync:
  type: DatetimeBasedCursor
  cursor_field: at
  datetime_format: "%Y-%m-%d"
  start_datetime: "2024-01-01"
"""
"""Cursor of dates since 2024; further options of the cursor may be appended."""

_HEAD = """\
version: 6.0.0
type: DeclarativeSource
check: {type: CheckStream, stream_names: [items]}
definitions:
  requester:
    type: HttpRequester
    url_base: "{{ config['url'] }}"
spec:
  type: Spec
  connection_specification:
    type: object
    required: [url]
    properties:
      url: {type: string}
      api_key: {type: string, airbyte_secret: true}
streams:
"""


def stream(name: str, path: str, body: str = "", *, retriever: str = "", options: str = "") -> str:
    """Return a declared stream whose records are the response's ``data``.

    ``retriever`` and ``options`` are further lines of the retriever and of the stream, ``body`` of
    the requester.
    """
    return f"""\
  - type: DeclarativeStream
    name: {name}
    retriever:
      type: SimpleRetriever
      requester:
        $ref: "#/definitions/requester"
        path: {json.dumps(path)}
{indent(dedent(body), " " * 8)}
      record_selector:
        type: RecordSelector
        extractor: {{type: DpathExtractor, field_path: [data]}}
{indent(dedent(retriever), " " * 6)}
{indent(dedent(options), " " * 4)}
    schema_loader:
      type: InlineSchemaLoader
      schema: {{type: object, properties: {{id: {{type: integer}}, at: {{type: string}}}}}}
"""


def manifest(folder: Path, *streams: str, tail: str = "") -> Path:
    """Write a manifest of these streams and return its path."""
    path = folder / "manifest.yaml"
    path.write_text(_HEAD + "".join(streams) + dedent(tail), encoding="utf-8")
    return path


@dataclass(frozen=True)
class RunResult:
    """The output of a run."""

    lines: list[dict[str, Any]]
    error: BaseException | None = None

    def records(self, name: str) -> list[dict[str, Any]]:
        """Return the records of a stream."""
        return [line["record"] for line in self._of("RECORD") if line["stream"] == name]

    @property
    def states(self) -> list[dict[str, Any]]:
        """The values of all STATE messages."""
        return [line["value"] for line in self._of("STATE")]

    @property
    def state(self) -> dict[str, Any]:
        """The value of the last STATE message."""
        return self.states[-1]

    def _of(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["type"] == kind]


def run(
    path: Path,
    server: Server,
    *,
    state: dict[str, Any] | None = None,
    changes: dict[str, str] | None = None,
    config: dict[str, Any] | None = None,
    fails: bool = False,
) -> RunResult:
    """Sync all streams of a manifest against a server, without sleeping between tries."""
    kind: type[ManifestTap] = make_tap_class(path, changes)
    written = io.StringIO()
    error: BaseException | None = None
    with redirect_stdout(written), patch("backoff._sync.time.sleep", lambda _seconds: None):
        tap = kind(config={"url": server.url, **(config or {})}, state=state)
        try:
            tap.sync_all()
        except Exception as raised:
            if not fails:
                raise
            error = raised
    return RunResult([json.loads(line) for line in written.getvalue().splitlines()], error)


def list_paths(server: Server) -> list[str]:
    """Return the paths and queries of all requests, in their order."""
    return [_format_path(request) for request in server.requests]


def _format_path(request: ReceivedRequest) -> str:
    query = "&".join(f"{name}={','.join(values)}" for name, values in request.query.items())
    return f"{request.path}?{query}" if query else request.path
