"""LOG_BASED streams of the PostgreSQL sample: snapshot, changes, resumption and errors."""

from __future__ import annotations

import re
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tap_core.exceptions import ConfigurationError
from tap_core.sync.change_log import Change
from tests.postgres import Server
from tests.samples.postgres_log import LogSource, log_source
from tests.samples.test_tap_postgres import create_table_of_all_types

from tap_postgres.change_log import LogError, PostgresLog  # isort: skip - found after `postgres_log`

STREAM = "public-t"
LARGE_ROWS = 40  # in the statement of `write_large_rows`


@pytest.fixture
def source(tmp_path: Path) -> Iterator[LogSource]:
    with log_source(tmp_path) as created:
        yield created


def bookmark(state: dict[str, Any]) -> int:
    """Return the position in a state."""
    return int(state["bookmarks"][STREAM]["replication_key_value"])


def rows(records: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    """Return the values of properties; a deletion ends with the word."""
    values = []
    for record in records:
        deleted = ("deleted",) if record["_sdc_deleted_at"] else ()
        values.append((*(record.get(name) for name in names), *deleted))
    return values


def test_snapshot_comes_first_then_the_changes(source: LogSource) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'a')")
    first = source.read()
    assert rows(first.records(STREAM), "id", "v") == [(1, "a")]
    source.run(
        "INSERT INTO t VALUES (2, 'b')",
        "UPDATE t SET v = 'c' WHERE id = 1",
        "UPDATE t SET id = 3 WHERE id = 2",
        "DELETE FROM t WHERE id = 1",
    )
    second = source.read(state=first.state)
    assert rows(second.records(STREAM), "id", "v") == [
        (2, "b"),
        (1, "c"),
        (2, None, "deleted"),
        (3, "b"),
        (1, None, "deleted"),
    ]
    positions = [record["_sdc_lsn"] for record in second.records(STREAM)]
    assert positions == sorted(positions)
    third = source.read(state=second.state)
    assert third.records(STREAM) == []


def test_values_of_every_type_are_those_of_the_snapshot(source: LogSource) -> None:
    create_table_of_all_types(source)
    snapshot = source.read()
    source.run(
        "CREATE TEMP TABLE kept AS SELECT * FROM kinds; DELETE FROM kinds;"
        " INSERT INTO kinds SELECT * FROM kept"
    )
    changes = source.read(state=snapshot.state)
    inserted = [
        inserted_record
        for inserted_record in changes.records("public-kinds")
        if not inserted_record["_sdc_deleted_at"]
    ]
    expected = snapshot.records("public-kinds")
    for record in (*inserted, *expected):
        del record["_sdc_lsn"]
    assert inserted == expected


def test_only_the_position_of_the_state_that_came_back_is_confirmed(source: LogSource) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    first = source.read()
    created = source.get_confirmed_position()
    source.run("INSERT INTO t VALUES (2)")
    second = source.read(state=first.state)
    assert rows(second.records(STREAM), "id") == [(2,)]
    confirmed = source.get_confirmed_position()
    assert created <= confirmed == bookmark(first.state) < bookmark(second.state)
    repeated = source.read(state=first.state)  # the second state was lost on its way
    assert rows(repeated.records(STREAM), "id") == [(2,)]
    source.read(state=second.state)
    assert source.get_confirmed_position() == bookmark(second.state)


def test_interrupted_snapshot_is_repeated_and_misses_no_deletion(source: LogSource) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    first = source.read()
    states = [message["value"] for message in first.messages if message["type"] == "STATE"]
    pending = states[0]
    assert pending["bookmarks"][STREAM]["snapshot_pending"] is True
    assert "snapshot_pending" not in first.state["bookmarks"][STREAM]
    assert first.messages[0]["type"] == "STATE", "the position precedes the first row"
    source.run("DELETE FROM t WHERE id = 1")
    second = source.read(state=pending)
    assert rows(second.records(STREAM), "id") == [(2,), (1, "deleted")]


