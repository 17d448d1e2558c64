"""One standalone cluster for all tests that want one as it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.standalone import Standalone


@pytest.fixture(scope="session")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A master and two workers of two cores each; a test that kills a part starts it again."""
    with Standalone(tmp_path_factory.mktemp("cluster") / "standalone") as cluster:
        yield cluster
