"""Message readers and writers of singer_sdk, and plugins that use or override them."""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stdout
from datetime import datetime, timezone
from decimal import Decimal
from importlib import import_module

import pytest

from tap_core import BatchSink, Stream, Tap, Target
from tap_core.contrib.msgspec import (
    MsgSpecReader,
    MsgSpecWriter,
    dec_hook,
    enc_hook,
    serialize_jsonl,
)
from tap_core.exceptions import InvalidInputLine
from tap_core.protocols.singer.custom_message_reader import is_default_reader
from tap_core.protocols.singer.custom_writer_adapter import MessageWriterAdapter
from tap_core.protocols.singer.writer import SingerWriter
from tap_core.singerlib.encoding import (
    GenericSingerReader,
    GenericSingerWriter,
    SimpleSingerReader,
    SimpleSingerWriter,
)
from tap_core.singerlib.messages import RecordMessage, StateMessage

LINES = [
    '{"type":"SCHEMA","stream":"a","schema":{"properties":{"id":{"type":"number"}}}}\n',
    '{"type":"RECORD","stream":"a","record":{"id":1.10}}\n',
    '{"type":"STATE","value":{"n":1}}\n',
]


class Numbers(Stream):
    name = "numbers"
    schema = {"properties": {"id": {"type": "number"}, "at": {"type": "string"}}}

    def get_records(self, context):
        yield {"id": Decimal("1.10"), "at": datetime(2024, 1, 2, tzinfo=timezone.utc)}


class NumbersTap(Tap):
    name = "tap-numbers"

    def discover_streams(self):
        return [Numbers(self)]


class NotingSink(BatchSink):
    def process_batch(self, context):
        NotingTarget.notes.extend(context["records"])


class NotingTarget(Target):
    name = "target-notes"
    default_sink_class = NotingSink
    notes = []


def sync_output(tap) -> str:
    """Sync a tap and return its output."""
    raw = io.BytesIO()
    with redirect_stdout(io.TextIOWrapper(raw, write_through=True)):
        tap.sync_all()
        sys.stdout.flush()
        return raw.getvalue().decode()


def messages(text):
    return [json.loads(line) for line in text.splitlines()]


def without_times(documents):
    for message in documents:
        message.pop("time_extracted", None)
    return documents


# Writers


@pytest.mark.parametrize("kind", [SimpleSingerWriter, MsgSpecWriter])
def test_writer_writes_each_line_immediately(kind):
    raw = io.BytesIO()
    moment = datetime(2024, 1, 2, tzinfo=timezone.utc)
    with redirect_stdout(io.TextIOWrapper(raw)) as out:
        kind().write_message(RecordMessage("a", {"d": Decimal("1.10"), "x": moment, "n": None}))
        assert raw.getvalue() == (
            b'{"type":"RECORD","stream":"a","record":{"d":1.10,"x":"2024-01-02T00:00:00%b","n":null}}\n'
            % {SimpleSingerWriter: b"+00:00", MsgSpecWriter: b"Z"}[kind]
        )
        out.detach()


def test_serialized_lines_do_not_share_a_buffer():
    first, second = serialize_jsonl({"a": 1}), serialize_jsonl({"b": {2}}, ignored=True)
    assert (first, second) == (b'{"a":1}\n', b'{"b":[2]}\n')
    assert enc_hook(datetime(2024, 1, 2)) == "2024-01-02T00:00:00"  # noqa: DTZ001
    assert (enc_hook(1), dec_hook(int, 1)) == ("1", "1")


@pytest.mark.parametrize("kind", [SimpleSingerWriter, MsgSpecWriter])
def test_unmodified_writer_class_does_not_change_the_output(kind):
    class Own(NumbersTap):
        message_writer_class = kind

    tap = Own()
    assert type(tap.message_writer) is kind
    assert isinstance(tap.protocol_writer, SingerWriter)
    assert without_times(messages(sync_output(tap))) == without_times(
        messages(sync_output(NumbersTap()))
    )
    assert isinstance(Own(message_writer=kind()).protocol_writer, SingerWriter)


@pytest.mark.parametrize("kind", [SimpleSingerWriter, MsgSpecWriter])
def test_overridden_writer_gets_every_message(kind):
    class Writer(kind):
        def format_message(self, message):
            line = self.serialize_message(message)
            return line.replace(*((b"numbers", b"NUMBERS") if kind is MsgSpecWriter else (
                "numbers", "NUMBERS")))  # fmt: skip

    class Own(NumbersTap):
        message_writer_class = Writer

    tap = Own()
    assert isinstance(tap.protocol_writer, MessageWriterAdapter)
    theirs = without_times(messages(sync_output(tap)))
    ours = sync_output(NumbersTap()).replace("numbers", "NUMBERS")
    assert theirs == without_times(messages(ours))


