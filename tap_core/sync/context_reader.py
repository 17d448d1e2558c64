"""`ContextReader`: interface that the sync engine calls before and after it reads a context.

Streams that divide a context into time windows or slices have a subclass of it. Each stream
object, including the copies in worker threads, has its own reader.
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
    """Callbacks for reading a context of a stream; by default a context has no time windows.

    Subclasses divide a context into time windows and read one window after the other.
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def begin(self, context: Context | None) -> Callable[[Record], bool] | None:  # noqa: ARG002
        """Prepare the sync of a context; return a filter for its records, or None to keep all.

        A record for which the filter returns False is not written, and its children are not synced.
        The filter is called after ``post_process``.
        """
        return None

    def begin_preview(self, context: Context | None) -> Callable[[Record], bool] | None:  # noqa: ARG002
        """Prepare to read a context for a preview, which changes no state and uses no threads.

        Return a filter for the records, as `begin` does.
        """
        return None

    def begin_trial(self, context: Context | None) -> None:
        """Prepare a connection test, which reads only the first records of a context."""

    def end(self) -> None:
        """Release the resources of the context that was read, also after an error."""

    def find_intervals(self, context: Context | None) -> Sequence[ReadInterval]:  # noqa: ARG002
        """Return the time windows of a context that other processes can sync; empty by default."""
        return ()

    def reading_only(self, interval: ReadInterval) -> AbstractContextManager[None]:
        """Return a context manager in which only one time window of a context is read.

        Raises:
            NotImplementedError: The stream has no time windows.
        """
        raise NotImplementedError(f"Stream '{self.stream.name}' has no windows: {interval}")
