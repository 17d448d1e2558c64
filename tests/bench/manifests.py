"""A manifest run by our command, and by airbyte-cdk's: the same file, the same server.

Both are Airbyte sources here, with the same settings and the same configured
catalog. Records are compared as sets, since the order of windows and parents is the program's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.bench import apis, checks
from tests.bench.measure import Program, in_turns, run
from tests.bench.places import ours, peer, written
from tests.bench.programs import made
from tests.bench.table import Row

__all__ = ["children", "partitions", "read", "spec"]

CDK, OURS = "airbyte-cdk", "ours"
MANIFESTS = Path(__file__).resolve().parent / "manifests"
MEBIBYTE = 1 << 20
_SMALLER = 4
"""How many times fewer partitions the other run has."""


def spec(folder: Path, _records: int, rounds: int) -> Iterator[Row]:
    """What `spec` costs; airbyte-cdk's answers without a look at the manifest."""
    programs = {
        OURS: ours("manifest.py", "spec", "--manifest", _manifest("readings")),
        CDK: peer("airbyte_cdk", "declarative.py", "spec"),
    }
    run(programs[OURS], folder / "spec")
    checks.has_setting(OURS, folder / "spec", "token")
    runs = in_turns(programs, rounds * 3)
    yield Row("manifest, spec", CDK, runs[OURS].cpu, runs[CDK].cpu, "of theirs", 0.3)


def read(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """37 windows of ten days, in pages of a hundred records."""
    rows = apis.records_between(records)
    with apis.readings(rows) as url:
        programs = _both(folder, url, "readings", made.NARROW_SCHEMA)
        empty = _both(folder, url, "readings", made.NARROW_SCHEMA, end=apis.START)
        for name, program in programs.items():
            _check(folder, name, program, "readings", rows)
        runs, starts = in_turns(programs, rounds), in_turns(empty, rounds)
    what = f"manifest, {records:,} records in 37 windows"
    cpu = {name: runs[name].cpu for name in programs}
    yield Row(what, CDK, cpu[OURS], cpu[CDK], "times less", 2)
    apart = {name: cpu[name] - starts[name].cpu for name in programs}
    yield Row(f"{what}, start-up apart", CDK, apart[OURS], apart[CDK], "times less", 1.5)


def children(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """A request and five records for each of so many parents."""
    wanted = [row for part in range(records) for row in apis.children(part)]
    with apis.families(records) as url:
        programs = _both(folder, url, "children", made.CHILD_SCHEMA)
        for name, program in programs.items():
            _check(folder, name, program, "children", wanted)
        runs = in_turns(programs, rounds)
    what = f"manifest, {records:,} parents with {apis.CHILDREN} children"
    yield Row(what, CDK, runs[OURS].cpu, runs[CDK].cpu, "times less", 3)


def partitions(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """So many partitions through a substream with a cursor: time and state grow with them."""
    cpu: dict[int, float] = {}
    for count in (0, records // _SMALLER, records):
        with apis.families(count) as url:
            program = _ours(folder, url, "children", made.CHILD_SCHEMA)
            wanted = [row for part in range(count) for row in apis.children(part)]
            _check(folder, OURS, program, "children", wanted)
            cpu[count] = in_turns({OURS: program}, rounds)[OURS].cpu
    start, few, all_of_them = cpu.values()
    what = f"manifest, {records:,} partitions"
    beside = f"{_SMALLER} times {records // _SMALLER:,}"
    times = all_of_them - start, (few - start) * _SMALLER
    yield Row(f"{what}, start-up apart", beside, *times, "of theirs", 1.2)
    sizes = checks.airbyte_sizes(folder / "output")
    states, of_records = (sizes[kind] / MEBIBYTE for kind in ("STATE", "RECORD"))
    yield Row(f"{what}, states", "the records", states, of_records, "of theirs", 1, "MiB")


def _check(
    folder: Path, name: str, program: Program, stream: str, wanted: Iterable[Mapping[str, Any]]
) -> None:
    """Run a program once, and compare what it reads with what there is."""
    output = folder / "output"
    run(program, output)
    found = checks.airbyte_rows(output, stream)
    checks.same_rows(name, sorted(found, key=_place), sorted(wanted, key=_place))


def _place(row: Mapping[str, Any]) -> tuple[int, int]:
    return row.get("part", 0), row["id"]


def _both(folder: Path, url: str, stream: str, schema: Any, **settings: Any) -> dict[str, Program]:
    arguments = _arguments(folder, url, stream, schema, **settings)
    return {
        OURS: ours("manifest.py", "read", "--manifest", _manifest(stream), *arguments),
        CDK: peer(
            "airbyte_cdk",
            "declarative.py",
            "read",
            "--manifest-path",
            _manifest(stream),
            *arguments,
        ),
    }


def _ours(folder: Path, url: str, stream: str, schema: Any) -> Program:
    arguments = _arguments(folder, url, stream, schema)
    return ours("manifest.py", "read", "--manifest", _manifest(stream), *arguments)


def _arguments(
    folder: Path, url: str, stream: str, schema: Any, **settings: Any
) -> tuple[str, str, str, str]:
    given = {"url": url, "token": "t-1", "start": apis.START, "end": apis.END, **settings}
    config = written(folder / f"config-{given['end'][:10]}.json", given)
    described = {
        "name": stream,
        "json_schema": schema,
        "supported_sync_modes": ["full_refresh", "incremental"],
        "source_defined_cursor": True,
        "default_cursor_field": ["updated_at"],
    }
    configured = {
        "stream": described,
        "sync_mode": "incremental",
        "cursor_field": ["updated_at"],
        "destination_sync_mode": "append",
    }
    catalog = written(folder / "catalog.json", {"streams": [configured]})
    return ("--config", config, "--catalog", catalog)


def _manifest(stream: str) -> str:
    return str(MANIFESTS / f"{stream}.yaml")
