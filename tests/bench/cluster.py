"""Benchmarks of reading on a Spark cluster.

The cluster is a real one: a master and workers on loopback from the PySpark package, started before
anything is measured. CPU time is measured by the role of processes. The cost per record is the
slope between a run of few and a run of many records, so that it does not include the start of
Spark. Each table is read and compared with the generator before its figure is used.
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
from tests.bench.page_server import serve_pages
from tests.bench.process_roles import RoleWatcher, Usage
from tests.bench.programs import generator
from tests.bench.programs_under_test import PROGRAMS, ROOT, our_program, write_json
from tests.bench.table import Row
from tests.cluster.standalone import StandaloneCluster

__all__ = ["cpu", "hundred_executors", "load", "many_partitions", "slow_pages"]

MEBIBYTE = 1 << 20
PARTS = 8
SLOTS = 4
EXECUTORS = 100
IN_ORDER = "one after the other"
TAP_ALONE = "the tap in one process"
TAP_AND_SPOOL = "the tap and the target up to its spool, in a pipe"
TAP = "partitioned_tap:PartitionedTap"


@dataclass(frozen=True)
class Cluster:
    """A cluster, and the folder for the files of its runs."""

    spark: StandaloneCluster
    folder: Path

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of a target that uses this cluster."""
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
class RunCost:
    """The elapsed seconds of a run, and the usage of its processes."""

    wall: float
    usage: Usage

    @property
    def executor_cpu(self) -> float:
        """CPU seconds of the executors: their JVMs and Python processes."""
        return self.usage.seconds("executor", "worker")


@contextmanager
def start_cluster(folder: Path, slots: int = SLOTS) -> Iterator[Cluster]:
    """Start two workers whose Python path contains the programs of benchmarks."""
    paths = os.pathsep.join((str(ROOT), str(PROGRAMS)))
    environ = {"PYTHONPATH": paths, "LOGLEVEL": "WARNING"}
    with StandaloneCluster(folder / "cluster", cores=slots, environ=environ) as spark:
        yield Cluster(spark, folder)


