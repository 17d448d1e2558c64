"""Decoder of input lines that are JSON messages with a ``type``, for any protocol.

A line is first decoded strictly. If that fails, it is repaired (blanks, byte order mark, lone
surrogates, NaN) and decoded again. If that fails too, a callback of the protocol's reader raises an
error or skips the line.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from tap_core.io.json_lines import (
    DECODE_ERRORS,
    LineSplitter,
    NonFiniteFilter,
    check_text,
    read_message_type,
    repair_surrogates,
    strip_line,
)

__all__ = ["MessageFormat", "MessageLines"]

_Message = TypeVar("_Message")


@dataclass(frozen=True, slots=True)
class MessageFormat(Generic[_Message]):
    """Decoder and message types of an input protocol, such as Singer or Airbyte."""

    decode: Callable[[bytes], _Message]
    """Strict decoder of one line."""
    known_types: Collection[object]
    """Message types that ``decode`` accepts."""
    restore: Callable[[_Message, bytes, bytes], _Message]
    """Function that puts the original bytes back into a message; its arguments are the message, the
    repaired line that it was decoded from, and the original line, which has the same length."""


class MessageLines(Generic[_Message]):
    """Decoder that converts input lines to messages, and counts the lines.

    Args:
        message_format: Decoder and message types of the input protocol.
        handle_invalid: Function for lines that cannot be decoded. It is called with the line and
            the error, and may raise an error; if it returns, the line is skipped.
        handle_unknown: Function for messages of an unknown type. It is called with the line and the
            type (None if it is missing), and may raise an error; if it returns, the line is
            skipped.
    """

    def __init__(
        self,
        message_format: MessageFormat[_Message],
        handle_invalid: Callable[[bytes, Exception], None],
        handle_unknown: Callable[[bytes, object], None],
    ) -> None:
        self.number = 0
        """Number of the last line that was decoded, from 1."""
        splitter = LineSplitter()
        self.split = splitter.feed
        self.rest = splitter.rest
        self._format = message_format
        self._handle_invalid = handle_invalid
        self._handle_unknown = handle_unknown
        self._replace_non_finite = NonFiniteFilter()

    def messages(self, lines: list[bytes]) -> Iterator[_Message]:
        """Decode complete lines and yield their messages; blank lines are skipped.

        To free memory, each line is removed from ``lines`` before it is decoded.
        """
        decode = self._format.decode
        lines.reverse()
        while lines:
            line = lines.pop()  # the list must not keep the line in memory
            self.number += 1
            try:
                message = decode(line)
                if not line.isascii():
                    check_text(line)
            except DECODE_ERRORS:
                repaired = self._decode_repaired(line)
                if repaired is None:
                    continue
                message = repaired
            del line  # free a long line; its message holds all that is needed
            yield message

    def _decode_repaired(self, line: bytes) -> _Message | None:
        """Repair and decode a line that could not be decoded strictly.

        Return None if the line is blank or still invalid, so that it is skipped.
        """
        stripped = strip_line(line, self.number)
        if not stripped:
            return None
        try:
            check_text(stripped)
            stripped = self._replace_non_finite(stripped, self.number)
            repaired, kind = read_message_type(repair_surrogates(stripped))
            if kind in self._format.known_types:
                message = self._format.decode(repaired)
                if repaired != stripped:
                    message = self._format.restore(message, repaired, stripped)
                return message
        except DECODE_ERRORS as error:
            self._handle_invalid(line, error)
            return None
        self._handle_unknown(line, kind)
        return None
