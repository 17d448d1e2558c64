"""Limits of a response: its size in memory or in a file, and the time to receive and read it.

- The size is counted while the response is read, after its `Content-Encoding` is decoded.
- The time to receive a response runs from its first byte (of the status line) to its last; the
  times of all tries of a request are added.
- From the last byte until the last record is read, processor time is counted.
- The timeout of the request limits the time before the first byte.
"""

from __future__ import annotations

import threading
import time
from typing import Final, NamedTuple

from tap_core.exceptions import FatalAPIError

__all__ = [
    "IN_FORCE",
    "MAX_DOWNLOAD_BYTES",
    "MAX_RESPONSE_BYTES",
    "MAX_RESPONSE_SECONDS",
    "Deadline",
    "ReadingTime",
    "ResponseLimits",
    "ResponseTooLargeError",
    "ResponseTooSlowError",
    "make_too_large_error",
]

MAX_RESPONSE_BYTES: Final = 100_000_000
"""Largest response in memory, in bytes; its decoded JSON may take four times as much again."""

MAX_DOWNLOAD_BYTES: Final = 20_000_000_000
"""Largest response in a file, in bytes."""

MAX_RESPONSE_SECONDS: Final = 50.0
"""Maximum number of seconds from the first byte of a response to its last record."""

_DOWNLOAD_RATE: Final = 65_536
"""Number of bytes, written to a file, for which a response gets one more second."""

_FRAMING: Final = 8 * 1024 * 1024
"""Bytes that a response may have in addition to twice its maximum size, such as headers."""


class ResponseTooLargeError(FatalAPIError):
    """Error for a response that exceeds the size limit that its stream sets."""


class ResponseTooSlowError(FatalAPIError):
    """Error for a response that takes longer to receive or read than its stream allows."""


class ResponseLimits(NamedTuple):
    """Limits of a response: bytes in memory, bytes in a file, and seconds. None means no limit."""

    max_response_bytes: int | None = MAX_RESPONSE_BYTES
    max_download_bytes: int | None = MAX_DOWNLOAD_BYTES
    max_response_seconds: float | None = MAX_RESPONSE_SECONDS


class Deadline:
    """Limit of the time to receive the responses to one request, and of their size.

    The times of redirects and failed tries count too. A response that is written to a file gets
    additional time for each byte that arrives.
    """

    __slots__ = (
        "_added_seconds",
        "_begun_at",
        "_is_file",
        "_max_bytes",
        "_received_bytes",
        "_used_seconds",
        "limits",
    )

    def __init__(self, limits: ResponseLimits, *, is_file: bool = False) -> None:
        self.limits = limits
        self._is_file = is_file
        max_bytes = limits.max_download_bytes if is_file else limits.max_response_bytes
        self._max_bytes = None if max_bytes is None else 2 * max_bytes + _FRAMING
        self._received_bytes = 0
        self._added_seconds = 0.0
        """Additional seconds earned by the bytes written to a file."""
        self._used_seconds = 0.0
        """Seconds used by earlier responses."""
        self._begun_at: float | None = None
        """Time of the first byte of the current response; None before it."""

    def end(self) -> None:
        """Mark the end of a response, and add its duration to the time that was used so far."""
        if self._begun_at is not None:
            self._used_seconds += time.monotonic() - self._begun_at
        self._begun_at = None

    def begin_retry(self) -> None:
        """Prepare for a retry of the request: keep the time used, reset the number of bytes."""
        self.end()
        self._received_bytes = 0

    def left(self) -> float | None:
        """Return the remaining seconds for the response that is being received.

        Return None if there is no time limit, or the response has not begun.

        Raises:
            ResponseTooSlowError: No time remains.
        """
        limit = self.limits.max_response_seconds
        if limit is None or self._begun_at is None:
            return None
        left = (
            limit + self._added_seconds - self._used_seconds - (time.monotonic() - self._begun_at)
        )
        if left <= 0:
            raise self.make_too_slow_error()
        return left

    def longest_silence(self, left: float) -> float:
        """Return the number of seconds without data after which a connection is closed.

        The result is half of the time limit, or half of the remaining seconds ``left`` if that is
        more, as for a large file. The other half is left for a retry.
        """
        return max(left, self.limits.max_response_seconds or 0.0) / 2

    def reading_time(self) -> ReadingTime:
        """Mark the end of the response, and return the time limit for reading its records."""
        self.end()
        limit = self.limits.max_response_seconds
        if limit is None:
            return ReadingTime(None)
        left = limit + self._added_seconds if self._is_file else limit - self._used_seconds
        return ReadingTime(left, limit)

    def count(self, size: int) -> None:
        """Add ``size`` to the number of received bytes; the first call starts the time measurement.

        Raises:
            ResponseTooLargeError: More bytes were received than the size limit allows.
        """
        if self._begun_at is None:
            self._begun_at = time.monotonic()
        self._received_bytes += size
        if self._is_file:
            self._added_seconds += size / _DOWNLOAD_RATE
        if self._max_bytes is not None and self._received_bytes > self._max_bytes:
            raise make_too_large_error(self.limits, is_file=self._is_file)

    def make_too_slow_error(self) -> ResponseTooSlowError:
        """Return the error for a response that was not fully received within the time limit."""
        earlier = (
            f", {self._used_seconds:.1f} of them for earlier responses"
            if self._used_seconds
            else ""
        )
        return ResponseTooSlowError(
            f"The response is not complete {self.limits.max_response_seconds:g} seconds after its"
            f" first byte{earlier}: if the source is that slow, raise max_response_seconds"
            f" (here {self.limits.max_response_seconds:g})."
        )


