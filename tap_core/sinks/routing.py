"""Routing of a stream's records to its sinks, directly or through stream maps.

Routes are determined once per schema. Without stream maps and flattening no mapper is
created, and routing costs nothing. Records of batch files use the same routes.
"""

# ruff: noqa: SLF001  the target updates the private counters of its sinks

from __future__ import annotations

import abc
import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tap_core.batch.encodings import BaseBatchFileEncoding
from tap_core.singerlib.json import serialize_json
from tap_core.sinks.batch_files import BatchFileReader
from tap_core.sinks.manager import SinkManager
from tap_core.types import JsonSchema, Record

if TYPE_CHECKING:
    from tap_core.mapper.plugin_mapper import PluginMapper

__all__ = ["StreamRoute", "StreamRouter"]


@dataclass(frozen=True)
class StreamRoute:
    """Destination of a stream's records: the sink's name and an optional transformation."""

    alias: str
    transform: Callable[[Record], Record | None] | None = None


class StreamRouter(SinkManager, abc.ABC):
    """Base class of targets that applies stream maps before the sinks."""

    _mapper_is_due = False
    """True if the mapper is created on first access."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._routes: dict[str, tuple[StreamRoute, ...]] = {}
        self._raw_schemas: dict[str, tuple[JsonSchema, Sequence[str] | None]] = {}

    def setup_mapper(self) -> None:
        """Create the mapper, or defer it to first use if maps and flattening are not configured."""
        if self.config.get("stream_maps") or self.config.get("flattening_enabled"):
            super().setup_mapper()
        else:
            self._mapper_is_due = True

    @property
    def mapper(self) -> PluginMapper:
        """The stream maps of the target.

        Raises:
            MapperNotInitialized: `setup_mapper` was not called.
        """
        if self._mapper is None and self._mapper_is_due:
            super().setup_mapper()
            for name, (schema, keys) in self._raw_schemas.items():
                super().mapper.register_raw_stream_schema(name, copy.deepcopy(schema), keys)
        return super().mapper

    @mapper.setter
    def mapper(self, mapper: PluginMapper) -> None:
        self._mapper = mapper

    def _register(self, name: str, schema: JsonSchema, keys: Sequence[str] | None) -> None:
        """Create the routes of a stream and their sinks."""
        self._raw_schemas[name] = (copy.deepcopy(schema), keys)
        if self._mapper is None and self._mapper_is_due:
            self._routes[name] = (StreamRoute(name),)
            self.get_sink(name, schema=schema, key_properties=keys)
            return
        self.mapper.register_raw_stream_schema(name, schema, keys)
        maps = self.mapper.stream_maps[name]
        self._routes[name] = tuple(
            StreamRoute(each.stream_alias, _transform(each)) for each in maps
        )
        for each in maps:
            self.get_sink(
                each.stream_alias,
                schema=each.transformed_schema,
                key_properties=each.transformed_key_properties,
            )

    def _get_routes(self, stream_name: str) -> tuple[StreamRoute, ...]:
        routes = self._routes.get(stream_name)
        if routes is None:
            self._assert_sink_exists(stream_name)
            return (StreamRoute(stream_name),)
        return routes

    # Delivery of records

    def _weighs(self, route: StreamRoute) -> bool:
        sink = self._sinks_active.get(route.alias)
        return sink is not None and sink.MAX_BYTES is not None

    def _deliver(
        self,
        routes: tuple[StreamRoute, ...],
        record: Record,
        extracted: str | None,
        version: int | None,
        size: int,
    ) -> None:
        for route in routes:
            mapped: Record | None = record if len(routes) == 1 else dict(record)
            if route.transform is not None:
                mapped = route.transform(dict(record))
            if mapped is None:
                continue
            self._assert_sink_exists(route.alias)
            sink = self.get_sink(route.alias, record=mapped)
            lane = self._get_pipeline(sink)
            if lane.weighs:
                sink._batch_bytes_read += size
            is_full = lane.take(mapped, extracted, version)
            sink.record_counter_metric.increment()
            self._watermark.began(sink)
            if is_full:
                self._drain_full(sink)

    def _take_file(
        self,
        path: str,
        encoding: BaseBatchFileEncoding,
        stream: str,
        routes: tuple[StreamRoute, ...],
        take: Callable[[Record, int], None],
    ) -> None:
        """Pass each record of a file to ``take``, then drain the sinks.

        ``take`` also gets the record's size in bytes, or 0 if no sink limits its batch by bytes.
        """
        sinks = [self.get_sink(route.alias) for route in routes]
        weighs = any(map(self._weighs, routes))
        schema, _ = self._raw_schemas.get(stream, (sinks[0].original_schema, None))
        reader = BatchFileReader(stream, schema, sinks[0].batch_config, sinks[0].batch_limits)
        for record in reader.records(path, encoding):
            if self._is_stopping:
                return
            take(record, len(serialize_json(record)) if weighs else 0)
            self._handle_max_record_age()
        for sink in sinks:
            self.drain_one(sink)


def _transform(stream_map: Any) -> Callable[[Record], Record | None] | None:
    """Return the transformation of a stream map, or None if it does not change records."""
    from tap_core.mapper.stream_maps import SameRecordTransform

    if type(stream_map) is SameRecordTransform and not stream_map.flattening_enabled:
        return None
    transform: Callable[[Record], Record | None] = stream_map.transform
    return transform
