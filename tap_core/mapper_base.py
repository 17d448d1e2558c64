"""`InlineMapper`, base class of plugins that read Singer messages and write mapped ones.

- Public members and signatures are those of singer_sdk (version 0.54).
- The order of messages is kept, so that a state is never written before the records it covers.
- Output is buffered. The buffer is written while no input is available, and before an error is
  raised.
- After a signal, the current message is mapped and written before the mapper stops.
"""

from __future__ import annotations

import abc
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, final

from tap_core.batch.limits import FileLimits
from tap_core.capabilities import CapabilitiesEnum, PluginCapabilities
from tap_core.events import ActivateVersion, BatchFiles, Checkpoint, Event, Rows, SchemaEvent
from tap_core.io.stdin import open_binary, read_blocks
from tap_core.plugin_base import CliCommand, PluginBase
from tap_core.protocols.singer.custom_message_reader import GenericSingerReader
from tap_core.protocols.singer.reader import SingerReader
from tap_core.protocols.singer.writer import SingerWriter, encode_body, encode_json
from tap_core.records.conform import to_json_compatible
from tap_core.records.serializer import compile_record_encoder
from tap_core.singerlib.messages import Message, RecordMessage
from tap_core.sinks.custom_reader import run_custom_reader
from tap_core.sinks.message_conversion import (
    decode_record,
    decode_state,
    make_batch_message,
    make_record_message,
    make_schema_message,
    make_version_message,
)
from tap_core.sinks.signal_handling import TerminationSignals

if TYPE_CHECKING:
    from pathlib import PurePath
    from types import FrameType

__all__ = ["InlineMapper"]

_POLL_SECONDS: Final = 1.0
_FLUSH_BYTES: Final = 64 * 1024


