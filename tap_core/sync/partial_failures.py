"""Errors of single contexts that do not stop the sync of the stream's other contexts.

The stream decides for each error if the sync of its other contexts continues. At the end the first
error is raised, so the stream fails anyway. The bookmark of a failed context is unchanged, because
its progress is not finalized.
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
    """Collector of the errors of contexts (partitions) after which a stream's sync continues.

    Threads share it. The stream's ``continues_after`` decides for each error.
    """

    def __init__(self, stream: SyncStream) -> None:
        self._stream = stream
        self._first: Exception | None = None
        self._lock = threading.Lock()

    @contextmanager
    def record_errors(self) -> Iterator[None]:
        """Suppress an error of the block, which syncs one context (partition), or raise it.

        If the sync of the stream's other contexts continues, the error is logged, and stored for
        `raise_first`. Otherwise the error is raised.
        """
        try:
            yield
        except Exception as error:
            if not self._stream._reader.continues_after(error):
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
        """Return a function that calls ``work`` in a ``with`` block of `record_errors`.

        The function is called in a worker thread with the thread's copy of the stream.
        """

        def call(stream: Any) -> None:
            with self.record_errors():
                work(stream)

        return call

    def raise_first(self) -> None:
        """Raise the first error that `record_errors` has suppressed, if any, to fail the stream."""
        if self._first is not None:
            raise self._first
