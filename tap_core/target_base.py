"""`Target`, base class of Singer targets: settings, sinks and processing of messages.

- Public members and signatures are singer_sdk's (version 0.54).
- To drain a sink means to write its buffered records. A state is emitted as soon as the records of
  all sinks before it are drained, and never earlier.
- After a signal, the running drain is completed, no other is started, and the latest state whose
  records are drained is emitted. A second signal ends the process at once.
- If a schema changes, the old sink is drained after `Sink.setup` of the new sink and before the new
  sink gets a record. Thus a target that truncates its file in `Sink.setup` keeps all records.
- If a drain fails, other drains that have started are completed.
"""

# ruff: noqa: SLF001  the hooks of a sink have an underscore, and the target calls them

from __future__ import annotations

import abc
import copy
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast, final

from tap_core.batch.encodings import BaseBatchFileEncoding
from tap_core.batch.limits import FileLimits
from tap_core.capabilities import (
    ACTIVATE_VERSION_CONFIG,
    ADD_RECORD_METADATA_CONFIG,
    BATCH_CONFIG,
    BATCH_READING_CONFIG,
    TARGET_BATCH_SIZE_ROWS_CONFIG,
    TARGET_LOAD_METHOD_CONFIG,
    TARGET_VALIDATE_RECORDS_CONFIG,
    CapabilitiesEnum,
    PluginCapabilities,
    TargetCapabilities,
)
from tap_core.compat.author_overrides import TargetOverrides
from tap_core.compat.deprecation import deprecated_import
from tap_core.config.loading import merge_missing_config_jsonschema
from tap_core.events import ActivateVersion, BatchFiles, Checkpoint, Event, Rows, SchemaEvent
from tap_core.exceptions import (
    BatchFileError,
    InvalidInputLine,
    InvalidJSONSchema,
    InvalidRecord,
    RecordsWithoutSchemaException,
)
from tap_core.io.stdin import open_binary, read_blocks
from tap_core.limits.memory import InputTooLargeError
from tap_core.plugin_base import CliCommand, PluginBase
from tap_core.protocols.singer.message_reader import SimpleSingerReader, is_default_reader
from tap_core.protocols.singer.reader import SingerReader
from tap_core.singerlib.json import dump_json, serialize_json
from tap_core.sinks.batch_files import BatchFileReader
from tap_core.sinks.core import Sink
from tap_core.sinks.custom_reader import run_custom_reader
from tap_core.sinks.drains import run_in_threads, write_state_line
from tap_core.sinks.message_conversion import (
    batch_message,
    decode_record,
    decode_state,
    record_message,
    schema_message,
    version_message,
)
from tap_core.sinks.pipeline import RecordPipeline, compile_pipeline
from tap_core.sinks.routing import StreamRoute, make_routes
from tap_core.sinks.signal_handling import TerminationSignals
from tap_core.sinks.state_watermark import StateWatermark
from tap_core.types import JsonSchema, Record

if TYPE_CHECKING:
    from pathlib import PurePath
    from types import FrameType

    from tap_core.mapper.plugin_mapper import PluginMapper


__all__ = ["Target"]

_LONGEST_BEAT: Final = 1.0
_MAX_PARALLELISM: Final = 8


