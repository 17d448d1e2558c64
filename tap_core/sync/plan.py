"""Sync plan of a stream: functions and flags that are computed once, before its first record.

A plan is compiled from schema, selection and keys, and is discarded when one of them changes. The
fast path is a loop that calls no overridable methods per record. It is used unless the stream's
class, or the object itself, overrides such a method. The output is the same on both paths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from tap_core.events import SchemaEvent, StreamId
from tap_core.records.conform import warn_once
from tap_core.records.prune import prune_schema
from tap_core.records.serializer import (
    RecordSerializer,
    compile_conformer_only,
    compile_record_encoder,
    compile_serializer,
)
from tap_core.records.value_rules import build_object_rule
from tap_core.singerlib.catalog import Breadcrumb, Schema
from tap_core.state.replication_key_path import copy_path, make_getter
from tap_core.sync.concurrency import can_distribute, get_child_thread_count, get_thread_count
from tap_core.sync.override_detection import OVERRIDABLE_HOOKS, is_overridden
from tap_core.sync.stream_selection import get_synced_children
from tap_core.sync.sync_run import ChunkSource
from tap_core.typing.inspect import TypeConformanceLevel

if TYPE_CHECKING:
    from tap_core.mapper.stream_maps import StreamMap
    from tap_core.sync.interfaces import SyncStream
    from tap_core.sync.stream_maps import MappedOutput
    from tap_core.sync.sync_run import SyncRun
    from tap_core.types import Record, RecordBodyEncoder

__all__ = [
    "Plan",
    "get_plan",
    "get_schemas",
    "get_stream_id",
    "get_transforms",
    "is_mapped",
]


@dataclass(frozen=True, slots=True)
class Plan(ChunkSource):
    """Sync plan of one stream: decisions that are made once, before its first record.

    Examples are the compiled record encoder and the number of threads.
    """

    schemas: tuple[SchemaEvent, ...]
    """Schemas to send: one, or with stream maps one for each output stream."""
    serializer: RecordSerializer
    """Function that removes deselected properties from a record, converts its values and, if there
    are no stream maps, encodes it."""
    child_filter: Callable[[Record], bool] | None
    """Function that returns True for records whose children are synced; None to sync all."""
    conform: Callable[[Record], Record]
    """Function that returns a copy of a record for a RECORD message: without deselected properties,
    and with converted values. It is compiled at its first call."""
    uses_fast_path: bool
    """False if the stream overrides a method called per record (see `OVERRIDABLE_HOOKS`)."""
    makes_messages: bool
    """True if message objects are made of the records, for an override of
    ``_generate_record_messages`` or ``Tap.write_message``."""
    post_processes: bool
    """True if the stream overrides ``post_process``."""
    syncs_children: bool
    """True if the stream has children, or overrides the methods that generate their contexts."""
    get_key: Callable[[Record], Any] | None
    """Getter for a nested replication key; None if the key is a top-level property."""
    threads: int
    """Number of threads that may sync the stream's partitions."""
    child_threads: int
    """Number of threads that may sync the stream's children while the stream is read."""
    distributes: bool
    """True if other processes sync the stream's partitions."""
    distributes_children: bool
    """True if other processes sync the stream's children."""


def get_plan(stream: SyncStream) -> Plan:
    """Return the sync plan of a stream for the calling thread; create it at the first call."""
    run = stream._tap.run
    stream = run.get_thread_stream(stream)
    cached: tuple[SyncRun, Plan] | None = stream._sync_plan
    if cached is None or cached[0] is not run:
        cached = stream._sync_plan = (run, _compile_plan(stream, run))
    return cached[1]


