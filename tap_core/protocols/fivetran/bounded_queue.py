"""Pieces that one thread makes and another takes: so many bytes at a time, and no more.

Rules of the room: whoever makes pieces waits while there are too many; a piece larger than the
limit goes alone. Once the taker has left, putting a piece raises an error, and so does waiting.
What a maker failed with comes behind all that it had put.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Final

__all__ = ["LIMIT", "BoundedByteQueue", "CallEndedError"]

LIMIT: Final = 16 * 1024 * 1024
"""Bytes that may wait."""


class CallEndedError(ConnectionError):
    """Whoever made the call has left: nobody takes what is still made."""

    def __init__(self) -> None:
        super().__init__("The call has ended: nothing more is taken.")


class BoundedByteQueue:
    """Pieces in their order, from one side to the other; ``limit`` in bytes."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._pieces: deque[bytes] = deque()
        self._waiting = 0
        self._turn = threading.Condition(threading.Lock())
        self._is_over = self._is_left = False
        self._error: BaseException | None = None

    # The side that makes pieces

    def put(self, piece: bytes) -> None:
        """Add a piece, as soon as there is room.

        Raises:
            CallEndedError: nobody takes it any more.
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
        """Raise `CallEndedError` when nobody takes pieces any more."""
        if self._is_left:
            raise CallEndedError

    def end(self, error: BaseException | None = None) -> None:
        """Say that there will be no more, and with which error that came."""
        with self._turn:
            self._is_over, self._error = True, None if self._is_left else error
            self._turn.notify_all()

    # The side that takes them

    def __iter__(self) -> Iterator[bytes]:
        """Yield the pieces until there will be no more; then raise the maker's error."""
        while pieces := self._taken():
            yield from pieces
        error, self._error = self._error, None  # it holds all that it went through
        if error is not None and not self._is_left:
            raise error

    def _taken(self) -> list[bytes]:
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
        """Take nothing any more; for whichever thread, and as often as one likes."""
        with self._turn:
            self._is_left = True
            self._pieces.clear()
            self._waiting = 0
            self._turn.notify_all()

    @property
    def is_left(self) -> bool:
        """Whether nobody takes pieces any more."""
        return self._is_left
