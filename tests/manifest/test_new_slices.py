"""New slices of a later sync: they start at the beginning or at the global cursor.

The expected requests with ``global_cursor`` are those of airbyte-cdk 7.39.1 in the same runs.
"""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from tests.http.server import ReceivedRequest, Reply, Server, page, serving
from tests.manifest.running import RunResult, manifest, run, stream

FORM = "%Y-%m-%dT%H:%M:%SZ"
CURSOR = f"""
incremental_sync:
  type: DatetimeBasedCursor
  cursor_field: at
  datetime_format: "{FORM}"
  start_datetime: "2024-01-01T00:00:00Z"
  end_datetime: "2024-03-01T00:00:00Z"
  start_time_option: {{type: RequestOption, inject_into: request_parameter, field_name: since}}
"""
SLICES = """
partition_router: {type: ListPartitionRouter, cursor_field: kind, values: "{{ config.kinds }}"}
"""
GLOBAL = {"new_slices": "global_cursor"}
START = "2024-01-01T00:00:00Z"
ROWS = {"a": "2024-02-10T10:00:00Z", "b": "2024-02-05T00:00:00Z", "d": "2024-02-07T00:00:00Z"}
THREADS = [1, 3]


def write_slices_manifest(folder: Path, threads: int = 1, options: str = "") -> Path:
    tail = f"concurrency_level: {{type: ConcurrencyLevel, default_concurrency: {threads}}}"
    items = stream("items", "/{{ stream_slice.kind }}", retriever=SLICES, options=CURSOR + options)
    return manifest(folder, items, tail=tail)


def serve_slices(server: Server, *refused_kinds: str) -> None:
    """Let the server return the records of ``ROWS`` per slice, and refuse some slices."""

    def answer(request: ReceivedRequest) -> Reply:
        kind = request.path.strip("/")
        if kind in refused_kinds:
            return Reply("", 404)
        return page({"id": 1, "at": ROWS[kind]}) if kind in ROWS else page()

    server.answers_by(answer)


def sync_slices(
    path: Path, server: Server, kinds: str, before: RunResult | None = None, **options: Any
) -> RunResult:
    """Sync the slices of these letters from the state of an earlier run."""
    server.requests.clear()
    state = before.state if before else None
    return run(path, server, state=state, config={"kinds": list(kinds)}, **options)


def starts_by_slice(server: Server) -> dict[str, str]:
    return {request.path.strip("/"): request.query["since"][0] for request in server.requests}


def subtract(text: str, seconds: float) -> str:
    moment = dt.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return (moment - dt.timedelta(seconds=seconds)).strftime(FORM)


def global_cursor(result: RunResult) -> dict[str, Any]:
    cursor: dict[str, Any] = result.state["bookmarks"]["items"]["global_cursor"]
    return cursor


def test_new_slices_start_at_the_beginning_by_default(tmp_path: Path):
    path = write_slices_manifest(tmp_path)
    with serving() as server:
        serve_slices(server)
        first = sync_slices(path, server, "abc")
        second = sync_slices(path, server, "abcd", first)
    assert starts_by_slice(server) == {"a": ROWS["a"], "b": ROWS["b"], "c": START, "d": START}
    assert "global_cursor" not in second.state["bookmarks"]["items"]


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("days", [0, 2])
def test_new_slices_start_at_the_global_cursor_minus_the_lookback(
    tmp_path: Path, threads: int, days: int
):
    """Earlier slices without records are not new and start at the beginning again."""
    path = write_slices_manifest(
        tmp_path, threads, f"  lookback_window: P{days}D\n" if days else ""
    )
    with serving() as server:
        serve_slices(server)
        first = sync_slices(path, server, "abc", changes=GLOBAL)
        assert starts_by_slice(server) == dict.fromkeys("abc", START)
        assert global_cursor(first)["replication_key_value"] == ROWS["a"]
        begin = subtract(ROWS["a"], global_cursor(first)["lookback_window"])
        assert begin < ROWS["a"]
        starts = {"a": ROWS["a"], "b": ROWS["b"], "d": begin, "e": begin}
        expected = {kind: subtract(start, days * 86_400) for kind, start in starts.items()}
        second = sync_slices(path, server, "abcde", first, changes=GLOBAL)
        assert starts_by_slice(server) == {**expected, "c": START}
        sync_slices(path, server, "abcde", second, changes=GLOBAL)
        assert starts_by_slice(server) == {**expected, "c": START}


