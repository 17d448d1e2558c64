"""Benchmarks of manifests, compared with airbyte-cdk.

Both programs run the same manifest as an Airbyte source, with the same settings, configured catalog
and server. The records are sorted before they are compared with those of the server, because each
program chooses the order of date ranges and parents.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.bench import api_servers, checks
from tests.bench.measure import Program, run, run_in_turns
from tests.bench.programs import generator
from tests.bench.programs_under_test import our_program, peer_program, write_json
from tests.bench.table import Row

__all__ = ["children", "partitions", "read", "spec"]

CDK, OURS = "airbyte-cdk", "ours"
MANIFESTS = Path(__file__).resolve().parent / "manifests"
MEBIBYTE = 1 << 20
_PARTITION_RATIO = 4
"""The larger run has this many times the partitions of the smaller one."""


def spec(folder: Path, _records: int, rounds: int) -> Iterator[Row]:
    """`spec` of a manifest, compared with airbyte-cdk, which does not read the manifest for it."""
    programs = {
        OURS: our_program("manifest.py", "spec", "--manifest", _manifest_path("readings")),
        CDK: peer_program("airbyte_cdk", "airbyte_manifest.py", "spec"),
    }
    run(programs[OURS], folder / "spec")
    checks.check_setting(OURS, folder / "spec", "token")
    runs = run_in_turns(programs, rounds * 3)
    yield Row("manifest, spec", CDK, runs[OURS].cpu, runs[CDK].cpu, "of theirs", 0.3)


def read(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """A manifest with 37 date ranges of ten days, in pages of a hundred records."""
    readings = api_servers.make_readings(records)
    with api_servers.serve_readings(readings) as url:
        programs = _make_both_programs(folder, url, "readings", generator.NARROW_SCHEMA)
        empty_programs = _make_both_programs(
            folder, url, "readings", generator.NARROW_SCHEMA, end=api_servers.START
        )
        for name, program in programs.items():
            _check_records(folder, name, program, "readings", readings)
        runs, empty_runs = run_in_turns(programs, rounds), run_in_turns(empty_programs, rounds)
    title = f"manifest, {records:,} records in 37 windows"
    cpu = {name: runs[name].cpu for name in programs}
    yield Row(title, CDK, cpu[OURS], cpu[CDK], "times less", 2)
    net = {name: cpu[name] - empty_runs[name].cpu for name in programs}
    yield Row(f"{title}, without start-up", CDK, net[OURS], net[CDK], "times less", 1.5)


def children(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """A manifest with a request and five records for each parent."""
    expected = [row for part in range(records) for row in api_servers.child_records(part)]
    with api_servers.serve_parents(records) as url:
        programs = _make_both_programs(folder, url, "children", generator.CHILD_SCHEMA)
        for name, program in programs.items():
            _check_records(folder, name, program, "children", expected)
        runs = run_in_turns(programs, rounds)
    title = f"manifest, {records:,} parents with {api_servers.CHILDREN} children"
    yield Row(title, CDK, runs[OURS].cpu, runs[CDK].cpu, "times less", 3)


def partitions(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """A substream with a cursor: the growth of CPU time and states with the number of parents."""
    cpu: dict[int, float] = {}
    for count in (0, records // _PARTITION_RATIO, records):
        with api_servers.serve_parents(count) as url:
            program = _make_our_program(folder, url, "children", generator.CHILD_SCHEMA)
            expected = [row for part in range(count) for row in api_servers.child_records(part)]
            _check_records(folder, OURS, program, "children", expected)
            cpu[count] = run_in_turns({OURS: program}, rounds)[OURS].cpu
    start, few, many = cpu.values()
    title = f"manifest, {records:,} partitions"
    smaller = f"{_PARTITION_RATIO} times {records // _PARTITION_RATIO:,}"
    cpu_seconds = many - start, (few - start) * _PARTITION_RATIO
    yield Row(f"{title}, without start-up", smaller, *cpu_seconds, "of theirs", 1.2)
    nbytes = checks.count_airbyte_bytes(folder / "output")
    sizes = nbytes["STATE"] / MEBIBYTE, nbytes["RECORD"] / MEBIBYTE
    yield Row(f"{title}, states", "the records", *sizes, "of theirs", 1, "MiB")


def _check_records(
    folder: Path, name: str, program: Program, stream: str, expected: Iterable[Mapping[str, Any]]
) -> None:
    """Run a program once, and compare its records with those of the server."""
    output = folder / "output"
    run(program, output)
    rows = checks.read_airbyte_records(output, stream)
    checks.compare_rows(name, sorted(rows, key=_get_sort_key), sorted(expected, key=_get_sort_key))


def _get_sort_key(row: Mapping[str, Any]) -> tuple[int, int]:
    return row.get("part", 0), row["id"]


def _make_both_programs(
    folder: Path, url: str, stream: str, schema: Any, **settings: Any
) -> dict[str, Program]:
    arguments = _write_arguments(folder, url, stream, schema, **settings)
    return {
        OURS: our_program("manifest.py", "read", "--manifest", _manifest_path(stream), *arguments),
        CDK: peer_program(
            "airbyte_cdk",
            "airbyte_manifest.py",
            "read",
            "--manifest-path",
            _manifest_path(stream),
            *arguments,
        ),
    }


def _make_our_program(folder: Path, url: str, stream: str, schema: Any) -> Program:
    arguments = _write_arguments(folder, url, stream, schema)
    return our_program("manifest.py", "read", "--manifest", _manifest_path(stream), *arguments)


def _write_arguments(
    folder: Path, url: str, stream: str, schema: Any, **settings: Any
) -> tuple[str, str, str, str]:
    config_document = {
        "url": url,
        "token": "t-1",
        "start": api_servers.START,
        "end": api_servers.END,
        **settings,
    }
    config = write_json(folder / f"config-{config_document['end'][:10]}.json", config_document)
    description = {
        "name": stream,
        "json_schema": schema,
        "supported_sync_modes": ["full_refresh", "incremental"],
        "source_defined_cursor": True,
        "default_cursor_field": ["updated_at"],
    }
    configured_stream = {
        "stream": description,
        "sync_mode": "incremental",
        "cursor_field": ["updated_at"],
        "destination_sync_mode": "append",
    }
    catalog = write_json(folder / "catalog.json", {"streams": [configured_stream]})
    return ("--config", config, "--catalog", catalog)


def _manifest_path(stream: str) -> str:
    return str(MANIFESTS / f"{stream}.yaml")
