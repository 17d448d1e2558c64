"""The page of public plugins agrees with the script that writes it, and the script compares."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts import try_public_plugins as script
from scripts.public_plugins import FILES, MANIFESTS, PLUGINS, Plugin
from tests.peers import PEERS, missing_reason, peer_python

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tried.md"
INSTALLED = peer_python("public_plugins")
SOURCES = peer_python("airbyte_sources")
CDK = peer_python("airbyte_cdk") or peer_python("pyairbyte")  # which has it, too


def test_page_has_the_packages_and_versions_of_the_script() -> None:
    rows = re.findall(r"^\| ([a-z0-9-]+) \| (\d[^ ]*) \|", PAGE.read_text(), re.MULTILINE)
    listed = [(plugin.package, plugin.version) for plugin in (*PLUGINS, *MANIFESTS)]
    assert rows == listed


def test_each_package_of_the_page_has_a_verdict() -> None:
    rows = [
        line for line in PAGE.read_text().splitlines() if re.match(r"\| [a-z0-9-]+ \| \d", line)
    ]
    verdicts = [line.rstrip(" |").rpartition(" | ")[2] for line in rows]
    assert all(
        re.match(r"same($|;| but )|fails: |not tried: |.+ fails on both: ", verdict)
        for verdict in verdicts
    )


def test_differences_of_values_and_of_types_are_found() -> None:
    ours = {"same": 1, "more": 2, "type": 1, "list": [1, {"a": None}]}
    theirs = {"same": 1, "gone": 2, "type": 1.0, "list": [1, {"a": ""}]}
    assert list(script.find_differences(ours, theirs)) == [
        "gone: missing: `2`",
        'list[1].a: `null` instead of `""`',
        "more: more: `2`",
        "type: `1` instead of `1.0`",
    ]


def test_a_failure_is_a_verdict_only_if_the_other_sdk_succeeds() -> None:
    item = Plugin("tap-x", "1.0", "tap", "tap-x", source=FILES)
    good = script.Ended(0, '{"streams": []}', "")
    bad = script.Ended(1, "", "Traceback\n2026 | ERROR | no such file")
    for ours, verdict in (
        (good, "same"),
        (bad, "fails: no such file (discover)"),
    ):
        trial = script.Trial("tap-x", "1.0", steps=(script.Step("discover", ours, good),))
        assert script.judge(trial, item) == verdict
    trial = script.Trial("tap-x", "1.0", steps=(script.Step("discover", bad, bad),))
    assert script.judge(trial, item) == "discover fails on both: no such file"


@pytest.mark.peer
@pytest.mark.thorough
@pytest.mark.skipif(INSTALLED is None, reason=missing_reason("public_plugins"))
@pytest.mark.parametrize(
    "package", ["tap-jsonfile", "meltanolabs-target-csv", "meltano-map-transform"]
)
def test_a_plugin_of_each_kind_has_the_results_of_singer_sdk(package: str, tmp_path: Path) -> None:
    assert INSTALLED is not None
    [plugin] = [candidate for candidate in PLUGINS if candidate.package == package]
    assert f"{package}=={plugin.version}" in PEERS["public_plugins"]
    trial = script.run_plugin(plugin, INSTALLED.parent, tmp_path / "run")
    assert trial.steps[0].name == "about"
    assert len(trial.steps) > 1
    assert script.judge(trial, plugin) == "same"


@pytest.mark.peer
@pytest.mark.thorough
@pytest.mark.skipif(SOURCES is None, reason=missing_reason("airbyte_sources"))
@pytest.mark.skipif(CDK is None, reason=missing_reason("airbyte_cdk"))
def test_a_manifest_has_the_results_of_airbyte_cdk() -> None:
    assert SOURCES is not None
    [manifest] = [
        candidate for candidate in MANIFESTS if candidate.package == "airbyte-source-timely"
    ]
    assert f"{manifest.package}=={manifest.version}" in PEERS["airbyte_sources"]
    [packages] = SOURCES.parents[1].glob("lib/python*/site-packages")
    trial = script.try_manifest(manifest, packages, CDK)
    assert script.count_records(trial.steps[0])
    assert script.judge(trial, manifest) == "same"
