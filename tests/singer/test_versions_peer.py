"""Table versions from a tap to a target, each on either SDK, with equal results."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.peers import missing_reason, peer_python

PEER = peer_python("singer_sdk")
PROGRAM = Path(__file__).with_name("peer_versions.py")
CLASSES = {"tap-versions": "TapVersions", "target-versions": "TargetVersions"}

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(PEER is None, reason=missing_reason("singer_sdk")),
]


def run(sdk: str, name: str, folder: Path, config: dict, messages: bytes = b"") -> bytes:
    path = folder / f"{name}.json"
    path.write_text(json.dumps(config))
    command = [str(PEER), str(PROGRAM), name]
    if sdk == "ours":
        plugin = f"{PROGRAM.stem}:{CLASSES[name]}"
        command = [sys.executable, "-m", "tap_core", "run", plugin]
    process = subprocess.run(
        [*command, "--config", str(path)],
        input=messages,
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{PROGRAM.parent}{os.pathsep}{PROGRAM.parents[2]}"}
        if sdk == "ours"
        else None,
    )
    assert process.returncode == 0, process.stderr.decode()
    return process.stdout


@pytest.fixture(scope="module")
def tap_output(tmp_path_factory: pytest.TempPathFactory):
    """Return a function that runs a tap once per setting and returns its output."""

    @functools.cache
    def run_tap(tap: str, *, emits: bool) -> bytes:
        folder = tmp_path_factory.mktemp(tap)
        return run(tap, "tap-versions", folder, {"emit_activate_version_messages": emits})

    return run_tap


def list_sink_calls(
    target: str, messages: bytes, folder: Path, *, processes: bool, metadata: bool
) -> list[str]:
    """Return the calls of the target's sink."""
    path = folder / "calls.txt"
    path.write_text("")
    settings = {
        "path": str(path),
        "process_activate_version_messages": processes,
        "add_record_metadata": metadata,
    }
    run(target, "target-versions", folder, settings, messages)
    return path.read_text().splitlines()


@pytest.mark.parametrize("emits", [True, False])
def test_version_is_activated_before_and_after_the_rows(emits, tap_output) -> None:
    """singer_sdk activates it only before them."""
    sequences = {}
    for sdk in ("ours", "peer"):
        messages = [json.loads(line) for line in tap_output(sdk, emits=emits).splitlines()]
        sequences[sdk] = [
            (message["type"], message["stream"], "version" in message)
            for message in messages
            if message["type"] != "STATE"
        ]
    activation = ("ACTIVATE_VERSION", "full", True)
    position = 4 + 1  # SCHEMA, ACTIVATE_VERSION and three rows are before it
    if emits:
        assert sequences["ours"].pop(position) == activation
    assert sequences["ours"] == sequences["peer"]
    assert (activation in sequences["peer"]) is emits


@pytest.mark.every_nth_case(5)
@pytest.mark.parametrize("tap", ["ours", "peer"])
@pytest.mark.parametrize(
    ("emits", "processes", "metadata"),
    [(True, True, True), (True, False, True), (True, True, False), (False, True, True)],
)
def test_sink_gets_the_same_calls_on_both_sdks(
    tap, emits, processes, metadata, tap_output, tmp_path
) -> None:
    messages = tap_output(tap, emits=emits)
    our_calls, peer_calls = (
        list_sink_calls(target, messages, tmp_path, processes=processes, metadata=metadata)
        for target in ("ours", "peer")
    )
    assert our_calls == peer_calls
    assert len([line for line in our_calls if "record" in line]) == 6
    assert any("activates" in line for line in our_calls) is (emits and processes)
