"""Benchmarks of loads of a few rows into existing tables. Nearly all of their cost is fixed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench.loads import replace_folder
from tests.bench.measure import Program, run, run_in_turns
from tests.bench.programs_under_test import PROGRAMS, our_program, peer_program, write_json
from tests.bench.table import Row

__all__ = [
    "DELTA_RS",
    "DLT",
    "OURS",
    "check_rows",
    "dlt_upsert",
    "load_first",
    "our_target",
    "upserts",
    "write_streams",
]

STREAMS = 5
OURS, SMALL_RUNS, DELTA_RS, DLT = "ours", "ours, small_runs", "ours, delta-rs", "dlt to Delta"
BARE, BARE_SMALL_RUNS = "a bare Spark script", "a bare Spark script, small_runs"
_COMPARED = ("id", "name", "amount", "active", "quantity")


def upserts(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """Five streams upserted into five existing Delta tables by a cold start.

    The loads are compared with dlt, and with a bare script that starts the same Spark and runs five
    MERGEs. Half of the rows replace rows of the table, and half are new.
    """
    first, second = folder / "first", folder / "second"
    write_streams(first, STREAMS, 0, records)
    write_streams(second, STREAMS, records // 2, records)
    subfolders = {
        OURS: "ours",
        SMALL_RUNS: "small",
        DELTA_RS: "delta-rs",
        DLT: "dlt",
        BARE: "bare",
        BARE_SMALL_RUNS: "bare-small",
    }
    folders = {name: folder / subfolder for name, subfolder in subfolders.items()}
    programs = {
        OURS: our_target(folders[OURS]),
        SMALL_RUNS: our_target(folders[SMALL_RUNS], small_runs=True),
        DELTA_RS: our_target(folders[DELTA_RS], small_batches="delta-rs"),
        DLT: dlt_upsert(folders[DLT]),
        BARE: our_program("spark_upsert.py", str(folders[BARE])),
        BARE_SMALL_RUNS: our_program(
            "spark_upsert.py", str(folders[BARE_SMALL_RUNS]), "small_runs"
        ),
    }
    for name, tables in folders.items():
        programs[name] = load_first(programs[name], tables, first, second)
    runs = run_in_turns(programs, rounds)
    for tables in folders.values():
        check_rows(tables, STREAMS, records)
    prefix = f"target, {STREAMS} x {records} rows upserted into existing Delta tables"
    for name, variant, cpu, wall in (
        (OURS, "cold Spark", 12, 4),
        (SMALL_RUNS, "cold Spark, small_runs", 12, 4),
        (DELTA_RS, "small_batches: delta-rs", 1.3, 1),
    ):
        title = f"{prefix}, {variant}"
        yield Row(title, DLT, runs[name].cpu, runs[DLT].cpu, "of theirs", cpu)
        yield Row(title, DLT, runs[name].wall, runs[DLT].wall, "of theirs", wall, "wall s")
    for name, bare, variant in (
        (OURS, BARE, "cold Spark"),
        (SMALL_RUNS, BARE_SMALL_RUNS, "cold Spark, small_runs"),
    ):
        title = f"{prefix}, {variant}"
        yield Row(title, bare, runs[name].cpu, runs[bare].cpu, "of theirs")
        yield Row(title, bare, runs[name].wall, runs[bare].wall, "of theirs", unit="wall s")


def our_target(tables: Path, **settings: Any) -> Program:
    """Return target-spark with these settings and the tables below a folder."""
    config = write_json(
        tables.with_suffix(".json"), {"path": str(tables), "job": "bench", **settings}
    )
    return our_program("target.py", "--config", config)


def dlt_upsert(tables: Path) -> Program:
    """Return dlt's upsert of its input into the Delta tables below a folder."""
    environment = {"RUNTIME__DLTHUB_TELEMETRY": "false"}
    return peer_program("dlt", "dlt_upsert.py", str(tables), environment=environment)


def load_first(program: Program, tables: Path, first: Path, second: Path) -> Program:
    """Load ``first`` into the tables below ``tables``; return the load of ``second`` into them.

    Before each run of the returned program the tables are reset to the state of the first load.
    """
    run(replace(program, feed=first))
    source = tables.rename(tables.with_name(f"{tables.name}-before"))
    return replace(program, feed=second, before=partial(replace_folder, source, tables))


def _make_rows(start: int, records: int) -> Iterator[dict[str, Any]]:
    """Yield the records with keys from ``start`` on. Their names contain the number of the load."""
    sys.path.insert(0, str(PROGRAMS))
    import generator

    for record in generator.narrow(start + records):
        if record["id"] >= start:
            yield {**record, "name": f"{record['name']} of load {start}"}


def write_streams(path: Path, streams: int, start: int, records: int) -> None:
    """Write the Singer messages of one load, with keys from ``start`` on in each stream."""
    sys.path.insert(0, str(PROGRAMS))
    import generator

    with path.open("w") as file:
        for number in range(streams):
            stream = {"stream": f"stream_{number}"}
            schema = {"schema": generator.NARROW_SCHEMA, "key_properties": ["id"]}
            file.write(json.dumps({"type": "SCHEMA", **stream, **schema}) + "\n")
            for record in _make_rows(start, records):
                file.write(json.dumps({"type": "RECORD", **stream, "record": record}) + "\n")
        file.write(json.dumps({"type": "STATE", "value": {"bookmarks": {"at": start}}}) + "\n")


def check_rows(tables: Path, streams: int, records: int) -> None:
    """Compare each table below a folder, row by row, with the rows of both loads."""
    from deltalake import DeltaTable

    records_of_both_loads = (*_make_rows(0, records), *_make_rows(records // 2, records))
    expected = {record["id"]: _values(record) for record in records_of_both_loads}
    logs = [log for log in tables.rglob("stream_*/_delta_log") if log.is_dir()]
    if len(logs) != streams:
        message = f"{tables} has {len(logs)} tables instead of {streams}"
        raise AssertionError(message)
    for log in logs:
        table = DeltaTable(log.parent).to_pyarrow_table(columns=list(_COMPARED))
        actual = {row["id"]: _values(row) for row in table.to_pylist()}
        if actual != expected or table.num_rows != len(expected):
            message = f"{log.parent} has other rows than the loads"
            raise AssertionError(message)


def _values(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in _COMPARED)
