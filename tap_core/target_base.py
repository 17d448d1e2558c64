"""`Target`: settings, sinks and the fold of a Singer stream into them.

Rules of the room: public members and signatures are singer_sdk's (version 0.54). A state
leaves as soon as every record before it, of every sink, is drained, and never sooner. A
signal is noted and looked at between messages: what is being drained is finished, nothing
new is begun, the newest state that is covered leaves; a second signal ends the process at
once. A schema that changes drains the old sink before the new one is made.
"""

# ruff: noqa: SLF001  the hooks of a sink have an underscore, and the target calls them

from __future__ import annotations

import abc
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
    UnreadableRecordError,
)
from tap_core.io.stdin import open_binary, read_blocks
from tap_core.limits.memory import InputTooLargeError
from tap_core.plugin_base import CliCommand
from tap_core.protocols.singer.message_reader import SimpleSingerReader, is_default_reader
from tap_core.protocols.singer.reader import SingerReader
from tap_core.singerlib.json import dump_json, serialize_json
from tap_core.sinks.core import Sink
from tap_core.sinks.message_conversion import (
    batch_message,
    decode_record,
    decode_state,
    record_message,
    schema_message,
    version_message,
)
from tap_core.sinks.routing import StreamRoute, StreamRouter
from tap_core.types import JsonSchema, Record

if TYPE_CHECKING:
    from pathlib import PurePath


__all__ = ["Target"]

_LONGEST_BEAT: Final = 1.0


class _Stopped(Exception):  # noqa: N818  nothing went wrong
    """Raised through a reader that an author brought, to end it."""


