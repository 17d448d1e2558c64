"""The numbered rules of docs/airbyte.md that every source keeps.

The tests run processes. A test's docstring begins with the numbers of its rules;
tests/airbyte/test_rules_document.py compares them with the document.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.airbyte.rules import read_faults
from tests.airbyte.running import TAP_SHOP, TOKEN, Run, airbyte, configured, environment

CONFIG = {"token": TOKEN}
STATELESS, IN_ORDER, PARTITIONED, PARENT, CHILD = "colours", "orders", "readings", "shops", "visits"
STREAMS = [STATELESS, IN_ORDER, PARTITIONED, PARENT, CHILD]
INCREMENTAL = [IN_ORDER, PARTITIONED, CHILD]
COUNTS = {STATELESS: 3, IN_ORDER: 9, PARTITIONED: 27, PARENT: 2, CHILD: 18}
NEWEST = {IN_ORDER: 1, PARTITIONED: 3, CHILD: 2}
"""The number of rows at the bookmarks, which are read again."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("source")


@pytest.fixture(scope="module")
def catalog(folder: Path) -> dict[str, Any]:
    [discovered] = airbyte(TAP_SHOP, "discover", folder, config=CONFIG).of_type("CATALOG")
    return discovered


@pytest.fixture(scope="module")
def full_run(folder: Path, catalog: dict[str, Any]) -> Run:
    """A read of all streams, incremental if they support it."""
    return airbyte(TAP_SHOP, "read", folder, config=CONFIG, catalog=configured(catalog))


def read(folder: Path, catalog: Any, **files: Any) -> Run:
    return airbyte(TAP_SHOP, "read", folder, config=CONFIG, catalog=catalog, **files)


def get_error(run: Run) -> dict[str, Any]:
    """Return the last ERROR trace of a run that failed."""
    assert run.code != 0
    trace: dict[str, Any] = run.traces("ERROR")[-1]
    return trace


def counts(run: Run) -> dict[str, int]:
    return {name: len(run.records(name)) for name in STREAMS}


# The command line


def test_options_may_be_in_any_order_and_form(folder: Path, catalog: dict[str, Any]) -> None:
    """E1: the command is the first argument; the options name JSON files."""
    (folder / "c.json").write_text(json.dumps(CONFIG))
    (folder / "cat.txt").write_text(json.dumps(configured(catalog, [STATELESS])))
    for arguments in (
        ["read", "--config", "c.json", "--catalog", "cat.txt"],
        ["read", "--catalog=cat.txt", "--config=c.json"],
    ):
        result = subprocess.run(
            [*TAP_SHOP, *arguments], cwd=folder, env=environment(), capture_output=True, check=False
        )
        assert result.returncode == 0, result.stdout
        assert result.stdout.count(b'"RECORD"') == 3


def test_source_ignores_standard_input(folder: Path, catalog: dict[str, Any]) -> None:
    """E11: content of standard input has no effect."""
    fed = read(folder, configured(catalog, [STATELESS]), feed=b"not a message\n")
    assert (fed.code, counts(fed)[STATELESS]) == (0, 3)


@pytest.mark.parametrize(
    "arguments", [["reed"], ["check"], ["discover"], ["read"], ["read", "--config", "c.json"]]
)
def test_incomplete_or_unknown_command_fails(folder: Path, arguments: list[str]) -> None:
    """E10: the exit code is not 0, and no record is written."""
    (folder / "c.json").write_text(json.dumps(CONFIG))
    result = subprocess.run(
        [*TAP_SHOP, *arguments], cwd=folder, env=environment(), capture_output=True, check=False
    )
    assert result.returncode != 0
    assert b"RECORD" not in result.stdout