def test_stream_that_is_added_later_gets_a_snapshot(source: LogSource) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE u (id int PRIMARY KEY)")
    first = source.read(STREAM)
    source.run("INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (1)")
    second = source.read(state=first.state)
    assert rows(second.records(STREAM), "id") == [(1,)]
    assert rows(second.records("public-u"), "id") == [(1,)]
    source.run("INSERT INTO u VALUES (2)", "INSERT INTO t VALUES (2)")
    third = source.read(state=second.state)
    assert rows(third.records("public-u"), "id") == [(2,)]
    assert rows(third.records(STREAM), "id") == [(2,)]


def test_column_that_is_added_gets_a_new_schema(source: LogSource) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY)")
    catalog = source.make_catalog()
    first = source.read(catalog=catalog)
    source.run(
        "INSERT INTO t VALUES (1)",
        "ALTER TABLE t ADD COLUMN price numeric(10, 2)",
        "INSERT INTO t VALUES (2, 1.50)",
        "UPDATE t SET price = 2 WHERE id = 1",
    )
    second = source.read(catalog=catalog, state=first.state)
    schemas = [
        message["schema"]["properties"]
        for message in second.messages
        if message["type"] == "SCHEMA"
    ]
    assert ["price" in schema for schema in schemas] == [False, True]
    assert str(schemas[1]["price"]["multipleOf"]) == "0.01"
    assert [str(record.get("price")) for record in second.records(STREAM)] == [
        "None",
        "1.50",
        "2.00",
    ]


def test_values_out_of_line_that_an_update_does_not_change_are_kept(source: LogSource) -> None:
    large = "repeat(md5(random()::text), 4000)"
    source.run(
        "CREATE TABLE t (id int PRIMARY KEY, v text, n int)",
        "ALTER TABLE t ALTER v SET STORAGE EXTERNAL",
        f"INSERT INTO t SELECT i, {large}, 0 FROM generate_series(1, 2) i",  # noqa: S608
    )
    first = source.read()
    values = dict(rows(first.records(STREAM), "id", "v"))
    source.run("UPDATE t SET n = 1 WHERE id = 1", "UPDATE t SET id = 3 WHERE id = 2")
    second = source.read(state=first.state)
    changed, deleted, moved = second.records(STREAM)
    assert changed["v"] == values[1]
    assert deleted["id"] == 2
    assert "v" not in deleted
    assert moved["v"] == values[2]
    source.run("ALTER TABLE t REPLICA IDENTITY FULL", "UPDATE t SET n = 2 WHERE id = 1")
    source.run("DELETE FROM t WHERE id = 1")
    third = source.read(state=second.state)
    assert third.records(STREAM)[0]["v"] == values[1], "the log has it, the table no longer"


def test_deferrable_key_that_two_rows_share_within_a_transaction_loses_no_row(
    source: LogSource,
) -> None:
    changes = {
        "shifted": "UPDATE shifted SET id = id + 1",
        "swapped": "UPDATE swapped SET id = 3 - id WHERE id < 3",
        "shared": "BEGIN; INSERT INTO shared VALUES (1, 'new'); DELETE FROM shared WHERE v = 'new';"
        " COMMIT",
        "taken": "BEGIN; INSERT INTO taken VALUES (1, 'new'); UPDATE taken SET v = 'old' WHERE"
        " v = 'a'; DELETE FROM taken WHERE v = 'old'; COMMIT",
        "removed": "BEGIN; INSERT INTO removed VALUES (9, 'new'); DELETE FROM removed WHERE id > 1;"
        " COMMIT",
    }
    for table in changes:
        source.run(
            f"CREATE TABLE {table} (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, v text)",
            f"ALTER TABLE {table} REPLICA IDENTITY FULL",
            f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b'), (5, 'c')",  # noqa: S608
        )
    first = source.read()
    source.run(*changes.values())
    second = source.read(state=first.state)
    for table in changes:
        stream = f"public-{table}"
        loaded = {}
        for record in [*first.records(stream), *second.records(stream)]:
            loaded[record["id"]] = None if record["_sdc_deleted_at"] else record["v"]
        remaining = {key: value for key, value in loaded.items() if value is not None}
        assert remaining == dict(source.run(f"SELECT id, v FROM {table}")), table  # noqa: S608


