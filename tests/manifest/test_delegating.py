"""A stream that is read in one of two ways, as itself and as a parent."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

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


def test_with_a_state_it_is_asked_what_is_new_as_itself_and_as_a_parent(tmp_path: Path):
    state = {"bookmarks": {"all": {"at": "2024-01-02"}}}
    with serving() as server:
        server.answers(page({"id": 1, "at": "2024-01-03"}))
        run(manifest(tmp_path, *declared()), server, state=state)
    assert set(asked(server)) == {"/news", "/each/1"}
