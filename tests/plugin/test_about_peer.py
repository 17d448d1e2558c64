"""The output of `--about` is that of singer_sdk: capabilities and settings."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.peers import missing_reason, peer_python
from tests.plugin.test_capabilities import without_words

PEER = peer_python("singer_sdk")
PROGRAM = Path(__file__).with_name("peer_plugins.py")
ALIASED = (
    "import runpy, sys; from tap_core.compat import import_alias as alias;"
    " alias.install_import_alias(); "
)

OURS = {
    *("max_parallel_partitions", "max_parallel_streams"),
    *("batch_max_files", "batch_max_line_bytes", "batch_schemes"),
}
"""Settings that only tap_core adds."""

NAMES = (
    "tap-bare",
    "tap-configured",
    "tap-own-maps",
    "tap-plain",
    "tap-batching",
    "tap-sql",
    "target-loading",
    "target-versions",
    "target-unvalidated",
    "target-sql",
    "mapper-mapping",
)

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(PEER is None, reason=missing_reason("singer_sdk")),
]


@functools.cache
def read_about(sdk: str) -> dict[str, dict]:
    run = f"{ALIASED} runpy.run_path({str(PROGRAM)!r}, run_name='__main__')"
    command = [sys.executable, "-c", run] if sdk == "ours" else [str(PEER), str(PROGRAM)]
    process = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PROGRAM.parents[2])} if sdk == "ours" else None,
    )
    assert process.returncode == 0, process.stderr
    about: dict[str, dict] = json.loads(process.stdout)
    return about


@pytest.mark.parametrize("name", NAMES)
def test_capabilities_are_those_of_singer_sdk_in_the_same_order(name) -> None:
    assert read_about("ours")[name]["capabilities"] == read_about("peer")[name]["capabilities"]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "tap-plain"])
def test_settings_are_those_of_singer_sdk_in_the_same_order(name) -> None:
    ours, peer = (read_about(sdk)[name]["settings"] for sdk in ("ours", "peer"))
    for setting in OURS:
        ours["properties"].pop(setting, None)
    assert list(ours["properties"]) == list(peer["properties"])
    assert without_words(ours) == without_words(peer)


def test_tap_without_stream_maps_capability_has_no_stream_map_settings() -> None:
    """On singer_sdk such a tap has the settings of its base class anyway."""
    assert "stream_maps" in read_about("peer")["tap-plain"]["settings"]["properties"]
    assert read_about("ours")["tap-plain"]["settings"]["properties"].keys() <= OURS


@pytest.mark.parametrize("name", NAMES)
def test_other_about_fields_are_those_of_singer_sdk(name) -> None:
    ours, peer = (dict(read_about(sdk)[name]) for sdk in ("ours", "peer"))
    assert list(ours) == list(peer)
    for key in ("name", "description", "version", "supported_python_versions"):
        assert ours[key] == peer[key]
