"""Benchmarks of the sample tap for PostgreSQL, compared with MeltanoLabs' tap and a bare loop.

All programs read the same table, or the same log, from the same server, whose CPU time is not
counted. The output of the taps is compared with the generated rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from tests.bench import checks
from tests.bench.measure import Program, run, run_in_turns
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
FIRST = 1 << 40
TRANSACTION = 10_000
UPDATE = "UPDATE orders SET quantity = 7, price = price + 1, tags = '{changed}'"

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
        runs = run_in_turns(programs, rounds)
    title = f"PostgreSQL tap, {records:,} rows of {len(COLUMNS)} columns"
    yield Row(title, "MeltanoLabs' tap", runs["ours"].cpu, runs[PEER].cpu, "times less", 5)
    memory = runs["ours"].rss / MEBIBYTE, runs[PEER].rss / MEBIBYTE
    yield Row("PostgreSQL tap, memory", "", memory[0], None, "value", MEMORY, "MiB")
    yield Row("PostgreSQL tap, memory", "MeltanoLabs' tap", *memory, "of theirs", None, "MiB")


def postgres_log(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """Inserts, updates and deletions read from the log, by both taps and a loop without types."""
    if server_programs() is None:
        raise MissingPeerError(missing_reason())
    settings = {"wal_level": "logical", "max_wal_senders": "2", "max_replication_slots": "4"}
    with server(**settings) as running, running.database() as database:
        database.run("CREATE PUBLICATION tappostgres FOR ALL TABLES")
        _create_table(database)
        try:
            programs = _prepare_log_programs(folder, database)
            _change_rows(database, records)
            for name, read in (("ours", _read_log_records), (PEER, _read_peer_log_records)):
                output = folder / "output"
                run(programs[name], output)
                checks.compare_rows(name, read(output), _log_rows(records))
            runs = run_in_turns(programs, rounds)
        finally:
            database.run("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
    title = f"PostgreSQL tap, {records:,} changes in the log"
    ours, peer, bare = runs["ours"], runs[PEER], runs["bare"]
    yield Row(title, "MeltanoLabs' tap", ours.cpu, peer.cpu, "times less")
    elapsed = ours.wall, peer.wall
    yield Row(f"{title}, elapsed", "MeltanoLabs' tap", *elapsed, "times less", unit="wall s")
    yield Row(title, "a bare loop", ours.cpu, bare.cpu, "of theirs")
    memory = ours.rss / MEBIBYTE, peer.rss / MEBIBYTE
    yield Row("PostgreSQL tap, log, memory", "", memory[0], None, "value", MEMORY, "MiB")
    yield Row("PostgreSQL tap, log, memory", "MeltanoLabs' tap", *memory, "of theirs", None, "MiB")


def _prepare_log_programs(folder: Path, database: Database) -> dict[str, Program]:
    """Return the programs that read the log from here on; our first run creates its slot."""
    url = database.url_for("postgresql")
    return {
        "ours": _prepare_log_sync(folder, database),
        PEER: _prepare_peer_log_sync(folder, database),
        "bare": bare_program("postgres_log_bare.py", url, "tappostgres", "tappostgres", *COLUMNS),
    }


def _prepare_log_sync(folder: Path, database: Database) -> Program:
    """Return the sync of the log from here on, after a first run that has created the slot."""
    snapshot = _prepare_sync(folder, database, "ours", method="LOG_BASED")
    output, state = folder / "snapshot", folder / "state.json"
    run(snapshot, output)
    messages = map(json.loads, output.read_bytes().splitlines())
    [*_, last] = [message["value"] for message in messages if message["type"] == "STATE"]
    return replace(snapshot, command=[*snapshot.command, "--state", write_json(state, last)])


def _prepare_peer_log_sync(folder: Path, database: Database) -> Program:
    """Return the peer's sync of the log from here on.

    The peer confirms to the server what it has read, so each run gets a copy of the slot.

    Raises:
        MissingPeerError: PostgreSQL does not have the plugin wal2json, which the peer needs.
    """
    import psycopg

    try:
        database.run(f"SELECT pg_create_logical_replication_slot('{PEER}', 'wal2json')")
    except psycopg.errors.UndefinedFile:
        message = "PostgreSQL has no plugin wal2json (python -m tests.postgres wal2json)"
        raise MissingPeerError(message) from None
    [(position,)] = database.run("SELECT (pg_current_wal_flush_lsn() - '0/0')::bigint")
    bookmark = {"replication_key": "_sdc_lsn", "replication_key_value": position}
    state = write_json(folder / "peer-state.json", {"bookmarks": {STREAM: bookmark}})
    settings = {"replication_slot_name": "copied", "replication_idle_exit_seconds": 1}
    program = _prepare_sync(folder, database, PEER, method="LOG_BASED", **settings)

    def copy_slot() -> None:
        database.run(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
            " WHERE slot_name = 'copied'",
            f"SELECT pg_copy_logical_replication_slot('{PEER}', 'copied')",
        )

    return replace(program, command=[*program.command, "--state", state], before=copy_slot)


def _read_log_records(output: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of a tap; of a deleted row, which has no other values, only the key."""
    added = ("_sdc_lsn", "_sdc_deleted_at")
    for record in checks.read_singer_records(output, STREAM):
        if record["_sdc_deleted_at"] is not None:
            yield {"id": record["id"]}
        else:
            yield {name: value for name, value in record.items() if name not in added}


