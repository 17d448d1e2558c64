r"""Singer's wire -> events: bytes in, events out, no I/O in the middle.

Rules of the room:

- One line is one message. A record's own bytes are never decoded: the envelope is read,
  the body goes on as it came, so no number is ever rounded here.
- How the input is cut into ``feed()`` calls changes how rows are gathered into chunks and
  nothing else. Consecutive records of one stream and version are one `Rows`.
- Whatever stood before a line that is no message is yielded before the error is raised;
  after the error the decoder is spent.
- Half of a letter (an escape such as ``\ud83d`` without its other half) can stand in no
  text, and nothing reads what is nested some hundred levels deep. A record that has either
  goes on as a JSON text of itself, so that whoever reads it as an object must set it aside;
  nobody replaces the half by a question mark.
- Blank lines, a byte order mark at the start and carriage returns at line ends are
  forgiven. NaN and the infinities, which JSON does not know and Python's ``json``
  writes, become null with one warning. All else that is not a message is an error:
  the writer is broken, and what follows cannot be trusted.

Source of the message types: the Singer specification, and `singer_sdk` for
ACTIVATE_VERSION and BATCH.
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
    LineSplitter,
    NonFiniteFilter,
    RecordCheck,
    check_record,
    check_text,
    describe_decode_error,
    excerpt,
    read_kind,
    repair_surrogates,
    slice_at_same_offset,
    strip_line,
)
from tap_core.limits.memory import Bound, InputTooLargeError
from tap_core.schema.size_limit import check_schema_size

__all__ = ["SingerReader"]

_OPEN_BRACE: Final = ord("{")
_Version: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Record(msgspec.Struct, tag="RECORD", tag_field="type", gc=False):
    """One row; `record` stays the bytes that came."""

    stream: str
    record: msgspec.Raw
    time_extracted: str | None = None
    version: _Version | None = None


class _TextRecord(_Record, tag="RECORD", tag_field="type"):
    """A row that no reader can take; `record` is the JSON text of what came."""


class _Schema(msgspec.Struct, tag="SCHEMA", tag_field="type"):
    """What the rows of a stream look like; its size is looked at before the schema is read."""

    stream: str
    schema: msgspec.Raw
    key_properties: list[str] | None = None
    bookmark_properties: Any = None


class _State(msgspec.Struct, tag="STATE", tag_field="type"):
    """A state document; `value` stays the bytes that came."""

    value: msgspec.Raw


class _ActivateVersion(msgspec.Struct, tag="ACTIVATE_VERSION", tag_field="type"):
    """Only rows of this version remain valid."""

    stream: str
    version: _Version


class _Batch(msgspec.Struct, tag="BATCH", tag_field="type"):
    """Rows that stand in files; how many is looked at before the manifest is read."""

    stream: str
    encoding: msgspec.Raw
    manifest: msgspec.Raw
    version: _Version | None = None


_Message: TypeAlias = _Record | _Schema | _State | _ActivateVersion | _Batch
_KNOWN_TYPES: Final = ("RECORD", "SCHEMA", "STATE", "ACTIVATE_VERSION", "BATCH")
_decode: Final[Callable[[bytes], _Message]] = msgspec.json.Decoder(_Message).decode
_decode_object: Final = msgspec.json.Decoder(dict[str, Any]).decode
_SCHEMA_SHARE: Final = 4
"""A schema may have a quarter of a line's bytes: what it becomes takes several times as much."""

_STATE_SHARE: Final = 2
"""A state may have half of them: it is copied several times, and read as a whole once."""

_ENCODING_BYTES: Final = 1 << 16
"""Far more than the names of a format and of a compression."""


@dataclass(slots=True)
class _Chunk:
    """Rows of one stream and version that stand together in the input."""

    stream: str
    version: int | None
    rows: list[bytes] = field(default_factory=list)
    times: list[str | None] = field(default_factory=list)


