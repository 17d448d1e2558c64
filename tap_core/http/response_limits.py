"""Limits of a response: its size in memory or in a file, and the time to receive and read it.

- Sizes are counted after decoding of `Content-Encoding`, while a response is read.
- The time to receive a response is counted from its first byte, including status line and headers,
  to its last, over all tries of a request.
- After that, processor time is counted until the last row is read.
- The time before the first byte is limited by the timeout of the request.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import IO, Final, NamedTuple

import requests
from requests.exceptions import ChunkedEncodingError, RequestException

from tap_core.exceptions import FatalAPIError

__all__ = [
    "CHUNK",
    "IN_FORCE",
    "MAX_DOWNLOAD_BYTES",
    "MAX_RESPONSE_BYTES",
    "MAX_RESPONSE_SECONDS",
    "Deadline",
    "ReadingTime",
    "ResponseLimits",
    "ResponseTooLargeError",
    "ResponseTooSlowError",
    "read_body",
    "too_large",
]

MAX_RESPONSE_BYTES: Final = 100_000_000
"""Largest response in memory, in bytes; its decoded JSON may take four times as much besides."""

MAX_DOWNLOAD_BYTES: Final = 20_000_000_000
"""Largest response in a file, in bytes."""

MAX_RESPONSE_SECONDS: Final = 50.0
"""Seconds from the first byte of a response to its last row."""

CHUNK: Final = 65_536

_DOWNLOAD_RATE: Final = 65_536
"""Bytes for which a response that is written to a file gets one more second."""

_FRAMING: Final = 8 * 1024 * 1024
"""Bytes of headers and framing allowed for a response in addition to twice its largest size."""


class ResponseTooLargeError(FatalAPIError):
    """Raised for a response that exceeds the stream's size limit."""


class ResponseTooSlowError(FatalAPIError):
    """Raised for a response that exceeds the stream's time limit."""


class ResponseLimits(NamedTuple):
    """Size limits in bytes and time limit in seconds of a response; None means no limit."""

    max_response_bytes: int | None = MAX_RESPONSE_BYTES
    max_download_bytes: int | None = MAX_DOWNLOAD_BYTES
    max_response_seconds: float | None = MAX_RESPONSE_SECONDS


class Deadline:
    """Time and size limit of one request, including its retries and redirects.

    The time of redirects and failed tries counts too. A response that is written to a file gets
    more time for each byte that arrives.
    """

    __slots__ = ("_earned", "_is_file", "_most", "_used", "_wire", "begun", "limits")

    def __init__(self, limits: ResponseLimits, *, is_file: bool = False) -> None:
        self.limits = limits
        self._is_file = is_file
        most = limits.max_download_bytes if is_file else limits.max_response_bytes
        self._most = None if most is None else 2 * most + _FRAMING
        self._wire = 0
        self._earned = 0.0
        """Additional seconds earned by the bytes written to a file."""
        self._used = 0.0
        """Seconds used by earlier responses."""
        self.begun: float | None = None

    def end(self) -> None:
        """Stop measuring at the end of a response, and add its time to the time used."""
        if self.begun is not None:
            self._used += time.monotonic() - self.begun
        self.begun = None

    def try_again(self) -> None:
        """Prepare for another try: reset the number of received bytes, but not the time used."""
        self.end()
        self._wire = 0

    def left(self) -> float | None:
        """Return the remaining seconds, or None without a limit or before a response has begun.

        Raises:
            ResponseTooSlowError: No time remains.
        """
        limit = self.limits.max_response_seconds
        if limit is None or self.begun is None:
            return None
        left = limit + self._earned - self._used - (time.monotonic() - self.begun)
        if left <= 0:
            raise self.overdue()
        return left

    def longest_silence(self, left: float) -> float:
        """Return the seconds without data after which a connection is abandoned.

        They are half of the time limit, so that another try is possible. For a large file they are
        half of the remaining seconds ``left``, if that is longer.
        """
        return max(left, self.limits.max_response_seconds or 0.0) / 2

    def reading_time(self) -> ReadingTime:
        """Stop measuring at the end of the response, and return a limit for reading its records."""
        self.end()
        limit = self.limits.max_response_seconds
        if limit is None:
            return ReadingTime(None)
        left = limit + self._earned if self._is_file else limit - self._used
        return ReadingTime(left, limit)

    def count(self, size: int) -> None:
        """Add ``size`` to the number of bytes received; the first call starts measuring time.

        Raises:
            ResponseTooLargeError: More bytes were received than the size limit allows.
        """
        if self.begun is None:
            self.begun = time.monotonic()
        self._wire += size
        if self._is_file:
            self._earned += size / _DOWNLOAD_RATE
        if self._most is not None and self._wire > self._most:
            raise too_large(self.limits, is_file=self._is_file)

    def overdue(self) -> ResponseTooSlowError:
        """Return the error for a response that was not complete within the time limit."""
        earlier = f", {self._used:.1f} of them for earlier answers" if self._used else ""
        return ResponseTooSlowError(
            f"The response is not complete {self.limits.max_response_seconds:g} seconds after its"
            f" first byte{earlier}: if the source is that slow, raise max_response_seconds"
            f" (here {self.limits.max_response_seconds:g})."
        )


