"""Writer of events as Singer messages, by default to standard output.

Only complete lines are written, one message per line. All rows of an event are written at once,
without buffering. After a failed write, nothing more is written. Source of the message formats: the
Singer specification, section "Output".
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from tap_core.events import ActivateVersion, BatchFiles, Checkpoint, Rows, SchemaEvent
from tap_core.exceptions import FatalSyncError
from tap_core.io.stdout import get_descriptor, wait_until_writable
from tap_core.records.conform import to_json_compatible

if TYPE_CHECKING:
    from tap_core.events import Event

__all__ = ["SingerWriter", "encode_body", "encode_json", "write_to_stdout"]

_encoder = msgspec.json.Encoder(decimal_format="number", enc_hook=str)

encode_body: Callable[[dict[str, Any]], bytes] = _encoder.encode
"""Encode a record as JSON. Raises UnicodeEncodeError for a lone surrogate."""


def encode_json(value: Any) -> bytes:
    """Encode a value as JSON: decimals as numbers with all their digits, other types as strings.

    Lone surrogates, such as in a schema that a tap has parsed from JSON, become question marks.
    """
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(to_json_compatible(value))


class SingerWriter:
    """Writer that converts events to Singer messages, one line of JSON each."""

    takes_files = True
    """True: files of records are written as BATCH messages."""

    def __init__(self, write: Callable[[bytes], None] | None = None) -> None:
        """Create a writer to standard output, or to another destination.

        ``write`` is called with complete lines, and must write all of their bytes. By default, it
        writes to ``sys.stdout``.
        """
        self._write = write or write_to_stdout
        self._is_broken = False
        self._names: dict[str, bytes] = {}

    encode = staticmethod(encode_body)

    def emit(self, event: Event) -> None:
        """Write an event as Singer messages. Events without a Singer message are ignored.

        Raises:
            FatalSyncError: Standard output cannot be written, for example because the disk is full.
            OSError: The reader of the output has closed it.
        """
        lines = self._convert(event)
        if lines:
            self.write(lines)

    def write(self, lines: bytes) -> None:
        """Write complete lines to the output. After a failed write, all later writes fail too.

        Raises:
            FatalSyncError: Standard output cannot be written, for example because the disk is full.
            OSError: The reader of the output has closed it.
        """
        if self._is_broken:
            msg = "The output is closed: nothing more can be written."
            raise BrokenPipeError(msg)
        try:
            self._write(lines)
        except BaseException:  # a second signal may leave half of a line
            self._is_broken = True
            raise

    def _convert(self, event: Event) -> bytes:
        """Return the Singer messages for an event as lines of JSON.

        Return b"" for an event that has no Singer message, such as a stream status.
        """
        if isinstance(event, Rows):
            return self._convert_rows(event)
        if isinstance(event, Checkpoint):
            return b'{"type":"STATE","value":%b}\n' % event.state
        if isinstance(event, SchemaEvent):
            return self._convert_schema(event)
        if isinstance(event, BatchFiles):
            return self._convert_batch(event)
        if isinstance(event, ActivateVersion):
            return b'{"type":"ACTIVATE_VERSION","stream":%b,"version":%d}\n' % (
                self._encode_name(event.stream.name),
                event.version,
            )
        return b""

    def _convert_rows(self, event: Rows) -> bytes:
        """Return the RECORD messages for the rows of an event, one line of JSON each."""
        if not event.rows:
            return b""
        head = b'{"type":"RECORD","stream":%b,"record":' % self._encode_name(event.stream.name)
        tail = b"" if event.version is None else b',"version":%d' % event.version
        if isinstance(event.extracted_at, str):
            tail += b',"time_extracted":"%b"' % event.extracted_at.encode()
        tail += b"}\n"
        # Join all lines in one step: a second copy of the long result would take most of the time.
        rows = list(event.rows)
        rows[0] = head + rows[0]
        rows[-1] += tail
        return (tail + head).join(rows)

    def _convert_schema(self, event: SchemaEvent) -> bytes:
        message: dict[str, Any] = {
            "type": "SCHEMA",
            "stream": event.stream.name,
            "schema": event.schema,
            "key_properties": list(event.keys),
        }
        if event.cursor:
            message["bookmark_properties"] = event.bookmark_properties
        return encode_json(message) + b"\n"

    def _convert_batch(self, event: BatchFiles) -> bytes:
        message: dict[str, Any] = {
            "type": "BATCH",
            "stream": event.stream.name,
            "encoding": dict(event.format),
            "manifest": list(event.paths),
        }
        if event.version is not None:
            message["version"] = event.version
        return encode_json(message) + b"\n"

    def _encode_name(self, name: str) -> bytes:
        """Return the name of a stream as an encoded JSON string. Results are cached."""
        if name not in self._names:
            self._names[name] = encode_json(name)
        return self._names[name]


def write_to_stdout(lines: bytes) -> None:
    """Write complete lines to the current ``sys.stdout``, which may be replaced at any time.

    The bytes go directly to its file descriptor. If it has none, such as a ``StringIO`` in a test
    or the output of a cell in a notebook, it gets text instead.

    Raises:
        FatalSyncError: Standard output cannot be written, for example because the disk is full.
        OSError: The reader of the output has closed it.
    """
    stream = sys.stdout
    fd = get_descriptor(stream)
    if fd is None:
        stream.write(lines.decode())
        stream.flush()
        return
    stream.flush()
    rest = memoryview(lines)
    try:
        while rest:
            rest = rest[_write_some(fd, rest) :]
    except ConnectionError:  # the reader has ended
        raise
    except OSError as error:
        raise FatalSyncError(f"Standard output cannot be written: {error.strerror}.") from error


def _write_some(fd: int, data: memoryview) -> int:
    """Write the beginning of ``data``, and return the number of bytes written, which may be 0."""
    try:
        return os.write(fd, data)
    except BlockingIOError:  # another process made the pipe non-blocking, and it is full
        wait_until_writable(fd)
        return 0