class SingerReader:
    """Turns the bytes of a Singer stream into events.

    Call `feed` with each block of bytes and `close` at the end of the input, and take
    every event from both. Raises `InvalidInputLine` (`TruncatedInputLine` where the input
    ends within a message, `UnknownMessageType`) naming the line, `UndeclaredRecordError` for a
    record in which ``check`` finds a fault, and `BatchFileError` for a BATCH message that names
    more files than ``limits`` (the defaults unless given) allow.
    """

    def __init__(self, check: RecordCheck | None = None, limits: FileLimits | None = None) -> None:
        """Start at line 1 with nothing pending."""
        self._check = check
        self._limits = limits or FileLimits()
        self._described: dict[str, SchemaEvent] = {}
        self._lines = LineSplitter()
        self._lines_read = 0
        self._streams: dict[str, StreamId] = {}
        self._without_infinities = NonFiniteFilter()

    def feed(self, data: bytes) -> Iterator[Event]:
        """Yield the events of all lines that end within ``data``."""
        yield from self._events(self._lines.feed(data))

    def close(self) -> Iterator[Event]:
        """Yield the event of a last line without a line end; raise if it is torn."""
        rest = self._lines.rest()
        if not rest.strip():
            return
        try:
            yield from self._events([rest])
        except (UnknownMessageType, TruncatedInputLine):
            raise
        except InvalidInputLine as error:
            message = f"The input ended within a message. {error}"
            raise TruncatedInputLine(message) from error

    def remarks(self) -> Iterator[str]:
        """Yield what is to be known of the input as a whole: nothing, as all of it counts."""
        yield from ()

    def _events(self, lines: list[bytes]) -> Iterator[Event]:
        """Yield the events of whole lines, rows gathered into chunks."""
        chunk = _Chunk("", None)
        message: _Message | None
        try:
            for message in self._messages(lines):
                if not isinstance(message, _Record):
                    yield from self._finished(chunk)
                    yield self._event(message)
                    continue
                if message.version != chunk.version or message.stream != chunk.stream:
                    yield from self._finished(chunk)
                    chunk = _Chunk(message.stream, message.version)
                body = bytes(message.record)
                if body[0] != _OPEN_BRACE and not isinstance(message, _TextRecord):
                    raise _complaint(self._lines_read, body, "a record must be an object")
                if self._check is not None:
                    name = message.stream
                    known = self._described.get(name)
                    check_record(self._check, self._lines_read, name, known, body)
                chunk.rows.append(body)
                chunk.times.append(message.time_extracted)
            message = None  # else it would hold a line that may be long while its row is written
        except (InvalidInputLine, UndeclaredRecordError):
            yield from self._finished(chunk)
            raise
        yield from self._finished(chunk)

    def _finished(self, chunk: _Chunk) -> Iterator[Event]:
        """Yield what the chunk holds and leave it empty, ready for more of the same."""
        if chunk.rows:
            rows, times = chunk.rows, chunk.times
            chunk.rows, chunk.times = [], []
            stream = self._stream(chunk.stream)
            yield Rows(stream, rows, extracted_at=times, version=chunk.version)

    def _messages(self, lines: list[bytes]) -> Iterator[_Message]:
        """Yield one message a line: the loop that everything passes through."""
        lines.reverse()
        while lines:
            line = lines.pop()  # so that nothing holds a line longer than needed
            self._lines_read += 1
            try:
                message = _decode(line)
                if not line.isascii():
                    check_text(line)
            except DECODE_ERRORS as error:
                second = self._second_look(line, error)
                if second is None:
                    continue
                message = second
            del line  # it may be long, and its message holds what is needed of it
            yield message

    def _second_look(self, line: bytes, error: Exception) -> _Message | None:
        """Read a line that the strict reader refused; None for a blank one."""
        whole = strip_line(line, self._lines_read)
        if not whole:
            return None
        try:
            check_text(whole)
            whole = self._without_infinities(whole, self._lines_read)
            mended = repair_surrogates(whole)
            mended, kind = read_kind(mended, may_be_deep="RECORD")
            if kind in _KNOWN_TYPES:
                message = _decode(mended)
                return message if mended == whole else _as_it_came(message, mended, whole)
        except DECODE_ERRORS as again:
            raise _complaint(self._lines_read, line, describe_decode_error(again)) from error
        why = f"its type is {kind!r}" if kind else "it has no type"
        raise _complaint(self._lines_read, line, why, UnknownMessageType)

    def _stream(self, name: str) -> StreamId:
        """Return the one identity of a name."""
        known = self._streams.get(name)
        if known is None:
            known = self._streams[name] = StreamId(name)
        return known

    def _event(self, message: _Schema | _State | _ActivateVersion | _Batch) -> Event:
        """Translate a message that is no record."""
        if isinstance(message, _State):
            return Checkpoint(self._state(message))
        stream = self._stream(message.stream)
        if isinstance(message, _Schema):
            schema = self._schema(message)
            keys = tuple(message.key_properties or ())
            cursor = _cursor(message.bookmark_properties)
            described = SchemaEvent(stream, schema, keys, cursor)
            if self._check is not None:
                self._described[message.stream] = described
            return described
        if isinstance(message, _ActivateVersion):
            return ActivateVersion(stream, message.version)
        if self._check is not None:
            raise UndeclaredRecordError(
                f"Line {self._lines_read} is a BATCH message of stream {stream}: the records in its"
                " files cannot be checked as those in messages are. Let the tap write records (take"
                " batch_config out of its settings), or set strict to false."
            )
        return self._files(stream, message)

    def _state(self, message: _State) -> bytes:
        text = bytes(message.value)
        try:
            Bound(LINE_BYTES.whole // _STATE_SHARE, LINE_BYTES.variable).check(text, "the state")
        except InputTooLargeError as error:
            raise InvalidInputLine(f"Line {self._lines_read}: {error}") from None
        return text

    def _schema(self, message: _Schema) -> dict[str, Any]:
        text = bytes(message.schema)
        most = Bound(LINE_BYTES.whole // _SCHEMA_SHARE, LINE_BYTES.variable)
        try:
            most.check(text, f"the schema of stream '{message.stream}'")
            schema = _decode_object(text)
        except DECODE_ERRORS as error:
            raise _complaint(
                self._lines_read, text, f"its schema: {describe_decode_error(error)}"
            ) from error
        except InputTooLargeError as error:
            raise InvalidInputLine(f"Line {self._lines_read}: {error}") from None
        check_schema_size(schema, message.stream)
        return schema

    def _files(self, stream: StreamId, message: _Batch) -> BatchFiles:
        try:
            paths = tuple(self._limits.read_manifest(message.manifest))
            if len(bytes(message.encoding)) > _ENCODING_BYTES:
                raise ValueError(f"its encoding is longer than {_ENCODING_BYTES:,} bytes")  # noqa: TRY301
            encoding = _decode_object(message.encoding)
        except InputTooLargeError as error:
            raise BatchFileError(f"Stream '{stream}': {error}") from None
        except (ValueError, *DECODE_ERRORS) as error:
            raise _complaint(
                self._lines_read, bytes(message.manifest), describe_decode_error(error)
            ) from error
        return BatchFiles(stream, paths, encoding, version=message.version)


def _cursor(bookmark_properties: Any) -> str | None:
    """Return the replication key; the specification allows a list, takes its first.

    Taps without one write an empty list, null, or a list with null in it.
    """
    listed = isinstance(bookmark_properties, list)
    first = next(iter(bookmark_properties), None) if listed else bookmark_properties
    return first if isinstance(first, str) else None


def _as_it_came(message: _Message, mended: bytes, line: bytes) -> _Message:
    """Give a message its own bytes back, found by their place in a line of equal length."""
    if isinstance(message, _State):
        return _State(msgspec.Raw(slice_at_same_offset(message.value, mended, line)))
    if not isinstance(message, _Record) or bytes(message.record)[0] != _OPEN_BRACE:
        return message
    text = msgspec.json.encode(slice_at_same_offset(message.record, mended, line).decode())
    return _TextRecord(message.stream, msgspec.Raw(text), message.time_extracted, message.version)


def _complaint(
    number: int,
    line: bytes,
    why: str,
    kind: type[InvalidInputLine] = InvalidInputLine,
) -> InvalidInputLine:
    """Return the error for a line, with its number and how it begins."""
    return kind(f"Line {number} is not a Singer message ({why}): {excerpt(line)}")
