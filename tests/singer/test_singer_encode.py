"""Encoding of events as Singer lines."""

from __future__ import annotations

import io
import json
import os
import sys
import threading
from datetime import datetime, timezone
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tap_core.events import (
    ActivateVersion,
    BatchFiles,
    Checkpoint,
    Estimate,
    Rows,
    SchemaEvent,
    StreamId,
)
from tap_core.exceptions import FatalSyncError
from tap_core.protocols.singer.event_conversion import to_event, to_messages
from tap_core.protocols.singer.writer import SingerWriter, encode_body, encode_json, write_to_stdout
from tap_core.singerlib.messages import (
    ActivateVersionMessage,
    Message,
    RecordMessage,
    SchemaMessage,
    StateMessage,
)

A = StreamId("a")
AT = "2024-01-02T03:04:05.000006+00:00"


def lines(*events) -> bytes:
    written: list[bytes] = []
    writer = SingerWriter(written.append)
    for event in events:
        writer.emit(event)
    return b"".join(written)


@pytest.mark.parametrize(
    "event, line",
    [
        (
            Rows(A, [b'{"id":1}'], extracted_at=AT),
            b'{"type":"RECORD","stream":"a","record":{"id":1},"time_extracted":"%b"}' % AT.encode(),
        ),
        (
            Rows(A, [b"{}"], version=7),
            b'{"type":"RECORD","stream":"a","record":{},"version":7}',
        ),
        (Checkpoint(b'{"bookmarks":{}}'), b'{"type":"STATE","value":{"bookmarks":{}}}'),
        (
            SchemaEvent(A, {}, ("id", "b"), "at"),
            (
                b'{"type":"SCHEMA","stream":"a","schema":{},'
                b'"key_properties":["id","b"],"bookmark_properties":["at"]}'
            ),
        ),
        (
            SchemaEvent(A, {}),
            b'{"type":"SCHEMA","stream":"a","schema":{},"key_properties":[]}',
        ),
        (ActivateVersion(A, 7), b'{"type":"ACTIVATE_VERSION","stream":"a","version":7}'),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_event_is_one_line(event, line):
    assert lines(event) == line + b"\n"


def test_events_without_a_singer_message_are_skipped():
    assert lines(Estimate(A, 1), Rows(A, [])) == b""


def test_batch_files_become_batch_messages():
    known = {"format": "jsonl", "compression": "gzip"}
    assert lines(
        BatchFiles(A, ["f", "g"], known), BatchFiles(A, ["h"], {"format": "x"}, version=3)
    ) == (
        b'{"type":"BATCH","stream":"a","encoding":{"format":"jsonl","compression":"gzip"},'
        b'"manifest":["f","g"]}\n'
        b'{"type":"BATCH","stream":"a","encoding":{"format":"x"},"manifest":["h"],"version":3}\n'
    )


@settings(deadline=None)
@given(st.lists(st.dictionaries(st.text(max_size=3), st.integers()), max_size=5), st.text())
def test_chunk_becomes_one_line_per_row(rows, name):
    try:
        name.encode()
    except UnicodeEncodeError:
        return
    text = lines(Rows(StreamId(name), [encode_body(row) for row in rows], extracted_at=AT))
    messages = [json.loads(line) for line in text.split(b"\n")[:-1]]
    assert messages == [
        {"type": "RECORD", "stream": name, "record": row, "time_extracted": AT} for row in rows
    ]


def test_chunk_is_one_write_and_its_rows_are_unchanged():
    written: list[bytes] = []
    rows = [b"{}"] * 1_000
    SingerWriter(written.append).emit(Rows(A, rows, extracted_at=AT))
    assert len(written) == 1
    assert rows == [b"{}"] * 1_000


@pytest.mark.parametrize("kind", [OSError, FatalSyncError, SystemExit])
def test_nothing_is_written_after_a_failed_write(kind):
    calls = []

    def write(data):
        calls.append(data)
        raise kind("No space left on device")

    writer = SingerWriter(write)
    with pytest.raises(kind, match="No space left"):
        writer.emit(ActivateVersion(A, 1))
    for event in (ActivateVersion(A, 2), Checkpoint(b"{}")):
        with pytest.raises(BrokenPipeError, match="output is closed"):
            writer.emit(event)
    assert len(calls) == 1


def test_numbers_keep_all_their_digits():
    assert encode_json([Decimal("1.10"), 2**100, 0.1, Decimal("1E+400")]) == (
        b"[1.10,%d,0.1,1E+400]" % 2**100
    )


# Writing


@pytest.mark.parametrize("blocking", [True, False])
def test_partial_writes_to_a_pipe_are_completed(blocking, monkeypatch):
    """A full pipe accepts part of a write; the rest is written afterwards."""
    reader, writer = os.pipe()
    os.set_blocking(writer, blocking)
    data = bytes(range(256)) * 4_000
    blocks = []

    def read():
        while block := os.read(reader, 7_777):
            blocks.append(block)

    thread = threading.Thread(target=read)
    thread.start()
    with os.fdopen(writer, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        write_to_stdout(data)
    thread.join()
    os.close(reader)
    assert b"".join(blocks) == data


def test_buffered_text_is_written_before_the_lines(tmp_path, monkeypatch):
    path = tmp_path / "out"
    with path.open("w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        stream.write("first\n")
        write_to_stdout(b"second\n")
    assert path.read_text() == "first\nsecond\n"


def test_output_without_a_file_descriptor_gets_text(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    write_to_stdout("é\n".encode())
    assert stream.getvalue() == "é\n"


class CellOutput(io.StringIO):
    """Output of a notebook's cell. Its file descriptor is that of the kernel's terminal."""

    def fileno(self):
        return 1


def test_output_of_a_notebook_gets_text(monkeypatch, capfd):
    output = CellOutput()
    monkeypatch.setattr(sys, "stdout", output)
    write_to_stdout(b"{}\n")
    assert output.getvalue() == "{}\n"
    assert capfd.readouterr().out == ""


def test_lone_surrogates_in_a_schema_become_question_marks():
    """singer_sdk writes such a schema, with escapes."""
    event = SchemaEvent(StreamId("a\ud83d"), {"properties": {"b\ud83d": {}}}, (), None)
    message = json.loads(lines(event))
    assert (message["stream"], message["schema"]) == ("a?", {"properties": {"b?": {}}})


def test_numbers_in_a_state_keep_their_digits_in_a_message():
    state = b'{"exact":12345678901234567890.123,"double":0.1}'
    [message] = to_messages(Checkpoint(state))
    assert message == StateMessage({"exact": Decimal("12345678901234567890.123"), "double": 0.1})


def test_standard_output_is_looked_up_at_each_write(capsys):
    """Test runners redirect it after the tap was created."""
    writer = SingerWriter()
    writer.emit(Checkpoint(b"{}"))
    assert capsys.readouterr().out == '{"type":"STATE","value":{}}\n'


# Messages created by authors

MESSAGES = [
    RecordMessage("a", {"id": 1, "n": None}, 7, datetime(2024, 1, 2, tzinfo=timezone.utc)),
    RecordMessage("a", {"price": Decimal("1.10"), "at": datetime(2024, 1, 2, tzinfo=timezone.utc)}),
    SchemaMessage("a", {"properties": {}}, ["id"], ["at", "id"]),
    SchemaMessage("a", {"properties": {}}),
    StateMessage({"bookmarks": {"a": {"x": datetime(2024, 1, 2, tzinfo=timezone.utc)}}}),
    ActivateVersionMessage("a", 7),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_message_is_encoded_like_format_message(message):
    from tap_core.singerlib.messages import format_message

    expected = json.loads(format_message(message))
    if isinstance(message, SchemaMessage):
        expected.setdefault("key_properties", [])
    assert json.loads(lines(to_event(message))) == expected


@pytest.mark.parametrize(
    "message",
    [MESSAGES[0], *MESSAGES[2:4], MESSAGES[5]],
    ids=lambda message: type(message).__name__,
)
def test_message_round_trips_through_an_event(message):
    [result] = to_messages(to_event(message, lambda record: record))
    if isinstance(message, SchemaMessage) and message.key_properties is None:
        message = SchemaMessage("a", {"properties": {}}, [])
    assert result == message


def test_state_message_round_trips_through_an_event():
    message = StateMessage({"bookmarks": {"a": {"x": 1.5}}})
    assert list(to_messages(to_event(message))) == [message]


def test_message_of_an_unknown_type_is_refused():
    class Odd(Message):
        """A message of an unknown type."""

    with pytest.raises(TypeError, match="type Odd cannot be written"):
        to_event(Odd())


def test_event_without_a_singer_message_yields_none():
    assert list(to_messages(Estimate(A, 1))) == []
