"""What is odd in a manifest is told once, when something is read of the stream that has it."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from tap_core.manifest.tap import make_tap_class
from tests.http.server import Server, page, serving
from tests.manifest.running import manifest, stream

FEED = """
incremental_sync:
  type: DatetimeBasedCursor
  cursor_field: at
  start_datetime: "2024-01-01"
  datetime_format: "%Y-%m-%d"
  is_data_feed: true
  step: P10D
  cursor_granularity: P1D
"""
ROUTER = """
partition_router:
  type: SubstreamPartitionRouter
  parent_stream_configs:
    - type: ParentStreamConfig
      stream: "#/streams/0"
      parent_key: id
      partition_field: parent
"""
CHANGES: list[dict[str, str]] = [{}, {"cutoff": "interval_end"}, {"boundary": "drop"}]


def told(path: Path, server: Server, selected: str, changes: dict[str, str], caplog: Any) -> str:
    """Sync one stream as a catalog selects it; return what was warned of."""
    server.answers_by(lambda _asked: page({"id": 1, "at": "2024-02-02"}))
    kind = make_tap_class(path, changes)
    catalog = json.loads(json.dumps(kind(config={"url": server.url}).catalog_dict))
    for entry in catalog["streams"]:
        for one in entry["metadata"]:
            one["metadata"]["selected"] = entry["stream"] == selected
    kind(config={"url": server.url}, catalog=catalog).sync_all()
    return caplog.text


@pytest.fixture(autouse=True)
def _warnings_are_logged(caplog: pytest.LogCaptureFixture) -> Any:
    logging.captureWarnings(capture=True)
    caplog.set_level(logging.WARNING)
    yield
    logging.captureWarnings(capture=False)


@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_only_of_streams_that_are_selected(tmp_path: Path, changes: Any, caplog: Any) -> None:
    path = manifest(tmp_path, stream("one", "/one", more=FEED), stream("two", "/two", more=FEED))
    with serving() as server:
        text = told(path, server, "two", changes, caplog)
    assert text.count("belongs to a feed") == text.count("WARNING") == 1
    assert "streams[1].incremental_sync: The cursor 'at' belongs to a feed" in text
    assert "dataclasses.py" not in text


def test_also_of_a_parent_that_is_read_for_others(tmp_path: Path, caplog: Any) -> None:
    children = stream("two", "/two", retriever=ROUTER)
    path = manifest(tmp_path, stream("one", "/one", more=FEED), children)
    with serving() as server:
        text = told(path, server, "two", {}, caplog)
    assert text.count("belongs to a feed") == 1


@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_not_when_streams_are_discovered(tmp_path: Path, changes: Any, caplog: Any) -> None:
    path = manifest(tmp_path, stream("one", "/one", more=FEED))
    assert make_tap_class(path, changes)(config={"url": "http://x"}).catalog_dict["streams"]
    assert caplog.text == ""
