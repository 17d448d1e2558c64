"""Routes that connect each stream of a target's input to the sinks that write its records.

The stream maps define the routes. Routes are determined once per schema. Records of batch files use
the same routes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tap_core.types import Record

__all__ = ["StreamRoute", "make_routes"]


@dataclass(frozen=True)
class StreamRoute:
    """Route from a stream of a target's input to one sink.

    Attributes:
        alias: Stream name of the sink. A stream map may have changed it.
        transform: Function that returns a changed record, or None to drop the record. The
            attribute has the value None if records are passed on unchanged.
    """

    alias: str
    transform: Callable[[Record], Record | None] | None = None


def make_routes(stream_maps: Iterable[Any]) -> tuple[StreamRoute, ...]:
    """Return one route for each stream map, to the sink for the output of that map."""
    return tuple(
        StreamRoute(stream_map.stream_alias, _transform(stream_map)) for stream_map in stream_maps
    )


def _transform(stream_map: Any) -> Callable[[Record], Record | None] | None:
    """Return the function of a stream map that changes records; None if it changes nothing."""
    from tap_core.mapper.stream_maps import SameRecordTransform

    if type(stream_map) is SameRecordTransform and not stream_map.flattening_enabled:
        return None
    transform: Callable[[Record], Record | None] = stream_map.transform
    return transform
