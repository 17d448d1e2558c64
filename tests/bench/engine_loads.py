"""Loads through a warm engine and without Spark, compared with dlt.

The CPU time of a load through the engine is that of the run and of the engine together. Loads that
warm the engine are not measured: in the first ones Java compiles Spark's code.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.bench.loads import check_delta, check_parquet, dlt_load, remover, write_tap_output
from tests.bench.measure import Cost, Program, Runs, run
from tests.bench.programs_under_test import ROOT, our_program, write_json
from tests.bench.small_loads import (
    DELTA_RS,
    DLT,
    OURS,
    check_rows,
    dlt_upsert,
    load_first,
    our_target,
    write_streams,
)
from tests.bench.table import Row

__all__ = ["warm_loads", "warm_many_upserts", "warm_upserts"]

WARM_UP = {5: 20, 100: 3}
"""Loads through the engine before the first measured one, by the number of streams."""

_TICKS = os.sysconf("SC_CLK_TCK")


def warm_upserts(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """Upserts of five streams into five existing Delta tables, compared with dlt."""
    yield from _compare_upserts(folder, 5, records, rounds, cpu=4, wall=1.5)


def warm_many_upserts(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """Upserts of a hundred streams into existing Delta tables, compared with dlt."""
    yield from _compare_upserts(folder, 100, records, rounds, cpu=None, wall=1.5)


def warm_loads(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """Loads into new tables of Parquet and Delta Lake through a warm engine, compared with dlt."""
    for table_format in ("parquet", "delta"):
        subfolder = folder / table_format
        subfolder.mkdir()
        yield from _compare_load(subfolder, table_format, records, rounds)


@dataclass(frozen=True)
class Engine:
    """An engine of a benchmark, with a separate cache folder that links to the user's jars.

    Attributes:
        config: The path of the configuration.
        environment: The environment variables of its runs.
    """

    config: str
    environment: Mapping[str, str]

    def run_command(self, action: str) -> None:
        """Run a command of `target-spark engine`, which is not measured."""
        program = "from target_spark.target import TargetSpark; TargetSpark.cli()"
        command = [sys.executable, "-c", program, "engine", action, "--config", self.config]
        inherited = {
            key: value for key, value in os.environ.items() if key not in _REMOVED_VARIABLES
        }
        subprocess.run(command, env={**inherited, **self.environment}, check=True)

    def target(self) -> Program:
        """Return target-spark with this engine."""
        return our_program("target.py", "--config", self.config, environment=self.environment)

    def read_cpu(self) -> float:
        """Return the CPU seconds of the engine and its JVM so far."""
        engines = Path(self.environment["XDG_CACHE_HOME"]).glob("target-spark/engines/*")
        [engine] = [json.loads((path / "engine.json").read_bytes())["pid"] for path in engines]
        tasks = Path(f"/proc/{engine}/task").glob("*/children")
        children = {child for path in tasks for child in path.read_text().split()}
        return sum(map(_process_cpu, {str(engine), *children}))


_REMOVED_VARIABLES = frozenset({"PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"})


def _compare_upserts(
    folder: Path, streams: int, records: int, rounds: int, *, cpu: float | None, wall: float
) -> Iterator[Row]:
    first, second = folder / "first", folder / "second"
    write_streams(first, streams, 0, records)
    write_streams(second, streams, records // 2, records)
    folders = {OURS: folder / "ours", DELTA_RS: folder / "delta-rs", DLT: folder / "dlt"}
    with _start_engine(folder, {"path": str(folders[OURS]), "job": "bench"}) as engine:
        programs = {
            OURS: engine.target(),
            DELTA_RS: our_target(folders[DELTA_RS], small_batches="delta-rs"),
            DLT: dlt_upsert(folders[DLT]),
        }
        for name, tables in folders.items():
            programs[name] = load_first(programs[name], tables, first, second)
        runs = _run_in_turns(programs, engine, rounds, warm_up=WARM_UP[streams])
    for tables in folders.values():
        check_rows(tables, streams, records)
    prefix = f"target, {streams} x {records} rows upserted into existing Delta tables"
    dlt = runs[DLT]
    title = f"{prefix}, warm engine"
    yield Row(title, DLT, runs[OURS].cpu, dlt.cpu, "of theirs", cpu)
    yield Row(title, DLT, runs[OURS].wall, dlt.wall, "of theirs", wall, "wall s")
    yield Row(f"{title}: the run alone", DLT, runs[OURS].own_cpu, dlt.cpu, "of theirs")
    title = f"{prefix}, small_batches: delta-rs"
    yield Row(title, DLT, runs[DELTA_RS].cpu, dlt.cpu, "of theirs", 1.3)
    yield Row(title, DLT, runs[DELTA_RS].wall, dlt.wall, "of theirs", 1, "wall s")


def _compare_load(folder: Path, table_format: str, records: int, rounds: int) -> Iterator[Row]:
    feed, tables = write_tap_output(folder, "narrow", records), folder / "ours"
    settings = {"path": str(tables), "format": table_format, "write_mode": "append"}
    with _start_engine(folder, settings) as engine:
        programs = {
            OURS: replace(engine.target(), feed=feed, before=remover(tables)),
            DLT: dlt_load(folder, feed, "narrow", table_format),
        }
        runs = _run_in_turns(programs, engine, rounds, warm_up=5)
    check = check_delta if table_format == "delta" else check_parquet
    for loaded in (tables, folder / "dlt"):
        check(loaded, "narrow", records)
    title = f"target, {records:,} records into a new table ({table_format}), warm engine"
    yield Row(title, "dlt", runs[OURS].cpu, runs[DLT].cpu, "of theirs", 0.7)
    yield Row(title, "dlt", runs[OURS].wall, runs[DLT].wall, "of theirs", unit="wall s")


@contextmanager
def _start_engine(folder: Path, settings: Mapping[str, Any]) -> Iterator[Engine]:
    """Start an engine for loads with these settings; stop it at the end of the block."""
    from target_spark.spark.jvm import cache_folder

    cache = folder / "cache" / "target-spark"
    cache.mkdir(parents=True, mode=0o700)
    (cache / "ivy").symlink_to(cache_folder() / "ivy")
    environment = {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder / "cache")}
    engine = Engine(write_json(folder / "ours.json", settings), environment)
    engine.run_command("start")
    try:
        yield engine
    finally:
        engine.run_command("stop")


def _run_in_turns(
    programs: Mapping[str, Program], engine: Engine, rounds: int, *, warm_up: int
) -> dict[str, Runs]:
    """Warm the engine and run the programs in turns; add the CPU time of the engine to ours."""
    for _ in range(warm_up):
        run(programs[OURS])
    costs: dict[str, list[Cost]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, program in programs.items():
            before = engine.read_cpu()
            cost = run(program)
            engine_cpu = engine.read_cpu() - before if name == OURS else 0
            costs[name].append(replace(cost, cpu=cost.cpu + engine_cpu))
            print(".", end="", flush=True, file=sys.stderr)
    return {name: Runs(tuple(program_costs)) for name, program_costs in costs.items()}


def _process_cpu(pid: str) -> float:
    """Return the CPU seconds of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS
