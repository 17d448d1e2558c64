"""Reader of changes by logical replication, with one slot and one publication for all streams.

The slot is read through SQL functions, so no replication connection is needed. `pgoutput` writes
values as text in the format of the session's settings, and they are converted like those of a
SELECT. All positions are compared with the position of a transaction's commit, as in the server.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import psycopg
import sqlalchemy as sa
from sqlalchemy import exc

from tap_core.exceptions import ConfigurationError, FatalSyncError
from tap_core.sync.change_log import Change, ChangeLog, LogEntry, Position, SchemaUpdate
from tap_postgres.pgoutput import (
    UNCHANGED,
    Begin,
    Delete,
    Insert,
    Message,
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

_Column: TypeAlias = "tuple[int, str, Callable[[bytes], Any]]"
"""Index of a column in a row of the log, its name, and the converter of its values except NULL."""

_Key: TypeAlias = "tuple[str | bytes, ...]"
"""Name of a stream, and the texts of a row's keys."""

LSN = "_sdc_lsn"
"""Property with the position of a record in the log, as an integer."""
DELETED_AT = "_sdc_deleted_at"
"""Property with the time at which a row was deleted, or null."""

EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)
WIDENED = {
    *((21, 23), (21, 20), (23, 20)),  # between integers
    *((number, 1700) for number in (20, 21, 23)),  # from integers to numeric
    *((kind, text) for kind in (20, 21, 23, 25, 1043, 1700, 2950) for text in (25, 1043)),
}
"""Changes of a column's type, as pairs of type OIDs, that do not change the text of a value."""
_PREPARER = sa.make_url("postgresql+psycopg://").get_dialect()().identifier_preparer
WAIT_SECONDS = 0.05
SLOT_SECONDS = 30.0
LOG_SECONDS = 5.0
CHUNK_MESSAGES = 20
"""Number of messages that are received together; a message may have up to one gigabyte."""

# Amazon RDS grants membership in a role instead of the attribute REPLICATION.
SERVER = """
    SELECT current_setting('wal_level'),
        rolreplication OR rolsuper OR EXISTS (SELECT FROM pg_catalog.pg_roles AS granted
            WHERE granted.rolname = 'rds_replication'
            AND pg_has_role(current_user, granted.oid, 'MEMBER')),
        EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'rds_replication'),
        current_user::text
    FROM pg_catalog.pg_roles WHERE rolname = current_user
"""
PUBLICATION = """
    SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate FROM pg_catalog.pg_publication
    WHERE pubname = :publication
"""
# Before version 15 there are no row filters, and no column `rowfilter`.
PUBLISHED = """
    SELECT schemaname::text, tablename::text, to_jsonb(found) ->> 'rowfilter'
    FROM pg_catalog.pg_publication_tables AS found WHERE pubname = :publication
"""
SLOT = """
    SELECT plugin, database = current_database() AS is_here, wal_status, active_pid,
        (confirmed_flush_lsn - '0/0')::bigint AS confirmed
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
DEFERRABLE = """
    SELECT EXISTS (SELECT FROM pg_catalog.pg_index
        WHERE indrelid = CAST(:oid AS oid) AND indisunique AND NOT indimmediate)
"""
INHERITED = """
    SELECT nspname::text, relname::text FROM pg_catalog.pg_class
    JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
    WHERE relkind = 'r' AND EXISTS (SELECT FROM pg_catalog.pg_inherits
        WHERE inhparent = pg_class.oid)
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
    """Raised if the server's log cannot be read, or lacks changes that the tap needs."""