def _read_peer_log_records(output: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of the peer, which leaves times, JSON and numeric arrays PostgreSQL's text.

    The output plugin writes them so.
    """
    for record in _read_log_records(output):
        for name in ("created_at", "updated_at"):
            if name in record:
                second, _, fraction = record[name].removesuffix("+00").partition(".")
                record[name] = f"{second.replace(' ', 'T')}.{fraction:<06}+00:00"
        for name in ("settings", "scores"):
            if name in record:
                text = record[name]
                record[name] = json.loads(text if name == "settings" else f"[{text[1:-1]}]")
        yield record


def _prepare_sync(
    folder: Path, database: Database, name: str, *, method: str | None = None, **settings: Any
) -> Program:
    """Return the sync of the table by one tap, with the catalog that the tap discovers."""
    settings = {"sqlalchemy_url": database.url_for("postgresql"), **settings}
    config = write_json(folder / f"{name}.json", settings)
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


def _change_rows(database: Database, changes: int) -> None:
    """Insert, update and delete rows as in `_log_rows`, in transactions of 10,000 changes."""
    import psycopg

    inserted, updated, deleted = _split(changes)
    rows = _rows(inserted)
    with database.connect(autocommit=False) as connection, connection.cursor() as cursor:
        for _ in range(0, inserted, TRANSACTION):
            with cursor.copy("COPY orders FROM STDIN") as copy:
                for row in islice(rows, TRANSACTION):
                    copy.write_row(list(map(_to_copy_value, row.values())))
            connection.commit()
        for ids, statement in ((updated, UPDATE), (deleted, "DELETE FROM orders")):
            for start in ids[::TRANSACTION]:
                end = min(start + TRANSACTION, ids.stop)
                where = psycopg.sql.SQL(" WHERE id >= {} AND id < {}")
                bounds = where.format(FIRST + start, FIRST + end)
                cursor.execute(psycopg.sql.SQL(statement) + bounds)
                connection.commit()


def _log_rows(changes: int) -> Iterator[dict[str, Any]]:
    """Yield inserted rows, then the updated first of them, then the keys of the deleted last."""
    inserted, updated, deleted = _split(changes)
    yield from _rows(inserted)
    for row in _rows(len(updated)):
        yield {**row, "quantity": 7, "price": row["price"] + 1, "tags": ["changed"]}
    for number in deleted:
        yield {"id": FIRST + number}


def _split(changes: int) -> tuple[int, range, range]:
    """Return the number of inserted rows, and which of them are updated and deleted.

    The deleted ones were not updated, so that the server finds them in the order of their keys.
    """
    updated, deleted = changes // 4, changes * 3 // 20
    inserted = changes - updated - deleted
    return inserted, range(updated), range(inserted - deleted, inserted)


def _to_copy_value(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict) else value


def _rows(count: int) -> Iterator[dict[str, Any]]:
    """Yield the rows with JSON values."""
    variety = [_make_columns(k) for k in range(VARIETY)]
    for n in range(count):
        yield {"id": n + FIRST, **variety[n % VARIETY]}


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