def test_unknown_properties_are_ignored(
    folder: Path, catalog: dict[str, Any], full_run: Run
) -> None:
    """E5, SM1, ST10: in the catalog and in a state, also states of streams that no longer exist."""
    configured_catalog = configured(catalog, INCREMENTAL, is_resumable=None, newer={"a": 1})
    configured_catalog["newer"] = True
    removed_stream = {
        "stream_descriptor": {"name": "gone", "namespace": "n"},
        "stream_state": {"x": 1},
    }
    states = [*full_run.states, {"type": "STREAM", "stream": removed_stream, "newer": 1}]
    run = read(folder, configured_catalog, state=states)
    assert run.code == 0, run.output
    assert {name: counts(run)[name] for name in INCREMENTAL} == NEWEST


# spec and check


def test_specification_is_a_valid_schema_of_the_settings(folder: Path) -> None:
    """SP1, SP2, SP3, SP4, SP5, SP11: with marked secrets and a version; valid settings match."""
    [spec] = airbyte(TAP_SHOP, "spec", folder).of_type("SPEC")
    schema = spec["connectionSpecification"]
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.validate(CONFIG, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"days": "many"}, schema)
    assert spec["protocol_version"].count(".") == 2
    assert schema["properties"]["token"]["airbyte_secret"] is True
    assert "airbyte_secret" not in schema["properties"]["days"]
    assert schema["required"] == ["token"]


def test_specification_omits_destination_and_obsolete_fields(folder: Path) -> None:
    """SP6, SP7, SP8, SP9: no destination sync modes, no normalization, no DBT."""
    [spec] = airbyte(TAP_SHOP, "spec", folder).of_type("SPEC")
    assert not spec.get("supported_destination_sync_modes")
    assert not spec.get("supportsNormalization")
    assert not spec.get("supportsDBT")


def test_wrong_credentials_are_a_failed_status_with_a_message(folder: Path) -> None:
    """CK1, CK2, CK3, CK4, CK5: one status with a reason, no secret, and exit code 0."""
    run = airbyte(TAP_SHOP, "check", folder, config={"token": "t-wrong-9"})
    [status] = run.of_type("CONNECTION_STATUS")
    assert (run.code, status["status"]) == (0, "FAILED")
    assert "401 the token was refused" in status["message"]
    assert b"t-wrong-9" not in run.output


def test_correct_credentials_succeed(folder: Path) -> None:
    """CK1, CK7: one status; the reads of the other tests succeed accordingly."""
    run = airbyte(TAP_SHOP, "check", folder, config=CONFIG)
    [status] = run.of_type("CONNECTION_STATUS")
    assert (run.code, status["status"]) == (0, "SUCCEEDED")


def test_settings_invalid_by_the_specification_are_refused(folder: Path) -> None:
    """CK6: a failed status or a config_error trace."""
    run = airbyte(TAP_SHOP, "check", folder, config={"days": "many"})
    statuses = [status["status"] for status in run.of_type("CONNECTION_STATUS")]
    types = [trace["failure_type"] for trace in run.traces("ERROR")]
    assert statuses == ["FAILED"] or "config_error" in types


# discover


def test_catalog_describes_each_stream(catalog: dict[str, Any]) -> None:
    """DI3, DI4, DI5, DI6, DI7, DI13: name, schema, modes, cursor path and key paths."""
    streams = {stream["name"]: stream for stream in catalog["streams"]}
    assert list(streams) == STREAMS
    for name, stream in streams.items():
        jsonschema.Draft7Validator.check_schema(stream["json_schema"])
        is_incremental = name in INCREMENTAL
        modes = ["full_refresh", *(["incremental"] if is_incremental else [])]
        assert stream["supported_sync_modes"] == modes
        assert bool(stream.get("source_defined_cursor")) is is_incremental
        assert bool(stream.get("default_cursor_field")) is is_incremental
    assert streams[IN_ORDER]["default_cursor_field"] == ["updated_at"]
    assert streams[PARTITIONED]["source_defined_primary_key"] == [["meter"], ["day"]]
    moment = streams[IN_ORDER]["json_schema"]["properties"]["updated_at"]
    assert (moment["format"], moment["airbyte_type"]) == ("date-time", "timestamp_with_timezone")