@dataclass(frozen=True)
class _Table:
    """Table of a stream, with the columns of its rows at the current position in the log."""

    stream: PostgresStream
    start: int
    """Position of the stream's first change."""
    columns: tuple[_Column, ...]
    """Columns of a record."""
    keys: tuple[_Column, ...]
    absent: tuple[str, ...]
    """Columns of the stream that the rows in the log do not have."""
    lookup: sa.Select[Any]
    """Query of one row by its keys."""
    written_keys: set[_Key] | None
    """Keys that the transaction has written so far; None if no two rows ever have the same key.

    With a deferrable key, two rows may have the same key until the transaction ends.
    """

    def make_records(
        self, message: Insert | Update | Delete, transaction: Begin
    ) -> Iterator[Record]:
        """Yield the records of a change; an update of the key is a deletion and an insertion."""
        if isinstance(message, Delete):
            yield self._make_removal(message.old, transaction)
            return
        row = message.new
        if isinstance(message, Update) and (old := message.old) is not None:
            row = [
                before if value is UNCHANGED and before is not None else value
                for value, before in zip(row, old, strict=True)
            ]
            if any(row[index] != old[index] for index, _, _ in self.keys):
                yield self._make_removal(old, transaction)
        if self.written_keys is not None:
            self.written_keys.add((self.stream.name, *self._get_key(row)))
        yield self._make_record(row)

    def _make_removal(self, row: Row, transaction: Begin) -> Record:
        """Return the record for a key that a row has left.

        That is a deletion. If the transaction may have given the key to another row before, it is
        the present row of the key, if there is one.
        """
        if self.written_keys and (self.stream.name, *self._get_key(row)) in self.written_keys:
            names = [*(name for _, name, _ in self.columns), *self.absent]
            if row_before := self._look_up(row, names):
                return {**row_before, DELETED_AT: None}
        return self._make_deletion(row, transaction)

    def _make_record(self, row: Row) -> Record:
        """Return the record of a row.

        Raises:
            LogError: A value cannot be converted by its column's present type.
        """
        record: Record = {}
        missing = list(self.absent)
        name = ""
        try:
            for index, name, read in self.columns:
                value = row[index]
                if value is None:
                    record[name] = None
                elif value is UNCHANGED:
                    missing.append(name)
                else:
                    record[name] = read(value)
        except (ValueError, ArithmeticError, LookupError, psycopg.Error):
            raise LogError(
                f"Table '{self.stream.name}' has changes in the log with values that are not of the"
                f" present type of column '{name}'. {READ_AGAIN}"
            ) from None
        if missing:
            record.update(self._look_up(row, missing))
        record[DELETED_AT] = None
        return record

    def _make_deletion(self, row: Row, transaction: Begin) -> Record:
        """Return the record that marks a row as deleted: its keys and the time of the commit."""
        texts = self._get_key(row)
        record = {name: read(text) for (_, name, read), text in zip(self.keys, texts, strict=True)}
        moment = EPOCH + timedelta(microseconds=transaction.committed_at)
        return {**record, DELETED_AT: moment.isoformat(timespec="microseconds")}

    def _look_up(self, row: Row, names: list[str]) -> Record:
        """Return the present values of some columns of a row; empty if the row was deleted.

        If the values were changed after this position, a later change in the log has them, too.
        """
        parameters = {f"key{n}": text.decode() for n, text in enumerate(self._get_key(row))}
        with self.stream.database.connect() as connection:
            options = {"stream_results": False}
            result = connection.execute(self.lookup, parameters, execution_options=options)
            values = result.mappings().one_or_none()
        return {name: values[name] for name in names} if values else {}

    def _get_key(self, row: Row) -> list[bytes]:
        """Return the texts of a row's keys.

        Raises:
            LogError: The row lacks a key.
        """
        texts = [value for index, _, _ in self.keys if isinstance(value := row[index], bytes)]
        if len(texts) < len(self.keys):
            raise LogError(
                f"Table '{self.stream.name}': a change in the log lacks its key. {READ_AGAIN}"
            )
        return texts


