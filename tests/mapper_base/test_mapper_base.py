"""Inline mappers: messages are mapped completely and in order, also after errors and signals."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from tap_core import InlineMapper
from tap_core.exceptions import InvalidInputLine, TruncatedInputLine
from tap_core.mapper.plugin_mapper import PluginMapper
from tap_core.singerlib.messages import (
    ActivateVersionMessage,
    RecordMessage,
    SchemaMessage,
    SDKBatchMessage,
    StateMessage,
)
from tests.peers import missing_reason, peer_python

HERE = Path(__file__).parent
PEER = peer_python("singer_sdk")

SCHEMA = {"properties": {"id": {"type": "integer"}, "n": {"type": "number"}}}
INPUT = [
    {
        "type": "SCHEMA",
        "stream": "a",
        "schema": SCHEMA,
        "key_properties": ["id"],
        "bookmark_properties": ["n", "id"],
    },
    {"type": "ACTIVATE_VERSION", "stream": "a", "version": 7},
    {"type": "RECORD", "stream": "a", "record": {"id": 1, "n": 0.1}, "version": 7},
    {"type": "RECORD", "stream": "a", "record": {"id": 2, "n": None}, "version": 7},
    {"type": "STATE", "value": {"bookmarks": {"a": {"at": 1}}}},
    {"type": "RECORD", "stream": "a", "record": {"id": 3, "n": 1e22}, "version": 7},
    {"type": "STATE", "value": {"bookmarks": {"a": {"at": 3}}}},
]


def lines(*messages: object) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


class Passing(InlineMapper):
    """Mapper that passes every message on."""

    name = "mapper-passing"

    def map_schema_message(self, message_dict):
        return [SchemaMessage.from_dict(message_dict)]

    def map_record_message(self, message_dict):
        return [RecordMessage.from_dict(message_dict)]

    def map_state_message(self, message_dict):
        return [StateMessage.from_dict(message_dict)]

    def map_activate_version_message(self, message_dict):
        return [ActivateVersionMessage.from_dict(message_dict)]


def mapped(mapper: InlineMapper, data: bytes, capfdbinary) -> list[dict]:
    mapper.process_lines(io.BytesIO(data))
    return [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]


def test_identity_mapper_writes_its_input(capfdbinary) -> None:
    assert mapped(Passing(), lines(*INPUT), capfdbinary) == INPUT


def test_mapped_numbers_keep_their_digits(capfdbinary) -> None:
    records = []

    class Keeping(Passing):
        def map_record_message(self, message_dict):
            records.append(message_dict["record"])
            return super().map_record_message(message_dict)

    body = b'{"id":123456789012345678901234567890,"n":0.10000000000000000001}'
    line = b'{"type":"RECORD","stream":"a","record":%b}\n' % body
    Keeping().process_lines(io.BytesIO(line))
    assert capfdbinary.readouterr().out == line
    assert records == [{"id": int("1234567890" * 3), "n": Decimal("0.10000000000000000001")}]


def test_time_extracted_is_passed_on(capfdbinary) -> None:
    message = {
        "type": "RECORD",
        "stream": "a",
        "record": {},
        "version": 1,
        "time_extracted": "2024-01-01T00:00:00+00:00",
    }
    bare = {key: value for key, value in message.items() if key != "version"}
    assert mapped(Passing(), lines(message, bare), capfdbinary) == [message, bare]


@pytest.mark.parametrize(
    ("record", "written"),
    [
        ({1: "a"}, b'{"1":"a"}'),
        ({"a": Decimal("NaN"), "b": float("inf")}, b'{"a":null,"b":null}'),
        ({"a": "\ud800"}, b'{"a":"?"}'),
        ({"a": {"b": [b"x"]}}, b'{"a":{"b":["x"]}}'),
    ],
)
def test_values_that_json_lacks_are_converted(record, written, capfdbinary) -> None:
    class Making(Passing):
        def map_record_message(self, message_dict):
            yield RecordMessage("a", record)

    Making().process_lines(io.BytesIO(lines(INPUT[2])))
    expected = b'{"type":"RECORD","stream":"a","record":%b}\n' % written
    assert capfdbinary.readouterr().out == expected


def test_one_message_may_be_mapped_to_many_or_none(capfdbinary) -> None:
    class Doubling(Passing):
        def map_record_message(self, message_dict):
            record = RecordMessage.from_dict(message_dict)
            return [] if record.record["id"] == 2 else [record, record]

    messages = mapped(Doubling(), lines(*INPUT), capfdbinary)
    assert [m.get("record", m["type"]) for m in messages] == [
        "SCHEMA",
        "ACTIVATE_VERSION",
        {"id": 1, "n": 0.1},
        {"id": 1, "n": 0.1},
        "STATE",
        {"id": 3, "n": 1e22},
        {"id": 3, "n": 1e22},
        "STATE",
    ]


BATCH = {
    "type": "BATCH",
    "stream": "a",
    "encoding": {"format": "jsonl", "compression": "gzip"},
    "manifest": ["file:///x.gz"],
}


def test_batch_messages_are_rejected_unless_the_mapper_supports_them(capfdbinary) -> None:
    with pytest.raises(NotImplementedError, match="BATCH messages are not supported"):
        Passing().process_lines(io.BytesIO(lines(*INPUT, BATCH)))
    assert len(capfdbinary.readouterr().out.splitlines()) == len(INPUT)

    class Taking(Passing):
        def map_batch_message(self, message_dict):
            return [SDKBatchMessage.from_dict(message_dict)]

    assert mapped(Taking(), lines(BATCH), capfdbinary) == [BATCH]


@pytest.mark.parametrize(
    ("wrong", "error"),
    [(b"{oops}\n", InvalidInputLine), (b'{"type":"RECORD","st', TruncatedInputLine)],
)
def test_messages_before_an_invalid_line_are_written(wrong, error, capfdbinary) -> None:
    with pytest.raises(error, match="Line 8 "):
        Passing().process_lines(io.BytesIO(lines(*INPUT) + wrong))
    assert len(capfdbinary.readouterr().out.splitlines()) == len(INPUT)


def test_output_is_written_before_the_input_ends(monkeypatch) -> None:
    written: list[int] = []
    mapper = Passing()
    monkeypatch.setattr(mapper._stdout_writer, "write", lambda data: written.append(len(data)))
    mapper.process_lines(io.BytesIO(lines(INPUT[2]) * 5_000))
    assert len(written) > 3
    assert max(written) < 70_000


def test_missing_message_key_is_named_in_the_error() -> None:
    with pytest.raises(InvalidInputLine, match="required record key"):
        Passing()._assert_line_requires({"stream": "a"}, {"stream", "record"})


def test_custom_message_reader_and_writer_are_used() -> None:
    class Reader:
        def process_lines(self, file_input, callbacks):
            for message in file_input:
                callbacks[message["type"]](message)
            return {"RECORD": 3}

    class Writer(list):
        write_message = list.append

    class Own(Passing):
        message_reader_class = Reader
        message_writer_class = Writer

    mapper = Own()
    assert mapper.process_lines(INPUT) == {"RECORD": 3}
    assert [message.to_dict()["type"].value for message in mapper.message_writer[:2]] == [
        "SCHEMA",
        "ACTIVATE_VERSION",
    ]
    mapper._signals.received.append(signal.SIGTERM)
    assert not mapper.process_lines(INPUT)
    assert len(mapper.message_writer) == len(INPUT) + 1
    assert Passing(message_writer=Writer(), message_reader=Reader()).message_reader


def test_mapper_can_apply_stream_maps_of_its_settings(capfdbinary) -> None:
    class Maps(Passing):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.mapper = PluginMapper(plugin_config=dict(self.config), logger=self.logger)

        def map_record_message(self, message_dict):
            self.mapper.register_raw_stream_schema("a", SCHEMA, ["id"])
            for stream_map in self.mapper.stream_maps["a"]:
                yield RecordMessage("a", stream_map.transform(message_dict["record"]))

    messages = mapped(
        Maps(config={"stream_maps": {"a": {"twice": "id * 2"}}}), lines(INPUT[2]), capfdbinary
    )
    assert messages[0]["record"] == {"id": 1, "n": 0.1, "twice": 2}


def test_sigterm_ends_the_mapper_between_messages(capfdbinary) -> None:
    class Stopping(Passing):
        def map_record_message(self, message_dict):
            self._handle_termination(signal.SIGTERM, None)
            return super().map_record_message(message_dict)

    assert Stopping().listen(io.BytesIO(lines(*INPUT))) == 0
    assert [json.loads(m) for m in capfdbinary.readouterr().out.splitlines()] == INPUT[:3]


# Mappers run by their command


def command(sdk: str, name: str, config: Path | None = None) -> tuple[list[str], dict[str, str]]:
    options = ["--config", str(config)] if config else []
    if sdk == "peer":
        return [str(PEER), str(HERE / "peer_mappers.py"), name, *options], {}
    kind = "Identity" if "identity" in name else "MapTransformer"
    run = [sys.executable, "-m", "tap_core", "run", f"peer_mappers:{kind}", *options]
    return run, {"PYTHONPATH": f"{HERE}{os.pathsep}{HERE.parents[1]}"}


def run(sdk: str, name: str, data: bytes, *arguments: str, config: Path | None = None):
    program, variables = command(sdk, name, config)
    return subprocess.run(
        [*program, *arguments],
        input=data,
        capture_output=True,
        check=False,
        env={**os.environ, **variables},
    )


MAPS = {
    "stream_maps": {
        "a": {"id": "id", "text": "str(id) + '!'", "__filter__": "id != 2", "__alias__": "b"},
        "__else__": None,
    }
}


@pytest.mark.peer
@pytest.mark.skipif(PEER is None, reason=missing_reason("singer_sdk"))
@pytest.mark.parametrize("name", ["mapper-identity", "meltano-map-transformer"])
def test_mapper_written_for_singer_sdk_writes_the_same_messages(name, tmp_path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(MAPS if "map-" in name else {}))
    other = [{**message, "stream": "c"} for message in INPUT[:3]]
    data = lines(*INPUT, *other)
    messages = {}
    for sdk in ("ours", "peer"):
        process = run(sdk, name, data, config=config)
        assert process.returncode == 0, process.stderr.decode()
        messages[sdk] = [json.loads(line) for line in process.stdout.splitlines()]
    assert messages["ours"] == messages["peer"]


def test_mapper_command_has_version_about_and_help() -> None:
    assert b"mapper-identity v" in run("ours", "mapper-identity", b"", "--version").stdout
    about = run("ours", "mapper-identity", b"", "--about", "--format", "json")
    assert json.loads(about.stdout)["capabilities"] == [
        "about",
        "stream-maps",
        "schema-flattening",
        "structured-logging",
    ]
    assert b"Change the Singer messages" in run("ours", "mapper-identity", b"", "--help").stdout


def test_mapper_input_can_be_a_file(tmp_path) -> None:
    source = tmp_path / "in.singer"
    source.write_bytes(lines(*INPUT))
    process = run("ours", "mapper-identity", b"", "--input", str(source))
    assert [json.loads(line)["type"] for line in process.stdout.splitlines()] == [
        message["type"] for message in INPUT
    ]


def test_mapper_settings_are_validated() -> None:
    process = run("ours", "meltano-map-transformer", b"")
    assert process.returncode == 1
    assert b"'stream_maps' is a required property" in process.stderr


def test_messages_are_written_immediately_and_sigterm_leaves_whole_lines() -> None:
    program, variables = command("ours", "mapper-identity")
    with subprocess.Popen(
        program,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **variables},
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(lines(*INPUT[:3]))
        process.stdin.flush()
        first = [json.loads(process.stdout.readline()) for _ in range(3)]
        assert first == INPUT[:3]
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == b""
        assert process.wait(timeout=60) == 0
        assert process.stderr
        assert b"Gracefully shutting down" in process.stderr.read()
