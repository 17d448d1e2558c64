"""The built site and the built wheel, each made once for all tests of the documentation."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.docs.test_code_blocks import ROOT
from tests.project.distributions import build_distribution

MKDOCS = ROOT / ".venv-docs" / "bin" / "mkdocs"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, as `make docs` builds it."""
    if not MKDOCS.exists():
        pytest.skip("needs .venv-docs (make docs)")
    folder = tmp_path_factory.mktemp("site")
    process = subprocess.run(
        [MKDOCS, "build", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    assert "WARNING" not in process.stderr
    return folder


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of the project's wheel."""
    return build_distribution("wheel", tmp_path_factory.mktemp("wheel"))