def test_deselected_columns_are_not_sent(source: LogSource) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'a')")
    first = source.read(without=["v"])
    source.run("INSERT INTO t VALUES (2, 'b')")
    second = source.read(state=first.state, without=["v"])
    for sync in (first, second):
        assert [sorted(record) for record in sync.records(STREAM)] == [
            ["_sdc_deleted_at", "_sdc_lsn", "id"]
        ]


def test_rolled_back_changes_are_not_sent(source: LogSource) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY)")
    first = source.read()
    source.run("BEGIN; INSERT INTO t VALUES (1); ROLLBACK", "INSERT INTO t VALUES (2)")
    assert rows(source.read(state=first.state).records(STREAM), "id") == [(2,)]


def test_transaction_that_was_running_at_the_snapshot_is_not_lost(source: LogSource) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE u (id int PRIMARY KEY)")
    first = source.read("public-u")
    with source.database.connect(autocommit=False) as writer:
        writer.execute("INSERT INTO t VALUES (1)")
        waiter = threading.Timer(0.5, writer.commit)
        waiter.start()
        second = source.read(state=first.state)
        waiter.join()
    third = source.read(state=second.state)
    assert (1,) in rows([*second.records(STREAM), *third.records(STREAM)], "id")


# ------------------------------------------------------------------------------ errors
def test_truncate_is_refused(source: LogSource) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    first = source.read()
    source.run("CREATE TABLE u (id int PRIMARY KEY)", "INSERT INTO t VALUES (2)", "TRUNCATE t, u")
    source.run("INSERT INTO t VALUES (3)")
    with pytest.raises(LogError, match=r"'public-t' was truncated. Read the tables again"):
        source.read(STREAM, state=first.state)
    second = source.read(STREAM)  # without a bookmark
    assert rows(second.records(STREAM), "id") == [(3,)]


def test_missing_slot_is_an_error_unless_nothing_was_read(source: LogSource) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY)")
    first = source.read()
    source.drop_slot()
    with pytest.raises(LogError, match=r"There is no slot .* Read the tables again"):
        source.read(state=first.state)
    source.read()


def test_state_older_than_the_slot_is_an_error(source: LogSource) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY)")
    first = source.read()
    source.run("INSERT INTO t VALUES (1)")
    second = source.read(state=first.state)
    source.read(state=second.state)
    with pytest.raises(LogError, match="no longer has the changes of public-t"):
        source.read(state=first.state)


def test_state_of_another_server_is_an_error(source: LogSource) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY)")
    state = source.read().state
    state["bookmarks"][STREAM]["replication_key_value"] += 1 << 40
    with pytest.raises(LogError, match="belongs to another server"):
        source.read(state=state)


def test_table_without_a_key_is_an_error(source: LogSource) -> None:
    source.run("CREATE TABLE t (id int)")
    with pytest.raises(ConfigurationError, match="'public-t' has no primary key"):
        source.read()


def test_publication_without_a_table_is_an_error(source: LogSource) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE PUBLICATION other")
    with pytest.raises(ConfigurationError, match=r"ADD TABLE public\.t"):
        source.read(publication_name="other")
    with pytest.raises(ConfigurationError, match=r"PUBLICATION missing FOR TABLE public\.t"):
        source.read(publication_name="missing")
    for kinds in ("insert", "insert, update, delete"):
        source.run(
            "DROP PUBLICATION IF EXISTS partial",
            f"CREATE PUBLICATION partial FOR TABLE t WITH (publish = '{kinds}')",
        )
        with pytest.raises(ConfigurationError, match="does not publish all changes"):
            source.read(publication_name="partial")