class ReadingTime:
    """Limit on the processor time that a thread uses to read the records of one response.

    The time between two chunks of the body counts. It includes the processing of records, but no
    waiting. The time does not count if the thread sends a request or reads another response in
    between, for example for a child stream.

    Args:
        most: Maximum number of seconds; None for no limit.
        limit: The limit ``max_response_seconds``, for the error message. Receiving the response has
            already used a part of it.
    """

    def __init__(self, seconds: float | None, limit: float = 0.0) -> None:
        self._most = seconds
        self._limit = limit
        self._spent = 0.0

    def count(self) -> None:
        """Add the processor time that the thread has used since the previous chunk of the body.

        Raises:
            ResponseTooSlowError: The time limit is exceeded.
        """
        now = time.thread_time()
        if IN_FORCE.reading is self:
            self._spent += now - IN_FORCE.read_at
            if self._most is not None and self._spent > self._most:
                raise ResponseTooSlowError(
                    f"The response is not read to its end after {self._spent:.1f} seconds of"
                    " processing its records: request smaller pages, or raise max_response_seconds"
                    f" (here {self._limit:g}, from the first byte to the last row)."
                )
        IN_FORCE.reading, IN_FORCE.read_at = self, now


def make_too_large_error(
    limits: ResponseLimits, *, is_file: bool, noun: str = "response"
) -> ResponseTooLargeError:
    """Return the error for a response that exceeds its size limit.

    ``is_file`` is True if the limit for files was exceeded, False if it was the limit for memory.
    ``noun`` is the noun for the response in the message.
    """
    name = "max_download_bytes" if is_file else "max_response_bytes"
    max_bytes: int = getattr(limits, name) or 0
    return ResponseTooLargeError(
        f"The {noun} is larger than {max_bytes:,} bytes: ask for smaller pages, or raise {name}."
    )


class _InForce(threading.local):
    """Limits that apply in a thread to the request that it sends and the response that it reads."""

    is_undeclared_host: bool = False
    """True while a request is sent to a host that only a response may have named."""

    deadline: Deadline | None = None
    """Deadline of the request that is being sent; connections read it."""

    last: Deadline | None = None
    """Deadline of the request that was sent last."""

    retried: Deadline | None = None
    """Deadline of the request that is being retried; set by the retry loop, None outside of it."""

    reading: ReadingTime | None = None
    """Reading time of the response whose chunk was read last; None after a request was sent."""

    read_at: float = 0.0
    """Processor time of the thread when the last chunk was read, in seconds."""


IN_FORCE: Final = _InForce()
