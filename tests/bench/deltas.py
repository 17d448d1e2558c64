"""Benchmarks of loads to Delta Lake, compared with other loaders and with hand-written programs.

The tables of this project and of its peers are read with deltalake and compared with the generator.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.loads import (
    SINGER,
    check_delta,
    dlt_load,
    remover,
    replace_folder,
    singer_load,
    write_tap_output,
)
from tests.bench.measure import Program, Runs, run, run_in_turns
from tests.bench.programs_under_test import PROGRAMS, our_program, write_json
from tests.bench.table import Row

__all__ = ["appends", "narrow", "overlap", "streams", "upsert", "wide"]

MEBIBYTE = 1 << 20
MEMORY = 150
"""The limit of the memory of the target's Python process, in MiB."""
OURS, DLT, LOOP, MERGE = "ours", "dlt to Delta", "a hand-written loop", "a hand-written MERGE"
STREAMS = 200
_APPEND = {"format": "delta", "write_mode": "append"}
VERSIONS = 12
DLT_LIMITS = {"narrow": (0.5, 0.35), "nested": (0.5, 0.35)}
"""Highest ratios of our CPU time and of our elapsed time to dlt's, by case."""


def narrow(folder: Path, records: int, rounds: int, *, scaled_from: int = 0) -> Iterator[Row]:
    """A load of 8 columns to Delta Lake, flat and nested. Peers' figures may be scaled."""
    yield from _compare_loaders("narrow", "8 columns", folder, records, rounds, scaled_from)
    columns = "8 columns, nested objects in one,"
    yield from _compare_loaders("nested", columns, folder, records, rounds, scaled_from)


def wide(folder: Path, records: int, rounds: int, *, scaled_from: int = 0) -> Iterator[Row]:
    """A load of 60 columns to Delta Lake. Peers' figures may be scaled from shorter loads."""
    yield from _compare_loaders("wide", "60 columns", folder, records, rounds, scaled_from)


def _compare_loaders(
    case: str, columns: str, folder: Path, records: int, rounds: int, scaled_from: int
) -> Iterator[Row]:
    theirs = scaled_from or records
    feed, their_feed = (
        write_tap_output(folder, case, records),
        write_tap_output(folder, case, theirs),
    )
    programs = {
        OURS: _our_load(folder, feed, **_APPEND),
        SINGER: singer_load(folder, their_feed),
        DLT: dlt_load(folder, their_feed, case, "delta"),
    }
    run(programs[OURS])
    check_delta(folder / OURS, case, records)
    run(programs[DLT])
    check_delta(folder / "dlt", case, theirs)
    runs, factor = run_in_turns(programs, rounds), records / theirs
    title = f"target, {records:,} records of {columns} to a new Delta table"
    limits = {SINGER: (1 / 3, 1), DLT: DLT_LIMITS.get(case, (0.625, 1))}
    for name, (cpu_limit, wall_limit) in limits.items():
        peer = f"{name}, scaled from {theirs:,}" if scaled_from else name
        cpu, wall = runs[name].cpu * factor, runs[name].wall * factor
        yield Row(title, peer, runs[OURS].cpu, cpu, "of theirs", round(cpu_limit, 3))
        yield Row(title, peer, runs[OURS].wall, wall, "of theirs", wall_limit, "wall s")
    yield _memory_row(runs[OURS])