def test_statements_in_errors_are_valid_for_names_that_need_quotes(source: LogSource) -> None:
    source.run(
        'CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE "T-x" (id int PRIMARY KEY)',
        "CREATE PUBLICATION other",
    )
    for name, stream in (("My-Pub", "public-T-x"), ("other", "public-T-x"), ("My-Pub", STREAM)):
        with pytest.raises(ConfigurationError, match="PUBLICATION") as caught:
            source.read(stream, publication_name=name)
        source.run(re.findall(r"run ([^;.]+[^;]+?)(?:;|\.$)", str(caught.value))[0])
        source.read(stream, publication_name=name)


def test_one_message_of_the_log_at_a_time_is_in_memory(source: LogSource) -> None:
    log, start, end = write_large_rows(source)
    tracemalloc.start()
    try:
        change_count = sum(isinstance(entry, Change) for entry in log.read({STREAM: start}, end))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert change_count == LARGE_ROWS
    assert peak < 20_000_000


@pytest.mark.thorough
def test_time_limit_of_statements_does_not_end_a_slow_run(source: LogSource) -> None:
    log, start, end = write_large_rows(source)
    source.run(f"ALTER DATABASE {source.database.name} SET statement_timeout = '2s'")
    log._connector._engine.dispose()
    entries = log.read({STREAM: start}, end)
    next(entries)
    time.sleep(4)
    assert sum(isinstance(entry, Change) for entry in entries) == LARGE_ROWS


def write_large_rows(source: LogSource) -> tuple[PostgresLog, int, int]:
    """Write rows of a megabyte; return the log, and the positions at which they begin and end."""
    source.run(
        "CREATE TABLE t (id int PRIMARY KEY, v text)",
        "ALTER TABLE t ALTER v SET STORAGE EXTERNAL",
    )
    start = bookmark(source.read().state)
    source.run("INSERT INTO t SELECT i, repeat('x', 1000000) FROM generate_series(1, 40) i")
    [stream] = source.make_tap().streams.values()
    log = stream.change_log
    assert isinstance(log, PostgresLog)
    return log, start, log.begin({STREAM: start})


def test_publication_with_a_row_filter_is_an_error(source: LogSource) -> None:
    """Its log has a row that no longer passes the filter as a deletion, and others not at all."""
    if source.run("SHOW server_version_num")[0][0] < "150000":
        pytest.skip("PostgreSQL has no row filters before version 15")
    source.run(
        "CREATE TABLE t (id int PRIMARY KEY)",
        "CREATE PUBLICATION partial FOR TABLE t WHERE (id > 1)",
    )
    with pytest.raises(ConfigurationError, match=r"row filters for public\.t, so the log lacks"):
        source.read(publication_name="partial")


def test_table_whose_rows_are_in_child_tables_is_an_error(source: LogSource) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE child () INHERITS (t)")
    with pytest.raises(ConfigurationError, match=r"'public-t' has child tables .INHERITS."):
        source.read(STREAM)


def test_user_without_the_right_to_replicate_is_told_so(source: LogSource) -> None:
    name = f"r{source.database.name}"
    source.run(
        "CREATE TABLE t (id int PRIMARY KEY)",
        f"CREATE USER {name} PASSWORD 'p'",
        f"GRANT SELECT ON t TO {name}",
    )
    try:
        with pytest.raises(ConfigurationError, match=f"ALTER ROLE {name} REPLICATION"):
            source.read(user=name, password="p")
    finally:
        source.run(f"DROP OWNED BY {name}", f"DROP USER {name}")


def test_role_of_amazon_rds_replaces_the_right_to_replicate(source: LogSource) -> None:
    """RDS's server accepts its members; this one rejects them, with a message of its own."""
    name = f"r{source.database.name}"
    source.run(
        "CREATE TABLE t (id int PRIMARY KEY)",
        f"CREATE USER {name} PASSWORD 'p'",
        f"GRANT SELECT ON t TO {name}",
        "CREATE ROLE rds_replication",
    )
    try:
        with pytest.raises(ConfigurationError, match=f"GRANT rds_replication TO {name}"):
            source.read(user=name, password="p")
        source.run(f"GRANT rds_replication TO {name}")
        with pytest.raises(ConfigurationError, match="cannot be created"):
            source.read(user=name, password="p")
    finally:
        source.run(f"DROP OWNED BY {name}", f"DROP USER {name}", "DROP ROLE rds_replication")


