"""Benchmarks of the sample tap for PostgreSQL, compared with MeltanoLabs' tap and a bare loop.

Both programs read the same table, or the same log, from the same server, whose CPU time is not
counted. The output of the taps is compared with the generated rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.bench import checks
from tests.bench.measure import Program, in_turns, run
from tests.bench.programs_under_test import (
    ROOT,
    MissingPeerError,
    bare_program,
    our_program,
    peer_program,
    write_json,
)
from tests.bench.table import Row
from tests.postgres import Database, missing_reason, server, server_programs, shared_server

__all__ = ["postgres", "postgres_log"]

PEER = "tap_postgres"
MEBIBYTE = 1 << 20
MEMORY = 150
"""The limit of the memory of the tap, in MiB."""
STREAM = "public-orders"
SAMPLE = ROOT / "samples" / "tap_postgres"
VARIETY = 500

COLUMNS = {
    "id": "bigint PRIMARY KEY",
    "customer_id": "integer",
    "quantity": "smallint",
    "price": "numeric(12, 2)",
    "rate": "numeric",
    "weight": "double precision",
    "share": "real",
    "active": "boolean NOT NULL",
    "code": "char(8)",
    "name": "varchar(40)",
    "email": "text",
    "note": "text",
    "born_on": "date",
    "opens_at": "time",
    "created_at": "timestamp",
    "updated_at": "timestamptz NOT NULL",
    "session": "uuid",
    "settings": "jsonb",
    "scores": "integer[]",
    "tags": "text[]",
}


def postgres(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """A table of 20 columns of various types, compared with MeltanoLabs' tap."""
    if server_programs() is None:
        raise MissingPeerError(missing_reason())
    with shared_server().database() as database:
        _create_table(database)
        _insert_rows(database, records)
        programs = {
            "ours": _prepare_sync(folder, database, "ours"),
            PEER: _prepare_sync(folder, database, PEER),
        }
        for name, program in programs.items():
            output = folder / "output"
            run(program, output)
            checks.compare_rows(name, checks.read_singer_records(output, STREAM), _rows(records))
        runs = in_turns(programs, rounds)
    title = f"PostgreSQL tap, {records:,} rows of {len(COLUMNS)} columns"
    yield Row(title, "MeltanoLabs' tap", runs["ours"].cpu, runs[PEER].cpu, "times less", 5)
    memory = runs["ours"].rss / MEBIBYTE, runs[PEER].rss / MEBIBYTE
    yield Row("PostgreSQL tap, memory", "", memory[0], None, "value", MEMORY, "MiB")
    yield Row("PostgreSQL tap, memory", "MeltanoLabs' tap", *memory, "of theirs", None, "MiB")


