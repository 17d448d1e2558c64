"""Events to lines: what a reader sees of records, states and statuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tap_core.events import (
    ActivateVersion,
    BatchFiles,
    Checkpoint,
    Estimate,
    LogEvent,
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
    """An outlet and what it wrote."""

    def __init__(self, *, shared: bool = False) -> None:
        self.text = b""
        self.outlet = AirbyteWriter(self.write, WIRE, shared=shared)

    def write(self, lines: bytes) -> None:
        assert lines.endswith(b"\n")
        self.text += lines

    def tell(self, *events: Any) -> list[dict[str, Any]]:
        """Return the messages of some events."""
        self.text = b""
        for event in events:
            self.outlet.emit(event)
        return [json.loads(line) for line in self.text.splitlines()]

    def states(self, *events: Any) -> list[dict[str, Any]]:
        return [each["state"] for each in self.tell(*events) if each["type"] == "STATE"]

    def statuses(self, *events: Any) -> list[tuple[str, str]]:
        told = [each["trace"]["stream_status"] for each in self.tell(*events) if "trace" in each]
        return [(each["stream_descriptor"]["name"], each["status"]) for each in told]


def rows(stream: StreamId, *bodies: bytes, at: Any = AT) -> Rows:
    return Rows(stream, list(bodies), extracted_at=at)


def begun(stream: StreamId) -> StreamStatus:
    return StreamStatus(stream, Progress.STARTED)


def ended(stream: StreamId) -> StreamStatus:
    return StreamStatus(stream, Progress.COMPLETE)


def document(**bookmarks: Any) -> Checkpoint:
    return Checkpoint(json.dumps({"bookmarks": bookmarks}).encode())


# Records


def test_a_record_says_its_stream_its_namespace_and_when_it_was_read() -> None:
    """RD3: the body as it is encoded, byte for byte."""
    reader = Reader()
    reader.tell(begun(B), rows(B, b'{"n":1.50}', b'{"n":2}'))
    first, second = (line for line in reader.text.splitlines() if b'"RECORD"' in line)
    assert first == (
        b'{"type":"RECORD","record":{"stream":"b","namespace":"main","data":{"n":1.50},'
        b'"emitted_at":%d}}' % AT_MS
    )
    assert json.loads(second)["record"]["data"] == {"n": 2}


def test_times_may_be_those_of_single_rows_or_none() -> None:
    reader = Reader()
    messages = reader.tell(rows(A, b"{}", b"{}", at=[AT, None]), rows(A, b"{}", at=None))
    found = [each["record"]["emitted_at"] for each in messages if each["type"] == "RECORD"]
    assert found[0] == AT_MS
    assert min(found[1:]) > 1_790_000_000_000


def test_a_stream_that_is_not_in_the_catalog_is_left_out_and_said_once(caplog: Any) -> None:
    """RD4: nothing of it goes out."""
    other = StreamId("other")
    events = [begun(other), rows(other, b"{}"), Estimate(other, 1), ended(other)]
    assert Reader().tell(*events, *events) == []
    assert [record.message for record in caplog.records] == [
        "Stream 'other' is not in the catalog: its records are not sent."
    ]


def test_what_has_no_message_is_left_out() -> None:
    events = [SchemaEvent(A, {}), ActivateVersion(A, 1), LogEvent("INFO", "hello"), rows(A)]
    assert Reader().tell(*events) == []


def test_rows_in_files_are_refused_because_airbyte_cannot_read_them() -> None:
    with pytest.raises(UnsupportedFeatureError, match="yield the rows"):
        Reader().tell(BatchFiles(A, ["/tmp/x.jsonl"], {"format": "jsonl"}))


def test_numbers_keep_their_digits_and_odd_values_become_text() -> None:
    from datetime import date
    from decimal import Decimal

    body = AirbyteWriter.encode({"d": Decimal("0.10"), "t": date(2024, 1, 31), "n": float("nan")})
    assert body == b'{"d":0.10,"t":"2024-01-31","n":null}'


# Statuses


def test_a_stream_is_started_once_and_running_with_its_first_record() -> None:
    """TR4: in this order, whatever comes twice."""
    reader = Reader()
    said = reader.statuses(begun(A), begun(A), rows(A, b"{}"), rows(A, b"{}"), ended(A))
    assert said == [("a", "STARTED"), ("a", "RUNNING"), ("a", "COMPLETE")]


def test_records_that_come_before_their_stream_has_begun_begin_it() -> None:
    """An author may write rows of one stream while another is being read."""
    assert Reader().statuses(rows(A, b"{}"), begun(A)) == [("a", "STARTED"), ("a", "RUNNING")]


def test_what_broke_off_says_so_of_what_has_not_ended() -> None:
    reader = Reader()
    reader.tell(begun(A), ended(A), begun(B))
    reader.text = b""
    reader.outlet.break_off()
    reader.outlet.break_off()
    (line,) = reader.text.splitlines()
    assert json.loads(line)["trace"]["stream_status"]["status"] == "INCOMPLETE"
    assert b'"name":"b","namespace":"main"' in line


def test_an_estimate_says_what_is_known() -> None:
    """TR3: whole numbers, and nothing where nothing is known."""
    (rows_only,) = Reader().tell(Estimate(A, rows=3))
    assert rows_only["trace"]["estimate"] == {"name": "a", "type": "STREAM", "row_estimate": 3}
    (both,) = Reader().tell(Estimate(B, 3, 90))
    assert both["trace"]["estimate"]["byte_estimate"] == 90
    assert both["trace"]["estimate"]["namespace"] == "main"


def test_an_estimate_of_the_whole_sync_has_its_type() -> None:
    """TR3: a stream's is left out behind it, and the other way: platforms take no mixture."""
    total = Estimate(StreamId("tap-x"), 9, is_total=True)
    reader = Reader()
    [told] = reader.tell(total)
    assert told["trace"]["estimate"] == {"name": "tap-x", "type": "SYNC", "row_estimate": 9}
    assert reader.tell(Estimate(A, rows=3)) == []
    [again] = reader.tell(Estimate(StreamId("tap-x"), 12, is_total=True))
    assert again["trace"]["estimate"]["row_estimate"] == 12
    reader = Reader()
    assert len(reader.tell(Estimate(A, rows=3))) == len(reader.tell(Estimate(A, rows=4))) == 1
    assert reader.tell(total) == []


