"""Warnings about a manifest are logged once, when the stream that causes them is read."""

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


def sync_and_get_log(
    path: Path, server: Server, selected: str, changes: dict[str, str], caplog: Any
) -> str:
    """Sync one selected stream and return the log."""
    server.answers_by(lambda _asked: page({"id": 1, "at": "2024-02-02"}))
    kind = make_tap_class(path, changes)
    catalog = json.loads(json.dumps(kind(config={"url": server.url}).catalog_dict))
    for entry in catalog["streams"]:
        for metadata in entry["metadata"]:
            metadata["metadata"]["selected"] = entry["stream"] == selected
    kind(config={"url": server.url}, catalog=catalog).sync_all()
    return caplog.text


@pytest.fixture(autouse=True)
def _warnings_are_logged(caplog: pytest.LogCaptureFixture) -> Any:
    logging.captureWarnings(capture=True)
    caplog.set_level(logging.WARNING)
    yield
    logging.captureWarnings(capture=False)


@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_warning_is_logged_only_for_selected_streams(
    tmp_path: Path, changes: Any, caplog: Any
) -> None:
    path = manifest(
        tmp_path, stream("one", "/one", options=FEED), stream("two", "/two", options=FEED)
    )
    with serving() as server:
        text = sync_and_get_log(path, server, "two", changes, caplog)
    assert text.count("belongs to a feed") == text.count("WARNING") == 1
    assert "streams[1].incremental_sync: The cursor 'at' belongs to a feed" in text
    assert "dataclasses.py" not in text


def test_warning_is_logged_for_a_parent_of_a_selected_stream(tmp_path: Path, caplog: Any) -> None:
    children = stream("two", "/two", retriever=ROUTER)
    path = manifest(tmp_path, stream("one", "/one", options=FEED), children)
    with serving() as server:
        text = sync_and_get_log(path, server, "two", {}, caplog)
    assert text.count("belongs to a feed") == 1


@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_discovery_logs_no_warning(tmp_path: Path, changes: Any, caplog: Any) -> None:
    path = manifest(tmp_path, stream("one", "/one", options=FEED))
    assert make_tap_class(path, changes)(config={"url": "http://x"}).catalog_dict["streams"]
    assert caplog.text == ""
