"""PyAirbyte runs the SDK's commands: offline, in its own environment.

A connector is one executable without further arguments, as PyAirbyte calls it.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.airbyte.running import PROGRAMS, environment
from tests.peers import missing_reason, peer_python

__all__ = ["ask_pyairbyte", "needs_pyairbyte", "write_executable"]

PYAIRBYTE = peer_python("pyairbyte")

needs_pyairbyte = pytest.mark.skipif(PYAIRBYTE is None, reason=missing_reason("pyairbyte"))
"""Skip a test that runs PyAirbyte if the peer is not installed."""


def write_executable(path: Path, program: Sequence[str]) -> str:
    """Write a command as one executable, like the script of an installed package."""
    command = " ".join(f"'{argument}'" for argument in program)
    path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    path.chmod(0o755)
    return str(path)


def ask_pyairbyte(folder: Path, **request: Any) -> dict[str, Any]:
    """Run PyAirbyte with a request; return its answer."""
    result = subprocess.run(
        [str(PYAIRBYTE), str(PROGRAMS / "pyairbyte_client.py"), json.dumps(request)],
        cwd=folder,
        env=environment(
            AIRBYTE_OFFLINE_MODE="1",
            AIRBYTE_LOGGING_ROOT=str(folder / "logs"),
            AIRBYTE_TEMP_DIR=str(folder),
            DO_NOT_TRACK="1",
            PYTHONPATH="",
        ),
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-5000:]
    answer: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return answer
