"""Plugins written on singer_sdk, run unchanged by Meltano.

Each is a two-line executable that calls `tap-core run`, as docs/migrate.md describes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.peers import missing_reason, peer_python

FOLDER = Path(__file__).parent
MELTANO = peer_python("meltano")

pytestmark = [
    pytest.mark.peer,
    pytest.mark.slow,
    pytest.mark.skipif(MELTANO is None, reason=missing_reason("meltano")),
]

CAPABILITIES = ["about", "stream-maps", "schema-flattening", "batch", "structured-logging"]
TAP: dict[str, Any] = {
    "name": "tap-moved",
    "namespace": "tap_moved",
    "executable": "./tap-moved",
    "capabilities": ["catalog", "discover", "state", *CAPABILITIES],
    "settings": [
        {"name": "count", "kind": "integer"},
        {"name": "api_key", "kind": "string", "sensitive": True},
        {"name": "fail_at", "kind": "integer"},
        {"name": "wait_ms", "kind": "integer"},
        {"name": "names", "kind": "array"},
        {"name": "service", "kind": "object"},
        {"name": "service.port", "kind": "integer"},
        {"name": "service.login.password", "kind": "string", "sensitive": True},
        {"name": "shown_in"},
        {"name": "stream_maps", "kind": "object"},
        {"name": "flattening_enabled", "kind": "boolean"},
        {"name": "flattening_max_depth", "kind": "integer"},
        {"name": "batch_config", "kind": "object"},
    ],
    "config": {"count": 100, "api_key": "not-to-be-said"},
}
TARGET: dict[str, Any] = {
    "name": "target-moved",
    "namespace": "target_moved",
    "executable": "./target-moved",
    "capabilities": CAPABILITIES,
    "settings": [{"name": "folder"}, {"name": "full_at", "kind": "integer"}],
    "config": {"folder": "out"},
}
SHOUT = {"orders": {"name": "name.upper() + '!'", "price": "__NULL__"}, "visits": "__NULL__"}
MAPPER: dict[str, Any] = {
    "name": "mapper-moved",
    "namespace": "mapper_moved",
    "executable": "./mapper-moved",
    "mappings": [{"name": "shout", "config": {"stream_maps": SHOUT}}],
}


class Project:
    """A Meltano project in its own folder, with the output of its target."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for kind in ("tap", "target", "mapper"):
            script = folder / f"{kind}-moved"
            run = f"{sys.executable} -m tap_core run"
            script.write_text(
                "#!/bin/sh\n"
                f"export PYTHONPATH={FOLDER.parents[1]}{os.pathsep}{FOLDER}\n"
                f'exec {run} moved_plugins:{kind.capitalize()}Moved "$@"\n'
            )
            script.chmod(0o755)
        self.describe()

    def describe(self, **of_tap: Any) -> None:
        """Write meltano.yml as JSON, which is valid YAML."""
        document = {
            "default_environment": "dev",
            "project_id": "5c1d8e11-3f0e-4c39-9a3b-5f0c2c1d8e12",
            "environments": [{"name": "dev"}],
            "plugins": {
                "extractors": [TAP | of_tap],
                "loaders": [TARGET],
                "mappers": [MAPPER],
            },
        }
        (self.folder / "meltano.yml").write_text(json.dumps(document))

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        assert MELTANO is not None
        inherited = {"PATH", "HOME", "LANG", "TMPDIR"}
        return subprocess.Popen(
            [str(MELTANO.parent / "meltano"), *arguments],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={
                **{name: value for name, value in os.environ.items() if name in inherited},
                "MELTANO_AUTO_INSTALL": "false",
                "MELTANO_CLI_DISABLE_VERSION_CHECK": "1",
                "MELTANO_HUB_URL": "http://127.0.0.1:9",
                "MELTANO_SEND_ANONYMOUS_USAGE_STATS": "false",
                "NO_COLOR": "1",
                **variables,
            },
        )

    def meltano(self, *arguments: str, code: int = 0, **variables: str) -> str:
        """Run Meltano; return its output."""
        process = self.start(*arguments, **variables)
        output, _ = process.communicate(timeout=300)
        assert process.returncode == code, output
        return output

    def run(self, *options: str, code: int = 0, **variables: str) -> str:
        return self.meltano("run", *options, "tap-moved", "target-moved", code=code, **variables)

    def take(self) -> dict[str, list[dict[str, Any]]]:
        """Return the rows that the target wrote since the last call, by stream."""
        rows = {}
        for path in sorted(self.folder.glob("out/*.jsonl")):
            rows[path.stem] = [json.loads(line) for line in path.read_text().splitlines()]
            path.unlink()
        return rows


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return [row["id"] for row in rows]


def hour(number: int) -> str:
    return f"2024-01-{1 + number // 24:02}T{number % 24:02}:00:00+00:00"


