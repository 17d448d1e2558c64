"""Data that the loader keeps about one stream: its schema, write options and open batch.

Only the loader's event thread uses this module. There may be hundreds of streams with thousands of
columns, so the JSON Schema is kept compressed, with a digest for comparisons.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import zlib
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tap_core.config.similar_names import list_names, suggest
from tap_core.events import SchemaEvent, StreamId
from tap_core.exceptions import SchemaNotValidError
from tap_core.schema.references import normalize, resolve_schema_references
from tap_core.types import JsonSchema
from target_spark.columns import (
    DELETED_AT,
    OnSchemaChange,
    TableSchema,
    can_share_batch,
    schema_from_json_schema,
    undeclared_keys,
)
from target_spark.config.options import LoadOptions, WriteMode
from target_spark.errors import UnsupportedError
from target_spark.loader.version_tracker import VersionTracker
from target_spark.storage.spool import Batch, Spool
from target_spark.tables.layout_resolution import reject_empty_partition_values, resolve_layout
from target_spark.tables.table import QUARANTINE, Table, TableLayout

__all__ = [
    "LoadedStream",
    "build_table_schema",
    "check_table_conflicts",
    "compute_normalized_digest",
    "compute_schema_digest",
    "resolve_schema",
]


@dataclass
class LoadedStream:
    """Data that the loader keeps about one stream: schema, table, write mode and open batch.

    Attributes:
        schema_message: The newest SCHEMA message, without its JSON Schema.
        received_digest: Digest of the newest SCHEMA message as received.
        normal_digest: Digest of the newest SCHEMA message after normalization, for comparisons.
        packed_schema: The JSON Schema of the columns, compressed.
        table: The table that the stream is loaded into.
        spool: The open batch: rows that are kept on disk until their commit.
        mode: Append, upsert, overwrite or scd2.
        table_schema: The table schema, merged from all SCHEMA messages.
        layout: Partitioning, clustering and file size of a new table.
        hard_delete: True if a delete record removes the row; False if it sets the row's deletion
            time.
        versions: The table versions that occurred in this run.
        versioned: True if the table has a column for the table version.
        has_rows: True once a row was received.
        is_inspected: True once a record was searched for properties that the newest schema does not
            declare.
        complete: True once a status message has reported that the stream is complete.
        received: Number of rows received.
        waits_for_state: True while the open batch is full but kept open until the next state.
        kept_batches: Closed batches of an overwrite, kept until the stream is complete.
        remarks: Notes for the user about settings that do not apply to this stream.
    """

    schema_message: SchemaEvent
    received_digest: bytes
    normal_digest: bytes
    packed_schema: bytes
    table: Table
    spool: Spool
    mode: WriteMode
    table_schema: TableSchema
    layout: TableLayout
    hard_delete: bool
    versions: VersionTracker
    versioned: bool = False
    has_rows: bool = False
    is_inspected: bool = False
    complete: bool = False
    received: int = 0
    waits_for_state: bool = False
    kept_batches: list[Batch] = field(default_factory=list)
    remarks: tuple[str, ...] = ()

    @classmethod
    def new(
        cls,
        event: SchemaEvent,
        schema: JsonSchema,
        normal_digest: bytes,
        options: LoadOptions,
        spool: Spool,
        versions: VersionTracker,
    ) -> LoadedStream:
        """Create the data about a stream from its first SCHEMA message.

        Args:
            event: The SCHEMA message.
            schema: The JSON Schema of the message, with references resolved.
            normal_digest: The digest of the message, as returned by `compute_normalized_digest`.
            options: The options of the load.
            spool: The stream's open batch, still empty.
            versions: The table versions that occurred so far in this run.
        """
        table_schema = build_table_schema(options, event, schema, versioned=versions.is_versioned)
        layout, remarks = resolve_layout(options, event.stream, table_schema)
        mode = options.mode(event.stream, keyed=bool(event.keys))
        remarks += tuple(_remark_on_append(event, mode, options))
        remarks += tuple(_remark_on_missing_cursor(event, table_schema, options))
        return cls(
            schema_message=replace(event, schema={}),
            received_digest=compute_schema_digest(event),
            normal_digest=normal_digest,
            packed_schema=_compress(schema),
            table=options.table(event.stream),
            spool=spool,
            mode=mode,
            table_schema=table_schema,
            layout=layout,
            hard_delete=bool(options.of(event.stream).hard_delete),
            versions=versions,
            versioned=versions.is_versioned,
            remarks=remarks,
        )

    @property
    def id(self) -> StreamId:
        """The name and namespace of the stream."""
        return self.schema_message.stream

    @property
    def schema(self) -> JsonSchema:
        """The JSON Schema of the columns, with references resolved. Each access decompresses it."""
        schema: JsonSchema = json.loads(zlib.decompress(self.packed_schema))
        return schema

    def set_schema_message(self, event: SchemaEvent, normal_digest: bytes) -> None:
        """Store the newest SCHEMA message and its digest from `compute_normalized_digest`."""
        self.schema_message = replace(event, schema={})
        self.received_digest = compute_schema_digest(event)
        self.normal_digest = normal_digest
        self.is_inspected = False

    def set_schema(self, schema: JsonSchema, table_schema: TableSchema) -> None:
        """Store the newest JSON Schema, and the table schema that covers all schemas so far."""
        self.packed_schema, self.table_schema = _compress(schema), table_schema

    @property
    def cursor(self) -> str | None:
        """Property name of the stream's replication key, or None if the stream has no such key."""
        return _find_cursor_source(self.schema_message, self.table_schema)

    @property
    def deletion_key(self) -> Hashable:
        """Key for the deletion of rows of the stream's old Singer table versions.

        The `Ledger` holds back states under this key until the deletion is committed.
        """
        return ("other versions", self.id)

    @property
    def overwrites(self) -> bool:
        """True if the stream's rows replace all rows of its table."""
        return self.mode is WriteMode.OVERWRITE

    def keep_batch(self, batch: Batch) -> None:
        """Keep a closed batch, and the table schema of its rows, until the stream is complete."""
        self.kept_batches.append(replace(batch, table_schema=self.table_schema))

    def valid_batches(self) -> tuple[Batch, ...]:
        """Return the batches whose rows become the new content of a table that is overwritten.

        Batches of old table versions are left out (see `VersionTracker.is_old`). A batch has a
        table schema of its own if its rows cannot be written with the stream's table schema.
        """
        return tuple(
            replace(batch, table_schema=self._find_older_schema(batch))
            for batch in self.kept_batches
            if not self.versions.is_old(batch.version)
        )

    def _find_older_schema(self, batch: Batch) -> TableSchema | None:
        """Return the table schema of a kept batch, or None if the newest one fits its rows.

        The newest one is also used if the keys have changed, because all rows of an overwrite need
        the newest keys.
        """
        old, new = batch.table_schema, self.table_schema
        if old is None or old is new or (old.keys, old.key_sources) != (new.keys, new.key_sources):
            return None
        return None if can_share_batch(old, new) else old

    def mark_deletions(self) -> None:
        """Add the column ``_sdc_deleted_at`` to the table schema, unless it has this column.

        The column has the time at which a row was deleted, by a delete record or because its table
        version became old.
        """
        self.table_schema = self.table_schema.with_metadata(DELETED_AT)


