"""The Singer decoder: the event of each line, and the lines that it refuses."""

from __future__ import annotations

import gzip
import itertools
import json
import logging
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tap_core.events import (
    ActivateVersion,
    BatchFiles,
    Checkpoint,
    Event,
    Rows,
    SchemaEvent,
    StreamId,
)
from tap_core.exceptions import (
    BatchFileError,
    InvalidInputLine,
    TruncatedInputLine,
    UnknownMessageType,
)
from tap_core.io import json_lines as line_reader
from tap_core.limits.environment import Limit
from tap_core.protocols.airbyte.reader import AirbyteReader as AirbyteDecoder
from tap_core.protocols.singer.reader import SingerReader

A = StreamId("a")


def decode(*blocks: bytes) -> list[Event]:
    """Return all events of an input in these blocks."""
    decoder = SingerReader()
    events = [event for block in blocks for event in decoder.feed(block)]
    return events + list(decoder.close())


def decode_leniently(*blocks: bytes) -> tuple[list[Event], str | None]:
    """Return the events before the first error, and the message of that error."""
    decoder = SingerReader()
    events: list[Event] = []
    try:
        for block in blocks:
            for event in decoder.feed(block):
                events.append(event)  # noqa: PERF402  keeps what came before an error
        for event in decoder.close():
            events.append(event)  # noqa: PERF402
    except InvalidInputLine as error:
        return events, str(error)
    return events, None


def split_chunks(events: list[Event]) -> list[object]:
    """Return the events with one item per row, because chunking is not specified."""
    apart: list[object] = []
    for event in events:
        if isinstance(event, Rows):
            assert isinstance(event.extracted_at, list)
            pairs = zip(event.rows, event.extracted_at, strict=True)
            apart += [(event.stream, event.version, row, time) for row, time in pairs]
        else:
            apart.append(event)
    return apart


def lines(*messages: object) -> bytes:
    """Return messages as the lines of a stream."""
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def record(body: object, stream: str = "a", **fields: object) -> dict[str, object]:
    """Return a RECORD message."""
    return {"type": "RECORD", "stream": stream, "record": body, **fields}


def test_each_message_becomes_its_event() -> None:
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}
    batch = {"encoding": {"format": "jsonl"}, "manifest": ["file:///x"]}
    events = decode(
        lines(
            {"type": "SCHEMA", "stream": "a", "schema": schema, "key_properties": ["id"]},
            record({"id": 1}, time_extracted="2024-01-01T00:00:00Z", version=7),
            {"type": "ACTIVATE_VERSION", "stream": "a", "version": 7},
            {"type": "BATCH", "stream": "a", **batch},
            {"type": "STATE", "value": {"bookmarks": {}}},
        )
    )
    assert events == [
        SchemaEvent(A, schema, ("id",)),
        Rows(A, [b'{"id": 1}'], extracted_at=["2024-01-01T00:00:00Z"], version=7),
        ActivateVersion(A, 7),
        BatchFiles(A, ("file:///x",), {"format": "jsonl"}),
        Checkpoint(b'{"bookmarks": {}}'),
    ]


@pytest.mark.parametrize(
    "given_as,cursors",
    [
        ("t", ["t"]),
        (["t", "u"], ["t", "u"]),
        (["t", None], ["t"]),
        *((empty, []) for empty in ([], None, [None], {"a": 1})),
    ],
)
def test_replication_key_is_a_string_or_the_first_of_a_list(
    given_as: object, cursors: list[str]
) -> None:
    message = {"type": "SCHEMA", "stream": "a", "schema": {}, "bookmark_properties": given_as}
    (event,) = decode(lines({**message, "key_properties": None}))
    assert isinstance(event, SchemaEvent)
    assert event.cursor == next(iter(cursors), None)
    assert event.bookmark_properties == cursors


def test_consecutive_rows_of_a_stream_and_version_are_one_chunk() -> None:
    events = decode(
        lines(
            record({"n": 1}),
            record({"n": 2}),
            record({"n": 3}, version=1),
            record({"n": 4}, stream="b", version=1),
            record({"n": 5}),
            {"type": "STATE", "value": 1},
            record({"n": 6}),
        )
    )
    assert [len(event.rows) if isinstance(event, Rows) else 0 for event in events] == [
        2,
        1,
        1,
        1,
        0,
        1,
    ]


