"""A tap of a REST API beside another SDK's: pages from a server on loopback, and start-up."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench import checks
from tests.bench.measure import Program, in_turns, run
from tests.bench.pages import serving
from tests.bench.places import bare, ours, peer, written
from tests.bench.programs import made
from tests.bench.table import Row

__all__ = ["parallel", "rest"]

SINGER = "singer_sdk"
BARE = "bare script of requests and msgspec"


def rest(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """Pages of a hundred records from a REST API, to a pipe; and what discovery costs."""
    with serving(records) as url:
        config = written(folder / "rest.json", {"url": url})
        programs = _both("--config", config)
        for name, program in programs.items():
            output = folder / "output"
            run(program, output)
            checks.same_rows(name, checks.singer_rows(output, "narrow"), made.narrow(records))
        programs[BARE] = bare("rest_bare.py", url)
        runs = in_turns(programs, rounds)
        what = f"REST tap, {records:,} records in pages of 100"
        yield Row(what, SINGER, runs["ours"].cpu, runs[SINGER].cpu, "times less", 4)
        yield Row(what, BARE, runs["ours"].cpu, runs[BARE].cpu, "of theirs")
        runs = in_turns(_both("--config", config, "--discover"), rounds * 3)
        cpu = runs["ours"].cpu, runs[SINGER].cpu
        yield Row("REST tap, --discover", SINGER, *cpu, "of theirs", 0.75)


def parallel(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """Eight partitions behind a server that takes 100 ms a page: eight threads beside one."""
    with serving(records, page=20, pause=0.1) as url:
        programs = {
            threads: ours("parallel_tap.py", "--config", _threads(folder, url, threads))
            for threads in (1, 8)
        }
        wanted = _by_id(row for _ in range(8) for row in made.narrow(records))
        for program in programs.values():
            run(program, folder / "output")
            found = _by_id(checks.singer_rows(folder / "output", "narrow"))
            checks.same_rows("parallel", found, wanted)
        walls: dict[int, list[float]] = {threads: [] for threads in programs}
        for _ in range(rounds):
            for threads, program in programs.items():
                started = time.monotonic()
                run(program)
                walls[threads].append(time.monotonic() - started)
        one, eight = (median(walls[threads]) for threads in (1, 8))
        what = "8 partitions of slow pages, 8 threads"
        yield Row(what, "1 thread", eight, one, "times less", 6, "wall s")


def _by_id(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(rows, key=lambda row: row["id"])


def _threads(folder: Path, url: str, threads: int) -> str:
    settings = {"url": url, "max_parallel_partitions": threads}
    return written(folder / f"parallel-{threads}.json", settings)


def _both(*arguments: str) -> dict[str, Program]:
    return {
        "ours": ours("rest_tap.py", *arguments, environment={"BENCH_SDK": "tap_core"}),
        SINGER: peer(SINGER, "rest_tap.py", *arguments, environment={"BENCH_SDK": SINGER}),
    }