def test_discovery_is_deterministic(folder: Path, catalog: dict[str, Any]) -> None:
    """DI1, DI2, DI8, DI9, DI10: one catalog; streams have no namespace."""
    [second] = airbyte(TAP_SHOP, "discover", folder, config=CONFIG).of_type("CATALOG")
    assert json.dumps(second) == json.dumps(catalog)
    assert not any(stream.get("namespace") for stream in second["streams"])


# read


def test_read_without_a_state_reads_everything(
    folder: Path, catalog: dict[str, Any], full_run: Run
) -> None:
    """RD1, RD2, RD8, E9: no file, an empty file, `[]`, `{}` and null are equal."""
    assert (full_run.code, counts(full_run)) == (0, COUNTS)
    for text in ("[]", "{}", "null", ""):
        run = read(folder, configured(catalog), text={"state": text})
        assert (run.code, counts(run)) == (0, COUNTS), text


@pytest.mark.parametrize("stream", STREAMS)
def test_record_has_stream_data_and_time(full_run: Run, stream: str) -> None:
    """RD3, DI8: data is an object, emitted_at whole milliseconds; no namespace."""
    records = [record for record in full_run.of_type("RECORD") if record["stream"] == stream]
    assert len(records) == COUNTS[stream]
    for record in records:
        assert isinstance(record["data"], dict)
        assert isinstance(record["emitted_at"], int)
        assert record.get("namespace") is None


@pytest.mark.parametrize("stream", STREAMS)
def test_only_configured_streams_are_written(
    folder: Path, catalog: dict[str, Any], stream: str
) -> None:
    """RD4, SM2: no messages of other streams, nor of a parent that is read for its child."""
    configured_catalog = configured(catalog, [stream])
    run = read(folder, configured_catalog)
    assert counts(run) == {name: COUNTS[name] if name == stream else 0 for name in STREAMS}
    assert read_faults(run.output, configured_catalog, run.code) == []


@pytest.mark.parametrize("stream", STREAMS)
def test_full_refresh_ignores_the_state(
    folder: Path, catalog: dict[str, Any], full_run: Run, stream: str
) -> None:
    """RD6: all records are read again."""
    configured_catalog = configured(catalog, [stream], "full_refresh")
    run = read(folder, configured_catalog, state=full_run.states)
    assert (run.code, counts(run)[stream]) == (0, COUNTS[stream])


@pytest.mark.parametrize("stream", INCREMENTAL)
def test_incremental_reads_only_new_records(
    folder: Path, catalog: dict[str, Any], full_run: Run, stream: str
) -> None:
    """RD7, ST9: after the last state only the records at its bookmarks are read."""
    run = read(folder, configured(catalog, [stream]), state=full_run.states)
    assert (run.code, counts(run)[stream]) == (0, NEWEST[stream])


def test_invalid_sync_mode_is_refused(folder: Path, catalog: dict[str, Any]) -> None:
    """RD9, RD10, TR2: a config_error that names the stream; no record is read."""
    configured_catalog = configured(catalog, [IN_ORDER])
    configured_catalog["streams"][0]["sync_mode"] = "INVALID"
    run = read(folder, configured_catalog)
    trace = get_error(run)
    assert trace["failure_type"] == "config_error"
    assert IN_ORDER in trace["message"]
    assert run.of_type("RECORD") == []


def test_incremental_of_a_full_refresh_stream_is_a_full_refresh(
    folder: Path, catalog: dict[str, Any]
) -> None:
    """RD9: with a warning, because PyAirbyte requests it for every stream."""
    configured_catalog = configured(catalog, [STATELESS])
    configured_catalog["streams"][0]["sync_mode"] = "incremental"
    run = read(folder, configured_catalog)
    assert (run.code, counts(run)[STATELESS]) == (0, 3)
    warned = [log["message"] for log in run.of_type("LOG") if log["level"] == "WARN"]
    assert any(STATELESS in message for message in warned)


@pytest.mark.parametrize("text", ["", "nope", "[]", '{"streams": {}}', '{"streams": [{}]}'])
def test_invalid_catalog_is_refused(folder: Path, text: str) -> None:
    """RD9, RD10: with a config_error."""
    run = airbyte(TAP_SHOP, "read", folder, config=CONFIG, text={"catalog": text})
    assert get_error(run)["failure_type"] == "config_error"


