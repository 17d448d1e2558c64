"""Benchmarks of taps that read a REST API on loopback."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench import checks
from tests.bench.measure import Program, run, run_in_turns
from tests.bench.page_server import serve_pages
from tests.bench.programs import generator
from tests.bench.programs_under_test import bare_program, our_program, peer_program, write_json
from tests.bench.table import Row

__all__ = ["parallel", "rest"]

SINGER = "singer_sdk"
BARE = "bare script of requests and msgspec"


def rest(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """A REST tap and its `--discover`, compared with singer_sdk, and with a bare script."""
    with serve_pages(records) as url:
        config = write_json(folder / "rest.json", {"url": url})
        programs = _both_taps("--config", config)
        for name, program in programs.items():
            output = folder / "output"
            run(program, output)
            checks.compare_rows(
                name, checks.read_singer_records(output, "narrow"), generator.narrow(records)
            )
        programs[BARE] = bare_program("bare_rest.py", url)
        runs = run_in_turns(programs, rounds)
        title = f"REST tap, {records:,} records in pages of 100"
        yield Row(title, SINGER, runs["ours"].cpu, runs[SINGER].cpu, "times less", 4)
        yield Row(title, BARE, runs["ours"].cpu, runs[BARE].cpu, "of theirs")
        runs = run_in_turns(_both_taps("--config", config, "--discover"), rounds * 3)
        cpu = runs["ours"].cpu, runs[SINGER].cpu
        yield Row("REST tap, --discover", SINGER, *cpu, "of theirs", 0.75)


def parallel(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """Eight partitions of an API that takes 100 ms per page: eight threads compared with one."""
    with serve_pages(records, page=20, delay=0.1) as url:
        programs = {
            threads: our_program("parallel_tap.py", "--config", _write_config(folder, url, threads))
            for threads in (1, 8)
        }
        expected = _sort_by_id(row for _ in range(8) for row in generator.narrow(records))
        for program in programs.values():
            run(program, folder / "output")
            rows = _sort_by_id(checks.read_singer_records(folder / "output", "narrow"))
            checks.compare_rows("parallel", rows, expected)
        walls: dict[int, list[float]] = {threads: [] for threads in programs}
        for _ in range(rounds):
            for threads, program in programs.items():
                started = time.monotonic()
                run(program)
                walls[threads].append(time.monotonic() - started)
        single, eight = (median(walls[threads]) for threads in (1, 8))
        title = "8 partitions of slow pages, 8 threads"
        yield Row(title, "one thread", eight, single, "times less", 6, "wall s")


def _sort_by_id(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(rows, key=lambda row: row["id"])


def _write_config(folder: Path, url: str, threads: int) -> str:
    settings = {"url": url, "max_parallel_partitions": threads}
    return write_json(folder / f"parallel-{threads}.json", settings)


def _both_taps(*arguments: str) -> dict[str, Program]:
    return {
        "ours": our_program("rest_tap.py", *arguments, environment={"BENCH_SDK": "tap_core"}),
        SINGER: peer_program(SINGER, "rest_tap.py", *arguments, environment={"BENCH_SDK": SINGER}),
    }
