"""The standalone cluster that the cluster tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.standalone import StandaloneCluster


@pytest.fixture(scope="session")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """Start a master and two workers of two cores; a test that kills a part restarts it."""
    with StandaloneCluster(tmp_path_factory.mktemp("cluster") / "standalone") as cluster:
        yield cluster
