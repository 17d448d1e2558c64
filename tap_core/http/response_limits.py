"""Limits of an answer: its size in memory or in a file, and the time that it may take.

Sizes are counted behind the decoding of `Content-Encoding`, while an answer is read. Time is
counted from the first byte of an answer to its last one, status line and headers included, over
all tries of a request; and on, in processor time, until the last of its rows is read. How long a
server may think before the first byte is the timeout of the request.
"""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator
from typing import IO, Any, Final, NamedTuple

import requests

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
    "is_known_to_fit",
    "read_body",
    "too_large",
]

MAX_RESPONSE_BYTES: Final = 100_000_000
"""Bytes of an answer that is kept in memory; its JSON may take four times as much beside it."""

MAX_DOWNLOAD_BYTES: Final = 20_000_000_000
"""Bytes of an answer that is kept in a file."""

MAX_RESPONSE_SECONDS: Final = 50.0
"""Seconds from the first byte of an answer to its last row."""

CHUNK: Final = 65_536

_DOWNLOAD_RATE: Final = 65_536
"""Bytes for which an answer that goes into a file gets a second more."""

_FRAMING: Final = 8 * 1024 * 1024
"""Bytes of headers and of other framing that an answer may have beside twice its own size."""


class ResponseTooLargeError(FatalAPIError):
    """An answer is larger than the stream allows."""


class ResponseTooSlowError(FatalAPIError):
    """An answer takes longer to arrive than the stream allows."""


class ResponseLimits(NamedTuple):
    """What an answer may take; None for as much as there is."""

    max_response_bytes: int | None = MAX_RESPONSE_BYTES
    max_download_bytes: int | None = MAX_DOWNLOAD_BYTES
    max_response_seconds: float | None = MAX_RESPONSE_SECONDS


class Deadline:
    """How much of their time the answers to one request have used, and of its bytes the last one.

    The answers of redirects and of tries that failed count. An answer that goes into a file earns
    time by what has come of it.
    """

    __slots__ = ("_earned", "_is_file", "_most", "_used", "_wire", "begun", "limits")

    def __init__(self, limits: ResponseLimits, *, is_file: bool = False) -> None:
        self.limits = limits
        self._is_file = is_file
        most = limits.max_download_bytes if is_file else limits.max_response_bytes
        self._most = None if most is None else 2 * most + _FRAMING
        self._wire = 0
        self._earned = 0.0
        """Seconds that bytes in a file have earned."""
        self._used = 0.0
        """Seconds that earlier answers took."""
        self.begun: float | None = None

    def end(self) -> None:
        """End with an answer, whether it came or not; its time still counts."""
        if self.begun is not None:
            self._used += time.monotonic() - self.begun
        self.begun = None

    def try_again(self) -> None:
        """Begin with another try, which may bring as many bytes as the one that failed."""
        self.end()
        self._wire = 0

    def left(self) -> float | None:
        """Return the seconds that are left, None for any number.

        Raises:
            ResponseTooSlowError: none are.
        """
        limit = self.limits.max_response_seconds
        if limit is None or self.begun is None:
            return None
        left = limit + self._earned - self._used - (time.monotonic() - self.begun)
        if left <= 0:
            raise self.overdue()
        return left

    def longest_silence(self, left: float) -> float:
        """Return after how many silent seconds a connection is lost, when so many are left.

        Half of the time is kept for another try.
        """
        return max(left, self.limits.max_response_seconds or 0.0) / 2

    def reading_time(self) -> ReadingTime:
        """End with the answer that has come, and return the time that its rows may take."""
        self.end()
        limit = self.limits.max_response_seconds
        if limit is None:
            return ReadingTime(None)
        left = limit + self._earned if self._is_file else limit - self._used
        return ReadingTime(left, limit)

    def count(self, size: int) -> None:
        """Note bytes that came over the wire.

        Raises:
            ResponseTooLargeError: they are far more than an answer of the largest size has.
        """
        if self.begun is None:
            self.begun = time.monotonic()
        self._wire += size
        if self._is_file:
            self._earned += size / _DOWNLOAD_RATE
        if self._most is not None and self._wire > self._most:
            raise too_large(self.limits, is_file=self._is_file)

    def overdue(self) -> ResponseTooSlowError:
        """Return the error of an answer that takes too long."""
        earlier = f", {self._used:.1f} of them for earlier answers" if self._used else ""
        return ResponseTooSlowError(
            f"The answer is not complete {self.limits.max_response_seconds:g} seconds after its"
            f" first byte{earlier}: if the source is that slow, raise max_response_seconds"
            f" (here {self.limits.max_response_seconds:g})."
        )


