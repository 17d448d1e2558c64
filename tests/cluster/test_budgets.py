"""A tap's API budgets apply to all executors of a real cluster together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.jobs import Job
from tests.cluster.standalone import StandaloneCluster
from tests.extract.counting_server import CountingServer, get_longest_pause, get_max_requests
from tests.server_thread import serve_in_thread

pytestmark = [pytest.mark.spark, pytest.mark.thorough, pytest.mark.slow]

TAP = "tests.extract.limited_taps"
SLOTS = 4
"""Concurrent tasks of the cluster; each may use at most one permit too late."""


@pytest.fixture
def source() -> Iterator[CountingServer]:
    with serve_in_thread(CountingServer()) as counting_server:
        yield counting_server


def create_job(
    folder: Path, cluster: StandaloneCluster, source: CountingServer, kind: str, **kwargs: str
) -> Job:
    return Job(folder / "job", cluster, {"url": source.url, **kwargs}, tap=f"{TAP}:{kind}")


def test_rate_limit_applies_to_all_executors_together(
    standalone: StandaloneCluster, source: CountingServer, tmp_path: Path
) -> None:
    """Four slots in two executors read one stream at 8 requests a second, 48 contexts in all."""
    create_job(tmp_path, standalone, source, "Crowd").run().check()
    moments = source.request_times("/slow")
    assert len(moments) == 48
    assert len(source.processes) > 1
    assert get_max_requests(moments) <= 8 + 1 + SLOTS
    assert moments[-1] - moments[0] >= 47 / 8 - 0.5


def test_retry_after_delays_all_executors(
    standalone: StandaloneCluster, source: CountingServer, tmp_path: Path
) -> None:
    """After a 429 only requests with a permit are sent, until the source accepts more."""
    source.retry_after_once = 10
    create_job(tmp_path, standalone, source, "Crowd").run().check()
    moments = source.request_times("/slow")
    assert len(moments) == 48 + 1
    assert get_longest_pause(moments) >= 5
