"""The budgets of a tap hold for all executors of a real cluster together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.jobs import Job
from tests.cluster.standalone import Standalone
from tests.extract.counting_server import Counting, counting, longest_pause, most_in_a_second

pytestmark = [pytest.mark.spark, pytest.mark.thorough, pytest.mark.slow]

TAP = "tests.extract.limited_taps"
SLOTS = 4
"""Tasks of the cluster at a time: each has a place at the most that it may use too late."""


@pytest.fixture
def source() -> Iterator[Counting]:
    with counting() as made:
        yield made


def job_of(folder: Path, cluster: Standalone, source: Counting, kind: str, **more: str) -> Job:
    return Job(folder / "job", cluster, {"url": source.url, **more}, tap=f"{TAP}:{kind}")


def test_no_second_has_more_requests_than_the_rate_of_all_senders(
    standalone: Standalone, source: Counting, tmp_path: Path
) -> None:
    """Four slots in two executors read one stream of 8 requests a second, 48 contexts in all."""
    job_of(tmp_path, standalone, source, "Crowd").run().check()
    moments = source.moments("/slow")
    assert len(moments) == 48
    assert len(source.processes) > 1
    assert most_in_a_second(moments) <= 8 + 1 + SLOTS
    assert moments[-1] - moments[0] >= 47 / 8 - 0.5


def test_a_request_that_is_refused_holds_all_executors_up(
    standalone: Standalone, source: Counting, tmp_path: Path
) -> None:
    """After a 429 come only those that had their places already, until the source allows."""
    source.refuse_once = 10
    job_of(tmp_path, standalone, source, "Crowd").run().check()
    moments = source.moments("/slow")
    assert len(moments) == 48 + 1
    assert longest_pause(moments) >= 5
