"""Strict loads: a record that violates its stream's schema ends the run, in both protocols."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tap_core.events import Rows, SchemaEvent, StreamId
from tap_core.exceptions import InvalidInputLine, UndeclaredRecordError
from tap_core.protocols.airbyte.reader import AirbyteReader as AirbyteDecoder
from tap_core.protocols.airbyte.reader import ExpectedStream
from tap_core.protocols.singer.reader import SingerReader as SingerDecoder
from tap_core.schema.validators import get_validator_class
from target_spark.config import settings
from target_spark.config.options import LoadOptions
from target_spark.errors import UnsupportedError
from target_spark.loader.strict_validation import StrictCheck
from target_spark.target import TargetSpark
from tests.airbyte.running import airbyte, environment
from tests.target.airbyte.test_airbyte_sync_modes import stream

TARGET = (sys.executable, "-m", "target_spark")
PATIENCE = 300
TEXT = {"type": ["string", "null"]}
SCHEMA = {
    "type": "object",
    "required": ["id", "name"],
    "properties": {
        "id": {"type": "integer"},
        "name": TEXT,
        "price": {"type": ["number", "null"], "multipleOf": 0.01, "maximum": 5},
        "of": {"type": ["object", "null"], "required": ["k"], "properties": {"k": TEXT}},
        "any": {"type": ["object", "null"]},
        "numbers": {"type": ["array", "null"], "items": {"type": "integer"}},
        "either": {"oneOf": [{"type": "integer", "minimum": 5}, {"type": "integer"}]},
        "at": {"type": ["string", "null"], "format": "date-time"},
    },
}
RIGHT: dict[str, Any] = {"id": 1, "name": None, "price": 1.15, "either": 7, "any": {"x": [1]}}
WRONG = [
    ({"name": "a"}, "without fields that its schema requires: id"),
    ({**RIGHT, "of": {}}, "without fields that its schema requires: of.k"),
    ({**RIGHT, "id": "1"}, "field id is <text of 1 characters>, where its schema has integer"),
    ({**RIGHT, "id": None}, "field id is <null>, where its schema has integer"),
    ({**RIGHT, "id": True}, "field id is <boolean>"),
    ({**RIGHT, "numbers": [1, "x"]}, "field numbers[1] is <text"),
    ({**RIGHT, "of": [1]}, "field of is <array of 1 items>, where its schema has object or null"),
    ({**RIGHT, "either": "x"}, "field either is <text"),
    ({**RIGHT, "more": 1, "other": 2}, "does not declare: more, other"),
    ({**RIGHT, "of": {"k": "a", "deep": 1}}, "does not declare: of.deep"),
]


def check(body: Any, schema: dict[str, Any] | None = None, **config: Any) -> str | None:
    options = settings.load_options({"path": "x", "strict": True, **config})
    event = SchemaEvent(StreamId("s"), SCHEMA if schema is None else schema)
    return StrictCheck(options)(event, json.dumps(body).encode())


def test_record_that_matches_its_schema_is_accepted() -> None:
    assert check(RIGHT) is None
    assert check({**RIGHT, "price": 7.25, "of": {"k": None}, "_sdc_deleted_at": None}) is None


@pytest.mark.parametrize("body,expected", WRONG)
def test_violation_is_reported_with_its_field(body: Any, expected: str) -> None:
    violation = check(body)
    assert violation is not None
    assert expected in violation
    assert "set strict to false" in violation


@pytest.mark.parametrize("schema", [{}, {"type": "object"}, {"properties": {}}])
def test_schema_without_properties_accepts_any_record(schema: dict[str, Any]) -> None:
    assert check({"a": {"b": 1}}, schema) is None


def test_undeclared_fields_of_an_open_object_are_accepted() -> None:
    """An object with additional properties is stored as text, without loss."""
    open_ = {"type": "object", "properties": {"b": TEXT}, "additionalProperties": True}
    assert check({"a": {"b": "x", "c": 1}}, {"properties": {"a": open_}}) is None
    assert "a.b" in str(check({"a": {"b": 1, "c": 1}}, {"properties": {"a": open_}}))
    assert "z" in str(check({"z": 1}, {"properties": {"a": TEXT}, "additionalProperties": True}))


@pytest.mark.parametrize("wrong", [{"type": "any"}, {"type": "object", "required": "a"}])
def test_invalid_schema_is_an_error_that_names_the_stream(wrong: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError, match="stream s is not a valid JSON Schema") as error:
        check({"a": "x"}, {"properties": {"a": wrong}})
    assert "\n" not in str(error.value)


def test_violation_shows_no_value() -> None:
    assert "secret" not in str(check({**RIGHT, "id": "secret"}))


def test_new_schema_applies_to_later_records() -> None:
    strict = StrictCheck(LoadOptions("x", strict=True))
    narrow = SchemaEvent(StreamId("s"), {"type": "object", "properties": {"a": TEXT}})
    wide = SchemaEvent(StreamId("s"), {"type": "object", "properties": {"a": TEXT, "b": TEXT}})
    verdicts = [strict(event, b'{"b":"x"}') is None for event in (narrow, wide, narrow)]
    assert verdicts == [False, True, False]


KINDS = st.sampled_from(["integer", "number", "string", "boolean", "null"])
LEAVES = st.builds(lambda kinds: {"type": sorted(kinds)}, st.sets(KINDS, min_size=1))
SCALARS = st.sampled_from([None, True, False, 0, -7, 2.0, 1.5, "", "x"])
OBJECTS = st.dictionaries(st.sampled_from("abc"), SCALARS, max_size=3)
VALUES = SCALARS | OBJECTS | st.lists(SCALARS | OBJECTS, max_size=2)


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return schemas of closed objects, whose properties have their own columns."""
    properties = st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3)
    required = st.sets(st.sampled_from("abc"), max_size=2).map(sorted)
    return st.builds(
        lambda properties, required: {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        },
        properties,
        required,
    )


