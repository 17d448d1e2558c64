"""The simulation of a large cluster, where what must come out can be reckoned by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.bench import simulation
from tests.bench.simulation import COSTS, JOB, Costs, Job, simulated

FREE = Costs(
    fixed=0.0,
    job=0.0,
    driver_part=0.0,
    driver_task=0.0,
    slot=0.0,
    task=0.0,
    part=1.0,
    record=0.0,
    load=0.0,
    sent=0,
    result=0,
)
EVEN = Job(parts=80, records=0, latency=0.0, slots=4, most=1_000, most_per_slot=0)


@pytest.fixture(autouse=True)
def even_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """All parts take as long as they should."""
    monkeypatch.setattr(simulation, "SPREAD", 0.0)
    monkeypatch.setattr(simulation, "STRAGGLERS", 0.0)
    monkeypatch.setattr(simulation, "FAILURES", 0.0)


def test_equal_parts_that_cost_the_driver_nothing_are_linear() -> None:
    """Eighty parts of a second: twenty of them for each of four slots, two for each of forty."""
    assert simulated(EVEN, FREE, 1).wall == pytest.approx(20.0)
    assert simulated(EVEN, FREE, 10).wall == pytest.approx(2.0)


def test_a_driver_sends_one_task_after_the_other() -> None:
    """Each of eighty tasks takes the driver a second: more executors do not help."""
    slow = replace(FREE, driver_task=1.0)
    for executors in (20, 100):
        found = simulated(EVEN, slow, executors)
        assert found.driver == pytest.approx(80.0)
        assert 80.0 <= found.wall <= 82.0


def test_nothing_of_a_job_begins_before_the_one_before_it_is_done() -> None:
    """Jobs of thirty parts on forty slots: three times a second, where one job takes two."""
    assert simulated(replace(EVEN, most=30, most_per_slot=0), FREE, 10).wall == pytest.approx(3.0)


def test_a_source_that_limits_requests_sets_the_time() -> None:
    """Eighty requests at four a second take twenty seconds, however many ask."""
    limited = replace(EVEN, requests_per_second=4.0)
    assert simulated(limited, FREE, 100).wall == pytest.approx(20.0)


def test_start_and_loading_are_part_of_it() -> None:
    """Ten seconds of start, a slot's first second, and records that forty slots load."""
    costs = replace(FREE, fixed=10.0, slot=1.0, load=0.5)
    found = simulated(replace(EVEN, records=10), costs, 10)
    assert found.wall == pytest.approx(10.0 + 1.0 + 2.0 + 80 * 10 * 0.5 / 40)
    assert found.reading == pytest.approx(3.0)


def test_the_costs_that_stand_there_are_simulated_the_same_each_time() -> None:
    """The same numbers come out twice, and more executors are faster, less than linearly."""
    job = replace(JOB, parts=2_000)
    one, many = (simulated(job, COSTS, count).wall for count in (1, 10))
    assert (one, many) == tuple(simulated(job, COSTS, count).wall for count in (1, 10))
    assert many < one < 10 * many


def test_executors_begin_their_tasks_side_by_side() -> None:
    """Two tasks of a part for each of forty slots: two seconds of a task's own, two of reading."""
    found = simulated(EVEN, replace(FREE, task=1.0, result=1, sent=1), 10)
    assert found.wall == pytest.approx(4.0, abs=0.01)