def slow_pages(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """Eight partitions on two workers of four slots, compared with one partition at a time."""
    times: list[float] = []
    walls: dict[bool, list[float]] = {True: [], False: []}
    reading: dict[bool, list[float]] = {True: [], False: []}
    with (
        serve_pages(records, page=1_000, delay=0.1, times=times) as url,
        start_cluster(folder) as cluster,
    ):
        for _ in range(rounds):
            for on_executors in (True, False):
                times.clear()
                tap = {"parts": PARTS, "records": records, "url": url}
                name = "executors" if on_executors else "driver"
                cost = run_and_check(cluster, name, tap, on_executors=on_executors)
                walls[on_executors].append(cost.wall)
                reading[on_executors].append(max(times) - min(times))
    title = f"cluster, {PARTS} partitions of {records:,} records in slow pages"
    title += ", 2 workers of 4 slots: reading"
    yield Row(title, IN_ORDER, *_medians(reading), "times less", 6, "wall s")
    yield Row("the same, the whole run", IN_ORDER, *_medians(walls), "times less", 6, "wall s")


def many_partitions(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """Many small partitions, compared with a quarter as many; the memory of the driver."""
    few = records // 4
    with start_cluster(folder) as cluster:
        counts = (PARTS, few, records)
        costs: dict[int, list[RunCost]] = {count: [] for count in counts}
        for _ in range(rounds):
            for count in counts:
                tap = {"parts": count, "records": 10}
                costs[count].append(run_and_check(cluster, f"many-{count}", tap))
    walls = {count: median(cost.wall for cost in step_costs) for count, step_costs in costs.items()}
    title = f"cluster, {records:,} partitions of 10 records, without the start"
    few_wall, many_wall = (walls[count] - walls[PARTS] for count in (few, records))
    fewer = f"4 times {few:,}"
    yield Row(title, fewer, many_wall, 4 * few_wall, "of theirs", 1.2, "wall s")
    for role, process, limit in (
        ("driver", "the driver's Python", 150),
        ("driver's JVM", "its JVM, with a heap of 1 GiB", 1_500),
    ):
        peak = max(cost.usage.memory[role] for cost in costs[records]) / MEBIBYTE
        yield Row(f"the same, memory of {process}", "", peak, None, "value", limit, "MiB")


def cpu(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """Partitions generated in memory, read by Spark's workers, compared with one process."""
    few = records // 8
    sizes = [f"{PARTS}:{PARTS}:{count // PARTS}" for count in (few, few, records)]
    costs: dict[str, list[float]] = {"ours": [], TAP_ALONE: [], TAP_AND_SPOOL: []}
    for _ in range(rounds):
        _, small, large = _run_steps(folder, "local[2]", sizes)
        costs["ours"].append(_slope(_sum_cpu(small), _sum_cpu(large), few, records))
        for name, program in ((TAP_ALONE, _tap), (TAP_AND_SPOOL, _tap_and_spool)):
            small_cpu, large_cpu = (run(program(folder, count)).cpu for count in (few, records))
            costs[name].append(_slope(small_cpu, large_cpu, few, records))
    title = f"cluster, {records:,} records in memory, read in Spark's workers into a shared folder"
    title += ", JVM included"
    ours = median(costs["ours"])
    for name in (TAP_ALONE, TAP_AND_SPOOL):
        yield Row(title, name, ours, median(costs[name]), "of theirs", 1.5, "CPU µs per record")


def load(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """Partitions generated in memory and loaded to Delta Lake, read by executors or the driver."""
    few = records // 8
    costs: dict[bool, list[float]] = {True: [], False: []}
    with start_cluster(folder) as cluster:
        for _ in range(rounds):
            for on_executors in (True, False):
                small, large = (
                    run_and_check(
                        cluster,
                        f"{on_executors}-{count}",
                        _tap_settings(count),
                        on_executors=on_executors,
                    ).usage.seconds()
                    for count in (few, records)
                )
                costs[on_executors].append(_slope(small, large, few, records))
    title = f"cluster, {records:,} records in memory, read by executors and loaded"
    peer = "read by the driver alone"
    yield Row(title, peer, *_medians(costs), "of theirs", 1.5, "CPU µs per record")


def hundred_executors(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """A run on a hundred executors, simulated with costs that are measured on two."""
    with start_cluster(folder) as cluster:
        costs = _measure_costs(cluster, records)
    print(costs, file=sys.stderr)
    for name, workload in simulation.variants():
        table = simulation.format_table(workload, costs)
        print(f"{name}: {workload}", *table, sep="\n", file=sys.stderr)
        single, many = (
            simulation.simulate(workload, costs, count).wall for count in (1, EXECUTORS)
        )
        is_main = workload == simulation.WORKLOAD
        title = f"cluster, {workload.work_units:,} work units of {workload.records:,} records"
        title += f" on {EXECUTORS} executors, simulated with measured costs"
        if not is_main:
            title += f": {name}"
        limit = 0.8 * EXECUTORS if is_main else None
        yield Row(title, "one executor", many, single, "times less", limit, "wall s")


def _measure_costs(cluster: Cluster, records: int) -> simulation.Costs:
    """Measure the costs of the simulation with steps of one application and with two loads."""
    many, few, records_per_part = 1_000, 64, 10
    names = [
        f"{parts}:{tasks}:{count}"
        for parts, tasks, count in (
            (few, few, records_per_part),
            (many, few, records_per_part),
            (many, many, records_per_part),
            (few, few, records // few),
        )
    ]
    # The first step includes the start of the executors. The first run of each step is not used,
    # because Java compiles code.
    cold, *step_costs = _run_steps(
        cluster.folder, cluster.spark.master, names * 3, _supervisor_pids(cluster.spark)
    )
    warm = step_costs[len(names) - 1 :]
    base, more_parts, more_tasks, more_records = (
        min((step for step in warm if step["step"] == name), key=_sum_cpu) for name in names
    )
    executor, driver = ("executor", "worker"), ("driver", "driver's JVM")
    task, driver_task = (
        _unit_cost(more_parts, more_tasks, many - few, roles) for roles in (executor, driver)
    )
    part, driver_part = (
        _unit_cost(base, more_parts, many - few, roles) for roles in (executor, driver)
    )
    record = _unit_cost(base, more_records, records - few * records_per_part, executor)
    short, long = (
        run_and_check(cluster, f"run-{count}", _tap_settings(count))
        for count in (records // PARTS, records)
    )
    loaded = _slope(short.executor_cpu, long.executor_cpu, records // PARTS, records) / 1e6
    return simulation.Costs(
        fixed=short.wall,
        job=max(0.0, _sum_cpu(base, driver) - few * (driver_part + driver_task)),
        driver_work_unit=driver_part,
        driver_task=driver_task,
        slot=(_sum_cpu(cold, executor) - _sum_cpu(base, executor)) / (2 * SLOTS),
        task=task,
        work_unit=part,
        record=record,
        load=max(0.0, loaded - record),
        sent=more_tasks["sent"],
        result=more_tasks["result"],
    )


def _run_steps(
    folder: Path, master: str, steps: Sequence[str], roots: Sequence[int] = ()
) -> list[dict[str, Any]]:
    """Run steps one after the other in one application, and return the figures of each."""
    subfolder = folder / "steps"
    shutil.rmtree(subfolder, ignore_errors=True)
    arguments = (master, str(subfolder), "--steps", *steps, "--roots", *map(str, roots))
    command = our_program("distributed_read.py", *arguments).command
    process = subprocess.run(command, env=_environment(), capture_output=True, check=False)
    assert process.returncode == 0, process.stderr.decode(errors="replace")[-3000:]
    figures: list[dict[str, Any]] = json.loads(process.stdout.splitlines()[-1])
    return figures


def _sum_cpu(step: Mapping[str, Any], roles: Sequence[str] = ()) -> float:
    """Return the CPU seconds of a step by the processes of some roles, or of all."""
    return sum(step["cpu"].get(role, 0.0) for role in roles or step["cpu"])


def _unit_cost(
    small: Mapping[str, Any], large: Mapping[str, Any], count: int, roles: Sequence[str]
) -> float:
    """Return the CPU seconds per unit, if the large step has ``count`` more units."""
    return max(0.0, (_sum_cpu(large, roles) - _sum_cpu(small, roles)) / count)


def _slope(small: float, large: float, few: int, many: int) -> float:
    """Return the microseconds per unit between the seconds of few and of many units."""
    return 1e6 * (large - small) / (many - few)


def _tap(folder: Path, records: int) -> Program:
    config = write_json(folder / f"tap-{records}.json", _tap_settings(records))
    return our_program("partitioned_tap.py", "--config", config)


def _tap_and_spool(folder: Path, records: int) -> Program:
    """Return a pipe of the tap and of the target up to its spool."""
    settings = {"path": str(folder / "none"), "format": "delta", "write_mode": "append"}
    target = our_program("spool_only.py", "--config", write_json(folder / "spool.json", settings))
    tap = _tap(folder, records)
    pipe = f"{shlex.join(tap.command)} | {shlex.join(target.command)}"
    return Program(["sh", "-c", pipe], environment=tap.environment)


def _tap_settings(records: int) -> dict[str, int]:
    return {"parts": PARTS, "records": records // PARTS}


def _medians(values: Mapping[bool, list[float]]) -> tuple[float, float]:
    return median(values[True]), median(values[False])


def run_and_check(
    cluster: Cluster, name: str, tap: Mapping[str, Any], *, on_executors: bool = True
) -> RunCost:
    """Load the records of a tap into new tables, and check the tables.

    Args:
        cluster: The cluster.
        name: The name of the folder of the tables.
        tap: The settings of the tap.
        on_executors: Whether executors read the partitions. The driver reads one after the other.

    Raises:
        AssertionError: The run failed, or a table has wrong rows.
    """
    tables = cluster.folder / name
    shutil.rmtree(tables, ignore_errors=True)
    target = {**cluster.settings, "path": str(tables), "format": "delta", "write_mode": "append"}
    files = (
        write_json(cluster.folder / f"{name}-tap.json", tap),
        write_json(cluster.folder / f"{name}-target.json", target),
    )
    arguments = ["run", "--tap", TAP, "--tap-config", files[0], "--config", files[1]]
    if not on_executors:
        arguments += ["--here", "*"]
    command = our_program("target.py", *arguments).command
    started = time.monotonic()
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command, env=_environment(), stdout=log, stderr=log, cwd=cluster.folder
        )
        with RoleWatcher(lambda: (process.pid, *_supervisor_pids(cluster.spark))) as watcher:
            code = process.wait()
        log.seek(0)
        assert code == 0, log.read().decode(errors="replace")[-3000:]
    wall = time.monotonic() - started
    stream = "pages" if "url" in tap else "partitioned"
    _check_table(tables / stream, tap["parts"], tap["records"])
    return RunCost(wall, watcher.usage())


def _environment() -> dict[str, str]:
    paths = os.pathsep.join((str(ROOT), str(PROGRAMS)))
    level = os.environ.get("BENCH_LOGLEVEL", "INFO")
    return {**os.environ, "PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable, "LOGLEVEL": level}


def _supervisor_pids(spark: StandaloneCluster) -> list[int]:
    return [
        worker.supervisor.pid for worker in spark.started_workers if worker.supervisor is not None
    ]


def _check_table(path: Path, parts: int, records: int) -> None:
    """Compare a table with the generator: all keys, and all values of one partition."""
    table = _read_table(path)
    keys = Counter(zip(table["part"].to_pylist(), table["id"].to_pylist(), strict=True))
    expected = {(part, number) for part in range(parts) for number in range(records)}
    if keys.keys() != expected or set(keys.values()) != {1}:
        message = f"{path}: {table.num_rows} rows with {len(keys)} keys instead of {len(expected)}"
        raise AssertionError(message)
    first = sorted(_read_partition(table, 0), key=lambda row: row["id"])
    checks.compare_rows(str(path), first, generator.partition(0, records))


def _read_partition(table: Any, part: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of a partition with the generator's types."""
    import pyarrow.compute

    rows = table.filter(pyarrow.compute.equal(table["part"], part))
    for row in rows.select(list(generator.PARTITION_SCHEMA["properties"])).to_pylist():
        yield {**row, "updated_at": row["updated_at"].astimezone(timezone.utc).isoformat()}


def _read_table(table: Path) -> Any:
    """Return the rows of the files that are part of the last version of a Delta table."""
    import pyarrow.parquet

    paths: dict[str, None] = {}
    for commit in sorted((table / "_delta_log").glob("*.json")):
        for action in map(json.loads, commit.read_text().splitlines()):
            if "add" in action:
                paths[unquote(action["add"]["path"])] = None
            if "remove" in action:
                paths.pop(unquote(action["remove"]["path"]), None)
    files = [str(table / path) for path in paths]
    return pyarrow.parquet.ParquetDataset(files).read()
