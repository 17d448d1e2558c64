"""Stop signal that the threads of one worker pool share.

The signal is set by the first error of a thread, by an error of the pool's owner, or by the stop
signal of an enclosing pool. Each thread checks it between two records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["StopSignal", "WorkerStopped", "close_records"]


class WorkerStopped(BaseException):
    """Raised in a worker thread to end its work. ``except Exception`` does not catch it."""


class StopSignal:
    """Signal that stops the threads of a worker pool.

    Args:
        outer: Stop signal of an enclosing pool, or None. If it is set, these threads stop too.
    """

    def __init__(self, outer: StopSignal | None = None) -> None:
        self.outer = outer
        self.error: BaseException | None = None
        """First error of a thread, which the owner of the pool raises."""
        self.has_owner_failed = False
        """True if the code of the pool's owner has failed while the pool was open."""
        self.is_abandoned = False
        """True if the owner no longer waits for the threads, so that they may not write rows."""

    @property
    def is_set(self) -> bool:
        """True if the threads of the worker pool must stop."""
        return (
            self.error is not None
            or self.has_owner_failed
            or (self.outer is not None and self.outer.is_set)
        )

    def check(self) -> None:
        """Raise an error if the threads of the pool must stop.

        Raises:
            BaseException: The first error of a thread.
            WorkerStopped: The threads must stop, but no thread has failed.
        """
        if self.error is not None:
            raise self.error
        if self.is_set:
            raise WorkerStopped

    def check_output(self) -> None:
        """Raise `WorkerStopped` if the owner of the pool no longer waits for its threads.

        A thread calls this before it writes rows, because after that it must not write any.
        """
        if self.is_abandoned:
            raise WorkerStopped
        if self.outer is not None:
            self.outer.check_output()

    def until_set(self, records: Iterable[Any]) -> Iterator[Any]:
        """Yield the records of an iterator until this stop signal is set, then close the iterator.

        Raises:
            WorkerStopped: The signal is set.
        """
        try:
            for record in records:
                if self.is_set:
                    raise WorkerStopped
                yield record
        finally:
            close_records(records)


def close_records(records: object) -> None:
    """Close a generator of records. Do nothing with an iterable without the method ``close``."""
    close = getattr(records, "close", None)
    if close is not None:
        close()
