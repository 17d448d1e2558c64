"""Failures of single contexts that do not stop the other contexts.

The stream decides whether its other contexts are read after a failure. The stream still
fails, with the first failure, after the others are read. The bookmark of a failed context is
unchanged, because its progress is not finalized.
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
    """Errors of single contexts during the sync of a stream. Several threads may use it."""

    def __init__(self, stream: SyncStream) -> None:
        self._stream = stream
        self._first: Exception | None = None
        self._lock = threading.Lock()

    @contextmanager
    def record_errors(self) -> Iterator[None]:
        """Run the block. If it fails, record the error if the stream's other contexts may continue.

        Otherwise the error is raised.
        """
        try:
            yield
        except Exception as error:
            if not self._stream._continues_after(error):
                raise
            with self._lock:
                self._first = self._first or error
            self._stream.log(
                "A context of '%s' failed; the other contexts are still read: %s",
                self._stream.name,
                error,
                level=logging.ERROR,
            )

    def wrap(self, work: Callable[[Any], object]) -> Callable[[Any], None]:
        """Return a function that calls ``work`` and records an error instead of raising it.

        The error is still raised if the stream's other contexts may not continue.
        """

        def call(stream: Any) -> None:
            with self.record_errors():
                work(stream)

        return call

    def raise_first(self) -> None:
        """Raise the first recorded error. Do nothing if no error was recorded."""
        if self._first is not None:
            raise self._first
