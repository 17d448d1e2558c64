"""Comparison of type declarations with singer_sdk."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tap_core import typing as th
from tests.peers import missing_reason, peer_python
from tests.typing_.declarations import correct_alternatives, outcomes

PEER = peer_python("singer_sdk")
SCRIPT = Path(__file__).with_name("declarations.py")
IMPORTED_BY_THE_PEER = {"json", "t", "deprecated", "SingerSDKPendingDeprecationWarning"}
TYPE_VARIABLES = {"P", "T", "W"}

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(PEER is None, reason=missing_reason("singer_sdk")),
]


@pytest.fixture(scope="module")
def peer() -> dict[str, Any]:
    command = [str(PEER), "-W", "ignore", str(SCRIPT), "singer_sdk.typing"]
    process = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(process.stdout))


def test_declarations_give_the_json_of_singer_sdk(peer):
    ours = outcomes(th)
    assert len(ours) > 400
    different = {
        name: (value, ours.get(name))
        for name, value in peer["outcomes"].items()
        if ours.get(name) != correct_alternatives(value)
    }
    assert different == {}


def test_public_names_of_singer_sdk_exist(peer):
    names = {name for name in peer["names"] if not name.startswith("_")}
    missing = {name for name in names if not hasattr(th, name)}
    assert missing == IMPORTED_BY_THE_PEER | TYPE_VARIABLES
