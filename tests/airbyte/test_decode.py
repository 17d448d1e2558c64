"""What a destination reads: what each line becomes, what is left out, and what says the end."""

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
    """Return what an input in these blocks becomes, without the descriptions."""
    decoder = AirbyteReader(expected)
    events = [event for block in blocks for event in decoder.feed(block)]
    events += decoder.close()
    return [event for event in events if not isinstance(event, SchemaEvent)]


def lines(*messages: object) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def record(stream: str = "a", data: object = None, **more: object) -> dict[str, object]:
    body = {"stream": stream, "data": {} if data is None else data, "emitted_at": NOON_MS}
    return {"type": "RECORD", "record": {**body, **more}}


def state(**body: object) -> dict[str, object]:
    return {"type": "STATE", "state": body}


def status(stream: str, word: str, **more: object) -> dict[str, object]:
    said = {"stream_descriptor": {"name": stream, **more}, "status": word}
    return {
        "type": "TRACE",
        "trace": {"type": "STREAM_STATUS", "emitted_at": 1.5, "stream_status": said},
    }


ERROR = {"type": "TRACE", "trace": {"type": "ERROR", "error": {"message": "the source is gone"}}}
STREAM_A = {"type": "STREAM", "stream": {"stream_descriptor": {"name": "a"}, "stream_state": 1}}


def complete(events: list[Event]) -> list[StreamId]:
    assert {e.progress for e in events if isinstance(e, StreamStatus)} <= {Progress.COMPLETE}
    return [event.stream for event in events if isinstance(event, StreamStatus)]


def test_the_streams_of_the_catalog_are_described_before_all_else() -> None:
    decoder = AirbyteReader(EXPECTED)
    events = [*decoder.feed(lines(record())), *decoder.feed(b""), *decoder.close()]
    described = [event for event in events if isinstance(event, SchemaEvent)]
    assert events[:3] == described == [each.describe for each in EXPECTED]


def test_records_keep_their_bytes_and_take_time_generation_and_meta_along() -> None:
    """Rule RD3: a record has its stream, its namespace, its data and the time it was emitted."""
    body = b'{"type":"RECORD","record":{"stream":"b","data":{ "n": 1.10 },"emitted_at":0}}\n'
    told = {"changes": [{"field": "x"}]}
    found = decode(body, lines(record("b", {"n": 2}, meta=told), record("b", {}, meta=None)))
    rows = [event for event in found if isinstance(event, Rows)]
    assert rows == [
        Rows(B, [b'{ "n": 1.10 }'], extracted_at=["1970-01-01T00:00:00.000Z"], version=3),
        Rows(
            B,
            [b'{"n": 2}', b"{}"],
            extracted_at=[NOON, NOON],
            version=3,
            meta=[json.dumps(told).encode(), None],
        ),
    ]


@given(st.lists(st.sampled_from([record("a"), record("b"), state(x=1)]), max_size=20), st.data())
def test_how_the_input_is_cut_makes_no_difference(messages: list[object], data: st.DataObject):
    whole = lines(*messages)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    blocks = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert one_by_one(decode(*blocks)) == one_by_one(decode(whole))


def one_by_one(events: list[Event]) -> list[object]:
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
def test_times_are_milliseconds_or_as_pyairbyte_writes_them_seconds(
    given_as: object, text: str | None
) -> None:
    (rows,) = [e for e in decode(lines(record(emitted_at=given_as))) if isinstance(e, Rows)]
    assert rows.extracted_at == [text]


def test_a_stream_is_its_namespace_and_its_name() -> None:
    """Rule DI9: streams of one name in two namespaces are two streams."""
    found = decode(lines(record("a"), record("a", namespace="other"), record("a", namespace=None)))
    assert [event.stream for event in found if isinstance(event, Rows)] == [A, C, A]


def test_a_namespace_that_a_source_leaves_out_is_that_of_the_only_stream_of_the_name() -> None:
    """Sources that are built on Airbyte's own kit never write it."""
    only = [ExpectedStream(SchemaEvent(C, {}))]
    found = decode(lines(record("a"), state(**STREAM_A), status("a", "COMPLETE")), expected=only)
    assert [type(event) for event in found] == [Rows, Checkpoint, StreamStatus]
    assert {getattr(event, "stream", C) for event in found} == {C}
    two = [*only, ExpectedStream(SchemaEvent(StreamId("a", "third"), {}))]
    assert not any(isinstance(e, Rows) for e in decode(lines(record("a")), expected=two))


