"""Reception of gRPC requests, with a limit on the memory of all requests together.

The gRPC library reads a request only when the server calls for it, and then completely. Therefore
requests are received one after the other, and the memory of each request is counted until its call
has ended. A client that opens calls and sends nothing delays other calls only briefly.
Source: gRPC core, "Flow control"; Protocol Buffers, "Encoding".
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from tap_core.parsing.varint_decoding import read_varint

__all__ = [
    "MESSAGE_LIMIT",
    "MissingRequestError",
    "RequestLimits",
    "RequestReceiver",
    "RequestTooLargeError",
    "count_values",
    "estimate_memory",
]

MESSAGE_LIMIT: Final = 128 * 1024 * 1024
"""Fivetran's maximum message size in bytes, for requests and responses."""

_PATIENCE_SECONDS: Final = 0.2
"""Maximum seconds to receive a request while other calls wait."""

_PROBE_SECONDS: Final = 0.02
"""Seconds of a wait by which the delay of threads on a busy machine is measured."""

_DELAYS: Final = 10
"""Number of delays of a thread that the reception of a request may take in addition."""

_SLOW_SECONDS: Final = 15.0
"""Maximum seconds to receive one large or slow request in parallel with others, and maximum seconds
that the delays of threads add to the reception of a request."""

_COPIES: Final = 4
"""Maximum number of copies of a string in memory: parsed, decoded, checked, quoted in an error."""

_VALUE_BYTES: Final = 1_000
"""Estimated memory in bytes of one value of a message, even if its encoding is shorter."""

_JSON_BYTES: Final = 128
"""Estimated memory in bytes of a JSON value. The number of values is estimated by the commas."""