def test_records_and_states_keep_their_bytes() -> None:
    body = b'{"x":1.50, "big": 123456789012345678901234567890,"e":1E400 ,"\\u00e9":"\xc3\xa9"}'
    state = b'{"b" : 1.10}'
    line = b'{"type":"RECORD","record":' + body + b',"stream":"a"}\n'
    events = decode(line + b'{"value": ' + state + b' ,"type":"STATE"}\n')
    assert events == [Rows(A, [body], extracted_at=[None]), Checkpoint(state)]


def test_blank_lines_crlf_bom_and_a_missing_final_newline_are_accepted() -> None:
    text = b"\xef\xbb\xbf" + lines(record({"n": 1})).replace(b"\n", b"\r\n") + b"\n  \r\n"
    assert len(decode(text + lines(record({"n": 2})).rstrip())) == 2
    assert decode(b"\xef\xbb\xbf") == []


def test_nan_and_infinity_become_null_with_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    body = rb'{"a":NaN,"b":-Infinity,"c":[Infinity],"d":"NaN \" Infinity","e":1.10}'
    line = b'{"type":"RECORD","stream":"a","record":' + body + b"}\n"
    with caplog.at_level(logging.WARNING):
        events = decode(line * 2)
    expected = rb'{"a":null,"b":null,"c":[null],"d":"NaN \" Infinity","e":1.10}'
    assert [row for event in events if isinstance(event, Rows) for row in event.rows] == [
        expected,
        expected,
    ]
    assert [entry.message.split(",")[0] for entry in caplog.records] == [
        "Line 1 holds NaN or Infinity"
    ]


def test_lone_surrogate_makes_only_its_record_text() -> None:
    def line(body: bytes) -> bytes:
        return b'{"type":"RECORD","stream":"a\\ude00","record":%s}\n' % body

    lone = rb'{"a":"\ud83d","b":1.50}'
    late = rb'{"a":"\uDE00 \ud83d\ude00 \\ud83d"}'
    state = rb'{"a":"\ud83d"}'
    events = decode(line(lone) + b'{"type":"STATE","value":%s}\n' % state + line(late))
    assert split_chunks(events) == [
        (StreamId("a\ufffd"), None, json.dumps(lone.decode()).encode(), None),
        Checkpoint(state),
        (StreamId("a\ufffd"), None, json.dumps(late.decode()).encode(), None),
    ]
    valid = rb'{"a":"\uD83D\uDE00 \\ud83d \u00e9"}'
    assert split_chunks(decode(line(valid).replace(rb"\ude00", b"", 1))) == [(A, None, valid, None)]
    assert split_chunks(decode(line(rb'{"a":1.50}'))) == [
        (StreamId("a\ufffd"), None, b'{"a":1.50}', None)
    ]
    _, error = decode_leniently(line(rb'["\ud83d"]'))
    assert error is not None
    assert "object" in error


@pytest.mark.parametrize(
    "escape", [rb"\ud80%", rb"\ud8", rb"\udcxy", rb"\ud83d\udc0g", rb"\ud83d\ud8g0", rb"\ud800\u"]
)
def test_invalid_unicode_escape_is_refused(escape: bytes) -> None:
    """SEC21: a line that is not JSON becomes neither a record nor a state."""
    body = b'{"a":"%s0"}' % escape
    for line in (b'"RECORD","stream":"a","record":%s}\n', b'"STATE","value":%s}\n'):
        with pytest.raises(InvalidInputLine, match="Line 1 is not a Singer message"):
            decode(b'{"type":' + line % body)


def test_compressed_input_is_named_as_such() -> None:
    reason = r"\(it is not UTF-8 text, but compressed with gzip: decompress it;"
    with pytest.raises(InvalidInputLine, match=rf"Line 1 is not a Singer message {reason}"):
        decode(gzip.compress(b'{"type":"STATE","value":{}}\n'))


def test_invalid_line_with_nan_is_refused_in_linear_time() -> None:
    with pytest.raises(InvalidInputLine, match="Line 1"):
        decode(b'{"NaN' + b'\\"' * 500_000 + b"\n")


