"""Input of a destination: the event of each line, skipped lines, and the end of streams."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tap_core.events import (
    ActivateVersion,
    Checkpoint,
    Event,
    Progress,
    Rows,
    SchemaEvent,
    StreamId,
    StreamStatus,
)
from tap_core.exceptions import (
    InvalidInputLine,
    RecordsWithoutSchemaException,
    TruncatedInputLine,
)
from tap_core.protocols.airbyte.reader import AirbyteReader, ExpectedStream, get_stream_id

A, B, C = StreamId("a"), StreamId("b"), StreamId("a", "other")
NOON_MS = 1_704_110_400_123
NOON = "2024-01-01T12:00:00.123Z"
EXPECTED = (
    ExpectedStream(SchemaEvent(A, {"properties": {"id": {}}}, ("id",))),
    ExpectedStream(SchemaEvent(B, {}), generation=3, truncates=True),
    ExpectedStream(SchemaEvent(C, {}), generation=7),
)


def decode(*blocks: bytes, expected: Iterable[ExpectedStream] = EXPECTED) -> list[Event]:
    """Return the events of an input in these blocks, without SchemaEvents."""
    decoder = AirbyteReader(expected)
    events = [event for block in blocks for event in decoder.feed(block)]
    events += decoder.close()
    return [event for event in events if not isinstance(event, SchemaEvent)]


def lines(*messages: object) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def record(stream: str = "a", data: object = None, **fields: object) -> dict[str, object]:
    body = {"stream": stream, "data": {} if data is None else data, "emitted_at": NOON_MS}
    return {"type": "RECORD", "record": {**body, **fields}}


def state(**body: object) -> dict[str, object]:
    return {"type": "STATE", "state": body}


def status(stream: str, value: str, **descriptor: object) -> dict[str, object]:
    fields = {"stream_descriptor": {"name": stream, **descriptor}, "status": value}
    return {
        "type": "TRACE",
        "trace": {"type": "STREAM_STATUS", "emitted_at": 1.5, "stream_status": fields},
    }


ERROR = {"type": "TRACE", "trace": {"type": "ERROR", "error": {"message": "the source is gone"}}}
STREAM_A = {"type": "STREAM", "stream": {"stream_descriptor": {"name": "a"}, "stream_state": 1}}


def completed_streams(events: list[Event]) -> list[StreamId]:
    assert {e.progress for e in events if isinstance(e, StreamStatus)} <= {Progress.COMPLETE}
    return [event.stream for event in events if isinstance(event, StreamStatus)]


def test_schemas_of_the_catalog_come_first() -> None:
    decoder = AirbyteReader(EXPECTED)
    events = [*decoder.feed(lines(record())), *decoder.feed(b""), *decoder.close()]
    schemas = [event for event in events if isinstance(event, SchemaEvent)]
    assert events[:3] == schemas == [stream.schema_event for stream in EXPECTED]


def test_record_keeps_its_bytes_time_generation_and_meta() -> None:
    """Rule RD3: a record has its stream, its namespace, its data and the time it was emitted."""
    body = b'{"type":"RECORD","record":{"stream":"b","data":{ "n": 1.10 },"emitted_at":0}}\n'
    fields = {"changes": [{"field": "x"}]}
    events = decode(body, lines(record("b", {"n": 2}, meta=fields), record("b", {}, meta=None)))
    rows = [event for event in events if isinstance(event, Rows)]
    assert rows == [
        Rows(B, [b'{ "n": 1.10 }'], extracted_at=["1970-01-01T00:00:00.000Z"], version=3),
        Rows(
            B,
            [b'{"n": 2}', b"{}"],
            extracted_at=[NOON, NOON],
            version=3,
            meta=[json.dumps(fields).encode(), None],
        ),
    ]


@given(st.lists(st.sampled_from([record("a"), record("b"), state(x=1)]), max_size=20), st.data())
def test_chunk_boundaries_of_the_input_do_not_change_the_result(
    messages: list[object], data: st.DataObject
):
    content = lines(*messages)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=5)))
    blocks = [content[a:b] for a, b in zip([0, *cuts], [*cuts, len(content)], strict=True)]
    assert split_chunks(decode(*blocks)) == split_chunks(decode(content))


def split_chunks(events: list[Event]) -> list[object]:
    apart: list[object] = []
    for event in events:
        apart += [(event.stream, row) for row in event.rows] if isinstance(event, Rows) else [event]
    return apart


@pytest.mark.parametrize(
    "given_as,text",
    [
        (NOON_MS, NOON),
        (1_704_110_400, "2024-01-01T12:00:00.000Z"),
        (1_704_110_400.123, NOON),
        (float(NOON_MS), NOON),
        (None, None),
        ("soon", None),
        (10**18, None),
    ],
)
def test_emitted_at_is_milliseconds_or_the_seconds_of_pyairbyte(
    given_as: object, text: str | None
) -> None:
    (rows,) = [e for e in decode(lines(record(emitted_at=given_as))) if isinstance(e, Rows)]
    assert rows.extracted_at == [text]


@pytest.mark.parametrize("number", [b"1e400", b"-1e400", b"9" * 5_000])
def test_record_whose_emitted_at_is_out_of_range_is_loaded_without_a_time(number: bytes) -> None:
    line = lines(record(data={"n": 1})).replace(str(NOON_MS).encode(), number)
    (rows,) = [event for event in decode(line) if isinstance(event, Rows)]
    assert (rows.rows, rows.extracted_at) == ([b'{"n": 1}'], [None])


def test_stream_is_identified_by_namespace_and_name() -> None:
    """Rule DI9: streams of one name in two namespaces are two streams."""
    events = decode(lines(record("a"), record("a", namespace="other"), record("a", namespace=None)))
    assert [event.stream for event in events if isinstance(event, Rows)] == [A, C, A]


def test_omitted_namespace_matches_the_only_stream_of_the_name() -> None:
    """Sources built on the Airbyte CDK never write it."""
    only = [ExpectedStream(SchemaEvent(C, {}))]
    events = decode(lines(record("a"), state(**STREAM_A), status("a", "COMPLETE")), expected=only)
    assert [type(event) for event in events] == [Rows, Checkpoint, StreamStatus]
    assert {getattr(event, "stream", C) for event in events} == {C}
    two = [*only, ExpectedStream(SchemaEvent(StreamId("a", "third"), {}))]
    assert not any(isinstance(e, Rows) for e in decode(lines(record("a")), expected=two))


def test_records_of_unknown_streams_are_skipped_and_counted() -> None:
    """Rule D6: streams that are not in the catalog are ignored."""
    decoder = AirbyteReader(EXPECTED)
    events = list(decoder.feed(lines(record("x"), record("x"), record("a"), record("x"))))
    events += decoder.close()
    assert [event.stream for event in events if isinstance(event, Rows)] == [A]
    assert list(decoder.iterate_warnings()) == [
        "Skipped records of stream x, which is not in the catalog: 3"
    ]


def test_records_of_unknown_streams_can_be_an_error() -> None:
    decoder = AirbyteReader(EXPECTED, fails_on_undeclared=True)
    events = decoder.feed(lines(record("a"), record("x")))
    assert [type(next(events)) for _ in range(4)] == [SchemaEvent, SchemaEvent, SchemaEvent, Rows]
    with pytest.raises(
        RecordsWithoutSchemaException, match=r"Line 2 .* of stream x, which is not in the catalog"
    ):
        next(events)


def test_fields_outside_the_catalog_can_be_an_error() -> None:
    """Fields that PyAirbyte's cache adds are allowed."""
    schema = SchemaEvent(StreamId("a"), {"properties": {"id": {}}})
    decoder = AirbyteReader([ExpectedStream(schema)], fails_on_undeclared=True)
    valid, unexpected = record("a"), record("a")
    valid["record"]["data"] = {"id": 1, "_airbyte_raw_id": "x"}
    unexpected["record"]["data"] = {"id": 2, "eyes": "blue"}
    events = decoder.feed(lines(valid, unexpected))
    assert [type(next(events)) for _ in range(2)] == [SchemaEvent, Rows]
    with pytest.raises(
        RecordsWithoutSchemaException, match=r"with fields \(eyes\) that are not in the catalog"
    ):
        next(events)