def appends(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """Loads into Delta tables that have twelve versions, compared with dlt and with a new table."""
    layouts: dict[str, dict[str, Any]] = {
        "plain": {},
        "partitioned": {"partition_by": ["active"]},
        "clustered": {"cluster_by": ["id"]},
    }
    yield from _compare_appends(folder, "narrow", layouts, records, rounds)
    yield from _compare_appends(folder, "nested", {"plain": {}}, records, rounds)


def _compare_appends(
    folder: Path, case: str, layouts: Mapping[str, dict[str, Any]], records: int, rounds: int
) -> Iterator[Row]:
    feed = write_tap_output(folder, case, records)
    programs = {"new": _our_load(folder, feed, **_APPEND)}
    for layout, settings in layouts.items():
        programs[layout] = _our_append(folder, case, layout, settings, feed)
    programs[DLT] = _dlt_append(folder, case, feed)
    runs = run_in_turns(programs, rounds)
    for name in (*layouts, "dlt"):
        _check_rows(folder / name, case, records + VERSIONS * 100)
    title = f"target, {records:,} records into a Delta table of {VERSIONS} versions"
    title += ", nested objects in one column" if case == "nested" else ""
    cpu, wall = DLT_LIMITS[case]
    plain, new, dlt = runs["plain"], runs["new"], runs[DLT]
    yield Row(f"{title}, plain", DLT, plain.cpu, dlt.cpu, "of theirs", cpu)
    yield Row(f"{title}, plain", DLT, plain.wall, dlt.wall, "of theirs", wall, "wall s")
    yield Row(f"{title}, plain", "a new table", plain.cpu, new.cpu, "of theirs", 1.1)
    for layout in (name for name in layouts if name != "plain"):
        yield Row(f"{title}, {layout}", DLT, runs[layout].cpu, dlt.cpu, "of theirs")


def _our_append(
    folder: Path, case: str, layout: str, settings: Mapping[str, Any], feed: Path
) -> Program:
    """Create a table with twelve versions, and return the load into a copy of it."""
    tables, source = folder / layout, folder / f"{layout}-{case}-before"
    first_feed = write_tap_output(folder, case, VERSIONS * 100)
    small_commits = _write_config(folder, layout, {**_APPEND, **settings, "flush_rows": 100})
    remover(tables)()
    run(our_program("target.py", "--config", small_commits, feed=first_feed))
    tables.rename(source)
    config = _write_config(folder, layout, {**_APPEND, **settings})
    before = partial(replace_folder, source, tables)
    return our_program("target.py", "--config", config, feed=feed, before=before)


def _dlt_append(folder: Path, case: str, feed: Path) -> Program:
    """Create a table with twelve versions with dlt, and return dlt's load into a copy of it."""
    tables, source = folder / "dlt", folder / f"dlt-{case}-before"
    first_feed = write_tap_output(folder, case, 100)
    remover(tables)()
    for _ in range(VERSIONS):
        run(dlt_load(folder, first_feed, case, "delta", is_new=False))
    tables.rename(source)
    before = partial(replace_folder, source, tables)
    return replace(dlt_load(folder, feed, case, "delta"), before=before)


def streams(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """Two hundred small streams into as many new tables, compared with a loop in one Spark."""
    feed = folder / "streams"
    _write_streams(feed, STREAMS, records // STREAMS)
    report = folder / "report.json"
    tables = folder / "loop"
    programs = {
        OURS: _our_load(folder, feed, report=str(report), **_APPEND),
        LOOP: our_program("spark_loop.py", str(tables), feed=feed, before=remover(tables)),
    }
    runs = run_in_turns(programs, rounds)
    _check_streams(report, folder / OURS, records)
    title = f"target, {STREAMS} streams of {records // STREAMS} records to new Delta tables"
    yield Row(title, LOOP, runs[OURS].wall, runs[LOOP].wall, "of theirs", 0.6, "wall s")
    yield Row(title, LOOP, runs[OURS].cpu, runs[LOOP].cpu, "of theirs")
    document = json.loads(report.read_text())
    paused = 100 * document["held_back_seconds"] / document["seconds"]
    title = "the same, time that reading paused"
    yield Row(title, "", paused, None, "value", 5, "% of the time")
    yield _memory_row(runs[OURS])


def upsert(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """An upsert into a table of ten times as many rows, compared with a MERGE in the same Spark."""
    output = folder / "upsert.json"
    table = str(folder / "tables")
    run(our_program("upsert.py", table, str(records * 10), str(records), str(rounds)), output)
    costs = json.loads(output.read_text())
    title = f"target, upsert of {records:,} rows into {records * 10:,}"
    for figure, unit, limit in (("cpu", "CPU s", None), ("wall", "wall s", 1.3)):
        ours, theirs = (median(cost[figure] for cost in costs[name]) for name in ("ours", "merge"))
        yield Row(title, MERGE, ours, theirs, "of theirs", limit, unit)


def overlap(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """A load that reads its input while Spark commits, compared with each of the two alone."""
    feed = write_tap_output(folder, "narrow", records)
    seconds = folder / "seconds"
    settings = {"flush_rows": max(1, records // 8), **_APPEND}
    config = _write_config(folder, "alone", settings)
    alone = remover(folder / "alone")
    programs = {
        OURS: _our_load(folder, feed, **settings),
        "reading": our_program("spool_only.py", "--config", config, feed=feed),
        "Spark": our_program(
            "commit_only.py", "--config", config, str(seconds), feed=feed, before=alone
        ),
    }
    costs: dict[str, list[float]] = {"load": [], "cpu": [], "reading": [], "Spark": []}
    for _ in range(rounds):
        load = run(programs[OURS])
        costs["load"].append(load.wall)
        costs["cpu"].append(load.cpu / (os.cpu_count() or 1))
        costs["reading"].append(run(programs["reading"]).wall)
        run(programs["Spark"])
        costs["Spark"].append(float(seconds.read_text()))
    medians = {name: median(figures) for name, figures in costs.items()}
    print(f"median seconds: {medians}", file=sys.stderr)
    slowest = max(medians["cpu"], medians["reading"], medians["Spark"])
    title = f"target, {records:,} records to Delta Lake, reading while Spark commits"
    compared_with = "the slower step alone, or the CPU time on all cores"
    yield Row(title, compared_with, medians["load"], slowest, "of theirs", 1.25, "wall s")


def _memory_row(runs: Runs) -> Row:
    memory = runs.rss / MEBIBYTE
    return Row("target's Python process, memory", "", memory, None, "value", MEMORY, "MiB")


def _write_streams(path: Path, count: int, records: int) -> None:
    sys.path.insert(0, str(PROGRAMS))
    import generator

    dump = partial(json.dumps, separators=(",", ":"))
    with path.open("w") as file:
        for number in range(count):
            name = f"stream_{number:03}"
            message: dict[str, Any] = {"type": "SCHEMA", "stream": name, "key_properties": []}
            file.write(dump({**message, "schema": generator.NARROW_SCHEMA}) + "\n")
            for record in generator.narrow(records):
                file.write(dump({"type": "RECORD", "stream": name, "record": record}) + "\n")
            file.write(dump({"type": "STATE", "value": {"bookmarks": {name: number}}}) + "\n")


def _check_streams(report: Path, tables: Path, records: int) -> None:
    """Check the number of rows in a run's report, and the number of tables."""
    document = json.loads(report.read_text())
    rows = sum(stream["written"] for stream in document["streams"].values())
    count = len(list(tables.glob("*/_delta_log")))
    if (rows, count) != (records // STREAMS * STREAMS, STREAMS):
        message = f"{rows} rows in {count} tables"
        raise AssertionError(message)


def _check_rows(folder: Path, case: str, expected: int) -> None:
    from deltalake import DeltaTable

    (log,) = (path for path in folder.rglob(f"{case}/_delta_log"))
    row_count = DeltaTable(log.parent).to_pyarrow_dataset().count_rows()
    if row_count != expected:
        message = f"{log.parent} has {row_count} rows instead of {expected}"
        raise AssertionError(message)


def _write_config(folder: Path, name: str, settings: dict[str, Any]) -> str:
    return write_json(folder / f"{name}.json", {"path": str(folder / name), **settings})


def _our_load(folder: Path, feed: Path, **settings: Any) -> Program:
    config = _write_config(folder, OURS, settings)
    return our_program("target.py", "--config", config, feed=feed, before=remover(folder / OURS))
