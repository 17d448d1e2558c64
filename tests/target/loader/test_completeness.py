"""The classification of a final state: empty, complete, or of an unfinished sync."""

from __future__ import annotations

import pytest

from target_spark.loader.state_inspection import is_empty, is_final


@pytest.mark.parametrize("state", [b"{}", b" { } ", b"null", b"{ }\r"])
def test_empty_state_is_recognized(state: bytes) -> None:
    assert is_empty(state)


@pytest.mark.parametrize("state", [b'{"a":1}', b"[]", b"0", b'""', b'{"a": {}}'])
def test_state_with_content_is_not_empty(state: bytes) -> None:
    assert not is_empty(state)


@pytest.mark.parametrize(
    "state",
    [
        b"{}",
        b"7",
        b'{"bookmarks": {"a": {"replication_key_value": 1}}}',
        b'{"currently_syncing": null, "bookmarks": {"a": {"progress_markers": {}}}}',
        b'{"bookmarks": {"a": {"partitions": [{"context": {"x": "progress_markers"}}]}}}',
        b"[" * 700 + b"]" * 700,
    ],
    ids=lambda state: state[:80].decode(),
)
def test_state_of_a_finished_sync_is_final(state: bytes) -> None:
    assert is_final(state)


@pytest.mark.parametrize(
    "state",
    [
        b'{"currently_syncing": "a"}',
        b'{"bookmarks": {"a": {"progress_markers": {"replication_key_value": 1}}}}',
        b'{"bookmarks": {"a": {"partitions": [{}, {"progress_markers": {"x": 1}}]}}}',
        b'{"bookmarks": {"a": {"progress_tracking": {"x": 1}}}}',
        b'{"bookmarks": {"a": {"replication_key_value": 1, "snapshot_pending": true}}}',
    ],
)
def test_state_of_an_unfinished_sync_is_not_final(state: bytes) -> None:
    assert not is_final(state)
