"""Benchmarks of taps, compared with other SDKs: records, stream maps, partitions and start-up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import md5
from itertools import islice
from pathlib import Path
from typing import Any

from tests.bench import checks
from tests.bench.measure import Program, Runs, run, run_in_turns
from tests.bench.programs import generator
from tests.bench.programs_under_test import bare_program, our_program, peer_program, write_json
from tests.bench.table import Row

__all__ = ["children", "discover", "hooks", "maps", "narrow", "nested", "partitions", "wide"]

MEBIBYTE = 1 << 20
SINGER, MSGSPEC, AIRBYTE = "singer_sdk", "singer_sdk, msgspec writer", "airbyte-cdk"
BARE = "bare msgspec loop"


def narrow(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """A sorted incremental tap with 8 columns, compared with other SDKs and a bare loop."""
    config = _write_config(folder, "narrow", records)
    programs = {
        "ours": _our_tap(config),
        BARE: bare_program("bare_tap.py", "narrow", str(records)),
        SINGER: _singer_tap(config),
        MSGSPEC: _singer_tap(config, BENCH_WRITER="msgspec"),
        AIRBYTE: _airbyte_source(folder, config),
    }
    readers: dict[str, Callable[[Path], Any]] = {
        name: lambda path: checks.read_singer_records(path, "narrow") for name in programs
    }
    readers[AIRBYTE] = lambda path: checks.read_airbyte_records(path, "narrow")
    for name, program in programs.items():
        output = folder / "output"
        run(program, output)
        checks.compare_rows(name, readers[name](output), generator.narrow(records))
    runs = run_in_turns(programs, rounds)
    title = f"tap, {records:,} records of 8 columns"
    yield _compare_cpu(title, SINGER, runs, 12)
    yield _compare_cpu(title, MSGSPEC, runs, 8)
    yield _compare_cpu(title, AIRBYTE, runs, 3)
    yield Row(title, BARE, runs["ours"].cpu, runs[BARE].cpu, "of theirs", 2.2)
    yield Row(
        "tap, memory",
        SINGER,
        runs["ours"].rss / MEBIBYTE,
        runs[SINGER].rss / MEBIBYTE,
        "of theirs",
        1,
        "MiB",
    )


def nested(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """Benchmark of a tap in whose records one column is a nested object."""
    config = _write_config(folder, "nested", records)
    programs = {
        "ours": _our_tap(config),
        BARE: bare_program("bare_tap.py", "nested", str(records)),
        SINGER: _singer_tap(config),
    }
    for name, program in programs.items():
        output = folder / "output"
        run(program, output)
        checks.compare_rows(
            name, checks.read_singer_records(output, "nested"), generator.nested(records)
        )
    runs = run_in_turns(programs, rounds)
    title = f"tap, {records:,} records of 8 columns, nested objects in one"
    yield _compare_cpu(title, SINGER, runs, 15)
    yield Row(title, BARE, runs["ours"].cpu, runs[BARE].cpu, "of theirs", 1.7)


def hooks(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """The narrow tap with overrides of singer_sdk's hooks, which call the overridden method."""
    limits = {
        "_write_state_message": ("state-hook", 5),
        "_process_record": ("record-hook", 2.5),
        "_increment_stream_state": ("bookmark-hook", 1.5),
        "_generate_record_messages": ("message-hook", 1),
    }
    for hook, (stream, limit) in limits.items():
        config = _write_config(folder, stream, records)
        programs = {"ours": _our_tap(config), SINGER: _singer_tap(config)}
        for name, program in programs.items():
            output = folder / "output"
            run(program, output)
            checks.compare_rows(
                name, checks.read_singer_records(output, stream), generator.narrow(records)
            )
        runs = run_in_turns(programs, rounds)
        yield _compare_cpu(f"tap that overrides {hook}, {records:,} records", SINGER, runs, limit)


