"""Application of stream maps, which convert one record to encoded rows of any number of streams.

The maps are compiled once, in the sync plan of the stream. Deselected properties are removed from a
record and its values are converted, as without maps. Then each map converts the record to one row
of its output stream, or drops the record. For several output streams, the rows are buffered
together as (index of the output stream, row) pairs. So all are written before a state covers them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tap_core.events import SchemaEvent, StreamId
from tap_core.mapper.stream_maps import (
    CustomStreamMap,
    RemoveRecordTransform,
    SameRecordTransform,
    StreamMap,
)
from tap_core.records.serializer import RecordSerializer

if TYPE_CHECKING:
    from tap_core.types import Record, RecordBodyEncoder

__all__ = [
    "MappedOutput",
    "compile_stream_maps",
    "get_child_filter",
    "is_identity",
    "mapped_schemas",
]


@dataclass(frozen=True, slots=True)
class MappedOutput:
    """Compiled stream maps of one stream: functions that map a record to encoded rows."""

    bodies: Callable[[Record], Sequence[Any]]
    """Function that returns the encoded rows of a record. For several output streams, these are
    (index of the output stream, row) pairs."""
    sizes: Callable[[Sequence[Any]], int]
    """Function that returns the number of bytes of a result of `bodies`."""
    parts: Callable[[list[Any]], Iterable[tuple[StreamId, list[Any]]]]
    """Function that groups buffered rows by output stream."""


def is_identity(maps: Sequence[StreamMap], name: str) -> bool:
    """Return True if stream maps change neither the records nor the name of the stream ``name``."""
    return (
        len(maps) == 1
        and type(maps[0]) is SameRecordTransform
        and not maps[0].flattening_enabled
        and maps[0].stream_alias == name
    )


def get_child_filter(maps: Sequence[StreamMap]) -> Callable[[Record], bool] | None:
    """Return a function that returns True for parent records whose child streams are synced.

    It returns False for records that the first stream map drops. Return None if the first stream
    map drops no records.
    """
    primary = maps[0]
    if type(primary) is SameRecordTransform:
        return None
    if isinstance(primary, CustomStreamMap) and not primary.has_filter:
        return None
    return primary.get_filter_result


def mapped_schemas(maps: Sequence[StreamMap], cursor: str | None) -> tuple[SchemaEvent, ...]:
    """Return the schemas of the output streams that a stream's maps define.

    ``cursor`` is the replication key, or None.
    """
    return tuple(
        SchemaEvent(
            StreamId(stream_map.stream_alias),
            stream_map.transformed_schema,
            tuple(stream_map.transformed_key_properties or ()),
            cursor,
        )
        for stream_map in _select_emitting_maps(maps)
    )


def _select_emitting_maps(maps: Sequence[StreamMap]) -> list[StreamMap]:
    return [stream_map for stream_map in maps if not isinstance(stream_map, RemoveRecordTransform)]


def compile_stream_maps(
    maps: Sequence[StreamMap], conform: RecordSerializer, encoders: Sequence[RecordBodyEncoder]
) -> MappedOutput:
    """Compile the stream maps of a stream to functions that map and encode a record.

    Args:
        maps: Stream maps.
        conform: Function that prepares a record for mapping: it removes deselected properties and
            converts the values.
        encoders: Encoders of the mapped records, one for each output stream.
    """
    emitting = _select_emitting_maps(maps)
    transforms = [stream_map.quick_transform for stream_map in emitting]
    names = [StreamId(stream_map.stream_alias) for stream_map in emitting]
    if len(emitting) == 1:
        return MappedOutput(
            _make_single_mapper(transforms[0], conform, encoders[0]),
            lambda bodies: len(bodies[0]) if bodies else 0,
            lambda rows: [(names[0], rows)],
        )
    return MappedOutput(
        _make_splitting_mapper(transforms, conform, encoders),
        lambda pairs: sum(len(body) for _, body in pairs),
        _make_grouping(names),
    )


def _make_single_mapper(
    transform: Callable[[Record], Record | None],
    conform: RecordSerializer,
    encode: RecordBodyEncoder,
) -> Callable[[Record], Sequence[Any]]:
    def bodies(record: Record) -> Sequence[Any]:
        mapped = transform(record if conform.fits(record) else conform(record))
        return () if mapped is None else (encode(mapped),)

    return bodies


def _make_splitting_mapper(
    transforms: Sequence[Callable[[Record], Record | None]],
    conform: RecordSerializer,
    encoders: Sequence[RecordBodyEncoder],
) -> Callable[[Record], Sequence[Any]]:
    def bodies(record: Record) -> Sequence[Any]:
        conformed = record if conform.fits(record) else conform(record)
        mapped = [transform(conformed) for transform in transforms]
        return [
            (number, encode(result))
            for number, (result, encode) in enumerate(zip(mapped, encoders, strict=True))
            if result is not None
        ]

    return bodies


def _make_grouping(
    names: Sequence[StreamId],
) -> Callable[[list[Any]], Iterable[tuple[StreamId, list[Any]]]]:
    """Return a function that groups encoded rows by output stream.

    The function is called with (index of the output stream in ``names``, row) pairs.
    """

    def parts(rows: list[Any]) -> Iterable[tuple[StreamId, list[Any]]]:
        chunks: list[list[Any]] = [[] for _ in names]
        for number, body in rows:
            chunks[number].append(body)
        return [(name, chunk) for name, chunk in zip(names, chunks, strict=True) if chunk]

    return parts
