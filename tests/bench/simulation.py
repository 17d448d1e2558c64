"""A run on a hundred executors, as far as its costs on a small cluster say: event by event.

`python -m tests.bench.simulation` prints tables for the costs that stand here;
`python -m tests.bench cluster-simulation` measures them anew first.

Pure, and the same numbers each time. What is assumed is written here, and is
against us where it could be either way:

1. Parts are read job by job, as `target_spark/extract/spark_distributor.py` does it: so many parts
are one
   job, its tasks are dealt out as slots become free, and nothing of the next job begins before
   the last task of this one has ended and its results are taken.
2. The driver is one thread. It makes the parts of a job, sends its tasks one after the other,
   and when they have ended takes results, renames files and merges bookmarks. What that costs is
   the CPU of both of its processes together, measured by part and by task; a real driver has
   more cores than one for it.
3. Executors have a core for each slot and no other work. What is measured is CPU, not
   time, so that it does not depend on what else the measured machine did.
4. A part waits for its source page by page and works on each page; the two do not overlap. Parts
   are of equal size; each takes longer or shorter by a factor that is lognormal (`SPREAD`), and
   one in a hundred (`STRAGGLERS`) three times as long. There is no speculation.
5. One part in a thousand (`FAILURES`) fails at its end and is read again by the same task.
6. A slot's first task starts a Python worker, imports the tap and makes it. All executors are
   there from the beginning. In each job each executor is sent the parts over one line (`LINE`),
   each for itself; Spark lets executors give them to each other, which is faster. Results come
   back over the same line.
7. Tables are loaded when everything is read, by all slots evenly. (The target loads beside
   reading.) Start and commits take as long as they take on the small cluster.
8. The source answers as many at a time as there are slots. Where it does not
   (``requests_per_second``), no cluster helps, and the last table shows how little.
9. Linear is: so many executors are so many times as fast as one, which pays for its start, too.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

__all__ = ["COSTS", "JOB", "Costs", "Job", "Outcome", "simulated", "table", "variants"]

SPREAD = 0.15
STRAGGLERS = 0.01
STRAGGLER = 3.0
FAILURES = 0.001
LINE = 125_000_000
"""Bytes a second: one gigabit."""
EXECUTORS = (1, 10, 25, 50, 100, 200)
TASKS_PER_SLOT = 8
"""As in the crew: a job has so many tasks for each slot, and not more than parts."""
PARTS_PER_SLOT = 64
"""As in the crew: on many slots a job has so many parts for each."""
MOST = 1_000
"""As in the crew: on few slots it has so many."""
_HEAD = ("executors", "wall s", "times faster", "of linear", "driver busy")


@dataclass(frozen=True, slots=True)
class Costs:
    """CPU seconds where nothing else is said; all are measured."""

    fixed: float
    """Of a run with next to nothing to read: start, one job, one commit; seconds on the clock."""
    job: float
    """Of the driver for a job, however many parts it has."""
    driver_part: float
    """Of the driver for a part."""
    driver_task: float
    """Of the driver for a task."""
    slot: float
    """Of a slot's first task, more than of its others."""
    task: float
    """Of a task on an executor, apart from its parts."""
    part: float
    """Of a part on an executor, apart from its records."""
    record: float
    """Of a record that is read, on an executor."""
    load: float
    """Of a record that is loaded, on an executor."""
    sent: int
    """Bytes of a part on its way to each executor."""
    result: int
    """Bytes of what is told of a part."""


