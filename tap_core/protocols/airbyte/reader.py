"""Reader of Airbyte messages for a destination: it converts bytes to events, without I/O.

- One line is one message. Records and states stay bytes; only the rest of a message is decoded.
- Consecutive records of one stream become one `Rows` event. The division of the input into
  ``feed()`` calls affects only the size of these events.
- Schemas come from the configured catalog and are yielded first. Records of other streams and lines
  that are not messages are counted and skipped. Only an incomplete message at the end of the input
  is an error, because the Airbyte source has crashed.
- A stream is complete if the source has sent its status COMPLETE. Sources with an older protocol
  version send no statuses, so all their streams are complete at the end of the input. Statuses may
  arrive even before their rows, so completions are yielded at the end of the input.
- For lone surrogates, NaN, byte order marks and blank lines see `tap_core.io.json_lines`.

Source: the Airbyte protocol, sections AirbyteMessage to AirbyteTraceMessage, and its models for
newer messages (STREAM_STATUS, generations, a record's meta).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Final, TypeAlias

import msgspec

from tap_core.events import (
    ActivateVersion,
    Checkpoint,
    Event,
    Progress,
    Rows,
    SchemaEvent,
    StreamId,
    StreamStatus,
)
from tap_core.exceptions import (
    FatalSyncError,
    InvalidInputLine,
    RecordsWithoutSchemaException,
    TruncatedInputLine,
)
from tap_core.io.json_lines import (
    DECODE_ERRORS,
    RecordCheck,
    check_record,
    check_state_size,
    describe_decode_error,
    excerpt,
    repair_surrogates,
    slice_at_same_offset,
    strip_line,
)
from tap_core.io.message_lines import MessageFormat, MessageLines

__all__ = ["AirbyteReader", "ExpectedStream", "get_stream_id"]

logger: logging.Logger = logging.getLogger(__name__)

_OPEN_BRACE: Final = ord("{")
_NULL: Final = msgspec.Raw(b"null")
_SECONDS_BELOW: Final = 100_000_000_000
"""Times below this number are in seconds. As milliseconds, they would be before April 1973."""


@dataclass(frozen=True, slots=True)
class ExpectedStream:
    """Stream of a configured catalog that a destination expects to receive.

    Attributes:
        schema_event: Schema and keys of the stream.
        generation: Airbyte's generation id of the rows of this sync.
        truncates: True if rows of other generations are removed once the stream is complete.
    """

    schema_event: SchemaEvent
    generation: int | None = None
    truncates: bool = False


class _Body(msgspec.Struct, gc=False):
    """Content of a RECORD message. The values of type ``Raw`` are unparsed JSON bytes."""

    stream: str
    data: msgspec.Raw
    emitted_at: msgspec.Raw = _NULL
    namespace: str | None = None
    meta: msgspec.Raw = _NULL


class _TextBody(_Body):
    """Content of a RECORD message with a record that cannot be decoded (lone surrogates).

    ``data`` is a JSON string that contains the JSON text of the record.
    """


class _Record(msgspec.Struct, tag="RECORD", tag_field="type", gc=False):
    """RECORD message of an Airbyte source: one record of a stream."""

    record: _Body


class _State(msgspec.Struct, tag="STATE", tag_field="type"):
    """STATE message of an Airbyte source. ``state`` is unparsed JSON bytes."""

    state: msgspec.Raw


class _Trace(msgspec.Struct, tag="TRACE", tag_field="type"):
    """TRACE message, such as a stream status or an error of the Airbyte source."""

    trace: msgspec.Raw


class _Log(msgspec.Struct, tag="LOG", tag_field="type"):
    """LOG message of an Airbyte source. It is ignored, because the source has already logged it."""


class _Descriptor(msgspec.Struct):
    """StreamDescriptor: name and namespace of a stream."""

    name: str
    namespace: str | None = None


class _StreamReference(msgspec.Struct):
    """Stream that a STATE or STREAM_STATUS message names. Only STREAM_STATUS has a ``status``."""

    stream_descriptor: _Descriptor
    status: Any = None


class _StateScope(msgspec.Struct):
    """Type of an Airbyte state (STREAM, GLOBAL or LEGACY), and its stream if the type is STREAM.

    Old protocol versions have the type in the field ``state_type`` instead of ``type``.
    """

    type: Any = None
    state_type: Any = None
    stream: msgspec.Raw = _NULL


class _TraceKind(msgspec.Struct):
    """Type of a TRACE message, and its content if the type is STREAM_STATUS or ERROR."""

    type: Any = None
    stream_status: msgspec.Raw = _NULL
    error: msgspec.Raw = _NULL


class _Error(msgspec.Struct):
    """Content of an ERROR trace message: the error message of an Airbyte source."""

    message: Any = None


_Message: TypeAlias = _Record | _State | _Trace | _Log
_KNOWN_TYPES: Final = ("RECORD", "STATE", "TRACE", "LOG")
_decode: Final[Callable[[bytes], _Message]] = msgspec.json.Decoder(_Message).decode
_decode_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_scope: Final = msgspec.json.Decoder(_StateScope).decode
_decode_trace: Final = msgspec.json.Decoder(_TraceKind).decode
_decode_stream_reference: Final = msgspec.json.Decoder(_StreamReference).decode
_decode_error: Final = msgspec.json.Decoder(_Error).decode
_decode_number: Final = msgspec.json.Decoder(int | float).decode


@dataclass(slots=True)
class _Chunk:
    """Consecutive rows of one stream, collected until they become one `Rows` event.

    ``expected`` is None if the stream is not in the catalog.
    """

    name: str
    namespace: str | None
    expected: ExpectedStream | None
    rows: list[bytes] = field(default_factory=list)
    times: list[str | None] = field(default_factory=list)
    meta: dict[int, bytes] = field(default_factory=dict)

    def take_rows(self) -> Iterator[Rows]:
        """Yield the collected rows as one `Rows` event, and remove them from the chunk.

        Yield nothing if there are no rows, or if the stream is not in the catalog.
        """
        if not self.rows or self.expected is None:
            return
        rows, times, meta = self.rows, self.times, self.meta
        self.rows, self.times, self.meta = [], [], {}
        yield Rows(
            self.expected.schema_event.stream,
            rows,
            extracted_at=times,
            version=self.expected.generation,
            meta=[meta.get(index) for index in range(len(rows))] if meta else None,
        )


class AirbyteReader:
    """Reader that converts the bytes of an Airbyte source to events, such as rows and states.

    Call `feed` with each block of bytes, and `close` at the end of the input. Consume all events
    that both methods yield. After that, `iterate_warnings` yields warnings that summarize the
    skipped input.

    Args:
        expected: Streams of the configured catalog.
        fails_on_undeclared: True to raise an error for streams and fields that are not in the
            catalog; False to skip such streams and keep such fields.
        check: Validates each record. With a check, invalid messages are errors too; without one,
            they are skipped.

    Raises:
        TruncatedInputLine: The input ends within a message.
        RecordsWithoutSchemaException: With ``fails_on_undeclared``: a record's stream or one of its
            fields is not in the catalog.
        UndeclaredRecordError: ``check`` rejects a record.
        InvalidInputLine: With ``check``: a line starts like a message but is invalid.
    """

    def __init__(
        self,
        expected: Iterable[ExpectedStream],
        *,
        fails_on_undeclared: bool = False,
        check: RecordCheck | None = None,
    ) -> None:
        self._check = check
        self._checks_records = fails_on_undeclared or check is not None
        self._expected = {
            expected_stream.schema_event.stream: expected_stream for expected_stream in expected
        }
        self._by_name = _index_by_name(self._expected)
        self._fails_on_undeclared = fails_on_undeclared
        self._lines = MessageLines(_FORMAT, self._handle_invalid, self._handle_unknown)
        self._times = _Times()
        self._has_yielded_schemas = False
        self._statuses: dict[StreamId, set[Progress]] = {}
        self._has_statuses = False
        self._has_failed = False
        self._skipped_lines = 0
        self._has_singer_messages = False
        self._unknown_streams: Counter[str] = Counter()

    def feed(self, data: bytes) -> Iterator[Event]:
        """Yield the events of all lines that end within ``data``, the next part of the input.

        An incomplete last line is kept for the next call.
        """
        yield from self._yield_schemas()
        yield from self._convert_lines(self._lines.split(data))

    def close(self) -> Iterator[Event]:
        """End the input: yield the events of its last line, then the end of each complete stream.

        Raises:
            TruncatedInputLine: The last line is an incomplete message.
        """
        yield from self._yield_schemas()
        rest, skipped_before = self._lines.rest(), self._skipped_lines
        yield from self._convert_lines([rest] if rest.strip() else [])
        is_skipped = self._skipped_lines > skipped_before
        is_truncated = is_skipped and strip_line(rest, self._lines.number).startswith(b"{")
        yield from self._yield_completions(
            has_ended_normally=not (is_truncated or self._has_failed)
        )
        if is_truncated:
            raise TruncatedInputLine(
                "The input ended within a message: its source crashed or was cut off. All"
                f" messages before it are loaded. Line {self._lines.number} begins: {excerpt(rest)}"
            )

    def iterate_warnings(self) -> Iterator[str]:
        """Yield a warning for each kind of input that was not loaded.

        The warnings are about Singer messages, skipped lines, and skipped records per stream.
        """
        if self._has_singer_messages:
            yield (
                "The input has messages of Singer, whose records are not loaded. Leave the command"
                " 'write' out to load them."
            )
        if self._skipped_lines:
            yield f"Skipped lines of the input that are not messages: {self._skipped_lines:,}"
        for name, count in self._unknown_streams.items():
            yield f"Skipped records of stream {name}, which is not in the catalog: {count:,}"

    # Rows

    def _convert_lines(self, lines: list[bytes]) -> Iterator[Event]:
        """Convert complete lines to events. Consecutive records of one stream become one event.

        If a line is invalid, the events of the lines before it are yielded first.
        """
        chunk = _Chunk("", None, None)
        message: _Message | None
        body: _Body | None
        try:
            for message in self._lines.messages(lines):
                if not isinstance(message, _Record):
                    yield from chunk.take_rows()
                    yield from self._convert_message(message)
                    continue
                body = message.record
                is_same = body.stream == chunk.name and body.namespace == chunk.namespace
                if not is_same or not chunk.expected:
                    yield from chunk.take_rows()
                    chunk = self._make_chunk(body)
                if self._checks_records:
                    self._check_record(body, chunk.expected)
                if chunk.expected is not None:
                    self._add_row(body, chunk)
            message = body = None  # do not keep a long line in memory
        except (FatalSyncError, InvalidInputLine):
            yield from chunk.take_rows()
            raise
        yield from chunk.take_rows()

    def _make_chunk(self, body: _Body) -> _Chunk:
        """Return an empty `_Chunk` for a record's stream; if that is unknown, count the record."""
        expected = self._expected.get(self._resolve_stream(body.stream, body.namespace))
        if expected is None:  # the caller then makes a new chunk for each record
            self._unknown_streams[str(StreamId(body.stream, body.namespace))] += 1
        return _Chunk(body.stream, body.namespace, expected)

    def _check_record(self, body: _Body, expected: ExpectedStream | None) -> None:
        """Check a record against the catalog and its schema, as the options of the reader require.

        ``expected`` is the record's stream in the catalog, or None.

        Raises:
            FatalSyncError: The catalog lacks the stream or a field (with ``fails_on_undeclared``),
                or a value is invalid (with ``check``).
        """
        if self._fails_on_undeclared:
            if expected is None:
                raise self._make_undeclared_error("which is not", body)
            if names := _find_undeclared_fields(body.data, expected):
                raise self._make_undeclared_error(
                    f"with fields ({', '.join(names)}) that are not", body
                )
        if self._check is not None:
            stream = StreamId(body.stream, body.namespace)
            schema_event = expected.schema_event if expected else None
            check_record(self._check, self._lines.number, stream, schema_event, bytes(body.data))

    def _make_undeclared_error(self, clause: str, body: _Body) -> RecordsWithoutSchemaException:
        """Return the error for a record whose stream or fields are not in the catalog.

        ``clause`` is the text before "in the catalog" in the message, such as "which is not".
        """
        return RecordsWithoutSchemaException(
            f"Line {self._lines.number} is a record of stream"
            f" {StreamId(body.stream, body.namespace)}, {clause} in the catalog. Add it there, or"
            " set outside_catalog to ignore."
        )

    def _add_row(self, body: _Body, chunk: _Chunk) -> None:
        """Add a record to the rows in ``chunk``, or skip it if its data is not a JSON object."""
        row = bytes(body.data)
        if row[0] != _OPEN_BRACE and not isinstance(body, _TextBody):
            self._skip_line(row, "a record's data must be an object")
            return
        if body.meta is not _NULL:
            meta = bytes(body.meta)
            if meta != b"null":
                chunk.meta[len(chunk.rows)] = meta
        chunk.rows.append(row)
        chunk.times.append(self._times.format(bytes(body.emitted_at)))

    # Lines

    def _handle_invalid(self, line: bytes, error: Exception) -> None:
        number = self._lines.number
        if self._check is not None and strip_line(line, number).startswith(b"{"):
            raise InvalidInputLine(
                f"Line {number} is not an Airbyte message"
                f" ({describe_decode_error(error)}): {excerpt(line)}"
            ) from error
        self._skip_line(line, describe_decode_error(error))

    def _handle_unknown(self, line: bytes, kind: object) -> None:
        if not isinstance(kind, str):  # a string may be a type of a newer protocol version
            self._skip_line(line, "it has no type")
        elif kind == "SCHEMA":
            self._has_singer_messages = True

    def _skip_line(self, line: bytes, reason: str) -> None:
        """Count a skipped line. Log only the first skipped line, with the reason."""
        self._skipped_lines += 1
        if self._skipped_lines == 1:
            logger.warning(
                "Line %d is not an Airbyte message (%s) and is skipped; further such lines are only"
                " counted. It begins: %s",
                self._lines.number,
                reason,
                excerpt(line),
            )

    # Other messages

    def _yield_schemas(self) -> Iterator[SchemaEvent]:
        """Yield the schema of each stream in the catalog. Second and later calls yield nothing."""
        if not self._has_yielded_schemas:
            self._has_yielded_schemas = True
            yield from (expected_stream.schema_event for expected_stream in self._expected.values())

    def _resolve_stream(self, name: str, namespace: str | None) -> StreamId:
        """Return the catalog's identifier for a stream that a message names.

        Sources built with Airbyte's CDK omit the namespace. In this case, the stream is found by
        its name, unless several streams of the catalog have this name.
        """
        named = StreamId(name, namespace)
        return named if namespace or named in self._expected else self._by_name.get(name, named)

    def _convert_message(self, message: _State | _Trace | _Log) -> Iterator[Event]:
        """Yield a `Checkpoint` event for a STATE message. Other messages yield no event.

        The status or error in a TRACE message is recorded. LOG messages are ignored.
        """
        if isinstance(message, _State):
            state = bytes(message.state)
            check_state_size(state, self._lines.number)
            if state[0] == _OPEN_BRACE:
                scope = get_stream_id(state)
                yield Checkpoint(state, scope and self._resolve_stream(scope.name, scope.namespace))
            else:
                self._skip_line(state, "a state must be an object")
        elif isinstance(message, _Trace):
            self._record_trace(message.trace)

    def _record_trace(self, trace: msgspec.Raw) -> None:
        """Record the stream status or the source error of a TRACE message. Ignore other traces."""
        try:
            kind = _decode_trace(trace)
            if kind.type == "ERROR":
                self._has_failed = True
                logger.warning("The source failed: %s", _decode_error(kind.error).message)
            elif kind.type == "STREAM_STATUS":
                self._has_statuses = True
                reference = _decode_stream_reference(kind.stream_status)
                descriptor = reference.stream_descriptor
                stream = self._resolve_stream(descriptor.name, descriptor.namespace)
                progress = Progress(str(reference.status).lower())
                self._statuses.setdefault(stream, set()).add(progress)
        except (*DECODE_ERRORS, ValueError):  # a trace of a newer protocol version
            return

    def _yield_completions(
        self, *, has_ended_normally: bool
    ) -> Iterator[StreamStatus | ActivateVersion]:
        """Yield a COMPLETE event for each stream that the Airbyte source has read completely.

        A stream is complete if its final status is COMPLETE. If the input has no statuses at all,
        all streams are complete. If the rows of older generations of a stream must be removed, an
        `ActivateVersion` event follows.

        Args:
            has_ended_normally: False if the input was incomplete or the Airbyte source failed. Then
                input without statuses completes no stream.
        """
        all_complete = has_ended_normally and not self._has_statuses
        for stream, expected in self._expected.items():
            ends = self._statuses.get(stream, set()) - {Progress.STARTED, Progress.RUNNING}
            if all_complete or ends == {Progress.COMPLETE}:
                yield StreamStatus(stream, Progress.COMPLETE)
                if expected.truncates and expected.generation is not None:
                    yield ActivateVersion(stream, expected.generation)


