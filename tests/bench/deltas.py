"""The target to Delta Lake: beside other loaders, beside Spark by hand, and beside its own parts.

Peers that write Delta are read back with deltalake, and so are we.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.loads import SINGER, check_delta, dlt, remover, singer, tap_output
from tests.bench.measure import Program, Runs, in_turns, run
from tests.bench.places import PROGRAMS, ours, written
from tests.bench.table import Row

__all__ = ["appends", "narrow", "overlap", "streams", "upsert", "wide"]

MEBIBYTE = 1 << 20
MEMORY = 150
OURS, DLT, BY_HAND = "ours", "dlt to Delta", "a loop by hand"
STREAMS = 200
_APPEND = {"format": "delta", "write_mode": "append"}
VERSIONS = 12
DLT_LIMITS = {"narrow": (0.5, 0.35), "nested": (0.5, 0.35)}
"""Highest ratios of our CPU time and of our elapsed time to dlt's, by case."""


def narrow(folder: Path, records: int, rounds: int, *, scaled_from: int = 0) -> Iterator[Row]:
    """A load to Delta Lake of 8 columns, flat and with an object; peers' figures may be scaled."""
    yield from _beside_loaders("narrow", "8 columns", folder, records, rounds, scaled_from)
    what = "8 columns, one an object with an object in it,"
    yield from _beside_loaders("nested", what, folder, records, rounds, scaled_from)


def wide(folder: Path, records: int, rounds: int, *, scaled_from: int = 0) -> Iterator[Row]:
    """A load to Delta Lake of 60 columns; the peers' figures may be scaled from shorter ones."""
    yield from _beside_loaders("wide", "60 columns", folder, records, rounds, scaled_from)


def _beside_loaders(
    case: str, columns: str, folder: Path, records: int, rounds: int, scaled_from: int
) -> Iterator[Row]:
    theirs = scaled_from or records
    feed, their_feed = tap_output(folder, case, records), tap_output(folder, case, theirs)
    programs = {
        OURS: _ours(folder, feed, **_APPEND),
        SINGER: singer(folder, their_feed),
        DLT: dlt(folder, their_feed, case, "delta"),
    }
    run(programs[OURS])
    check_delta(folder / OURS, case, records)
    run(programs[DLT])
    check_delta(folder / "dlt", case, theirs)
    runs, factor = in_turns(programs, rounds), records / theirs
    what = f"target, {records:,} records of {columns} to Delta Lake"
    for name, wanted, wanted_wall in ((SINGER, 1 / 3, 1), (DLT, *DLT_LIMITS.get(case, (0.625, 1)))):
        beside = f"{name}, scaled from {theirs:,}" if scaled_from else name
        cpu, wall = runs[name].cpu * factor, runs[name].wall * factor
        yield Row(what, beside, runs[OURS].cpu, cpu, "of theirs", round(wanted, 3))
        yield Row(what, beside, runs[OURS].wall, wall, "of theirs", wanted_wall, "wall s")
    yield _memory(runs[OURS])