@pytest.mark.parametrize("stream", STREAMS)
def test_failed_source_writes_an_error_trace_and_incomplete(
    folder: Path, catalog: dict[str, Any], stream: str
) -> None:
    """RD10, TR2, TR4, E9: no secret in the output, and the exit code is not 0."""
    configured_catalog = configured(catalog)
    broken = {**CONFIG, "breaks": stream}
    run = airbyte(TAP_SHOP, "read", folder, config=broken, catalog=configured_catalog)
    if COUNTS[stream] <= 3:
        assert run.code == 0, "it ends before its fourth row"
        return
    trace = get_error(run)
    assert trace["failure_type"] == "system_error"
    assert "the source broke down" in trace["message"] + trace["internal_message"]
    assert "Traceback" in trace["stack_trace"]
    assert TOKEN.encode() not in run.output
    statuses = {
        trace["stream_descriptor"]["name"]: trace["status"] for trace in run.traces("STREAM_STATUS")
    }
    assert statuses[stream] == "INCOMPLETE"
    assert read_faults(run.output, configured_catalog, run.code) == []


# Outdated catalogs


def test_stream_that_no_longer_exists_does_not_affect_the_others(
    folder: Path, catalog: dict[str, Any]
) -> None:
    """SM1: all other streams are read."""
    configured_catalog = configured(catalog, [STATELESS])
    configured_catalog["streams"].append(
        json.loads(json.dumps(configured_catalog["streams"][0]).replace("colours", "old"))
    )
    run = read(folder, configured_catalog)
    assert (run.code, counts(run)[STATELESS]) == (0, 3)


@pytest.mark.parametrize("stream", STREAMS)
def test_added_or_removed_fields_are_not_errors(
    folder: Path, catalog: dict[str, Any], stream: str
) -> None:
    """SM3, SM4: a removed field is absent; a field that is not configured is not sent."""
    configured_catalog = json.loads(json.dumps(configured(catalog, [stream])))
    [entry] = configured_catalog["streams"]
    properties = entry["stream"]["json_schema"]["properties"]
    needed = {*entry["cursor_field"], *(name for path in entry["primary_key"] for name in path)}
    dropped = next((name for name in properties if name not in needed), None)
    properties.pop(dropped, None)
    properties["gone"] = {"type": ["null", "string"]}
    run = read(folder, configured_catalog)
    assert (run.code, counts(run)[stream]) == (0, COUNTS[stream])
    for row in run.records(stream):
        assert dropped not in row
        assert row.get("gone") is None
    assert read_faults(run.output, configured_catalog) == []


# State


def _get_stream(message: dict[str, Any]) -> str | None:
    """Return the stream of a record or a state."""
    if message["type"] == "STATE":
        return str(message["state"]["stream"]["stream_descriptor"]["name"])
    return str(message["record"]["stream"]) if message["type"] == "RECORD" else None


@pytest.mark.parametrize("stream", STREAMS)
def test_each_stream_has_its_own_state(full_run: Run, stream: str) -> None:
    """ST1, ST2, ST6, ST7, ST13: a STREAM state after the last record, without other streams."""
    last = [message for message in full_run.messages if _get_stream(message) == stream][-1]
    assert last["type"] == "STATE"
    assert last["state"]["type"] == "STREAM"
    other_streams = [name for name in STREAMS if name != stream]
    text = json.dumps(last["state"]["stream"]["stream_state"])
    assert not any(f'"{name}"' in text for name in other_streams)


@pytest.mark.parametrize("stream", INCREMENTAL)
def test_no_record_is_lost_after_resuming_from_any_state(
    folder: Path, catalog: dict[str, Any], full_run: Run, stream: str
) -> None:
    """ST8: the records before a state and those of a read from it are all records."""
    configured_catalog = configured(catalog, [stream])
    before: list[dict[str, Any]] = []
    for message in read(folder, configured_catalog).messages:
        if message["type"] == "RECORD":
            before.append(message["record"]["data"])
        elif message["type"] == "STATE":
            remaining = read(folder, configured_catalog, state=[message["state"]]).records(stream)
            assert all(row in [*before, *remaining] for row in full_run.records(stream))
    assert len(before) == COUNTS[stream]


