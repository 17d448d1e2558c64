"""Events as messages of a source: records, states and statuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tap_core.events import (
    ActivateVersion,
    BatchFiles,
    Checkpoint,
    Estimate,
    Progress,
    Rows,
    SchemaEvent,
    StreamId,
    StreamStatus,
)
from tap_core.exceptions import UnsupportedFeatureError
from tap_core.protocols.airbyte.writer import AirbyteWriter

A, B = StreamId("a"), StreamId("main-b", "main")
WIRE = {"a": StreamId("a"), "main-b": StreamId("b", "main")}
AT = "2024-01-31T12:00:00.123456+00:00"
AT_MS = 1_706_702_400_123


class Reader:
    """An Airbyte writer and the lines that it wrote."""

    def __init__(self, *, shared: bool = False) -> None:
        self.text = b""
        self.writer = AirbyteWriter(self.write, WIRE, shared=shared)

    def write(self, lines: bytes) -> None:
        assert lines.endswith(b"\n")
        self.text += lines

    def emit(self, *events: Any) -> list[dict[str, Any]]:
        """Emit events; return the messages."""
        self.text = b""
        for event in events:
            self.writer.emit(event)
        return [json.loads(line) for line in self.text.splitlines()]

    def states(self, *events: Any) -> list[dict[str, Any]]:
        return [message["state"] for message in self.emit(*events) if message["type"] == "STATE"]

    def statuses(self, *events: Any) -> list[tuple[str, str]]:
        statuses = [
            message["trace"]["stream_status"]
            for message in self.emit(*events)
            if "trace" in message
        ]
        return [(status["stream_descriptor"]["name"], status["status"]) for status in statuses]


def rows_event(stream: StreamId, *bodies: bytes, extracted_at: Any = AT) -> Rows:
    return Rows(stream, list(bodies), extracted_at=extracted_at)


def started_event(stream: StreamId) -> StreamStatus:
    return StreamStatus(stream, Progress.STARTED)


def completed_event(stream: StreamId) -> StreamStatus:
    return StreamStatus(stream, Progress.COMPLETE)


def state_event(**bookmarks: Any) -> Checkpoint:
    return Checkpoint(json.dumps({"bookmarks": bookmarks}).encode())


# Records


def test_record_has_stream_namespace_data_and_time() -> None:
    """RD3: the data is the encoded body, byte for byte."""
    reader = Reader()
    reader.emit(started_event(B), rows_event(B, b'{"n":1.50}', b'{"n":2}'))
    first, second = (line for line in reader.text.splitlines() if b'"RECORD"' in line)
    assert first == (
        b'{"type":"RECORD","record":{"stream":"b","namespace":"main","data":{"n":1.50},'
        b'"emitted_at":%d}}' % AT_MS
    )
    assert json.loads(second)["record"]["data"] == {"n": 2}


def test_emitted_at_is_the_time_of_the_row_or_now() -> None:
    reader = Reader()
    messages = reader.emit(
        rows_event(A, b"{}", b"{}", extracted_at=[AT, None]),
        rows_event(A, b"{}", extracted_at=None),
    )
    times = [message["record"]["emitted_at"] for message in messages if message["type"] == "RECORD"]
    assert times[0] == AT_MS
    assert min(times[1:]) > 1_790_000_000_000


def test_stream_outside_the_catalog_is_skipped_and_logged_once(caplog: Any) -> None:
    """RD4: none of its messages are written."""
    other = StreamId("other")
    events = [
        started_event(other),
        rows_event(other, b"{}"),
        Estimate(other, 1),
        completed_event(other),
    ]
    assert Reader().emit(*events, *events) == []
    assert [record.message for record in caplog.records] == [
        "Stream 'other' is not in the catalog: its records are not sent."
    ]


def test_events_without_an_airbyte_message_are_skipped() -> None:
    events = [SchemaEvent(A, {}), ActivateVersion(A, 1), rows_event(A)]
    assert Reader().emit(*events) == []


def test_batch_files_are_refused() -> None:
    with pytest.raises(UnsupportedFeatureError, match="yield the rows"):
        Reader().emit(BatchFiles(A, ["/tmp/x.jsonl"], {"format": "jsonl"}))


def test_numbers_keep_their_digits_and_dates_become_text() -> None:
    from datetime import date
    from decimal import Decimal

    body = AirbyteWriter.encode({"d": Decimal("0.10"), "t": date(2024, 1, 31), "n": float("nan")})
    assert body == b'{"d":0.10,"t":"2024-01-31","n":null}'


# Statuses


def test_stream_is_started_once_and_running_at_its_first_record() -> None:
    """TR4: in this order, also for repeated events."""
    reader = Reader()
    statuses = reader.statuses(
        started_event(A),
        started_event(A),
        rows_event(A, b"{}"),
        rows_event(A, b"{}"),
        completed_event(A),
    )
    assert statuses == [("a", "STARTED"), ("a", "RUNNING"), ("a", "COMPLETE")]


def test_first_record_starts_a_stream_that_was_not_started() -> None:
    """An author may write rows of one stream while another one is read."""
    assert Reader().statuses(rows_event(A, b"{}"), started_event(A)) == [
        ("a", "STARTED"),
        ("a", "RUNNING"),
    ]


def test_aborted_sync_marks_unfinished_streams_incomplete() -> None:
    reader = Reader()
    reader.emit(started_event(A), completed_event(A), started_event(B))
    reader.text = b""
    reader.writer.break_off()
    reader.writer.break_off()
    (line,) = reader.text.splitlines()
    assert json.loads(line)["trace"]["stream_status"]["status"] == "INCOMPLETE"
    assert b'"name":"b","namespace":"main"' in line


def test_estimate_has_only_known_counts() -> None:
    """TR3: whole numbers; an unknown count is omitted."""
    (rows_only,) = Reader().emit(Estimate(A, rows=3))
    assert rows_only["trace"]["estimate"] == {"name": "a", "type": "STREAM", "row_estimate": 3}
    (rows_and_bytes,) = Reader().emit(Estimate(B, 3, 90))
    assert rows_and_bytes["trace"]["estimate"]["byte_estimate"] == 90
    assert rows_and_bytes["trace"]["estimate"]["namespace"] == "main"


def test_estimate_of_the_sync_has_type_sync() -> None:
    """TR3: platforms accept either a total or estimates per stream; the later kind is skipped."""
    total = Estimate(StreamId("tap-x"), 9, is_total=True)
    reader = Reader()
    [encoded] = reader.emit(total)
    assert encoded["trace"]["estimate"] == {"name": "tap-x", "type": "SYNC", "row_estimate": 9}
    assert reader.emit(Estimate(A, rows=3)) == []
    [second] = reader.emit(Estimate(StreamId("tap-x"), 12, is_total=True))
    assert second["trace"]["estimate"]["row_estimate"] == 12
    reader = Reader()
    assert len(reader.emit(Estimate(A, rows=3))) == len(reader.emit(Estimate(A, rows=4))) == 1
    assert reader.emit(total) == []


# States


def test_only_changed_states_of_started_streams_are_written() -> None:
    """ST2, ST11, ST13: one state per stream, with the number of records since its last state."""
    reader = Reader()
    bookmarks = {"a": {"x": 1}, "main-b": {"y": 1}, "gone": {"z": 1}}
    assert reader.states(state_event(**bookmarks)) == []
    assert reader.states(started_event(A), state_event(**bookmarks)) == []
    (state,) = reader.states(
        rows_event(A, b"{}", b"{}"), state_event(**{**bookmarks, "a": {"x": 2}})
    )
    assert state == {
        "type": "STREAM",
        "stream": {"stream_descriptor": {"name": "a"}, "stream_state": {"x": 2}},
        "sourceStats": {"recordCount": 2.0},
    }
    assert reader.states(completed_event(A)) == []
    assert reader.states(state_event(**{**bookmarks, "a": {"x": 3}})) == []
    reader.emit(started_event(B), rows_event(B, b"{}"))
    (state,) = reader.states(state_event(**{**bookmarks, "a": {"x": 3}, "main-b": {"y": 2}}))
    assert state["stream"]["stream_descriptor"] == {"name": "b", "namespace": "main"}


def test_state_is_written_byte_for_byte() -> None:
    """ST9: the state is not decoded, because decoding could change it."""
    reader = Reader()
    blob = b'{"n":1.10,"big":123456789012345678901234567890,"text":"\\u00fc"}'
    reader.emit(started_event(A), Checkpoint(b'{"bookmarks":{"a":%b}}' % blob))
    assert b'"stream_state":%b}' % blob in reader.text


def test_stream_has_a_state_before_it_is_complete() -> None:
    """ST6, ST7: also without records, and when the state did not change."""
    reader = Reader()
    messages = reader.emit(started_event(A), completed_event(A))
    assert [message["type"] for message in messages] == ["TRACE", "STATE", "TRACE"]
    assert messages[1]["state"]["stream"]["stream_state"] == {}
    reader.emit(started_event(B), state_event(**{"main-b": {"y": 1}}))
    (state,) = reader.states(rows_event(B, b"{}"), completed_event(B))
    assert state["stream"]["stream_state"] == {"y": 1}
    assert state["sourceStats"] == {"recordCount": 1.0}


def test_unchanged_input_state_is_written_only_at_the_end() -> None:
    reader = Reader()
    checkpoint = state_event(a={"x": 1})
    assert reader.states(checkpoint, started_event(A), checkpoint) == []
    (state,) = reader.states(completed_event(A))
    assert state["stream"]["stream_state"] == {"x": 1}


def test_null_bookmark_is_written_as_an_empty_state() -> None:
    """ST3: null would tell the client to reset the stream."""
    reader = Reader()
    reader.emit(started_event(A), state_event(a=None))
    (state,) = reader.states(completed_event(A))
    assert state["stream"]["stream_state"] == {}


@pytest.mark.parametrize("invalid", [b"null", b"[1]", b'{"bookmarks":[]}', b'{"bookmarks":null}'])
def test_invalid_state_document_is_skipped(invalid: bytes) -> None:
    reader = Reader()
    assert reader.states(started_event(A), Checkpoint(invalid)) == []


# Shared states


def shared_state_event(position: int, **bookmarks: Any) -> Checkpoint:
    state = {"bookmarks": bookmarks, "log": position, "currently_syncing": "a"}
    return Checkpoint(json.dumps(state).encode())


def test_streams_with_a_shared_state_have_a_global_state() -> None:
    """ST4: complete, with the shared state and the count of all records since the last one."""
    reader = Reader(shared=True)
    assert reader.states(shared_state_event(1, a={"x": 1})) == []
    reader.emit(
        started_event(A), rows_event(A, b"{}"), started_event(B), rows_event(B, b"{}", b"{}")
    )
    (state,) = reader.states(shared_state_event(2, a={"x": 2}))
    assert state == {
        "type": "GLOBAL",
        "global": {
            "shared_state": {"log": 2},
            "stream_states": [
                {"stream_descriptor": {"name": "a"}, "stream_state": {"x": 2}},
                {"stream_descriptor": {"name": "b", "namespace": "main"}, "stream_state": {}},
            ],
        },
        "sourceStats": {"recordCount": 3.0},
    }
    assert reader.states(shared_state_event(2, a={"x": 2}), completed_event(A)) == []
    (last,) = reader.states(rows_event(B, b"{}"), completed_event(B))
    assert last["global"] == state["global"]


def test_state_with_other_keys_than_bookmarks_becomes_global() -> None:
    """No key of the tap's state is lost, even if the tap does not declare a shared state."""
    reader = Reader()
    (state,) = reader.states(started_event(A), state_event(a={"x": 1}))
    assert state["type"] == "STREAM"
    (state,) = reader.states(shared_state_event(7, a={"x": 1}))
    assert state["global"]["shared_state"] == {"log": 7}
    (state,) = reader.states(state_event(a={"x": 2}))
    assert state["global"]["shared_state"] == {"log": 7}
