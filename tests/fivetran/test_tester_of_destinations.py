"""The destination tester: it names each rule that a destination breaks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fivetran_tester.common_checks import StoppedError
from fivetran_tester.destination import DestinationTester
from fivetran_tester.findings import Findings
from fivetran_tester.server_pool import Servers
from tap_core.cli import main
from tests.fivetran.faulty_destination import PASSWORD, FaultyDestination, serving


def run_tester(*faults: str, password: str = PASSWORD) -> Findings:
    """Run the tester against a destination in this process that has these faults."""
    findings = Findings()
    with serving(FaultyDestination(*faults)) as port:
        servers = Servers("DestinationConnector", findings, address=f"127.0.0.1:{port}")
        DestinationTester(servers, {"password": password}, [].append).run()
    return findings


def test_correct_destination_has_no_findings() -> None:
    assert list(run_tester().lines()) == []


@pytest.mark.parametrize(
    ("faults", "rules"),
    [
        (("parquet",), {30}),
        (("wide types",), {31, 33, 42}),
        (("exists is fine",), {32}),
        (("long",), {4}),
        (("drops",), {33}),
        (("missing",), {34}),
        (("shows rows",), {3, 37, 39, 43, 44}),
        (("says nothing",), {37, 39, 43, 44}),
        (("anything is fine",), {42}),
        (("crash",), {4}),
        (("migrate",), {44}),
    ],
)
def test_broken_rule_is_named_by_its_number(faults: tuple[str, ...], rules: set[int]) -> None:
    findings = run_tester(*faults)
    assert findings.rules == rules, list(findings.lines())


def test_failed_describe_table_stops_the_tester() -> None:
    with pytest.raises(StoppedError, match="There is no such table"):
        run_tester("describe raises")


def test_failed_connection_test_stops_the_tester() -> None:
    with pytest.raises(StoppedError, match="nothing can be written"):
        run_tester(password="another")


def test_command_tests_a_running_destination(tmp_path: Path, capsys: Any) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"password": PASSWORD}))
    with serving(FaultyDestination()) as port:
        arguments = ["--destination", "--config", str(config), "--address", f"127.0.0.1:{port}"]
        assert main(["fivetran-test", *arguments]) == 0
    output = capsys.readouterr().out
    assert "Way       one of front, back" in output
    assert PASSWORD not in output
    assert output.endswith("No rule is broken.\n")
    assert main(["fivetran-test", "--address", "127.0.0.1:1"]) == 2
