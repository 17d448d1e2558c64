"""Loads of a few rows into existing tables through a warm engine, beside dlt.

The CPU time of a load through the engine is that of the run and of the engine together. The engine
has been used before, as in production: the first loads compile Spark's code.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tests.bench.measure import Cost, Program, Runs, run
from tests.bench.places import ROOT, ours, written
from tests.bench.small_loads import (
    DLT,
    OURS,
    check_rows,
    dlt_upsert,
    load_first,
    write_streams,
)
from tests.bench.table import Row

__all__ = ["warm_many_upserts", "warm_upserts"]

WARM_UP = 4
"""Loads through the engine before the first that is measured."""

_TICKS = os.sysconf("SC_CLK_TCK")


def warm_upserts(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """Five streams upserted into five existing Delta tables through a warm engine, beside dlt."""
    yield from _compare(folder, 5, records, rounds, cpu=4, wall=1.5)


def warm_many_upserts(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """A hundred streams upserted into existing Delta tables through a warm engine, beside dlt."""
    yield from _compare(folder, 100, records, rounds, cpu=None, wall=1.5)


@dataclass(frozen=True)
class Engine:
    """An engine of a benchmark, with a cache of its own that contains the user's jars.

    Attributes:
        config: The path of the configuration.
        environment: The environment variables of its runs.
    """

    config: str
    environment: Mapping[str, str]

    def command(self, action: str) -> None:
        """Run `target-spark engine`; what a benchmark measures does not include it."""
        program = "from target_spark.target import TargetSpark; TargetSpark.cli()"
        command = [sys.executable, "-c", program, "engine", action, "--config", self.config]
        inherited = {k: v for k, v in os.environ.items() if k not in _UNWANTED}
        subprocess.run(command, env={**inherited, **self.environment}, check=True)

    def cpu(self) -> float:
        """Return the CPU seconds of the engine and its JVM so far."""
        engines = Path(self.environment["XDG_CACHE_HOME"]).glob("target-spark/engines/*")
        [engine] = [json.loads((path / "engine.json").read_bytes())["pid"] for path in engines]
        tasks = Path(f"/proc/{engine}/task").glob("*/children")
        children = {child for path in tasks for child in path.read_text().split()}
        return sum(map(_process_cpu, {str(engine), *children}))


_UNWANTED = frozenset({"PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"})


def _compare(
    folder: Path, streams: int, records: int, rounds: int, *, cpu: float | None, wall: float
) -> Iterator[Row]:
    first, second = folder / "first", folder / "second"
    write_streams(first, streams, 0, records)
    write_streams(second, streams, records // 2, records)
    engine = _engine(folder)
    places = {OURS: folder / "ours", DLT: folder / "dlt"}
    programs = {
        OURS: ours("target.py", "--config", engine.config, environment=engine.environment),
        DLT: dlt_upsert(places[DLT]),
    }
    engine.command("start")
    try:
        for name, place in places.items():
            programs[name] = load_first(programs[name], place, first, second)
        for _ in range(WARM_UP):
            run(programs[OURS])
        runs = _in_turns(programs, engine, rounds)
    finally:
        engine.command("stop")
    for place in places.values():
        check_rows(place, streams, records)
    what = f"target, {streams} x {records} rows upserted into existing Delta tables, warm engine"
    yield Row(what, DLT, runs[OURS].cpu, runs[DLT].cpu, "of theirs", cpu)
    yield Row(what, DLT, runs[OURS].wall, runs[DLT].wall, "of theirs", wall, "wall s")
    yield Row(f"{what}: the run alone", DLT, runs[OURS].own_cpu, runs[DLT].cpu, "of theirs")


def _engine(folder: Path) -> Engine:
    from target_spark.spark.jvm import cache_folder

    cache = folder / "cache" / "target-spark"
    cache.mkdir(parents=True, mode=0o700)
    (cache / "ivy").symlink_to(cache_folder() / "ivy")
    config = {"path": str(folder / "ours"), "job": "bench", "small_runs": True}
    environment = {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder / "cache")}
    return Engine(written(folder / "ours.json", config), environment)


def _in_turns(programs: Mapping[str, Program], engine: Engine, rounds: int) -> dict[str, Runs]:
    """Run each program ``rounds`` times in turns; add what the engine did for ours."""
    costs: dict[str, list[Cost]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, program in programs.items():
            before = engine.cpu()
            cost = run(program)
            more = engine.cpu() - before if name == OURS else 0
            costs[name].append(replace(cost, cpu=cost.cpu + more))
            print(".", end="", flush=True, file=sys.stderr)
    return {name: Runs(tuple(of_one)) for name, of_one in costs.items()}


def _process_cpu(pid: str) -> float:
    """Return the CPU seconds of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS
