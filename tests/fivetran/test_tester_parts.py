"""Parts of the tester: the destination model, values, forms, settings, single messages."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fivetran_tester import cli
from fivetran_tester.client import RefusedError
from fivetran_tester.common_checks import StoppedError, check_form, check_refusal
from fivetran_tester.configuration import collect_secrets, get_fields, to_text_map
from fivetran_tester.findings import Findings
from fivetran_tester.known_tables import (
    KnownColumn,
    KnownTable,
    select_all,
    to_message,
)
from fivetran_tester.report import form_lines, format_reading
from fivetran_tester.row_model import CheckpointSample, Model
from fivetran_tester.server_pool import Servers
from fivetran_tester.server_process import LogChecker, NotStartedError, ServerProcess
from fivetran_tester.update_reader import UpdateReader
from fivetran_tester.value_checks import find_fault, format_value
from tap_core.protocols.fivetran import proto_messages
from tap_core.protocols.fivetran.enums import DataType, RecordType

NAME = (None, "t")
ID = KnownColumn("id", DataType.LONG, is_key=True)
TEXT = KnownColumn("text", DataType.STRING, is_key=False)
TABLES = {NAME: KnownTable({"id": ID, "text": TEXT})}

operations = st.lists(
    st.tuples(
        st.sampled_from(RecordType),
        st.integers(0, 3),
        st.one_of(st.none(), st.text(max_size=2)),
    ),
    max_size=12,
)


def cells(number: int, text: str | None) -> dict[str, Any]:
    value = (
        proto_messages.ValueType(null=True)
        if text is None
        else proto_messages.ValueType(string=text)
    )
    return {"id": proto_messages.ValueType(long=number), "text": value}


def record(kind: RecordType = RecordType.UPSERT, **data: Any) -> Any:
    return proto_messages.Record(table_name="t", type=int(kind), data=data)


def make_update(*records: Any, **operation: Any) -> Any:
    if operation:
        return proto_messages.UpdateResponse(**operation)
    return proto_messages.UpdateResponse(records=proto_messages.Records(records=records))


def checkpoint(state: str = "{}") -> Any:
    return make_update(checkpoint=proto_messages.Checkpoint(state_json=state))


def make_reader() -> UpdateReader:
    return UpdateReader(Findings(), TABLES, select_all(TABLES))


@given(operations)
def test_model_applies_operations_like_a_destination(todo: list[tuple[Any, int, Any]]) -> None:
    model, expected = Model(), {}
    for kind, number, text in todo:
        model.apply(NAME, ["id"], kind, cells(number, text))
        if kind == RecordType.TRUNCATE:
            expected.clear()
        elif kind == RecordType.DELETE:
            expected.pop(number, None)
        elif kind == RecordType.UPSERT or number in expected:
            expected[number] = text
    other = Model()
    for number, text in expected.items():
        other.apply(NAME, ["id"], RecordType.UPSERT, cells(number, text))
    assert list(model.copy().differences(other)) == []
    assert list(other.differences(model)) == []


def test_differences_are_reported_by_counts_and_columns() -> None:
    expected, actual = Model(), Model()
    for number in range(3):
        expected.apply(NAME, ["id"], RecordType.UPSERT, cells(number, "a"))
    actual.apply(NAME, ["id"], RecordType.UPSERT, cells(0, "b"))
    actual.apply(NAME, ["id"], RecordType.UPSERT, cells(9, "a"))
    assert list(expected.differences(actual)) == [
        "table t: 2 rows are missing",
        "table t: 1 rows are unexpected",
        "table t: values differ in text",
    ]


@given(st.integers(0, 6), st.integers(0, 60))
def test_sampled_checkpoints_are_limited_and_exclude_the_last(limit: int, count: int) -> None:
    sample = CheckpointSample(limit)
    for number in range(count):
        sample.add(str(number), Model())
    sampled = [number for number, _, _ in sample.chosen()]
    assert len(sampled) <= limit
    assert sampled == sorted(set(sampled))
    assert count not in sampled
    assert bool(sampled) == (limit > 0 and count > 1)


@pytest.mark.parametrize(
    ("kind", "value", "fault"),
    [
        (DataType.BOOLEAN, {"bool": True}, None),
        (DataType.BOOLEAN, {"string": "true"}, "has the type string"),
        (DataType.SHORT, {"short": 1 << 15}, "16 bits"),
        (DataType.DECIMAL, {"decimal": "-0012.500"}, None),
        (DataType.DECIMAL, {"decimal": "12.345"}, "more digits"),
        (DataType.DECIMAL, {"decimal": "123456789.0"}, "more digits"),
        (DataType.DECIMAL, {"decimal": "1E3"}, "not a plain"),
        (DataType.DECIMAL, {"decimal": "."}, "not a plain"),
        (DataType.JSON, {"json": "[1, null]"}, None),
        (DataType.JSON, {"json": "{]"}, "not JSON"),
        (DataType.NAIVE_DATE, {"naive_date": {"seconds": 86_400}}, None),
        (DataType.NAIVE_DATE, {"naive_date": {"seconds": 1}}, "not midnight"),
        (DataType.UTC_DATETIME, {"utc_datetime": {"seconds": -(10**12)}}, "outside the years"),
        (DataType.UNSPECIFIED, {"string": "anything"}, None),
        (DataType.UNSPECIFIED, {"utc_datetime": {"seconds": 10**12}}, "outside the years"),
        (DataType.STRING, {}, "no value"),
        (DataType.STRING, {"null": True}, None),
    ],
)
def test_value_is_checked_against_its_column(kind: Any, value: Any, fault: str | None) -> None:
    digits = (10, 2) if kind == DataType.DECIMAL else None
    message = find_fault(
        KnownColumn("c", kind, is_key=False, digits=digits), proto_messages.ValueType(**value)
    )
    assert (message is None) if fault is None else (fault in (message or ""))


def test_values_are_shortened_and_secrets_hidden() -> None:
    column = KnownColumn("c", DataType.STRING, is_key=False)
    assert format_value(column, proto_messages.ValueType(string="x" * 99)) == "x" * 37 + "..."
    assert format_value(column, proto_messages.ValueType(string="a\nb")) == "a\\nb"
    assert format_value(column, proto_messages.ValueType(binary=b"\0\xff")) == "00ff"
    assert format_value(column, proto_messages.ValueType(null=True)) == "null"
    first = proto_messages.ValueType(naive_datetime={"seconds": -62_135_596_800})
    assert format_value(column, first) == "0001-01-01T00:00:00"
    secret = KnownColumn("api_token", DataType.STRING, is_key=False)
    assert "t-4711" not in format_value(secret, proto_messages.ValueType(string="t-4711"))


def test_valid_messages_of_a_stream_have_no_findings() -> None:
    """A truncate, a delete, a single record, a schema change and a warning."""
    reader = make_reader()
    reader.process(make_update(record(RecordType.TRUNCATE)))
    reader.process(make_update(record=record(**cells(1, "a"))))
    reader.process(make_update(record(RecordType.DELETE, id=proto_messages.ValueType(long=1))))
    reader.process(make_update(warning=proto_messages.Warning(message="Slowly.")))
    table = to_message("t", [ID, TEXT, KnownColumn("more", DataType.BOOLEAN, is_key=False)])
    change = proto_messages.SchemaChange(without_schema=proto_messages.TableList(tables=[table]))
    reader.process(make_update(schema_change=change))
    reader.process(make_update(record(**cells(2, "b"), more=proto_messages.ValueType(bool=True))))
    reader.process(checkpoint())
    reader.end()
    assert list(reader.findings.lines()) == []
    assert "  t: 1 row of 4 records" in list(format_reading(reader))


@pytest.mark.parametrize(
    ("answers", "finding"),
    [
        ([proto_messages.UpdateResponse()], "broken F12: a message of the stream is empty"),
        (
            [
                make_update(record(RecordType.TRUNCATE, id=proto_messages.ValueType(long=1))),
                checkpoint(),
            ],
            "broken F14: a truncate of t has data",
        ),
        (
            [make_update(record(**cells(1, "a")), record(RecordType.TRUNCATE)), checkpoint()],
            "should F14: a truncate of t comes after its records",
        ),
        (
            [make_update(record(id=proto_messages.ValueType(long=1))), checkpoint()],
            "should F14: an upsert of t lacks text",
        ),
        ([checkpoint("no")], "broken F15: the state of a checkpoint is not a JSON object"),
        ([], "should F15: an Update without any checkpoint"),
        ([make_update(task=proto_messages.Task())], "broken F4: a task is empty"),
        (
            [make_update(warning=proto_messages.Warning(message="x" * 8192))],
            "F4: a warning has 8,192",
        ),
    ],
)
def test_invalid_message_of_a_stream_is_reported(answers: list[Any], finding: str) -> None:
    reader = make_reader()
    reader.read(answers)
    reader.end()
    assert finding in "\n".join(reader.findings.lines())


def form() -> Any:
    group = proto_messages.ConditionalFields(
        condition=proto_messages.VisibilityCondition(condition_field="tunnel", bool_value=True),
        fields=[
            proto_messages.FormField(name="tunnel.key", label="Key", text_field=1, required=True),
            proto_messages.FormField(
                name="file",
                label="File",
                upload_field=proto_messages.UploadField(),
                placeholder="a.pem",
            ),
        ],
    )
    choice = proto_messages.DescriptiveDropDownFields(
        descriptive_dropdown_field=[
            proto_messages.DescriptiveDropDownField(value="a", label="First")
        ]
    )
    return proto_messages.ConfigurationFormResponse(
        fields=[
            proto_messages.FormField(name="host", label="Host", text_field=0, default_value="here"),
            proto_messages.FormField(name="kind", label="Kind", descriptive_dropdown_fields=choice),
            proto_messages.FormField(
                name="tunnel", label="Tunnel", toggle_field=proto_messages.ToggleField()
            ),
            proto_messages.FormField(name="tunnel=true", label="Tunnel", conditional_fields=group),
        ]
    )


def test_form_is_printed_as_the_user_sees_it() -> None:
    assert [line.split() for line in form_lines(form())] == [
        ["Configuration", "form", "(*", "required)"],
        ["Host", "text", "host", "[here]"],
        ["Kind", "one", "of", "First", "kind"],
        ["Tunnel", "on", "or", "off", "tunnel"],
        ["where", "tunnel", "is", "on:"],
        ["Key", "*", "secret", "text", "tunnel.key"],
        ["File", "a", "file", "file"],
    ]
    assert [field.name for field in get_fields(form())] == [
        "host",
        "kind",
        "tunnel",
        "tunnel.key",
        "file",
    ]


def test_invalid_form_is_reported() -> None:
    findings = Findings()
    wrong = form()
    wrong.fields.append(proto_messages.FormField(name="host", label="", text_field=0))
    wrong.fields.append(proto_messages.FormField(name="empty", label="Empty"))
    wrong.fields.append(proto_messages.FormField(name="password", label="Password", text_field=0))
    check_form(wrong, findings)
    text = "\n".join(findings.lines())
    assert findings.rules == {6}
    for expected in ("host twice", "no label", "empty has no type", "password looks like a secret"):
        assert expected in text


@pytest.mark.parametrize(
    ("refusal", "line"),
    [
        (RefusedError("Test", "UNAVAILABLE", "Closed.", is_task=True), ""),
        (RefusedError("Test", "UNKNOWN", "?", is_task=False), "broken F4: Test ends with UNKNOWN"),
        (RefusedError("Test", "INTERNAL", "?", is_task=False), "should F4: the status of Test"),
        (
            RefusedError("Test", "INTERNAL", "", is_task=True),
            "broken F4: the status of Test is empty",
        ),
        (RefusedError("Update", "DEADLINE_EXCEEDED", "", is_task=False), "broken F12: Update does"),
    ],
)
def test_error_status_is_checked_against_the_rule_of_errors(
    refusal: RefusedError, line: str
) -> None:
    findings = Findings()
    check_refusal(refusal, findings)
    assert "\n".join(findings.lines()).startswith(line)
    assert bool(list(findings.lines())) == bool(line)
    assert refusal.code in str(refusal)


def test_settings_are_sent_as_text() -> None:
    settings = {"tunnel": {"key": "k-1"}, "many": [1, None], "about": {"a": True}, "none": None}
    sent = to_text_map(settings, form())
    assert sent == {
        "host": "here",
        "tunnel.key": "k-1",
        "many": "[1,null]",
        "about": '{"a":true}',
    }
    assert json.loads(sent["about"]) == {"a": True}
    assert collect_secrets(sent, form()) == ["k-1"]


def test_program_that_does_not_serve_is_reported_with_its_output() -> None:
    says = "print('{}'); raise SystemExit(3)"
    log = LogChecker(Findings(), "sdk_connector")
    with pytest.raises(NotStartedError, match=r"exit code 3\n  \{\}"):
        ServerProcess([sys.executable, "-c", says], log, "SourceConnector", 10).await_start()
    with pytest.raises(NotStartedError, match="cannot be started"):
        ServerProcess(["no-such-program"], log, "SourceConnector", 10)


def test_terminal_does_not_interpret_texts_of_a_server(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Tester:
        def __init__(self, servers: Servers, _settings: object, say: Any, *_more: object) -> None:
            self.findings, self.say = servers.findings, say

        def run(self) -> None:
            self.say("  a\x9b31m\u202e: 1 row\n  of\ttwo")
            self.findings.add_violation(10, "table \x1b[2J")
            raise StoppedError("The source says \x1b]0;x\x07.")

    monkeypatch.setattr(cli, "ConnectorTester", Tester)
    options = cli.TesterOptions(
        ["tap-x"], "", "", destination=False, address="", seconds=1, resumes=0
    )
    assert cli.run_test(options) == 1
    output = capsys.readouterr().out
    assert output.startswith("  a\\x9b31m\\u202e: 1 row\n  of\ttwo\n")
    assert "\x1b" not in output
    assert "\x07" not in output
