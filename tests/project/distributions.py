"""Builds of the project's wheel and sdist."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

__all__ = ["build_distribution"]

ROOT = Path(__file__).resolve().parents[2]


def build_distribution(kind: str, folder: Path, source: Path = ROOT) -> Path:
    """Build a `wheel` or an `sdist` of a source tree into a folder and return its path."""
    process = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)],
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    [built] = folder.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return built
