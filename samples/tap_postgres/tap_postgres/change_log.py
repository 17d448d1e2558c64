"""The changes of tables by logical replication: one slot and one publication for the whole tap.

The slot is read through SQL functions, so no replication connection is needed. `pgoutput` writes
the values as text, under the settings of the session, and they are converted as those of a SELECT.
All positions are compared with the position of a transaction's commit, as the server compares them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, cast

import psycopg
import sqlalchemy as sa

from tap_core.exceptions import ConfigurationError, FatalSyncError
from tap_core.sync.change_log import Change, ChangeLog, LogEntry, Position, SchemaChange
from tap_postgres.pgoutput import (
    UNCHANGED,
    Begin,
    Delete,
    Insert,
    Relation,
    Row,
    Truncate,
    Update,
    decode,
)

if TYPE_CHECKING:
    from tap_core.types import Record
    from tap_postgres.client import PostgresConnector, PostgresStream

__all__ = ["DELETED_AT", "LSN", "LogError", "PostgresLog"]

LSN = "_sdc_lsn"
"""Property with the position of a record in the log, as an integer."""
DELETED_AT = "_sdc_deleted_at"
"""Property with the time at which a row was deleted, or null."""

EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)
PAGE_ROWS = 200
PAGE_BYTES = 4 << 20
"""Messages and bytes that are fetched at a time."""
WIDENED = {
    *((21, 23), (21, 20), (23, 20)),  # between integers
    *((number, 1700) for number in (20, 21, 23)),  # from integers to numeric
    *((kind, text) for kind in (20, 21, 23, 25, 1043, 1700, 2950) for text in (25, 1043)),
}
"""Changes of a column's type, as numbers of types, that do not change the text of a value."""
WAIT_SECONDS = 0.05
SLOT_SECONDS = 30.0
LOG_SECONDS = 5.0

SERVER = """
    SELECT current_setting('wal_level'), rolreplication OR rolsuper, current_user::text
    FROM pg_catalog.pg_roles WHERE rolname = current_user
"""
PUBLICATION = """
    SELECT pubinsert AND pubupdate AND pubdelete FROM pg_catalog.pg_publication
    WHERE pubname = :publication
"""
PUBLISHED = """
    SELECT schemaname::text, tablename::text FROM pg_catalog.pg_publication_tables
    WHERE pubname = :publication
"""
SLOT = """
    SELECT plugin::text, database = current_database(), wal_status, active_pid,
        (confirmed_flush_lsn - '0/0')::bigint
    FROM pg_catalog.pg_replication_slots WHERE slot_name = :slot
"""
ADVANCE = """
    SELECT pg_catalog.pg_replication_slot_advance(slot_name, CAST(:position AS pg_lsn))
    FROM pg_catalog.pg_replication_slots
    WHERE slot_name = :slot AND confirmed_flush_lsn < CAST(:position AS pg_lsn)
"""
COLUMN_TYPES = """
    SELECT attname::text, atttypid::bigint FROM pg_catalog.pg_attribute
    WHERE attrelid = CAST(:oid AS oid) AND attnum > 0 AND NOT attisdropped AND attrelid =
        to_regclass(quote_ident(:schema) || '.' || quote_ident(:table))
"""
END = "SELECT (pg_catalog.pg_current_wal_flush_lsn() - '0/0')::bigint"
NEXT_TRANSACTION = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
OLDEST_TRANSACTION = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
CHANGES = """
    SELECT (lsn - '0/0')::bigint, data FROM pg_catalog.pg_logical_slot_peek_binary_changes(
        %s, %s::pg_lsn, NULL, 'proto_version', '1', 'publication_names', %s)
"""
READ_AGAIN = (
    "Read the tables again from their beginning: run once without their bookmarks, into tables that"
    " this run replaces (target-spark: full_refresh)."
)


class LogError(FatalSyncError):
    """Raised if the server's log cannot be read, or does not have what the tap needs."""


