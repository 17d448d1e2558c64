"""Receiving requests: how much memory those of all calls may take, and whose turn it is.

gRPC reads a message only when it is asked to, and then reads all of it. So calls ask one after
the other, and what their requests hold afterwards is counted until each call has ended. A client
that opens calls and sends nothing holds up the others for a moment only. Source: gRPC core,
"Flow control"; Protocol Buffers, "Encoding".
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["MESSAGE_LIMIT", "Limits", "Reception", "TooLargeError", "count_values"]

MESSAGE_LIMIT: Final = 128 * 1024 * 1024
"""Bytes of a message, both ways: Fivetran's limit."""

_PATIENCE_SECONDS: Final = 0.2
"""How long a message is received while other calls wait for their turn."""

_SLOW_SECONDS: Final = 15.0
"""How long one large or slow message is received beside the others."""

_VALUE_BYTES: Final = 500
"""What a value of a message may take in memory, however short it is written."""

# How a value is written, in the lowest three bits of its tag.
_VARINT: Final = 0
_SIXTY_FOUR: Final = 1
_DELIMITED: Final = 2
_THIRTY_TWO: Final = 5

_LONGEST_NUMBER: Final = 10
"""Bytes of a number of 64 bits."""

_GOES_ON: Final = 0x80
"""The bit of a byte that others follow."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the calls under way may take together.

    ``calls`` run at once; a request has at most ``message`` bytes, and the requests of all
    calls have ``held`` bytes, where each value in them counts for at least 500.
    """

    calls: int = 32
    message: int = MESSAGE_LIMIT
    held: int = MESSAGE_LIMIT + (16 << 20)


class TooLargeError(Exception):
    """A request is larger than what is left for it, in words for people."""


@dataclass(eq=False, slots=True)
class _Turn:
    """A call whose request is being received, since a time."""

    context: Any
    begun: float


class Reception:
    """Receives the requests of one server."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._changed = threading.Condition()
        self._now: _Turn | None = None
        self._slow: _Turn | None = None
        self._held = 0

    def receive(self, requests: Iterator[bytes], context: Any) -> bytes:
        """Return the request of a call, once it is its turn; empty where the client sent none.

        A call whose request does not arrive while others wait is cancelled.
        """
        turn = _Turn(context, 0.0)
        self._await(turn)
        try:
            return next(requests, b"")
        finally:
            self._end(turn)

    @contextmanager
    def held(self, request: bytes, kind: Any) -> Iterator[None]:
        """Count what a request holds while the block runs; ``kind`` describes its message.

        Raises:
            TooLargeError: all calls together would hold too much.
            ValueError: it is not a message.
        """
        most = self._limits.held
        values = count_values(request, kind, most // _VALUE_BYTES)
        size = max(len(request), values * _VALUE_BYTES)
        del request  # what was parsed of it is held from here on
        with self._changed:
            if self._held + size > most:
                raise TooLargeError(
                    f"The requests of all calls may hold {most:,} bytes (--max-held),"
                    f" {self._held:,} are held, and this one takes {size:,}. Try again when the"
                    " other calls have ended, or send fewer values."
                )
            self._held += size
        try:
            yield
        finally:
            with self._changed:
                self._held -= size

    def _await(self, turn: _Turn) -> None:
        with self._changed:
            while self._now is not None:
                left = self._now.begun + _PATIENCE_SECONDS - time.monotonic()
                if left > 0:
                    self._changed.wait(left)
                else:
                    self._put_aside(self._now)
            turn.begun = time.monotonic()
            self._now = turn

    def _put_aside(self, turn: _Turn) -> None:
        """Let the next one have its turn: one goes on receiving beside it, any more are ended."""
        self._now = None
        late = time.monotonic() - _SLOW_SECONDS
        if self._slow is not None and self._slow.begun > late:
            turn.context.cancel()
            return
        if self._slow is not None:
            self._slow.context.cancel()
        self._slow = turn

    def _end(self, turn: _Turn) -> None:
        with self._changed:
            if self._now is turn:
                self._now = None
            if self._slow is turn:
                self._slow = None
            self._changed.notify_all()


def count_values(data: bytes, kind: Any, most: int) -> int:
    """Return how many values a message has, those of messages in it too; stop beyond ``most``.

    ``kind`` is the message's descriptor. A value takes two bytes on the wire and hundreds in
    memory.

    Raises:
        ValueError: it is not a message.
    """
    count = 0
    rest = [(kind, 0, len(data))]
    while rest and count <= most:
        kind, at, end = rest.pop()
        while at < end and count <= most:
            count += 1
            tag, at = _number(data, at, end)
            size, at = _size(data, at, end, tag & 7)
            if at + size > end:
                raise ValueError("a value ends behind its message")
            field = kind.fields_by_number.get(tag >> 3)
            if tag & 7 == _DELIMITED and field is not None and field.message_type is not None:
                rest.append((field.message_type, at, at + size))
            at += size
    return count


def _size(data: bytes, at: int, end: int, wire: int) -> tuple[int, int]:
    """Return the bytes of a value and where it begins; the marks of groups have none."""
    if wire == _DELIMITED:
        return _number(data, at, end)
    if wire == _VARINT:
        return 0, _number(data, at, end)[1]
    return {_SIXTY_FOUR: 8, _THIRTY_TWO: 4}.get(wire, 0), at


def _number(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return a number of base 128 and where it ends."""
    value = shift = 0
    for place in range(at, min(at + _LONGEST_NUMBER, end)):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < _GOES_ON:
            return value, place + 1
        shift += 7
    raise ValueError("a number has no end")