def _compile_plan(stream: SyncStream, run: SyncRun) -> Plan:
    maps = _get_maps(stream)
    schemas = _make_schemas(stream, maps)
    serializer = _compile_serializer(stream, run, maps, schemas)
    mapped: MappedOutput | None = None
    child_filter = None
    if maps is not None:
        from tap_core.sync.stream_maps import compile_stream_maps, get_child_filter

        encoders = [_make_body_encoder(run, schema) for schema in schemas]
        mapped = compile_stream_maps(maps, serializer, encoders)
        child_filter = get_child_filter(maps)
    children = get_synced_children(stream)
    makes_messages = is_overridden(stream, "_generate_record_messages") or is_overridden(
        stream._tap, "write_message"
    )
    return Plan(
        stream=get_stream_id(stream),
        schemas=schemas,
        serializer=serializer,
        mapped=mapped,
        child_filter=child_filter,
        conform=_make_conformer(stream),
        uses_fast_path=stream.ABORT_AT_RECORD_COUNT is None
        and not makes_messages
        and not is_overridden(stream, *OVERRIDABLE_HOOKS),
        makes_messages=makes_messages,
        post_processes=is_overridden(stream, "post_process"),
        syncs_children=bool(stream.child_streams)
        or is_overridden(stream, "get_child_context", "generate_child_contexts", "_sync_children"),
        get_key=make_getter(path) if len(path := stream.replication_path) > 1 else None,
        version=lambda: stream._stream_version,
        threads=get_thread_count(stream) if run.may_create_pools else 1,
        child_threads=get_child_thread_count(stream) if run.may_create_pools else 1,
        distributes=not children and can_distribute(run, stream),
        distributes_children=can_distribute(run, *children),
    )


def get_transforms(
    stream: SyncStream, plan: Plan
) -> Sequence[tuple[str, Callable[[Record], Record | None]]]:
    """Return the stream maps of a stream, as (name of the output stream, function) pairs.

    The function is called with a record that has the types of the schema. It returns the mapped
    record, or None to drop it. Without stream maps it returns the record unchanged.
    """
    if plan.mapped is None:
        return ((stream.name, lambda record: record),)
    return [(stream_map.stream_alias, stream_map.transform) for stream_map in stream.stream_maps]


def _get_maps(stream: SyncStream) -> Sequence[StreamMap] | None:
    """Return the stream maps of a stream, or None if they change neither records nor name.

    Skipping maps that change nothing is faster.
    """
    if not (stream._tap.has_mapper or is_overridden(stream, "stream_maps")):
        return None
    from tap_core.sync.stream_maps import is_identity

    maps = stream.stream_maps
    return None if is_identity(maps, stream.name) else maps


def get_schemas(stream: SyncStream) -> tuple[SchemaEvent, ...]:
    """Return the schemas to send for a stream: one for each output stream of its stream maps."""
    return _make_schemas(stream, _get_maps(stream))


def is_mapped(stream: SyncStream) -> bool:
    """Return True if stream maps or flattening change the stream's records, schema or name."""
    return _get_maps(stream) is not None


def _compile_serializer(
    stream: SyncStream,
    run: SyncRun,
    maps: Sequence[StreamMap] | None,
    schemas: tuple[SchemaEvent, ...],
) -> RecordSerializer:
    """Return the serializer of a stream's records, compiled for the output protocol.

    A protocol with typed columns, such as Fivetran, provides the serializer. With stream maps
    (``maps``), the serializer returns records as dicts, which the maps then convert.
    """
    make_encoder = run.outbox.make_encoder
    if make_encoder is not None and maps is None:
        unmapped = warn_once(stream.name, stream.logger)
        return make_encoder(schemas[0], stream.TYPE_CONFORMANCE_LEVEL, unmapped)
    return _keep_key(stream, _compile_pruning_serializer(stream, run, maps))


def _make_body_encoder(run: SyncRun, schema: SchemaEvent) -> RecordBodyEncoder:
    """Return a function that encodes the mapped records of an output stream.

    Their values are not converted to the types of ``schema``.
    """
    make_encoder = run.outbox.make_encoder
    if make_encoder is None:
        return compile_record_encoder(run.protocol_writer.encode)
    return make_encoder(schema, TypeConformanceLevel.NONE, lambda _names: None).serialize