def test_null_state_resets_only_its_stream(
    folder: Path, catalog: dict[str, Any], full_run: Run
) -> None:
    """ST3, ST13: in a STREAM state and in a GLOBAL state."""
    states = [json.loads(json.dumps(state)) for state in full_run.states]
    for state in states:
        if state["stream"]["stream_descriptor"]["name"] == PARTITIONED:
            state["stream"]["stream_state"] = None
    expected = {**COUNTS, **NEWEST, PARTITIONED: COUNTS[PARTITIONED]}
    assert counts(read(folder, configured(catalog), state=states)) == expected
    stream_states = [state["stream"] for state in states]
    global_state = {
        "type": "GLOBAL",
        "global": {"shared_state": {}, "stream_states": stream_states},
    }
    assert counts(read(folder, configured(catalog), state=[global_state])) == expected


def test_singer_state_is_a_legacy_state(
    folder: Path, catalog: dict[str, Any], full_run: Run
) -> None:
    """ST1, ST5: bare or as `data`, with or without the type; null resets all streams."""
    document = {"bookmarks": full_run.state_of}
    expected = {**COUNTS, **NEWEST}
    legacy = [{"type": "LEGACY", "data": document}]
    for state in (document, legacy, [{"data": document}]):
        assert counts(read(folder, configured(catalog), state=state)) == expected, state
    reset = [{"type": "LEGACY", "data": None}]
    assert counts(read(folder, configured(catalog), state=reset)) == COUNTS


def test_output_of_a_destination_is_a_state_file(
    folder: Path, catalog: dict[str, Any], full_run: Run
) -> None:
    """ST12: lines of messages; the last one of each stream is used."""
    lines = "".join(
        json.dumps({"type": "STATE", "state": {**state, "destinationStats": {"recordCount": 1.0}}})
        + "\n"
        for state in full_run.states
    )
    run = read(folder, configured(catalog), text={"state": lines})
    assert counts(run) == {**COUNTS, **NEWEST}


def test_state_written_by_pyairbyte_is_accepted(
    folder: Path, catalog: dict[str, Any], full_run: Run
) -> None:
    """ST10: null fields, a duplicate field, and the old name of the type."""
    states = full_run.state_of
    dumps = [
        f'{{"{key}":"STREAM","stream":{{"stream_descriptor":{{"name":"{name}","namespace":null}},'
        f'"stream_state":{json.dumps(states[name])}}},"global_":null,"data":null,"sourceStats":'
        f'{{"recordCount":5.0,"rejectedRecordCount":null}},"destinationStats":null,"global_":null}}'
        for name, key in zip(INCREMENTAL, ("type", "type", "state_type"), strict=True)
    ]
    run = read(folder, configured(catalog), text={"state": f"[{','.join(dumps)}]"})
    assert (run.code, counts(run)) == (0, {**COUNTS, **NEWEST})


@pytest.mark.parametrize("stream", STREAMS)
def test_stream_status_is_started_running_complete(full_run: Run, stream: str) -> None:
    """TR1, TR4: each trace has a time."""
    statuses = full_run.traces("STREAM_STATUS")
    own_statuses = [
        status["status"] for status in statuses if status["stream_descriptor"]["name"] == stream
    ]
    assert (own_statuses[0], own_statuses[1], own_statuses[-1]) == (
        "STARTED",
        "RUNNING",
        "COMPLETE",
    )
    assert all(trace["emitted_at"] > 1e12 for trace in full_run.of_type("TRACE"))


def test_logs_are_messages_with_a_level(full_run: Run) -> None:
    """E8: LOG with one of the protocol's levels."""
    levels = {log["level"] for log in full_run.of_type("LOG")}
    assert levels
    assert levels <= {"FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"}
