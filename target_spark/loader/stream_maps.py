"""Application of stream maps and flattening to records before they are spooled.

Records of a stream are decoded only if a stream map or flattening changes them. Integers keep all
digits and fractions become decimals, so numbers that no map changes keep their value. An invalid
map raises an error at the stream's SCHEMA message. Names, schemas and keys match those that other
Singer targets produce with the same settings. A record with an unpaired surrogate cannot be
decoded: it is passed to every output stream as a JSON string of its text, and quarantined later.

If several streams are mapped to one output stream, their ACTIVATE_VERSION messages have no effect,
because the versions of one stream must not delete the rows of another stream. Airbyte's states and
statuses of single streams are not supported then.
"""

from __future__ import annotations

import copy
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from tap_core.events import (
    ActivateVersion,
    BatchFiles,
    Checkpoint,
    Event,
    Rows,
    SchemaEvent,
    StreamId,
    StreamStatus,
)
from tap_core.exceptions import InvalidRecord
from tap_core.protocols.singer.writer import encode_body
from tap_core.records.serializer import encode_record
from tap_core.sinks.message_conversion import decode_record
from tap_core.types import JsonSchema, Record
from target_spark.errors import UnsupportedError

if TYPE_CHECKING:
    from tap_core.mapper.plugin_mapper import PluginMapper
    from tap_core.mapper.stream_maps import StreamMap

__all__ = ["StreamMapper"]

logger = logging.getLogger(__name__)

_VERSIONS_STAY: Final = (
    "Stream %s: ACTIVATE_VERSION deletes nothing, because several streams are mapped to this one."
)

_QUOTE: Final = ord('"')
_SCALAR_TYPES: Final = frozenset({"string", "integer", "number", "boolean", "null"})


_Output: TypeAlias = tuple[list[bytes], list[str | None], list[bytes | None]]
"""Three lists with one item per row of an output stream: the rows as JSON, their extraction times,
and the metadata that an Airbyte source added to them."""


@dataclass(frozen=True, slots=True)
class _Route:
    """Mapping of an input stream to one of its output streams.

    Attributes:
        stream: The output stream.
        transform: Function that maps a record, and returns None to drop it. None if the records of
            the stream are not changed.
        map: The stream map that the function belongs to.
    """

    stream: StreamId
    transform: Callable[[Record], Record | None] | None
    map: StreamMap


class StreamMapper:
    """Object that applies stream maps and flattening to the events of the input.

    Args:
        mapper: The compiled stream maps of the settings.
        renamed: Function called with the input name and the output name when a stream is mapped.
    """

    def __init__(
        self,
        mapper: PluginMapper,
        renamed: Callable[[StreamId, StreamId], None] = lambda _old, _new: None,
    ) -> None:
        self._mapper = mapper
        self._renamed = renamed
        self._routes: dict[StreamId, tuple[_Route, ...] | None] = {}
        self._schema_messages: dict[StreamId, SchemaEvent] = {}
        self._sources: defaultdict[StreamId, set[StreamId]] = defaultdict(set)
        self._activated: set[StreamId] = set()
        self._shared_names = mapper.find_shared_names()

    def map_events(self, events: Iterable[Event]) -> Iterator[Event]:
        """Apply the stream maps to a sequence of events and yield the results, in order.

        Raises:
            StreamMapConfigError: A stream map does not fit the schema of its stream.
            MapExpressionError: An expression of a stream map is wrong.
            UnsupportedError: A stream with batch files is mapped, but rows of batch files cannot be
                mapped.
        """
        for event in events:
            if isinstance(event, SchemaEvent):
                yield from self._map_schema(event)
            elif isinstance(event, Checkpoint):
                yield self._map_state(event)
            elif isinstance(event, Rows | ActivateVersion | BatchFiles | StreamStatus):
                routes = self._routes.get(event.stream)
                mapped = [event] if routes is None else _map_event(event, routes)
                yield from filter(self._is_allowed, mapped)
            else:
                yield event

    def _map_schema(self, event: SchemaEvent) -> Iterator[Event]:
        if self._schema_messages.get(event.stream) != event:
            self._routes[event.stream] = self._get_routes(event)
            self._schema_messages[event.stream] = event
        routes = self._routes[event.stream]
        if routes is None:
            self._add_source(event.stream, event.stream)
            yield event
            return
        for route in routes:
            self._add_source(event.stream, route.stream)
            self._renamed(event.stream, route.stream)
            keys = tuple(route.map.transformed_key_properties or ())
            schema = route.map.transformed_schema
            yield SchemaEvent(route.stream, schema, keys, event.cursor, event.nested)

    def _add_source(self, stream: StreamId, output: StreamId) -> None:
        """Record that the input stream ``stream`` is mapped to the output stream ``output``.

        Raises:
            UnsupportedError: Rows of ``output`` may have been deleted, because another stream is
                mapped to it and has sent an ACTIVATE_VERSION message.
        """
        self._sources[output].add(stream)
        if output in self._activated:
            self._check_not_shared(output)

    def _check_not_shared(self, output: StreamId) -> None:
        """Raise an UnsupportedError if several input streams are mapped to ``output``."""
        if len(self._sources[output]) > 1:
            raise UnsupportedError(
                f"Several streams are loaded as {output}, so their versions, states or statuses"
                " cannot be told apart. Set another __alias__ for each of them in stream_maps."
            )

    def _is_allowed(self, event: Event) -> bool:
        """Return False for an ACTIVATE_VERSION message if several streams are mapped to its stream.

        The caller drops such a message, because it would delete rows of the other streams. Return
        True for all other events.

        Raises:
            UnsupportedError: The event is an Airbyte status, and several streams are mapped to its
                stream.
        """
        if isinstance(event, ActivateVersion):
            stream = event.stream
            if stream.name in self._shared_names or len(self._sources[stream]) > 1:
                logger.warning(_VERSIONS_STAY, stream)
                return False
            self._activated.add(stream)
        elif isinstance(event, StreamStatus):
            self._check_not_shared(event.stream)
        return True

    def _map_state(self, event: Checkpoint) -> Checkpoint:
        """Return the state of a single stream with the stream's new name after mapping.

        A state of all streams, or of a stream that is mapped to several output streams, is returned
        unchanged.

        Raises:
            UnsupportedError: Another input stream is mapped to the same output stream.
        """
        routes = self._routes.get(event.scope) if event.scope else None
        renamed = replace(event, scope=routes[0].stream) if routes and len(routes) == 1 else event
        if renamed.scope is not None:
            self._check_not_shared(renamed.scope)
        return renamed

    def _get_routes(self, event: SchemaEvent) -> tuple[_Route, ...] | None:
        """Return one `_Route` for each output stream to which an input stream is mapped.

        ``event`` is the SCHEMA message of the input stream. Return None if the stream keeps its
        name and its records.
        """
        from tap_core.mapper.stream_maps import RemoveRecordTransform

        name, schema = event.stream.name, dict(event.schema)
        self._mapper.register_raw_stream_schema(name, schema, list(event.keys))
        maps = [
            stream_map
            for stream_map in self._mapper.stream_maps[name]
            if not isinstance(stream_map, RemoveRecordTransform)
        ]
        routes = tuple(
            _build_route(event.stream, stream_map, schema, len(maps)) for stream_map in maps
        )
        if len(routes) == 1 and routes[0].transform is None and routes[0].stream == event.stream:
            return None
        return routes


