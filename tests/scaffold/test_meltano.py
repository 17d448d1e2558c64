"""New projects under Meltano: their project files, and the definition for other projects."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tap_core.scaffold import Project, write
from tests.peers import missing_reason, peer_python

ROOT = Path(__file__).resolve().parents[2]
MELTANO = peer_python("meltano")
TAP, TARGET = (
    Project.from_options("tap-events", "other"),
    Project.from_options("target-files", "batch"),
)

pytestmark = [
    pytest.mark.peer,
    pytest.mark.slow,
    pytest.mark.thorough,
    pytest.mark.skipif(MELTANO is None, reason=missing_reason("meltano")),
]


@pytest.fixture
def projects(tmp_path: Path) -> Path:
    """Create a tap and a target, with their programs in ``programs`` and a file to read."""
    (tmp_path / "programs").mkdir()
    for project in (TAP, TARGET):
        folder = tmp_path / project.name
        write(project, folder)
        program = tmp_path / "programs" / project.name
        program.write_text(
            f"#!/bin/sh\nPYTHONPATH='{folder}{os.pathsep}{ROOT}'"
            f" exec '{sys.executable}' -m {project.package} \"$@\"\n"
        )
        program.chmod(0o755)
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a.jsonl").write_text(
        "".join(
            json.dumps({"id": number, "at": f"2026-01-0{number}T00:00:00Z", "event": "seen"}) + "\n"
            for number in (1, 2, 3)
        )
    )
    return tmp_path


def meltano(folder: Path, project: Project, *arguments: str) -> str:
    """Run Meltano in a project's folder without a network; return its output."""
    assert MELTANO is not None
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MELTANO_", "TAP_", "TARGET_", "PYTHON"))
    }
    programs = [str(folder / "programs"), str(Path(sys.executable).parent), os.environ["PATH"]]
    process = subprocess.run(
        [str(MELTANO.parent / "meltano"), *arguments],
        cwd=folder / project.name,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={
            **inherited,
            "PATH": os.pathsep.join(programs),
            "MELTANO_AUTO_INSTALL": "false",
            "MELTANO_CLI_DISABLE_VERSION_CHECK": "1",
            "MELTANO_HUB_URL": "http://127.0.0.1:9",
            "NO_COLOR": "1",
            "TAP_EVENTS_FOLDER": str(folder / "source"),
            "TARGET_FILES_FOLDER": str(folder / "loaded"),
        },
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert "DeprecationWarning" not in process.stdout + process.stderr
    return process.stdout + process.stderr


def test_plugin_definition_adds_a_new_tap_to_the_project_of_a_new_target(projects: Path) -> None:
    meltano(projects, TARGET, "install")
    definition = str(projects / TAP.name / "plugin.yaml")
    meltano(projects, TARGET, "add", "--no-install", "--from-ref", definition, TAP.name)

    meltano(projects, TARGET, "run", TAP.name, TARGET.name)
    meltano(projects, TARGET, "run", TAP.name, TARGET.name)

    lines = (projects / "loaded" / "events.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["id"] for line in lines] == [1, 2, 3, 3], "the second run resumes"


@pytest.mark.spark
def test_new_tap_is_loaded_by_target_spark(projects: Path) -> None:
    from deltalake import DeltaTable

    meltano(projects, TAP, "install")
    meltano(projects, TAP, "run", TAP.name, "target-spark")

    table = DeltaTable(projects / TAP.name / "warehouse" / "events").to_pyarrow_table(
        columns=["id"]
    )
    assert sorted(table["id"].to_pylist()) == [1, 2, 3]
