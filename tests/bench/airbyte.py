"""Airbyte's protocol: our source beside airbyte-cdk, our destination beside our Singer target.

Both sources have the records of one generator and are asked for the same streams
in the same mode; both load the same records into the same kind of table.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench import checks
from tests.bench.measure import Program, in_turns, run
from tests.bench.places import ours, peer, written
from tests.bench.programs import made
from tests.bench.table import Row

__all__ = ["read", "spec", "state", "write"]

CDK, SINGER = "airbyte-cdk", "the Singer command"
MEBIBYTE = 1 << 20
_SDK = {"BENCH_SDK": "tap_core"}


def spec(folder: Path, _records: int, rounds: int) -> Iterator[Row]:
    """What `spec` of a small source costs: all of it is start-up."""
    programs = {
        "ours": ours("small_tap.py", "spec", environment=_SDK),
        CDK: peer("airbyte_cdk", "source.py", "spec"),
    }
    for name, setting in (("ours", "api_url"), (CDK, "records")):
        run(programs[name], folder / "spec")
        checks.has_setting(name, folder / "spec", setting)
    runs = in_turns(programs, rounds * 3)
    yield Row("source, spec", CDK, runs["ours"].cpu, runs[CDK].cpu, "of theirs", 0.2)


def read(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """Eight columns in a full refresh, to a pipe, start-up included."""
    config = _config(folder, "narrow", records)
    catalog = _catalog(folder, "narrow", made.NARROW_SCHEMA, "full_refresh")
    arguments = ("read", "--config", config, "--catalog", catalog)
    programs = {
        "ours": ours("tap.py", *arguments, environment=_SDK),
        CDK: peer("airbyte_cdk", "source.py", *arguments),
    }
    for name, program in programs.items():
        run(program, folder / "output")
        found = checks.airbyte_rows(folder / "output", "narrow")
        checks.same_rows(name, found, made.narrow(records))
    runs = in_turns(programs, rounds)
    what = f"source, {records:,} records of 8 columns"
    yield Row(what, CDK, runs["ours"].cpu, runs[CDK].cpu, "times less", 3)


def state(folder: Path, records: int, _rounds: int) -> Iterator[Row]:
    """How many bytes of state many small partitions of ten records write, beside the records."""
    parts, output = records // 10, folder / "output"
    config = _config(folder, "parted", 10, parts)
    catalog = _catalog(folder, "parted", made.PART_SCHEMA, "incremental")
    run(ours("tap.py", "read", "--config", config, "--catalog", catalog, environment=_SDK), output)
    wanted = (record for part in range(parts) for record in made.of_context(part, 10))
    checks.same_rows("ours", checks.airbyte_rows(output, "parted"), wanted)
    *_, newest = made.narrow(10)
    finished = partial(_are_finished, parts=parts, at=newest["updated_at"])
    checks.has_stream_state("ours", output, "parted", finished)
    sizes = checks.airbyte_sizes(output)
    of_states, of_records = (sizes[kind] / MEBIBYTE for kind in ("STATE", "RECORD"))
    what = f"source, {parts:,} partitions of 10, states"
    yield Row(what, "the records", of_states, of_records, "of theirs", 1, "MiB")


def write(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """A load to Delta Lake through `write`, beside the same records with the Singer command."""
    catalog = _catalog(folder, "narrow", made.NARROW_SCHEMA, "full_refresh")
    source = ("--config", _config(folder, "narrow", records))
    feeds = {"ours": ("read", *source, "--catalog", catalog), SINGER: source}
    programs = {}
    for name, arguments in feeds.items():
        feed = folder / f"{name}.jsonl"
        run(ours("tap.py", *arguments, environment=_SDK), feed)
        programs[name] = _load(folder, feed, name, catalog)
    for name, program in programs.items():
        run(program)
        run(peer("dlt", "read_delta.py", str(folder / name), "narrow", str(records)))
    runs = in_turns(programs, rounds)
    what = f"destination, {records:,} records to Delta Lake"
    yield Row(what, SINGER, runs["ours"].cpu, runs[SINGER].cpu, "of theirs", 1.15)
    mine, theirs = runs["ours"].own_cpu, runs[SINGER].own_cpu
    yield Row(f"{what}, its Python process", SINGER, mine, theirs, "of theirs")


def _load(folder: Path, feed: Path, name: str, catalog: str) -> Program:
    place = folder / name
    settings = {"path": str(place), "format": "delta", "write_mode": "append"}
    words = ("write", "--catalog", catalog) if name == "ours" else ()
    return ours(
        "target.py",
        *words,
        "--config",
        written(folder / f"{name}.json", settings),
        feed=feed,
        before=partial(shutil.rmtree, place, ignore_errors=True),
    )


def _config(folder: Path, case: str, records: int, parts: int = 0) -> str:
    settings = {"case": case, "records": records, "parts": parts}
    return written(folder / f"{case}.json", settings)


def _catalog(folder: Path, name: str, schema: Mapping[str, Any], mode: str) -> str:
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
    return written(folder / "catalog.json", {"streams": [configured]})


def _are_finished(found: Any, parts: int, at: str) -> bool:
    """Whether a state says of each partition that it is read to its end."""
    entries = found["partitions"]
    whole = len({json.dumps(entry["context"]) for entry in entries}) == parts
    return whole and all(entry["replication_key_value"] == at for entry in entries)
