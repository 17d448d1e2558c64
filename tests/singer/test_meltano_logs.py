"""The log under Meltano, which parses the lines of a plugin with structured-logging."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.peers import missing_reason, peer_python

ROOT = Path(__file__).resolve().parents[2]
MELTANO = peer_python("meltano")

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(MELTANO is None, reason=missing_reason("meltano")),
]

PROJECT = """
default_environment: dev
project_id: 5c1d8e11-3f0e-4c39-9a3b-5f0c2c1d8e11
send_anonymous_usage_stats: false
environments:
  - name: dev
plugins:
  extractors:
    - name: tap-x
      namespace: tap_x
      executable: ./tap-x
      capabilities: [about, catalog, discover, state, structured-logging]
      settings:
        - {{ name: n, kind: integer }}
        - {{ name: fail_at, kind: integer }}
        - {{ name: api_key }}
      config: {{ n: 5, fail_at: 3, api_key: hidden }}
  loaders:
    - name: target-x
      namespace: target_x
      executable: ./target-x
      capabilities: [about]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "meltano.yml").write_text(PROJECT.format())
    plugins = ROOT / "tests" / "singer" / "singer_plugins.py"
    for name, command in {
        "tap-x": f'exec {sys.executable} {plugins} tap "$@"',
        "target-x": "exec cat > /dev/null",
    }.items():
        script = tmp_path / name
        script.write_text(f"#!/bin/sh\nPYTHONPATH={ROOT} {command}\n")
        script.chmod(0o755)
    return tmp_path


def logged(project: Path, *arguments: str) -> list[dict]:
    """Run Meltano with its own log as JSON; return the lines that are JSON."""
    assert MELTANO is not None
    inherited = {"PATH", "HOME", "LANG", "TMPDIR"}
    process = subprocess.run(
        [str(MELTANO.parent / "meltano"), "--log-format=json", *arguments],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={
            **{name: value for name, value in os.environ.items() if name in inherited},
            "MELTANO_AUTO_INSTALL": "false",
            "MELTANO_CLI_DISABLE_VERSION_CHECK": "1",
            "MELTANO_HUB_URL": "http://127.0.0.1:9",
            "MELTANO_SEND_ANONYMOUS_USAGE_STATS": "false",
        },
    )
    lines = (process.stdout + process.stderr).splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def test_meltano_reads_levels_measurements_and_errors(project: Path) -> None:
    results = [line for line in logged(project, "el", "tap-x", "target-x") if "thread_name" in line]
    assert {line["app_name"] for line in results} == {"singer-sdk"}
    assert {line["name"] for line in results} == {"tap-x"}
    assert "tap-x.numbers" in {line["plugin_logger"] for line in results}
    measured = {line["metric_info"]["metric"] for line in results if "metric_info" in line}
    assert measured == {"sync_duration", "record_count"}
    (error,) = (line for line in results if "plugin_exception" in line)
    assert error["level"] == "error"
    raised = error["plugin_exception"]
    assert (raised["type"], raised["message"]) == ("ValueError", "no number 3")
    assert raised["traceback"][-1]["function"] == "get_records"
    assert "hidden" not in json.dumps(results)
