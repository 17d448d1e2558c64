"""A stream that is read in one of two ways, as itself and as a parent."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from tap_core.manifest.tap import make_tap_class
from tests.http.server import page, serving
from tests.manifest.running import asked, manifest, run, stream

CURSOR = """
incremental_sync:
  type: DatetimeBasedCursor
  cursor_field: at
  datetime_format: "%Y-%m-%d"
  start_datetime: "2024-01-01"
"""
ROUTER = """
partition_router:
  type: SubstreamPartitionRouter
  parent_stream_configs:
    - {type: ParentStreamConfig, stream: "#/streams/0", parent_key: id, partition_field: one}
"""


def declared() -> list[str]:
    """Return a stream of both ways, and another whose slices are its records."""
    whole, news = (
        indent(stream("all", path, more=CURSOR).replace("  - ", "    ", 1), "    ")
        for path in ("/all", "/news")
    )
    both = f"""\
  - type: StateDelegatingStream
    name: all
    full_refresh_stream:
{whole}
    incremental_stream:
{news}
"""
    return [both, stream("each", "/each/{{ stream_partition.one }}", retriever=ROUTER)]


def test_a_parent_is_read_whole_in_the_first_run_though_its_own_state_is_there_by_then(
    tmp_path: Path,
):
    """What counts is the state that the run began with, as in airbyte-cdk 7.39."""
    with serving() as server:
        server.answers(page({"id": 1, "at": "2024-01-02"}))
        run(manifest(tmp_path, *declared()), server)
    assert set(asked(server)) == {"/all", "/each/1"}


def test_with_a_state_it_is_asked_what_is_new_and_all_as_a_parent(tmp_path: Path):
    """As in airbyte-cdk 7.39: others' slices do not depend on the state of the stream itself."""
    state = {"bookmarks": {"all": {"at": "2024-01-02"}}}
    with serving() as server:
        server.answers(page({"id": 1, "at": "2024-01-03"}))
        run(manifest(tmp_path, *declared()), server, state=state)
    assert sorted(asked(server)) == ["/all", "/each/1", "/news"]


@pytest.mark.parametrize(("period", "path"), [("P30D", "/all"), ("P90Y", "/news")])
def test_a_state_that_the_api_has_forgotten_counts_for_nothing(
    tmp_path: Path, period: str, path: str
):
    both = declared()[0] + f"    api_retention_period: {period}\n"
    state = {"bookmarks": {"all": {"at": "2024-01-02"}}}
    with serving() as server:
        server.answers(page({"id": 1, "at": "2024-01-03"}))
        ran = run(manifest(tmp_path, both), server, state=state)
    assert asked(server) == [path]
    assert ran.state["bookmarks"]["all"]["replication_key_value"] == "2024-01-03"


@pytest.mark.parametrize(
    ("stream_name", "paths"), [("all", ["/news"]), ("each", ["/all", "/each/1"])]
)
def test_each_alone_under_airbyte(tmp_path: Path, stream_name: str, paths: list[str]):
    """A catalog of its own is looked at before the state is known."""
    kept = {"stream_descriptor": {"name": "all"}, "stream_state": {"at": "2024-01-02"}}
    files = {"catalog": {"streams": [_configured(stream_name)]}}
    files["state"] = [{"type": "STREAM", "stream": kept}]
    with serving() as server:
        server.answers(page({"id": 1, "at": "2024-01-03"}))
        files["config"] = {"url": server.url}
        command = ["read"]
        for name, content in files.items():
            (file := tmp_path / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
            command += [f"--{name}", str(file)]
        make_tap_class(manifest(tmp_path, *declared())).cli(command, standalone_mode=False)
    assert sorted(asked(server)) == paths


def _configured(name: str) -> dict[str, Any]:
    declared = {"name": name, "json_schema": {}, "supported_sync_modes": ["incremental"]}
    return {
        "stream": declared,
        "sync_mode": "incremental",
        "destination_sync_mode": "append",
        "cursor_field": ["at"],
    }
