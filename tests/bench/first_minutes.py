"""A benchmark of the first steps of a new user: the time to a first table and to a first tap.

The commands are those of the README and of docs/first-tap.md. They run in an empty folder with the
built wheel and empty caches of pip and of Spark's jars, so the time includes downloads.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final

from tests.bench.programs_under_test import ROOT
from tests.bench.table import Row
from tests.docs.test_code_blocks import Block, Terminal, find_blocks
from tests.docs.test_installed_wheel import user_environment
from tests.project.distributions import build_distribution

__all__ = ["first_minutes"]

_FIRST_TABLE: Final = {
    "[spark]'": "pip install with Spark",
    "| target-spark --config target.json": "a tap into a table, jars fetched",
    "open_warehouse(": "reading the table",
}
_FIRST_TAP: Final = {
    "[testing]'": "pip install",
    "tap-core new tap-tracker": "tap-core new",
    "pip install -e": "pip install -e",
    "pytest -q\n": "its tests",
    "test-stream tasks": "first records, with a pause of 2 s",
}
"""Steps by a text of the code block that is the step; the last one ends the measurement."""


def first_minutes(folder: Path, _records: int, rounds: int) -> Iterator[Row]:
    """Measure the commands of the first pages with the built wheel, one after the other."""
    (folder / "wheels").mkdir()
    wheel = build_distribution("wheel", folder / "wheels")
    for subject, page, steps in (
        ("first table", "README.md", _FIRST_TABLE),
        ("first tap", "docs/first-tap.md", _FIRST_TAP),
    ):
        blocks = find_blocks((ROOT / page).read_text("utf-8"))
        measured: list[dict[str, float]] = []
        cpu: list[float] = []
        for number in range(rounds):
            run_folder = folder / f"{subject} {number}"
            (run_folder / "wheels").mkdir(parents=True)
            (run_folder / "wheels" / wheel.name).symlink_to(wheel)
            before = _get_cpu_seconds()
            measured.append(dict(_measure_steps(run_folder, blocks, steps)))
            cpu.append(_get_cpu_seconds() - before)
        for step in steps.values():
            seconds = min(run[step] for run in measured)
            yield Row(f"{subject}: {step}", "", seconds, None, "value", unit="wall s")
        total = min(sum(run.values()) for run in measured)
        yield Row(f"{subject}: together", "", total, None, "value", unit="wall s")
        yield Row(f"{subject}: together", "", min(cpu), None, "value")


def _get_cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _measure_steps(
    folder: Path, blocks: list[Block], steps: Mapping[str, str]
) -> Iterator[tuple[str, float]]:
    """Yield each step with its seconds. Blocks with files are saved; other blocks do not run."""
    variables = user_environment()
    del variables["JAVA_TOOL_OPTIONS"]  # a user has none
    variables["XDG_CACHE_HOME"] = str(folder / "cache")
    terminal = Terminal(folder, variables, place="wheel")
    steps_of_blocks = ((_find_step(block, steps), block) for block in blocks)
    for step, block in islice(steps_of_blocks, _count_blocks(blocks, steps)):
        started = time.perf_counter()
        if step is not None or "file" in block.options:
            terminal.perform(block)
        if step is not None:
            yield step, time.perf_counter() - started


def _find_step(block: Block, steps: Mapping[str, str]) -> str | None:
    return next((step for text, step in steps.items() if text in block.body), None)


def _count_blocks(blocks: list[Block], steps: Mapping[str, str]) -> int:
    """Return the number of blocks up to the last step. A step that no block has is an error."""
    position = [_find_step(block, steps) for block in blocks].index
    return 1 + max(position(step) for step in steps.values())
