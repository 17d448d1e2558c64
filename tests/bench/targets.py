"""Benchmarks of the target: its start, its Python process without commits, and loads to Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.bench.loads import (
    DLT,
    SINGER,
    check_parquet,
    dlt_load,
    remover,
    singer_load,
    write_tap_output,
)
from tests.bench.measure import Program, Runs, run, run_in_turns
from tests.bench.programs_under_test import bare_program, our_program, peer_program, write_json
from tests.bench.table import Row

__all__ = ["count", "load", "long_load", "python_process", "start"]

MEBIBYTE = 1 << 20
MEMORY = 150
"""The limit of the memory of the target's Python process, in MiB."""
SDK = "singer_sdk"
SPLIT = "a loop that splits lines"
_COUNTING = "counting_target.py"


def python_process(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """The Python process of target-spark without commits, compared with a bare loop."""
    programs = {}
    for size, count in (("", records), (" empty", 0)):
        feed = write_tap_output(folder, "narrow", count)
        config = _write_config(folder, "spool", {})
        programs["ours" + size] = our_program("spool_only.py", "--config", config, feed=feed)
        programs["bare" + size] = bare_program("bare_split.py", feed=feed)
    runs = run_in_turns(programs, rounds)
    cpu = {name: program_runs.cpu for name, program_runs in runs.items()}
    title = f"target, Python process without commits, {records:,} records"
    yield Row(title, SPLIT, cpu["ours"], cpu["bare"], "of theirs")
    net = (cpu["ours"] - cpu["ours empty"], cpu["bare"] - cpu["bare empty"])
    yield Row(f"{title}, without start-up", SPLIT, *net, "of theirs", 3.5)
    yield Row("the same, memory", "", runs["ours"].rss / MEBIBYTE, None, "value", MEMORY, "MiB")


def load(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """A whole load to Parquet, flat and with an object as a column."""
    yield from _load(folder, "narrow", records, rounds)
    yield from _load(folder, "nested", records, rounds)


def _load(folder: Path, case: str, records: int, rounds: int) -> Iterator[Row]:
    feed = write_tap_output(folder, case, records)
    programs = {
        "ours": _our_target(folder, feed),
        "ours, small_runs": _our_target(folder, feed, small_runs=True),
        SINGER: singer_load(folder, feed),
        DLT: dlt_load(folder, feed, case, "parquet"),
    }
    _check(programs, folder, case, records)
    runs = run_in_turns(programs, rounds)
    columns = ", nested objects in one column" if case == "nested" else ""
    for name, limit in (("ours", 0.75), ("ours, small_runs", 0.6)):
        title = f"target, {records:,} records to Parquet{columns}{name.removeprefix('ours')}"
        yield Row(title, SINGER, runs[name].cpu, runs[SINGER].cpu, "of theirs", limit)
        yield Row(title, DLT, runs[name].cpu, runs[DLT].cpu, "of theirs", 1.2)
    yield _memory_row(runs["ours"])


def long_load(folder: Path, records: int, rounds: int, *, scaled_from: int = 0) -> Iterator[Row]:
    """A long load to Parquet. The time of the peer may be scaled from a shorter load."""
    feed = write_tap_output(folder, "narrow", records)
    peer_feed = write_tap_output(folder, "narrow", scaled_from or records)
    programs = {
        "ours": _our_target(folder, feed),
        SINGER: singer_load(folder, peer_feed),
        "bare": bare_program("bare_split.py", feed=feed),
    }
    _check({"ours": programs["ours"]}, folder, "narrow", records)
    runs = run_in_turns(programs, rounds)
    theirs = runs[SINGER].cpu * (records / scaled_from if scaled_from else 1)
    title = f"target, {records:,} records to Parquet"
    peer = f"{SINGER}, scaled from {scaled_from:,}" if scaled_from else SINGER
    yield Row(title, peer, runs["ours"].cpu, theirs, "of theirs", 0.25)
    own_cpu, split = runs["ours"].own_cpu, runs["bare"].cpu
    yield Row(f"{title}, its Python process", SPLIT, own_cpu, split, "of theirs", 3.5)
    yield _memory_row(runs["ours"])


def start(_folder: Path, _records: int, rounds: int) -> Iterator[Row]:
    """The start of target-spark without messages, compared with a singer_sdk sink."""
    for flag in ("--help", "--version"):
        programs = {
            "ours": our_program("target.py", flag),
            SINGER: peer_program("singer_sdk", "singer_target.py", flag),
        }
        for program in programs.values():
            run(program)
        runs = run_in_turns(programs, rounds * 3)
        yield Row(f"target, {flag}", SINGER, runs["ours"].cpu, runs[SINGER].cpu, "of theirs")


def count(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """A target that validates and counts records, compared with the same target on singer_sdk."""
    feed = write_tap_output(folder, "narrow", records)
    config = write_json(folder / "counting.json", {"expected": records})
    programs = {
        "ours": our_program(
            _COUNTING, "--config", config, feed=feed, environment=_select_sdk("tap_core")
        ),
        SDK: peer_program(
            SDK, _COUNTING, "--config", config, feed=feed, environment=_select_sdk(SDK)
        ),
    }
    runs = run_in_turns(programs, rounds)
    title = f"counting target, {records:,} records validated"
    yield Row(title, SDK, runs["ours"].cpu, runs[SDK].cpu, "times less", 10)


def _select_sdk(name: str) -> dict[str, str]:
    return {"BENCH_SDK": name}


def _memory_row(runs: Runs) -> Row:
    memory = runs.rss / MEBIBYTE
    return Row("target's Python process, memory", "", memory, None, "value", MEMORY, "MiB")


def _write_config(folder: Path, name: str, settings: dict[str, Any]) -> str:
    config = {"path": str(folder / name), "format": "parquet", **settings}
    return write_json(folder / f"{name}.json", config)


def _our_target(folder: Path, feed: Path, **settings: Any) -> Program:
    name = "-".join(["ours", *settings])
    config = _write_config(folder, name, settings)
    return our_program("target.py", "--config", config, feed=feed, before=remover(folder / name))


def _check(programs: dict[str, Program], folder: Path, case: str, records: int) -> None:
    """Run each program once and compare its files with the generator, value by value."""
    folders = {"ours": "ours", "ours, small_runs": "ours-small_runs", SINGER: "singer", DLT: "dlt"}
    for name, program in programs.items():
        run(program)
        check_parquet(folder / folders[name], case, records)