@pytest.mark.parametrize(
    "message",
    [
        {"type": "LOG", "log": {"level": "INFO", "message": "x"}},
        {"type": "CONTROL", "control": {"type": "CONNECTOR_CONFIG"}},
        {"type": "SPEC", "spec": {}},
        {"type": "CATALOG", "catalog": None},
        {"type": "DESTINATION_CATALOG"},
        {"type": "TRACE", "trace": {"type": "ESTIMATE", "estimate": {"name": "a"}}},
        {"type": "TRACE", "trace": {"type": "ANALYTICS"}},
        {"type": "TRACE", "trace": {"type": "STREAM_STATUS", "stream_status": {"status": 5}}},
        {"type": "TRACE", "trace": {"type": "STREAM_STATUS"}},
        {"type": "TRACE", "trace": None},
        status("a", "PAUSED"),
    ],
)
def test_messages_of_other_types_are_ignored_silently(message: object) -> None:
    """Rule D7: logs, traces and unknown message types are ignored."""
    decoder = AirbyteReader(EXPECTED)
    events = [*decoder.feed(lines(message)), *decoder.close()]
    assert not [
        e for e in events if not isinstance(e, SchemaEvent | StreamStatus | ActivateVersion)
    ]
    assert list(decoder.iterate_warnings()) == []


