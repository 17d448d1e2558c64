"""A discrete-event simulation of a run on many executors, with costs measured on a small cluster.

`python -m tests.bench.simulation` prints tables for the costs in this module, and
`python -m tests.bench cluster-simulation` measures the costs first.

The simulation is deterministic. Where an assumption could favour either side, it makes the run
slower:

1. Work units are read in jobs, as in `target_spark/extract/spark_distributor.py`. A job has a
   limited number of work units. Its tasks start as slots become free, and the next job starts after
   the last task has ended and its results have been processed.
2. The driver is one thread. It creates the work units of a job and sends its tasks one after the
   other. At the end of the job it processes results, renames files and merges bookmarks. The cost
   per work unit and per task is the CPU time of both of its processes together, although a real
   driver has several cores.
3. Executors have one core per slot and no other work. The costs are CPU times, so they do not
   depend on other work of the machine on which they were measured.
4. A work unit waits for a page of its source, then processes it; the two do not overlap. All work
   units have the same number of records. Their durations vary by a lognormal factor (`SPREAD`), and
   one in a hundred (`STRAGGLERS`) takes three times as long. There is no speculative execution.
5. One work unit in a thousand (`FAILURES`) fails at its end and is repeated by the same task.
6. The first task of a slot starts a Python worker, which imports and creates the tap. All executors
   are available from the beginning. In each job the driver sends the work units to each executor
   over one network link (`LINK_BYTES_PER_SECOND`); Spark lets executors pass them to each other,
   which is faster. Results use the same link.
7. Tables are loaded after everything was read, by all slots evenly; the target loads while it
   reads. The start and the commits take as long as on the small cluster.
8. The source answers as many requests at a time as there are slots. With a limit
   (``requests_per_second``) more executors do not help; the last table shows this.
9. A linear speed-up is the number of executors: one executor has to pay for its start, too.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

__all__ = [
    "COSTS",
    "WORKLOAD",
    "Costs",
    "Outcome",
    "Workload",
    "format_table",
    "simulate",
    "variants",
]

SPREAD = 0.15
"""The standard deviation of the logarithm of a work unit's duration."""
STRAGGLERS = 0.01
"""The share of work units that take `STRAGGLER` times as long."""
STRAGGLER = 3.0
FAILURES = 0.001
"""The share of work units that fail once."""
LINK_BYTES_PER_SECOND = 125_000_000
"""One gigabit per second."""
EXECUTORS = (1, 10, 25, 50, 100, 200)
TASKS_PER_SLOT = 8
"""Tasks of a job per slot, as in `SparkDistributor`; at most one per work unit."""
WORK_UNITS_PER_SLOT = 64
"""Work units of a job per slot, on clusters with many slots, as in `SparkDistributor`."""
WORK_UNITS_PER_JOB = 1_000
"""Work units of a job on clusters with few slots, as in `SparkDistributor`."""
_HEADER = ("executors", "wall s", "times faster", "of linear", "driver busy")


@dataclass(frozen=True, slots=True)
class Costs:
    """Measured costs, in CPU seconds unless stated otherwise.

    Attributes:
        fixed: Elapsed seconds of a run with almost no records: the start, one job and one commit.
        job: A job on the driver, without its work units.
        driver_work_unit: A work unit on the driver.
        driver_task: A task on the driver.
        slot: The first task of a slot, in addition to the cost of a task.
        task: A task on an executor, without its work units.
        work_unit: A work unit on an executor, without its records.
        record: Reading a record on an executor.
        load: Loading a record on an executor.
        sent: Bytes of a work unit that are sent to each executor.
        result: Bytes of the result of a work unit.
    """

    fixed: float
    job: float
    driver_work_unit: float
    driver_task: float
    slot: float
    task: float
    work_unit: float
    record: float
    load: float
    sent: int
    result: int


