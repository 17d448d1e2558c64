"""Splitting of input into lines, and repair of lines that are not strictly valid JSON.

All protocols, such as Singer and Airbyte, use these functions. The repairs of surrogates and of
deep nesting keep the length of a line, so that an offset in the repaired line is also valid in the
original line.
"""

from __future__ import annotations

import codecs
import logging
import re
from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from tap_core.events import SchemaEvent
from tap_core.exceptions import InvalidInputLine, UndeclaredRecordError
from tap_core.limits.environment import Limit
from tap_core.limits.memory import MIB, Bound, InputTooLargeError, format_size
from tap_core.redaction.row_values import are_rows_shown, describe_value
from tap_core.singerlib.json import describe_non_utf8

__all__ = [
    "DECODE_ERRORS",
    "LINE_BYTES",
    "LineSplitter",
    "NonFiniteFilter",
    "RecordCheck",
    "check_record",
    "check_state_size",
    "check_text",
    "describe_decode_error",
    "excerpt",
    "read_message_type",
    "repair_surrogates",
    "slice_at_same_offset",
    "strip_line",
]

logger: logging.Logger = logging.getLogger(__name__)

DECODE_ERRORS: Final = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)
"""Errors that decoding of an invalid line may raise."""

RecordCheck: TypeAlias = Callable[[SchemaEvent | None, bytes], str | None]
"""Function that checks a record (JSON) against the schema event of its stream.

It returns the reason why the record is invalid, or None if the record is valid.
"""

_QUOTE: Final = ord('"')
_EXCERPT_LENGTH: Final = 200
_CHECK_BYTES: Final = 1 << 20
"""Number of bytes of a long line that are checked at a time."""

# Patterns for the results of `_mask_escapes`. A string matches as a whole, even without its end, so
# that the other alternatives match only outside of strings.
_STRING_OR_NON_FINITE: Final = re.compile(rb'"[^"]*"?|-?Infinity|NaN')
_STRING_OR_BRACKETS: Final = re.compile(rb'"[^"]*"?|[\[{]+|[\]}]+')
# All escapes match in order, so that an escaped backslash is not taken for the start of another
# escape. The group is a lone surrogate.
_ESCAPES: Final = re.compile(
    rb"\\(?:u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}"
    rb"|(u[dD][89a-fA-F][\da-fA-F]{2})|.)",
    re.DOTALL,
)

_NULL: Final = msgspec.Raw(b"null")
_MAX_DEPTH: Final = 64
"""Nesting depth to which a line is cut if it is too deep to decode."""


class _MessageType(msgspec.Struct):
    """Message whose field ``type`` is decoded without the other fields, for speed."""

    type: msgspec.Raw = _NULL


_decode_type: Final = msgspec.json.Decoder(_MessageType).decode

LINE_BYTES: Final = Limit("TAP_CORE_LINE_BYTES", 64 * MIB)
"""Maximum length of one input line in bytes, set by the environment variable of this name."""

_STATE_SHARE: Final = 2
"""Divisor of the line limit that applies to states."""


