"""The simulation of a large cluster, on cases whose result can be computed by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.bench import simulation
from tests.bench.simulation import COSTS, WORKLOAD, Costs, Workload, simulate

FREE = Costs(
    fixed=0.0,
    job=0.0,
    driver_work_unit=0.0,
    driver_task=0.0,
    slot=0.0,
    task=0.0,
    work_unit=1.0,
    record=0.0,
    load=0.0,
    sent=0,
    result=0,
)
EVEN = Workload(work_units=80, records=0, latency=0.0, slots=4, job_size=1_000, job_size_per_slot=0)


@pytest.fixture(autouse=True)
def equal_work_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable random spread, stragglers and failures."""
    monkeypatch.setattr(simulation, "SPREAD", 0.0)
    monkeypatch.setattr(simulation, "STRAGGLERS", 0.0)
    monkeypatch.setattr(simulation, "FAILURES", 0.0)


def test_equal_work_units_without_driver_cost_scale_linearly() -> None:
    """Eighty work units of one second take 20 seconds on 4 slots and 2 seconds on 40."""
    assert simulate(EVEN, FREE, 1).wall == pytest.approx(20.0)
    assert simulate(EVEN, FREE, 10).wall == pytest.approx(2.0)


def test_driver_sends_tasks_sequentially() -> None:
    """Eighty tasks cost the driver 80 seconds: more executors do not help."""
    slow = replace(FREE, driver_task=1.0)
    for executors in (20, 100):
        outcome = simulate(EVEN, slow, executors)
        assert outcome.driver == pytest.approx(80.0)
        assert 80.0 <= outcome.wall <= 82.0


def test_jobs_run_sequentially() -> None:
    """Three jobs of at most 30 work units take three seconds on 40 slots; one job takes two."""
    workload = replace(EVEN, job_size=30, job_size_per_slot=0)
    assert simulate(workload, FREE, 10).wall == pytest.approx(3.0)


def test_rate_limit_of_the_source_determines_the_time() -> None:
    """Eighty requests at four per second take 20 seconds with any number of executors."""
    limited = replace(EVEN, requests_per_second=4.0)
    assert simulate(limited, FREE, 100).wall == pytest.approx(20.0)


def test_start_and_loading_are_included_in_the_time() -> None:
    """The time includes 10 seconds of start, one second per slot, and the load of all records."""
    costs = replace(FREE, fixed=10.0, slot=1.0, load=0.5)
    outcome = simulate(replace(EVEN, records=10), costs, 10)
    assert outcome.wall == pytest.approx(10.0 + 1.0 + 2.0 + 80 * 10 * 0.5 / 40)
    assert outcome.reading == pytest.approx(3.0)


def test_simulation_with_measured_costs_is_deterministic() -> None:
    """Two runs give equal numbers; more executors are faster, but less than linearly."""
    workload = replace(WORKLOAD, work_units=2_000)
    single, several = (simulate(workload, COSTS, count).wall for count in (1, 10))
    assert (single, several) == tuple(simulate(workload, COSTS, count).wall for count in (1, 10))
    assert several < single < 10 * several


def test_executors_start_their_tasks_in_parallel() -> None:
    """Two tasks per slot take two seconds of task overhead and two of reading."""
    outcome = simulate(EVEN, replace(FREE, task=1.0, result=1, sent=1), 10)
    assert outcome.wall == pytest.approx(4.0, abs=0.01)