BAD_LINES = {
    "text": (b"hello", "malformed"),
    "cut": (b'{"type":"RECORD","stream":"a","record":{"a":', "truncated"),
    "printed over several lines": (b"{", "truncated; each message is one line"),
    "array": (b"[1]", "object"),
    "number": (b"17", "object"),
    "two": (b'{"type":"STATE","value":1}{"type":"STATE","value":2}', "malformed"),
    "no stream": (b'{"type":"RECORD","record":{}}', "stream"),
    "no record": (b'{"type":"RECORD","stream":"a"}', "record"),
    "no value": (b'{"type":"STATE"}', "value"),
    "record is a list": (b'{"type":"RECORD","stream":"a","record":[{}]}', "object"),
    "record is null": (b'{"type":"RECORD","stream":"a","record":null}', "object"),
    "schema is a text": (b'{"type":"SCHEMA","stream":"a","schema":"x"}', "schema"),
    "version is huge": (
        b'{"type":"ACTIVATE_VERSION","stream":"a","version":1%s}' % (b"0" * 30),
        "",
    ),
    "not utf-8": (b'{"type":"RECORD","stream":"a","record":{"a":"\xff"}}', "UTF-8"),
    "name not utf-8": (b'{"type":"RECORD","stream":"\xff","record":{}}', "UTF-8"),
    "deep": (b'{"type":"RECORD","stream":"a","record":' + b"[" * 100_000, "deep"),
    "NaN in a name": (b'{"type":"STATE","value":{NaN:1}}', "malformed"),
}


@pytest.mark.parametrize("line,reason", BAD_LINES.values(), ids=BAD_LINES.keys())
def test_invalid_line_is_reported_after_the_events_before_it(line: bytes, reason: str) -> None:
    before = lines({"type": "STATE", "value": 1}, record({"n": 1}), record({"n": 2}))
    events, error = decode_leniently(before + line + b"\n" + lines(record({"n": 3})))
    assert split_chunks(events) == split_chunks(decode(before))
    assert error is not None
    assert error.startswith("Line 4 is not a Singer message (")
    assert reason in error
    assert len(error) < 500


@pytest.mark.parametrize("line", [b'{"type":"HELLO"}', b"{}", b'{"type":null}', b'{"type":[1]}'])
def test_unknown_message_type_has_its_own_error(line: bytes) -> None:
    with pytest.raises(UnknownMessageType, match="Line 1"):
        decode(line + b"\n")


def test_long_unknown_message_type_is_cut_in_the_error() -> None:
    with pytest.raises(UnknownMessageType) as raised:
        decode(b'{"type":"' + b"x" * 1_000_000 + b'"}\n')
    assert len(str(raised.value)) < 500


def test_unknown_message_type_is_not_shown_if_row_values_are_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tap_core.io.json_lines.are_rows_shown", lambda: False)
    with pytest.raises(UnknownMessageType) as raised:
        decode(b'{"type":"patient 4711"}\n')
    assert "patient" not in str(raised.value)


def test_input_ending_within_a_message_is_truncated() -> None:
    complete = lines(record({"n": 1}))
    decoder = SingerReader()
    assert len(list(decoder.feed(complete + complete[:-5]))) == 1
    with pytest.raises(TruncatedInputLine, match=r"ended within a message. Line 2 is not"):
        list(decoder.close())


def test_very_long_line_in_small_blocks_is_read_in_linear_time() -> None:
    text = lines(record({"x": "é" * 3_000_000}))
    blocks = [text[start : start + 4096] for start in range(0, len(text), 4096)]
    (event,) = decode(*blocks)
    assert isinstance(event, Rows)
    assert json.loads(event.rows[0]) == {"x": "é" * 3_000_000}


def test_incomplete_utf8_in_a_very_long_line_is_refused() -> None:
    body = ('"' + "é" * 2_000_000 + '"').encode()
    line = b'{"type":"RECORD","stream":"a","record":{"k":' + body + b"}}\n"
    assert len(decode(line)) == 1
    _, error = decode_leniently(line.replace(b"\xc3\xa9\xc3\xa9", b"\xc3\xa9\xc3", 1))
    assert error is not None
    assert "UTF-8" in error


def cut(text: bytes, positions: list[int]) -> list[bytes]:
    """Return the text in blocks that end at these positions."""
    bounds = [0, *sorted(position % (len(text) + 1) for position in positions), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(bounds)]