class _LogDecoder:
    """Converter of messages to entries of the log.

    A table's columns are looked up at its first change that a stream needs. Earlier changes may be
    those of another table with the same name, and are not needed after the snapshot.

    Args:
        streams: Streams by schema and name of their tables.
        starts: Position of each stream's first change, by its name.
    """

    def __init__(
        self, streams: Mapping[tuple[str, str], PostgresStream], starts: Mapping[str, int]
    ) -> None:
        self._streams = streams
        self._starts = starts
        self._relations: dict[int, Relation] = {}
        self._tables: dict[int, _Table] = {}
        self._transaction = Begin(0, 0)
        self._written_keys: set[_Key] = set()

    def convert(self, message: Message | None, lsn: int) -> Iterator[LogEntry]:
        """Yield the entries of a message that has the position ``lsn``."""
        if isinstance(message, Begin):
            self._transaction = message
            self._written_keys.clear()
            yield Position(message.commit_lsn)
        elif isinstance(message, Relation):
            self._relations[message.oid] = message
            self._tables.pop(message.oid, None)
        elif isinstance(message, Truncate):
            truncated = [stream for oid in message.oids if (stream := self._find_stream(oid))]
            if truncated:
                raise LogError(f"Table '{truncated[0].name}' was truncated. {READ_AGAIN}")
        elif message is not None and (stream := self._find_stream(message.oid)) is not None:
            if message.oid not in self._tables:
                yield from self._add_table(stream, self._relations[message.oid])
            table = self._tables[message.oid]
            for record in table.make_records(message, self._transaction):
                record[LSN] = max(lsn, table.start)  # rows of the snapshot have the start
                yield Change(stream.name, record)

    def _find_stream(self, oid: int) -> PostgresStream | None:
        """Return the stream of a table if it needs the changes of this transaction, else None."""
        relation = self._relations[oid]
        stream = self._streams.get((relation.schema, relation.table))
        if stream is None or self._transaction.commit_lsn < self._starts[stream.name]:
            return None
        return stream

    def _add_table(self, stream: PostgresStream, relation: Relation) -> Iterator[LogEntry]:
        """Add the table of a relation; yield a schema change if the stream's schema lacks one.

        Raises:
            LogError: The replica identity lacks a key, or the table or the type of a column is not
                the one in the log.
        """
        is_deferrable = _check_table(stream, relation)
        if stream.add_columns(column.name for column in relation.columns):
            yield SchemaUpdate(stream.name)
        readers = stream.make_value_readers(
            {
                described_column.name: described_column.type_oid
                for described_column in relation.columns
            }
        )
        columns = {
            column.name: (index, column.name, readers[column.name])
            for index, column in enumerate(relation.columns)
            if column.name in readers
        }
        identity = {column.name for column in relation.columns if column.is_key}
        for key in stream.primary_keys:
            if key not in identity or key not in columns:
                raise LogError(
                    f"Table '{stream.name}': its replica identity lacks the key '{key}': run ALTER"
                    f" TABLE {_quote(*stream.table_name)} REPLICA IDENTITY FULL. {READ_AGAIN}"
                )
        self._tables[relation.oid] = _Table(
            stream=stream,
            start=self._starts[stream.name],
            columns=tuple(columns.values()),
            keys=tuple(columns[key] for key in stream.primary_keys),
            absent=tuple(name for name in readers if name not in columns),
            lookup=stream.build_row_lookup(),
            written_keys=self._written_keys if is_deferrable else None,
        )


