"""Errors of single partitions that do not stop the sync of a stream's other partitions.

The stream decides for each error if the sync continues with the other partitions. At the end the
first error is raised, so the stream fails anyway. The bookmark of a failed partition is unchanged,
because its progress is not finalized.
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
    """Collector of the errors of partitions, for a sync that continues after such errors.

    Threads share it. After each error, the method ``continues_after`` of the stream's reader
    decides if the sync continues.
    """

    def __init__(self, stream: SyncStream) -> None:
        self._stream = stream
        self._first: Exception | None = None
        self._lock = threading.Lock()

    @contextmanager
    def record_errors(self) -> Iterator[None]:
        """Context manager that logs and stores an error of its block, which syncs one partition.

        The error is raised instead if the sync of the stream must not continue after it.
        """
        try:
            yield
        except Exception as error:
            if not self._stream._context_reader.continues_after(error):
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
        """Return a function that calls ``work`` and handles its error like `record_errors`.

        A worker thread calls the function with the thread's copy of the stream.
        """

        def call(stream: Any) -> None:
            with self.record_errors():
                work(stream)

        return call

    def raise_first(self) -> None:
        """Raise the first stored error, if any, so that the stream fails."""
        if self._first is not None:
            raise self._first
