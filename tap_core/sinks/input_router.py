"""`InputRouter`: passes the input of a target to the target's overridden methods and its sinks.

A record goes to one sink for each stream map of its stream. If a target overrides a message method
of singer_sdk, that method gets each message as a dict. Otherwise rows go to the sinks directly.
"""

# ruff: noqa: SLF001  the hooks of a target and of a sink have an underscore

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from tap_core.batch.encodings import BaseBatchFileEncoding
from tap_core.batch.limits import FileLimits
from tap_core.compat.author_overrides import is_any_overridden
from tap_core.events import ActivateVersion, BatchFiles, Checkpoint, Event, Rows, SchemaEvent
from tap_core.exceptions import BatchFileError, InvalidJSONSchema, InvalidRecord
from tap_core.limits.memory import InputTooLargeError
from tap_core.singerlib.json import serialize_json
from tap_core.sinks.batch_files import BatchFileReader
from tap_core.sinks.core import Sink
from tap_core.sinks.message_conversion import (
    decode_record,
    decode_state,
    make_batch_message,
    make_record_message,
    make_schema_message,
    make_version_message,
)
from tap_core.sinks.pipeline import RecordPipeline, compile_pipeline
from tap_core.sinks.routing import StreamRoute, make_routes

if TYPE_CHECKING:
    from tap_core.types import JsonSchema, Record

__all__ = ["InputRouter"]


