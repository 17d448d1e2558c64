"""The target beside other loaders: the Python process alone, and all of a load to Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.bench.loads import DLT, SINGER, check_parquet, dlt, remover, singer, tap_output
from tests.bench.measure import Program, Runs, in_turns, run
from tests.bench.places import bare, ours, peer, written
from tests.bench.table import Row

__all__ = ["count", "fold", "load", "start", "whole"]

MEBIBYTE = 1 << 20
MEMORY = 150
SDK = "singer_sdk"
_COUNTING = "counting_target.py"


def fold(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """Target, Python process only: decode, fold and spool; commits take no time."""
    programs = {}
    for size, count in (("", records), (" none", 0)):
        feed = tap_output(folder, "narrow", count)
        config = _config(folder, "spool", {})
        programs["ours" + size] = ours("spool_only.py", "--config", config, feed=feed)
        programs["bare" + size] = bare("bare_split.py", feed=feed)
    runs = in_turns(programs, rounds)
    cpu = {name: of_one.cpu for name, of_one in runs.items()}
    what = f"target, Python alone, {records:,} records"
    other = "bare split into raw records"
    yield Row(what, other, cpu["ours"], cpu["bare"], "of theirs")
    net = (cpu["ours"] - cpu["ours none"], cpu["bare"] - cpu["bare none"])
    yield Row(f"{what}, start-up apart", other, *net, "of theirs", 3.5)
    yield Row("the same, memory", "", runs["ours"].rss / MEBIBYTE, None, "below", MEMORY, "MiB")


def load(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """A load to Parquet, flat and with an object, all processes, start-up included."""
    yield from _load(folder, "narrow", records, rounds)
    yield from _load(folder, "nested", records, rounds)


def _load(folder: Path, case: str, records: int, rounds: int) -> Iterator[Row]:
    feed = tap_output(folder, case, records)
    programs = {
        "ours": _our_target(folder, feed),
        "ours, small_runs": _our_target(folder, feed, small_runs=True),
        SINGER: singer(folder, feed),
        DLT: dlt(folder, feed, case, "parquet"),
    }
    _check(programs, folder, case, records)
    runs = in_turns(programs, rounds)
    columns = ", one column an object with an object in it" if case == "nested" else ""
    what = f"target, {records:,} records to Parquet{columns}"
    for name, wanted in (("ours", 0.75), ("ours, small_runs", 0.6)):
        shown = what + name.removeprefix("ours")
        yield Row(shown, SINGER, runs[name].cpu, runs[SINGER].cpu, "of theirs", wanted)
        yield Row(shown, DLT, runs[name].cpu, runs[DLT].cpu, "of theirs", 1.2)
    yield _python_memory(runs["ours"])


def whole(folder: Path, records: int, rounds: int, *, scaled_from: int = 0) -> Iterator[Row]:
    """A long load to Parquet; the peer's time may be scaled from a shorter one."""
    feed, bare_feed = (
        tap_output(folder, "narrow", records),
        tap_output(folder, "narrow", scaled_from or records),
    )
    programs = {
        "ours": _our_target(folder, feed),
        SINGER: singer(folder, bare_feed),
        "bare": bare("bare_split.py", feed=feed),
    }
    _check({"ours": programs["ours"]}, folder, "narrow", records)
    runs = in_turns(programs, rounds)
    theirs = runs[SINGER].cpu * (records / scaled_from if scaled_from else 1)
    what = f"target, {records:,} records to Parquet"
    other = f"{SINGER}, scaled from {scaled_from:,}" if scaled_from else SINGER
    yield Row(what, other, runs["ours"].cpu, theirs, "of theirs", 0.25)
    own, split = runs["ours"].own_cpu, runs["bare"].cpu
    yield Row(f"{what}, its Python process", "bare split", own, split, "of theirs", 3.5)
    yield _python_memory(runs["ours"])


def start(_folder: Path, _records: int, rounds: int) -> Iterator[Row]:
    """What the target's command costs when there is nothing to load."""
    for flag in ("--help", "--version"):
        programs = {"ours": ours("target.py", flag), SINGER: peer("singer_sdk", "sink.py", flag)}
        for program in programs.values():
            run(program)
        runs = in_turns(programs, rounds * 3)
        yield Row(f"target, {flag}", SINGER, runs["ours"].cpu, runs[SINGER].cpu, "of theirs")


def count(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """A target on the SDK that only counts, with validation on: what each SDK adds."""
    feed = tap_output(folder, "narrow", records)
    config = written(folder / "counting.json", {"expected": records})
    programs = {
        "ours": ours(_COUNTING, "--config", config, feed=feed, environment=_sdk("tap_core")),
        SDK: peer(SDK, _COUNTING, "--config", config, feed=feed, environment=_sdk(SDK)),
    }
    runs = in_turns(programs, rounds)
    what = f"counting target, {records:,} records validated"
    yield Row(what, SDK, runs["ours"].cpu, runs[SDK].cpu, "times less", 10)


def _sdk(name: str) -> dict[str, str]:
    return {"BENCH_SDK": name}


def _python_memory(runs: Runs) -> Row:
    memory = runs.rss / MEBIBYTE
    return Row("target's Python process, memory", "", memory, None, "below", MEMORY, "MiB")


def _config(folder: Path, name: str, settings: dict[str, Any]) -> str:
    place = {"path": str(folder / name), "format": "parquet", **settings}
    return written(folder / f"{name}.json", place)


def _our_target(folder: Path, feed: Path, **settings: Any) -> Program:
    name = "-".join(["ours", *settings])
    config = _config(folder, name, settings)
    return ours("target.py", "--config", config, feed=feed, before=remover(folder / name))


def _check(programs: dict[str, Program], folder: Path, case: str, records: int) -> None:
    """Run each once and compare its files with the generator, value by value."""
    places = {"ours": "ours", "ours, small_runs": "ours-small_runs", SINGER: "singer", DLT: "dlt"}
    for name, program in programs.items():
        run(program)
        check_parquet(folder / places[name], case, records)