def postgres_log(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """The same rows read from the log (LOG_BASED), compared with a loop that leaves all text."""
    if server_programs() is None:
        raise MissingPeerError(missing_reason())
    settings = {"wal_level": "logical", "max_wal_senders": "2", "max_replication_slots": "2"}
    with server(**settings) as running, running.database() as database:
        url = database.url_for("postgresql")
        database.run("CREATE PUBLICATION tappostgres FOR ALL TABLES")
        _create_table(database)
        try:
            programs = {
                "ours": _prepare_log_sync(folder, database),
                "bare": bare_program(
                    "postgres_log_bare.py", url, "tappostgres", "tappostgres", *COLUMNS
                ),
            }
            _insert_rows(database, records)
            output = folder / "output"
            run(programs["ours"], output)
            checks.compare_rows("ours", _read_log_records(output), _rows(records))
            runs = in_turns(programs, rounds)
        finally:
            database.run("SELECT pg_drop_replication_slot('tappostgres')")
    title = f"PostgreSQL tap, {records:,} inserted rows in the log"
    yield Row(title, "a bare loop", runs["ours"].cpu, runs["bare"].cpu, "of theirs")
    memory = runs["ours"].rss / MEBIBYTE
    yield Row("PostgreSQL tap, log, memory", "", memory, None, "value", MEMORY, "MiB")


def _prepare_log_sync(folder: Path, database: Database) -> Program:
    """Return the sync of the log from here on, after a first run that has created the slot."""
    snapshot = _prepare_sync(folder, database, "ours", method="LOG_BASED")
    output, state = folder / "snapshot", folder / "state.json"
    run(snapshot, output)
    messages = map(json.loads, output.read_bytes().splitlines())
    [*_, last] = [one["value"] for one in messages if one["type"] == "STATE"]
    return replace(snapshot, command=[*snapshot.command, "--state", write_json(state, last)])


def _read_log_records(output: Path) -> Iterator[dict[str, Any]]:
    added = ("_sdc_lsn", "_sdc_deleted_at")
    for record in checks.read_singer_records(output, STREAM):
        yield {name: value for name, value in record.items() if name not in added}


def _prepare_sync(
    folder: Path, database: Database, name: str, *, method: str | None = None
) -> Program:
    """Return the sync of the table by one tap, with the catalog that the tap discovers."""
    config = write_json(folder / f"{name}.json", {"sqlalchemy_url": database.url_for("postgresql")})
    discovered = folder / f"{name}-discovered.json"
    run(_tap(name, "--config", config, "--discover"), discovered)
    catalog = json.loads(discovered.read_text())
    for stream in catalog["streams"]:
        stream["replication_method"] = method or stream.get("replication_method", "")
        for entry in stream["metadata"]:
            if not entry["breadcrumb"]:
                entry["metadata"]["selected"] = stream["tap_stream_id"] == STREAM
    selection = write_json(folder / f"{name}-catalog.json", catalog)
    return _tap(name, "--config", config, "--catalog", selection)


def _tap(name: str, *arguments: str) -> Program:
    script = "postgres_tap.py"
    if name == PEER:
        return peer_program(PEER, script, *arguments)
    return our_program(script, *arguments, environment={"PYTHONPATH": f"{ROOT}:{SAMPLE}"})


# The table


def _create_table(database: Database) -> None:
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    database.run(f"CREATE TABLE orders ({columns})")


def _insert_rows(database: Database, records: int) -> None:
    with database.connect() as connection, connection.cursor() as cursor:
        with cursor.copy("COPY orders FROM STDIN") as copy:
            for row in _rows(records):
                copy.write_row(list(map(_to_copy_value, row.values())))
        cursor.execute("VACUUM ANALYZE orders")


def _to_copy_value(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict) else value


def _rows(count: int) -> Iterator[dict[str, Any]]:
    """Yield the rows with JSON values."""
    variety = [_make_columns(k) for k in range(VARIETY)]
    for n in range(count):
        yield {"id": n + (1 << 40), **variety[n % VARIETY]}


def _make_columns(k: int) -> dict[str, Any]:
    minute = f"2024-{k % 12 + 1:02}-{k % 28 + 1:02}T{k % 24:02}:{k % 60:02}"
    return {
        "customer_id": k * 1000,
        "quantity": k,
        "price": k * 12.25,
        "rate": k / 64,
        "weight": k * 0.1,
        "share": k * 0.5,
        "active": k % 2 == 0,
        "code": f"C{k:07}",
        "name": f"Customer number {k:04}",
        "email": f"customer.{k:04}@example.com" if k % 10 else None,
        "note": f"note {k:04}: " + "the quick brown fox jumps over " * 3,
        "born_on": f"19{k % 100:02}-02-03",
        "opens_at": f"{k % 24:02}:{k % 60:02}:00",
        "created_at": f"{minute}:00.000000+00:00",
        "updated_at": f"{minute}:30.{k:06}+00:00",
        "session": f"a0eebc99-9c0b-4ef8-bb6d-6bb9bd38{k:04x}",
        "settings": {"theme": "dark", "level": k, "flags": [True, None, "x"]},
        "scores": [k, k + 1, k + 2],
        "tags": ["red", f"tag {k}"],
    }