class Target(TargetOverrides, StreamRouter, abc.ABC):
    """A target: say ``name``, ``config_jsonschema`` and ``default_sink_class``."""

    message_reader_class: type[Any] = SimpleSingerReader
    """A class whose objects have ``process_lines(file_input, callbacks)``, for other wires."""

    capabilities: ClassVar[Sequence[CapabilitiesEnum]] = [
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
        """Take the settings and check them.

        Raises:
            ConfigValidationError: for every fault at once.
        """
        super().__init__(
            config=config, parse_env_config=parse_env_config, validate_config=validate_config
        )
        self.message_reader = message_reader or self.message_reader_class()
        self._described: dict[str, SchemaEvent] = {}
        if setup_mapper:
            self.setup_mapper()

    @classmethod
    def append_builtin_config(cls, config_jsonschema: JsonSchema) -> None:
        """Add the settings that every target has, and those of its capabilities."""
        known = cls._built_capabilities()
        for settings, capability in (
            (ADD_RECORD_METADATA_CONFIG, None),
            (TARGET_LOAD_METHOD_CONFIG, None),
            (TARGET_BATCH_SIZE_ROWS_CONFIG, None),
            (ACTIVATE_VERSION_CONFIG, PluginCapabilities.ACTIVATE_VERSION),
            (BATCH_CONFIG, PluginCapabilities.BATCH),
            (BATCH_READING_CONFIG, PluginCapabilities.BATCH),
            (TARGET_VALIDATE_RECORDS_CONFIG, TargetCapabilities.VALIDATE_RECORDS),
        ):
            if capability is None or capability in known:
                merge_missing_config_jsonschema(settings, config_jsonschema)
        super().append_builtin_config(config_jsonschema)

    @classmethod
    def get_singer_command(cls) -> CliCommand:
        """Make the Singer command."""
        from tap_core.protocols.singer.cli import target_command

        return target_command(cls)

    # Input

    def listen(self, file_input: Any | None = None) -> int:
        """Read messages to the end of the input; return the exit code, 0.

        ``file_input`` is a file of bytes or text, standard input unless given. Where the
        input is broken, what came whole before is drained, and its state released.

        Raises:
            InvalidInputLine: a line is no message.
        """
        self._has_ended = False
        with self._heeding_signals():
            try:
                counts = self.process_lines(file_input)
            except InvalidInputLine:
                self.drain_all()
                raise
            if not self._is_stopping:
                self.logger.info("End of input: %s.", _told(counts))
                self.process_endofpipe()
            if self._is_stopping:
                self._wind_up()
        return 0

    @final
    def process_lines(self, file_input: Any | None = None) -> Counter[str]:
        """Read messages to the end of the input; return how many there were of each type."""
        if not is_default_reader(self.message_reader):
            return self._read_by(self.message_reader, file_input)
        counts: Counter[str] = Counter()
        decoder = SingerReader(limits=FileLimits.from_config(self.config))
        with self._heeding_signals() as wake_up:
            for block in read_blocks(open_binary(file_input), wake_up, self._beat_seconds):
                self._fold_all(decoder.feed(block) if block else (), counts)
                if self._is_stopping:
                    return counts
                self._handle_max_record_age()
            self._fold_all(decoder.close(), counts)
        return counts

    def _fold_all(self, events: Iterable[Event], counts: Counter[str]) -> None:
        for event in events:
            self._fold(event, counts)
            if self._is_stopping:
                return

    def _fold(self, event: Event, counts: Counter[str]) -> None:
        if isinstance(event, Rows):
            counts["RECORD"] += len(event.rows)
            self._fold_rows(event)
        elif isinstance(event, Checkpoint):
            counts["STATE"] += 1
            self._fold_state(event)
        elif isinstance(event, SchemaEvent):
            counts["SCHEMA"] += 1
            self._fold_schema(event)
        elif isinstance(event, ActivateVersion):
            counts["ACTIVATE_VERSION"] += 1
            self._process_activate_version_message(version_message(event))
        elif isinstance(event, BatchFiles):
            counts["BATCH"] += 1
            self._process_batch_message(batch_message(event))

    def _read_by(self, reader: Any, file_input: Any | None) -> Counter[str]:
        """Let an author's reader read."""
        callbacks = {
            "SCHEMA": self._process_schema_message,
            "RECORD": self._process_record_message,
            "STATE": self._process_state_message,
            "ACTIVATE_VERSION": self._process_activate_version_message,
            "BATCH": self._process_unchecked_batch_message,
        }

        def heeding(callback: Callable[[dict[str, Any]], None]) -> Any:
            def call(message: dict[str, Any]) -> None:
                callback(message)
                if self._is_stopping:
                    raise _Stopped

            return call

        with self._heeding_signals():
            try:
                found: Counter[str] = reader.process_lines(
                    file_input, {kind: heeding(each) for kind, each in callbacks.items()}
                )
            except _Stopped:
                return Counter()
        return found

    @property
    def _beat_seconds(self) -> float:
        return min(_LONGEST_BEAT, max(0.01, self._MAX_RECORD_AGE_IN_MINUTES * 60 / 4))

    def _overrides(self, hook: str) -> bool:
        """Whether an author has a hook of their own."""
        return getattr(type(self), hook) is not getattr(Target, hook)

    def _assert_line_requires(self, message_dict: dict[str, Any], requires: set[str]) -> None:
        missing = requires - message_dict.keys()
        if missing:
            names = ", ".join(sorted(missing))
            raise InvalidInputLine(f"Line is missing required {names} key(s): {message_dict}")

    # Records

    def _fold_rows(self, rows: Rows) -> None:
        times = cast(Sequence[str | None], rows.extracted_at)
        if self._overrides("_process_record_message"):
            self._fold_rows_by_hook(rows, times)
            return
        routes = self._get_routes(rows.stream.name)
        plain = len(routes) == 1 and routes[0].transform is None
        if plain and not self._overrides("get_sink"):
            self._fold_plain_rows(self._sinks_active[routes[0].alias], rows, times)
            return
        for body, extracted in zip(rows.rows, times, strict=True):
            if self._signals:
                return
            try:
                record = decode_record(body)
            except UnreadableRecordError as error:
                _refuse(error, [self._sinks_active[each.alias] for each in routes])
                continue
            self._deliver(routes, record, extracted, rows.version, len(body))
            self._handle_max_record_age()

    def _fold_plain_rows(self, sink: Sink, rows: Rows, times: Sequence[str | None]) -> None:
        """Bring rows into one sink; per row nothing is asked that could be known before."""
        lane = self._get_pipeline(sink)
        take, weighs, version = lane.take, lane.weighs, rows.version
        holders, clock = self._watermark.holders, time.monotonic
        most = self._MAX_RECORD_AGE_IN_MINUTES * 60
        count = 0
        try:
            for body, extracted in zip(rows.rows, times, strict=True):
                if self._signals:
                    return
                if weighs:
                    sink._batch_bytes_read += len(body)
                try:
                    is_full = take(decode_record(body), extracted, version)
                except UnreadableRecordError as error:
                    _refuse(error, (sink,))
                    continue
                count += 1
                if sink not in holders:
                    self._watermark.began(sink)
                if is_full:
                    self._drain_full(sink)
                if clock() - self._last_full_drain_at > most:
                    self._handle_max_record_age()
        finally:
            sink.record_counter_metric.increment(count)

    def _fold_rows_by_hook(self, rows: Rows, times: Sequence[str | None]) -> None:
        for body, extracted in zip(rows.rows, times, strict=True):
            if self._signals:
                return
            record = decode_record(body)
            message = record_message(rows.stream.name, record, extracted, rows.version)
            self._process_record_message(message)

    def _process_record_message(self, message_dict: dict[str, Any]) -> None:
        """Bring one record into its sinks."""
        self._assert_line_requires(message_dict, requires={"stream", "record"})
        routes = self._get_routes(message_dict["stream"])
        record = dict(message_dict["record"])
        size = len(serialize_json(record)) if any(map(self._weighs, routes)) else 0
        extracted, version = message_dict.get("time_extracted"), message_dict.get("version")
        self._deliver(routes, record, extracted, version, size)
        self._handle_max_record_age()

    # Schemas

    def _fold_schema(self, event: SchemaEvent) -> None:
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
        """Make the sinks of a stream, or make them anew where schema or keys have changed."""
        self._assert_line_requires(message_dict, requires={"stream", "schema"})
        self._assert_line_requires(message_dict["schema"], requires={"properties"})
        name, schema = message_dict["stream"], message_dict["schema"]
        keys = message_dict.get("key_properties")
        if self._raw_schemas.get(name) == (schema, keys):
            return
        if name in self._raw_schemas:
            self.logger.info("Schema or key properties have changed for stream '%s'.", name)
        self._register(name, schema, keys)

    # States

    def _fold_state(self, event: Checkpoint) -> None:
        if self._overrides("_process_state_message"):
            self._process_state_message({"type": "STATE", "value": decode_state(event.state)})
        else:
            self._keep_state(event.state)

    def _process_state_message(self, message_dict: dict[str, Any]) -> None:
        """Keep a state until the records before it are drained."""
        self._assert_line_requires(message_dict, requires={"value"})
        self._keep_state(dump_json(message_dict["value"], default=str).encode())

    # Versions and files

    def _process_activate_version_message(self, message_dict: dict[str, Any]) -> None:
        """Drain the sinks of a stream, then let only one version of its rows count."""
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

    def _process_unchecked_batch_message(self, message_dict: dict[str, Any]) -> None:
        """Count the files that an author's reader names, as the decoder does with its own."""
        self._assert_line_requires(message_dict, requires={"stream", "manifest"})
        try:
            FileLimits.from_config(self.config).check_manifest(len(message_dict["manifest"]))
        except InputTooLargeError as error:
            raise BatchFileError(f"Stream '{message_dict['stream']}': {error}") from None
        self._process_batch_message(message_dict)

    def _process_batch_message(self, message_dict: dict[str, Any]) -> None:
        """Drain the sinks of a stream, then bring files of records into them."""
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
        """Bring the records of files into sinks, like those of RECORD messages."""
        name, version = message["stream"], message.get("version")
        own = self._overrides("_process_record_message")

        def take(record: Record, size: int) -> None:
            if own:
                self._process_record_message(record_message(name, record, None, version))
            else:
                self._deliver(routes, record, None, version, size)

        for path in message["manifest"]:
            self._take_file(path, encoding, name, routes, take)


def _refuse(error: UnreadableRecordError, sinks: Sequence[Sink]) -> None:
    """Log a record that cannot be read, and raise the error unless its sinks tolerate it."""
    for sink in sinks:
        sink._refuse(InvalidRecord(f"{sink.stream_name}: {error.error_message}", {}))


def _reads_files(sink: Sink) -> bool:
    """Tell whether an author processes batch files in a way of his own."""
    hook = "process_batch_files"
    return hook in vars(sink) or getattr(type(sink), hook) is not getattr(Sink, hook)


def _told(counts: Mapping[str, int]) -> str:
    return json.dumps(counts).strip("{}").replace('"', "") or "no messages"


def __getattr__(name: str) -> Any:
    """Find what stands elsewhere now, and say so."""
    return deprecated_import(name, old=__name__, known=("SQLTarget",), new="tap_core.sql")
