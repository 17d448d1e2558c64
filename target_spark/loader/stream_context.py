"""What the fold knows of one stream: how it is described and written, and what waits of it.

Rules of the room: only the thread that folds comes here. There may be hundreds of streams
with thousands of columns: of a schema only its layout is kept as it is, the schema itself
packed, and of what it is compared with only a digest.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import zlib
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tap_core.config.similar_names import suggest
from tap_core.events import SchemaEvent, StreamId
from tap_core.exceptions import SchemaNotValidError
from tap_core.schema.references import normalize, resolve_schema_references
from tap_core.types import JsonSchema
from target_spark.columns import DELETED_AT, TableSchema, schema_from_json_schema, undeclared_keys
from target_spark.config.options import LoadOptions, WriteMode
from target_spark.errors import UnsupportedError
from target_spark.loader.table_versions import VersionTracker
from target_spark.storage.spool import Batch, Spool
from target_spark.tables.layout_resolution import add_partition_columns, resolve_layout
from target_spark.tables.model import QUARANTINE, Table, TableLayout

__all__ = [
    "LoadedStream",
    "check_table_conflicts",
    "layout_wanted",
    "normalized_digest",
    "resolve_schema",
    "schema_digest",
]


@dataclass
class LoadedStream:
    """One stream. ``described`` is its description without the schema.

    ``came`` and ``form`` are the `digest` of its description, as it came and in normal form;
    ``packed`` is the schema that its columns are made of. ``held`` are the batches of a
    stream that overwrites, until it is complete; ``remarks`` what could not be as it was
    asked of all streams. ``looked_at`` says that a record was held against its description,
    ``complete`` that its source calls the stream complete; ``received`` counts its rows.
    """

    described: SchemaEvent
    came: bytes
    form: bytes
    packed: bytes
    table: Table
    spool: Spool
    mode: WriteMode
    layout: TableSchema
    design: TableLayout
    hard_delete: bool
    versions: VersionTracker
    versioned: bool = False
    has_rows: bool = False
    looked_at: bool = False
    complete: bool = False
    received: int = 0
    held: list[Batch] = field(default_factory=list)
    remarks: tuple[str, ...] = ()

    @classmethod
    def new(
        cls,
        event: SchemaEvent,
        schema: JsonSchema,
        form: bytes,
        options: LoadOptions,
        spool: Spool,
        versions: VersionTracker,
    ) -> LoadedStream:
        """Make what is known of a stream when it is first described."""
        layout = layout_wanted(options, event, schema, versioned=versions.told)
        design, remarks = resolve_layout(options, event.stream, layout)
        mode = options.mode(event.stream, keyed=bool(event.keys))
        remarks += tuple(_appended(event, mode, options))
        remarks += tuple(_without_cursor(event, layout, options))
        return cls(
            described=replace(event, schema={}),
            came=schema_digest(event),
            form=form,
            packed=_packed(schema),
            table=options.table(event.stream),
            spool=spool,
            mode=mode,
            layout=layout,
            design=design,
            hard_delete=bool(options.of(event.stream).hard_delete),
            versions=versions,
            versioned=versions.told,
            remarks=remarks,
        )

    @property
    def id(self) -> StreamId:
        """Its name."""
        return self.described.stream

    @property
    def schema(self) -> JsonSchema:
        """The schema that its columns are made of, its references followed."""
        schema: JsonSchema = json.loads(zlib.decompress(self.packed))
        return schema

    def described_as(self, event: SchemaEvent, form: bytes) -> None:
        """Note the newest description."""
        self.described, self.came, self.form = replace(event, schema={}), schema_digest(event), form
        self.looked_at = False

    def takes(self, schema: JsonSchema, layout: TableSchema) -> None:
        """Note a schema, and the columns that it and those before it make."""
        self.packed, self.layout = _packed(schema), layout

    @property
    def cursor(self) -> str | None:
        """What feeds the column by which the stream's source is read on."""
        return _find_cursor_column(self.described, self.layout)

    @property
    def removal(self) -> Hashable:
        """The name under which states wait for the end of the rows of other versions."""
        return ("other versions", self.id)

    @property
    def overwrites(self) -> bool:
        """Whether its rows take the place of all others."""
        return self.mode is WriteMode.OVERWRITE

    def wanted(self, options: LoadOptions, event: SchemaEvent, schema: JsonSchema) -> TableSchema:
        """Return the columns that a new description wants."""
        return layout_wanted(options, event, schema, versioned=self.versioned)

    def valid_batches(self) -> tuple[Batch, ...]:
        """Return what a swap puts in: one version's rows if its source announced one."""
        valid = self.versions.activated
        if valid is None or not self.versions.has(valid):
            return tuple(self.held)
        return tuple(batch for batch in self.held if batch.version in {valid, None})

    def mark_deletions(self) -> None:
        """Give the time of a deletion a column, so that such records change nothing else."""
        self.layout = self.layout.with_metadata(DELETED_AT)