class LineSplitter:
    """Incremental splitter of input blocks into lines.

    An incomplete line at the end of a block is stored, and completed by the next block.
    """

    def __init__(self) -> None:
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._line_count = 0
        self._max_bytes = LINE_BYTES.whole

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that end within the block ``data``, without their line feeds.

        Raises:
            InvalidInputLine: A line is longer than `LINE_BYTES`.
        """
        first_end = data.find(b"\n")
        self._pending_bytes += len(data) if first_end < 0 else first_end
        if self._pending_bytes > self._max_bytes:
            self._pending.clear()
            raise InvalidInputLine(
                f"Line {self._line_count + 1} is longer than {format_size(self._max_bytes)}. Let"
                f" the tap send smaller records or states, or raise {LINE_BYTES.variable} (bytes)."
            )
        if first_end < 0:
            self._pending.append(data)
            return []
        # The line that began in earlier blocks may be very long; it is joined alone,
        # so that it is copied once.
        self._pending.append(data[:first_end])
        lines = [self.rest()]
        last_end = data.rfind(b"\n")
        if last_end > first_end:
            lines += data[first_end + 1 : last_end].split(b"\n")
        self._pending.append(data[last_end + 1 :])
        self._pending_bytes = len(data) - last_end - 1
        self._line_count += len(lines)
        return lines

    def rest(self) -> bytes:
        """Return and clear the incomplete last line. Call this method at the end of the input."""
        line = b"".join(self._pending)
        self._pending.clear()
        return line


class NonFiniteFilter:
    """Filter that replaces NaN and infinities in JSON lines with null.

    Python's ``json`` writes these values, but JSON does not allow them. A warning is logged for the
    first such line.
    """

    def __init__(self) -> None:
        self._warned = False

    def __call__(self, line: bytes, number: int) -> bytes:
        """Return a JSON line with each NaN and infinity replaced by null, except inside strings.

        ``number`` is the line number, for the warning.
        """
        if b"NaN" not in line and b"Infinity" not in line:
            return line
        replaced = _replace_non_finite(line)
        if replaced is not line and not self._warned:
            self._warned = True
            logger.warning(
                "Line %d holds NaN or Infinity, which JSON does not allow; all such values are "
                "read as null, without further warnings.",
                number,
            )
        return replaced


def _replace_non_finite(line: bytes) -> bytes:
    """Return a JSON line with each NaN and infinity replaced by null, except inside strings.

    If there is no such value, the same object is returned.
    """
    result, end = bytearray(), 0
    for match in _STRING_OR_NON_FINITE.finditer(_mask_escapes(line)):
        if line[match.start()] != _QUOTE:
            result += line[end : match.start()]
            result += b"null"
            end = match.end()
    return bytes(result + line[end:]) if end else line


def strip_line(line: bytes, number: int) -> bytes:
    """Return a line without surrounding whitespace.

    ``number`` is the line number. In line 1, a byte order mark is removed too.
    """
    stripped = line.strip()
    return stripped.removeprefix(codecs.BOM_UTF8).strip() if number == 1 else stripped


def _mask_escapes(line: bytes) -> bytes:
    r"""Return a line with each ``\\`` and ``\"`` replaced by two underscores.

    In the result, which has the same length, each quotation mark begins or ends a string.
    """
    # Regular expressions that match the escapes themselves would need memory for each escape.
    return line.replace(rb"\\", b"__").replace(rb"\"", b"__")


def repair_surrogates(line: bytes) -> bytes:
    r"""Return a JSON line with each lone surrogate (such as ``\ud83d``) replaced by ``\ufffd``.

    The result has the same length.
    """
    if b"\\ud" not in line and b"\\uD" not in line:
        return line
    repaired = bytearray(line)
    for match in _ESCAPES.finditer(line):
        if match[1]:
            repaired[match.start() : match.end()] = rb"\ufffd"
    return bytes(repaired)


def read_message_type(line: bytes) -> tuple[bytes, object]:
    """Return the line of a message, in a form that can be decoded, and the message's ``type``.

    A RECORD message that is nested too deeply to decode is repaired: its content below 64 levels is
    replaced by blanks. Any other line is unchanged. A missing type becomes None.

    Raises:
        RecursionError: A message of another type is nested too deeply.
    """
    try:
        return line, _read_type(line)
    except RecursionError:
        shallow = _cut_deep_levels(line)
        if (kind := _read_type(shallow)) != "RECORD":
            raise
        return shallow, kind


def _read_type(line: bytes) -> object:
    return msgspec.json.decode(_decode_type(line).type)


def _cut_deep_levels(line: bytes) -> bytes:
    """Return a JSON line whose content below 64 levels of nesting is replaced by blanks.

    The result has the same length.
    """
    result = bytearray(line)
    depth = begin = 0
    for match in _STRING_OR_BRACKETS.finditer(_mask_escapes(line)):
        first, length = line[match.start()], match.end() - match.start()
        if first in b"[{":
            if depth < _MAX_DEPTH <= depth + length:
                begin = match.start() + _MAX_DEPTH - depth
            depth += length
        elif first in b"]}":
            if depth - length < _MAX_DEPTH <= depth:
                end = match.start() + depth - _MAX_DEPTH
                result[begin:end] = b" " * (end - begin)
            depth -= length
    return bytes(result)


def slice_at_same_offset(raw: msgspec.Raw, repaired: bytes, line: bytes) -> bytes:
    """Return the bytes of the original ``line`` from which the field ``raw`` was decoded.

    ``repaired`` is the copy of the line that was decoded; it has the same length.
    """
    part = bytes(raw)
    start = repaired.find(part)
    return line[start : start + len(part)]


def check_text(line: bytes) -> None:
    """Raise UnicodeDecodeError if a line is not UTF-8; a long line is checked in parts."""
    if len(line) <= _CHECK_BYTES:
        line.decode()
        return
    decoder = codecs.getincrementaldecoder("utf-8")()
    view = memoryview(line)
    for start in range(0, len(line), _CHECK_BYTES):
        decoder.decode(view[start : start + _CHECK_BYTES])
    decoder.decode(b"", final=True)


def describe_decode_error(error: Exception) -> str:
    """Return the reason why a line cannot be decoded, such as "it is not UTF-8 text"."""
    if isinstance(error, UnicodeDecodeError):
        return f"it is {describe_non_utf8(error.object)}"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(error)


def excerpt(line: bytes) -> str:
    """Return the beginning of a line (200 characters) for an error message.

    Control characters are escaped. If messages must not show row values, return a description of
    the line without its content.
    """
    if not are_rows_shown():
        return describe_value(line)
    start = line[:_EXCERPT_LENGTH].decode(errors="backslashreplace")[:_EXCERPT_LENGTH]
    escaped = "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in start.rstrip()
    )
    return f"{escaped}..." if len(line) > _EXCERPT_LENGTH else escaped


def check_record(
    check: RecordCheck, line: int, stream: object, schema: SchemaEvent | None, body: bytes
) -> None:
    """Raise an error if a record does not match the schema of its stream.

    Args:
        check: Function that returns the reason why a record does not match, or None.
        line: Line number, for the error message.
        stream: Name of the record's stream, for the error message.
        schema: Schema event of the stream, or None if there was no schema.
        body: Record as JSON.

    Raises:
        UndeclaredRecordError: The record does not match. The message names line, stream and field.
    """
    if fault := check(schema, body):
        raise UndeclaredRecordError(f"Line {line} is a record of stream {stream}, {fault}")


def check_state_size(state: bytes, line: int) -> None:
    """Raise an error if a state is larger than half of the maximum size of an input line.

    The limit is lower than for records because a target copies states and decodes them completely.
    ``line`` is the line number, for the error message.

    Raises:
        InvalidInputLine: The state is too large.
    """
    bound = Bound(LINE_BYTES.whole // _STATE_SHARE, LINE_BYTES.variable)
    try:
        bound.check(state, "the state")
    except InputTooLargeError as error:
        raise InvalidInputLine(f"Line {line}: {error}") from None