class ReadingTime:
    """Limit of the processor time that a thread uses to read the records of one response.

    The time between two chunks of the body is counted, including the processing of records, but not
    time spent waiting. If the thread sends a request or reads another response in between, for
    example for a child stream, that interval is not counted.
    """

    def __init__(self, most: float | None, limit: float = 0.0) -> None:
        self._most, self._limit = most, limit
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


def too_large(
    limits: ResponseLimits, *, is_file: bool, what: str = "answer"
) -> ResponseTooLargeError:
    """Return the error for a response, called ``what``, that exceeds its size limit.

    ``is_file`` is True if the limit for downloads applies, False for the limit for memory.
    """
    name = "max_download_bytes" if is_file else "max_response_bytes"
    most: int = getattr(limits, name) or 0
    return ResponseTooLargeError(
        f"The {what} is larger than {most:,} bytes: ask for smaller pages, or raise {name}."
    )


def read_body(
    response: requests.Response, limits: ResponseLimits, into: IO[bytes] | None = None
) -> None:
    """Read the decoded body of a response into memory or into the file ``into``.

    Raises:
        ResponseTooLargeError: The body is larger than allowed; the rest is not read.
        requests.exceptions.RequestException: the body cannot be read to its end.
    """
    known = vars(response)
    if known.get("_content_consumed") or known.get("_content") is not False:
        return  # the body has been read already
    if response.raw is None:
        return
    chunks = _chunks(response, limits, is_file=into is not None)
    try:
        if into is None:
            known.update(_content=b"".join(chunks), _content_consumed=True)
        else:
            for chunk in chunks:
                into.write(chunk)
    except BaseException as error:
        response.close()
        if isinstance(error, ValueError) and not isinstance(error, RequestException):
            raise ChunkedEncodingError(f"Connection broken: {error}") from error  # a length of -1
        raise


def _chunks(
    response: requests.Response, limits: ResponseLimits, *, is_file: bool
) -> Iterator[bytes]:
    """Yield the decoded body in chunks; raise `ResponseTooLargeError` if it exceeds the limit.

    ``is_file`` is True if the limit for downloads applies, False for the limit for memory.
    """
    most = limits.max_download_bytes if is_file else limits.max_response_bytes
    if most is not None and (_enforced_size(response) or 0) > most:
        raise too_large(limits, is_file=is_file)
    size = 0
    for chunk in response.iter_content(CHUNK):
        size += len(chunk)
        if most is not None and size > most:
            raise too_large(limits, is_file=is_file)
        yield chunk


def _enforced_size(response: requests.Response) -> int | None:
    """Return the maximum number of body bytes that http.client will read; None if unlimited.

    It is used instead of the Content-Length header, which may be repeated or not a number.
    """
    original = getattr(response.raw, "_original_response", None)
    size: int | None = getattr(original, "length", None)
    return size


class _InForce(threading.local):
    """Thread-local deadlines of the current thread's requests and responses."""

    deadline: Deadline | None = None
    """Deadline of the request being sent: set by the sender, read by the connections."""

    last: Deadline | None = None
    """Deadline of the request that was sent last."""

    failed: Deadline | None = None
    """Deadline used by earlier tries of the next request, set by the retry loop."""

    reading: ReadingTime | None = None
    """Response whose chunk was read last, if no request was sent since."""

    read_at: float = 0.0


IN_FORCE: Final = _InForce()