def get_stream_id(state: bytes) -> StreamId | None:
    """Return the stream of an Airbyte state of type STREAM, passed as JSON bytes.

    Return None for a state of type GLOBAL or LEGACY, or an invalid state.
    """
    try:
        scope = _decode_scope(repair_surrogates(state))
        if (scope.type or scope.state_type or "STREAM") != "STREAM":
            return None
        descriptor = _decode_stream_reference(scope.stream).stream_descriptor
    except DECODE_ERRORS:
        return None
    return StreamId(descriptor.name, descriptor.namespace)


class _Times:
    """Converter of Unix times, in milliseconds or seconds, to ISO 8601. It caches the last result.

    The Airbyte protocol requires milliseconds, but some sources send seconds.
    """

    def __init__(self) -> None:
        self._last_time = b""
        self._last_text: str | None = None
        self._last_second: int | None = None
        self._text_of_second = ""

    def format(self, emitted_at: bytes) -> str | None:
        """Return a Unix time as ISO 8601 (``2024-01-31T00:00:00.000Z``), or None if invalid.

        ``emitted_at`` is unparsed JSON: if it is invalid, only the time is lost, not the record.
        """
        if emitted_at != self._last_time:
            self._last_time, self._last_text = emitted_at, self._format_uncached(emitted_at)
        return self._last_text

    def _format_uncached(self, emitted_at: bytes) -> str | None:
        try:
            time = _decode_number(emitted_at)
        except msgspec.MsgspecError:  # no number, or one beyond the range of a float
            return None
        is_seconds = -_SECONDS_BELOW < time < _SECONDS_BELOW
        second, millisecond = divmod(round(time * 1000 if is_seconds else time), 1000)
        if second != self._last_second:
            try:
                instant = datetime.fromtimestamp(second, timezone.utc)
            except (ValueError, OverflowError, OSError):  # not a year that datetime supports
                return None
            self._last_second, self._text_of_second = second, instant.isoformat()[:19]
        return f"{self._text_of_second}.{millisecond:03d}Z"


