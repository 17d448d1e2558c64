"""The numbered rules of docs/airbyte.md about features that few sources have.

The tests are like those in test_source_rules.py.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import jsonschema
import pytest

from tests.airbyte.models import model_faults, needs_models
from tests.airbyte.rules import read_faults
from tests.airbyte.running import PROGRAMS, TAP_SHOP, TOKEN, Run, airbyte, configured
from tests.http.server import ReceivedRequest, Reply, page, serving

TAP = str(PROGRAMS / "tap_odd.py")
ODD, LOG, TOKENS = ((sys.executable, TAP, kind) for kind in ("odd", "log", "tokens"))


def discover_catalog(program: tuple[str, ...], folder: Path, **config: Any) -> dict[str, Any]:
    [catalog] = airbyte(program, "discover", folder, config=config).of_type("CATALOG")
    return catalog


def read(program: tuple[str, ...], folder: Path, catalog: Any, **options: Any) -> Run:
    run = airbyte(program, "read", folder, config={}, catalog=catalog, **options)
    assert read_faults(run.output, catalog, run.code) == []
    return run


@needs_models
@pytest.mark.peer
def test_names_may_be_any_text_and_namespaces_distinguish_streams(tmp_path: Path) -> None:
    """E13, RD3, RD4, DI3, DI8, DI9: in the catalog, in records, states and statuses."""
    catalog = discover_catalog(ODD, tmp_path)
    names = {(stream.get("namespace"), stream["name"]) for stream in catalog["streams"]}
    unusual_name = 'Grün / ☃ "quoted"\\'
    twins = {("space 1", "twin"), ("space 2", "twin")}
    assert names == {("schéma a", unusual_name), (None, "free"), *twins}
    run = read(ODD, tmp_path, configured(catalog, mode="full_refresh"))
    assert (run.code, model_faults(run.output)) == (0, [])
    assert run.records(unusual_name) == [{"": "ünïcode\u2028", "a.b ": 1}]
    record_names = {
        (message.get("namespace"), message["stream"]) for message in run.of_type("RECORD")
    }
    assert record_names == names
    configured_catalog = configured(catalog)
    configured_catalog["streams"] = [
        stream
        for stream in configured_catalog["streams"]
        if stream["stream"].get("namespace") == "space 2"
    ]
    assert read(ODD, tmp_path, configured_catalog).records("twin") == [{"id": 2}]


def with_cursor(catalog: dict[str, Any], cursor: list[str], **stream_fields: Any) -> dict[str, Any]:
    """Return a configured catalog of the stream whose cursor the user chooses."""
    configured_catalog = json.loads(json.dumps(configured(catalog, ["free"])))
    configured_catalog["streams"][0].update(cursor_field=cursor)
    configured_catalog["streams"][0]["stream"].update(stream_fields)
    return configured_catalog


@pytest.mark.parametrize(
    ("cursor", "default", "expected"),
    [
        (["day"], None, {"replication_key": "day", "value": "2024-01-09"}),
        (["id"], ["day"], {"replication_key": "id", "value": 3}),
        ([], ["id"], {"replication_key": "id", "value": 3}),
    ],
)
def test_configured_cursor_precedes_the_default_one(
    tmp_path: Path, cursor: list[str], default: Any, expected: dict[str, Any]
) -> None:
    """CF1, CU2, CU3: the next read resumes by the same cursor."""
    catalog = with_cursor(discover_catalog(ODD, tmp_path), cursor, default_cursor_field=default)
    first = read(ODD, tmp_path, catalog)
    assert (first.code, len(first.records("free"))) == (0, 3)
    state = first.state_of["free"]
    assert state["replication_key"] == expected["replication_key"]
    assert state["replication_key_value"] == expected["value"]
    second = read(ODD, tmp_path, catalog, state=first.states)
    assert len(second.records("free")) == 1


def test_incremental_without_a_cursor_is_refused(tmp_path: Path) -> None:
    """CF1, CU4, RD9: a config_error that names the stream; no record is read."""
    run = read(
        ODD, tmp_path, with_cursor(discover_catalog(ODD, tmp_path), [], default_cursor_field=None)
    )
    assert run.code != 0
    trace = run.traces("ERROR")[-1]
    assert trace["failure_type"] == "config_error"
    assert "free" in trace["message"]
    assert run.of_type("RECORD") == []


def test_source_defined_cursor_cannot_be_overridden(tmp_path: Path) -> None:
    """CU1: a configured cursor has no effect."""
    config = {"token": TOKEN}
    [catalog] = airbyte(TAP_SHOP, "discover", tmp_path, config=config).of_type("CATALOG")
    configured_catalog = configured(catalog, ["orders"], cursor_field=["total"])
    run = airbyte(TAP_SHOP, "read", tmp_path, config=config, catalog=configured_catalog)
    assert run.code == 0
    assert run.state_of["orders"]["replication_key"] == "updated_at"


def test_source_may_write_an_estimate(tmp_path: Path) -> None:
    """TR3: before the first record of the stream, in whole numbers."""
    run = read(ODD, tmp_path, with_cursor(discover_catalog(ODD, tmp_path), ["id"]))
    [trace] = run.traces("ESTIMATE")
    assert (trace["name"], trace["type"]) == ("free", "STREAM")
    assert (trace["row_estimate"], trace["byte_estimate"]) == (3, 90)
    kinds = [
        message["trace"]["type"] if message["type"] == "TRACE" else message["type"]
        for message in run.messages
    ]
    assert kinds.index("ESTIMATE") < kinds.index("RECORD")


def test_streams_with_a_shared_state_have_a_global_state(tmp_path: Path) -> None:
    """ST4, ST1: with the shared state and that of each stream; the next read resumes from both."""
    configured_catalog = configured(discover_catalog(LOG, tmp_path))
    first = read(LOG, tmp_path, configured_catalog)
    assert {state["type"] for state in first.states} == {"GLOBAL"}
    last = first.states[-1]["global"]
    assert last["shared_state"] == {"log_position": 3}
    names = {entry["stream_descriptor"]["name"] for entry in last["stream_states"]}
    assert names == {"left", "right"}
    assert len(first.of_type("RECORD")) == 6
    for states in (first.states, [first.states[-1]], first.states[-1]):
        assert read(LOG, tmp_path, configured_catalog, state=states).of_type("RECORD") == []
    renamed = json.loads(json.dumps(first.states[-1]).replace('"global":', '"global_":'))
    assert read(LOG, tmp_path, configured_catalog, state=[renamed]).of_type("RECORD") == []


def token_server(good: list[str]) -> Any:
    """Return an answer function; each refresh token is valid once."""

    def answer(request: ReceivedRequest) -> Reply:
        if request.path != "/token":
            return page({"id": 1})
        (used,) = parse_qs(request.body.decode())["refresh_token"]
        if used != good[-1]:
            return Reply({"error": "invalid_grant"}, 400)
        good.append(f"refresh-{len(good)}")
        token = {"access_token": "access-1", "expires_in": 3600}
        return Reply({**token, "refresh_token": good[-1]})

    return answer


@needs_models
@pytest.mark.peer
def test_replaced_refresh_token_is_sent_to_the_client(tmp_path: Path) -> None:
    """CT1, CT2: CONTROL with valid settings that contain the new token."""
    with serving() as server:
        good = ["refresh-0"]
        server.answers_by(token_server(good))
        config = {"url": server.url, "refresh_token": "refresh-0"}
        [spec] = airbyte(TOKENS, "spec", tmp_path).of_type("SPEC")
        catalog = configured(discover_catalog(TOKENS, tmp_path, **config))
        for _ in range(2):
            run = airbyte(TOKENS, "read", tmp_path, config=config, catalog=catalog)
            assert (run.code, run.records("things")) == (0, [{"id": 1}])
            assert model_faults(run.output) == []
            control = run.of_type("CONTROL")[-1]
            assert control["type"] == "CONNECTOR_CONFIG"
            config = {**config, **control["connectorConfig"]["config"]}
            jsonschema.validate(config, spec["connectionSpecification"])
            assert config["refresh_token"] == good[-1]
            other_lines = [line for line in run.output.splitlines() if b'"CONTROL"' not in line]
            assert b"refresh-" not in b"".join(other_lines)