@dataclass(frozen=True)
class _Table:
    """Table of a stream, with the columns that its rows in the log have at this point."""

    stream: PostgresStream
    start: int
    """Position of the stream's first change."""
    names: tuple[str, ...]
    """Names of the columns, in the order of a row."""
    readers: tuple[tuple[int, str, Callable[[bytes | None], Any]], ...]
    """Index, name and converter of each column that a record has."""
    keys: tuple[int, ...]
    """Indexes of the key columns."""
    absent: tuple[str, ...]
    """Columns of the stream that the rows in the log do not have."""
    lookup: sa.Select[Any]
    """Query of one row by its keys."""

    def make_record(self, row: Row) -> tuple[Record, list[str]]:
        """Return the record of a row, and the names of the columns whose values it does not have.

        Raises:
            LogError: A value is not one of its column's type.
        """
        record: Record = {}
        missing = list(self.absent)
        try:
            for index, name, read in self.readers:
                value = row[index]
                if value is UNCHANGED:
                    missing.append(name)
                else:
                    record[name] = read(value)
        except (ValueError, ArithmeticError, LookupError, psycopg.Error):
            raise LogError(
                f"Table '{self.stream.name}' has changes in the log with values that are not of the"
                f" present type of column '{name}'. {READ_AGAIN}"
            ) from None
        return record, missing

    def get_key(self, row: Row) -> dict[str, bytes]:
        """Return the texts of a row's keys by column.

        Raises:
            LogError: The row does not have them.
        """
        key = {}
        for index in self.keys:
            value = row[index]
            if not isinstance(value, bytes):
                raise LogError(
                    f"Table '{self.stream.name}': a change in the log lacks the key"
                    f" '{self.names[index]}'. {READ_AGAIN}"
                )
            key[self.names[index]] = value
        return key

    def look_up(self, row: Row, names: list[str]) -> Record:
        """Return the present values of some columns of a row; nothing if the row is gone.

        A later change of these values is in the log, too, so the table ends with the right ones.
        """
        texts = self.get_key(row).values()
        parameters = {f"key{number}": text.decode() for number, text in enumerate(texts)}
        with self.stream.connector._connect() as connection:  # noqa: SLF001 - as in SQLStream
            options = {"stream_results": False}
            result = connection.execute(self.lookup, parameters, execution_options=options)
            found = result.mappings().one_or_none()
        return {name: found[name] for name in names} if found else {}

    def make_deletion(self, row: Row, deleted_at: str) -> Record:
        """Return the record that marks a row as deleted: its keys and the time."""
        key = self.get_key(row)
        readers = {name: read for _, name, read in self.readers}
        return {**{name: readers[name](text) for name, text in key.items()}, DELETED_AT: deleted_at}


