"""`Target`, base class of Singer targets: settings, sinks and processing of messages.

- Public members and signatures are singer_sdk's (version 0.54).
- To drain a sink means to write its buffered records. A state is emitted as soon as all records
  before it, in all sinks, are drained, and never earlier. If a target may store records later, in
  its own `drain_all` or in `Sink.clean_up`, states are emitted only by `drain_all`.
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
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, final

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
from tap_core.compat.author_overrides import is_any_overridden, overridable_property
from tap_core.compat.deprecation import deprecated_import
from tap_core.config.loading import merge_missing_config_jsonschema
from tap_core.events import Event
from tap_core.exceptions import InvalidInputLine, RecordsWithoutSchemaException
from tap_core.io.stdin import open_binary, read_blocks
from tap_core.io.stdout import end_last_line
from tap_core.plugin_base import CliCommand, PluginBase
from tap_core.protocols.singer.custom_message_reader import (
    GenericSingerReader,
    SimpleSingerReader,
    is_default_reader,
)
from tap_core.protocols.singer.reader import SingerReader
from tap_core.protocols.singer.writer import write_to_stdout
from tap_core.singerlib.json import dump_json
from tap_core.sinks.core import Sink
from tap_core.sinks.custom_reader import run_custom_reader
from tap_core.sinks.input_router import InputRouter
from tap_core.sinks.message_conversion import decode_state
from tap_core.sinks.open_files import write_open_files_at_exit
from tap_core.sinks.parallel_drain import run_in_threads
from tap_core.sinks.signal_handling import TerminationSignals
from tap_core.sinks.state_emitter import StateEmitter
from tap_core.types import JsonSchema, Record

if TYPE_CHECKING:
    from pathlib import PurePath
    from types import FrameType


__all__ = ["Target"]

_MAX_HEARTBEAT_SECONDS: Final = 1.0
_MAX_PARALLELISM: Final = 8


class Target(PluginBase, abc.ABC):
    """Base class of targets. Define ``name``, ``config_jsonschema`` and ``default_sink_class``."""

    message_reader_class: type[Any] = SimpleSingerReader
    """Class that reads the input; a custom class has ``process_lines(file_input, callbacks)``."""

    default_sink_class: type[Sink]
    """Sink class of all streams, unless `get_sink_class` is overridden."""

    _MAX_RECORD_AGE_IN_MINUTES: float = 5.0
    """Maximum time in minutes that a record stays buffered, even while no input arrives."""

    capabilities: ClassVar[list[CapabilitiesEnum]] = [
        PluginCapabilities.ABOUT,
        PluginCapabilities.STREAM_MAPS,
        PluginCapabilities.FLATTENING,
        PluginCapabilities.STRUCTURED_LOGGING,
        TargetCapabilities.VALIDATE_RECORDS,
    ]

    def __init__(
        self,
        *,
        config: Mapping[str, Any] | PurePath | str | Sequence[PurePath | str] | None = None,
        parse_env_config: bool = False,
        validate_config: bool = True,
        setup_mapper: bool = True,
        message_reader: Any | None = None,
    ) -> None:
        """Load and validate the settings of the target.

        ``config`` is a dict; paths of settings files are deprecated. With ``parse_env_config``,
        settings are also read from environment variables. With ``setup_mapper``, the stream maps
        are created. ``message_reader`` is by default an object of ``message_reader_class``.

        Raises:
            ConfigValidationError: The settings are invalid; ``errors`` lists all faults.
        """
        self._signals = TerminationSignals()
        super().__init__(
            config=config, parse_env_config=parse_env_config, validate_config=validate_config
        )
        self.message_reader = message_reader or self.message_reader_class()
        self._raw_schemas: dict[str, tuple[JsonSchema, Sequence[str] | None]] = {}
        self._early_versions: dict[str, int] = {}
        self._sinks_active: dict[str, Sink] = {}
        self._sinks_to_clear: list[Sink] = []
        self._router = InputRouter(self)
        self._states = StateEmitter(self._emit_state)
        self._states.writes_early = not self._overrides("drain_all", "process_endofpipe")
        self._max_parallelism: int | None = None
        self._has_ended = False
        self._reset_max_record_age()
        if setup_mapper:
            self.setup_mapper()

    @classmethod
    def append_builtin_config(cls, config_jsonschema: JsonSchema) -> None:
        """Add the SDK's settings for the target's capabilities to a config schema, in place."""
        for settings, capability in (
            (ADD_RECORD_METADATA_CONFIG, None),
            (TARGET_LOAD_METHOD_CONFIG, None),
            (TARGET_BATCH_SIZE_ROWS_CONFIG, None),
            (ACTIVATE_VERSION_CONFIG, PluginCapabilities.ACTIVATE_VERSION),
            (BATCH_CONFIG, PluginCapabilities.BATCH),
            (BATCH_READING_CONFIG, PluginCapabilities.BATCH),
            (TARGET_VALIDATE_RECORDS_CONFIG, TargetCapabilities.VALIDATE_RECORDS),
        ):
            if capability is None or capability in cls.capabilities:
                merge_missing_config_jsonschema(settings, config_jsonschema)
        super().append_builtin_config(config_jsonschema)

    @classmethod
    def get_singer_command(cls) -> CliCommand:
        """Return the command that runs this target with Singer's command-line options."""
        from tap_core.protocols.singer.cli import target_command

        write_open_files_at_exit()
        return target_command(cls, cls.listen)

    # Input

    def listen(self, file_input: Any | None = None) -> int:
        """Process all messages of the input and return the exit code 0.

        ``file_input`` is a binary or text file; the default is standard input.

        Raises:
            InvalidInputLine: A line is not a message. The messages before it have been loaded, and
                their state has been written, unless the target may store records later.
        """
        self._has_ended = False
        end_last_line()
        with self._signals.deferred():
            try:
                counts = self.process_lines(file_input)
            except InvalidInputLine:
                if self._states.writes_early:
                    self.drain_all()
                raise
            if not self._is_stopping:
                self.logger.info("End of input: %s.", _format_counts(counts))
                self.process_endofpipe()
            if self._is_stopping:
                self._finish_after_signal()
        return 0

    @final
    def process_lines(self, file_input: Any | None = None) -> Counter[str]:
        """Process all messages of the input; return the number of messages by type."""
        if not is_default_reader(self.message_reader):
            callbacks = {
                "SCHEMA": self._process_schema_message,
                "RECORD": self._process_record_message,
                "STATE": self._process_state_message,
                "ACTIVATE_VERSION": self._process_activate_version_message,
                "BATCH": self._router.process_unchecked_batch,
            }
            return run_custom_reader(self.message_reader, file_input, callbacks, self._signals)
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
            self._router.process_event(event, counts)
            if self._is_stopping:
                return

    @property
    def _heartbeat_seconds(self) -> float:
        return min(_MAX_HEARTBEAT_SECONDS, max(0.01, self._MAX_RECORD_AGE_IN_MINUTES * 60 / 4))

    def _overrides(self, *hooks: str) -> bool:
        """Return True if the target's class overrides one of the methods named ``hooks``."""
        return any(getattr(type(self), hook) is not getattr(Target, hook) for hook in hooks)

    def _assert_line_requires(self, message_dict: dict[str, Any], requires: set[str]) -> None:
        GenericSingerReader.assert_line_requires(message_dict, requires)

    # Stream maps and schemas

    def setup_mapper(self) -> None:
        """Create the stream maps of the target.

        If no setting configures stream maps, they are created on the first access to `mapper`.
        """
        if self.config.get("stream_maps") or self.config.get("flattening_enabled"):
            super().setup_mapper()
        else:
            self._mapper_is_due = True

    def _make_mapper(self) -> None:
        super()._make_mapper()
        for name, (schema, keys) in self._raw_schemas.items():
            self.mapper.register_raw_stream_schema(name, copy.deepcopy(schema), keys)

    def _process_schema_message(self, message_dict: dict[str, Any]) -> None:
        """Create the sinks for a SCHEMA message; replace existing ones if schema or keys differ."""
        self._assert_line_requires(message_dict, requires={"stream", "schema"})
        self._assert_line_requires(message_dict["schema"], requires={"properties"})
        name, schema = message_dict["stream"], message_dict["schema"]
        keys = message_dict.get("key_properties")
        if self._raw_schemas.get(name) == (schema, keys):
            return
        if name in self._raw_schemas:
            self.logger.info("Schema or key properties have changed for stream '%s'.", name)
        self._raw_schemas[name] = (copy.deepcopy(schema), keys)
        stream_maps = None
        if self._mapper is not None or not self._mapper_is_due:
            self.mapper.register_raw_stream_schema(name, schema, keys)
            stream_maps = self.mapper.stream_maps[name]
        self._router.register(name, schema, keys, stream_maps)
        if name in self._early_versions:
            self._activate_version(name, self._early_versions.pop(name))

    # Records, batch files and versions

    def _process_record_message(self, message_dict: dict[str, Any]) -> None:
        """Add the record in a RECORD message to the sinks of its stream."""
        self._assert_line_requires(message_dict, requires={"stream", "record"})
        self._router.process_record(message_dict)

    def _process_batch_message(self, message_dict: dict[str, Any]) -> None:
        """Write a stream's buffered records, then load the files that a BATCH message names."""
        self._assert_line_requires(message_dict, requires={"stream", "encoding", "manifest"})
        self._router.process_batch(message_dict)

    def _process_activate_version_message(self, message_dict: dict[str, Any]) -> None:
        """Write a stream's buffered records, then activate the table version in the message.

        If the stream has no SCHEMA yet, this is done after its SCHEMA.
        """
        name, version = message_dict["stream"], message_dict["version"]
        if name in self._raw_schemas or self.sink_exists(name):
            self._activate_version(name, version)
        else:
            self._early_versions[name] = version

    def _activate_version(self, stream_name: str, version: int) -> None:
        for route in self._router.get_routes(stream_name):
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
            self._states.release()
            if not self._is_stopping:
                sink.activate_version(version)

    # Sinks

    @overridable_property
    def max_parallelism(self) -> int:
        """Maximum number of sinks that write their records in parallel; 8 by default."""
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
            RecordsWithoutSchemaException: The stream has no sink, and ``schema`` is None.
        """
        if schema is None:
            self._assert_sink_exists(stream_name)
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
        successor = self._set_up_new_sink(stream_name, schema, key_properties)
        self._retire(existing)
        self._sinks_active[stream_name] = successor
        return successor

    def _retire(self, sink: Sink) -> None:
        """Write the buffered records of a replaced sink, and keep it for the final clean-up."""
        self.drain_one(sink)
        self._states.release()
        self._router.remove_pipeline(sink)
        self._sinks_to_clear.append(sink)

    def get_sink_class(self, stream_name: str) -> type[Sink]:
        """Return the sink class of a stream, by default `default_sink_class`.

        Raises:
            ValueError: `default_sink_class` is not set.
        """
        sink_class: type[Sink] | None = getattr(self, "default_sink_class", None)
        if sink_class is None:
            raise ValueError(
                f"No sink class defined for '{stream_name}': set default_sink_class or override"
                " get_sink_class()."
            )
        return sink_class

    def sink_exists(self, stream_name: str) -> bool:
        """Return True if the stream with this name has a sink."""
        return stream_name in self._sinks_active

    def create_sink(
        self,
        *,
        stream_name: str,
        schema: JsonSchema,
        key_properties: Sequence[str] | None = None,
    ) -> Sink:
        """Return a new sink of a stream, without calling its ``setup()``.

        Override it to pass further arguments to the class that `get_sink_class` returns.
        """
        sink_class = self.get_sink_class(stream_name=stream_name)
        return sink_class(
            target=self, stream_name=stream_name, schema=schema, key_properties=key_properties
        )

    @final
    def add_sink(
        self,
        stream_name: str,
        schema: JsonSchema,
        key_properties: Sequence[str] | None = None,
    ) -> Sink:
        """Create a sink for a stream, call its ``setup()``, and return it."""
        sink = self._set_up_new_sink(stream_name, schema, key_properties)
        self._sinks_active[stream_name] = sink
        return sink

    def _set_up_new_sink(
        self, stream_name: str, schema: JsonSchema, key_properties: Sequence[str] | None
    ) -> Sink:
        sink = self.create_sink(
            stream_name=stream_name, schema=schema, key_properties=key_properties
        )
        if _stores_in_clean_up(sink):
            self._states.writes_early = False
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

    # Drains

    def process_endofpipe(self) -> None:
        """Write the buffered records of all sinks and clean them up, at the end of the input."""
        self.drain_all(is_endofpipe=True)

    @final
    def drain_all(self, *, is_endofpipe: bool = False) -> None:
        """Write the buffered records of all sinks (drain them), then emit the state.

        If ``is_endofpipe`` is True, clean up the sinks too. If a sink fails, complete the drains
        that have started, and raise the error. Before that, emit the state of the written records,
        unless the target may store records later.
        """
        try:
            self._drain_all(self._sinks_to_clear, 1)
            self._drain_all(self._sinks_active.values(), self.max_parallelism)
            if is_endofpipe:
                self._clean_up()
        finally:
            self._states.release()
        self._states.emit()
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
        self._states.watermark.remove_holder(sink)

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
        self._states.release()

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
        """Drain all sinks if a record or a state has waited longer than the maximum age."""
        is_waiting = any(sink.current_size for sink in self._states.watermark.holders) or (
            not self._states.writes_early and self._states.watermark.is_waiting
        )
        if not is_waiting:
            self._reset_max_record_age()
        elif self._max_record_age_in_minutes > self._MAX_RECORD_AGE_IN_MINUTES:
            self.logger.info(
                "One or more records have exceeded the max age of %g minutes. Draining all sinks.",
                self._MAX_RECORD_AGE_IN_MINUTES,
            )
            self.drain_all()

    # States

    def _process_state_message(self, message_dict: dict[str, Any]) -> None:
        """Store the state of a STATE message until all records before the message are written."""
        self._assert_line_requires(message_dict, requires={"value"})
        self._latest_state = message_dict["value"]

    @property
    def _latest_state(self) -> Any:
        return None if self._states.newest is None else decode_state(self._states.newest)

    @_latest_state.setter
    def _latest_state(self, state: Any) -> None:
        self._states.add(dump_json(state, default=str).encode())

    def _emit_state(self, state: bytes) -> None:
        """Write an encoded state, by `_write_state_message` if the target overrides that method."""
        if type(self)._write_state_message is Target._write_state_message:
            write_to_stdout(state + b"\n")
        else:
            self._write_state_message(decode_state(state))

    def _write_state_message(self, state: Any) -> None:
        """Write a state to standard output as one line of JSON."""
        write_to_stdout(dump_json(state, default=str).encode() + b"\n")

    # Signals

    @property
    def _is_stopping(self) -> bool:
        """True if a termination signal has been received."""
        return bool(self._signals.received)

    def _handle_termination(self, signum: int, frame: FrameType | None) -> None:
        """Stop after a signal, as soon as the current message is processed."""
        if not self._signals.record(signum):
            super()._handle_termination(signum, frame)

    def _finish_after_signal(self) -> None:
        """Emit the state and clean up the sinks after a signal; discard buffered records."""
        self.logger.info("Stopping after a signal: buffered records are not written.")
        self._states.release()
        if not self._has_ended:
            self._clean_up()
        # An overridden `drain_all` may store records, and was not called. `Sink.clean_up` was.
        if not self._overrides("drain_all", "process_endofpipe"):
            self._states.emit()


def _stores_in_clean_up(sink: Sink) -> bool:
    """Return True if a sink may store its records durably only when `Sink.clean_up` is called."""
    declared = sink.stores_in_clean_up
    return is_any_overridden(sink, Sink, "clean_up") if declared is None else declared


def _format_counts(counts: Mapping[str, int]) -> str:
    return json.dumps(counts).strip("{}").replace('"', "") or "no messages"


def __getattr__(name: str) -> Any:
    """Import ``SQLTarget`` from `tap_core.sql` on access, with a deprecation warning."""
    return deprecated_import(name, old=__name__, known=("SQLTarget",), new="tap_core.sql")
