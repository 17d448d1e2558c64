"""The tap beside other SDKs: records to a pipe, partitions, children, start-up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import md5
from itertools import islice
from pathlib import Path
from typing import Any

from tests.bench import checks
from tests.bench.measure import Program, Runs, in_turns, run
from tests.bench.places import bare, ours, peer, written
from tests.bench.programs import made
from tests.bench.table import Row

__all__ = ["children", "discover", "maps", "narrow", "nested", "partitions", "wide"]

MEBIBYTE = 1 << 20
SINGER, MSGSPEC, AIRBYTE, BARE = "singer_sdk", "singer_sdk, msgspec writer", "airbyte-cdk", "bare"


def narrow(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """Eight columns, sorted and incremental, to a pipe."""
    config = _config(folder, "narrow", records)
    programs = {
        "ours": _our_tap(config),
        BARE: bare("bare_tap.py", "narrow", str(records)),
        SINGER: _singer_tap(config),
        MSGSPEC: _singer_tap(config, BENCH_WRITER="msgspec"),
        AIRBYTE: _airbyte_source(folder, config),
    }
    rows: dict[str, Callable[[Path], Any]] = {
        name: lambda path: checks.singer_rows(path, "narrow") for name in programs
    }
    rows[AIRBYTE] = lambda path: checks.airbyte_rows(path, "narrow")
    for name, program in programs.items():
        output = folder / "output"
        run(program, output)
        checks.same_rows(name, rows[name](output), made.narrow(records))
    runs = in_turns(programs, rounds)
    what = f"tap, {records:,} records of 8 columns"
    yield _faster(what, SINGER, runs, 12)
    yield _faster(what, MSGSPEC, runs, 8)
    yield _faster(what, AIRBYTE, runs, 3)
    yield Row(what, "bare msgspec loop", runs["ours"].cpu, runs[BARE].cpu, "of theirs", 2.2)
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
    """Eight columns, one of which is an object with an object in it."""
    config = _config(folder, "nested", records)
    programs = {
        "ours": _our_tap(config),
        BARE: bare("bare_tap.py", "nested", str(records)),
        SINGER: _singer_tap(config),
    }
    for name, program in programs.items():
        output = folder / "output"
        run(program, output)
        checks.same_rows(name, checks.singer_rows(output, "nested"), made.nested(records))
    runs = in_turns(programs, rounds)
    what = f"tap, {records:,} records of 8 columns, nested objects in one"
    yield _faster(what, SINGER, runs, 15)
    yield Row(what, "bare msgspec loop", runs["ours"].cpu, runs[BARE].cpu, "of theirs", 1.7)


def wide(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """Sixty columns, eight of them nested objects, all of them and without a fifth."""
    config = _config(folder, "wide", records)
    for what, deselected in (("", ()), (", a fifth deselected", made.DESELECTED)):
        document = made.catalog("wide", made.WIDE_SCHEMA, deselected)
        catalog = written(folder / "catalog.json", document)
        programs = {
            "ours": _our_tap(config, "--catalog", catalog),
            SINGER: _singer_tap(config, "--catalog", catalog),
        }
        for name, program in programs.items():
            output = folder / "output"
            run(program, output)
            found = checks.singer_rows(output, "wide")
            checks.same_rows(name, found, _without(made.wide(records), deselected))
        runs = in_turns(programs, rounds)
        yield _faster(f"tap, {records:,} records of 60 columns{what}", SINGER, runs, 10)


def maps(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """A stream map: a filter and three expressions."""
    expressions = {
        "__filter__": "quantity > 10",
        "name": "name.upper()",
        "total": "amount * quantity",
        "email": "md5(email)",
    }
    settings = {"case": "narrow", "records": records, "stream_maps": {"narrow": expressions}}
    config = written(folder / "mapped.json", settings)
    programs = {"ours": _our_tap(config), SINGER: _singer_tap(config)}
    for name, program in programs.items():
        output = folder / "output"
        run(program, output)
        checks.same_rows(name, checks.singer_rows(output, "narrow"), _mapped(records))
    runs = in_turns(programs, rounds)
    yield _faster(f"tap, {records:,} records, a filter and three expressions", SINGER, runs, 3)


def _mapped(records: int) -> Iterator[dict[str, Any]]:
    for record in made.narrow(records):
        if record["quantity"] > 10:
            yield {
                **record,
                "name": record["name"].upper(),
                "total": record["amount"] * record["quantity"],
                "email": md5(record["email"].encode(), usedforsecurity=False).hexdigest(),
            }


def partitions(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """Many small partitions beside one large one, and ten times as many."""
    many, few = records // 10, records // 100
    programs = {
        "many": _our_tap(_config(folder, "parted", 10, many)),
        "few": _our_tap(_config(folder, "parted", 10, few)),
        "one": _our_tap(_config(folder, "parted", records, 1)),
        "none": _our_tap(_config(folder, "parted", 0, 1)),
    }
    _check_parts(programs["many"], folder, "parted", many, 10)
    _check_parts(programs["one"], folder, "parted", 1, records)
    runs = in_turns(programs, rounds)
    start = runs["none"].cpu
    many_cpu, few_cpu, one_cpu = (runs[name].cpu for name in ("many", "few", "one"))
    what = f"tap, {many:,} partitions of 10"
    yield Row(what, f"one of {records:,}", many_cpu, one_cpu, "of theirs", 2.5)
    yield Row(
        f"{what}, start-up apart",
        f"one of {records:,}",
        many_cpu - start,
        one_cpu - start,
        "of theirs",
    )
    yield Row(
        f"{what}, start-up apart",
        f"{few:,} of 10",
        many_cpu - start,
        few_cpu - start,
        "of theirs",
        11,
    )


def children(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """A parent whose records have ten children each."""
    few, many = records // 200, 3 * records // 200
    programs = {
        "ours": _our_tap(_config(folder, "family", 10, few)),
        "many": _our_tap(_config(folder, "family", 10, many)),
        "none": _our_tap(_config(folder, "family", 0, 0)),
        SINGER: _singer_tap(_config(folder, "family", 10, few)),
    }
    for name, parents in (("ours", few), ("many", many), (SINGER, few)):
        _check_parts(programs[name], folder, "child", parents, 10)
    runs = in_turns(programs, rounds)
    start = runs["none"].cpu
    what = f"tap, {many:,} parents with 10 children"
    yield Row(what, f"{few:,} of ours", runs["many"].cpu, runs["ours"].cpu, "of theirs", 3.3)
    yield Row(
        f"{what}, start-up apart",
        f"{few:,} of ours",
        runs["many"].cpu - start,
        runs["ours"].cpu - start,
        "of theirs",
    )
    yield _faster(f"tap, {few:,} parents with 10 children", SINGER, runs, 8)


def discover(_folder: Path, _records: int, rounds: int) -> Iterator[Row]:
    """Start-up: what people and orchestrators call over and over."""
    for flag, wanted in (("--discover", 0.6), ("--help", None)):
        programs = {
            "ours": ours("small_tap.py", flag, environment={"BENCH_SDK": "tap_core"}),
            SINGER: peer(SINGER, "small_tap.py", flag, environment={"BENCH_SDK": "singer_sdk"}),
        }
        for program in programs.values():
            run(program)
        runs = in_turns(programs, rounds * 3)
        yield Row(
            f"small tap, {flag}", SINGER, runs["ours"].cpu, runs[SINGER].cpu, "of theirs", wanted
        )


def _our_tap(config: str, *arguments: str) -> Program:
    environment = {"BENCH_SDK": "tap_core"}
    return ours("tap.py", "--config", config, *arguments, environment=environment)


def _singer_tap(config: str, *arguments: str, **environment: str) -> Program:
    environment = {"BENCH_SDK": "singer_sdk", **environment}
    return peer(SINGER, "tap.py", "--config", config, *arguments, environment=environment)


def _airbyte_source(folder: Path, config: str) -> Program:
    stream = {
        "name": "narrow",
        "json_schema": made.NARROW_SCHEMA,
        "supported_sync_modes": ["full_refresh", "incremental"],
    }
    configured = {
        "stream": stream,
        "sync_mode": "incremental",
        "destination_sync_mode": "append",
        "cursor_field": ["updated_at"],
    }
    catalog = written(folder / "airbyte.json", {"streams": [configured]})
    return peer("airbyte_cdk", "source.py", "read", "--config", config, "--catalog", catalog)


def _config(folder: Path, case: str, records: int, parts: int = 0) -> str:
    name = f"{case}-{records}-{parts}.json"
    return written(folder / name, {"case": case, "records": records, "parts": parts})


def _faster(what: str, other: str, runs: dict[str, Runs], wanted: float) -> Row:
    return Row(what, other, runs["ours"].cpu, runs[other].cpu, "times less", wanted)


def _without(records: Iterator[dict[str, Any]], names: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    for record in records:
        for name in names:
            del record[name]
        yield record


def _check_parts(program: Program, folder: Path, stream: str, parts: int, records: int) -> None:
    """Check the rows of all partitions, and that the last state has them all as finished."""
    output = folder / "output"
    run(program, output)
    wanted = (record for part in range(parts) for record in made.of_context(part, records))
    checks.same_rows(stream, checks.singer_rows(output, stream), wanted)
    *_, last = made.narrow(records)

    def holds(state: Any) -> bool:
        found = state["bookmarks"][stream]["partitions"]
        return len(found) == parts and all(
            entry["replication_key_value"] == last["updated_at"] for entry in islice(found, parts)
        )

    checks.has_last_state(stream, output, holds)