class PostgresLog(ChangeLog):
    """Log of a PostgreSQL database, read from a logical replication slot.

    Args:
        connector: Connector to the database.
        slot: Name of the slot, which is created if no stream was read from it before.
        publication: Name of the publication that has the tables; the user creates it.

    Attributes:
        streams: Streams that are read from the log, by name.
    """

    def __init__(self, connector: PostgresConnector, slot: str, publication: str) -> None:
        self._connector = connector
        self._slot = slot
        self._publication = publication
        self._logger = logging.getLogger("tap-postgres")
        self.streams: dict[str, PostgresStream] = {}

    @contextmanager
    def _connect(self) -> Iterator[sa.Connection]:
        """Connect to the database; each statement is one transaction."""
        with self._connector._connect() as connection:  # noqa: SLF001 - as in SQLStream
            yield connection.execution_options(isolation_level="AUTOCOMMIT", stream_results=False)

    # Start of a run

    def begin(self, starts: Mapping[str, int | None]) -> int:
        """Check server, publication and slot; create the slot if it is new; return the log's end.

        Raises:
            ConfigurationError: The server, the user's rights or the publication do not allow it.
            LogError: The slot no longer has the changes since a stream's position.
        """
        with self._connect() as connection:
            self._check_server(connection)
            self._check_tables(connection, starts)
            self._check_slot(connection, starts)
            end: int = connection.scalar(sa.text(END))
            for name, start in starts.items():
                if start is not None and start > end:
                    raise LogError(
                        f"The bookmark of '{name}' is after the end of the server's log: the state"
                        f" belongs to another server, or this one was restored. {READ_AGAIN}"
                    )
            if None in starts.values():
                self._wait_for_transactions(connection)
        return end

    def _check_server(self, connection: sa.Connection) -> None:
        level, may_replicate, user = connection.execute(sa.text(SERVER)).one()
        if level != "logical":
            raise ConfigurationError(
                f"LOG_BASED streams need wal_level = logical, but the server has '{level}': set it"
                " in postgresql.conf and restart the server."
            )
        if not may_replicate:
            raise ConfigurationError(
                f"User '{user}' may not read the log: run ALTER ROLE {user} REPLICATION."
            )

    def _check_tables(self, connection: sa.Connection, names: Mapping[str, Any]) -> None:
        """Check that each table has a key and is in the publication."""
        for name in names:
            if not self.streams[name].primary_keys:
                raise ConfigurationError(
                    f"Table '{name}' has no primary key, so its changes cannot be applied: add one,"
                    " or read it with the replication method FULL_TABLE."
                )
        values = {"publication": self._publication}
        is_complete = connection.scalar(sa.text(PUBLICATION), values)
        published = set(map(tuple, connection.execute(sa.text(PUBLISHED), values)))
        tables = {name: self.streams[name].table_name for name in names}
        missing = [".".join(table) for table in tables.values() if table not in published]
        if is_complete is None:
            raise ConfigurationError(
                f"There is no publication '{self._publication}': run CREATE PUBLICATION"
                f" {self._publication} FOR TABLE {', '.join(missing)}."
            )
        if missing:
            raise ConfigurationError(
                f"The publication '{self._publication}' lacks {', '.join(missing)}: run ALTER"
                f" PUBLICATION {self._publication} ADD TABLE {', '.join(missing)}; a partitioned"
                " table also needs publish_via_partition_root."
            )
        if not is_complete:
            raise ConfigurationError(
                f"The publication '{self._publication}' does not publish all changes: run ALTER"
                f" PUBLICATION {self._publication} SET (publish = 'insert, update, delete,"
                " truncate')."
            )

    def _check_slot(self, connection: sa.Connection, starts: Mapping[str, int | None]) -> None:
        """Check that the slot has the changes since each start; create it if it is not needed."""
        known = {name: start for name, start in starts.items() if start is not None}
        found = self._find_slot(connection)
        if found is None:
            if known:
                raise LogError(f"There is no slot '{self._slot}' any more. {READ_AGAIN}")
            self._create_slot(connection)
            return
        plugin, is_here, status, pid, confirmed = found
        if plugin != "pgoutput" or not is_here:
            raise ConfigurationError(
                f"The slot '{self._slot}' is of another plugin or database: choose another name in"
                " replication_slot_name."
            )
        if pid is not None:
            raise LogError(
                f"The slot '{self._slot}' is in use by process {pid} of the server: wait until the"
                " other run has ended, or choose another name in replication_slot_name."
            )
        if status == "lost":
            raise LogError(
                f"The server has removed the log that slot '{self._slot}' needs: drop the slot with"
                f" pg_drop_replication_slot and check max_slot_wal_keep_size. {READ_AGAIN}"
            )
        late = [name for name, start in known.items() if start < confirmed]
        if late:
            raise LogError(
                f"The slot '{self._slot}' no longer has the changes of {', '.join(late)} since"
                f" their bookmarks. {READ_AGAIN}"
            )

    def _find_slot(self, connection: sa.Connection) -> sa.Row[Any] | None:
        """Return the row of `SLOT`; the server may need a moment to end a run that was killed."""
        deadline = time.monotonic() + SLOT_SECONDS
        while True:
            found = connection.execute(sa.text(SLOT), {"slot": self._slot}).one_or_none()
            if found is None or found.active_pid is None or time.monotonic() > deadline:
                return found
            time.sleep(WAIT_SECONDS)

    def _create_slot(self, connection: sa.Connection) -> None:
        statement = "SELECT pg_catalog.pg_create_logical_replication_slot(:slot, 'pgoutput')"
        self._logger.info("Creating the replication slot '%s'.", self._slot)
        try:
            connection.execute(sa.text(statement), {"slot": self._slot})
        except sa.exc.DBAPIError as error:
            message = str(error.orig).splitlines()[0]
            raise ConfigurationError(
                f"The replication slot '{self._slot}' cannot be created: {message}. Check"
                " max_replication_slots and the name in replication_slot_name."
            ) from None

    def _wait_for_transactions(self, connection: sa.Connection) -> None:
        """Wait for the end of all transactions that are running now.

        A transaction becomes visible to others after its commit was written to the log. A snapshot
        in between would lack its rows, which the log has before the position of the snapshot.
        """
        after: int = connection.scalar(sa.text(NEXT_TRANSACTION))
        started = logged = time.monotonic()
        while connection.scalar(sa.text(OLDEST_TRANSACTION)) < after:
            time.sleep(WAIT_SECONDS)
            if time.monotonic() - logged > LOG_SECONDS:
                logged = time.monotonic()
                self._logger.info(
                    "Waiting since %d s for transactions that began before the snapshot.",
                    logged - started,
                )

    def confirm(self, position: int) -> None:
        """Advance the slot, so that the server may remove the log before the position."""
        with self._connect() as connection:
            connection.execute(
                sa.text(ADVANCE), {"slot": self._slot, "position": _format_lsn(position)}
            )

    # Changes

    def read(self, starts: Mapping[str, int], end: int) -> Iterator[LogEntry]:
        """Yield the changes of the transactions that were committed before ``end``."""
        tables: dict[int, _Table | None] = {}
        transaction = Begin(0, 0)
        for lsn, data in self._read_messages(end):
            message = decode(data)
            if isinstance(message, Begin):
                transaction = message
                if transaction.commit_lsn >= end:
                    return
                yield Position(transaction.commit_lsn)
            elif isinstance(message, Relation):
                yield from self._change_table(tables, message, starts)
            elif isinstance(message, Truncate):
                _refuse_truncate(tables, message, transaction)
            elif message is not None:
                table = tables[message.oid]
                if table is not None and transaction.commit_lsn >= table.start:
                    yield from _make_changes(table, message, lsn, transaction)

    def _change_table(
        self, tables: dict[int, _Table | None], relation: Relation, starts: Mapping[str, int]
    ) -> Iterator[LogEntry]:
        """Store the columns of a table; yield a schema change if the stream's schema lacks one."""
        tables[relation.oid] = None
        for name in starts:
            stream = self.streams[name]
            if stream.table_name == (relation.schema, relation.table):
                if stream.add_columns(column.name for column in relation.columns):
                    yield SchemaChange(name)
                tables[relation.oid] = _make_table(stream, starts[name], relation)

    def _read_messages(self, end: int) -> Iterator[tuple[int, bytes]]:
        """Yield position and bytes of each message, in pages of bounded size."""
        quoted = '"' + self._publication.replace('"', '""') + '"'
        with self._connector._connect() as connection:  # noqa: SLF001 - as in SQLStream
            driver = cast("psycopg.Connection[Any]", connection.connection.driver_connection)
            try:
                with driver.cursor("changes", binary=True) as cursor:
                    cursor.execute(CHANGES, (self._slot, _format_lsn(end), quoted))
                    size = PAGE_ROWS
                    while page := cursor.fetchmany(size):  # the first one reads the whole log
                        yield from page
                        mean = sum(len(data) for _, data in page) / len(page)
                        size = max(1, min(PAGE_ROWS, int(PAGE_BYTES / mean)))
            except psycopg.Error as error:
                reason = str(error).splitlines()[0]
                raise LogError(f"The slot '{self._slot}' cannot be read: {reason}.") from None