MESSAGES = st.one_of(
    st.builds(
        record,
        st.dictionaries(st.text(max_size=4), st.none() | st.floats() | st.text(), max_size=3),
        st.sampled_from(["a", "b", "é"]),
        version=st.none() | st.integers(0, 2),
        time_extracted=st.none() | st.just("2024-01-01T00:00:00Z"),
    ),
    st.builds(lambda value: {"type": "STATE", "value": value}, st.integers() | st.text()),
    st.builds(lambda name: {"type": "SCHEMA", "stream": name, "schema": {}}, st.text()),
    st.builds(lambda n: {"type": "ACTIVATE_VERSION", "stream": "a", "version": n}, st.integers()),
)


@given(
    st.lists(MESSAGES, max_size=12).map(lambda messages: lines(*messages)),
    st.lists(st.integers(0, 5000), max_size=8),
    st.none() | st.tuples(st.integers(0, 5000), st.binary(max_size=3)),
)
def test_chunk_boundaries_of_the_input_do_not_change_the_result(
    text: bytes, positions: list[int], damage: tuple[int, bytes] | None
) -> None:
    if damage is not None:
        position = damage[0] % (len(text) + 1)
        text = text[:position] + damage[1] + text[position:]
    expected, error = decode_leniently(text)
    parts, same_error = decode_leniently(*cut(text, positions))
    assert split_chunks(parts) == split_chunks(expected)
    assert same_error == error


@given(st.binary(), st.lists(st.integers(0, 100), max_size=4))
def test_any_bytes_raise_only_decoder_errors(text: bytes, positions: list[int]) -> None:
    assert decode_leniently(*cut(text, positions)) == decode_leniently(text)


# More levels than any version of Python decodes: 3.12 and 3.13 decode several thousand.
TOO_DEEP = 100_000
LEVELS = st.sampled_from(
    [
        (b'{"a":', b"}"),
        (b"[", b"]"),
        (b'[{"]}\\\\\\"[":1},{"b" : ', b'},"}}"]'),
        (b'["\\u00e9[",[', b"]]"),
    ]
)


@given(st.lists(st.tuples(LEVELS, st.integers(1, 3_000)), max_size=3), st.booleans())
def test_record_nested_too_deeply_becomes_text(runs, is_last: bool) -> None:
    """Brackets inside of strings are ignored, and fields on both sides of the record are read."""
    runs = [*runs, ((b"[", b"]"), TOO_DEEP)]
    begin = b"".join(opened * times for (opened, _), times in runs)
    end = b"".join(closed * times for (_, closed), times in reversed(runs))
    body = b'{"id": 1.50, "x": ' + begin + b"{}" + end + b', "y": "}]"}'
    beside = b'"time_extracted":"2024-01-01T00:00:00Z","version":7'
    inner = [beside, b'"record": ' + body] if is_last else [b'"record": ' + body, beside]
    line = b'{"type":"RECORD","stream":"a",' + b",".join(inner) + b"}\n"
    plain = lines(record({"id": 2}))
    first, rows, last = decode(plain, line, plain)
    assert isinstance(rows, Rows)
    assert [json.loads(row).encode() for row in rows.rows] == [body]
    assert (rows.extracted_at, rows.version) == (["2024-01-01T00:00:00Z"], 7)
    assert isinstance(first, Rows)
    assert isinstance(last, Rows)
    assert first.rows == last.rows == [b'{"id": 2}']


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"STATE","value":{"a":%s}}',
        b'{"type":"SCHEMA","stream":"a","schema":{"a":%s}}',
        b'{"type":"RECORD","stream":"a","record":%s}',
        b'{"type":"RECORD","stream":"a","record":{"a":[%s}}',
        b'{"type":"RECORD","stream":"a","record":{"a":%s',
    ],
)
def test_other_messages_nested_too_deeply_are_refused(line: bytes) -> None:
    events, error = decode_leniently(line % (b"[" * TOO_DEEP + b"]" * TOO_DEEP) + b"\n")
    assert events == []
    assert error is not None