# States


def test_only_what_has_changed_of_streams_that_are_read_goes_out() -> None:
    """ST2, ST11, ST13: each stream for itself, with the records since its last state."""
    reader = Reader()
    given = {"a": {"x": 1}, "main-b": {"y": 1}, "gone": {"z": 1}}
    assert reader.states(document(**given)) == []
    assert reader.states(begun(A), document(**given)) == []
    (state,) = reader.states(rows(A, b"{}", b"{}"), document(**{**given, "a": {"x": 2}}))
    assert state == {
        "type": "STREAM",
        "stream": {"stream_descriptor": {"name": "a"}, "stream_state": {"x": 2}},
        "sourceStats": {"recordCount": 2.0},
    }
    assert reader.states(ended(A)) == []
    assert reader.states(document(**{**given, "a": {"x": 3}})) == []
    reader.tell(begun(B), rows(B, b"{}"))
    (state,) = reader.states(document(**{**given, "a": {"x": 3}, "main-b": {"y": 2}}))
    assert state["stream"]["stream_descriptor"] == {"name": "b", "namespace": "main"}


def test_a_state_passes_byte_for_byte() -> None:
    """ST9: what a decoder would change is not decoded."""
    reader = Reader()
    blob = b'{"n":1.10,"big":123456789012345678901234567890,"text":"\\u00fc"}'
    reader.tell(begun(A), Checkpoint(b'{"bookmarks":{"a":%b}}' % blob))
    assert b'"stream_state":%b}' % blob in reader.text


def test_each_stream_has_a_state_before_it_is_complete() -> None:
    """ST6, ST7: also one without records, and one whose state did not change."""
    reader = Reader()
    messages = reader.tell(begun(A), ended(A))
    assert [each["type"] for each in messages] == ["TRACE", "STATE", "TRACE"]
    assert messages[1]["state"]["stream"]["stream_state"] == {}
    reader.tell(begun(B), document(**{"main-b": {"y": 1}}))
    (state,) = reader.states(rows(B, b"{}"), ended(B))
    assert state["stream"]["stream_state"] == {"y": 1}
    assert state["sourceStats"] == {"recordCount": 1.0}


def test_what_was_given_counts_as_known_and_is_said_again_at_the_end() -> None:
    reader = Reader()
    given = document(a={"x": 1})
    assert reader.states(given, begun(A), given) == []
    (state,) = reader.states(ended(A))
    assert state["stream"]["stream_state"] == {"x": 1}


def test_a_null_among_the_bookmarks_is_no_reset() -> None:
    """ST3: null would tell the client to begin again."""
    reader = Reader()
    reader.tell(begun(A), document(a=None))
    (state,) = reader.states(ended(A))
    assert state["stream"]["stream_state"] == {}


@pytest.mark.parametrize("odd", [b"null", b"[1]", b'{"bookmarks":[]}', b'{"bookmarks":null}'])
def test_an_odd_document_of_an_authors_says_nothing(odd: bytes) -> None:
    reader = Reader()
    assert reader.states(begun(A), Checkpoint(odd)) == []


# A state that streams share


def shared(position: int, **bookmarks: Any) -> Checkpoint:
    whole = {"bookmarks": bookmarks, "log": position, "currently_syncing": "a"}
    return Checkpoint(json.dumps(whole).encode())


def test_streams_that_share_a_position_have_one_state() -> None:
    """ST4: complete, with what is shared and the count of all records since the last."""
    reader = Reader(shared=True)
    assert reader.states(shared(1, a={"x": 1})) == []
    reader.tell(begun(A), rows(A, b"{}"), begun(B), rows(B, b"{}", b"{}"))
    (state,) = reader.states(shared(2, a={"x": 2}))
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
    assert reader.states(shared(2, a={"x": 2}), ended(A)) == []
    (last,) = reader.states(rows(B, b"{}"), ended(B))
    assert last["global"] == state["global"]


def test_a_document_with_more_than_bookmarks_is_shared() -> None:
    """Nothing of what a tap keeps is lost, even where it did not say that it shares."""
    reader = Reader()
    (state,) = reader.states(begun(A), document(a={"x": 1}))
    assert state["type"] == "STREAM"
    (state,) = reader.states(shared(7, a={"x": 1}))
    assert state["global"]["shared_state"] == {"log": 7}
    (state,) = reader.states(document(a={"x": 2}))
    assert state["global"]["shared_state"] == {"log": 7}
