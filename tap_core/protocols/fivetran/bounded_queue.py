"""Queue of byte pieces between two threads, bounded by the total number of bytes.

The producer waits while the queue is full; a piece larger than the limit must be alone in the
queue. After the consumer has left, the producer gets an error. The producer's own error is raised
to the consumer after all queued pieces.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Final

__all__ = ["LIMIT", "BoundedByteQueue", "CallEndedError"]

LIMIT: Final = 16 * 1024 * 1024
"""Maximum number of waiting bytes."""


class CallEndedError(ConnectionError):
    """Raised instead of sending data to the client after the gRPC call has ended."""

    def __init__(self) -> None:
        super().__init__("The call has ended: no more responses can be sent.")


class BoundedByteQueue:
    """Queue of byte strings from a producer thread to a consumer thread, oldest first.

    It holds at most ``limit`` bytes. A single longer byte string is accepted if the queue is empty.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._pieces: deque[bytes] = deque()
        self._waiting = 0
        self._turn = threading.Condition(threading.Lock())
        self._is_over = self._is_left = False
        self._error: BaseException | None = None

    # Producer

    def put(self, piece: bytes) -> None:
        """Add a byte string. Wait while the queue is full.

        Raises:
            CallEndedError: The consumer has called `leave`.
        """
        with self._turn:
            while self._waiting and self._waiting + len(piece) > self._limit and not self._is_left:
                self._turn.wait()
            self.check()
            self._pieces.append(piece)
            self._waiting += len(piece)
            if len(self._pieces) == 1:
                self._turn.notify_all()

    def check(self) -> None:
        """Raise `CallEndedError` if the consumer has called `leave`."""
        if self._is_left:
            raise CallEndedError

    def end(self, error: BaseException | None = None) -> None:
        """End the queue; called by the producer. ``error`` is the error that stopped it, if any."""
        with self._turn:
            self._is_over, self._error = True, None if self._is_left else error
            self._turn.notify_all()

    # Consumer

    def __iter__(self) -> Iterator[bytes]:
        """Yield the byte strings until the queue ends.

        Then raise the producer's error, if it failed.
        """
        while pieces := self._taken():
            yield from pieces
        error, self._error = self._error, None  # its traceback keeps frames alive
        if error is not None and not self._is_left:
            raise error

    def _taken(self) -> list[bytes]:
        """Wait for byte strings and remove all of them.

        An empty list means that the queue has ended.
        """
        with self._turn:
            while not (self._pieces or self._is_over or self._is_left):
                self._turn.wait()
            if self._is_left:
                return []
            pieces = list(self._pieces)
            self._pieces.clear()
            self._waiting = 0
            self._turn.notify_all()
            return pieces

    def leave(self) -> None:
        """Stop consuming and discard the queued data. Any thread may call this, also repeatedly."""
        with self._turn:
            self._is_left = True
            self._pieces.clear()
            self._waiting = 0
            self._turn.notify_all()

    @property
    def is_left(self) -> bool:
        """True if the consumer has called `leave` and takes no more data."""
        return self._is_left
