"""Reading on a cluster: beside one partition after another, and beside one process.

The cluster is a real one, a master and workers on loopback, of PySpark's own
package; it stands before anything is measured. CPU is told by the kind of process, and as a
slope: between a run of few and one of many records, so that what Spark's start costs is in
neither. Every table is read back and compared before its figure counts.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timezone
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import unquote

from tests.bench import checks, simulation
from tests.bench.measure import Program, run
from tests.bench.pages import serving
from tests.bench.places import PROGRAMS, ROOT, ours, written
from tests.bench.programs import made
from tests.bench.roles import Roles, Usage
from tests.bench.table import Row
from tests.cluster.standalone import Standalone

__all__ = ["cpu", "many", "simulated", "slow_pages", "whole"]

MEBIBYTE = 1 << 20
PARTS = 8
SLOTS = 4
HUNDRED = 100
ALONE = "the tap in one process"
SPOOLED = "the tap and the target's spool, in a pipe"
TAP = "spread_tap:SpreadTap"


@dataclass(frozen=True)
class Cluster:
    """A cluster, and the folder in which runs on it work."""

    spark: Standalone
    folder: Path

    @property
    def settings(self) -> dict[str, Any]:
        """What a target needs to know of it."""
        staging = self.folder / "staging"
        staging.mkdir(exist_ok=True)
        return {
            "master": self.spark.master,
            "staging": str(staging),
            "spark": {
                "spark.driver.memory": "1g",
                "spark.executor.memory": "1g",
                "spark.sql.shuffle.partitions": "2",
            },
        }


@dataclass(frozen=True)
class Ran:
    """What a run cost: seconds on the clock, and what its processes used."""

    wall: float
    usage: Usage

    @property
    def reading(self) -> float:
        """CPU seconds of the cluster's executors: their JVMs and their Python."""
        return self.usage.seconds("executor", "worker")


@contextmanager
def clustered(folder: Path, slots: int = SLOTS) -> Iterator[Cluster]:
    """Start two workers of so many slots each, which find the programs of benchmarks."""
    paths = os.pathsep.join((str(ROOT), str(PROGRAMS)))
    environ = {"PYTHONPATH": paths, "LOGLEVEL": "WARNING"}
    with Standalone(folder / "cluster", cores=slots, environ=environ) as spark:
        yield Cluster(spark, folder)


