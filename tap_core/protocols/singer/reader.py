r"""Reader of Singer messages: it converts blocks of bytes to events, without I/O.

- One line is one message. The record in a RECORD message stays bytes, so that no number is rounded.
- Consecutive records of one stream and version become one `Rows` event. The division of the input
  into ``feed()`` calls affects only the size of these events.
- Events before an invalid line are yielded before the error is raised. The reader cannot be used
  after an error.
- A record with a lone surrogate (such as ``\ud83d`` without its other half) or nested some hundred
  levels deep becomes a JSON string that contains its text. The consumer must quarantine it.
- Blank lines, a byte order mark at the start and carriage returns are accepted. NaN and infinities
  become null with one warning. Any other invalid line is an error.

Source: the Singer specification; `singer_sdk` for ACTIVATE_VERSION and BATCH.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from tap_core.batch.limits import FileLimits
from tap_core.events import (
    ActivateVersion,
    BatchFiles,
    Checkpoint,
    Event,
    Rows,
    SchemaEvent,
    StreamId,
)
from tap_core.exceptions import (
    BatchFileError,
    InvalidInputLine,
    TruncatedInputLine,
    UndeclaredRecordError,
    UnknownMessageType,
)
from tap_core.io.json_lines import (
    DECODE_ERRORS,
    LINE_BYTES,
    RecordCheck,
    check_record,
    check_state_size,
    describe_decode_error,
    excerpt,
    slice_at_same_offset,
)
from tap_core.io.message_lines import MessageFormat, MessageLines
from tap_core.limits.memory import Bound, InputTooLargeError
from tap_core.schema.size_limit import check_schema_size

__all__ = ["SingerReader"]

_OPEN_BRACE: Final = ord("{")
_Version: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Record(msgspec.Struct, tag="RECORD", tag_field="type", gc=False):
    """RECORD message: one record of a stream. ``record`` is unparsed JSON bytes."""

    stream: str
    record: msgspec.Raw
    time_extracted: str | None = None
    version: _Version | None = None


class _TextRecord(_Record, tag="RECORD", tag_field="type"):
    """RECORD message with a record that cannot be decoded, for example due to lone surrogates.

    ``record`` is a JSON string that contains the JSON text of the record.
    """


class _Schema(msgspec.Struct, tag="SCHEMA", tag_field="type"):
    """SCHEMA message. ``schema`` is unparsed JSON bytes, because its size is checked first."""

    stream: str
    schema: msgspec.Raw
    key_properties: list[str] | None = None
    bookmark_properties: Any = None


class _State(msgspec.Struct, tag="STATE", tag_field="type"):
    """STATE message. ``value`` is unparsed JSON bytes."""

    value: msgspec.Raw


class _ActivateVersion(msgspec.Struct, tag="ACTIVATE_VERSION", tag_field="type"):
    """ACTIVATE_VERSION message: only rows of the stream with this ``version`` are still valid."""

    stream: str
    version: _Version


class _Batch(msgspec.Struct, tag="BATCH", tag_field="type"):
    """BATCH message: the URLs of files with records.

    ``manifest`` is unparsed JSON bytes, because the number of files is checked first.
    """

    stream: str
    encoding: msgspec.Raw
    manifest: msgspec.Raw
    version: _Version | None = None


_Message: TypeAlias = _Record | _Schema | _State | _ActivateVersion | _Batch
_KNOWN_TYPES: Final = ("RECORD", "SCHEMA", "STATE", "ACTIVATE_VERSION", "BATCH")
_decode: Final[Callable[[bytes], _Message]] = msgspec.json.Decoder(_Message).decode
_decode_object: Final = msgspec.json.Decoder(dict[str, Any]).decode
_SCHEMA_SHARE: Final = 4
"""Ratio of the maximum size of a line to the maximum size of a schema.