def _find_cursor_column(event: SchemaEvent, layout: TableSchema) -> str | None:
    path = event.nested.get(event.cursor) if event.cursor else None
    found = (column.source for column in layout.columns if column.path == path)
    return next(found, event.cursor) if path else event.cursor


def _appended(event: SchemaEvent, mode: WriteMode, options: LoadOptions) -> Iterator[str]:
    """Say that keys do not help where rows are appended all the same."""
    if event.keys and mode is WriteMode.APPEND and not options.can_upsert:
        yield (
            "has keys, but this table format cannot upsert: rows that are sent again"
            " are appended again"
        )


def _without_cursor(event: SchemaEvent, layout: TableSchema, options: LoadOptions) -> Iterator[str]:
    """Say what becomes of rows that are to be told newer or older by a property that is none."""
    cursor = (
        _find_cursor_column(event, layout)
        if layout.keys and options.of(event.stream).by_cursor
        else ""
    )
    if cursor and layout.column_fed_by(cursor) is None:
        yield (
            f"has no column for its cursor {cursor}, which its schema does not declare: of rows"
            " with one key the last that came is the newest"
        )


def schema_digest(event: SchemaEvent) -> bytes:
    """Return what tells a description from every other one."""
    told = [event.schema, event.keys, event.cursor, dict(event.nested)]
    text = json.dumps(told, default=repr)
    return hashlib.sha256(text.encode()).digest()


def _packed(schema: JsonSchema) -> bytes:
    return zlib.compress(json.dumps(schema).encode(), 1)


def resolve_schema(event: SchemaEvent) -> JsonSchema:
    """Return the schema of a stream with its references followed.

    Raises:
        UnsupportedError: one of them leads nowhere.
    """
    with _refusing(event):
        return resolve_schema_references(dict(event.schema), cut_circles=True)


def normalized_digest(event: SchemaEvent, schema: JsonSchema) -> bytes:
    """Return the `digest` of a description in normal form; ``schema`` is what `schema_of` gave.

    Raises:
        UnsupportedError: nobody can walk through it.
    """
    with _refusing(event):
        return schema_digest(replace(event, schema=normalize(schema), cursor=None))


@contextlib.contextmanager
def _refusing(event: SchemaEvent) -> Iterator[None]:
    """Say of which stream a schema is that cannot be used; it may be anything."""
    try:
        yield
    except UnsupportedError:
        raise
    except Exception as error:
        why = str(error) if isinstance(error, SchemaNotValidError) else "It is no JSON Schema"
        why = "It is nested too deeply" if isinstance(error, RecursionError) else why
        raise UnsupportedError(
            f"The schema of stream {event.stream} cannot be followed: {why}. It is the tap"
            " that must mend it."
        ) from error


def check_table_conflicts(stream: LoadedStream, taken: dict[str, StreamId]) -> None:
    """Note where a stream's table and its quarantine are, and refuse what another's is.

    Raises:
        UnsupportedError: one of these places is another stream's.
    """
    for place in (*stream.table.places, *stream.table.beside(QUARANTINE).places):
        other = taken.setdefault(place, stream.id)
        if other != stream.id:
            raise UnsupportedError(
                f"Streams {other} and {stream.id} would share the table {place}. Give one of"
                f" them a table of its own: streams, {stream.id}, table."
            )


_NAMED: Final = 10
"""How many properties an error names."""


def _check_keys(event: SchemaEvent, schema: JsonSchema, keys: Sequence[str]) -> None:
    """Refuse keys that no property has: each row would go to the quarantine for want of them.

    Raises:
        UnsupportedError: names the keys, and what may be meant.
    """
    lost, declared = undeclared_keys(schema, keys, event.nested)
    if not lost:
        return
    faults = [
        f"its schema does not declare the key {key!r}.{suggest(key, declared)}" for key in lost
    ]
    more = f" and {len(declared) - _NAMED} more" if len(declared) > _NAMED else ""
    raise UnsupportedError(
        f"Stream {event.stream}: {' '.join(faults)} It declares"
        f" {', '.join(declared[:_NAMED])}{more}. Mend key_properties (of a manifest:"
        " primary_key) or the schema in the tap; no row under this schema was taken."
    )


def layout_wanted(
    options: LoadOptions, event: SchemaEvent, schema: JsonSchema, *, versioned: bool
) -> TableSchema:
    """Return the columns that a description wants; ``schema`` is what `schema_of` gave.

    Raises:
        UnsupportedError: it cannot be a table.
    """
    mode = options.mode(event.stream, keyed=bool(event.keys))
    columns = replace(options.columns, table_version=versioned, history=mode is WriteMode.SCD2)
    # Of Airbyte's rows those stay that have no key, where no key tells any apart.
    keys = () if columns.airbyte and mode is WriteMode.APPEND else event.keys
    with _refusing(event):
        _check_keys(event, schema, keys)
        try:
            layout = schema_from_json_schema(schema, keys, columns, event.nested)
        except UnsupportedError as error:
            raise UnsupportedError(f"Stream {event.stream}: {error}") from error
    return add_partition_columns(options, event.stream, layout)