class InputRouter:
    """Router that passes each event of a target's input to the target's methods and sinks.

    It stores the routes of each stream. A route leads to one sink that receives the records.
    """

    def __init__(self, target: Any) -> None:
        self._target = target
        self._schema_events: dict[str, SchemaEvent] = {}
        self._routes: dict[str, tuple[StreamRoute, ...]] = {}
        self._pipelines: dict[Sink, RecordPipeline] = {}

    # Events

    def process_event(self, event: Event, counts: Counter[str]) -> None:
        """Pass an event of the input to its sinks; count its messages by type in ``counts``."""
        target = self._target
        if isinstance(event, Rows):
            counts["RECORD"] += len(event.rows)
            self._process_rows(event)
        elif isinstance(event, Checkpoint):
            counts["STATE"] += 1
            if target._overrides("_process_state_message"):
                message = {"type": "STATE", "value": decode_state(event.state)}
                target._process_state_message(message)
            else:
                target._states.add(event.state)
        elif isinstance(event, SchemaEvent):
            counts["SCHEMA"] += 1
            self._process_schema(event)
        elif isinstance(event, ActivateVersion):
            counts["ACTIVATE_VERSION"] += 1
            target._process_activate_version_message(make_version_message(event))
        elif isinstance(event, BatchFiles):
            counts["BATCH"] += 1
            target._process_batch_message(make_batch_message(event))

    def _process_schema(self, event: SchemaEvent) -> None:
        name = event.stream.name
        is_overridden = self._target._overrides("_process_schema_message")
        if not is_overridden and self._schema_events.get(name) == event:
            return
        self._schema_events[name] = event
        try:
            self._target._process_schema_message(make_schema_message(event))
        except RecursionError:
            raise InvalidJSONSchema(
                f"The schema of stream '{name}' is nested too deeply: let the tap flatten it."
            ) from None

    # Routes

    def register(
        self,
        name: str,
        schema: JsonSchema,
        keys: Sequence[str] | None,
        stream_maps: Iterable[Any] | None,
    ) -> None:
        """Create the sinks of a stream, one per stream map, and route its records to them.

        Without stream maps (None), the stream has one sink, which gets the records unchanged.
        """
        if stream_maps is None:
            self._routes[name] = (StreamRoute(name),)
            self._target.get_sink(name, schema=schema, key_properties=keys)
            return
        self._routes[name] = make_routes(stream_maps)
        for stream_map in stream_maps:
            self._target.get_sink(
                stream_map.stream_alias,
                schema=stream_map.transformed_schema,
                key_properties=stream_map.transformed_key_properties,
            )

    def get_routes(self, stream_name: str) -> tuple[StreamRoute, ...]:
        """Return the routes of a stream; without stream maps, one route to the sink of that name.

        Raises:
            RecordsWithoutSchemaException: The stream has no schema.
        """
        if stream_name in self._routes:
            return self._routes[stream_name]
        self._target._assert_sink_exists(stream_name)
        return (StreamRoute(stream_name),)

    def get_pipeline(self, sink: Sink) -> RecordPipeline:
        """Return the pipeline that processes the records of a sink, compiled at the first call."""
        pipeline = self._pipelines.get(sink)
        if pipeline is None:
            pipeline = self._pipelines[sink] = compile_pipeline(sink)
        return pipeline

    def remove_pipeline(self, sink: Sink) -> None:
        """Remove the compiled pipeline of a sink, because a new sink has replaced the sink."""
        self._pipelines.pop(sink, None)

    # Records

    def _process_rows(self, rows: Rows) -> None:
        target = self._target
        times = cast("Sequence[str | None]", rows.extracted_at)
        if target._overrides("_process_record_message"):
            self._process_rows_by_hook(rows, times)
            return
        routes = self.get_routes(rows.stream.name)
        plain = len(routes) == 1 and routes[0].transform is None
        if plain and not target._overrides("get_sink"):
            self._process_rows_directly(target._sinks_active[routes[0].alias], rows, times)
            return
        signals = target._signals.received
        for body, extracted in zip(rows.rows, times, strict=True):
            if signals:
                return
            try:
                record = decode_record(body)
            except InvalidRecord as error:
                _refuse(error, [target._sinks_active[route.alias] for route in routes])
                continue
            self.deliver(routes, record, extracted, rows.version, len(body))
            target._handle_max_record_age()

    def _process_rows_directly(self, sink: Sink, rows: Rows, times: Sequence[str | None]) -> None:
        """Add rows to one sink; ``times`` contains the extraction time of each row.

        This fast path is for streams without stream maps, if the target overrides no message
        method.
        """
        target = self._target
        pipeline = self.get_pipeline(sink)
        add_record, counts_bytes = pipeline.add_record, pipeline.counts_bytes
        version = rows.version
        watermark = target._states.watermark
        holders = watermark.holders
        clock = time.monotonic
        max_age = target._MAX_RECORD_AGE_IN_MINUTES * 60
        signals = target._signals.received
        count = 0
        try:
            for body, extracted in zip(rows.rows, times, strict=True):
                if signals:  # the process was asked to stop
                    return
                if counts_bytes:
                    sink._batch_bytes_read += len(body)
                try:
                    record = decode_record(body)
                except InvalidRecord as error:
                    _refuse(error, (sink,))
                    continue
                is_full = add_record(record, extracted, version)
                count += 1
                if sink not in holders:
                    watermark.add_holder(sink)
                if is_full:
                    target._drain_full(sink)
                if clock() - target._last_full_drain_at > max_age:
                    target._handle_max_record_age()
        finally:
            sink.record_counter_metric.increment(count)

    def _process_rows_by_hook(self, rows: Rows, times: Sequence[str | None]) -> None:
        signals = self._target._signals.received
        for body, extracted in zip(rows.rows, times, strict=True):
            if signals:
                return
            record = decode_record(body)
            message = make_record_message(rows.stream.name, record, extracted, rows.version)
            self._target._process_record_message(message)

    def process_record(self, message: dict[str, Any]) -> None:
        """Add the record of a RECORD message, passed as a dict, to the sinks of its stream."""
        routes = self.get_routes(message["stream"])
        record = dict(message["record"])
        size = len(serialize_json(record)) if any(map(self._limits_bytes, routes)) else 0
        self.deliver(routes, record, message.get("time_extracted"), message.get("version"), size)
        self._target._handle_max_record_age()

    def deliver(
        self,
        routes: tuple[StreamRoute, ...],
        record: Record,
        extracted: str | None,
        version: int | None,
        size: int,
    ) -> None:
        """Apply stream maps to a record, add it to its sinks, and drain each sink that is full.

        Args:
            routes: Routes of the record's stream, each with a sink and a stream map.
            record: The record. Stream maps change a copy of it.
            extracted: Time of extraction; None if it is unknown.
            version: Table version of the record; None without one.
            size: Size of the record in bytes, for sinks that limit the bytes of a batch.
        """
        target = self._target
        for route in routes:
            mapped: Record | None = record if len(routes) == 1 else dict(record)
            if route.transform is not None:
                mapped = route.transform(dict(record))
            if mapped is None:
                continue
            target._assert_sink_exists(route.alias)
            sink = target.get_sink(route.alias, record=mapped)
            pipeline = self.get_pipeline(sink)
            if pipeline.counts_bytes:
                sink._batch_bytes_read += size
            is_full = pipeline.add_record(mapped, extracted, version)
            sink.record_counter_metric.increment()
            target._states.watermark.add_holder(sink)
            if is_full:
                target._drain_full(sink)

    def _limits_bytes(self, route: StreamRoute) -> bool:
        """Return True if the sink of a route limits the bytes of a batch."""
        sink = self._target._sinks_active.get(route.alias)
        return sink is not None and sink.MAX_BYTES is not None

    # Batch files

    def process_unchecked_batch(self, message: dict[str, Any]) -> None:
        """Check the number of files in a BATCH message, passed as a dict, and load them.

        Such messages come from a message reader that the target's developer has written.

        Raises:
            BatchFileError: The message names more files than ``batch_max_files``.
        """
        target = self._target
        target._assert_line_requires(message, requires={"stream", "manifest"})
        try:
            FileLimits.from_config(target.config).check_manifest(len(message["manifest"]))
        except InputTooLargeError as error:
            raise BatchFileError(f"Stream '{message['stream']}': {error}") from None
        target._process_batch_message(message)

    def process_batch(self, message: dict[str, Any]) -> None:
        """Load the files of a BATCH message, passed as a dict, into the sinks of its stream.

        The sinks are drained first, because they may contain older records.
        """
        target = self._target
        encoding = BaseBatchFileEncoding.from_dict(message["encoding"])
        loaded_here = []
        for route in self.get_routes(message["stream"]):
            sink = target.get_sink(route.alias)
            target.drain_one(sink)
            target._states.release()
            if target._is_stopping:
                return
            is_overridden = is_any_overridden(sink, Sink, "process_batch_files")
            if sink.whole_batch_files or is_overridden:
                sink.process_batch_files(encoding, message["manifest"])
            else:
                loaded_here.append(route)
        if loaded_here:
            self._load_files(encoding, message, tuple(loaded_here))
        target._states.release()
        target._handle_max_record_age()

    def _load_files(
        self,
        encoding: BaseBatchFileEncoding,
        message: dict[str, Any],
        routes: tuple[StreamRoute, ...],
    ) -> None:
        """Add the records in the files of a BATCH message to the sinks of ``routes``.

        The records are processed like those of RECORD messages. The sinks are drained after each
        file.
        """
        target, name, version = self._target, message["stream"], message.get("version")
        is_overridden = target._overrides("_process_record_message")
        limits_bytes = any(map(self._limits_bytes, routes))
        sinks = [target.get_sink(route.alias) for route in routes]
        schema, _ = target._raw_schemas.get(name, (sinks[0].original_schema, None))
        reader = BatchFileReader(name, schema, sinks[0].batch_config, sinks[0].batch_limits)
        for path in message["manifest"]:
            for record in reader.records(path, encoding):
                if target._is_stopping:
                    return
                if is_overridden:
                    target._process_record_message(make_record_message(name, record, None, version))
                else:
                    size = len(serialize_json(record)) if limits_bytes else 0
                    self.deliver(routes, record, None, version, size)
                target._handle_max_record_age()
            for sink in sinks:
                target.drain_one(sink)


def _refuse(error: InvalidRecord, sinks: Sequence[Sink]) -> None:
    """Log that an invalid record is skipped, once for each of its sinks.

    Raises:
        InvalidRecord: A sink does not skip invalid records.
    """
    for sink in sinks:
        sink._refuse(InvalidRecord(error.error_message, {}))
