"""Benchmarks of Airbyte's protocol.

A source is compared with airbyte-cdk: the same generated records, streams and sync mode. The
destination is compared with the Singer command that loads the same records into an equal table.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench import checks
from tests.bench.measure import Program, run, run_in_turns
from tests.bench.programs import generator
from tests.bench.programs_under_test import our_program, peer_program, write_json
from tests.bench.table import Row

__all__ = ["read", "spec", "state", "write"]

CDK, SINGER = "airbyte-cdk", "the Singer command"
MEBIBYTE = 1 << 20
_SDK = {"BENCH_SDK": "tap_core"}


def spec(folder: Path, _records: int, rounds: int) -> Iterator[Row]:
    """`spec` of a small source, compared with airbyte-cdk."""
    programs = {
        "ours": our_program("small_tap.py", "spec", environment=_SDK),
        CDK: peer_program("airbyte_cdk", "airbyte_source.py", "spec"),
    }
    for name, setting in (("ours", "api_url"), (CDK, "records")):
        run(programs[name], folder / "spec")
        checks.check_setting(name, folder / "spec", setting)
    runs = run_in_turns(programs, rounds * 3)
    yield Row("source, spec", CDK, runs["ours"].cpu, runs[CDK].cpu, "of theirs", 0.2)


def read(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """A full refresh of 8 columns, compared with airbyte-cdk."""
    config = _write_config(folder, "narrow", records)
    catalog = _write_catalog(folder, "narrow", generator.NARROW_SCHEMA, "full_refresh")
    arguments = ("read", "--config", config, "--catalog", catalog)
    programs = {
        "ours": our_program("tap.py", *arguments, environment=_SDK),
        CDK: peer_program("airbyte_cdk", "airbyte_source.py", *arguments),
    }
    for name, program in programs.items():
        run(program, folder / "output")
        rows = checks.read_airbyte_records(folder / "output", "narrow")
        checks.compare_rows(name, rows, generator.narrow(records))
    runs = run_in_turns(programs, rounds)
    title = f"source, {records:,} records of 8 columns"
    yield Row(title, CDK, runs["ours"].cpu, runs[CDK].cpu, "times less", 3)


def state(folder: Path, records: int, _rounds: int) -> Iterator[Row]:
    """The bytes of states of partitions with ten records, compared with those of the records."""
    parts, output = records // 10, folder / "output"
    config = _write_config(folder, "partitioned", 10, parts)
    catalog = _write_catalog(folder, "partitioned", generator.PARTITION_SCHEMA, "incremental")
    run(
        our_program("tap.py", "read", "--config", config, "--catalog", catalog, environment=_SDK),
        output,
    )
    expected = (record for part in range(parts) for record in generator.partition(part, 10))
    checks.compare_rows("ours", checks.read_airbyte_records(output, "partitioned"), expected)
    *_, last = generator.narrow(10)
    is_complete = partial(_is_complete, parts=parts, bookmark=last["updated_at"])
    checks.check_stream_state("ours", output, "partitioned", is_complete)
    nbytes = checks.count_airbyte_bytes(output)
    sizes = nbytes["STATE"] / MEBIBYTE, nbytes["RECORD"] / MEBIBYTE
    title = f"source, {parts:,} partitions of 10, states"
    yield Row(title, "the records", *sizes, "of theirs", 1, "MiB")


def write(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """A load to Delta Lake with `write`, compared with the same load under Singer."""
    catalog = _write_catalog(folder, "narrow", generator.NARROW_SCHEMA, "full_refresh")
    source = ("--config", _write_config(folder, "narrow", records))
    feeds = {"ours": ("read", *source, "--catalog", catalog), SINGER: source}
    programs = {}
    for name, arguments in feeds.items():
        feed = folder / f"{name}.jsonl"
        run(our_program("tap.py", *arguments, environment=_SDK), feed)
        programs[name] = _load(folder, feed, name, catalog)
    for name, program in programs.items():
        run(program)
        run(peer_program("dlt", "check_delta.py", str(folder / name), "narrow", str(records)))
    runs = run_in_turns(programs, rounds)
    title = f"destination, {records:,} records to Delta Lake"
    yield Row(title, SINGER, runs["ours"].cpu, runs[SINGER].cpu, "of theirs", 1.15)
    own_cpu = runs["ours"].own_cpu, runs[SINGER].own_cpu
    yield Row(f"{title}, its Python process", SINGER, *own_cpu, "of theirs")


def _load(folder: Path, feed: Path, name: str, catalog: str) -> Program:
    tables = folder / name
    settings = {"path": str(tables), "format": "delta", "write_mode": "append"}
    command = ("write", "--catalog", catalog) if name == "ours" else ()
    return our_program(
        "target.py",
        *command,
        "--config",
        write_json(folder / f"{name}.json", settings),
        feed=feed,
        before=partial(shutil.rmtree, tables, ignore_errors=True),
    )


def _write_config(folder: Path, case: str, records: int, parts: int = 0) -> str:
    settings = {"case": case, "records": records, "parts": parts}
    return write_json(folder / f"{case}.json", settings)


def _write_catalog(folder: Path, name: str, schema: Mapping[str, Any], mode: str) -> str:
    stream = {
        "name": name,
        "json_schema": schema,
        "supported_sync_modes": ["full_refresh", "incremental"],
        "source_defined_cursor": True,
        "default_cursor_field": ["updated_at"],
    }
    configured = {
        "stream": stream,
        "sync_mode": mode,
        "cursor_field": ["updated_at"],
        "destination_sync_mode": "append",
    }
    return write_json(folder / "catalog.json", {"streams": [configured]})


def _is_complete(state: Any, parts: int, bookmark: str) -> bool:
    """Return True if a state has all partitions, each with the last bookmark."""
    entries = state["partitions"]
    has_all = len({json.dumps(entry["context"]) for entry in entries}) == parts
    return has_all and all(entry["replication_key_value"] == bookmark for entry in entries)
