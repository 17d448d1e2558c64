"""A stream's records through its maps: one record in, any number of bodies out.

Rules of the room: what the maps make of a stream is decided once, in its plan. A record
is pruned and conformed as without maps, then each map makes of it a body of its own or
nothing. Where a stream goes out under several names its chunk holds pairs, so that rows
of all names leave together, before any state that covers them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tap_core.events import Describe, StreamId
from tap_core.mapper.maps import (
    CustomStreamMap,
    RemoveRecordTransform,
    SameRecordTransform,
    StreamMap,
)
from tap_core.records.shape import Shape

if TYPE_CHECKING:
    from tap_core.types import BodyEncoder, Record

__all__ = ["Mapped", "descriptions", "filter_of", "is_plain", "map_records"]


@dataclass(frozen=True, slots=True)
class Mapped:
    """The compiled maps of one stream."""

    bodies: Callable[[Record], Sequence[Any]]
    """What a record becomes: bodies, or with several names pairs of number and body."""
    sizes: Callable[[Sequence[Any]], int]
    """The bytes of what `bodies` gave."""
    parts: Callable[[list[Any]], Iterable[tuple[StreamId, list[Any]]]]
    """A chunk by name."""


def is_plain(maps: Sequence[StreamMap], name: str) -> bool:
    """Return True where maps change nothing, not even the name."""
    return (
        len(maps) == 1
        and type(maps[0]) is SameRecordTransform
        and not maps[0].flattening_enabled
        and maps[0].stream_alias == name
    )


def filter_of(maps: Sequence[StreamMap]) -> Callable[[Record], bool] | None:
    """Return what decides whether a record's children are synced: the primary map's filter."""
    primary = maps[0]
    if type(primary) is SameRecordTransform:
        return None
    if isinstance(primary, CustomStreamMap) and not primary.has_filter:
        return None
    return primary.get_filter_result


def descriptions(maps: Sequence[StreamMap], cursor: str | None) -> tuple[Describe, ...]:
    """Return the schemas under which a stream goes out."""
    return tuple(
        Describe(
            StreamId(one.stream_alias),
            one.transformed_schema,
            tuple(one.transformed_key_properties or ()),
            cursor,
        )
        for one in _sent(maps)
    )


def _sent(maps: Sequence[StreamMap]) -> list[StreamMap]:
    return [one for one in maps if not isinstance(one, RemoveRecordTransform)]


def map_records(maps: Sequence[StreamMap], shape: Shape, encoders: Sequence[BodyEncoder]) -> Mapped:
    """Compile the maps of a stream whose records ``shape`` prunes and conforms.

    ``encoders`` take what the maps make, whatever its values are: one for each name under
    which the stream is sent.
    """
    sent = _sent(maps)
    transforms = [one.quick_transform for one in sent]
    names = [StreamId(one.stream_alias) for one in sent]
    if len(sent) == 1:
        return Mapped(
            _one(transforms[0], shape, encoders[0]),
            lambda bodies: len(bodies[0]) if bodies else 0,
            lambda rows: [(names[0], rows)],
        )
    return Mapped(_several(transforms, shape, encoders), _size_of_pairs, _sorter(names))


def _one(
    transform: Callable[[Record], Record | None], shape: Shape, encode: BodyEncoder
) -> Callable[[Record], Sequence[Any]]:
    def bodies(record: Record) -> Sequence[Any]:
        mapped = transform(record if shape.fits(record) else shape(record))
        return () if mapped is None else (encode(mapped),)

    return bodies


def _several(
    transforms: Sequence[Callable[[Record], Record | None]],
    shape: Shape,
    encoders: Sequence[BodyEncoder],
) -> Callable[[Record], Sequence[Any]]:
    def bodies(record: Record) -> Sequence[Any]:
        conformed = record if shape.fits(record) else shape(record)
        mapped = [transform(conformed) for transform in transforms]
        return [
            (number, encode(one))
            for number, (one, encode) in enumerate(zip(mapped, encoders, strict=True))
            if one is not None
        ]

    return bodies


def _size_of_pairs(pairs: Sequence[tuple[int, Any]]) -> int:
    return sum(len(body) for _, body in pairs)


def _sorter(
    names: Sequence[StreamId],
) -> Callable[[list[Any]], Iterable[tuple[StreamId, list[Any]]]]:
    """Return the function that sorts the pairs of a chunk by name."""

    def parts(rows: list[Any]) -> Iterable[tuple[StreamId, list[Any]]]:
        chunks: list[list[Any]] = [[] for _ in names]
        for number, body in rows:
            chunks[number].append(body)
        return [(name, chunk) for name, chunk in zip(names, chunks, strict=True) if chunk]

    return parts
