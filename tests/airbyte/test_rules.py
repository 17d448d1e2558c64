"""The rules of tests/airbyte/rules.py: each fault is reported, and valid output has none."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from tests.airbyte.models import model_faults, needs_models
from tests.airbyte.rules import envelope_faults, read_faults, single_faults, write_faults

NOW = 1_700_000_000_000
SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}
CATALOG = {
    "streams": [
        {"stream": {"name": "a", "namespace": "n", "json_schema": SCHEMA}},
        {"stream": {"name": "b", "json_schema": SCHEMA}},
    ]
}


def status(name: str, value: str, namespace: str | None = None) -> dict[str, Any]:
    fields = {"stream_descriptor": {"name": name, "namespace": namespace}, "status": value}
    trace = {"type": "STREAM_STATUS", "emitted_at": NOW, "stream_status": fields}
    return {"type": "TRACE", "trace": trace}


def record(name: str, namespace: str | None = None, **data: Any) -> dict[str, Any]:
    body = {"stream": name, "namespace": namespace, "data": data, "emitted_at": NOW}
    return {"type": "RECORD", "record": body}


def state(name: str, count: float, namespace: str | None = None, **blob: Any) -> dict[str, Any]:
    stream = {
        "stream_descriptor": {"name": name, "namespace": namespace},
        "stream_state": blob,
    }
    body = {"type": "STREAM", "stream": stream, "sourceStats": {"recordCount": count}}
    return {"type": "STATE", "state": body}


def error() -> dict[str, Any]:
    fields = {"message": "it broke", "failure_type": "system_error"}
    return {"type": "TRACE", "trace": {"type": "ERROR", "emitted_at": NOW, "error": fields}}


def valid_messages() -> list[dict[str, Any]]:
    """The messages of a valid source for two streams."""
    return [
        status("a", "STARTED", "n"),
        record("a", "n", id=1),
        status("a", "RUNNING", "n"),
        record("a", "n", id=2),
        state("a", 2.0, "n", at=2),
        status("a", "COMPLETE", "n"),
        status("b", "STARTED"),
        state("b", 0.0),
        status("b", "COMPLETE"),
    ]


def encode_lines(messages: list[Any]) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


@needs_models
def test_valid_output_has_no_fault() -> None:
    output = encode_lines(valid_messages())
    assert read_faults(output, CATALOG) == []
    assert model_faults(output) == []


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("RD4", lambda messages: messages.insert(1, record("c", id=1))),
        ("TR4", lambda messages: messages.insert(0, record("a", "n", id=1))),
        ("TR4", lambda messages: messages.append(record("a", "n", id=1))),
        ("TR4", lambda messages: messages.append(status("b", "RUNNING"))),
        ("TR4", lambda messages: messages.pop(2)),
        ("TR4", lambda messages: messages.pop()),
        ("RD4", lambda messages: messages[1]["record"].pop("namespace")),
        ("RD3", lambda messages: messages[1]["record"].update(emitted_at=1_700_000_000)),
        ("RD3", lambda messages: messages[1]["record"].update(emitted_at=NOW + 0.5)),
        ("RD3", lambda messages: messages[1]["record"].update(data=[])),
        ("SM4", lambda messages: messages[1]["record"]["data"].update(more=1)),
        ("ST11", lambda messages: messages[4]["state"]["sourceStats"].update(recordCount=3.0)),
        ("ST11", lambda messages: messages[4]["state"].pop("sourceStats")),
        ("ST1", lambda messages: messages[4]["state"].update(data={})),
        ("ST7", lambda messages: messages.insert(5, record("a", "n", id=3))),
        ("ST6", lambda messages: messages.pop(7)),
        ("E4", lambda messages: messages[1].update(log={"level": "INFO", "message": "x"})),
        ("E14", lambda messages: messages.append({"type": "CATALOG", "catalog": {"streams": []}})),
        ("E2", lambda messages: messages.append({"stream": "a"})),
        ("E9", lambda messages: messages.append(error())),
        ("E9", lambda messages: messages.__setitem__(-1, status("b", "INCOMPLETE"))),
    ],
)
def test_broken_rule_of_read_is_reported(rule: str, change: Any) -> None:
    messages = deepcopy(valid_messages())
    change(messages)
    assert any(fault.startswith(rule) for fault in read_faults(encode_lines(messages), CATALOG))


def test_failed_read_requires_an_error_trace() -> None:
    messages = [status("b", "STARTED"), status("b", "INCOMPLETE")]
    assert read_faults(encode_lines(messages), CATALOG, 1) == [
        "RD10 it failed and wrote no ERROR trace"
    ]
    assert read_faults(encode_lines([*messages, error()]), CATALOG, 1) == []


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("E3", b'{"type": "LOG", "log": {"level": "INFO", "message": "a"}} {}\n'),
        ("E3", b"INFO hello\n"),
        ("E3", b"\n"),
        ("E3", b'{"type": "LOG", "log": {"level": "INFO", "message": "\xff"}}\n'),
        ("E2", b"[]\n"),
        ("E4", b'{"type": "LOG", "spec": {}}\n'),
    ],
)
def test_invalid_line_is_reported(rule: str, line: bytes) -> None:
    [fault] = envelope_faults(line, {"SPEC"})
    assert fault.startswith(rule)


def test_spec_requires_exactly_one_message() -> None:
    spec = encode_lines([{"type": "SPEC", "spec": {"connectionSpecification": {}}}])
    assert single_faults(spec, "SPEC") == []
    assert single_faults(spec * 2, "SPEC") == ["E14 2 messages of the type SPEC"]
    assert single_faults(b"", "SPEC") == ["E14 0 messages of the type SPEC"]


def test_destination_may_skip_states_but_not_reorder_or_lose_the_last() -> None:
    fed = [state("a", 1.0, at=1), state("b", 0.0), state("a", 1.0, at=2), state("a", 0.0, at=3)]
    answered = deepcopy([fed[0], fed[3], fed[1]])
    for message in answered:
        message["state"]["destinationStats"] = {"recordCount": 1.0}
    input_lines = b"junk\n" + encode_lines([*fed, {"type": "NEWER"}])
    assert write_faults(input_lines, encode_lines(answered)) == []
    shuffled = write_faults(input_lines, encode_lines([fed[2], fed[0], fed[3], fed[1]]))
    assert [fault[:2] for fault in shuffled] == ["D4"]
    lost = write_faults(input_lines, encode_lines(fed[:3]))
    assert [fault[:2] for fault in lost] == ["D4"]
    assert write_faults(input_lines, encode_lines(fed[:3]), 1) == [
        "D16 it failed and wrote no ERROR trace"
    ]
    assert write_faults(input_lines, encode_lines([*fed[:3], error()]), 1) == []


@needs_models
@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"RECORD","record":{"stream":"a","data":{},"emitted_at":"1"}}\n',
        b'{"type":"STATE","state":{"state_type":"STREAM","stream":{"stream_descriptor":{}}}}\n',
        b'{"type":"STATE","state":{"type":"STREAM","recordCount":1}}\n',
        b'{"type":"TRACE","trace":{"type":"ERROR","emitted_at":1,"error":{}}}\n',
    ],
)
def test_line_refused_by_the_models_is_reported(line: bytes) -> None:
    assert len(model_faults(line)) == 1