def test_second_run_is_incremental_and_full_refresh_reads_everything(project):
    project.run()
    assert {name: len(rows) for name, rows in project.take().items()} == {
        "orders": 100,
        "shops": 3,
        "visits": 6,
    }
    project.run(TAP_MOVED_COUNT="110")
    assert ids(project.take()["orders"]) == list(range(99, 110))
    project.run("--full-refresh")
    assert ids(project.take()["orders"]) == list(range(100))


@pytest.mark.thorough
def test_failed_tap_resumes_from_its_last_state(project):
    output = project.run(code=1, TAP_MOVED_FAIL_AT="60")
    assert "the source is gone" in output
    assert "not-to-be-said" not in output
    assert ids(project.take()["orders"]) == list(range(60))
    project.run()
    resumed = project.take()
    assert ids(resumed["orders"]) == list(range(59, 100))
    assert ids(resumed["shops"]) == [0, 1, 2]


@pytest.mark.thorough
def test_rows_that_the_target_did_not_write_are_sent_again(project):
    output = project.run(code=1, TARGET_MOVED_FULL_AT="40")
    assert "the disk is full" in output
    first = ids(project.take()["orders"])
    assert first == list(range(40))
    project.run()
    resumed = ids(project.take()["orders"])
    assert set(first) | set(resumed) == set(range(100))


@pytest.mark.thorough
def test_no_row_is_lost_after_a_signal_to_meltano(project):
    process = project.start("run", "tap-moved", "target-moved", TAP_MOVED_WAIT_MS="300")
    written = project.folder / "out" / "orders.jsonl"
    while not written.exists():
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 128 + signal.SIGTERM, output
    first = ids(project.take()["orders"])
    assert 0 < len(first) < 100
    project.run()
    resumed = ids(project.take()["orders"])
    assert set(first) | set(resumed) == set(range(100))


@pytest.mark.thorough
def test_next_run_starts_from_a_state_set_by_hand(project):
    bookmark = {"replication_key": "updated_at", "replication_key_value": hour(90)}
    state = {"singer_state": {"bookmarks": {"orders": bookmark}}}
    project.meltano("state", "set", "--force", "mine", json.dumps(state))
    project.meltano("el", "tap-moved", "target-moved", "--state-id", "mine")
    assert ids(project.take()["orders"]) == list(range(90, 100))


def test_settings_come_from_the_project_and_the_environment(project):
    project.describe(config={**TAP["config"], "service": {"port": 1}, "names": ["x"]})
    project.meltano(
        "invoke",
        "tap-moved",
        "--discover",
        TAP_MOVED_NAMES='["a", "b"]',
        TAP_MOVED_SERVICE_PORT="443",
        TAP_MOVED_SERVICE_LOGIN_PASSWORD="open",
        TAP_MOVED_SHOWN_IN="shown.json",
    )
    config = json.loads((project.folder / "shown.json").read_text())
    assert config["service"] == {"port": 443, "login": {"password": "open"}}
    assert (config["names"], config["count"], config["api_key"]) == (
        ["a", "b"],
        100,
        "not-to-be-said",
    )


@pytest.mark.thorough
def test_config_test_reports_valid_and_invalid_settings(project):
    output = project.meltano("config", "test", "tap-moved")
    assert "Plugin configuration is valid" in output
    project.describe(config={"count": 3, "names": [5]})
    output = project.meltano("config", "test", "tap-moved", code=1)
    assert "'api_key' is a required property" in output
    assert "names[0]: 5 is not of type 'string'" in output


@pytest.mark.thorough
def test_selection_metadata_schema_overrides_and_a_mapper_apply(project):
    project.describe(
        select=["orders.*", "!orders.place.street", "shops.id"],
        metadata={"orders": {"replication-method": "FULL_TABLE"}},
        schema={"orders": {"name": {"type": ["string", "null"], "maxLength": 9}}},
    )
    for _ in range(2):
        project.meltano("run", "tap-moved", "shout", "target-moved")
        rows = project.take()
        assert set(rows) == {"orders", "shops"}
        assert ids(rows["orders"]) == list(range(100))
    assert set(rows["orders"][7]) == {"id", "updated_at", "name", "place"}
    assert (rows["orders"][7]["name"], rows["orders"][7]["place"]) == ("N7!", {"city": "Bern"})
    assert rows["shops"] == [{"id": 0}, {"id": 1}, {"id": 2}]


def test_stream_maps_flattening_and_batches_can_be_configured(project):
    maps = {"orders": {"__alias__": "sales", "__filter__": "id < 10"}, "visits": "__NULL__"}
    batches = {
        "encoding": {"format": "jsonl", "compression": "gzip"},
        "storage": {"root": f"file://{project.folder}"},
    }
    project.run(
        TAP_MOVED_STREAM_MAPS=json.dumps(maps),
        TAP_MOVED_FLATTENING_ENABLED="true",
        TAP_MOVED_FLATTENING_MAX_DEPTH="1",
        TAP_MOVED_BATCH_CONFIG=json.dumps(batches),
    )
    rows = project.take()
    assert ids(rows["sales"]) == list(range(10))
    assert {"place__city", "place__street"} < set(rows["sales"][0])
    assert set(rows) == {"sales", "shops"}