A decoded schema takes several times the memory of its JSON text.
"""

_ENCODING_BYTES: Final = 1 << 16
"""Maximum size of the ``encoding`` in a BATCH message, in bytes."""


@dataclass(slots=True)
class _Chunk:
    """Consecutive rows of one stream and table version, collected until they become one event."""

    stream: str
    version: int | None
    rows: list[bytes] = field(default_factory=list)
    times: list[str | None] = field(default_factory=list)


class SingerReader:
    """Reader that converts the bytes of Singer messages to events, such as rows and states.

    Call `feed` with each block of bytes, and `close` at the end of the input. Consume all events
    that both methods yield.

    Args:
        check: Validates each record. With a check, BATCH messages are errors.
        limits: Limits on the files of a BATCH message; the default is `FileLimits()`.

    Raises:
        InvalidInputLine: A line is not a message. Its subclass `TruncatedInputLine` is raised if
            the input ends within a message, and `UnknownMessageType` for an unknown type.
        UndeclaredRecordError: ``check`` rejects a record, or there is a BATCH message.
        BatchFileError: A BATCH message names more files than ``limits`` allow.
    """

    def __init__(self, check: RecordCheck | None = None, limits: FileLimits | None = None) -> None:
        self._check = check
        self._limits = limits or FileLimits()
        self._schemas: dict[str, SchemaEvent] = {}
        self._lines = MessageLines(_FORMAT, self._handle_invalid, self._handle_unknown)
        self._streams: dict[str, StreamId] = {}

    def feed(self, data: bytes) -> Iterator[Event]:
        """Yield the events of all lines that end within ``data``, the next part of the input.

        An incomplete last line is kept for the next call.
        """
        yield from self._convert_lines(self._lines.split(data))

    def close(self) -> Iterator[Event]:
        """End the input: yield the events of its last line, if that line has no line feed.

        Raises:
            TruncatedInputLine: The last line is an incomplete message.
        """
        rest = self._lines.rest()
        if not rest.strip():
            return
        try:
            yield from self._convert_lines([rest])
        except (UnknownMessageType, TruncatedInputLine):
            raise
        except InvalidInputLine as error:
            message = f"The input ended within a message. {error}"
            raise TruncatedInputLine(message) from error

    def iterate_warnings(self) -> Iterator[str]:
        """Yield no warnings, because this reader skips no input."""
        yield from ()

    def _convert_lines(self, lines: list[bytes]) -> Iterator[Event]:
        """Convert complete lines to events. Consecutive records of one stream become one event.

        If a line is invalid, the events of the lines before it are yielded first.
        """
        chunk = _Chunk("", None)
        message: _Message | None
        try:
            for message in self._lines.messages(lines):
                if not isinstance(message, _Record):
                    yield from self._take_rows(chunk)
                    yield self._convert_message(message)
                    continue
                if message.version != chunk.version or message.stream != chunk.stream:
                    yield from self._take_rows(chunk)
                    chunk = _Chunk(message.stream, message.version)
                body = bytes(message.record)
                if body[0] != _OPEN_BRACE and not isinstance(message, _TextRecord):
                    raise _make_line_error(self._lines.number, body, "a record must be an object")
                if self._check is not None:
                    schema = self._schemas.get(message.stream)
                    check_record(self._check, self._lines.number, message.stream, schema, body)
                chunk.rows.append(body)
                chunk.times.append(message.time_extracted)
            message = None  # do not keep a long line in memory while its row is written
        except (InvalidInputLine, UndeclaredRecordError):
            yield from self._take_rows(chunk)
            raise
        yield from self._take_rows(chunk)

    def _take_rows(self, chunk: _Chunk) -> Iterator[Event]:
        """Yield the rows in ``chunk``, if any, as one `Rows` event, and remove them from it."""
        if chunk.rows:
            rows, times = chunk.rows, chunk.times
            chunk.rows, chunk.times = [], []
            stream = self._get_stream_id(chunk.stream)
            yield Rows(stream, rows, extracted_at=times, version=chunk.version)

    def _handle_invalid(self, line: bytes, error: Exception) -> None:
        reason = describe_decode_error(error)
        if line.lstrip()[:1] != b"{":
            reason += "; a tap writes messages to standard output, and logs to standard error"
        elif reason.endswith("truncated"):
            reason += "; each message is one line"
        raise _make_line_error(self._lines.number, line, reason) from error

    def _handle_unknown(self, line: bytes, kind: object) -> None:
        # A tap may print its records without the envelope: then the type is a value of a row.
        kind_text = excerpt(repr(kind).encode(errors="backslashreplace"))
        reason = f"its type is {kind_text}" if kind else "it has no type"
        raise _make_line_error(self._lines.number, line, reason, UnknownMessageType)

    def _get_stream_id(self, name: str) -> StreamId:
        """Return the `StreamId` for a stream name. The same name always gets the same object."""
        known = self._streams.get(name)
        if known is None:
            known = self._streams[name] = StreamId(name)
        return known

    def _convert_message(self, message: _Schema | _State | _ActivateVersion | _Batch) -> Event:
        """Convert a SCHEMA, STATE, ACTIVATE_VERSION or BATCH message to an event."""
        if isinstance(message, _State):
            state = bytes(message.value)
            check_state_size(state, self._lines.number)
            return Checkpoint(state)
        stream = self._get_stream_id(message.stream)
        if isinstance(message, _Schema):
            schema = self._parse_schema(message)
            keys = tuple(message.key_properties or ())
            cursor, other_cursors = _get_cursors(message.bookmark_properties)
            event = SchemaEvent(stream, schema, keys, cursor, other_cursors=other_cursors)
            if self._check is not None:
                self._schemas[message.stream] = event
            return event
        if isinstance(message, _ActivateVersion):
            return ActivateVersion(stream, message.version)
        if self._check is not None:
            raise UndeclaredRecordError(
                f"Line {self._lines.number} is a BATCH message of stream {stream}: the records in"
                " its files cannot be checked like those in messages. Let the tap write records"
                " (remove batch_config from its settings), or set strict to false."
            )
        return self._convert_batch(stream, message)

    def _parse_schema(self, message: _Schema) -> dict[str, Any]:
        text = bytes(message.schema)
        bound = Bound(LINE_BYTES.whole // _SCHEMA_SHARE, LINE_BYTES.variable)
        try:
            bound.check(text, f"the schema of stream '{message.stream}'")
            schema = _decode_object(text)
        except DECODE_ERRORS as error:
            raise _make_line_error(
                self._lines.number, text, f"its schema: {describe_decode_error(error)}"
            ) from error
        except InputTooLargeError as error:
            raise InvalidInputLine(f"Line {self._lines.number}: {error}") from None
        check_schema_size(schema, message.stream)
        return schema

    def _convert_batch(self, stream: StreamId, message: _Batch) -> BatchFiles:
        try:
            paths = tuple(self._limits.read_manifest(message.manifest))
            if len(bytes(message.encoding)) > _ENCODING_BYTES:
                raise ValueError(f"its encoding is longer than {_ENCODING_BYTES:,} bytes")  # noqa: TRY301
            encoding = _decode_object(message.encoding)
        except InputTooLargeError as error:
            raise BatchFileError(f"Stream '{stream}': {error}") from None
        except (ValueError, *DECODE_ERRORS) as error:
            raise _make_line_error(
                self._lines.number, bytes(message.manifest), describe_decode_error(error)
            ) from error
        return BatchFiles(stream, paths, encoding, version=message.version)


def _get_cursors(bookmark_properties: Any) -> tuple[str | None, tuple[str, ...]]:
    """Return the replication key in the ``bookmark_properties`` of a SCHEMA message, and the rest.

    The key is the first property in the list. It is None for null, ``[]`` and ``[null]``, which
    taps write for a stream without a replication key.
    """
    listed = bookmark_properties if isinstance(bookmark_properties, list) else [bookmark_properties]
    first, *other_cursors = listed or [None]
    if not isinstance(first, str):
        return None, ()
    return first, tuple(name for name in other_cursors if isinstance(name, str))


def _restore_input_bytes(message: _Message, repaired: bytes, line: bytes) -> _Message:
    """Return ``message`` with its record or state as it is in ``line``, the line of the input.

    The message was parsed from ``repaired``, a copy of the line. In this copy, text that cannot be
    decoded, such as a lone surrogate, is replaced by text of the same length. A record with such
    text becomes a `_TextRecord`.
    """
    if isinstance(message, _State):
        return _State(msgspec.Raw(slice_at_same_offset(message.value, repaired, line)))
    if not isinstance(message, _Record) or bytes(message.record)[0] != _OPEN_BRACE:
        return message
    record = slice_at_same_offset(message.record, repaired, line)
    if record == bytes(message.record):  # another part of the message was replaced
        return message
    text = msgspec.json.encode(record.decode())
    return _TextRecord(message.stream, msgspec.Raw(text), message.time_extracted, message.version)


_FORMAT: Final = MessageFormat(_decode, _KNOWN_TYPES, _restore_input_bytes)


def _make_line_error(
    number: int,
    line: bytes,
    reason: str,
    error_class: type[InvalidInputLine] = InvalidInputLine,
) -> InvalidInputLine:
    """Return the error for a line of the input that is not a Singer message.

    Args:
        number: Line number.
        line: The line, or the invalid part of it. The error message quotes its beginning.
        reason: Reason for the error message.
        error_class: Class of the error.
    """
    return error_class(f"Line {number} is not a Singer message ({reason}): {excerpt(line)}")