COSTS = Costs(
    fixed=58.4,
    job=0.69,
    driver_part=84e-6,
    driver_task=0.0045,
    slot=2.66,
    task=0.071,
    part=0.0012,
    record=4.6e-6,
    load=15.8e-6,
    sent=56,
    result=164,
)
"""As measured on 22 November on a machine of two cores, beside other work, which is against us."""


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be read: parts of equal size, behind a source that answers page by page."""

    parts: int
    records: int
    page: int = 1_000
    latency: float = 0.1
    slots: int = 4
    """Of each executor."""
    most: int = MOST
    """Parts of one job, where few slots do not make it more."""
    most_per_slot: int = PARTS_PER_SLOT
    requests_per_second: float = 0.0
    """The most that the source answers, to all together; 0: any number."""

    def seconds(self, costs: Costs) -> float:
        """Return how long a part takes that is like most."""
        pages = max(1, -(-self.records // self.page))
        return costs.part + pages * self.latency + self.records * costs.record

    def requests_seconds(self) -> float:
        """Return how long the source needs for a part's requests, if it limits them."""
        pages = max(1, -(-self.records // self.page))
        return pages / self.requests_per_second if self.requests_per_second else 0.0


JOB = Job(parts=50_000, records=50_000)
"""2,500 million records: some twenty hours of one executor."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run went, in seconds; ``driver`` is how long its driver worked for its parts."""

    wall: float
    reading: float
    driver: float


class _One:
    """Something that serves one after the other, in the order in which it is asked."""

    def __init__(self, at: float = 0.0) -> None:
        self.free = at
        self.used = 0.0

    def take(self, at: float, seconds: float) -> float:
        """Return when work that comes at a moment is done."""
        self.free = max(self.free, at) + seconds
        self.used += seconds
        return self.free


@dataclass(slots=True)
class _Cluster:
    """What there is of a cluster while it is simulated."""

    job: Job
    costs: Costs
    executors: int
    chance: random.Random
    driver: _One
    line: _One
    source: _One
    fresh: set[int]

    def run(self, parts: int, now: float) -> float:
        """Return when the job of so many parts is done that begins now.

        An event is a moment, a slot, and how many parts the slot's task has left; each is
        looked at when its moment has come, so that requests are served in their order.
        """
        costs, slots = self.costs, self.executors * self.job.slots
        begun = self.driver.take(now, costs.job / 2 + parts * costs.driver_part / 2)
        tasks = min(parts, slots * TASKS_PER_SLOT)
        waiting = [parts // tasks + (number < parts % tasks) for number in range(tasks)]
        events = [(begun, slot, 0) for slot in range(slots)]
        reached: set[int] = set()
        last = begun
        while events:
            at, slot, left = heapq.heappop(events)
            if left:
                heapq.heappush(events, (self._part(at), slot, left - 1))
                continue
            last = max(last, at)
            if waiting:
                share = waiting.pop()
                sent = 0 if slot // self.job.slots in reached else parts
                at = self._begun(slot, at, share * costs.result + sent * costs.sent)
                reached.add(slot // self.job.slots)
                heapq.heappush(events, (at, slot, share))
        after = tasks * costs.driver_task / 2 + parts * costs.driver_part / 2 + costs.job / 2
        return self.driver.take(last, after)

    def _begun(self, slot: int, at: float, nbytes: int) -> float:
        """Return when a slot's task begins with its first part.

        ``nbytes`` go over the line before: the results of the slot's task before it, and the
        parts where its executor has none yet.
        """
        at = self.line.take(at, nbytes / LINE)
        at = self.driver.take(at, self.costs.driver_task / 2) + self.costs.task
        if slot in self.fresh:
            self.fresh.discard(slot)
            at += self.costs.slot
        return at

    def _part(self, at: float) -> float:
        """Return when a part is read that begins at a moment."""
        done = at + self._length() * self.job.seconds(self.costs)
        return max(done, self.source.take(at, self.job.requests_seconds()))

    def _length(self) -> float:
        """Return by how much a part takes longer than others; twice as long where it fails."""
        length = self.chance.lognormvariate(0.0, SPREAD)
        length *= STRAGGLER if self.chance.random() < STRAGGLERS else 1.0
        return length * (2.0 if self.chance.random() < FAILURES else 1.0)


def simulated(job: Job, costs: Costs, executors: int, seed: int = 9) -> Outcome:
    """Return how a run goes on so many executors."""
    slots = executors * job.slots
    cluster = _Cluster(
        job,
        costs,
        executors,
        random.Random(seed),
        _One(costs.fixed),
        _One(),
        _One(),
        set(range(slots)),
    )
    now, most = costs.fixed, max(job.most, job.most_per_slot * slots)
    for begin in range(0, job.parts, most):
        now = cluster.run(min(most, job.parts - begin), now)
    loading = job.parts * job.records * costs.load / slots
    return Outcome(now + loading, now - costs.fixed, cluster.driver.used)


def table(job: Job, costs: Costs, counts: Sequence[int] = EXECUTORS) -> Iterator[str]:
    """Yield the lines of a table: a run on more and more executors."""
    one = simulated(job, costs, 1).wall
    yield f"{_HEAD[0]:>9}  {_HEAD[1]:>9}  {_HEAD[2]:>12}  {_HEAD[3]:>9}  {_HEAD[4]:>11}"
    for count in counts:
        found = simulated(job, costs, count)
        busy, faster = found.driver / found.reading, one / found.wall
        yield f"{count:9}  {found.wall:9.0f}  {faster:12.1f}  {faster / count:9.0%}  {busy:11.0%}"


def variants(job: Job = JOB) -> Iterator[tuple[str, Job]]:
    """Yield the runs of which tables are shown: the one that is meant, and what changes it."""
    yield "as it is", job
    yield "a fifth of the parts", replace(job, parts=job.parts // 5)
    yield "parts of a fifth of the records", replace(job, records=job.records // 5)
    yield "a source that answers 1,000 requests a second", replace(job, requests_per_second=1_000)


def main() -> None:
    """Print the tables for the costs that stand here."""
    print(COSTS)
    for what, job in variants():
        print(f"\n{what}: {job}", *table(job, COSTS), sep="\n")


if __name__ == "__main__":
    main()