LISTS = LEAVES.map(lambda items: {"type": "array", "items": items})


@given(
    objects(LEAVES | LISTS | objects(LEAVES)),
    st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4),
)
def test_check_agrees_with_a_json_schema_validator(
    schema: dict[str, Any], body: dict[str, Any]
) -> None:
    assert (check(body, schema) is None) == get_validator_class()(schema).is_valid(body)


# By the protocols


def singer(*records: Any) -> bytes:
    head = {"type": "SCHEMA", "stream": "s", "schema": SCHEMA, "key_properties": []}
    rows = [{"type": "RECORD", "stream": "s", "record": message} for message in records]
    return b"".join(json.dumps(message).encode() + b"\n" for message in (head, *rows))


@pytest.mark.parametrize("body,expected", WRONG)
def test_singer_rows_before_a_violation_are_emitted_and_the_line_is_named(
    body: Any, expected: str
) -> None:
    decoder = SingerDecoder(StrictCheck(LoadOptions("x", strict=True)))
    events = decoder.feed(singer(RIGHT, RIGHT, body, RIGHT))
    assert isinstance(next(events), SchemaEvent)
    rows = next(events)
    assert isinstance(rows, Rows)
    assert len(rows.rows) == 2
    with pytest.raises(UndeclaredRecordError, match="Line 4 is a record of stream s, ") as error:
        next(events)
    assert expected in str(error.value)


def test_singer_record_before_its_schema_is_an_error_with_its_line() -> None:
    decoder = SingerDecoder(StrictCheck(LoadOptions("x", strict=True)))
    with pytest.raises(UndeclaredRecordError, match=r"Line 1 .* stream s, which is not declared"):
        list(decoder.feed(b'{"type":"RECORD","stream":"s","record":{}}\n'))


def of_airbyte(name: str, body: Any) -> bytes:
    record = {"stream": name, "data": body, "emitted_at": 1}
    return json.dumps({"type": "RECORD", "record": record}).encode() + b"\n"


@pytest.mark.parametrize("body,expected", WRONG)
def test_airbyte_rows_before_a_violation_are_emitted_and_the_line_is_named(
    body: Any, expected: str
) -> None:
    strict = StrictCheck(settings.load_options({"path": "x", "strict": True}))
    decoder = AirbyteDecoder([ExpectedStream(SchemaEvent(StreamId("s"), SCHEMA))], check=strict)
    events = decoder.feed(of_airbyte("s", RIGHT) + of_airbyte("s", body))
    assert [type(next(events)) for _ in range(2)] == [SchemaEvent, Rows]
    with pytest.raises(UndeclaredRecordError, match="Line 2 is a record of stream s, ") as error:
        next(events)
    assert expected in str(error.value)


@pytest.mark.parametrize(
    "line,error",
    [
        (of_airbyte("other", {}), UndeclaredRecordError),
        (of_airbyte("s", [1]), UndeclaredRecordError),
        (b'{"type":"RECORD","record":{"stream":7,"data":{}}}\n', InvalidInputLine),
        (b'{"type":"RECORD","record":\n', InvalidInputLine),
    ],
)
def test_airbyte_lines_that_are_otherwise_skipped_are_errors(line: bytes, error: Any) -> None:
    strict = StrictCheck(settings.load_options({"path": "x", "strict": True}))
    decoder = AirbyteDecoder([ExpectedStream(SchemaEvent(StreamId("s"), SCHEMA))], check=strict)
    events = decoder.feed(b"a print of the source\n" + of_airbyte("s", RIGHT) + line)
    assert [type(next(events)) for _ in range(2)] == [SchemaEvent, Rows]
    with pytest.raises(error, match="Line 3 is "):
        next(events)


# Settings