def slow_pages(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """Eight partitions of slow pages, on two workers of four slots, beside one after the other."""
    asked: list[float] = []
    walls: dict[bool, list[float]] = {True: [], False: []}
    reading: dict[bool, list[float]] = {True: [], False: []}
    with (
        serving(records, page=1_000, pause=0.1, asked=asked) as url,
        clustered(folder) as cluster,
    ):
        for _ in range(rounds):
            for spread in (True, False):
                asked.clear()
                tap = {"parts": PARTS, "records": records, "url": url}
                done = ran(cluster, "spread" if spread else "alone", tap, spread=spread)
                walls[spread].append(done.wall)
                reading[spread].append(max(asked) - min(asked))
    what = f"{PARTS} partitions of {records:,} records in slow pages, 2 workers of 4 slots"
    beside = "one after the other"
    yield Row(f"{what}: reading", beside, *_medians(reading), "times less", 6, "wall s")
    yield Row(f"{what}: the whole run", beside, *_medians(walls), "times less", 6, "wall s")


def many(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """Many small partitions, beside a quarter of them; memory of a driver with a heap of 1 GiB."""
    few = records // 4
    with clustered(folder) as cluster:
        counts = (PARTS, few, records)
        runs: dict[int, list[Ran]] = {count: [] for count in counts}
        for _ in range(rounds):
            for count in counts:
                tap = {"parts": count, "records": 10}
                runs[count].append(ran(cluster, f"many-{count}", tap))
    walls = {count: median(run.wall for run in found) for count, found in runs.items()}
    what = f"{records:,} partitions of 10"
    some, all_ = (walls[count] - walls[PARTS] for count in (few, records))
    yield Row(
        f"{what}, start apart", f"4 times {few:,}", all_, 4 * some, "of theirs", 1.2, "wall s"
    )
    for role, wanted in (("driver", 150), ("driver's JVM", 1_500)):
        most = max(run.usage.memory[role] for run in runs[records]) / MEBIBYTE
        yield Row(f"{what}, memory of the {role}", "", most, None, "below", wanted, "MiB")


def cpu(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """Partitions made in memory, read by Spark's workers, beside the same engine in one process."""
    few = records // 8
    sizes = [f"{PARTS}:{PARTS}:{count // PARTS}" for count in (few, few, records)]
    costs: dict[str, list[float]] = {"ours": [], ALONE: [], SPOOLED: []}
    for _ in range(rounds):
        _, less, more = _steps(folder, "local[2]", sizes)
        costs["ours"].append(_slope(_total(less), _total(more), few, records))
        for name, program in ((ALONE, _tap), (SPOOLED, _spooled)):
            cheap, dear = (run(program(folder, count)).cpu for count in (few, records))
            costs[name].append(_slope(cheap, dear, few, records))
    what = f"{records:,} records of {PARTS} partitions in memory, read in Spark's workers"
    ours_ = median(costs["ours"])
    yield Row(what, ALONE, ours_, median(costs[ALONE]), "of theirs", 1.5, "CPU us a record")
    yield Row(what, SPOOLED, ours_, median(costs[SPOOLED]), "of theirs", 1.5, "CPU us a record")


def whole(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """Partitions made in memory, read and loaded, in executors and by the driver alone."""
    few = records // 8
    costs: dict[bool, list[float]] = {True: [], False: []}
    with clustered(folder) as cluster:
        for _ in range(rounds):
            for spread in (True, False):
                less, more = (
                    ran(cluster, f"{spread}-{count}", _memory(count), spread=spread).usage.seconds()
                    for count in (few, records)
                )
                costs[spread].append(_slope(less, more, few, records))
    what = f"{records:,} records of {PARTS} partitions in memory, read and loaded"
    beside = "all of it read by the driver"
    yield Row(what, beside, *_medians(costs), "of theirs", 1.5, "CPU us a record")


def simulated(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """A run on a hundred executors, simulated with costs that are measured on two."""
    with clustered(folder) as cluster:
        costs = _measured(cluster, records)
    print(costs, file=sys.stderr)
    job = simulation.JOB
    for what, each in simulation.variants(job):
        print(f"{what}: {each}", *simulation.table(each, costs), sep="\n", file=sys.stderr)
        one, all_ = (simulation.simulated(each, costs, count).wall for count in (1, HUNDRED))
        wanted = 0.8 * HUNDRED if each == job else None
        said = f"{HUNDRED} executors, simulated, {what}"
        yield Row(said, "one executor", all_, one, "times less", wanted, "wall s")


def _measured(cluster: Cluster, records: int) -> simulation.Costs:
    """Return what a run costs: from steps of one application, and from two whole runs."""
    many, few, each = 1_000, 64, 10
    small, *larger = names = [
        f"{parts}:{tasks}:{count}"
        for parts, tasks, count in (
            (few, few, each),
            (many, few, each),
            (many, many, each),
            (few, few, records // few),
        )
    ]
    steps = (small, *larger, *names * 2)  # the first: what the executors' start costs; then warm
    cold, *found = _steps(cluster.folder, cluster.spark.master, steps, _keepers(cluster.spark))
    warm = found[len(larger) :]
    less, parts, tasks, rows = (
        min((step for step in warm if step["step"] == name), key=_total) for name in names
    )
    there, here = ("executor", "worker"), ("driver", "driver's JVM")
    task, at_task = (_per(parts, tasks, many - few, roles) for roles in (there, here))
    part, at_part = (_per(less, parts, many - few, roles) for roles in (there, here))
    record = _per(less, rows, records - few * each, there)
    short, long = (ran(cluster, f"run-{n}", _memory(n)) for n in (records // PARTS, records))
    loaded = _slope(short.reading, long.reading, records // PARTS, records) / 1e6
    return simulation.Costs(
        fixed=short.wall,
        job=max(0.0, _total(less, here) - few * (at_part + at_task)),
        driver_part=at_part,
        driver_task=at_task,
        slot=(_total(cold, there) - _total(less, there)) / (2 * SLOTS),
        task=task,
        part=part,
        record=record,
        load=max(0.0, loaded - record),
        sent=tasks["sent"],
        result=tasks["result"],
    )


def _steps(
    folder: Path, master: str, steps: Sequence[str], roots: Sequence[int] = ()
) -> list[dict[str, Any]]:
    """Let one application read step after step; return what each used."""
    place = folder / "steps"
    shutil.rmtree(place, ignore_errors=True)
    words = (master, str(place), "--steps", *steps, "--roots", *map(str, roots))
    command = ours("spread_only.py", *words).command
    done = subprocess.run(command, env=_environment(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-3000:]
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def _total(step: Mapping[str, Any], roles: Sequence[str] = ()) -> float:
    """Return the CPU seconds of a step, of some kinds of processes or of all."""
    return sum(step["cpu"].get(role, 0.0) for role in roles or step["cpu"])


def _per(less: Mapping[str, Any], more: Mapping[str, Any], count: int, roles: Any) -> float:
    """Return what one of so many costs by which two steps differ."""
    return max(0.0, (_total(more, roles) - _total(less, roles)) / count)


def _slope(less: float, more: float, few: int, many: int) -> float:
    """Return microseconds for each by which two counts differ."""
    return 1e6 * (more - less) / (many - few)


def _tap(folder: Path, records: int) -> Program:
    config = written(folder / f"tap-{records}.json", _memory(records))
    return ours("spread_tap.py", "--config", config)


def _spooled(folder: Path, records: int) -> Program:
    """Return the tap in a pipe, and behind it the target up to its spool."""
    settings = {"path": str(folder / "none"), "format": "delta", "write_mode": "append"}
    target = ours("spool_only.py", "--config", written(folder / "spooled.json", settings))
    tap = _tap(folder, records)
    pipe = f"{shlex.join(tap.command)} | {shlex.join(target.command)}"
    return Program(["sh", "-c", pipe], environment=tap.environment)


def _memory(records: int) -> dict[str, int]:
    return {"parts": PARTS, "records": records // PARTS}


def _medians(found: Mapping[bool, list[float]]) -> tuple[float, float]:
    return median(found[True]), median(found[False])


def ran(cluster: Cluster, name: str, tap: Mapping[str, Any], *, spread: bool = True) -> Ran:
    """Read with a tap's settings into new tables, in executors or one by one on the driver.

    Raises:
        AssertionError: it ended with an error, or a table is not what it must be.
    """
    tables = cluster.folder / name
    shutil.rmtree(tables, ignore_errors=True)
    target = {**cluster.settings, "path": str(tables), "format": "delta", "write_mode": "append"}
    files = (
        written(cluster.folder / f"{name}-tap.json", tap),
        written(cluster.folder / f"{name}-target.json", target),
    )
    words = ("run", "--tap", TAP, "--tap-config", files[0], "--config", files[1])
    command = ours("target.py", *words, *(() if spread else ("--here", "*"))).command
    started = time.monotonic()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command, env=_environment(), stdout=said, stderr=said, cwd=cluster.folder
        )
        with Roles(lambda: (process.pid, *_keepers(cluster.spark))) as roles:
            code = process.wait()
        said.seek(0)
        assert code == 0, said.read().decode(errors="replace")[-3000:]
    wall = time.monotonic() - started
    _check(tables, "pages" if "url" in tap else "parted", tap["parts"], tap["records"])
    return Ran(wall, roles.usage())


def _environment() -> dict[str, str]:
    paths = os.pathsep.join((str(ROOT), str(PROGRAMS)))
    level = os.environ.get("BENCH_LOGLEVEL", "INFO")
    return {**os.environ, "PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable, "LOGLEVEL": level}


def _keepers(spark: Standalone) -> list[int]:
    return [worker.supervisor.pid for worker in spark.all if worker.supervisor is not None]


def _check(tables: Path, stream: str, parts: int, records: int) -> None:
    """Compare a table with what the generator gives: all keys, and all values of one part."""
    table = _read(tables / stream)
    keys = zip(table["part"].to_pylist(), table["id"].to_pylist(), strict=True)
    found = Counter(keys)
    wanted = {(part, number) for part in range(parts) for number in range(records)}
    if found.keys() != wanted or set(found.values()) != {1}:
        raise AssertionError(f"{table.num_rows} rows in {stream}, {len(found)} of {len(wanted)}")
    first = sorted(_rows_of(table, 0), key=lambda row: row["id"])
    checks.same_rows(str(tables), first, made.of_context(0, records))


def _rows_of(table: Any, part: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of a part as the generator gives them."""
    import pyarrow.compute

    chosen = table.filter(pyarrow.compute.equal(table["part"], part))
    for row in chosen.select(list(made.PART_SCHEMA["properties"])).to_pylist():
        yield {**row, "updated_at": row["updated_at"].astimezone(timezone.utc).isoformat()}


def _read(table: Path) -> Any:
    """Read the files that a Delta table's log has added and not removed."""
    import pyarrow.parquet

    live: dict[str, None] = {}
    for commit in sorted((table / "_delta_log").glob("*.json")):
        for action in map(json.loads, commit.read_text().splitlines()):
            if "add" in action:
                live[unquote(action["add"]["path"])] = None
            if "remove" in action:
                live.pop(unquote(action["remove"]["path"]), None)
    files = [str(table / path) for path in live]
    return pyarrow.parquet.ParquetDataset(files).read()