def _compile_pruning_serializer(
    stream: SyncStream, run: SyncRun, maps: Sequence[StreamMap] | None
) -> RecordSerializer:
    if maps is not None:
        return _compile_conformer(stream, copies=any(stream_map.may_mutate for stream_map in maps))
    return compile_serializer(
        schema=stream.effective_schema,
        mask=stream.mask,
        level=stream.TYPE_CONFORMANCE_LEVEL,
        encode=run.protocol_writer.encode,
        unmapped=warn_once(stream.name, stream.logger),
        schema_name=_get_schema_name(stream),
    )


def _compile_conformer(stream: SyncStream, *, copies: bool) -> RecordSerializer:
    return compile_conformer_only(
        schema=stream.effective_schema,
        mask=stream.mask,
        level=stream.TYPE_CONFORMANCE_LEVEL,
        unmapped=warn_once(stream.name, stream.logger),
        copies=copies,
        schema_name=_get_schema_name(stream),
    )


def _get_schema_name(stream: SyncStream) -> str:
    """Return the beginning of an error message about the schema of a stream."""
    origin = "" if stream._input_schema is None else " in the catalog"
    return f"The schema of stream '{stream.name}'{origin}"


def _make_conformer(stream: SyncStream) -> Callable[[Record], Record]:
    """Return the function `Plan.conform` of a stream."""

    @cache
    def compile_once() -> RecordSerializer:
        rule = build_object_rule(stream.effective_schema, stream.TYPE_CONFORMANCE_LEVEL)
        # A hook may change the objects in a message, which must not be those of the tap's record.
        copies = any(each.properties or each.items for each in rule.declared.values())
        return _keep_key(stream, _compile_conformer(stream, copies=copies))

    def conform(record: Record) -> Record:
        conformed = compile_once().serialize(record)
        return dict(record) if conformed is record else conformed

    return conform


def _keep_key(stream: SyncStream, serializer: RecordSerializer) -> RecordSerializer:
    """Return a serializer that does not delete a deselected replication key from the tap's record.

    The bookmark needs the key.
    """
    if not _is_key_deselected(stream):
        return serializer
    path = stream.replication_path
    return RecordSerializer(
        None, lambda record: serializer(copy_path(path, record)), serializer.encode
    )


def _is_key_deselected(stream: SyncStream) -> bool:
    """Return True if the replication key is deselected, so that records are sent without it.

    Under Airbyte a user may deselect the key. Under Singer it is always selected.
    """
    crumb: Breadcrumb = ()
    for name in stream.replication_path:
        crumb = (*crumb, "properties", name)
        if not stream.mask[crumb]:
            return True
    return False


def _make_schemas(stream: SyncStream, maps: Sequence[StreamMap] | None) -> tuple[SchemaEvent, ...]:
    """Return the schemas to send for a stream, from its stream maps, the catalog or its class."""
    if maps is not None or stream._tap.has_own_catalog:
        from tap_core.sync.stream_maps import mapped_schemas

        if maps is not None:
            return mapped_schemas(maps, stream.replication_key)
        schemas = mapped_schemas(stream.stream_maps, stream.replication_key)
        return tuple(replace(schema, stream=get_stream_id(stream)) for schema in schemas)
    declared = stream._input_schema
    if declared is None:  # as in the catalog, which omits keywords that do not affect validation
        declared = Schema.from_dict(stream.schema).to_dict()
    return (
        SchemaEvent(
            get_stream_id(stream),
            prune_schema(declared, stream.mask),
            tuple(stream.primary_keys or ()),
            stream.replication_key,
        ),
    )


def get_stream_id(stream: SyncStream) -> StreamId:
    """Return the identifier of a stream in events: its name and its namespace."""
    return StreamId(stream.name, stream.namespace)