COSTS = Costs(
    fixed=58.4,
    job=0.69,
    driver_work_unit=84e-6,
    driver_task=0.0045,
    slot=2.66,
    task=0.071,
    work_unit=0.0012,
    record=4.6e-6,
    load=15.8e-6,
    sent=56,
    result=164,
)
"""Measured on 22 November on a busy machine of two cores, which makes them higher."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Work units of equal size, whose source answers page by page.

    Attributes:
        work_units: The number of work units.
        records: Records per work unit.
        page: Records per page.
        latency: Seconds until the source answers a request.
        slots: Slots per executor.
        job_size: Work units per job on clusters with few slots.
        job_size_per_slot: Work units per job and slot on clusters with many slots.
        requests_per_second: The rate limit of the source for all slots together; 0 for none.
    """

    work_units: int
    records: int
    page: int = 1_000
    latency: float = 0.1
    slots: int = 4
    job_size: int = WORK_UNITS_PER_JOB
    job_size_per_slot: int = WORK_UNITS_PER_SLOT
    requests_per_second: float = 0.0

    def work_unit_seconds(self, costs: Costs) -> float:
        """Return the duration of a typical work unit."""
        pages = max(1, -(-self.records // self.page))
        return costs.work_unit + pages * self.latency + self.records * costs.record

    def rate_limit_seconds(self) -> float:
        """Return the seconds of the source's rate limit that a work unit uses."""
        pages = max(1, -(-self.records // self.page))
        return pages / self.requests_per_second if self.requests_per_second else 0.0


WORKLOAD = Workload(work_units=50_000, records=50_000)
"""2,500 million records: about twenty hours on one executor."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a simulated run.

    Attributes:
        wall: The elapsed seconds of the run.
        reading: The elapsed seconds of its reading.
        driver: The seconds in which the driver worked on jobs.
    """

    wall: float
    reading: float
    driver: float


class _Queue:
    """A server that handles one request after the other, in the order of arrival."""

    def __init__(self, time: float = 0.0) -> None:
        self.free_at = time
        self.busy_seconds = 0.0

    def serve(self, time: float, seconds: float) -> float:
        """Return the end of a request that arrives at a time."""
        self.free_at = max(self.free_at, time) + seconds
        self.busy_seconds += seconds
        return self.free_at


@dataclass(slots=True)
class _Cluster:
    """The state of a simulated cluster.

    Attributes:
        random: The source of random numbers.
        driver: The driver's thread.
        link: The driver's network link.
        source: The rate limit of the source.
        new_slots: The slots that have not run a task yet.
    """

    workload: Workload
    costs: Costs
    executors: int
    random: random.Random
    driver: _Queue
    link: _Queue
    source: _Queue
    new_slots: set[int]

    def run_job(self, work_units: int, now: float) -> float:
        """Return the end of a job that starts now.

        An event is a time, a slot, and the number of work units that the task in the slot still has
        to read. Events are handled in the order of their times, so that requests arrive in order.
        """
        costs, slots = self.costs, self.executors * self.workload.slots
        driver_seconds = costs.job / 2 + work_units * costs.driver_work_unit / 2
        started = self.driver.serve(now, driver_seconds)
        tasks = min(work_units, slots * TASKS_PER_SLOT)
        waiting = [work_units // tasks + (n < work_units % tasks) for n in range(tasks)]
        events = [(started, slot, 0) for slot in range(slots)]
        informed: set[int] = set()
        last = started
        while events:
            time, slot, remaining = heapq.heappop(events)
            if remaining:
                heapq.heappush(events, (self._end_work_unit(time), slot, remaining - 1))
                continue
            last = max(last, time)
            if waiting:
                count, executor = waiting.pop(), slot // self.workload.slots
                sent = 0 if executor in informed else work_units
                time = self._start_task(slot, time, count * costs.result + sent * costs.sent)
                informed.add(executor)
                heapq.heappush(events, (time, slot, count))
        return self.driver.serve(last, driver_seconds + tasks * costs.driver_task / 2)

    def _start_task(self, slot: int, time: float, nbytes: int) -> float:
        """Return the time at which the task of a slot starts with its first work unit.

        ``nbytes`` are sent before: the results of the slot's previous task, and the work units if
        the executor does not have them yet.
        """
        time = self.link.serve(time, nbytes / LINK_BYTES_PER_SECOND)
        time = self.driver.serve(time, self.costs.driver_task / 2) + self.costs.task
        if slot in self.new_slots:
            self.new_slots.discard(slot)
            time += self.costs.slot
        return time

    def _end_work_unit(self, time: float) -> float:
        """Return the end of a work unit that starts at a time."""
        end = time + self._draw_factor() * self.workload.work_unit_seconds(self.costs)
        return max(end, self.source.serve(time, self.workload.rate_limit_seconds()))

    def _draw_factor(self) -> float:
        """Return the factor by which a work unit takes longer; doubled if it fails once."""
        factor = self.random.lognormvariate(0.0, SPREAD)
        factor *= STRAGGLER if self.random.random() < STRAGGLERS else 1.0
        return factor * (2.0 if self.random.random() < FAILURES else 1.0)


def simulate(workload: Workload, costs: Costs, executors: int, seed: int = 9) -> Outcome:
    """Return the outcome of a run on a number of executors."""
    slots = executors * workload.slots
    cluster = _Cluster(
        workload,
        costs,
        executors,
        random.Random(seed),
        _Queue(costs.fixed),
        _Queue(),
        _Queue(),
        set(range(slots)),
    )
    now, job_size = costs.fixed, max(workload.job_size, workload.job_size_per_slot * slots)
    for start in range(0, workload.work_units, job_size):
        now = cluster.run_job(min(job_size, workload.work_units - start), now)
    loading = workload.work_units * workload.records * costs.load / slots
    return Outcome(now + loading, now - costs.fixed, cluster.driver.busy_seconds)


def format_table(
    workload: Workload, costs: Costs, counts: Sequence[int] = EXECUTORS
) -> Iterator[str]:
    """Yield the lines of a table of runs on different numbers of executors."""
    one_executor = simulate(workload, costs, 1).wall
    yield (f"{_HEADER[0]:>9}  {_HEADER[1]:>9}  {_HEADER[2]:>12}  {_HEADER[3]:>9}  {_HEADER[4]:>11}")
    for count in counts:
        outcome = simulate(workload, costs, count)
        busy, faster = outcome.driver / outcome.reading, one_executor / outcome.wall
        yield f"{count:9}  {outcome.wall:9.0f}  {faster:12.1f}  {faster / count:9.0%}  {busy:11.0%}"


def variants(workload: Workload = WORKLOAD) -> Iterator[tuple[str, Workload]]:
    """Yield the workloads of the tables: the given one, and three that differ in one respect."""
    yield "the workload", workload
    yield "a fifth of the work units", replace(workload, work_units=workload.work_units // 5)
    yield "a fifth of the records per work unit", replace(workload, records=workload.records // 5)
    limit = 1_000
    yield f"{limit:,} requests per second", replace(workload, requests_per_second=limit)


def main() -> None:
    """Print the tables for the costs in this module."""
    print(COSTS)
    for title, workload in variants():
        print(f"\n{title}: {workload}", *format_table(workload, COSTS), sep="\n")


if __name__ == "__main__":
    main()