def test_message_written_by_the_author_comes_after_the_previous_rows():
    class Own(NumbersTap):
        def discover_streams(self):
            class Talking(Numbers):
                def get_records(self, context):
                    yield from super().get_records(context)
                    self._tap.message_writer.write_message(StateMessage({"by": "hand"}))

            return [Talking(self)]

    written = messages(sync_output(Own()))
    assert [message["type"] for message in written] == ["SCHEMA", "RECORD", "STATE", "STATE"]
    assert written[2]["value"] == {"by": "hand"}


def test_message_writer_may_be_replaced():
    texts = []

    class Writer(GenericSingerWriter):
        def serialize_message(self, message):
            return str(message.type)

        def write_message(self, message):
            texts.append(self.format_message(message))

    tap = NumbersTap()
    tap.message_writer = Writer()
    tap.sync_all()
    assert [text.rpartition(".")[2] for text in texts] == ["SCHEMA", "RECORD", "STATE"]


# Readers


@pytest.mark.parametrize("kind", [SimpleSingerReader, MsgSpecReader])
def test_reader_passes_each_message_to_its_callback(kind, monkeypatch):
    received = []
    callbacks = dict.fromkeys(("SCHEMA", "RECORD", "STATE"), received.append)
    counts = kind().process_lines(io.StringIO("".join(LINES)), callbacks)
    assert counts == {"SCHEMA": 1, "RECORD": 1, "STATE": 1}
    assert received[1]["record"] == {"id": Decimal("1.10")}
    monkeypatch.setattr(sys, "stdin", io.StringIO(LINES[2]))
    assert kind().process_lines(None, callbacks) == {"STATE": 1}


@pytest.mark.parametrize("kind", [SimpleSingerReader, MsgSpecReader])
@pytest.mark.parametrize(
    "line, error, message",
    [
        ("nothing\n", InvalidInputLine, "Unable to parse line as JSON: nothing"),
        ('{"stream":"a"}\n', InvalidInputLine, r"missing required type key\(s\)"),
        ('{"type":"ODD"}\n', ValueError, "Unknown message type 'ODD' in message"),
    ],
)
def test_reader_refuses_invalid_messages(kind, line, error, message):
    with pytest.raises(error, match=message):
        kind().process_lines(io.StringIO(line), {})


@pytest.mark.parametrize("kind", [SimpleSingerReader, MsgSpecReader])
def test_target_works_with_default_and_overridden_readers(kind, capsys):
    class Reading(kind):
        def deserialize_json(self, line):
            return {**super().deserialize_json(line), "seen": True}

    for reader in (kind, Reading):
        NotingTarget.notes.clear()
        target_class = type("Own", (NotingTarget,), {"message_reader_class": reader})
        target = target_class(config={})
        assert is_default_reader(target.message_reader) is (reader is kind)
        target.listen(io.StringIO("".join(LINES)))
        assert NotingTarget.notes == [{"id": Decimal("1.10")}]
        assert capsys.readouterr().out == '{"n":1}\n'
    changed = kind()
    changed.deserialize_json = json.loads
    assert not is_default_reader(changed)


def test_reader_may_read_bytes(monkeypatch):
    class Bytes(GenericSingerReader[bytes]):
        default_input = io.BytesIO(LINES[2].encode())

        def deserialize_json(self, line):
            return json.loads(line)

    assert Bytes().process_lines(None, {"STATE": lambda _: None}) == {"STATE": 1}


@pytest.mark.parametrize(
    "path, names",
    [
        ("singerlib.encoding", "GenericSingerReader SimpleSingerWriter SingerMessageType"),
        ("singerlib.encoding.base", "GenericSingerReader GenericSingerWriter SingerMessageType"),
        ("singerlib.encoding.simple", "Message StateMessage SimpleSingerReader exclude_null_dict"),
        ("contrib.msgspec", "MsgSpecReader MsgSpecWriter encoder decoder serialize_jsonl"),
        ("contrib.batch_encoder_jsonl", "JSONLinesBatcher"),
        ("contrib.batch_encoder_parquet", "ParquetBatcher"),
        ("contrib.filesystem", "FileStream FolderTap"),
        ("contrib.filesystem.config", "FTP SFTP"),
        ("contrib.filesystem.stream", "SDC_META_FILEPATH SDC_META_MODIFIED_AT FileStream"),
        ("contrib.filesystem.tap", "BASE_CONFIG_SCHEMA ReadMode file_path_to_stream_name"),
        ("batch", "BaseBatcher Batcher JSONLinesBatcher lazy_chunked_generator"),
        ("helpers._batch", "BaseBatchFileEncoding BatchConfig BatchFileFormat StorageTarget"),
        ("helpers._batch", "DEFAULT_BATCH_SIZE JSONLinesEncoding ParquetEncoding SDKBatchMessage"),
    ],
)
def test_import_paths_of_singer_sdk_resolve(path, names):
    module = import_module(f"tap_core.{path}")
    assert [name for name in names.split() if not hasattr(module, name)] == []
    assert not hasattr(module, "nothing_of_the_kind")