def _find_undeclared_fields(data: msgspec.Raw, expected: ExpectedStream) -> list[str]:
    """Return the names of a record's fields that its schema does not declare.

    The result is empty if the schema declares no fields at all. Fields named ``_airbyte_…`` are
    ignored, because PyAirbyte's cache adds them to records.
    """
    declared = expected.schema_event.schema.get("properties")
    if not isinstance(declared, Mapping) or not declared:
        return []
    try:
        names = _decode_fields(data)
    except msgspec.MsgspecError:
        return []
    return [name for name in names if name not in declared and not name.startswith("_airbyte_")]


def _index_by_name(expected: Iterable[StreamId]) -> dict[str, StreamId]:
    """Return the ``expected`` streams by name, to find the stream of a message without a namespace.

    Names that occur in several namespaces are left out.
    """
    streams = list(expected)
    counts = Counter(stream.name for stream in streams)
    return {stream.name: stream for stream in streams if counts[stream.name] == 1}


def _restore_input_bytes(message: _Message, repaired: bytes, line: bytes) -> _Message:
    """Return ``message`` with its record or state as it is in ``line``, the line of the input.

    The message was parsed from ``repaired``. This is a copy of the line in which text that cannot
    be decoded, such as a lone surrogate, is replaced by text of equal length. A record with such
    text becomes a `_TextBody`.
    """
    if isinstance(message, _State):
        return _State(msgspec.Raw(slice_at_same_offset(message.state, repaired, line)))
    if not isinstance(message, _Record) or bytes(message.record.data)[0] != _OPEN_BRACE:
        return message
    body = message.record
    data = slice_at_same_offset(body.data, repaired, line)
    if data == bytes(body.data):  # another part of the message was replaced
        return message
    text = msgspec.json.encode(data.decode())
    return _Record(
        _TextBody(body.stream, msgspec.Raw(text), body.emitted_at, body.namespace, body.meta)
    )


_FORMAT: Final = MessageFormat(_decode, _KNOWN_TYPES, _restore_input_bytes)
