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

from tap_core.parsing.varints import read_varint

__all__ = [
    "MESSAGE_LIMIT",
    "RequestLimits",
    "RequestReceiver",
    "RequestTooLargeError",
    "count_values",
    "estimate_memory",
]

MESSAGE_LIMIT: Final = 128 * 1024 * 1024
"""Bytes of a message: Fivetran's limit, both ways."""

_PATIENCE_SECONDS: Final = 0.2
"""How long a message is received while other calls wait for their turn."""

_SLOW_SECONDS: Final = 15.0
"""How long one large or slow message is received beside the others."""

_COPIES: Final = 4
"""Copies of a text that are in memory at once: parsed, decoded, checked, repeated in an error."""

_VALUE_BYTES: Final = 1_000
"""What a value of a message may take in memory, however short it is written."""

_JSON_BYTES: Final = 128
"""The same of a value of JSON, of which a comma tells."""

# How a value is written, in the lowest three bits of its tag.
_VARINT: Final = 0
_SIXTY_FOUR: Final = 1
_DELIMITED: Final = 2
_THIRTY_TWO: Final = 5


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """What the calls under way may take together.

    ``calls`` run at once; a request has at most ``message`` bytes, and the requests of all
    calls hold at most ``held`` bytes of memory, as `estimate_memory` counts them.
    """

    calls: int = 32
    message: int = 16 << 20
    held: int = 128 << 20


class RequestTooLargeError(Exception):
    """A request is larger than what is left for it, in words for people."""


@dataclass(eq=False, slots=True)
class _Turn:
    """A call whose request is being received, for so long as nobody else waits."""

    context: Any
    until: float = 0.0
    has_arrived: bool = False


class RequestReceiver:
    """Receives the requests of one server."""

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits
        self._changed = threading.Condition()
        self._now: _Turn | None = None
        self._slow: _Turn | None = None
        self._held = 0

    @contextmanager
    def request(self, requests: Iterator[bytes], context: Any, kind: Any) -> Iterator[Any]:
        """Receive and read the request of a call; what it holds counts until the block ends.

        ``kind`` is the class of its message. A client that sends nothing has sent an empty one;
        a call whose request does not arrive while others wait is cancelled.

        Raises:
            TooLargeError: all calls together would hold too much.
            ValueError, DecodeError: it is not such a message.
        """
        turn = _Turn(context)
        self._await(turn)
        try:
            data = next(requests, b"")
            self._arrived(turn)
            size = estimate_memory(data, kind.DESCRIPTOR, self._limits.held)
            if (held := self._reserve(size)) is not None:
                del data  # an error keeps alive what its frames have
                raise self._too_large(size, held)
        finally:
            self._end(turn)
        try:
            request = kind.FromString(data)
            del data
            yield request
        finally:
            with self._changed:
                self._held -= size

    def _reserve(self, size: int) -> int | None:
        """Count what a request holds; return None, or what is held where there is no room."""
        with self._changed:
            if self._held + size > self._limits.held:
                return self._held
            self._held += size
            return None

    def _too_large(self, size: int, held: int) -> RequestTooLargeError:
        return RequestTooLargeError(
            f"The requests of all calls may hold {self._limits.held:,} bytes of memory"
            f" (--max-held), {held:,} are held, and this one would take {size:,}. Try again when"
            " the other calls have ended, or send less."
        )

    def _await(self, turn: _Turn) -> None:
        with self._changed:
            while self._now is not None:
                left = self._now.until - time.monotonic()
                if self._now.has_arrived or left > 0:
                    self._changed.wait(None if self._now.has_arrived else left)
                else:
                    self._put_aside(self._now)
            turn.until = time.monotonic() + _PATIENCE_SECONDS
            self._now = turn

    def _arrived(self, turn: _Turn) -> None:
        """Note that a request is here: its client holds nobody up any more."""
        with self._changed:
            turn.has_arrived = True

    def _put_aside(self, turn: _Turn) -> None:
        """Let the next one have its turn: one goes on receiving beside it, any more are ended."""
        self._now = None
        slow = self._slow
        if slow is not None and (slow.has_arrived or slow.until > time.monotonic()):
            turn.context.cancel()
            return
        if slow is not None:
            slow.context.cancel()
        turn.until = time.monotonic() + _SLOW_SECONDS
        self._slow = turn

    def _end(self, turn: _Turn) -> None:
        with self._changed:
            if self._now is turn:
                self._now = None
            if self._slow is turn:
                self._slow = None
            self._changed.notify_all()


def estimate_memory(request: bytes, kind: Any, most: int) -> int:
    """Return how many bytes of memory a request may take when it is read and worked on.

    It is exact enough up to ``most``, and above it only larger than that.

    Raises:
        ValueError: it is not a message.
    """
    values = count_values(request, kind, most // _VALUE_BYTES)
    json = len(request) + request.count(b",") * _JSON_BYTES
    return max(len(request) * _COPIES, values * _VALUE_BYTES, json)


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
            try:
                tag, at = read_varint(data, at)
                size, at = _size(data, at, tag & 7)
            except IndexError:
                raise ValueError("a number has no end") from None
            if at + size > end:
                raise ValueError("a value ends behind its message")
            field = kind.fields_by_number.get(tag >> 3)
            if tag & 7 == _DELIMITED and field is not None and field.message_type is not None:
                rest.append((field.message_type, at, at + size))
            at += size
    return count


def _size(data: bytes, at: int, wire: int) -> tuple[int, int]:
    """Return the bytes of a value and where it begins; the marks of groups have none."""
    if wire == _DELIMITED:
        return read_varint(data, at)
    if wire == _VARINT:
        return 0, read_varint(data, at)[1]
    return {_SIXTY_FOUR: 8, _THIRTY_TWO: 4}.get(wire, 0), at
