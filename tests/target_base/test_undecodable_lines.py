"""Lines with values beyond limits: a target raises a clear error or skips the record."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tap_core import RecordSink, Target
from tap_core.events import SchemaEvent
from tap_core.exceptions import (
    InvalidInputLine,
    InvalidJSONSchema,
    InvalidRecord,
    LimitExceededError,
)
from tap_core.mapper_base import InlineMapper
from tap_core.protocols.singer.custom_message_reader import MsgSpecReader, SimpleSingerReader
from tap_core.protocols.singer.reader import SingerReader
from tap_core.singerlib.messages import SchemaMessage
from tests.target_base.messages import ID, record, schema, state

DEEP = "[" * 200_000
DIGITS = "9" * 100_000
EXPONENT = "1e99999999999999999999"
ROOT = Path(__file__).parents[2]


class Sink(RecordSink):
    def process_record(self, record: dict[str, Any], context: dict[str, Any]) -> None:
        self.config_notes.append(record)

    def __init__(self, target: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(target, *args, **kwargs)
        self.config_notes = target.notes


class Loader(Target):
    name = "target-odd"
    default_sink_class = Sink

    def __init__(self, **kwargs: Any) -> None:
        self.notes: list[Any] = []
        super().__init__(**kwargs)


def raw(value: str, stream: str = "a") -> str:
    return f'{{"type":"RECORD","stream":"{stream}","record":{{"id":{value}}}}}\n'


def run_target(*lines: str, **config: Any) -> list[Any]:
    loaded_target = Loader(config=config)
    loaded_target.listen(io.StringIO("".join(lines)))
    return loaded_target.notes


NUMBER = {"properties": {"id": {"type": "number", "multipleOf": 0.01}}}


@pytest.mark.parametrize("value", [DIGITS, EXPONENT, "-" + EXPONENT, "1e-99999999999999999999"])
@pytest.mark.parametrize("maps", [{}, {"stream_maps": {"a": {"more": "id"}}}], ids=["plain", "map"])
@pytest.mark.parametrize("checks", [True, False])
def test_number_beyond_limits_is_an_invalid_record(value, maps, checks):
    """SEC15: a number beyond limits is an invalid record."""
    with pytest.raises(InvalidRecord, match="'a': the record cannot be read: a number in it"):
        run_target(schema("a", id=ID), raw("1"), raw(value), validate_records=checks, **maps)


def test_number_beyond_limits_is_skipped_if_the_sink_tolerates_invalid_records(caplog, monkeypatch):
    monkeypatch.setattr(Sink, "fail_on_record_validation_exception", False)
    notes = run_target(schema("a", id=ID), raw("1"), raw(DIGITS), raw(EXPONENT), raw("2"))
    assert [row["id"] for row in notes] == [1, 2]
    assert caplog.text.count("the record cannot be read") == 2
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("value", ["1e999999999", "-1e999999999", "1e400"])
def test_number_too_large_for_multiple_of_is_an_invalid_record(value):
    schema_message = {"type": "SCHEMA", "stream": "a", "schema": NUMBER, "key_properties": []}
    line = json.dumps(schema_message) + "\n"
    with pytest.raises(InvalidRecord, match=r"multiple of|beyond what can be compared"):
        run_target(line, raw(value))


@pytest.mark.parametrize(
    "line",
    [
        raw(DEEP),
        raw('{"a":' * 100_000),
        '{"type":"STATE","value":' + DEEP + "}\n",
        '{"type":"SCHEMA","stream":"a","schema":' + '{"a":' * 50_000 + "\n",
        '{"type":"BATCH","stream":"a","encoding":' + '{"a":' * 50_000 + "\n",
        '{"type":"SCHEMA","stream":"a","schema":{"x":' + DIGITS + '},"key_properties":[]}\n',
        '{"type":"SCHEMA","stream":"a","schema":{"x":' + EXPONENT + '},"key_properties":[]}\n',
        '{"type":"ACTIVATE_VERSION","stream":"a","version":' + DIGITS + "}\n",
        DEEP + "\n",
        DIGITS + "\n",
        EXPONENT + "\n",
    ],
    ids=range(11),
)
def test_undecodable_line_is_rejected_with_its_line_number(line):
    with pytest.raises(InvalidInputLine, match="Line 2 is not a Singer message"):
        run_target(schema("a", id=ID), line)


@pytest.mark.parametrize("reader", [SimpleSingerReader, MsgSpecReader])
@pytest.mark.parametrize("value", [DEEP, DIGITS, EXPONENT])
def test_message_readers_reject_undecodable_lines(reader, value):
    with pytest.raises(InvalidInputLine, match="Unable to parse line"):
        reader().deserialize_json(raw(value))


@pytest.mark.parametrize("value", [DIGITS, EXPONENT])
def test_state_with_a_number_beyond_limits_passes_unchanged_or_is_rejected(
    value, capsys, monkeypatch
):
    """The state is decoded only if a subclass overrides `_process_state_message`."""
    line = f'{{"type":"STATE","value":{{"a":{value}}}}}\n'
    run_target(schema("a", id=ID), raw("1"), line)
    assert value in capsys.readouterr().out
    monkeypatch.setattr(Loader, "_process_state_message", lambda _self, _message: None)
    with pytest.raises(InvalidInputLine, match="value of a STATE message cannot be read"):
        run_target(schema("a", id=ID), raw("1"), line)


class Mapper(InlineMapper):
    """A mapper that passes schemas on and drops all other messages."""

    name = "mapper-odd"

    def map_schema_message(self, message_dict: Any) -> Any:
        yield SchemaMessage.from_dict(message_dict)

    def map_record_message(self, message_dict: Any) -> Any:
        return []

    map_state_message = map_activate_version_message = map_record_message


@pytest.mark.parametrize(
    "line, error",
    [
        (raw(DIGITS), InvalidRecord),
        (raw(EXPONENT), InvalidRecord),
        (f'{{"type":"STATE","value":{{"a":{DIGITS}}}}}\n', InvalidInputLine),
        (raw(DEEP), InvalidInputLine),
    ],
)
def test_mapper_rejects_undecodable_lines(line, error, capsys):
    with pytest.raises(error):
        Mapper().listen(io.StringIO(schema("a", id=ID) + line))
    capsys.readouterr()


ODD = [
    '"\\ud800"',
    '"\\u0000"',
    '{"\\ud800":1}',
    '{"a\\u0000b":1}',
    '{"a":1,"a":2}',
    "NaN",
    "-Infinity",
    "1e400",
    "9" * 4000,
    "[" * 800 + "]" * 800,
    "[" * 2000 + "]" * 2000,
    '{"a":' * 900 + "1" + "}" * 900,
]


@pytest.mark.parametrize("value", ODD, ids=range(len(ODD)))
def test_unusual_values_are_loaded_or_rejected(value):
    """SEC15: odd values are loaded, or end in an error that names them."""
    any_schema = {"properties": {"id": {}}}
    schema_message = {"type": "SCHEMA", "stream": "a", "schema": any_schema, "key_properties": []}
    with contextlib.suppress(InvalidRecord, InvalidInputLine):
        assert len(run_target(json.dumps(schema_message) + "\n", raw(value))) == 1


@pytest.mark.parametrize("text", ["999999999-01-01T00:00:00Z", "0000-00-00", "-1", "9" * 5000])
def test_unparsable_date_raises_by_default(text):
    dated = {"type": "string", "format": "date-time"}
    with pytest.raises(ValueError, match="Could not parse value"):
        run_target(schema("a", (), at=dated), record("a", at=text))


def test_schema_with_5000_properties_loads_in_bounded_time():
    properties = {f"p{n}": {"type": "string"} for n in range(5_000)}
    started = time.monotonic()
    assert len(run_target(schema("a", (), **properties), record("a", p1="x"))) == 1
    assert time.monotonic() - started < 60


def test_command_reports_undecodable_lines_without_a_traceback(tmp_path):
    (tmp_path / "odd.py").write_text(
        "from tap_core import RecordSink, Target\n"
        "class Sink(RecordSink):\n"
        "    def process_record(self, record, context): ...\n"
        "class Odd(Target):\n"
        "    name = 'target-odd'\n"
        "    default_sink_class = Sink\n"
        "Odd.cli()\n"
    )
    for lines in (raw(DIGITS), raw(EXPONENT), raw(DEEP), DEEP):
        process = subprocess.run(
            [sys.executable, str(tmp_path / "odd.py")],
            input=schema("a", id=ID) + state({"n": 1}) + lines,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert process.returncode == 1
        assert "Traceback" not in process.stderr
        assert "cannot be read" in process.stderr or "is not a Singer message" in process.stderr
        assert json.loads(process.stdout) == {"n": 1}


def test_schema_with_too_many_properties_is_rejected():
    """SEC13: a schema that would take too much time and memory is an error with its setting."""
    properties = {f"field_{n}": {"type": "string"} for n in range(30_000)}
    line = json.dumps({"type": "SCHEMA", "stream": "wide", "schema": {"properties": properties}})
    with pytest.raises(LimitExceededError, match=r"'wide' has more than 30,000.*raise TAP_CO"):
        list(SingerReader().feed(line.encode() + b"\n"))
    fewer = {"properties": dict(list(properties.items())[:29_998])}
    line = json.dumps({"type": "SCHEMA", "stream": "wide", "schema": fewer})
    [event] = SingerReader().feed(line.encode() + b"\n")
    assert isinstance(event, SchemaEvent)


@pytest.mark.parametrize("levels", [300, 450])
def test_schema_nested_too_deeply_is_rejected(levels):
    nested: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        nested = {"type": "object", "properties": {"a": nested}}
    line = {"type": "SCHEMA", "stream": "deep", "schema": {"properties": {"x": nested}}}
    with pytest.raises((InvalidJSONSchema, InvalidInputLine), match="deep"):
        Loader(config={}).listen(io.StringIO(json.dumps({**line, "key_properties": []}) + "\n"))