def compute_schema_digest(event: SchemaEvent) -> bytes:
    """Return the SHA-256 digest of a SCHEMA message: of its schema, keys and replication key.

    If it equals the digest of the stream's newest SCHEMA message, the message changes nothing.
    """
    fields = [event.schema, event.keys, event.cursor, dict(event.nested)]
    text = json.dumps(fields, default=repr)
    return hashlib.sha256(text.encode()).digest()


def compute_normalized_digest(event: SchemaEvent, schema: JsonSchema) -> bytes:
    """Return the SHA-256 digest of a SCHEMA message after normalization of its JSON Schema.

    Messages whose schemas are written differently but mean the same have the same digest. The
    replication key does not affect the digest.

    Args:
        event: The SCHEMA message.
        schema: The result of `resolve_schema` for the message.

    Raises:
        UnsupportedError: The schema cannot be normalized.
    """
    with _name_stream_in_errors(event):
        return compute_schema_digest(replace(event, schema=normalize(schema), cursor=None))


def resolve_schema(event: SchemaEvent) -> JsonSchema:
    """Return the JSON Schema of a SCHEMA message with its references (``$ref``) resolved.

    Raises:
        UnsupportedError: A reference cannot be resolved.
    """
    with _name_stream_in_errors(event):
        return resolve_schema_references(dict(event.schema), cut_circles=True)


def build_table_schema(
    options: LoadOptions, event: SchemaEvent, schema: JsonSchema, *, versioned: bool
) -> TableSchema:
    """Return the table columns and keys that a SCHEMA message requires.

    Args:
        options: The options of the load.
        event: The SCHEMA message.
        schema: The JSON Schema of the message, as returned by `resolve_schema`.
        versioned: True if the table has a column for the table version.

    Raises:
        UnsupportedError: The schema cannot be converted to table columns.
    """
    mode = options.mode(event.stream, keyed=bool(event.keys))
    columns = replace(options.columns, table_version=versioned, history=mode is WriteMode.SCD2)
    # Append mode of Airbyte uses no keys, so that rows without a key value are kept.
    keys = () if columns.airbyte and mode is WriteMode.APPEND else event.keys
    with _name_stream_in_errors(event):
        _check_keys(event, schema, keys)
        try:
            table_schema = schema_from_json_schema(schema, keys, columns, event.nested)
        except UnsupportedError as error:
            raise UnsupportedError(f"Stream {event.stream}: {error}") from error
    policy = options.of(event.stream).on_schema_change or OnSchemaChange.EVOLVE
    table_schema = replace(table_schema, on_change=policy)
    return reject_empty_partition_values(options, event.stream, table_schema)


