"""The sample tap of PostgreSQL beside MeltanoLabs' tap of the same name: one table, to a pipe.

Both read the same table of the same server, whose own time counts for nobody.
The rows are made here, and what each tap wrote is compared with them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.bench import checks
from tests.bench.measure import Program, in_turns, run
from tests.bench.places import ROOT, MissingPeerError, ours, peer, written
from tests.bench.table import Row
from tests.postgres import Database, missing_reason, server_programs, shared_server

__all__ = ["postgres"]

PEER = "tap_postgres"
MEBIBYTE = 1 << 20
MEMORY = 150
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
    """A table of twenty columns of all common types, to a pipe."""
    if server_programs() is None:
        raise MissingPeerError(missing_reason())
    with shared_server().database() as database:
        _fill(database, records)
        programs = {
            "ours": _prepared(folder, database, "ours"),
            PEER: _prepared(folder, database, PEER),
        }
        for name, program in programs.items():
            output = folder / "output"
            run(program, output)
            checks.same_rows(name, checks.singer_rows(output, STREAM), _rows(records))
        runs = in_turns(programs, rounds)
    what = f"PostgreSQL tap, {records:,} rows of {len(COLUMNS)} columns"
    yield Row(what, "MeltanoLabs' tap", runs["ours"].cpu, runs[PEER].cpu, "times less", 5)
    memory = runs["ours"].rss / MEBIBYTE, runs[PEER].rss / MEBIBYTE
    yield Row("PostgreSQL tap, memory", "", memory[0], None, "below", MEMORY, "MiB")
    yield Row("PostgreSQL tap, memory", "MeltanoLabs' tap", *memory, "of theirs", None, "MiB")


def _prepared(folder: Path, database: Database, name: str) -> Program:
    """Return one tap's sync of the table, by a catalog of its own discovery."""
    config = written(folder / f"{name}.json", {"sqlalchemy_url": database.url_for("postgresql")})
    discovered = folder / f"{name}-discovered.json"
    run(_tap(name, "--config", config, "--discover"), discovered)
    catalog = json.loads(discovered.read_text())
    for stream in catalog["streams"]:
        for entry in stream["metadata"]:
            if not entry["breadcrumb"]:
                entry["metadata"]["selected"] = stream["tap_stream_id"] == STREAM
    chosen = written(folder / f"{name}-catalog.json", catalog)
    return _tap(name, "--config", config, "--catalog", chosen)


def _tap(name: str, *arguments: str) -> Program:
    script = "postgres_tap.py"
    if name == PEER:
        return peer(PEER, script, *arguments)
    return ours(script, *arguments, environment={"PYTHONPATH": f"{ROOT}:{SAMPLE}"})


# The table


def _fill(database: Database, records: int) -> None:
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE orders ({columns})".encode())
        with cursor.copy("COPY orders FROM STDIN") as copy:
            for row in _rows(records):
                copy.write_row(list(map(_as_copied, row.values())))
        cursor.execute("VACUUM ANALYZE orders")


def _as_copied(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict) else value


def _rows(count: int) -> Iterator[dict[str, Any]]:
    """Yield the rows as JSON has them."""
    variety = [_of(k) for k in range(VARIETY)]
    for n in range(count):
        yield {"id": n + (1 << 40), **variety[n % VARIETY]}


def _of(k: int) -> dict[str, Any]:
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
