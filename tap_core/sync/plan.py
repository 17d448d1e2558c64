"""What is known of a stream before its first record, decided once.

Rules of the room: a plan is made from schema, selection and keys, and is thrown away
when one of them changes. A stream runs in the compiled lane unless its class (or the
object itself) overrides a hook that this lane would skip; the output is the same in
both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tap_core.catalog import Breadcrumb, Schema
from tap_core.events import Describe, StreamId
from tap_core.records.conform import warn_once
from tap_core.records.select import selected_schema
from tap_core.records.shape import (
    Shape,
    TypedShape,
    as_body,
    compile_conforming,
    compile_shape,
)
from tap_core.state.key import copied_along, value_finder
from tap_core.sync.limits import spreads, threads_for_children, threads_of
from tap_core.sync.outbox import typed
from tap_core.sync.overrides import is_overridden as is_overridden
from tap_core.sync.overrides import member_of as member_of
from tap_core.typing.inspect import TypeConformanceLevel

if TYPE_CHECKING:
    from tap_core.mapper.maps import StreamMap
    from tap_core.sync.contract import SyncStream
    from tap_core.sync.mapped import Mapped
    from tap_core.sync.run import Run
    from tap_core.types import BodyEncoder, Record

__all__ = [
    "HOOKS",
    "Plan",
    "descriptions_of",
    "id_of",
    "is_key_deselected",
    "is_mapped",
    "is_overridden",
    "member_of",
    "plan_of",
    "transforms_of",
]

HOOKS = (
    "_check_max_record_limit",
    "_finalize_state",
    "_generate_record_messages",
    "_get_state_partition_context",
    "_increment_stream_state",
    "_process_record",
    "_sync_children",
    "_sync_records",
    "_write_record_message",
    "_write_state_message",
    "state_manager",
)
"""Members of a stream that the compiled lane does not call."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One stream, compiled."""

    stream: StreamId
    describes: tuple[Describe, ...]
    """The schemas to send: one, or with stream maps one for each name."""
    shape: Shape
    """Prune and conform a record, and encode it where no map does that."""
    mapped: Mapped | None
    """The stream's maps, where they change anything."""
    keeps: Callable[[Record], bool] | None
    """Whether a record's children are synced; None: all are."""
    compiled: bool
    """False: the stream overrides a hook and runs record by record through it."""
    post_process: bool
    """Whether the stream has a ``post_process`` of its own."""
    child_contexts: bool
    """Whether the stream says its children's contexts, or has children to say them to."""
    key_of: Callable[[Record], Any] | None
    """What finds the replication key in a record; None: it is a property of the record."""
    version: Callable[[], int | None]
    """The table version that rows carry now."""
    threads: int
    """In how many threads its contexts may be synced."""
    child_threads: int
    """In how many threads its children may be synced while it goes on."""
    spreads: bool
    """Whether its contexts are synced elsewhere."""
    child_spreads: bool
    """Whether those of its children are."""

    def parts(self, rows: list[Any]) -> Iterable[tuple[StreamId, list[Any]]]:
        """Sort a chunk by the streams that its rows go out as."""
        return ((self.stream, rows),) if self.mapped is None else self.mapped.parts(rows)


def plan_of(stream: SyncStream) -> Plan:
    """Return the stream's plan for this thread, made now where there is none or it is stale."""
    run = stream._tap.run
    stream = run.own(stream)
    made: tuple[Run, Plan] | None = stream._plan
    if made is None or made[0] is not run:
        made = stream._plan = (run, _compile(stream, run))
    return made[1]


def _compile(stream: SyncStream, run: Run) -> Plan:
    maps = _maps_of(stream)
    describes = _descriptions(stream, maps)
    shape = _shape_of(stream, run, maps, describes)
    mapped: Mapped | None = None
    keeps = None
    if maps is not None:
        from tap_core.sync.mapped import filter_of, map_records

        mapped = map_records(maps, shape, [_body_of(run, described) for described in describes])
        keeps = filter_of(maps)
    below = [one for one in stream.child_streams if one.selected or one.has_selected_descendents]
    return Plan(
        stream=id_of(stream),
        describes=describes,
        shape=shape,
        mapped=mapped,
        keeps=keeps,
        compiled=stream.ABORT_AT_RECORD_COUNT is None
        and not is_overridden(stream, *HOOKS)
        and not is_overridden(stream._tap, "write_message"),
        post_process=is_overridden(stream, "post_process"),
        child_contexts=bool(stream.child_streams)
        or is_overridden(stream, "get_child_context", "generate_child_contexts", "_sync_children"),
        key_of=value_finder(path) if len(path := stream.replication_path) > 1 else None,
        version=lambda: stream._stream_version,
        threads=threads_of(stream) if run.may_lead else 1,
        child_threads=threads_for_children(stream) if run.may_lead else 1,
        spreads=not below and spreads(run, stream),
        child_spreads=spreads(run, *below),
    )