def wide(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """A tap with 60 columns, eight of them nested objects: all selected, and a fifth deselected."""
    config = _write_config(folder, "wide", records)
    for selection, deselected in (("", ()), (", a fifth deselected", generator.DESELECTED)):
        document = generator.catalog("wide", generator.WIDE_SCHEMA, deselected)
        catalog = write_json(folder / "catalog.json", document)
        programs = {
            "ours": _our_tap(config, "--catalog", catalog),
            SINGER: _singer_tap(config, "--catalog", catalog),
        }
        for name, program in programs.items():
            output = folder / "output"
            run(program, output)
            rows = checks.read_singer_records(output, "wide")
            checks.compare_rows(name, rows, _drop_fields(generator.wide(records), deselected))
        runs = run_in_turns(programs, rounds)
        title = f"tap, {records:,} records of 60 columns{selection}"
        yield _compare_cpu(title, SINGER, runs, 10)


def maps(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """A stream map with a filter and three expressions."""
    expressions = {
        "__filter__": "quantity > 10",
        "name": "name.upper()",
        "total": "amount * quantity",
        "email": "md5(email)",
    }
    settings = {"case": "narrow", "records": records, "stream_maps": {"narrow": expressions}}
    config = write_json(folder / "mapped.json", settings)
    programs = {"ours": _our_tap(config), SINGER: _singer_tap(config)}
    for name, program in programs.items():
        output = folder / "output"
        run(program, output)
        rows = checks.read_singer_records(output, "narrow")
        checks.compare_rows(name, rows, _map_records(records))
    runs = run_in_turns(programs, rounds)
    title = f"tap, {records:,} records, a filter and three expressions"
    yield _compare_cpu(title, SINGER, runs, 3)


def _map_records(records: int) -> Iterator[dict[str, Any]]:
    """Yield the records that the stream map must return."""
    for record in generator.narrow(records):
        if record["quantity"] > 10:
            yield {
                **record,
                "name": record["name"].upper(),
                "total": record["amount"] * record["quantity"],
                "email": md5(record["email"].encode(), usedforsecurity=False).hexdigest(),
            }


def partitions(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """Many small partitions, compared with one large partition and with a tenth as many."""
    many, few = records // 10, records // 100
    programs = {
        "many": _our_tap(_write_config(folder, "partitioned", 10, many)),
        "few": _our_tap(_write_config(folder, "partitioned", 10, few)),
        "one": _our_tap(_write_config(folder, "partitioned", records, 1)),
        "empty": _our_tap(_write_config(folder, "partitioned", 0, 1)),
    }
    _check_partitions(programs["many"], folder, "partitioned", many, 10)
    _check_partitions(programs["one"], folder, "partitioned", 1, records)
    runs = run_in_turns(programs, rounds)
    start = runs["empty"].cpu
    many_cpu, few_cpu, one_cpu = (runs[name].cpu for name in ("many", "few", "one"))
    title = f"tap, {many:,} partitions of 10"
    yield Row(title, f"one partition of {records:,}", many_cpu, one_cpu, "of theirs", 2.5)
    title += ", without start-up"
    net = many_cpu - start
    yield Row(title, f"one of {records:,}", net, one_cpu - start, "of theirs")
    yield Row(title, f"{few:,} of 10", net, few_cpu - start, "of theirs", 11)


def children(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """Parents with ten children each, compared with fewer parents and with singer_sdk."""
    few, many = records // 200, 3 * records // 200
    programs = {
        "ours": _our_tap(_write_config(folder, "children", 10, few)),
        "many": _our_tap(_write_config(folder, "children", 10, many)),
        "empty": _our_tap(_write_config(folder, "children", 0, 0)),
        SINGER: _singer_tap(_write_config(folder, "children", 10, few)),
    }
    for name, parents in (("ours", few), ("many", many), (SINGER, few)):
        _check_partitions(programs[name], folder, "child", parents, 10)
    runs = run_in_turns(programs, rounds)
    start = runs["empty"].cpu
    few_cpu, many_cpu = runs["ours"].cpu, runs["many"].cpu
    title, fewer = f"tap, {many:,} parents with 10 children", f"{few:,} parents"
    yield Row(title, fewer, many_cpu, few_cpu, "of theirs", 3.3)
    net = many_cpu - start, few_cpu - start
    yield Row(f"{title}, without start-up", fewer, *net, "of theirs")
    yield _compare_cpu(f"tap, {few:,} parents with 10 children", SINGER, runs, 8)


def discover(_folder: Path, _records: int, rounds: int) -> Iterator[Row]:
    """`--discover` and `--help` of a small tap, compared with singer_sdk."""
    for flag, limit in (("--discover", 0.4), ("--help", 0.4)):
        programs = {
            "ours": our_program("small_tap.py", flag, environment={"BENCH_SDK": "tap_core"}),
            SINGER: peer_program(
                SINGER, "small_tap.py", flag, environment={"BENCH_SDK": "singer_sdk"}
            ),
        }
        for program in programs.values():
            run(program)
        runs = run_in_turns(programs, rounds * 3)
        cpu = runs["ours"].cpu, runs[SINGER].cpu
        yield Row(f"small tap, {flag}", SINGER, *cpu, "of theirs", limit)


def _our_tap(config: str, *arguments: str) -> Program:
    environment = {"BENCH_SDK": "tap_core"}
    return our_program("tap.py", "--config", config, *arguments, environment=environment)


def _singer_tap(config: str, *arguments: str, **environment: str) -> Program:
    environment = {"BENCH_SDK": "singer_sdk", **environment}
    return peer_program(SINGER, "tap.py", "--config", config, *arguments, environment=environment)


def _airbyte_source(folder: Path, config: str) -> Program:
    stream = {
        "name": "narrow",
        "json_schema": generator.NARROW_SCHEMA,
        "supported_sync_modes": ["full_refresh", "incremental"],
    }
    configured = {
        "stream": stream,
        "sync_mode": "incremental",
        "destination_sync_mode": "append",
        "cursor_field": ["updated_at"],
    }
    catalog = write_json(folder / "airbyte.json", {"streams": [configured]})
    return peer_program(
        "airbyte_cdk", "airbyte_source.py", "read", "--config", config, "--catalog", catalog
    )


def _write_config(folder: Path, case: str, records: int, parts: int = 0) -> str:
    name = f"{case}-{records}-{parts}.json"
    return write_json(folder / name, {"case": case, "records": records, "parts": parts})


def _compare_cpu(title: str, peer: str, runs: dict[str, Runs], limit: float) -> Row:
    return Row(title, peer, runs["ours"].cpu, runs[peer].cpu, "times less", limit)


def _drop_fields(
    records: Iterator[dict[str, Any]], names: tuple[str, ...]
) -> Iterator[dict[str, Any]]:
    for record in records:
        for name in names:
            del record[name]
        yield record


def _check_partitions(
    program: Program, folder: Path, stream: str, parts: int, records: int
) -> None:
    """Check the records of all partitions, and that all are complete in the last state."""
    output = folder / "output"
    run(program, output)
    expected = (record for part in range(parts) for record in generator.partition(part, records))
    checks.compare_rows(stream, checks.read_singer_records(output, stream), expected)
    *_, last = generator.narrow(records)

    def is_complete(state: Any) -> bool:
        partitions = state["bookmarks"][stream]["partitions"]
        return len(partitions) == parts and all(
            entry["replication_key_value"] == last["updated_at"]
            for entry in islice(partitions, parts)
        )

    checks.check_last_state(stream, output, is_complete)
