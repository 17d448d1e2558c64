"""Queue of byte strings between a producer thread and a consumer thread, with a limit in bytes.

The producer waits while the queue is full. If the consumer stops, the producer gets an error. If
the producer fails, the consumer gets the producer's error after all queued byte strings.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Final

__all__ = ["LIMIT", "BoundedByteQueue", "CallEndedError"]

LIMIT: Final = 16 * 1024 * 1024
"""Maximum number of bytes in the queue."""


class CallEndedError(ConnectionError):
    """Raised by an attempt to send a response after the gRPC call has ended."""

    def __init__(self) -> None:
        super().__init__("The call has ended: no more responses can be sent.")


class BoundedByteQueue:
    """First-in, first-out queue of byte strings, from a producer thread to a consumer thread.

    ``limit`` is the maximum number of bytes in the queue. A longer byte string is accepted only
    while the queue is empty.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._pieces: deque[bytes] = deque()
        self._waiting = 0
        self._turn = threading.Condition(threading.Lock())
        self._is_over = False
        self._error: BaseException | None = None
        self.is_left = False
        """True if `leave` was called, so that the consumer reads no more data."""

    # Producer

    def put(self, piece: bytes) -> None:
        """Add a byte string to the queue. Wait while the queue is full.

        Raises:
            CallEndedError: The consumer has called `leave`.
        """
        with self._turn:
            while self._waiting and self._waiting + len(piece) > self._limit and not self.is_left:
                self._turn.wait()
            self.check()
            self._pieces.append(piece)
            self._waiting += len(piece)
            if len(self._pieces) == 1:
                self._turn.notify_all()

    def check(self) -> None:
        """Raise `CallEndedError` if the consumer has called `leave`, and so reads no more data."""
        if self.is_left:
            raise CallEndedError

    def end(self, error: BaseException | None = None) -> None:
        """Mark the end of the data. The producer calls this last.

        If the producer has failed, ``error`` is its error. The consumer gets all queued byte
        strings, and then this error.
        """
        with self._turn:
            self._is_over, self._error = True, None if self.is_left else error
            self._turn.notify_all()

    # Consumer

    def __iter__(self) -> Iterator[bytes]:
        """Yield the byte strings until the queue ends. Then raise the producer's error, if any."""
        while pieces := self._take_all():
            yield from pieces
        error, self._error = self._error, None  # its traceback keeps frames alive
        if error is not None and not self.is_left:
            raise error

    def _take_all(self) -> list[bytes]:
        """Wait for byte strings, and remove all of them. Return ``[]`` if the queue has ended."""
        with self._turn:
            while not (self._pieces or self._is_over or self.is_left):
                self._turn.wait()
            if self.is_left:
                return []
            pieces = list(self._pieces)
            self._pieces.clear()
            self._waiting = 0
            self._turn.notify_all()
            return pieces

    def leave(self) -> None:
        """Stop consuming: discard the queued data, and make `put` raise `CallEndedError`.

        Any thread may call this, also repeatedly.
        """
        with self._turn:
            self.is_left = True
            self._pieces.clear()
            self._waiting = 0
            self._turn.notify_all()
