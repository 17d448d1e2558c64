"""One shared pytest run of the module of faulty taps."""

from __future__ import annotations

import pytest

from tests.testing_kit.running import Run, faulty_taps, run_pytest


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_pytest(tmp_path_factory.mktemp("project"), faulty_taps())
