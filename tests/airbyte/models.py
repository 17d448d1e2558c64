"""Validation of lines against the protocol's published models, in the peer's interpreter.

One process validates any number of lines. A test is skipped if the peer is not installed; the rules
in `rules.py` need no peer.
"""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.airbyte.running import PROGRAMS
from tests.peers import missing_reason, peer_python

__all__ = ["model_faults", "needs_models"]

MODELS = peer_python("airbyte_models")

needs_models = pytest.mark.skipif(MODELS is None, reason=missing_reason("airbyte_models"))
"""Skip a test that validates lines with the models if the peer is not installed."""


def model_faults(output: bytes) -> list[str]:
    """Return the validation errors of the models, each with its line."""
    if not output:
        return []
    result = subprocess.run(
        [str(MODELS), str(PROGRAMS / "validate.py")],
        input=output,
        capture_output=True,
        check=True,
        timeout=120,
    )
    lines = output.split(b"\n")
    return [
        f"{', '.join(fault['faults'])}: {lines[fault['line']][:300]!r}"
        for fault in map(json.loads, result.stdout.splitlines())
    ]