def test_records_of_other_streams_are_left_out_and_counted() -> None:
    """Rule D6: what the catalog does not have is ignored."""
    decoder = AirbyteReader(EXPECTED)
    found = list(decoder.feed(lines(record("x"), record("x"), record("a"), record("x"))))
    found += decoder.close()
    assert [event.stream for event in found if isinstance(event, Rows)] == [A]
    assert list(decoder.remarks()) == [
        "Skipped records of stream x, which is not in the catalog: 3"
    ]


def test_records_of_other_streams_can_be_an_error() -> None:
    decoder = AirbyteReader(EXPECTED, fails_on_undeclared=True)
    found = decoder.feed(lines(record("a"), record("x")))
    assert [type(next(found)) for _ in range(4)] == [SchemaEvent, SchemaEvent, SchemaEvent, Rows]
    with pytest.raises(
        RecordsWithoutSchemaException, match=r"Line 2 .* of stream x, which is not in the catalog"
    ):
        next(found)


def test_fields_outside_the_catalog_can_be_an_error() -> None:
    """Those that PyAirbyte's cache adds are not the source's doing."""
    described = SchemaEvent(StreamId("a"), {"properties": {"id": {}}})
    decoder = AirbyteReader([ExpectedStream(described)], fails_on_undeclared=True)
    fine, odd = record("a"), record("a")
    fine["record"]["data"] = {"id": 1, "_airbyte_raw_id": "x"}
    odd["record"]["data"] = {"id": 2, "eyes": "blue"}
    found = decoder.feed(lines(fine, odd))
    assert [type(next(found)) for _ in range(2)] == [SchemaEvent, Rows]
    with pytest.raises(
        RecordsWithoutSchemaException, match=r"with fields \(eyes\) that are not in the catalog"
    ):
        next(found)


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
def test_messages_that_are_not_for_a_destination_are_no_junk(message: object) -> None:
    """Rule D7: logs, traces and unknown message types are ignored."""
    decoder = AirbyteReader(EXPECTED)
    events = [*decoder.feed(lines(message)), *decoder.close()]
    assert not [
        e for e in events if not isinstance(e, SchemaEvent | StreamStatus | ActivateVersion)
    ]
    assert list(decoder.remarks()) == []


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
def test_lines_that_are_no_messages_are_left_out_counted_and_said_once(
    line: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Rule E6: what stands outside of an envelope is dropped."""
    decoder = AirbyteReader(EXPECTED)
    with caplog.at_level(logging.WARNING):
        found = list(decoder.feed(lines(record()) + (line + b"\n") * 3 + lines(record())))
        found += decoder.close()
    assert sum(len(event.rows) for event in found if isinstance(event, Rows)) == 2
    assert list(decoder.remarks()) == ["Skipped lines of the input that are not messages: 3"]
    assert ["Line 2 is not an Airbyte message" in text for text in caplog.messages] == [True]


def test_what_python_and_editors_add_is_forgiven() -> None:
    """A byte order mark, carriage returns, blank lines, NaN outside of texts."""
    body = b'{"type":"RECORD","record":{"stream":"a","data":{"x":NaN,"y":"NaN"},"emitted_at":0}}'
    found = decode(b"\xef\xbb\xbf" + body + b"\r\n\r\n   \n" + body.replace(b"NaN,", b"-Infinity,"))
    rows = [row for event in found if isinstance(event, Rows) for row in event.rows]
    assert rows == [b'{"x":null,"y":"NaN"}'] * 2


def test_half_a_letter_makes_a_record_a_text_and_leaves_a_state_as_it_came() -> None:
    half = b'{"type":"RECORD","record":{"stream":"a","data":{"x":"\\ud83d"},"emitted_at":0}}\n'
    held = b'{"type":"STATE","state":{"type":"LEGACY","data":{"x":"\\ud83d"}}}\n'
    rows, checkpoint, *_ = decode(half + held)
    assert isinstance(rows, Rows)
    assert rows.rows == [json.dumps('{"x":"\\ud83d"}').encode()]
    assert checkpoint == Checkpoint(b'{"type":"LEGACY","data":{"x":"\\ud83d"}}')


@pytest.mark.parametrize("escape", [b"\\ud80%0", b"\\ud83d\\udc0g"])
def test_a_state_with_an_escape_that_is_none_is_left_out(escape: bytes) -> None:
    """SEC21: what is no JSON is no message, and does not go on as a state."""
    line = b'{"type":"STATE","state":{"type":"LEGACY","data":{"x":"%s"}}}\n' % escape
    assert not any(isinstance(event, Checkpoint) for event in decode(line))


# States


def test_a_state_keeps_its_bytes_whatever_is_in_it() -> None:
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
def test_a_state_is_of_a_stream_or_of_all(body: dict[str, object], scope: StreamId | None) -> None:
    """Rule ST1: STREAM, GLOBAL or LEGACY; older documents call the type by another name."""
    assert get_stream_id(json.dumps(body).encode()) == scope
    assert decode(lines(state(**body)))[0] == Checkpoint(json.dumps(body).encode(), scope)


# The end


def test_a_stream_is_complete_when_its_source_says_so_in_whatever_order() -> None:
    """Rule TR4: COMPLETE ends a stream; clients may forward it ahead of its rows."""
    found = decode(lines(status("b", "COMPLETE"), status("b", "STARTED"), record("b"), record("a")))
    assert complete(found) == [B]
    assert found[-2:] == [StreamStatus(B, Progress.COMPLETE), ActivateVersion(B, 3)]


def test_a_stream_that_also_was_incomplete_is_not_complete() -> None:
    for words in (["COMPLETE", "INCOMPLETE"], ["INCOMPLETE", "COMPLETE"], ["RUNNING"]):
        assert complete(decode(lines(*(status("b", word) for word in words)))) == []


def test_without_any_status_a_clean_end_completes_every_stream() -> None:
    """Sources of the older protocol have no other sign."""
    for source in (b"", lines(record("a")), lines(record("a"))[:-1], lines(record()) + b"no json"):
        assert complete(decode(source)) == [A, B, C]


@pytest.mark.parametrize("known", [True, False])
def test_one_status_of_any_stream_means_that_the_source_speaks_of_all(*, known: bool) -> None:
    assert complete(decode(lines(status("a" if known else "x", "COMPLETE")))) == [A] * known


def test_a_source_that_failed_completes_nothing_that_it_did_not_name() -> None:
    assert complete(decode(lines(record(), ERROR))) == []
    assert complete(decode(lines(record(), status("a", "COMPLETE"), ERROR))) == [A]


def test_a_message_that_the_end_tore_completes_nothing_and_is_an_error() -> None:
    """What came whole before it is still handed on."""
    decoder = AirbyteReader(EXPECTED)
    found = list(decoder.feed(lines(record()) + lines(record())[:-20]))
    rest = decoder.close()
    with pytest.raises(TruncatedInputLine, match=r"its source crashed.* Line 2 begins"):
        found += rest
    assert sum(len(event.rows) for event in found if isinstance(event, Rows)) == 1
    assert complete(found) == []


def test_a_record_that_is_nested_too_deeply_is_a_text_and_is_not_left_out() -> None:
    begin, end = '[{"a":' * 5_000, "}]" * 5_000
    data = f'{{"x":{begin}1{end}}}'
    deep = f'{{"type":"RECORD","record":{{"stream":"a","data":{data},"emitted_at":0}}}}\n'
    state = f'{{"type":"STATE","state":{{"data":{data}}}}}\n'
    rows, *others = decode(deep.encode() + state.encode())
    assert isinstance(rows, Rows)
    assert rows.rows == [json.dumps(data).encode()]
    assert not any(isinstance(event, Checkpoint) for event in others)


@pytest.mark.parametrize("values", [b"[],", b'"%b",' % (b"x" * 2_000)])
def test_a_state_without_end_is_refused_before_it_is_read(values: bytes) -> None:
    """SEC13: the error names the line and the variable."""
    rows = values * (40_000_000 // len(values))
    message = b'{"type":"STATE","state":{"type":"LEGACY","data":[%b1]}}\n' % rows
    with pytest.raises(InvalidInputLine, match=r"^Line 1: the state .*TAP_CORE_LINE_BYTES"):
        decode(message)
