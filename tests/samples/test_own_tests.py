"""The samples' own tests pass outside of this repository's test run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.samples.running import ROOT, environment

SAMPLES = ("tap_flights", "tap_airlines", "tap_planes", "tap_petstore")


@pytest.mark.every_nth_case(2)
@pytest.mark.parametrize("sample", SAMPLES)
def test_tests_of_a_sample_pass(sample: str, tmp_path: Path) -> None:
    settings = ("-p", "no:cacheprovider", "-W", "error", f"--rootdir={tmp_path}")
    process = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *settings, ROOT / "samples" / sample / "tests"],
        cwd=tmp_path,
        env=environment(sample),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert "passed" in process.stdout
