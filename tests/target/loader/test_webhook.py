"""The outcome of a run, sent to the URL in the setting ``webhook``."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tap_core.exceptions import ConfigValidationError
from target_spark.loader.report import COMPLETE, STOPPED, Report
from target_spark.loader.webhook import send_outcome
from target_spark.target import TargetSpark
from tests.http.server import Reply, Server, serving
from tests.target.cli.test_target_cli import record, run, schema, state

TOKEN = "T0K3N4567890"
LOAD = b"".join([schema("a", "id"), record(1), record(2), state(1)])


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        server.answers(Reply())
        yield server


def make_report(outcome: str = COMPLETE) -> dict[str, Any]:
    report = Report()
    report.add_facts(job="flights", run="r1", started=1_700_000_000_000, format="delta")
    report.record_table("a", "a", "/lake/a")
    report.count_received("a", 3, 30)
    report.count_commit("a", 2, 1, 0.5)
    report.record_outcome(outcome)
    return report.as_dict()


@pytest.mark.parametrize(
    ("outcome", "expected", "error"),
    [
        (COMPLETE, COMPLETE, None),
        (STOPPED, STOPPED, None),
        ("Line 3 is no message.", "not complete", "Line 3 is no message."),
    ],
)
def test_document_has_the_outcome_and_the_counts(
    server: Server, outcome: str, expected: str, error: str | None
) -> None:
    send_outcome(f"{server.url}/hook?x=1", make_report(outcome))
    (request,) = server.requests
    assert (request.method, request.path, request.query) == ("POST", "/hook", {"x": ["1"]})
    assert request.headers["Content-Type"] == "application/json"
    sent = request.json
    assert (sent["outcome"], sent["error"]) == (expected, error)
    assert (sent["job"], sent["run"]) == ("flights", "r1")
    assert sent["started"] == "2023-11-14T22:13:20.000+00:00"
    assert sent["ended"] > sent["started"]
    assert sent["streams"]["a"]["received"] == 3
    assert sent["streams"]["a"]["written"] == 2
    assert sent["streams"]["a"]["quarantined"] == 1


def test_temporary_failure_is_retried(server: Server) -> None:
    server.answers(Reply(status=503, headers={"Retry-After": "0"}), Reply(status=204))
    send_outcome(server.url, make_report())
    assert len(server.requests) == 2


@pytest.mark.parametrize("status", [302, 404])
@pytest.mark.parametrize("suffix", [f"/hook/{TOKEN}?key={TOKEN}", f"?{TOKEN}"])
def test_refusal_is_a_warning_without_the_url(
    server: Server, caplog: pytest.LogCaptureFixture, status: int, suffix: str
) -> None:
    """SEC5: the path and the query of the URL may be a token. A redirect is not followed."""
    server.answers(Reply(status=status, headers={"Location": f"{server.url}/other"}))
    with caplog.at_level(logging.DEBUG):
        send_outcome(f"{server.url}{suffix}", make_report())
    assert len(server.requests) == 1
    (warning,) = [
        log_record for log_record in caplog.records if log_record.levelno >= logging.WARNING
    ]
    assert warning.getMessage() == (
        f"The webhook at 127.0.0.1 did not get the outcome of the run: status {status}."
    )
    assert TOKEN not in "".join(log_record.getMessage() for log_record in caplog.records)


def test_url_of_another_scheme_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigValidationError, match="webhook") as caught:
        TargetSpark(config={"path": "x", "webhook": f"ftp://host/{TOKEN}"})
    assert TOKEN not in str(caught.value)


@pytest.mark.thorough
def test_failed_run_is_sent_and_the_url_is_not_logged(server: Server, tmp_path: Path) -> None:
    """SEC5: the whole URL is a secret setting; the result of actions is part of the document."""
    report = tmp_path / "report.json"
    process = run(
        tmp_path,
        LOAD + b"no message\n",
        webhook=f"{server.url}/hook/{TOKEN}",
        after_load=[{"command": ["sh", "-c", "exit 4"], "on": "failed"}],
        report=str(report),
        format="delta",
        small_batches="delta-rs",
    )
    assert process.returncode == 1
    sent = server.requests[0].json
    assert sent["outcome"] == "not complete"
    assert "no message" in sent["error"]
    assert sent["streams"]["a"]["written"] == 2
    assert "exit code 4" in sent["after_load"][0]["error"]
    assert TOKEN.encode() not in process.stderr + report.read_bytes()
    assert TOKEN not in json.dumps(sent)


@pytest.mark.thorough
def test_unreachable_webhook_does_not_change_the_exit_code(tmp_path: Path) -> None:
    process = run(
        tmp_path,
        LOAD,
        webhook=f"http://127.0.0.1:1/{TOKEN}",
        format="delta",
        small_batches="delta-rs",
    )
    assert process.returncode == 0
    assert b"The webhook at 127.0.0.1 did not get the outcome" in process.stderr
    assert TOKEN.encode() not in process.stderr