def test_strict_implies_three_settings() -> None:
    settings_with_defaults = settings.with_defaults({"path": "x", "strict": True})
    implied = {"outside_catalog": "fail", "misfits": "quarantine", "max_quarantined": 0}
    assert {name: settings_with_defaults[name] for name in implied} == implied
    assert settings.find_faults({"path": "x", "strict": True, **implied}) == []
    assert settings.load_options({"path": "x", "strict": True}).max_quarantined.rows == 0


@pytest.mark.parametrize(
    "name,value", [("outside_catalog", "ignore"), ("misfits", "keep"), ("max_quarantined", 3)]
)
def test_setting_that_contradicts_strict_is_rejected(name: str, value: Any) -> None:
    [fault] = settings.find_faults({"path": "x", "strict": True, name: value})
    assert fault.startswith(f"{name}: strict implies {name}: ")
    assert settings.find_faults({"path": "x", "strict": False, name: value}) == []
    TargetSpark(config={"path": "x", "strict": True})  # no default contradicts it either


def test_batch_message_is_rejected() -> None:
    decoder = SingerDecoder(StrictCheck(LoadOptions("x", strict=True)))
    message = {"type": "BATCH", "stream": "s", "encoding": {"format": "jsonl"}, "manifest": ["a"]}
    events = decoder.feed(singer(RIGHT) + json.dumps(message).encode() + b"\n")
    assert [type(next(events)) for _ in range(2)] == [SchemaEvent, Rows]
    with pytest.raises(UndeclaredRecordError, match=r"Line 3 is a BATCH message of stream s: .*"):
        next(events)


def test_command_run_rejects_strict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"path": str(tmp_path), "strict": True}))
    arguments = ["run", "--tap", "tap_flights.tap:TapFlights", "--config", str(config)]
    assert TargetSpark.get_command(["run"]).main(arguments, standalone_mode=False) == 1
    assert "set strict to false, or pipe the tap" in capsys.readouterr().err


# Complete runs


def read_states(output: bytes) -> list[Any]:
    return [json.loads(line) for line in output.splitlines()]


def load_singer(folder: Path, *records: Any) -> tuple[int, list[Any], str]:
    """Load records, each followed by a state; return exit code, states and log."""
    config = folder / "config.json"
    options = {"path": str(folder / "tables"), "format": "parquet", "small_runs": True}
    config.write_text(json.dumps({**options, "strict": True}))
    head, *rows = singer(*records).splitlines(keepends=True)
    feed = [head]
    for number, row in enumerate(rows, start=1):
        feed += [row, b'{"type":"STATE","value":{"at":%d}}\n' % number]
    process = subprocess.run(
        [*TARGET, "--config", str(config)],
        input=b"".join(feed),
        env=environment(),
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    return process.returncode, read_states(process.stdout), process.stderr.decode()


@pytest.mark.spark
@pytest.mark.slow
def test_singer_run_emits_only_the_states_before_a_violation(tmp_path: Path) -> None:
    code, states, log = load_singer(tmp_path, RIGHT, RIGHT, {"id": 2}, RIGHT)
    assert (code, states[-1:]) == (1, [{"at": 2}])
    assert "Line 6 is a record of stream s, without fields that its schema requires: name" in log
    assert not list((tmp_path / "tables").glob("*quarantine*"))


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.thorough
def test_value_that_does_not_fit_its_column_ends_a_strict_run(tmp_path: Path) -> None:
    """JSON Schema accepts the string; the column needs a date-time."""
    code, states, log = load_singer(tmp_path, {**RIGHT, "at": "yesterday"})
    assert (code, states) == (1, [])
    assert "at: not a date-time" in log
    assert "stream s" in log


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.slow
def test_airbyte_run_emits_only_the_states_before_a_violation(tmp_path: Path) -> None:
    def state(value: int) -> bytes:
        of_stream = {"stream_descriptor": {"name": "s"}, "stream_state": value}
        body = {"type": "STATE", "state": {"type": "STREAM", "stream": of_stream}}
        return json.dumps(body).encode() + b"\n"

    configured = stream("s", "append")
    configured["stream"]["json_schema"] = SCHEMA
    feed = of_airbyte("s", RIGHT) + state(1) + of_airbyte("s", {**RIGHT, "x": 1}) + state(2)
    config = {"path": str(tmp_path / "tables"), "format": "parquet", "small_runs": True}
    config |= {"strict": True}
    catalog = {"streams": [configured]}
    run = airbyte(TARGET, "write", tmp_path, feed=feed, config=config, catalog=catalog)
    assert run.code == 1
    assert [emitted["stream"]["stream_state"] for emitted in run.states] == [1]
    [trace] = run.traces("ERROR")
    assert "Line 3 is a record of stream s, with fields that its schema does not declare: x" in str(
        trace["message"]
    )
    assert trace["failure_type"] == "config_error"