class Target(TargetOverrides, PluginBase, abc.ABC):
    """Base class of targets. Define ``name``, ``config_jsonschema`` and ``default_sink_class``."""

    message_reader_class: type[Any] = SimpleSingerReader
    """Class of the message reader; a custom class has ``process_lines(file_input, callbacks)``."""

    default_sink_class: type[Sink]
    """Sink class of all streams, unless `get_sink_class` is overridden."""

    _MAX_RECORD_AGE_IN_MINUTES: float = 5.0
    """Maximum time that a record stays buffered, even while no input arrives."""

    capabilities: ClassVar[Sequence[CapabilitiesEnum]] = [
        PluginCapabilities.ABOUT,
        PluginCapabilities.STREAM_MAPS,
        PluginCapabilities.FLATTENING,
        PluginCapabilities.STRUCTURED_LOGGING,
        TargetCapabilities.VALIDATE_RECORDS,
    ]

    _mapper_is_due = False
    """True if the mapper is created on first access."""

    def __init__(
        self,
        *,
        config: Mapping[str, Any] | PurePath | str | Sequence[PurePath | str] | None = None,
        parse_env_config: bool = False,
        validate_config: bool = True,
        setup_mapper: bool = True,
        message_reader: Any | None = None,
    ) -> None:
        """Load and validate the settings.

        Raises:
            ConfigValidationError: The settings are invalid; ``errors`` lists all faults.
        """
        self._signals = TerminationSignals()
        super().__init__(
            config=config, parse_env_config=parse_env_config, validate_config=validate_config
        )
        self.message_reader = message_reader or self.message_reader_class()
        self._described: dict[str, SchemaEvent] = {}
        self._raw_schemas: dict[str, tuple[JsonSchema, Sequence[str] | None]] = {}
        self._routes: dict[str, tuple[StreamRoute, ...]] = {}
        self._sinks_active: dict[str, Sink] = {}
        self._sinks_to_clear: list[Sink] = []
        self._pipelines: dict[Sink, RecordPipeline] = {}
        self._max_parallelism: int | None = None
        self._watermark: StateWatermark[Sink] = StateWatermark()
        self._newest_state: bytes | None = None
        self._has_ended = False
        self._reset_max_record_age()
        if setup_mapper:
            self.setup_mapper()

    @classmethod
    def append_builtin_config(cls, config_jsonschema: JsonSchema) -> None:
        """Add the built-in settings of the target's capabilities to a config schema, in place."""
        capabilities = cls._built_capabilities()
        for settings, capability in (
            (ADD_RECORD_METADATA_CONFIG, None),
            (TARGET_LOAD_METHOD_CONFIG, None),
            (TARGET_BATCH_SIZE_ROWS_CONFIG, None),
            (ACTIVATE_VERSION_CONFIG, PluginCapabilities.ACTIVATE_VERSION),
            (BATCH_CONFIG, PluginCapabilities.BATCH),
            (BATCH_READING_CONFIG, PluginCapabilities.BATCH),
            (TARGET_VALIDATE_RECORDS_CONFIG, TargetCapabilities.VALIDATE_RECORDS),
        ):
            if capability is None or capability in capabilities:
                merge_missing_config_jsonschema(settings, config_jsonschema)
        super().append_builtin_config(config_jsonschema)

    @classmethod
    def get_singer_command(cls) -> CliCommand:
        """Return the command that runs this target with Singer's command-line options."""
        from tap_core.protocols.singer.cli import target_command

        return target_command(cls, cls.listen)

    # Input

    def listen(self, file_input: Any | None = None) -> int:
        """Process all messages of the input and return the exit code 0.

        ``file_input`` is a binary or text file; the default is standard input.

        Raises:
            InvalidInputLine: A line is not a message. The messages before it have been loaded, and
                their state has been written.
        """
        self._has_ended = False
        with self._signals.deferred():
            try:
                counts = self.process_lines(file_input)
            except InvalidInputLine:
                self.drain_all()
                raise
            if not self._is_stopping:
                self.logger.info("End of input: %s.", _format_counts(counts))
                self.process_endofpipe()
            if self._is_stopping:
                self._wind_up()
        return 0

    @final
    def process_lines(self, file_input: Any | None = None) -> Counter[str]:
        """Process all messages of the input; return the number of messages by type."""
        if not is_default_reader(self.message_reader):
            return self._run_custom_reader(self.message_reader, file_input)
        counts: Counter[str] = Counter()
        decoder = SingerReader(limits=FileLimits.from_config(self.config))
        with self._signals.deferred() as wake_up:
            for block in read_blocks(open_binary(file_input), wake_up, self._heartbeat_seconds):
                self._process_events(decoder.feed(block) if block else (), counts)
                if self._is_stopping:
                    return counts
                self._handle_max_record_age()
            self._process_events(decoder.close(), counts)
        return counts

    def _process_events(self, events: Iterable[Event], counts: Counter[str]) -> None:
        for event in events:
            self._process_event(event, counts)
            if self._is_stopping:
                return

    def _process_event(self, event: Event, counts: Counter[str]) -> None:
        if isinstance(event, Rows):
            counts["RECORD"] += len(event.rows)
            self._process_rows(event)
        elif isinstance(event, Checkpoint):
            counts["STATE"] += 1
            self._process_state_event(event)
        elif isinstance(event, SchemaEvent):
            counts["SCHEMA"] += 1
            self._process_schema_event(event)
        elif isinstance(event, ActivateVersion):
            counts["ACTIVATE_VERSION"] += 1
            self._process_activate_version_message(version_message(event))
        elif isinstance(event, BatchFiles):
            counts["BATCH"] += 1
            self._process_batch_message(batch_message(event))

    def _run_custom_reader(self, reader: Any, file_input: Any | None) -> Counter[str]:
        """Process the messages that a custom ``message_reader`` reads; return counts by type."""
        callbacks = {
            "SCHEMA": self._process_schema_message,
            "RECORD": self._process_record_message,
            "STATE": self._process_state_message,
            "ACTIVATE_VERSION": self._process_activate_version_message,
            "BATCH": self._process_unchecked_batch_message,
        }
        return run_custom_reader(reader, file_input, callbacks, self._signals)

    @property
    def _heartbeat_seconds(self) -> float:
        return min(_LONGEST_BEAT, max(0.01, self._MAX_RECORD_AGE_IN_MINUTES * 60 / 4))

    def _overrides(self, hook: str) -> bool:
        """Return True if the target's class overrides the method named ``hook``."""
        return getattr(type(self), hook) is not getattr(Target, hook)

    def _assert_line_requires(self, message_dict: dict[str, Any], requires: set[str]) -> None:
        missing = requires - message_dict.keys()
        if missing:
            names = ", ".join(sorted(missing))
            raise InvalidInputLine(f"Line is missing required {names} key(s): {message_dict}")

    # Stream maps and schemas

    def setup_mapper(self) -> None:
        """Create the stream maps, or if no setting needs them, delay it until `mapper` is read."""
        if self.config.get("stream_maps") or self.config.get("flattening_enabled"):
            super().setup_mapper()
        else:
            self._mapper_is_due = True

    @property
    def mapper(self) -> PluginMapper:
        """Stream maps of the target.

        Raises:
            MapperNotInitialized: `setup_mapper` has not been called.
        """
        if self._mapper is None and self._mapper_is_due:
            super().setup_mapper()
            for name, (schema, keys) in self._raw_schemas.items():
                super().mapper.register_raw_stream_schema(name, copy.deepcopy(schema), keys)
        return super().mapper

    @mapper.setter
    def mapper(self, mapper: PluginMapper) -> None:
        self._mapper = mapper

    def _process_schema_event(self, event: SchemaEvent) -> None:
        name = event.stream.name
        own = self._overrides("_process_schema_message")
        if not own and self._described.get(name) == event:
            return
        self._described[name] = event
        try:
            self._process_schema_message(schema_message(event))
        except RecursionError:
            raise InvalidJSONSchema(
                f"The schema of stream '{name}' is nested too deeply: let the tap flatten it."
            ) from None

    def _process_schema_message(self, message_dict: dict[str, Any]) -> None:
        """Create the sinks for a SCHEMA message, or replace them if schema or keys have changed."""
        self._assert_line_requires(message_dict, requires={"stream", "schema"})
        self._assert_line_requires(message_dict["schema"], requires={"properties"})
        name, schema = message_dict["stream"], message_dict["schema"]
        keys = message_dict.get("key_properties")
        if self._raw_schemas.get(name) == (schema, keys):
            return
        if name in self._raw_schemas:
            self.logger.info("Schema or key properties have changed for stream '%s'.", name)
        self._register(name, schema, keys)

    def _register(self, name: str, schema: JsonSchema, keys: Sequence[str] | None) -> None:
        """Create the sinks of a stream, one per stream map, and route its records to them."""
        self._raw_schemas[name] = (copy.deepcopy(schema), keys)
        if self._mapper is None and self._mapper_is_due:
            self._routes[name] = (StreamRoute(name),)
            self.get_sink(name, schema=schema, key_properties=keys)
            return
        self.mapper.register_raw_stream_schema(name, schema, keys)
        maps = self.mapper.stream_maps[name]
        self._routes[name] = make_routes(maps)
        for stream_map in maps:
            self.get_sink(
                stream_map.stream_alias,
                schema=stream_map.transformed_schema,
                key_properties=stream_map.transformed_key_properties,
            )

    def _get_routes(self, stream_name: str) -> tuple[StreamRoute, ...]:
        routes = self._routes.get(stream_name)
        if routes is None:
            self._assert_sink_exists(stream_name)
            return (StreamRoute(stream_name),)
        return routes

    # Records

    def _process_rows(self, rows: Rows) -> None:
        times = cast(Sequence[str | None], rows.extracted_at)
        if self._overrides("_process_record_message"):
            self._process_rows_by_hook(rows, times)
            return
        routes = self._get_routes(rows.stream.name)
        plain = len(routes) == 1 and routes[0].transform is None
        if plain and not self._overrides("get_sink"):
            self._process_rows_directly(self._sinks_active[routes[0].alias], rows, times)
            return
        signals = self._signals.received
        for body, extracted in zip(rows.rows, times, strict=True):
            if signals:
                return
            try:
                record = decode_record(body)
            except InvalidRecord as error:
                _refuse(error, [self._sinks_active[route.alias] for route in routes])
                continue
            self._deliver(routes, record, extracted, rows.version, len(body))
            self._handle_max_record_age()

    def _process_rows_directly(self, sink: Sink, rows: Rows, times: Sequence[str | None]) -> None:
        """Add rows to one sink. This is fast, because checks are made once, not per row."""
        pipeline = self._get_pipeline(sink)
        take, weighs, version = pipeline.take, pipeline.weighs, rows.version
        holders, clock = self._watermark.holders, time.monotonic
        most = self._MAX_RECORD_AGE_IN_MINUTES * 60
        count, signals = 0, self._signals.received
        try:
            for body, extracted in zip(rows.rows, times, strict=True):
                if signals:
                    return
                if weighs:
                    sink._batch_bytes_read += len(body)
                try:
                    record = decode_record(body)
                except InvalidRecord as error:
                    _refuse(error, (sink,))
                    continue
                is_full = take(record, extracted, version)
                count += 1
                if sink not in holders:
                    self._watermark.add_holder(sink)
                if is_full:
                    self._drain_full(sink)
                if clock() - self._last_full_drain_at > most:
                    self._handle_max_record_age()
        finally:
            sink.record_counter_metric.increment(count)

    def _process_rows_by_hook(self, rows: Rows, times: Sequence[str | None]) -> None:
        signals = self._signals.received
        for body, extracted in zip(rows.rows, times, strict=True):
            if signals:
                return
            record = decode_record(body)
            message = record_message(rows.stream.name, record, extracted, rows.version)
            self._process_record_message(message)

    def _process_record_message(self, message_dict: dict[str, Any]) -> None:
        """Add the record of a RECORD message to the sinks of its stream."""
        self._assert_line_requires(message_dict, requires={"stream", "record"})
        routes = self._get_routes(message_dict["stream"])
        record = dict(message_dict["record"])
        size = len(serialize_json(record)) if any(map(self._weighs, routes)) else 0
        extracted, version = message_dict.get("time_extracted"), message_dict.get("version")
        self._deliver(routes, record, extracted, version, size)
        self._handle_max_record_age()

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
            pipeline = self._get_pipeline(sink)
            if pipeline.weighs:
                sink._batch_bytes_read += size
            is_full = pipeline.take(mapped, extracted, version)
            sink.record_counter_metric.increment()
            self._watermark.add_holder(sink)
            if is_full:
                self._drain_full(sink)

    def _weighs(self, route: StreamRoute) -> bool:
        sink = self._sinks_active.get(route.alias)
        return sink is not None and sink.MAX_BYTES is not None

    # Batch files and versions

    def _process_unchecked_batch_message(self, message_dict: dict[str, Any]) -> None:
        """Check the number of files in a BATCH message of a custom reader, and process the message.

        Raises:
            BatchFileError: The message names more files than ``batch_max_files``.
        """
        self._assert_line_requires(message_dict, requires={"stream", "manifest"})
        try:
            FileLimits.from_config(self.config).check_manifest(len(message_dict["manifest"]))
        except InputTooLargeError as error:
            raise BatchFileError(f"Stream '{message_dict['stream']}': {error}") from None
        self._process_batch_message(message_dict)

    def _process_batch_message(self, message_dict: dict[str, Any]) -> None:
        """Drain the sinks of a BATCH message's stream, then load the batch files into them."""
        self._assert_line_requires(message_dict, requires={"stream", "encoding", "manifest"})
        encoding = BaseBatchFileEncoding.from_dict(message_dict["encoding"])
        routes = self._get_routes(message_dict["stream"])
        taken = []
        for route in routes:
            sink = self.get_sink(route.alias)
            self.drain_one(sink)
            self._release()
            if self._is_stopping:
                return
            if sink.whole_batch_files or _reads_files(sink):
                sink.process_batch_files(encoding, message_dict["manifest"])
            else:
                taken.append(route)
        if taken:
            self._take_files(encoding, message_dict, tuple(taken))
        self._release()
        self._handle_max_record_age()

    def _take_files(
        self,
        encoding: BaseBatchFileEncoding,
        message: dict[str, Any],
        routes: tuple[StreamRoute, ...],
    ) -> None:
        """Add the records in batch files to sinks, as if they came in RECORD messages."""
        name, version = message["stream"], message.get("version")
        own = self._overrides("_process_record_message")

        def take(record: Record, size: int) -> None:
            if own:
                self._process_record_message(record_message(name, record, None, version))
            else:
                self._deliver(routes, record, None, version, size)

        for path in message["manifest"]:
            self._take_file(path, encoding, name, routes, take)

    def _take_file(
        self,
        path: str,
        encoding: BaseBatchFileEncoding,
        stream: str,
        routes: tuple[StreamRoute, ...],
        take: Callable[[Record, int], None],
    ) -> None:
        """Pass each record of a batch file to ``take``, then drain the sinks.

        The second argument of ``take`` is the record's size in bytes, or 0 if no sink limits bytes.
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

    def _process_activate_version_message(self, message_dict: dict[str, Any]) -> None:
        """Drain the sinks of an ACTIVATE_VERSION message's stream, then activate the version."""
        for route in self._get_routes(message_dict["stream"]):
            sink = self.get_sink(route.alias)
            if not sink.process_activate_version_messages:
                self.logger.warning(
                    "`ACTIVATE_VERSION` messages are not enabled for '%s'. Ignoring.", route.alias
                )
                continue
            if not sink.include_sdc_metadata_properties:
                self.logger.warning(
                    "`ACTIVATE_VERSION` needs the columns `_sdc_deleted_at` and"
                    " `_sdc_table_version`, which '%s' has only with `add_record_metadata`.",
                    sink.stream_name,
                )
            self.drain_one(sink)
            self._release()
            if not self._is_stopping:
                sink.activate_version(message_dict["version"])

    # Sinks

    @property
    def max_parallelism(self) -> int:
        """Maximum number of sinks that are drained in parallel; 8 by default."""
        return _MAX_PARALLELISM if self._max_parallelism is None else self._max_parallelism

    @max_parallelism.setter
    def max_parallelism(self, new_value: int) -> None:
        self._max_parallelism = new_value

    def get_sink(
        self,
        stream_name: str,
        *,
        record: Record | None = None,  # noqa: ARG002  for authors who choose by it
        schema: JsonSchema | None = None,
        key_properties: Sequence[str] | None = None,
    ) -> Sink:
        """Return the sink of a stream, and create or replace the sink if necessary.

        If ``schema`` is passed, a new sink is created if the stream has none, or if the schema or
        the keys differ. A replaced sink is drained after the new sink is set up, and cleaned up at
        the end of the run.

        Raises:
            KeyError: The stream has no sink, and ``schema`` is None.
        """
        if schema is None:
            return self._sinks_active[stream_name]
        existing = self._sinks_active.get(stream_name)
        if existing is None:
            return self.add_sink(stream_name, schema, key_properties)
        same_keys = existing.key_properties == key_properties
        if existing.original_schema == schema and same_keys:
            return existing
        self.logger.info(
            "Schema or key properties for '%s' stream have changed. Initializing a new sink...",
            stream_name,
        )
        successor = self._made(stream_name, schema, key_properties)
        self._retire(existing)
        self._sinks_active[stream_name] = successor
        return successor

    def _retire(self, sink: Sink) -> None:
        """Drain a sink that has been replaced. It is cleaned up at the end of the run."""
        self.drain_one(sink)
        self._release()
        self._pipelines.pop(sink, None)
        self._sinks_to_clear.append(sink)

    def get_sink_class(self, stream_name: str) -> type[Sink]:
        """Return the sink class of a stream, by default `default_sink_class`.

        Raises:
            ValueError: `default_sink_class` is not set.
        """
        found: type[Sink] | None = getattr(self, "default_sink_class", None)
        if found is None:
            raise ValueError(
                f"No sink class defined for '{stream_name}': set default_sink_class or override"
                " get_sink_class()."
            )
        return found

    def sink_exists(self, stream_name: str) -> bool:
        """Return True if the stream with this name has a sink."""
        return stream_name in self._sinks_active

    @final
    def add_sink(
        self,
        stream_name: str,
        schema: JsonSchema,
        key_properties: Sequence[str] | None = None,
    ) -> Sink:
        """Create a sink for a stream, call its ``setup()``, and return it."""
        sink = self._sinks_active[stream_name] = self._made(stream_name, schema, key_properties)
        return sink

    def _made(
        self, stream_name: str, schema: JsonSchema, key_properties: Sequence[str] | None
    ) -> Sink:
        sink_class = self.get_sink_class(stream_name=stream_name)
        sink = sink_class(
            target=self, stream_name=stream_name, schema=schema, key_properties=key_properties
        )
        try:
            sink.setup()
        except Exception:
            self.logger.error("Error initializing the sink of '%s'", stream_name)  # noqa: TRY400
            raise
        return sink

    def _assert_sink_exists(self, stream_name: str) -> None:
        if not self.sink_exists(stream_name):
            raise RecordsWithoutSchemaException(
                f"A record for stream '{stream_name}' was encountered before a corresponding"
                " schema. A tap must send a SCHEMA message first."
            )

    def _get_pipeline(self, sink: Sink) -> RecordPipeline:
        pipeline = self._pipelines.get(sink)
        if pipeline is None:
            pipeline = self._pipelines[sink] = compile_pipeline(sink)
        return pipeline

    # Drains

    def process_endofpipe(self) -> None:
        """Drain and clean up all sinks, at the end of the input."""
        self.drain_all(is_endofpipe=True)

    @final
    def drain_all(self, *, is_endofpipe: bool = False) -> None:
        """Drain all sinks, that is, write their buffered records; then emit the state.

        If ``is_endofpipe`` is True, clean up the sinks too. If a drain fails, complete the drains
        that have started, and emit the state of the written records before raising the error.
        """
        try:
            self._drain_all(self._sinks_to_clear, 1)
            self._drain_all(self._sinks_active.values(), self.max_parallelism)
            if is_endofpipe:
                self._clean_up()
        finally:
            self._release()
        self._reset_max_record_age()

    @final
    def drain_one(self, sink: Sink) -> None:
        """Write the buffered records of a sink, unless it is empty or the target is stopping."""
        if sink.current_size == 0 or self._is_stopping:
            return
        context = sink.start_drain()
        with sink.batch_processing_timer:
            sink.process_batch(context)
        sink.mark_drained()
        self._watermark.remove_holder(sink)

    def _drain_all(self, sink_list: Iterable[Sink], parallelism: int) -> None:
        run_in_threads(
            self.drain_one, [sink for sink in sink_list if sink.current_size], parallelism
        )

    def _drain_full(self, sink: Sink) -> None:
        self.logger.info(
            "Target sink for '%s' is full. Current size is '%s'. Draining...",
            sink.stream_name,
            sink.current_size,
        )
        self.drain_one(sink)
        self._release()

    def _clean_up(self) -> None:
        self._has_ended = True
        for sink in [*self._sinks_to_clear, *self._sinks_active.values()]:
            sink.clean_up()
        self._sinks_to_clear = []

    @property
    def _max_record_age_in_minutes(self) -> float:
        return (time.monotonic() - self._last_full_drain_at) / 60

    def _reset_max_record_age(self) -> None:
        self._last_full_drain_at = time.monotonic()

    def _handle_max_record_age(self) -> None:
        """Drain all sinks if records have been buffered for longer than the maximum age."""
        if not any(sink.current_size for sink in self._watermark.holders):
            self._reset_max_record_age()
        elif self._max_record_age_in_minutes > self._MAX_RECORD_AGE_IN_MINUTES:
            self.logger.info(
                "One or more records have exceeded the max age of %g minutes. Draining all sinks.",
                self._MAX_RECORD_AGE_IN_MINUTES,
            )
            self.drain_all()

    # States

    def _process_state_event(self, event: Checkpoint) -> None:
        if self._overrides("_process_state_message"):
            self._process_state_message({"type": "STATE", "value": decode_state(event.state)})
        else:
            self._keep_state(event.state)

    def _process_state_message(self, message_dict: dict[str, Any]) -> None:
        """Store the state of a STATE message, to emit it when all records before it are written."""
        self._assert_line_requires(message_dict, requires={"value"})
        self._keep_state(dump_json(message_dict["value"], default=str).encode())

    def _keep_state(self, state: bytes) -> None:
        if state == self._newest_state:
            return
        self._newest_state = state
        if len(state) > len(b"false") or decode_state(state):  # ignore empty states
            self._watermark.add_state(state)
            self._release()

    @property
    def _latest_state(self) -> Any:
        return None if self._newest_state is None else decode_state(self._newest_state)

    def _release(self) -> None:
        """Emit the newest state before which all records are written, if it is not emitted yet."""
        if not self._watermark.is_waiting:
            return
        for sink in list(self._watermark.holders):
            if sink.current_size == 0:
                self._watermark.remove_holder(sink)
        state = self._watermark.take()
        if state is None:
            return
        own = type(self)._write_state_message is not Target._write_state_message
        if own:
            self._write_state_message(decode_state(state))
        else:
            write_state_line(state)

    def _write_state_message(self, state: Any) -> None:
        """Write a state to standard output as one line of JSON."""
        write_state_line(dump_json(state, default=str).encode())

    # Signals

    @property
    def _is_stopping(self) -> bool:
        """True if a termination signal has been received."""
        return bool(self._signals.received)

    def _handle_termination(self, signum: int, frame: FrameType | None) -> None:
        """Stop after a signal, as soon as the current message is processed."""
        if not self._signals.record(signum):
            super()._handle_termination(signum, frame)

    def _wind_up(self) -> None:
        """After a signal, emit the state and clean up the sinks. Do not write buffered records."""
        self.logger.info("Stopping on a signal: no further drain is started.")
        self._release()
        if not self._has_ended:
            self._clean_up()


def _refuse(error: InvalidRecord, sinks: Sequence[Sink]) -> None:
    """Log an invalid record; raise an error unless all of its sinks may skip invalid records.

    Raises:
        InvalidRecord: A sink does not skip invalid records.
    """
    for sink in sinks:
        sink._refuse(InvalidRecord(f"{sink.stream_name}: {error.error_message}", {}))


def _reads_files(sink: Sink) -> bool:
    """Return True if a sink's class overrides `Sink.process_batch_files`."""
    hook = "process_batch_files"
    return hook in vars(sink) or getattr(type(sink), hook) is not getattr(Sink, hook)


def _format_counts(counts: Mapping[str, int]) -> str:
    return json.dumps(counts).strip("{}").replace('"', "") or "no messages"


def __getattr__(name: str) -> Any:
    """Import ``SQLTarget`` from `tap_core.sql` on access, with a deprecation warning."""
    return deprecated_import(name, old=__name__, known=("SQLTarget",), new="tap_core.sql")
