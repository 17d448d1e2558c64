"""A tap's API budgets apply to all executors of a real cluster together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.jobs import Job
from tests.cluster.standalone import Standalone
from tests.extract.counting_server import Counting, longest_pause, max_in_period
from tests.server_thread import serve_in_thread

pytestmark = [pytest.mark.spark, pytest.mark.thorough, pytest.mark.slow]

TAP = "tests.extract.limited_taps"
SLOTS = 4
"""Concurrent tasks of the cluster; each may use at most one permit too late."""


@pytest.fixture
def source() -> Iterator[Counting]:
    with serve_in_thread(Counting()) as counting_server:
        yield counting_server


def create_job(
    folder: Path, cluster: Standalone, source: Counting, kind: str, **kwargs: str
) -> Job:
    return Job(folder / "job", cluster, {"url": source.url, **kwargs}, tap=f"{TAP}:{kind}")


def test_rate_limit_applies_to_all_executors_together(
    standalone: Standalone, source: Counting, tmp_path: Path
) -> None:
    """Four slots in two executors read one stream at 8 requests a second, 48 contexts in all."""
    create_job(tmp_path, standalone, source, "Crowd").run().check()
    moments = source.moments("/slow")
    assert len(moments) == 48
    assert len(source.processes) > 1
    assert max_in_period(moments) <= 8 + 1 + SLOTS
    assert moments[-1] - moments[0] >= 47 / 8 - 0.5


def test_retry_after_delays_all_executors(
    standalone: Standalone, source: Counting, tmp_path: Path
) -> None:
    """After a 429 only requests with a permit are sent, until the source accepts more."""
    source.refuse_once = 10
    create_job(tmp_path, standalone, source, "Crowd").run().check()
    moments = source.moments("/slow")
    assert len(moments) == 48 + 1
    assert longest_pause(moments) >= 5