class ReadingTime:
    """Processor time of the thread that reads the rows of one answer.

    Counted from one piece of its body to the next, with all that is done with the rows between
    them. Waiting for a pipe takes no processor time. Where the thread sent a request or read
    another answer between two pieces, as for the children of a row, nothing is counted.
    """

    def __init__(self, most: float | None, limit: float = 0.0) -> None:
        self._most, self._limit = most, limit
        self._spent = 0.0

    def count(self) -> None:
        """Count the time since the last piece.

        Raises:
            ResponseTooSlowError: the answer has had its time.
        """
        now = time.thread_time()
        if IN_FORCE.reading is self:
            self._spent += now - IN_FORCE.read_at
            if self._most is not None and self._spent > self._most:
                raise ResponseTooSlowError(
                    f"The answer is not read to its end after {self._spent:.1f} seconds of work"
                    " with its rows: ask for smaller pages, or raise max_response_seconds"
                    f" (here {self._limit:g}, from the first byte to the last row)."
                )
        IN_FORCE.reading, IN_FORCE.read_at = self, now


def too_large(
    limits: ResponseLimits, *, is_file: bool, what: str = "answer"
) -> ResponseTooLargeError:
    """Return the error of an answer that is larger than allowed."""
    name = "max_download_bytes" if is_file else "max_response_bytes"
    most: int = getattr(limits, name) or 0
    return ResponseTooLargeError(
        f"The {what} is larger than {most:,} bytes: ask for smaller pages, or raise {name}."
    )


def read_body(
    response: requests.Response, limits: ResponseLimits, into: IO[bytes] | None = None
) -> None:
    """Read the body of a response, decoded, into memory or into a file.

    Raises:
        ResponseTooLargeError: it is larger than allowed; the rest is left unread.
        requests.exceptions.RequestException: it cannot be read to its end.
    """
    known = vars(response)
    if known.get("_content_consumed") or known.get("_content") is not False:
        return  # by someone before
    if response.raw is None:
        return
    body: Any = io.BytesIO() if into is None else into
    try:
        for chunk in _chunks(response, limits, is_file=into is not None):
            body.write(chunk)
    except BaseException:
        response.close()
        raise
    if into is None:
        known.update(_content=body.getvalue(), _content_consumed=True)


def _chunks(
    response: requests.Response, limits: ResponseLimits, *, is_file: bool
) -> Iterator[bytes]:
    """Yield the decoded body piece by piece, and refuse it where it becomes too large."""
    most = limits.max_download_bytes if is_file else limits.max_response_bytes
    if most is not None and (_enforced_size(response) or 0) > most:
        raise too_large(limits, is_file=is_file)
    size = 0
    for chunk in response.iter_content(CHUNK):
        size += len(chunk)
        if most is not None and size > most:
            raise too_large(limits, is_file=is_file)
        yield chunk


def is_known_to_fit(response: requests.Response, limits: ResponseLimits) -> bool:
    """Return whether a body is as large as the headers say, and not too large for the memory."""
    size, most = _enforced_size(response), limits.max_response_bytes
    if size is None or (most is not None and size > most):
        return False
    return not response.raw.headers.get("content-encoding")


def _enforced_size(response: requests.Response) -> int | None:
    """Return how many bytes http.client will read at most, None where it reads to the end.

    The header alone is not to be trusted: there may be two, or one that is not a number.
    """
    original = getattr(response.raw, "_original_response", None)
    size: int | None = getattr(original, "length", None)
    return size


class _InForce(threading.local):
    """What measures the answers that a thread receives and reads; None for nothing."""

    deadline: Deadline | None = None
    """Set by who sends, read by the connections."""

    last: Deadline | None = None
    """That of the request that was sent last."""

    failed: Deadline | None = None
    """What earlier tries of the next request have used, set by who tries again."""

    reading: ReadingTime | None = None
    """The answer of which a piece was read last, and no request was sent since."""

    read_at: float = 0.0


IN_FORCE: Final = _InForce()