def test_server_without_logical_replication_is_told_so(postgres: Server, tmp_path: Path) -> None:
    with postgres.database() as database:
        source = LogSource(database, tmp_path)
        source.run("CREATE TABLE t (id int PRIMARY KEY)")
        with pytest.raises(ConfigurationError, match="need wal_level = logical"):
            source.read()


def test_table_that_was_replaced_is_an_error(source: LogSource) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY)")
    first = source.read()
    source.run(
        "INSERT INTO t VALUES (1)",
        "ALTER TABLE t RENAME TO old",
        "CREATE TABLE t (id int PRIMARY KEY)",
    )
    source.run("CREATE TABLE u (id int PRIMARY KEY)")
    with pytest.raises(LogError, match="'public-t' was replaced"):
        source.read(STREAM, state=first.state)
    del first.state["bookmarks"][STREAM]
    second = source.read(STREAM, "public-u", state=first.state)
    source.run("INSERT INTO t VALUES (2)", "INSERT INTO u VALUES (3)")
    last = source.read(STREAM, "public-u", state=second.state)
    assert rows(last.records(STREAM), "id") == [(2,)]
    assert rows(last.records("public-u"), "id") == [(3,)]


def test_type_whose_values_differ_in_the_log_is_an_error(source: LogSource) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY, v int, w int)")
    first = source.read()
    source.run(
        "INSERT INTO t VALUES (1, 5, 6)",
        "ALTER TABLE t ALTER v TYPE bigint, ALTER w TYPE text",
    )
    widened = source.read(state=first.state)
    assert rows(widened.records(STREAM), "id", "v", "w") == [(1, 5, "6")]
    source.run("ALTER TABLE t ALTER v TYPE boolean USING v > 0")
    with pytest.raises(LogError, match="'v' of table 'public-t' had another type"):
        source.read(state=first.state)


def test_generated_columns_are_read_from_the_table(source: LogSource) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED)")
    first = source.read()
    source.run("INSERT INTO t VALUES (4)")
    assert rows(source.read(state=first.state).records(STREAM), "id", "twice") == [(4, 8)]


def test_stream_maps_apply_to_snapshot_and_changes(source: LogSource) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    maps = {"stream_maps": {STREAM: {"word": "str(id)"}}}
    first = source.read(**maps)
    source.run("INSERT INTO t VALUES (2)", "DELETE FROM t WHERE id = 1")
    second = source.read(state=first.state, **maps)
    assert rows([*first.records(STREAM), *second.records(STREAM)], "id", "word") == [
        (1, "1"),
        (2, "2"),
        (1, "1", "deleted"),
    ]


def test_keys_of_several_columns_and_odd_names(source: LogSource) -> None:
    source.run(
        'CREATE TABLE "T.x" ("a b" text, "C" timestamptz, "d""e" uuid, big text,'
        ' PRIMARY KEY ("C", "a b", "d""e"))',
        'ALTER TABLE "T.x" ALTER big SET STORAGE EXTERNAL',
        "INSERT INTO \"T.x\" VALUES ('k''1', '2024-01-01 10:00+02',"
        " 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', repeat('x', 9000))",
    )
    first = source.read()
    source.run('UPDATE "T.x" SET "C" = \'2025-01-01 00:00+00\'')
    second = source.read(state=first.state)
    deleted, moved = second.records("public-T.x")
    assert (deleted["a b"], deleted["C"]) == ("k'1", "2024-01-01T08:00:00.000000+00:00")
    assert deleted["_sdc_deleted_at"] is not None
    assert moved["C"] == "2025-01-01T00:00:00.000000+00:00"
    assert moved["big"] == "x" * 9000
    source.run("UPDATE \"T.x\" SET big = big || '!'", 'UPDATE "T.x" SET "a b" = upper("a b")')
    third = source.read(state=second.state)
    assert [record.get("big", "")[-1:] for record in third.records("public-T.x")] == ["!", "", "!"]