def appends(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """Loads into Delta tables that have twelve versions: beside dlt, and beside a new table."""
    layouts: dict[str, dict[str, Any]] = {
        "plain": {},
        "partitioned": {"partition_by": ["active"]},
        "clustered": {"cluster_by": ["id"]},
    }
    yield from _into_versions(folder, "narrow", layouts, records, rounds)
    yield from _into_versions(folder, "nested", {"plain": {}}, records, rounds)


def _into_versions(
    folder: Path, case: str, layouts: Mapping[str, dict[str, Any]], records: int, rounds: int
) -> Iterator[Row]:
    feed = tap_output(folder, case, records)
    programs = {"new": _ours(folder, feed, **_APPEND)}
    for layout, settings in layouts.items():
        programs[layout] = _into_our_versions(folder, case, layout, settings, feed)
    programs[DLT] = _into_dlt_versions(folder, case, feed)
    runs = in_turns(programs, rounds)
    for name in (*layouts, "dlt"):
        _check_rows(folder / name, case, records + VERSIONS * 100)
    what = f"target, {records:,} records into a Delta table of {VERSIONS} versions"
    what += ", one column an object with an object in it" if case == "nested" else ""
    cpu, wall = DLT_LIMITS[case]
    plain, new, dlt = runs["plain"], runs["new"], runs[DLT]
    yield Row(f"{what}, plain", DLT, plain.cpu, dlt.cpu, "of theirs", cpu)
    yield Row(f"{what}, plain", DLT, plain.wall, dlt.wall, "of theirs", wall, "wall s")
    yield Row(f"{what}, plain", "a new table", plain.cpu, new.cpu, "of theirs", 1.1)
    for layout in (name for name in layouts if name != "plain"):
        yield Row(f"{what}, {layout}", DLT, runs[layout].cpu, dlt.cpu, "of theirs")


def _into_our_versions(
    folder: Path, case: str, layout: str, settings: Mapping[str, Any], feed: Path
) -> Program:
    """Make a table of ours with twelve versions, and return the load into a copy of it."""
    place, start = folder / layout, folder / f"{layout}-{case}-before"
    little = tap_output(folder, case, VERSIONS * 100)
    small_commits = _config(folder, layout, {**_APPEND, **settings, "flush_rows": 100})
    remover(place)()
    run(ours("target.py", "--config", small_commits, feed=little))
    place.rename(start)
    config = _config(folder, layout, {**_APPEND, **settings})
    return ours("target.py", "--config", config, feed=feed, before=partial(_copy, start, place))


def _into_dlt_versions(folder: Path, case: str, feed: Path) -> Program:
    """Make a table of dlt's with twelve versions, and return the load into a copy of it."""
    place, start, few = folder / "dlt", folder / f"dlt-{case}-before", tap_output(folder, case, 100)
    remover(place)()
    for _ in range(VERSIONS):
        run(dlt(folder, few, case, "delta", is_new=False))
    place.rename(start)
    return replace(dlt(folder, feed, case, "delta"), before=partial(_copy, start, place))


def streams(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """Two hundred small streams into as many new tables, beside a loop over them in one Spark."""
    feed = folder / "streams"
    _write_streams(feed, STREAMS, records // STREAMS)
    report = folder / "report.json"
    place = folder / "by-hand"
    programs = {
        OURS: _ours(folder, feed, report=str(report), **_APPEND),
        BY_HAND: ours("hand_loop.py", str(place), feed=feed, before=remover(place)),
    }
    runs = in_turns(programs, rounds)
    _check_streams(report, folder / OURS, records)
    what = f"target, {STREAMS} streams of {records // STREAMS} records to new Delta tables"
    yield Row(what, BY_HAND, runs[OURS].wall, runs[BY_HAND].wall, "of theirs", 0.6, "wall s")
    yield Row(what, BY_HAND, runs[OURS].cpu, runs[BY_HAND].cpu, "of theirs")
    told = json.loads(report.read_text())
    idle = 100 * told["held_back_seconds"] / told["seconds"]
    yield Row("the same, the reader held back", "", idle, None, "below", 5, "% of the time")
    yield _memory(runs[OURS])


def upsert(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """Rows into a table of ten times as many, beside a MERGE by hand in the same Spark."""
    said = folder / "upsert.json"
    table = str(folder / "tables")
    run(ours("upsert.py", table, str(records * 10), str(records), str(rounds)), said)
    costs = json.loads(said.read_text())
    what = f"target, upsert of {records:,} rows into {records * 10:,}"
    for unit, wanted in (("cpu", None), ("wall", 1.3)):
        mine, theirs = (median(cost[unit] for cost in costs[who]) for who in ("ours", "by hand"))
        shown = {"cpu": "CPU s", "wall": "wall s"}[unit]
        yield Row(what, "a MERGE by hand", mine, theirs, "of theirs", wanted, shown)


def overlap(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """Reading beside Spark's work: the whole, and each of the two alone."""
    feed = tap_output(folder, "narrow", records)
    seconds = folder / "seconds"
    settings = {"flush_rows": max(1, records // 8), **_APPEND}
    config = _config(folder, "alone", settings)
    alone = remover(folder / "alone")
    programs = {
        OURS: _ours(folder, feed, **settings),
        "reading": ours("spool_only.py", "--config", config, feed=feed),
        "Spark": ours("spark_only.py", "--config", config, str(seconds), feed=feed, before=alone),
    }
    costs: dict[str, list[float]] = {"whole": [], "cpu": [], "reading": [], "Spark": []}
    for _ in range(rounds):
        whole = run(programs[OURS])
        costs["whole"].append(whole.wall)
        costs["cpu"].append(whole.cpu / (os.cpu_count() or 1))
        costs["reading"].append(run(programs["reading"]).wall)
        run(programs["Spark"])
        costs["Spark"].append(float(seconds.read_text()))
    found = {name: median(figures) for name, figures in costs.items()}
    print(f"alone, in seconds: {found}", file=sys.stderr)
    least = max(found["cpu"], found["reading"], found["Spark"])
    what = f"target, {records:,} records to Delta Lake, reading beside Spark's work"
    beside = "the slower alone, or all CPU on all cores"
    yield Row(what, beside, found["whole"], least, "of theirs", 1.25, "wall s")


def _memory(runs: Runs) -> Row:
    memory = runs.rss / MEBIBYTE
    return Row("target's Python process, memory", "", memory, None, "below", MEMORY, "MiB")


def _write_streams(path: Path, count: int, records: int) -> None:
    sys.path.insert(0, str(PROGRAMS))
    import made

    dump = partial(json.dumps, separators=(",", ":"))
    with path.open("w") as file:
        for number in range(count):
            name = f"stream_{number:03}"
            said: dict[str, Any] = {"type": "SCHEMA", "stream": name, "key_properties": []}
            file.write(dump({**said, "schema": made.NARROW_SCHEMA}) + "\n")
            for record in made.narrow(records):
                file.write(dump({"type": "RECORD", "stream": name, "record": record}) + "\n")
            file.write(dump({"type": "STATE", "value": {"bookmarks": {name: number}}}) + "\n")


def _check_streams(report: Path, tables: Path, records: int) -> None:
    told = json.loads(report.read_text())
    written_rows = sum(stream["written"] for stream in told["streams"].values())
    found = len(list(tables.glob("*/_delta_log")))
    if (written_rows, found) != (records // STREAMS * STREAMS, STREAMS):
        message = f"{written_rows} rows in {found} tables"
        raise AssertionError(message)


def _check_rows(folder: Path, case: str, expected: int) -> None:
    from deltalake import DeltaTable

    (log,) = (path for path in folder.rglob(f"{case}/_delta_log"))
    found = DeltaTable(log.parent).to_pyarrow_dataset().count_rows()
    if found != expected:
        message = f"{log.parent} has {found} rows instead of {expected}"
        raise AssertionError(message)


def _config(folder: Path, name: str, settings: dict[str, Any]) -> str:
    return written(folder / f"{name}.json", {"path": str(folder / name), **settings})


def _ours(folder: Path, feed: Path, **settings: Any) -> Program:
    config = _config(folder, OURS, settings)
    return ours("target.py", "--config", config, feed=feed, before=remover(folder / OURS))


def _copy(start: Path, place: Path) -> None:
    remover(place)()
    shutil.copytree(start, place)