def _make_changes(
    table: _Table, message: Insert | Update | Delete, lsn: int, transaction: Begin
) -> Iterator[Change]:
    """Yield the changes of a message with the position of each record."""
    for record in _make_records(table, message, _format_time(transaction.committed_at)):
        record[LSN] = max(lsn, table.start)  # a snapshot may have the row with that position
        yield Change(table.stream.name, record)


def _make_records(
    table: _Table, message: Insert | Update | Delete, deleted_at: str
) -> Iterator[Record]:
    """Yield the records of a message; an update of the key is a deletion and an insertion."""
    if isinstance(message, Delete):
        yield table.make_deletion(message.old, deleted_at)
        return
    row = message.new
    if isinstance(message, Update) and (old := message.old) is not None:
        row = [
            before if value is UNCHANGED and before is not None else value
            for value, before in zip(row, old, strict=True)
        ]
        if any(row[index] != old[index] for index in table.keys):
            yield table.make_deletion(old, deleted_at)
    record, missing = table.make_record(row)
    if missing:
        record.update(table.look_up(row, missing))
    record[DELETED_AT] = None
    yield record


def _make_table(stream: PostgresStream, start: int, relation: Relation) -> _Table:
    """Return the table of a stream with the columns of a relation.

    Raises:
        LogError: The replica identity lacks a key, or the table or a column's type is another one
            than in the log.
    """
    types = {column.name: column.type_oid for column in relation.columns}
    _check_types(stream, relation, types)
    readers = stream.make_value_readers(types)
    names = tuple(column.name for column in relation.columns)
    identity = {column.name for column in relation.columns if column.is_key}
    for key in stream.primary_keys:
        if key not in identity or key not in readers:
            raise LogError(
                f"Table '{stream.name}': its replica identity lacks the key '{key}': run ALTER"
                f" TABLE {'.'.join(stream.table_name)} REPLICA IDENTITY FULL. {READ_AGAIN}"
            )
    return _Table(
        stream=stream,
        start=start,
        names=names,
        readers=tuple(
            (index, name, readers[name]) for index, name in enumerate(names) if name in readers
        ),
        keys=tuple(names.index(key) for key in stream.primary_keys),
        absent=tuple(name for name in readers if name not in names),
        lookup=stream.build_row_lookup(),
    )


