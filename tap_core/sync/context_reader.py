"""`ContextReader`: what the sync engine calls before and after it reads a context of a stream.

A stream that reads a context in windows or slices has a subclass of it. Each stream object, and
each copy of one in a worker thread, has its own reader.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tap_core.incremental.windows import ReadInterval
    from tap_core.types import Context, Record

__all__ = ["ContextReader"]


class ContextReader:
    """Reader of a stream's records, which reads each context at once.

    Subclasses divide a context into time windows and read one window after the other.
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def begin(self, context: Context | None) -> Callable[[Record], bool] | None:  # noqa: ARG002
        """Prepare the sync of a context; return a filter for its records, or None to keep all.

        A record that the filter rejects is not written, and its children are not synced. The filter
        is applied after `post_process`.
        """
        return None

    def begin_preview(self, context: Context | None) -> Callable[[Record], bool] | None:  # noqa: ARG002
        """Prepare to read a context without a sync: no state changes, and no threads are used.

        Return a filter for its records, as `begin` does.
        """
        return None

    def begin_trial(self, context: Context | None) -> None:
        """Prepare a connection test, which reads only the first records of a context."""

    def end(self) -> None:
        """Release the resources of a context after it was read, or after an error."""

    def find_intervals(self, context: Context | None) -> Sequence[ReadInterval]:  # noqa: ARG002
        """Return the time windows of a context that can be synced separately; empty by default."""
        return ()

    def reading_only(self, interval: ReadInterval) -> AbstractContextManager[None]:
        """Restrict reading to one time window of a context for the duration of the block."""
        raise NotImplementedError(f"Stream '{self.stream.name}' has no windows: {interval}")