def _check_table(stream: PostgresStream, relation: Relation) -> bool:
    """Return True if two rows of a table may have the same key until a transaction ends.

    Raises:
        LogError: The table was replaced, or a type was changed to one of other values.
    """
    values = {"oid": str(relation.oid), "schema": relation.schema, "table": relation.table}
    with stream.database.connect() as connection:
        rows = connection.execute(sa.text(COLUMN_TYPES), values)
        present: dict[str, int] = {row[0]: row[1] for row in rows}
        is_deferrable = connection.scalar(sa.text(DEFERRABLE), values)
    if not present:
        raise LogError(f"Table '{stream.name}' was replaced by another one. {READ_AGAIN}")
    for column in relation.columns:
        now = present.get(column.name, column.type_oid)
        if now != column.type_oid and (column.type_oid, now) not in WIDENED:
            raise LogError(
                f"Column '{column.name}' of table '{stream.name}' had another type at the time of a"
                f" change in the log. {READ_AGAIN}"
            )
    return bool(is_deferrable)


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
    def _connect(self) -> Generator[sa.Connection, None, None]:
        """Connect to the database; each statement is one transaction."""
        with self._connector.connect() as connection:
            yield connection.execution_options(isolation_level="AUTOCOMMIT", stream_results=False)

    # Start of a run

    def begin(self, starts: Mapping[str, int | None]) -> int:
        """Check server, publication and slot, create a missing slot, and return the log's end.

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
        level, may_replicate, is_rds, user = connection.execute(sa.text(SERVER)).one()
        if level != "logical":
            raise ConfigurationError(
                f"LOG_BASED streams need wal_level = logical, but the server has '{level}': set it"
                " in postgresql.conf (on Amazon RDS: rds.logical_replication = 1 in the parameter"
                " group) and restart the server."
            )
        if not may_replicate:
            name = _quote(user)
            remedy = (
                f"GRANT rds_replication TO {name}" if is_rds else f"ALTER ROLE {name} REPLICATION"
            )
            raise ConfigurationError(f"User '{user}' may not read the log: run {remedy}.")

    def _check_tables(self, connection: sa.Connection, names: Mapping[str, Any]) -> None:
        """Check that each table has a key, no child tables, and is in the publication."""
        parents = set(map(tuple, connection.execute(sa.text(INHERITED))))
        for name in names:
            if self.streams[name].table_name in parents:
                raise ConfigurationError(
                    f"Table '{name}' has child tables (INHERITS), whose rows belong to it, but"
                    " whose changes the log has under their own names: read it with the"
                    " replication method FULL_TABLE."
                )
            if not self.streams[name].primary_keys:
                raise ConfigurationError(
                    f"Table '{name}' has no primary key, so its changes cannot be applied: add one,"
                    " or read it with the replication method FULL_TABLE."
                )
        values = {"publication": self._publication}
        is_complete = connection.scalar(sa.text(PUBLICATION), values)
        rows = connection.execute(sa.text(PUBLISHED), values)
        published = {(row[0], row[1]): row[2] for row in rows}
        tables = {name: self.streams[name].table_name for name in names}
        missing = [_quote(*table) for table in tables.values() if table not in published]
        publication = _quote(self._publication)
        if is_complete is None:
            raise ConfigurationError(
                f"There is no publication '{self._publication}': run CREATE PUBLICATION"
                f" {publication} FOR TABLE {', '.join(missing)}."
            )
        if missing:
            raise ConfigurationError(
                f"The publication '{self._publication}' lacks {', '.join(missing)}: run ALTER"
                f" PUBLICATION {publication} ADD TABLE {', '.join(missing)}; a partitioned"
                " table also needs publish_via_partition_root."
            )
        filtered = [_quote(*table) for table in tables.values() if published[table] is not None]
        if filtered:
            raise ConfigurationError(
                f"The publication '{self._publication}' has row filters for {', '.join(filtered)},"
                " so the log lacks changes of these tables: add the tables without WHERE."
            )
        if not is_complete:
            raise ConfigurationError(
                f"The publication '{self._publication}' does not publish all changes: run ALTER"
                f" PUBLICATION {publication} SET (publish = 'insert, update, delete,"
                " truncate')."
            )

    def _check_slot(self, connection: sa.Connection, starts: Mapping[str, int | None]) -> None:
        """Check that the slot has the changes since each start; create it if there is no start."""
        known = {name: start for name, start in starts.items() if start is not None}
        slot = self._find_slot(connection)
        if slot is None:
            if known:
                raise LogError(f"There is no slot '{self._slot}' any more. {READ_AGAIN}")
            self._create_slot(connection)
            return
        if slot.plugin != "pgoutput" or not slot.is_here:
            raise ConfigurationError(
                f"The slot '{self._slot}' is of another plugin or database: choose another name in"
                " replication_slot_name."
            )
        if slot.active_pid is not None:
            raise LogError(
                f"The slot '{self._slot}' is in use by process {slot.active_pid} of the server:"
                " wait until the other run has ended, or choose another name in"
                " replication_slot_name."
            )
        if slot.wal_status == "lost":
            raise LogError(
                f"The server has removed the log that slot '{self._slot}' needs: drop the slot with"
                f" pg_drop_replication_slot and check max_slot_wal_keep_size. {READ_AGAIN}"
            )
        late = [name for name, start in known.items() if start < slot.confirmed]
        if late:
            raise LogError(
                f"The slot '{self._slot}' no longer has the changes of {', '.join(late)} since"
                f" their bookmarks. {READ_AGAIN}"
            )

    def _find_slot(self, connection: sa.Connection) -> sa.Row[Any] | None:
        """Return the row of `SLOT`; wait until the server has released it after a killed run."""
        deadline = time.monotonic() + SLOT_SECONDS
        while True:
            slot = connection.execute(sa.text(SLOT), {"slot": self._slot}).one_or_none()
            if slot is None or slot.active_pid is None or time.monotonic() > deadline:
                return slot
            time.sleep(WAIT_SECONDS)

    def _create_slot(self, connection: sa.Connection) -> None:
        statement = "SELECT pg_catalog.pg_create_logical_replication_slot(:slot, 'pgoutput')"
        self._logger.info("Creating the replication slot '%s'.", self._slot)
        try:
            connection.execute(sa.text(statement), {"slot": self._slot})
        except exc.DBAPIError as error:
            message = str(error.orig).splitlines()[0]
            raise ConfigurationError(
                f"The replication slot '{self._slot}' cannot be created: {message}. Check"
                " max_replication_slots and the name in replication_slot_name."
            ) from None

    def _wait_for_transactions(self, connection: sa.Connection) -> None:
        """Wait for the end of all transactions that are running now.

        A transaction becomes visible to others after its commit was written to the log. A snapshot
        taken between the two would lack its rows, and the log has them before the position of the
        snapshot.
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
        streams = {self.streams[name].table_name: self.streams[name] for name in starts}
        decoder = _LogDecoder(streams, starts)
        with closing(self._read_messages(end)) as messages:  # returns the connection after an error
            for lsn, data in messages:
                message = decode(data)
                if isinstance(message, Begin) and message.commit_lsn >= end:
                    return
                yield from decoder.convert(message, lsn)

    def _read_messages(self, end: int) -> Generator[tuple[int, bytes], None, None]:
        """Yield position and bytes of each message; a few messages at a time are in memory."""
        size = CHUNK_MESSAGES if psycopg.capabilities.has_stream_chunked() else 1
        quoted = '"' + self._publication.replace('"', '""') + '"'
        with self._connector.connect() as connection:
            driver = cast("psycopg.Connection[Any]", connection.connection.driver_connection)
            try:
                with driver.cursor() as cursor:
                    # The statement ends when all messages are read, however slow the target is.
                    cursor.execute("SET LOCAL statement_timeout = 0")
                    values = (self._slot, _format_lsn(end), quoted)
                    yield from cursor.stream(CHANGES, values, binary=True, size=size)
            except psycopg.Error as error:
                reason = str(error).splitlines()[0]
                raise LogError(f"The slot '{self._slot}' cannot be read: {reason}.") from None


def _quote(*names: str) -> str:
    """Return names in SQL, joined by dots, with quotes where they are needed: ``public."Orders"``.

    The server takes a name without quotes in lower case.
    """
    return ".".join(map(_PREPARER.quote, names))


def _format_lsn(position: int) -> str:
    """Return a position as PostgreSQL writes it, such as ``16/B374D848``."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"