@pytest.mark.parametrize(
    "line",
    [
        b"no json",
        b"{",
        b"[1]",
        b"5",
        b'"text"',
        b"{}",
        b'{"type":null}',
        b'{"type":5,"record":{}}',
        b'{"type":"RECORD"}',
        b'{"type":"RECORD","record":{"stream":"a"}}',
        b'{"type":"RECORD","record":{"stream":null,"data":{}}}',
        b'{"type":"RECORD","record":{"stream":"a","data":[1]}}',
        b'{"type":"RECORD","record":{"stream":"a","data":null}}',
        b'{"type":"STATE"}',
        b'{"type":"STATE","state":null}',
        b'{"type":"STATE","state":[]}',
        b'\xff{"type":"LOG"}',
        b'{"type":"LOG","log":"\xff"}',
        b"[" * 100_000,
    ],
)
def test_invalid_lines_are_skipped_counted_and_logged_once(
    line: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Rule E6: lines outside of an envelope are dropped."""
    decoder = AirbyteReader(EXPECTED)
    with caplog.at_level(logging.WARNING):
        events = list(decoder.feed(lines(record()) + (line + b"\n") * 3 + lines(record())))
        events += decoder.close()
    assert sum(len(event.rows) for event in events if isinstance(event, Rows)) == 2
    assert list(decoder.iterate_warnings()) == [
        "Skipped lines of the input that are not messages: 3"
    ]
    assert ["Line 2 is not an Airbyte message" in text for text in caplog.messages] == [True]


def test_messages_of_singer_are_named_in_a_remark() -> None:
    decoder = AirbyteReader(EXPECTED)
    singer = b'{"type":"SCHEMA","stream":"a","schema":{},"key_properties":[]}\n'
    singer += b'{"type":"RECORD","stream":"a","record":{"x":1}}\n'
    assert not any(isinstance(event, Rows) for event in decoder.feed(singer))
    first, second = decoder.iterate_warnings()
    assert first.startswith("The input has messages of Singer, whose records are not loaded.")
    assert second.endswith("that are not messages: 1")


def test_bom_crlf_blank_lines_and_nan_are_accepted() -> None:
    """NaN and Infinity become null outside of strings."""
    body = b'{"type":"RECORD","record":{"stream":"a","data":{"x":NaN,"y":"NaN"},"emitted_at":0}}'
    events = decode(
        b"\xef\xbb\xbf" + body + b"\r\n\r\n   \n" + body.replace(b"NaN,", b"-Infinity,")
    )
    rows = [row for event in events if isinstance(event, Rows) for row in event.rows]
    assert rows == [b'{"x":null,"y":"NaN"}'] * 2


def test_lone_surrogate_makes_a_record_text_and_leaves_a_state_unchanged() -> None:
    record_line = (
        b'{"type":"RECORD","record":{"stream":"a","data":{"x":"\\ud83d"},"emitted_at":0}}\n'
    )
    state_line = b'{"type":"STATE","state":{"type":"LEGACY","data":{"x":"\\ud83d"}}}\n'
    meta_line = b'{"type":"RECORD","record":{"stream":"a","data":{"x":1},"meta":{"y":"\\ud83d"}}}\n'
    rows, checkpoint, *_ = decode(record_line + meta_line + state_line)
    assert isinstance(rows, Rows)
    assert rows.rows == [json.dumps('{"x":"\\ud83d"}').encode(), b'{"x":1}']
    assert checkpoint == Checkpoint(b'{"type":"LEGACY","data":{"x":"\\ud83d"}}')


@pytest.mark.parametrize("escape", [b"\\ud80%0", b"\\ud83d\\udc0g"])
def test_state_with_an_invalid_escape_is_skipped(escape: bytes) -> None:
    """SEC21: a line that is not JSON is not a message, and is not emitted as a state."""
    line = b'{"type":"STATE","state":{"type":"LEGACY","data":{"x":"%s"}}}\n' % escape
    assert not any(isinstance(event, Checkpoint) for event in decode(line))


# States


def test_state_keeps_its_bytes() -> None:
    """Rule ST9: a state is a black box."""
    dumped = (
        b'{"type":"STREAM","stream":{"stream_descriptor":{"name":"a","namespace":null},'
        b'"stream_state":{"n":1e400}},"global_":null,"data":null,"global_":null}'
    )
    line = b'{"type":"STATE","log":null,"state":%b,"record":null}\n' % dumped
    assert decode(line)[0] == Checkpoint(dumped, A)


@pytest.mark.parametrize(
    "body,scope",
    [
        (STREAM_A, A),
        ({"state_type": "STREAM", "stream": STREAM_A["stream"]}, A),
        ({"stream": STREAM_A["stream"], "type": None}, A),
        (
            {"type": "STREAM", "stream": {"stream_descriptor": {"name": "z", "namespace": "y"}}},
            StreamId("z", "y"),
        ),
        ({"type": "GLOBAL", "global": {"stream_states": []}}, None),
        ({"type": "GLOBAL", "global_": {}, "stream": STREAM_A["stream"]}, None),
        ({"type": "LEGACY", "data": {"a": 1}}, None),
        ({"data": {"bookmarks": {}}}, None),
        ({}, None),
        ({"type": "STREAM", "stream": 5}, None),
        ({"type": ["odd"]}, None),
    ],
)
def test_state_belongs_to_a_stream_or_to_all(
    body: dict[str, object], scope: StreamId | None
) -> None:
    """Rule ST1: STREAM, GLOBAL or LEGACY; older documents name the type state_type."""
    assert get_stream_id(json.dumps(body).encode()) == scope
    assert decode(lines(state(**body)))[0] == Checkpoint(json.dumps(body).encode(), scope)


# The end


def test_complete_status_ends_a_stream_in_any_order() -> None:
    """Rule TR4: COMPLETE ends a stream; clients may forward it ahead of its rows."""
    events = decode(
        lines(status("b", "COMPLETE"), status("b", "STARTED"), record("b"), record("a"))
    )
    assert completed_streams(events) == [B]
    assert events[-2:] == [StreamStatus(B, Progress.COMPLETE), ActivateVersion(B, 3)]


def test_stream_with_an_incomplete_status_is_not_complete() -> None:
    for statuses in (["COMPLETE", "INCOMPLETE"], ["INCOMPLETE", "COMPLETE"], ["RUNNING"]):
        assert completed_streams(decode(lines(*(status("b", value) for value in statuses)))) == []


def test_clean_end_without_statuses_completes_every_stream() -> None:
    """Sources of older protocol versions write no statuses."""
    for source in (b"", lines(record("a")), lines(record("a"))[:-1], lines(record()) + b"no json"):
        assert completed_streams(decode(source)) == [A, B, C]


@pytest.mark.parametrize("known", [True, False])
def test_one_status_means_that_streams_without_status_are_incomplete(*, known: bool) -> None:
    assert (
        completed_streams(decode(lines(status("a" if known else "x", "COMPLETE")))) == [A] * known
    )


def test_failed_source_completes_only_streams_with_a_status() -> None:
    assert completed_streams(decode(lines(record(), ERROR))) == []
    assert completed_streams(decode(lines(record(), status("a", "COMPLETE"), ERROR))) == [A]


def test_truncated_last_line_is_an_error_and_completes_no_stream() -> None:
    """The records before it are still emitted."""
    decoder = AirbyteReader(EXPECTED)
    events = list(decoder.feed(lines(record()) + lines(record())[:-20]))
    remaining = decoder.close()
    with pytest.raises(TruncatedInputLine, match=r"its source crashed.* Line 2 begins"):
        events += remaining
    assert sum(len(event.rows) for event in events if isinstance(event, Rows)) == 1
    assert completed_streams(events) == []


def test_record_nested_too_deeply_becomes_text() -> None:
    begin, end = '[{"a":' * 5_000, "}]" * 5_000
    data = f'{{"x":{begin}1{end}}}'
    deep = f'{{"type":"RECORD","record":{{"stream":"a","data":{data},"emitted_at":0}}}}\n'
    state = f'{{"type":"STATE","state":{{"data":{data}}}}}\n'
    rows, *other_events = decode(deep.encode() + state.encode())
    assert isinstance(rows, Rows)
    assert rows.rows == [json.dumps(data).encode()]
    assert not any(isinstance(event, Checkpoint) for event in other_events)


@pytest.mark.parametrize("values", [b"[],", b'"%b",' % (b"x" * 2_000)])
def test_oversized_state_is_refused_before_it_is_parsed(values: bytes) -> None:
    """SEC13: the error names the line and the variable."""
    rows = values * (40_000_000 // len(values))
    message = b'{"type":"STATE","state":{"type":"LEGACY","data":[%b1]}}\n' % rows
    with pytest.raises(InvalidInputLine, match=r"^Line 1: the state .*TAP_CORE_LINE_BYTES"):
        decode(message)