def check_table_conflicts(
    stream: LoadedStream, owners: dict[str, StreamId], runs_table: Table
) -> None:
    """Check that nothing else uses the table or the quarantine table of a stream.

    Args:
        stream: The stream.
        owners: The stream that uses each table location. The locations of ``stream`` are added.
        runs_table: The table with the statistics of all runs.

    Raises:
        UnsupportedError: Another stream, or the table of runs, uses one of the locations.
    """
    for location in (*stream.table.locations, *stream.table.with_suffix(QUARANTINE).locations):
        if location in runs_table.locations:
            raise UnsupportedError(
                f"Stream {stream.id} cannot be loaded into {location}, the table of runs. Set"
                f" another table for it (streams, {stream.id}, table) or another table_prefix."
            )
        other = owners.setdefault(location, stream.id)
        if other != stream.id:
            raise UnsupportedError(
                f"Streams {other} and {stream.id} would share the table {location}. Set another"
                f" table for one of them: streams, {stream.id}, table."
            )


def _check_keys(event: SchemaEvent, schema: JsonSchema, keys: Sequence[str]) -> None:
    """Check that the JSON Schema of a SCHEMA message declares the properties ``keys``.

    These are the stream's primary keys. Without their values, every row would be quarantined.

    Raises:
        UnsupportedError: A key is not declared; the message suggests similar names.
    """
    undeclared, declared = undeclared_keys(schema, keys, event.nested)
    if not undeclared:
        return
    faults = [
        f"its schema does not declare the key {key!r}.{suggest(key, declared)}"
        for key in undeclared
    ]
    raise UnsupportedError(
        f"Stream {event.stream}: {' '.join(faults)} It declares {list_names(declared)}. Correct"
        " key_properties (of a manifest: primary_key) or the schema in the tap; no row with this"
        " schema was loaded."
    )


@contextlib.contextmanager
def _name_stream_in_errors(event: SchemaEvent) -> Iterator[None]:
    """Context manager: raise any error of the block as an `UnsupportedError` naming the stream."""
    try:
        yield
    except UnsupportedError:
        raise
    except Exception as error:
        reason = str(error) if isinstance(error, SchemaNotValidError) else "It is not a JSON Schema"
        reason = "It is nested too deeply" if isinstance(error, RecursionError) else reason
        raise UnsupportedError(
            f"The schema of stream {event.stream} cannot be resolved: {reason}. Fix the schema in"
            " the tap."
        ) from error


def _find_cursor_source(event: SchemaEvent, table_schema: TableSchema) -> str | None:
    """Return the name of the property with the replication key, or None if there is no such key.

    For a replication key nested in an object, this is a dotted name, such as ``user.id``.
    """
    path = event.nested.get(event.cursor or "")
    if not path:
        return event.cursor
    sources = (column.source for column in table_schema.columns if column.path == path)
    return next(sources, event.cursor)


def _remark_on_append(event: SchemaEvent, mode: WriteMode, options: LoadOptions) -> Iterator[str]:
    """Yield a note for the user if the stream has keys, but the table format cannot upsert.

    The rows of the stream are then appended. Otherwise nothing is yielded.
    """
    if event.keys and mode is WriteMode.APPEND and not options.can_upsert:
        yield (
            "has keys, but this table format cannot upsert: rows that the tap repeats"
            " are appended again"
        )


def _remark_on_missing_cursor(
    event: SchemaEvent, table_schema: TableSchema, options: LoadOptions
) -> Iterator[str]:
    """Yield a note for the user if the schema lacks the replication key that orders the rows.

    This is the case if the schema does not declare the replication key, so that the table has no
    column for it. Otherwise nothing is yielded.
    """
    if not table_schema.keys or not options.of(event.stream).by_cursor:
        return
    cursor = _find_cursor_source(event, table_schema)
    if cursor and table_schema.column_fed_by(cursor) is None:
        yield (
            f"has no column for its cursor {cursor}, which its schema does not declare: of rows"
            " with the same key the last one in the input counts as the newest"
        )


def _compress(schema: JsonSchema) -> bytes:
    return zlib.compress(json.dumps(schema, default=float).encode(), 1)
