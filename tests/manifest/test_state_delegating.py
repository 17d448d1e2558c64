"""StateDelegatingStream: full-refresh or incremental variant, also as a parent."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from tap_core.manifest.tap import make_tap_class
from tests.http.server import page, serving
from tests.manifest.running import DATE_CURSOR, list_paths, manifest, run, stream

ROUTER = """
partition_router:
  type: SubstreamPartitionRouter
  parent_stream_configs:
    - {type: ParentStreamConfig, stream: "#/streams/0", parent_key: id, partition_field: one}
"""


def declare_streams() -> list[str]:
    """Return a state-delegating stream, and a child stream with a slice per record."""
    full_refresh, incremental = (
        indent(stream("all", path, options=DATE_CURSOR).replace("  - ", "    ", 1), "    ")
        for path in ("/all", "/news")
    )
    delegating = f"""\
  - type: StateDelegatingStream
    name: all
    full_refresh_stream:
{full_refresh}
    incremental_stream:
{incremental}
"""
    return [delegating, stream("each", "/each/{{ stream_partition.one }}", retriever=ROUTER)]


def test_parent_uses_the_full_refresh_variant_in_the_first_run(
    tmp_path: Path,
):
    """The state at the start of the run decides, as in airbyte-cdk 7.39."""
    with serving() as server:
        server.answers(page({"id": 1, "at": "2024-01-02"}))
        run(manifest(tmp_path, *declare_streams()), server)
    assert set(list_paths(server)) == {"/all", "/each/1"}


def test_stream_with_a_state_is_incremental_but_full_as_a_parent(tmp_path: Path):
    """As in airbyte-cdk 7.39: slices of children do not depend on the state of the parent."""
    state = {"bookmarks": {"all": {"at": "2024-01-02"}}}
    with serving() as server:
        server.answers(page({"id": 1, "at": "2024-01-03"}))
        run(manifest(tmp_path, *declare_streams()), server, state=state)
    assert sorted(list_paths(server)) == ["/all", "/each/1", "/news"]


@pytest.mark.parametrize(("period", "path"), [("P30D", "/all"), ("P90Y", "/news")])
def test_state_older_than_the_retention_period_is_ignored(tmp_path: Path, period: str, path: str):
    delegating = declare_streams()[0] + f"    api_retention_period: {period}\n"
    state = {"bookmarks": {"all": {"at": "2024-01-02"}}}
    with serving() as server:
        server.answers(page({"id": 1, "at": "2024-01-03"}))
        result = run(manifest(tmp_path, delegating), server, state=state)
    assert list_paths(server) == [path]
    assert result.state["bookmarks"]["all"]["replication_key_value"] == "2024-01-03"


@pytest.mark.parametrize(
    ("stream_name", "paths"), [("all", ["/news"]), ("each", ["/all", "/each/1"])]
)
def test_single_selected_stream_uses_the_variant_of_its_state(
    tmp_path: Path, stream_name: str, paths: list[str]
):
    """Under Airbyte the catalog is read before the state is known."""
    stream_state = {"stream_descriptor": {"name": "all"}, "stream_state": {"at": "2024-01-02"}}
    files = {"catalog": {"streams": [_configured_stream(stream_name)]}}
    files["state"] = [{"type": "STREAM", "stream": stream_state}]
    with serving() as server:
        server.answers(page({"id": 1, "at": "2024-01-03"}))
        files["config"] = {"url": server.url}
        command = ["read"]
        for name, content in files.items():
            (file := tmp_path / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
            command += [f"--{name}", str(file)]
        make_tap_class(manifest(tmp_path, *declare_streams())).cli(command, standalone_mode=False)
    assert sorted(list_paths(server)) == paths


def _configured_stream(name: str) -> dict[str, Any]:
    declared = {"name": name, "json_schema": {}, "supported_sync_modes": ["incremental"]}
    return {
        "stream": declared,
        "sync_mode": "incremental",
        "destination_sync_mode": "append",
        "cursor_field": ["at"],
    }


def test_full_refresh_stream_without_a_cursor_stores_the_bookmark_of_the_incremental_one(
    tmp_path: Path,
):
    """The schema needs no cursor field, and values are compared in the cursor's format."""
    cursor = f"""{DATE_CURSOR.replace("%Y-%m-%d", "%d.%m.%Y").replace("2024-01-01", "01.01.2024")}
  start_time_option: {{type: RequestOption, inject_into: request_parameter, field_name: since}}
  step: P1D
  cursor_granularity: P1D
  is_client_side_incremental: true
"""
    full_refresh, incremental = (
        stream("all", path, options=options) for path, options in (("/all", ""), ("/new", cursor))
    )
    full_refresh = full_refresh.replace(", at: {type: string}", "")
    text = "  - type: StateDelegatingStream\n    name: all\n"
    for key, variant in (
        ("full_refresh_stream", full_refresh),
        ("incremental_stream", incremental),
    ):
        text += f"    {key}:\n" + indent(variant.replace("  - ", "    ", 1), "    ")
    rows = [
        {"id": n, "at": day} for n, day in enumerate(("31.12.2023", "01.02.2024", "31.01.2024"))
    ]
    path = manifest(tmp_path, text)
    with serving() as server:
        server.answers(page(*rows))
        result = run(path, server)
    assert list_paths(server) == ["/all"]
    assert result.records("all") == rows
    assert result.state["bookmarks"]["all"]["replication_key_value"] == "01.02.2024"
