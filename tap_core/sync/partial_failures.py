"""Contexts that fail, and keep no other one from being read.

Rules of the room: whether others are read behind a failure is for the stream to say. It fails all
the same, with the first failure, when the others have been read. The bookmark of what failed stays
where it was, since nothing of it is made final.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tap_core.sync.interfaces import SyncStream

__all__ = ["ContextFailures"]


class ContextFailures:
    """The failures of one sync of a stream; threads may note them."""

    def __init__(self, stream: SyncStream) -> None:
        self._stream = stream
        self._first: Exception | None = None
        self._turn = threading.Lock()

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Keep a failure behind which other contexts are to be read; raise any other."""
        try:
            yield
        except Exception as error:
            if not self._stream._outlives(error):
                raise
            with self._turn:
                self._first = self._first or error
            self._stream.log(
                "A context of '%s' failed, and the others are read: %s",
                self._stream.name,
                error,
                level=logging.ERROR,
            )

    def noting(self, work: Callable[[Any], object]) -> Callable[[Any], None]:
        """Return work whose failures are noted."""

        def tried(stream: Any) -> None:
            with self.noted():
                work(stream)

        return tried

    def tell(self) -> None:
        """Raise the first failure, where there was one."""
        if self._first is not None:
            raise self._first