@pytest.mark.parametrize("threads", THREADS)
def test_new_slices_start_at_the_beginning_after_a_failed_first_sync(tmp_path: Path, threads: int):
    """The positions of the first slices do not cover slices that were never read."""
    path = write_slices_manifest(tmp_path, threads)
    with serving() as server:
        serve_slices(server, "b")
        first = sync_slices(path, server, "ab", changes=GLOBAL, fails=True)
        serve_slices(server)
        sync_slices(path, server, "abd", first, changes=GLOBAL)
    assert starts_by_slice(server) == {"a": ROWS["a"], "b": START, "d": START}


def test_failed_new_slice_starts_at_the_same_position_again(tmp_path: Path):
    path = write_slices_manifest(tmp_path)
    with serving() as server:
        serve_slices(server)
        first = sync_slices(path, server, "a", changes=GLOBAL)
        begin = subtract(ROWS["a"], global_cursor(first)["lookback_window"])
        serve_slices(server, "d")
        second = sync_slices(path, server, "ad", first, changes=GLOBAL, fails=True)
        assert starts_by_slice(server)["d"] == begin
        sync_slices(path, server, "ad", second, changes=GLOBAL, fails=True)
        assert starts_by_slice(server)["d"] == begin


def test_global_cursor_of_an_airbyte_cdk_state_is_used(tmp_path: Path):
    theirs = {
        "use_global_cursor": False,
        "states": [{"partition": {"kind": "a"}, "cursor": {"at": ROWS["b"]}}],
        "state": {"at": ROWS["a"]},
        "lookback_window": 7,
    }
    path = write_slices_manifest(tmp_path)
    for changes, begin in [(GLOBAL, "2024-02-10T09:59:53Z"), ({}, START)]:
        with serving() as server:
            serve_slices(server)
            state = {"bookmarks": {"items": theirs}}
            run(path, server, state=state, config={"kinds": ["a", "d"]}, changes=changes)
            assert starts_by_slice(server) == {"a": ROWS["b"], "d": begin}


def test_new_slices_of_a_parent_start_at_its_global_cursor(tmp_path: Path):
    """The parent's global cursor is part of the parent state in the child's state."""
    parent = stream("items", "/{{ stream_slice.kind }}", retriever=SLICES, options=CURSOR)
    router = f"""
partition_router:
  type: SubstreamPartitionRouter
  parent_stream_configs:
    - type: ParentStreamConfig
      incremental_dependency: true
      parent_key: id
      partition_field: item
      stream:
{indent(parent, "        ").replace("- type", "  type", 1)}
"""
    child = stream("parts", "/parts", retriever=router, options=CURSOR)
    path = manifest(tmp_path, child)
    with serving() as server:
        serve_slices(server)
        first = sync_slices(path, server, "ab", changes=GLOBAL)
        parent_state = first.state["bookmarks"]["parts"]["parent_state"]["items"]
        stored = parent_state["global_cursor"]
        assert stored["replication_key_value"] == ROWS["a"]
        sync_slices(path, server, "abd", first, changes=GLOBAL)
        begin = subtract(ROWS["a"], stored["lookback_window"])
        assert starts_by_slice(server)["d"] == begin


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("soon", 1), (None, 1), (7, 1), (ROWS["a"], "long"), (ROWS["a"], 10**15), (ROWS["a"], [])],
)
def test_invalid_global_cursor_is_ignored(tmp_path: Path, value: Any, seconds: Any):
    entry = {"context": {"kind": "a"}, "replication_key": "at", "replication_key_value": ROWS["a"]}
    cursor = {"replication_key": "at", "replication_key_value": value, "lookback_window": seconds}
    state = {"bookmarks": {"items": {"partitions": [entry], "global_cursor": cursor}}}
    with serving() as server:
        serve_slices(server)
        config = {"kinds": ["a", "d"]}
        run(write_slices_manifest(tmp_path), server, state=state, config=config, changes=GLOBAL)
        assert starts_by_slice(server)["d"] == START


def test_command_line_flag_enables_the_global_cursor(tmp_path: Path):
    path = write_slices_manifest(tmp_path)
    with serving() as server:
        serve_slices(server)
        file = tmp_path / "config.json"
        file.write_text(json.dumps({"url": server.url, "kinds": ["a"]}), encoding="utf-8")
        flags = ["--manifest", str(path), "--config", str(file), "--new-slices", "global_cursor"]
        result = subprocess.run(
            [sys.executable, "-m", "tap_core.manifest.cli", *flags],
            capture_output=True,
            text=True,
            check=True,
        )
    last = [json.loads(line) for line in result.stdout.splitlines()][-1]
    assert last["value"]["bookmarks"]["items"]["global_cursor"]["replication_key"] == "at"
