"""A connector as one executable, built by the commands of docs/fivetran.md and called by gRPC."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_code_blocks import environment, find_blocks

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "fivetran.md"
NOT_NEEDED = (".*", "__pycache__", "*.egg-info", "tests", "docs", "dist", "build", "warehouse")


def build_commands() -> list[str]:
    """Return the documented commands that build and start one executable."""
    [block] = [
        block_of_page
        for block_of_page in find_blocks(PAGE.read_text("utf-8"))
        if "pyinstaller" in block_of_page.body
    ]
    return block.body.splitlines()


def needs_registry(folder: Path) -> None:
    """Skip the test if pip cannot download the packages of the documented commands."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "pyinstaller"]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if process.returncode:
        pytest.skip(f"pip cannot fetch pyinstaller: {process.stderr[-200:]}")


def test_documented_commands_end_by_starting_the_executable() -> None:
    assert build_commands()[-1].split() == ["dist/connector", "--port", "50051"]


@pytest.mark.slow
@pytest.mark.thorough
def test_executable_passes_the_connector_tester(tmp_path: Path) -> None:
    """Form, tests, schema, update, resuming and selection."""
    needs_registry(tmp_path)
    folder = tmp_path / "repository"
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*NOT_NEEDED))
    *build, start = build_commands()
    built = subprocess.run(
        ["sh", "-e", "-c", "\n".join(build)],
        cwd=folder,
        env=environment(folder / "nothing"),
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert built.returncode == 0, built.stdout[-2000:] + built.stderr[-4000:]
    (folder / "config.json").write_text(json.dumps({"until": "2013-01-01T12:00:00Z"}))
    walk = ["tap-core", "fivetran-test", "--config", "config.json", "--resumes", "1", "--"]
    process = subprocess.run(
        [*walk, start.split()[0]],
        cwd=folder,
        env=environment(ROOT),
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert process.returncode == 0, process.stdout[-4000:] + process.stderr[-4000:]
    for line in ("Test Reaching", "Schema: 5 tables", "weather:", "No rule is broken."):
        assert line in process.stdout