def _check_types(stream: PostgresStream, relation: Relation, types: Mapping[str, int]) -> None:
    """Raise `LogError` if the table was replaced, or a type was changed to one of other values."""
    values = {"oid": str(relation.oid), "schema": relation.schema, "table": relation.table}
    with stream.connector._connect() as connection:  # noqa: SLF001 - as in SQLStream
        found = connection.execute(sa.text(COLUMN_TYPES), values)
        present: dict[str, int] = {row[0]: row[1] for row in found}
    if not present:
        raise LogError(f"Table '{stream.name}' was replaced by another one. {READ_AGAIN}")
    for name, kind in types.items():
        now = present.get(name, kind)
        if now != kind and (kind, now) not in WIDENED:
            raise LogError(
                f"Column '{name}' of table '{stream.name}' had another type at the time of a change"
                f" in the log. {READ_AGAIN}"
            )


def _refuse_truncate(
    tables: Mapping[int, _Table | None], message: Truncate, transaction: Begin
) -> None:
    """Raise `LogError` if a table of a stream was truncated: that deletes rows without records."""
    for oid in message.oids:
        table = tables.get(oid)
        if table is not None and transaction.commit_lsn >= table.start:
            raise LogError(f"Table '{table.stream.name}' was truncated. {READ_AGAIN}")


def _format_lsn(position: int) -> str:
    """Return a position as PostgreSQL writes it, such as ``16/B374D848``."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


def _format_time(microseconds: int) -> str:
    return (EPOCH + timedelta(microseconds=microseconds)).isoformat(timespec="microseconds")
