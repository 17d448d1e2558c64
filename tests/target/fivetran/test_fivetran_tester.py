"""The Fivetran tester calls target-spark and finds no violated rule."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fivetran_tester.destination import DestinationTester
from fivetran_tester.findings import Findings
from fivetran_tester.sample_tables import MARKER
from fivetran_tester.server_pool import Servers


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_tester_finds_no_violated_rule_in_target_spark(
    table_format: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """F1 to F4, F6, F7, F30 to F37, F39, F42 to F44: every call, in order and out of order."""
    findings = Findings()
    program = [sys.executable, "-m", "target_spark"]
    servers = Servers("DestinationConnector", findings, program)
    settings = {"path": str(tmp_path / "lake"), "format": table_format}
    lines: list[str] = []
    DestinationTester(servers, settings, lines.append).run()
    assert list(findings.lines()) == []
    assert "Tables are changed" in lines
    assert MARKER not in capfd.readouterr().err
