"""Writer of events as encoded responses of Fivetran's Update call.

- A response has at most a hundred records and 4 MiB.
- A table is truncated before its first rows or not at all. A schema change is sent before the rows
  that need it.
- A state is sent after the rows that it covers. If rows follow the last state, it is sent again,
  because Fivetran commits rows at a checkpoint.

Source: Fivetran's Partner SDK, connector_sdk.proto, ``UpdateResponse``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tap_core.events import (
    ActivateVersion,
    BatchFiles,
    Checkpoint,
    Event,
    Progress,
    Rows,
    SchemaEvent,
    StreamStatus,
)
from tap_core.exceptions import RecordsWithoutSchemaException, UnsupportedFeatureError
from tap_core.protocols.fivetran import proto_messages
from tap_core.protocols.fivetran.bounded_queue import BoundedByteQueue
from tap_core.protocols.fivetran.columns import TableId, build_columns, resolve_properties
from tap_core.protocols.fivetran.logging import format_count
from tap_core.protocols.fivetran.record_encoder import RecordEncoder, StreamSpec
from tap_core.protocols.fivetran.schema_response import schema_change
from tap_core.protocols.fivetran.selection import TableSelection
from tap_core.protocols.fivetran.tables import SourceTable
from tap_core.protocols.fivetran.varint_encoding import encode_length_delimited
from tap_core.records.conform import UnmappedCallback
from tap_core.types import Record
from tap_core.typing.inspect import TypeConformanceLevel

__all__ = ["UpdateWriter"]

_MAX_RECORDS: Final = 100
_MAX_BYTES: Final = 4 * 1024 * 1024
# Tags of protobuf fields: the field number and the wire type.
_RECORDS_TAG: Final = b"\x32"
_CHECKPOINT_TAG: Final = b"\x1a"
_STATE_TAG: Final = b"\x0a"
_ENCODED_TYPES: Final = {bytes}

_logger = logging.getLogger("fivetran")


@dataclass(slots=True)
class _TableProgress:
    """Progress of one Fivetran table in a sync.

    Attributes:
        table: The table.
        rows: Number of rows that were sent to Fivetran.
        began: Start time of the table, in seconds of `time.monotonic`; 0.0 if it has not started.
        version: Latest Singer table version, from ACTIVATE_VERSION or the rows.
        is_logged: True once the number of rows has been logged.
    """

    table: SourceTable
    rows: int = 0
    began: float = 0.0
    version: int | None = None
    is_logged: bool = False


class UpdateWriter:
    """Writer of a tap's events for one Update call of Fivetran.

    It encodes the events as responses and puts them into a queue, from which they are sent.

    Args:
        queue: Queue for the encoded responses.
        tables: All Fivetran tables of the tap.
        find_selection: Returns the column selection of a table; None if the table is not selected.
        known_tables: Tables whose columns Fivetran knows already; None for all of ``tables``.
        state: State from which the tap resumes.
        state_limit: Maximum bytes of the request that will contain the state. A larger state causes
            a warning.
    """

    takes_files = False
    """False: Fivetran has no messages for files, so rows are always sent as records."""

    chunk_bytes = 512 * 1024
    """Size of a chunk of rows in bytes. Larger chunks need fewer responses."""

    state_seconds = 60.0
    """Maximum seconds between states. Fivetran requires at least one per hour."""

    def __init__(
        self,
        queue: BoundedByteQueue,
        tables: Sequence[SourceTable],
        find_selection: Callable[[TableId], TableSelection | None],
        known_tables: Mapping[TableId, SourceTable] | None,
        state: bytes,
        state_limit: int,
    ) -> None:
        self._queue = queue
        self._find_selection = find_selection
        self._known_tables = (
            {table.id: table for table in tables} if known_tables is None else dict(known_tables)
        )
        self._progress = {table.name: _TableProgress(table) for table in tables}
        self._encoders: dict[str, RecordEncoder] = {}
        self._has_schemas = any(table.id.schema for table in tables)
        self._state = state
        self._state_limit = state_limit
        self._is_state_due = True
        self._is_state_too_large = False
        self._last_state_time = time.monotonic()

    # Interface to the engine

    def encode(self, record: Record) -> Any:
        """Return a record unchanged. `emit` encodes it later, when its table is known.

        This is called for records of RECORD messages that the tap's code writes.
        """
        return record

    def make_encoder(
        self, schema_event: SchemaEvent, level: TypeConformanceLevel, unmapped: UnmappedCallback
    ) -> RecordEncoder:
        """Create the encoder for the records of a stream, or of a copy that a stream map creates.

        Args:
            schema_event: Schema and keys of the stream.
            level: Nesting depth down to which values are converted to the types of the schema.
            unmapped: Called with the names of a record's undeclared properties, which are dropped.
        """
        name = schema_event.stream.name
        table = self._select_columns(self._make_table(schema_event))
        source = StreamSpec(name, resolve_properties(schema_event.schema), level, unmapped)
        encoder = self._encoders[name] = RecordEncoder(table.id, table.columns, source)
        return encoder

    def check(self) -> None:
        """Raise `CallEndedError` if the gRPC call has ended."""
        self._queue.check()

    def emit(self, event: Event) -> None:
        """Encode an event as responses and put them into the queue. Wait while the queue is full.

        Raises:
            UnsupportedFeatureError: The rows are in batch files, which Fivetran does not support.
            CallEndedError: The client has ended the call.
        """
        self.check()
        if isinstance(event, Rows):
            self._write_rows(event)
        elif isinstance(event, Checkpoint):
            self._write_state(event.state)
        elif isinstance(event, SchemaEvent):
            self._write_schema(event)
        elif isinstance(event, ActivateVersion):
            self._write_truncate(event)
        elif isinstance(event, StreamStatus):
            self._record_status(event)
        elif isinstance(event, BatchFiles):
            raise UnsupportedFeatureError(
                f"Stream '{event.stream.name}' writes its rows into files and names these in"
                " BATCH messages. Fivetran's interface has no such message: yield the rows from"
                " get_records()."
            )

    # End of the sync

    def finish(self, state: bytes) -> None:
        """Send the final ``state`` of the sync, unless it was already sent after the last rows."""
        if self._is_state_due or state != self._state:
            self._write_state(state)

    def break_off(self) -> None:
        """End a failed sync: send the last state again if rows were sent after it.

        Fivetran commits rows only when it receives a state.
        """
        if self._is_state_due:
            self._write_state(self._state)

    @property
    def summary(self) -> str:
        """Number of tables and rows as text, such as "2 tables, 1,000 rows"."""
        sent = [
            progress.rows for progress in self._progress.values() if progress.rows or progress.began
        ]
        return f"{format_count(len(sent), 'table')}, {format_count(sum(sent), 'row')}"

    # Rows

    def _write_rows(self, event: Rows) -> None:
        progress = self._get_progress(event.stream.name)
        encoder = self._encoders.get(event.stream.name)
        has_columns = encoder is None or encoder.columns  # else all of them are deselected
        if not event.rows or not has_columns or self._find_selection(progress.table.id) is None:
            return
        bodies: Sequence[bytes] = event.rows
        if set(map(type, bodies)) != _ENCODED_TYPES:  # dicts, in messages of the tap's code
            encode = self._get_encoder(event.stream.name).encode_upsert
            bodies = [encode(row) for row in list[Any](event.rows)]
        for response in _split_records(bodies):
            self._queue.put(response)
        progress.rows += len(bodies)
        if event.version is not None:
            progress.version = event.version
        self._is_state_due = True
        if time.monotonic() - self._last_state_time >= self.state_seconds:
            self._write_state(self._state)

    def _get_encoder(self, name: str) -> RecordEncoder:
        encoder = self._encoders.get(name)
        if encoder is None:
            raise _make_no_schema_error(name)
        return encoder

    # Tables

    def _write_schema(self, event: SchemaEvent) -> None:
        name = event.stream.name
        progress = self._progress.get(name)
        if progress is None:
            progress = self._progress[name] = _TableProgress(self._make_table(event))
        progress.began = progress.began or time.monotonic()
        table = self._select_columns(self._make_table(event))
        if self._find_selection(table.id) is None:
            return
        known = self._known_tables.get(table.id)
        if known is None or table.differs_from(known):
            changed = table if known is None else table.add_previous_columns(known)
            self._known_tables[table.id] = changed
            self._queue.put(schema_change(changed).SerializeToString())
        encoder = self._encoders.get(name)
        if encoder is None or encoder.columns != table.columns:  # the tap's code writes messages
            self.make_encoder(event, TypeConformanceLevel.NONE, lambda _names: None)

    def _make_table(self, schema_event: SchemaEvent) -> SourceTable:
        """Return the Fivetran table of a stream, with the columns of its schema ``schema_event``.

        If the tap has discovered the stream, use the name of the discovered table.
        """
        name, columns = schema_event.stream.name, build_columns(schema_event)
        progress = self._progress.get(name)
        if progress is None:
            schema = (schema_event.stream.namespace or name) if self._has_schemas else None
            return SourceTable(TableId(name, schema), columns, name, name)
        if not any(column.has_record for column in progress.table.columns):
            # A schema without properties here means that all of them were deselected.
            columns = tuple(column for column in columns if not column.has_record)
        return replace(progress.table, columns=columns)

    def _select_columns(self, table: SourceTable) -> SourceTable:
        selection = self._find_selection(table.id)
        return table if selection is None else selection.select_columns(table)

    def _get_progress(self, name: str) -> _TableProgress:
        if name not in self._progress:
            raise _make_no_schema_error(name)
        return self._progress[name]

    def _write_truncate(self, event: ActivateVersion) -> None:
        """Send a TRUNCATE of a table, because an ACTIVATE_VERSION event has a new version.

        If rows of the table were sent already, send a warning instead, as they would be lost.
        """
        progress = self._get_progress(event.stream.name)
        if self._find_selection(progress.table.id) is None or progress.version == event.version:
            return
        progress.version = event.version
        if progress.rows:
            text = (
                f"Table {progress.table.id}: rows that the source no longer has are not removed,"
                " because ACTIVATE_VERSION came after the rows."
            )
            self._write_warning(text)
            return
        encoder = self._get_encoder(event.stream.name)
        self._queue.put(_encode_records([encoder.encode_truncate()]))
        self._is_state_due = True

    def _record_status(self, event: StreamStatus) -> None:
        """Store the start time of a stream's tables or, at its end, log their numbers of rows."""
        for progress in self._progress.values():
            if progress.table.stream != event.stream.name:
                continue
            if event.progress is Progress.STARTED:
                progress.began = time.monotonic()
            elif event.progress is Progress.COMPLETE and not progress.is_logged:
                progress.is_logged = True
                self._log_rows(progress)

    def _log_rows(self, progress: _TableProgress) -> None:
        """Log the number of rows sent for a table and the seconds since its start.

        Tables that the user has not selected are not logged.
        """
        if self._find_selection(progress.table.id) is not None:
            seconds = time.monotonic() - progress.began
            rows = format_count(progress.rows, "row")
            _logger.info("Table %s: %s in %.1f s", progress.table.id, rows, seconds)

    # States

    def _write_state(self, state: bytes) -> None:
        if len(state) > self._state_limit and not self._is_state_too_large:
            self._is_state_too_large = True
            self._write_warning(
                f"The state has {len(state):,} bytes, more than a request may have"
                f" ({self._state_limit:,}): the next sync will be refused, unless the connector is"
                " started with a higher --max-request, and a --max-held of eight times as much."
            )
        self._queue.put(
            encode_length_delimited(_CHECKPOINT_TAG, encode_length_delimited(_STATE_TAG, state))
        )
        self._state = state
        self._is_state_due = False
        self._last_state_time = time.monotonic()

    def _write_warning(self, text: str) -> None:
        response = proto_messages.UpdateResponse(warning=proto_messages.Warning(message=text))
        self._queue.put(response.SerializeToString())


def _split_records(bodies: Sequence[bytes]) -> Iterator[bytes]:
    """Yield encoded responses of an Update call that contain the encoded records ``bodies``.

    Each response has at most 100 records and 4 MiB. A longer record gets a separate response.
    """
    if len(bodies) <= _MAX_RECORDS and sum(map(len, bodies)) <= _MAX_BYTES:
        yield _encode_records(bodies)
        return
    start = size = 0
    for number, body in enumerate(bodies):
        is_full = number - start >= _MAX_RECORDS or size + len(body) > _MAX_BYTES
        if is_full and number > start:
            yield _encode_records(bodies[start:number])
            start, size = number, 0
        size += len(body)
    yield _encode_records(bodies[start:])


def _encode_records(bodies: Sequence[bytes]) -> bytes:
    return encode_length_delimited(_RECORDS_TAG, b"".join(bodies))


def _make_no_schema_error(name: str) -> RecordsWithoutSchemaException:
    return RecordsWithoutSchemaException(
        f"Stream '{name}' has rows but no schema. Write its SCHEMA message before them, or return"
        " the stream in discover_streams."
    )
