"""A tap of a REST API beside another SDK's: pages from a server on loopback, and start-up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.bench import checks
from tests.bench.measure import Program, in_turns, run
from tests.bench.pages import serving
from tests.bench.places import ours, peer, written
from tests.bench.programs import made
from tests.bench.table import Row

__all__ = ["rest"]

SINGER = "singer_sdk"


def rest(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """Pages of a hundred records from a REST API, to a pipe; and what discovery costs."""
    with serving(records) as url:
        config = written(folder / "rest.json", {"url": url})
        programs = _both("--config", config)
        for name, program in programs.items():
            output = folder / "output"
            run(program, output)
            checks.same_rows(name, checks.singer_rows(output, "narrow"), made.narrow(records))
        runs = in_turns(programs, rounds)
        what = f"REST tap, {records:,} records in pages of 100"
        yield Row(what, SINGER, runs["ours"].cpu, runs[SINGER].cpu, "times less", 4)
        runs = in_turns(_both("--config", config, "--discover"), rounds * 3)
        cpu = runs["ours"].cpu, runs[SINGER].cpu
        yield Row("REST tap, --discover", SINGER, *cpu, "of theirs", 0.75)


def _both(*arguments: str) -> dict[str, Program]:
    return {
        "ours": ours("rest_tap.py", *arguments, environment={"BENCH_SDK": "tap_core"}),
        SINGER: peer(SINGER, "rest_tap.py", *arguments, environment={"BENCH_SDK": SINGER}),
    }