# Wire types, the lowest three bits of a tag.
_VARINT: Final = 0
_SIXTY_FOUR: Final = 1
_DELIMITED: Final = 2
_THIRTY_TWO: Final = 5


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits for the gRPC calls that a server processes at the same time.

    Attributes:
        calls: Maximum number of calls.
        message: Maximum size of one request in bytes.
        held: Maximum memory in bytes for the requests of all calls, estimated by `estimate_memory`.
    """

    calls: int = 32
    message: int = 16 << 20
    held: int = 128 << 20


class MissingRequestError(Exception):
    """Raised for a gRPC call that ends without a request.

    The client sent no request, or gRPC refused a too large one and has not yet cancelled the call.
    """


class RequestTooLargeError(Exception):
    """Raised for a request that would exceed the memory limit for the requests of all calls."""


@dataclass(eq=False, slots=True)
class _ReceivingCall:
    """gRPC call whose request the server is receiving.

    Attributes:
        context: Context object of the gRPC library.
        until: Time (`time.monotonic`) after which the server does not wait for the request any
            longer, and receives the request of another call.
        has_arrived: True once the request has been received completely.
        is_extended: True once ``until`` was extended because the threads of this process are slow.
    """

    context: Any
    until: float = 0.0
    has_arrived: bool = False
    is_extended: bool = False


class RequestReceiver:
    """Receiver of the requests of a gRPC server, which limits the memory of all requests together.

    It receives one request after the other, and estimates the memory of each before it parses it.
    """

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits
        self._changed = threading.Condition()
        self._receiving: _ReceivingCall | None = None
        self._slow: _ReceivingCall | None = None
        self._held = 0

    @contextmanager
    def request(self, requests: Iterator[bytes], context: Any, kind: Any) -> Iterator[Any]:
        """Receive, parse and yield the request of a gRPC call.

        The memory of the request counts against the limit until the ``with`` block ends. If a
        request arrives slowly while other calls wait, its call may be cancelled.

        Args:
            requests: Encoded messages from the client. Only the first one is read.
            context: Context object of the gRPC library.
            kind: Message class of the request.

        Raises:
            MissingRequestError: The call has no message.
            RequestTooLargeError: The requests of all calls would use too much memory.
            ValueError, DecodeError: The bytes are not a valid message of this class.
        """
        call = _ReceivingCall(context)
        self._wait_for_turn(call)
        try:
            data = next(requests, None)
            if data is None:
                raise MissingRequestError
            with self._changed:
                call.has_arrived = True
            size = estimate_memory(data, kind.DESCRIPTOR, self._limits.held)
            try:
                self._reserve(size)
            except RequestTooLargeError:
                del data  # the error's traceback would keep it in memory
                raise
        finally:
            self._end_reception(call)
        try:
            request = kind.FromString(data)
            del data
            yield request
        finally:
            with self._changed:
                self._held -= size

    def _reserve(self, size: int) -> None:
        """Reserve ``size`` bytes of memory for a request; raise an error above the limit."""
        with self._changed:
            if self._held + size > self._limits.held:
                raise RequestTooLargeError(
                    f"The requests of all calls together may use {self._limits.held:,} bytes of"
                    f" memory (--max-held): {self._held:,} are in use, and this request would need"
                    f" {size:,}. Try again when the other calls have ended, or send less."
                )
            self._held += size

    def _wait_for_turn(self, call: _ReceivingCall) -> None:
        """Wait until no other call is receiving its request, then let ``call`` receive its own.

        After a short time, this call no longer waits for a request that arrives slowly.
        """
        with self._changed:
            while self._receiving is not None:
                seconds_left = self._receiving.until - time.monotonic()
                if self._receiving.has_arrived or seconds_left > 0:
                    self._changed.wait(None if self._receiving.has_arrived else seconds_left)
                elif not self._receiving.is_extended:
                    self._extend(self._receiving)
                else:
                    self._demote_slow_call(self._receiving)
            call.until = time.monotonic() + _PATIENCE_SECONDS
            self._receiving = call

    def _extend(self, call: _ReceivingCall) -> None:
        """Extend the wait for the request of ``call``, depending on how late this thread runs.

        The threads of concurrent syncs delay each other. Without this, the server would cancel
        calls whose requests have arrived, but were not yet read. The extension is limited, because
        the delay may be a stop of the whole process, for minutes or hours.
        """
        started = time.monotonic()
        self._changed.wait(_PROBE_SECONDS)
        now = time.monotonic()
        extension = min(_DELAYS * (now - started - _PROBE_SECONDS), _SLOW_SECONDS)
        call.until = max(call.until, now + extension)
        call.is_extended = True

    def _demote_slow_call(self, call: _ReceivingCall) -> None:
        """Let the next call receive its request, because the request of ``call`` arrives slowly.

        One slow request at a time may continue to arrive in parallel, for 15 seconds. If another
        call has this right, cancel ``call``. But if the other call's 15 seconds are over, cancel
        the other call, and give the right to ``call``.
        """
        self._receiving = None
        slow = self._slow
        if slow is not None and (slow.has_arrived or slow.until > time.monotonic()):
            call.context.cancel()
            return
        if slow is not None:
            slow.context.cancel()
        call.until = time.monotonic() + _SLOW_SECONDS
        self._slow = call

    def _end_reception(self, call: _ReceivingCall) -> None:
        with self._changed:
            if self._receiving is call:
                self._receiving = None
            if self._slow is call:
                self._slow = None
            self._changed.notify_all()


def estimate_memory(request: bytes, kind: Any, limit: int) -> int:
    """Estimate the memory in bytes that a server needs to parse and process a protobuf request.

    Args:
        request: The encoded request.
        kind: Protobuf descriptor of its message.
        limit: Limit in bytes. If the estimate exceeds it, the estimate may be too low.

    Raises:
        ValueError: The bytes are not a valid message.
    """
    values = count_values(request, kind, limit // _VALUE_BYTES)
    json = len(request) + request.count(b",") * _JSON_BYTES
    return max(len(request) * _COPIES, values * _VALUE_BYTES, json)


def count_values(data: bytes, kind: Any, limit: int) -> int:
    """Return the number of values in an encoded protobuf message, including nested messages.

    This number determines the memory: a value of two encoded bytes may need hundreds of bytes.
    ``kind`` is the protobuf descriptor of the message. Counting stops above ``limit``.

    Raises:
        ValueError: The bytes are not a valid message.
    """
    count = 0
    messages = [(kind, 0, len(data))]
    while messages and count <= limit:
        message_kind, offset, end = messages.pop()
        while offset < end and count <= limit:
            count += 1
            try:
                tag, offset = read_varint(data, offset)
                size, offset = _read_size(data, offset, tag & 7)
            except IndexError:
                raise ValueError("a number continues after the end of its message") from None
            if offset + size > end:
                raise ValueError("a value continues after the end of its message")
            field = message_kind.fields_by_number.get(tag >> 3)
            if tag & 7 == _DELIMITED and field is not None and field.message_type is not None:
                messages.append((field.message_type, offset, offset + size))
            offset += size
    return count


def _read_size(data: bytes, offset: int, wire: int) -> tuple[int, int]:
    """Return the size of a protobuf value in bytes, and its offset in ``data``.

    For a varint, return 0 and the offset after it.

    Args:
        data: Encoded message.
        offset: Offset after the tag of the value.
        wire: Protobuf wire type of the value.
    """
    if wire == _DELIMITED:
        return read_varint(data, offset)
    if wire == _VARINT:
        return 0, read_varint(data, offset)[1]
    return {_SIXTY_FOUR: 8, _THIRTY_TWO: 4}.get(wire, 0), offset