@pytest.mark.parametrize("decoder", [SingerReader, partial(AirbyteDecoder, [])])
@pytest.mark.parametrize("ends", [False, True])
def test_overlong_line_is_refused_before_it_is_buffered(
    monkeypatch: pytest.MonkeyPatch, decoder: Callable[[], Any], ends: bool
) -> None:
    """SEC13: earlier lines are read; the error names the line, the limit and its variable."""
    monkeypatch.setattr(line_reader, "LINE_BYTES", Limit("TAP_CORE_LINE_BYTES", 100_000))
    reader = decoder()
    assert list(reader.feed(b'{"type":"STATE","value":{"a":1}}\n' * 3 + b'{"type":"')) is not None
    for _ in range(9):
        assert list(reader.feed(b"x" * 10_000)) == []
    with pytest.raises(InvalidInputLine, match=r"Line 4 is longer than .* TAP_CORE_LINE_BYTES"):
        list(reader.feed(b"x" * 10_000 + (b"\n" if ends else b"")))


def measure_peak(line: bytes) -> tuple[float, str]:
    """Return the peak memory relative to the line's length, and the error message."""
    error = ""
    tracemalloc.start()
    try:
        list(SingerReader().feed(line))
    except (BatchFileError, InvalidInputLine) as caught:
        error = str(caught)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / len(line), error


BATCH = b'{"type":"BATCH","stream":"a","encoding":{"format":"jsonl"%b},"manifest":[%b"x"]}\n'


@pytest.mark.parametrize("name", [b'"ab",', b'"/files/rows-of-a-stream.jsonl",', b'"\\n",'])
def test_oversized_batch_manifest_is_refused_before_it_is_parsed(name: bytes) -> None:
    """SEC13: the error names the stream and the setting; only the line is in memory."""
    peak, error = measure_peak(BATCH % (b"", name * (60_000_000 // len(name))))
    assert peak < 2.5
    assert error.startswith("Stream 'a': a BATCH message names its files in ")
    assert "5,000 files; raise the setting batch_max_files, or let the tap name fewer" in error


def test_overlong_batch_file_name_is_refused_before_it_is_parsed() -> None:
    """SEC13: one character outside the BMP makes a Python string take four bytes a character."""
    address = '"\N{GRINNING FACE}%s",' % ("x" * 30_000_000)
    peak, error = measure_peak(BATCH % (b"", address.encode()))
    assert peak < 2.5
    assert "batch_max_files" in error


def test_oversized_batch_encoding_is_refused_before_it_is_parsed() -> None:
    """SEC13: a valid encoding has only a few short strings."""
    peak, error = measure_peak(BATCH % (b',"a":[%b1]' % (b"[]," * 1_000_000), b""))
    assert peak < 2.5
    assert "its encoding is longer than 65,536 bytes" in error


@pytest.mark.parametrize("values", [b"[],", b"{},", b"1,", b'"%b",' % (b"x" * 2_000)])
def test_oversized_schema_is_refused_before_it_is_parsed(values: bytes) -> None:
    """SEC13: the error names the line, the stream and the variable."""
    schema = b'{"properties":{},"enum":[%b1]}' % (values * (20_000_000 // len(values)))
    peak, error = measure_peak(b'{"type":"SCHEMA","stream":"a","schema":%b}\n' % schema)
    assert error.startswith("Line 1: the schema of stream 'a' ")
    assert "TAP_CORE_LINE_BYTES" in error
    assert peak < 3.5


@pytest.mark.parametrize("values", [b"[],", b'{"a":1},', b'"%b",' % (b"x" * 2_000)])
def test_oversized_state_is_refused_before_it_is_parsed(values: bytes) -> None:
    """SEC13: the error names the line and the variable."""
    state = b'{"bookmarks":[%b1]}' % (values * (40_000_000 // len(values)))
    peak, error = measure_peak(b'{"type":"STATE","value":%b}\n' % state)
    assert error.startswith("Line 1: the state ")
    assert "TAP_CORE_LINE_BYTES" in error
    assert peak < 3.5


@pytest.mark.parametrize(
    "text",
    [
        b"\\n",
        pytest.param(b'\\"', marks=pytest.mark.thorough),
        pytest.param(b'","', marks=pytest.mark.thorough),
    ],
)
def test_memory_of_replacing_nan_is_a_small_multiple_of_the_line(text: bytes) -> None:
    """SEC13: the millions of escapes in the record need no memory each."""
    record = b'{"a":NaN,"b":["%b"]}' % (text * 2_000_000)
    peak, error = measure_peak(b'{"type":"RECORD","stream":"a","record":%b}\n' % record)
    assert error == ""
    assert peak < 6.5