class InlineMapper(PluginBase, abc.ABC):
    """Base class of mappers; a subclass sets ``name`` and implements a method per message type."""

    message_reader_class: type[Any] | None = None
    """Class of a custom reader, with a method ``process_lines(file_input, callbacks)``."""

    message_writer_class: type[Any] | None = None
    """Class of a custom writer, with a method ``write_message(message)``."""

    capabilities: ClassVar[list[CapabilitiesEnum]] = [
        PluginCapabilities.ABOUT,
        PluginCapabilities.STREAM_MAPS,
        PluginCapabilities.FLATTENING,
        PluginCapabilities.STRUCTURED_LOGGING,
    ]

    def __init__(
        self,
        *,
        config: Mapping[str, Any] | PurePath | str | Sequence[PurePath | str] | None = None,
        parse_env_config: bool = False,
        validate_config: bool = True,
        message_reader: Any | None = None,
        message_writer: Any | None = None,
    ) -> None:
        """Load and validate the settings.

        Args:
            config: Settings, or (deprecated) paths of settings files.
            parse_env_config: True to read settings from environment variables too.
            validate_config: True to raise an error for invalid settings.
            message_reader: Reader of the input; by default the SDK's reader.
            message_writer: Writer of the output; by default the SDK's writer.

        Raises:
            ConfigValidationError: The settings are invalid; ``errors`` has one message per fault.
        """
        self._signals = TerminationSignals()
        super().__init__(
            config=config, parse_env_config=parse_env_config, validate_config=validate_config
        )
        reader_class, writer_class = self.message_reader_class, self.message_writer_class
        self.message_reader = message_reader or (reader_class() if reader_class else None)
        self.message_writer = message_writer or (writer_class() if writer_class else None)
        self._lines: list[bytes] = []
        self._buffered_bytes = 0
        self._record_starts: dict[str, bytes] = {}
        self._record_encoder = compile_record_encoder(encode_body)
        self._stdout_writer = SingerWriter()

    # Methods for authors to override

    @abc.abstractmethod
    def map_schema_message(self, message_dict: dict[str, Any]) -> Iterable[Message]:
        """Return the messages to write in place of a SCHEMA message."""

    @abc.abstractmethod
    def map_record_message(self, message_dict: dict[str, Any]) -> Iterable[Message]:
        """Return the messages to write in place of a RECORD message.

        Numbers with a fraction are `Decimal`.
        """

    @abc.abstractmethod
    def map_state_message(self, message_dict: dict[str, Any]) -> Iterable[Message]:
        """Return the messages to write in place of a STATE message."""

    @abc.abstractmethod
    def map_activate_version_message(self, message_dict: dict[str, Any]) -> Iterable[Message]:
        """Return the messages to write in place of an ACTIVATE_VERSION message."""

    def map_batch_message(self, message_dict: dict[str, Any]) -> Iterable[Message]:
        """Return the messages to write in place of a BATCH message.

        Raises:
            NotImplementedError: The mapper does not override this method.
        """
        msg = "BATCH messages are not supported by mappers."
        raise NotImplementedError(msg)

    # Running

    @classmethod
    def get_singer_command(cls) -> CliCommand:
        """Return the command that runs this mapper with Singer's command-line options."""
        from tap_core.protocols.singer.cli import mapper_command

        return mapper_command(cls, cls.listen)

    @final
    def listen(self, file_input: Any | None = None) -> int:
        """Read all messages of the input, write the mapped messages, and return the exit code 0.

        ``file_input`` is a binary or text file; the default is standard input.

        Raises:
            InvalidInputLine: A line is not a message. The output for earlier lines is written.
        """
        with self._signals.deferred():
            counts = self.process_lines(file_input)
            summary = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
            end = "Gracefully shutting down" if self._is_stopping else "End of input"
            self.logger.info("%s: %s.", end, summary or "no messages")
            self.process_endofpipe()
        return 0

    def process_endofpipe(self) -> None:
        """Hook that is called at the end of the input; by default it logs a debug message."""
        self.logger.debug("End of pipe reached")

    @final
    def process_lines(self, file_input: Any | None = None) -> Counter[str]:
        """Read all messages of the input, and write the mapped messages.

        ``file_input`` is a binary or text file; the default is standard input. Return the number of
        input messages by type.
        """
        counts: Counter[str] = Counter()
        try:
            if self.message_reader is not None:
                return self._run_custom_reader(self.message_reader, file_input)
            decoder = SingerReader(limits=FileLimits.from_config(self.config))
            with self._signals.deferred() as wake_up:
                for block in read_blocks(open_binary(file_input), wake_up, _POLL_SECONDS):
                    self._dispatch_events(decoder.feed(block) if block else (), counts)
                    self._flush()
                    if self._is_stopping:
                        return counts
                self._dispatch_events(decoder.close(), counts)
        finally:
            self._flush()
        return counts

    @final
    def write_message(self, message: Message) -> None:
        """Write a message to the output buffer, which is flushed when it has 64 KiB."""
        if self.message_writer is not None:
            self.message_writer.write_message(message)
            return
        if type(message) is RecordMessage:
            self._buffer_lines(self._record_line(message))
        else:
            self._buffer_lines(encode_json(to_json_compatible(message.to_dict())) + b"\n")
        if self._buffered_bytes >= _FLUSH_BYTES:
            self._flush()

    def _write_messages(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self.write_message(message)

    def _record_line(self, message: RecordMessage) -> bytes:
        """Return a RECORD message as an output line; this is faster than ``message.to_dict()``."""
        start = self._record_starts.get(message.stream)
        if start is None:
            start = b'{"type":"RECORD","stream":%b,"record":' % encode_json(message.stream)
            self._record_starts[message.stream] = start
        end = b"}\n" if message.version is None else b',"version":%d}\n' % message.version
        if message.time_extracted is not None:
            extracted = message.time_extracted.isoformat().encode()
            end = b'%b,"time_extracted":"%b"}\n' % (end[:-2], extracted)
        return start + self._record_encoder(dict(message.record)) + end

    def _buffer_lines(self, lines: bytes) -> None:
        self._lines.append(lines)
        self._buffered_bytes += len(lines)

    def _flush(self) -> None:
        lines, self._lines, self._buffered_bytes = self._lines, [], 0
        if lines:
            self._stdout_writer.write(b"".join(lines))

    # Input

    def _dispatch_events(self, events: Iterable[Event], counts: Counter[str]) -> None:
        for event in events:
            self._dispatch_event(event, counts)
            if self._is_stopping:
                return

    def _dispatch_event(self, event: Event, counts: Counter[str]) -> None:
        if isinstance(event, Rows):
            self._map_rows(event, counts)
        elif isinstance(event, Checkpoint):
            counts["STATE"] += 1
            self._process_state_message({"type": "STATE", "value": decode_state(event.state)})
        elif isinstance(event, SchemaEvent):
            counts["SCHEMA"] += 1
            self._process_schema_message(make_schema_message(event))
        elif isinstance(event, ActivateVersion):
            counts["ACTIVATE_VERSION"] += 1
            self._process_activate_version_message(make_version_message(event))
        elif isinstance(event, BatchFiles):
            counts["BATCH"] += 1
            self._process_batch_message(make_batch_message(event))

    def _map_rows(self, rows: Rows, counts: Counter[str]) -> None:
        stream, version, process = rows.stream.name, rows.version, self._process_record_message
        times: Any = rows.extracted_at  # the decoder gives one for each row
        signals = self._signals.received
        for body, extracted in zip(rows.rows, times, strict=True):
            if signals:
                return
            process(make_record_message(stream, decode_record(body), extracted, version))
            counts["RECORD"] += 1

    def _process_schema_message(self, message_dict: dict[str, Any]) -> None:
        self._write_messages(self.map_schema_message(message_dict))

    def _process_record_message(self, message_dict: dict[str, Any]) -> None:
        self._write_messages(self.map_record_message(message_dict))

    def _process_state_message(self, message_dict: dict[str, Any]) -> None:
        self._write_messages(self.map_state_message(message_dict))

    def _process_activate_version_message(self, message_dict: dict[str, Any]) -> None:
        self._write_messages(self.map_activate_version_message(message_dict))

    def _process_batch_message(self, message_dict: dict[str, Any]) -> None:
        self._write_messages(self.map_batch_message(message_dict))

    _assert_line_requires = staticmethod(GenericSingerReader.assert_line_requires)

    def _run_custom_reader(self, reader: Any, file_input: Any | None) -> Counter[str]:
        """Map the messages that a custom ``message_reader`` reads; return their number by type.

        After a termination signal, the reader stops before the next message.
        """
        callbacks = {
            "SCHEMA": self._process_schema_message,
            "RECORD": self._process_record_message,
            "STATE": self._process_state_message,
            "ACTIVATE_VERSION": self._process_activate_version_message,
            "BATCH": self._process_batch_message,
        }
        return run_custom_reader(reader, file_input, callbacks, self._signals, self._flush)

    @property
    def _is_stopping(self) -> bool:
        """True if a termination signal has been received."""
        return bool(self._signals.received)

    def _handle_termination(self, signum: int, frame: FrameType | None) -> None:
        """Request a stop after a signal: the current message is still mapped and written."""
        if not self._signals.record(signum):
            super()._handle_termination(signum, frame)