def _build_route(stream: StreamId, map_: StreamMap, schema: JsonSchema, count: int) -> _Route:
    from tap_core.mapper.stream_maps import SameRecordTransform

    output = replace(stream, name=map_.stream_alias)
    is_unchanged = type(map_) is SameRecordTransform
    if is_unchanged and (not map_.flattening_enabled or _is_flat(schema, map_)):
        return _Route(output, None, map_)
    transform = map_.quick_transform
    if map_.may_mutate and count > 1:
        # The maps of the other output streams need the record unchanged.
        return _Route(output, lambda record: transform(copy.deepcopy(record)), map_)
    return _Route(output, transform, map_)


def _is_flat(schema: JsonSchema, map_: StreamMap) -> bool:
    """Return True if flattening would change no record: all declared properties are scalar."""
    if map_.transformed_schema != schema:
        return False
    return all(map(_is_scalar, (schema.get("properties") or {}).values()))


def _is_scalar(schema: Any) -> bool:
    kinds = schema.get("type") if isinstance(schema, Mapping) else None
    kinds = [kinds] if isinstance(kinds, str) else kinds
    return isinstance(kinds, list) and bool(kinds) and _SCALAR_TYPES.issuperset(kinds)


def _map_event(
    event: Rows | ActivateVersion | BatchFiles | StreamStatus, routes: Sequence[_Route]
) -> Iterator[Event]:
    """Yield a copy of an event for each output stream in ``routes``, with its rows mapped.

    Nothing is yielded if the event's stream has no output stream, because its map removes it.
    """
    if isinstance(event, Rows):
        yield from _map_rows(event, routes)
        return
    for route in routes:
        if isinstance(event, BatchFiles) and route.transform is not None:
            raise UnsupportedError(
                f"Stream {event.stream} comes as BATCH messages, and stream_maps or"
                " flattening would change its rows: rows in files are read by Spark and"
                " cannot be mapped. Set stream_maps (or flattening_enabled) in the tap, or"
                " take batch_config out of the tap's settings."
            )
        yield replace(event, stream=route.stream)


def _map_rows(event: Rows, routes: Sequence[_Route]) -> Iterator[Event]:
    """Yield one event with the mapped rows for each output stream in ``routes`` that receives rows.

    If a map fails for a row, the rows before that row are yielded, and then the error is raised.
    """
    extracted_at, meta = event.extracted_at, event.meta
    each_time = (
        repeat(extracted_at)
        if extracted_at is None or isinstance(extracted_at, str)
        else extracted_at
    )
    each_meta = repeat(None) if meta is None else meta
    outputs: list[_Output] = [([], [], []) for _ in routes]
    failure = None
    for body, row_time, row_meta in zip(event.rows, each_time, each_meta, strict=False):
        try:
            bodies = _map_record(routes, body)
        except Exception as error:  # noqa: BLE001  (raised below)
            failure = error
            break
        for mapped, (rows, output_times, output_meta) in zip(bodies, outputs, strict=True):
            if mapped is not None:
                rows.append(mapped)
                output_times.append(row_time)
                output_meta.append(row_meta)
    for route, (rows, output_times, output_meta) in zip(routes, outputs, strict=True):
        if rows:
            output = replace(event, stream=route.stream, rows=rows, extracted_at=output_times)
            yield output if meta is None else replace(output, meta=output_meta)
    if failure is not None:
        raise failure


def _map_record(routes: Sequence[_Route], body: bytes) -> list[bytes | None]:
    """Return the mapped record of each output stream as JSON, or None if the map drops it."""
    try:
        record = None if body[0] == _QUOTE else decode_record(body)
    except InvalidRecord:  # as a JSON string, which is quarantined later
        return [msgspec.json.encode(body.decode())] * len(routes)
    return [_map_for_route(route, body, record) for route in routes]


def _map_for_route(route: _Route, body: bytes, record: Record | None) -> bytes | None:
    if record is None or route.transform is None:
        return body
    mapped = route.transform(record)
    return None if mapped is None else bytes(encode_record(mapped, encode_body))
