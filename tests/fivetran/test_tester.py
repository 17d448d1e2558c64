"""The connector tester: it names each rule that a connector breaks."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fivetran_tester.common_checks import StoppedError
from fivetran_tester.connector import ConnectorTester
from fivetran_tester.findings import Findings
from fivetran_tester.server_pool import Servers
from fivetran_tester.server_process import LogChecker
from tap_core.cli import main
from tests.ended_processes import wait_for_end
from tests.fivetran.faulty import ORDERS, SECRET, Faulty, serving

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = str(Path(__file__).parent / "faulty.py")
SETTINGS = {"token": SECRET}


def run_tester(*faults: str, lines: list[str] | None = None) -> Findings:
    """Run the tester against a connector in this process that has these faults."""
    with serving(Faulty(*faults)) as port:
        servers = Servers("SourceConnector", Findings(), address=f"127.0.0.1:{port}")
        ConnectorTester(servers, SETTINGS, [].append if lines is None else lines.append).run()
    return servers.findings


def test_correct_connector_has_no_findings() -> None:
    lines: list[str] = []
    findings = run_tester(lines=lines)
    assert list(findings.lines()) == []
    text = "\n".join(lines)
    assert "Token  secret text  token" in text
    assert "Test Reaching the shop: passed" in text
    assert f"orders: {ORDERS} rows of {ORDERS} records" in text
    assert SECRET not in text


@pytest.mark.parametrize(
    ("fault", "rules"),
    [
        ("open secret", {6}),
        ("no answer", {7}),
        ("unstable", {10}),
        ("two of a name", {10}),
        ("system column", {11}),
        ("many", {12}),
        ("unknown table", {13}),
        ("unknown column", {13}),
        ("kind", {13}),
        ("decimal", {13}),
        ("json", {13}),
        ("short", {13}),
        ("null key", {14}),
        ("no checkpoint", {15}),
        ("list as state", {15}),
        ("early", {16}),
        ("gap", {16}),
        ("all tables", {19}),
        ("all columns", {19}),
        ("state of others", {19}),
    ],
)
def test_broken_rule_is_named_by_its_number(fault: str, rules: set[int]) -> None:
    try:
        findings = run_tester(fault)
    except StoppedError:
        pytest.fail("the walk ended")
    assert findings.rules >= rules, list(findings.lines())


@pytest.mark.parametrize(
    ("faults", "rules"),
    [
        (("failing test",), set()),
        (("failing test", "long"), {4}),
        (("crash",), {4}),
        (("task",), set()),
        (("task", "after the task"), {4}),
    ],
)
def test_failed_call_stops_the_tester(faults: tuple[str, ...], rules: set[int]) -> None:
    findings = Findings()
    with serving(Faulty(*faults)) as port:
        servers = Servers("SourceConnector", findings, address=f"127.0.0.1:{port}")
        with pytest.raises(StoppedError):
            ConnectorTester(servers, SETTINGS, [].append).run()
    assert findings.rules == rules


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        (b"Hello\n", 2),
        (b'{"level":"INFO","message":"m","message_origin":"sdk_connector"}\n', 2),
        (b'{"level":"DEBUG","message":"m","message-origin":"sdk_connector"}\n', 2),
        (b'{"level":"INFO","message":"m","message-origin":"sdk_destination"}\n', 2),
        (b'{"level":"INFO","message":"of hush-hush","message-origin":"sdk_connector"}\n', 3),
    ],
)
def test_invalid_log_line_breaks_its_rule(line: bytes, rule: int) -> None:
    findings = Findings()
    log = LogChecker(findings, "sdk_connector", ["hush-hush"])
    log.check_line(b'{"level":"INFO","message":"m","message-origin":"sdk_connector"}\n')
    assert not findings
    log.check_line(line)
    assert findings.rules == {rule}


def test_success_of_an_unknown_test_is_reported() -> None:
    findings = run_tester("any test")
    assert not findings
    assert "should F7" in "\n".join(findings.lines())


def test_command_starts_the_connector_and_prints_findings(tmp_path: Path, capsys: Any) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(SETTINGS))
    options = ["fivetran-test", "--config", str(config), "--resumes", "1", "--"]
    assert main([*options, sys.executable, PROGRAM, "plain line"]) == 1
    output = capsys.readouterr().out
    assert "broken F2: a line of standard output is not JSON" in output
    assert "killed" in output
    assert "F16" not in output
    assert main([*options, sys.executable, PROGRAM, "dies"]) == 1
    output = capsys.readouterr().out
    assert "The test stops here. Update: UNAVAILABLE" in output
    assert "broken F4" in output
    assert main([*options, sys.executable, "-c", "raise SystemExit(3)"]) == 2
    assert "Cannot start: it ended with exit code 3" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "cannot be read: No such file or directory."),
        ("{folder: x}", "is not JSON: "),
        ("[]", "is not a JSON object."),
    ],
)
def test_configuration_that_cannot_be_used_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, sentence: str
) -> None:
    config = tmp_path / "config.json"
    if text is not None:
        config.write_text(text)
    assert main(["fivetran-test", "--config", str(config), "--", "nothing"]) == 2
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("Cannot start: ")
    assert f"config.json {sentence}" in line


def test_terminated_tester_ends_its_server(tmp_path: Path) -> None:
    """A signal to the tester leaves no process behind."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps(SETTINGS))
    command = [sys.executable, "-m", "tap_core", "fivetran-test", "--config", str(config), "--"]
    with subprocess.Popen(
        [*command, sys.executable, PROGRAM], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as walk:
        lines = iter(walk.stdout or ())
        assert next(line for line in lines if line.startswith("Schema"))
        [server] = Path(f"/proc/{walk.pid}/task/{walk.pid}/children").read_text().split()
        walk.terminate()
        try:
            assert walk.wait(60) == 128 + signal.SIGTERM
        finally:
            walk.kill()
    assert wait_for_end(int(server))