def transforms_of(
    stream: SyncStream,
) -> Sequence[tuple[str, Callable[[Record], Record | None]]]:
    """Return what becomes of a conformed record, by the name that it goes out under."""
    if plan_of(stream).mapped is None:
        return ((stream.name, lambda record: record),)
    return [(one.stream_alias, one.transform) for one in stream.stream_maps]


def _maps_of(stream: SyncStream) -> Sequence[StreamMap] | None:
    """Return the stream's maps, None where there is nothing to map."""
    if not (stream._tap.has_mapper or is_overridden(stream, "stream_maps")):
        return None
    from tap_core.sync.mapped import is_plain

    maps = stream.stream_maps
    return None if is_plain(maps, stream.name) else maps


def descriptions_of(stream: SyncStream) -> tuple[Describe, ...]:
    """Return the schemas that a stream goes out with, one for each name that it has then."""
    return _descriptions(stream, _maps_of(stream))


def is_mapped(stream: SyncStream) -> bool:
    """Tell whether stream maps or flattening change what a stream sends."""
    return _maps_of(stream) is not None


def _shape_of(
    stream: SyncStream,
    run: Run,
    maps: Sequence[StreamMap] | None,
    describes: tuple[Describe, ...],
) -> Shape:
    outlet = typed(run.outlet)
    if outlet is not None and maps is None:
        unmapped = warn_once(stream.name, stream.logger)
        encoder = outlet.encoder_of(describes[0], stream.TYPE_CONFORMANCE_LEVEL, unmapped)
        return TypedShape(encoder.encode, encoder.careful)
    shape = _pruning_shape_of(stream, run, maps)
    if not is_key_deselected(stream):
        return shape
    # What is deselected leaves the author's record, and the bookmark needs this of it.
    path = stream.replication_path
    return Shape(lambda _keys: None, lambda record: shape(copied_along(path, record)), shape.encode)


def _body_of(run: Run, described: Describe) -> BodyEncoder:
    """Return what encodes a record that maps have made; its values were conformed before."""
    outlet = typed(run.outlet)
    if outlet is None:
        return partial(as_body, encode=run.outlet.encode)
    return outlet.encoder_of(described, TypeConformanceLevel.NONE, lambda _names: None).body


def is_key_deselected(stream: SyncStream) -> bool:
    """Tell whether the replication key is not sent: Singer always sends it, Airbyte as asked."""
    crumb: Breadcrumb = ()
    for name in stream.replication_path:
        crumb = (*crumb, "properties", name)
        if not stream.mask[crumb]:
            return True
    return False


def _pruning_shape_of(stream: SyncStream, run: Run, maps: Sequence[StreamMap] | None) -> Shape:
    unmapped = warn_once(stream.name, stream.logger)
    if maps is not None:
        return compile_conforming(
            schema=stream.schema,
            effective_schema=stream.effective_schema,
            mask=stream.mask,
            level=stream.TYPE_CONFORMANCE_LEVEL,
            unmapped=unmapped,
            copies=any(one.may_mutate for one in maps),
        )
    return compile_shape(
        schema=stream.schema,
        effective_schema=stream.effective_schema,
        mask=stream.mask,
        level=stream.TYPE_CONFORMANCE_LEVEL,
        encode=run.outlet.encode,
        unmapped=unmapped,
    )


def _descriptions(stream: SyncStream, maps: Sequence[StreamMap] | None) -> tuple[Describe, ...]:
    if maps is not None or stream._tap.has_own_catalog:
        from tap_core.sync.mapped import descriptions

        if maps is not None:
            return descriptions(maps, stream.replication_key)
        plain = descriptions(stream.stream_maps, stream.replication_key)
        return tuple(replace(each, stream=id_of(stream)) for each in plain)
    declared = stream._input_schema
    if declared is None:  # as in the catalog, without what has no part in validation
        declared = Schema.from_dict(stream.schema).to_dict()
    return (
        Describe(
            id_of(stream),
            selected_schema(declared, stream.mask),
            tuple(stream.primary_keys or ()),
            stream.replication_key,
        ),
    )


def id_of(stream: SyncStream) -> StreamId:
    """Return what names a stream in events."""
    return StreamId(stream.name, stream.namespace)
