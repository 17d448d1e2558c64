"""`ContextReader`: prepares and ends the reading of each context (partition or parent record).

The sync engine calls a reader before and after it reads a context. Streams with a cursor are read
in time windows or slices by a subclass of `ContextReader`. Each stream object has its own reader;
so has each copy of it in a worker thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from tap_core.state.replication_key_comparator import ReplicationKeyComparator, make_comparator
from tap_core.state.replication_key_path import get_definition
from tap_core.sync.override_detection import is_overridden

if TYPE_CHECKING:
    import datetime as dt

    from tap_core.incremental.time_windows import ReadInterval
    from tap_core.types import Context, Record

__all__ = ["ContextReader"]


class ContextReader:
    """Helper that prepares and ends the reading of each context of a stream without a cursor."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    # Cursor

    @property
    def has_cursor(self) -> bool:
        """True if a cursor, such as a DatetimeBasedCursor, determines the stream's bookmarks."""
        return False

    @property
    def cursor_field(self) -> str | None:
        """Replication key that the cursor defines for a stream; None without a cursor.

        It is used if the stream declares no replication key.
        """
        return None

    @property
    def state_partitioning_keys(self) -> Sequence[str] | None:
        """Default of the stream's ``state_partitioning_keys``: None or an empty list.

        None means one bookmark per partition. The list is empty for a cursor with one bookmark in
        total.
        """
        return None

    @property
    def start_date(self) -> Any:
        """Replication key value at which reading starts without a bookmark; None to read all."""
        return self.stream._config.get("start_date")

    def make_comparator(self) -> ReplicationKeyComparator:
        """Return the comparator for replication key values, chosen by their type in the schema."""
        path = self.stream.replication_path
        definition = get_definition(path, self.stream.effective_schema) if path else None
        return make_comparator(definition, self.stream.name)

    def find_later(self, value: str, start_date: str) -> str:  # noqa: ARG002
        """Return the later of the bookmark ``value`` and ``start_date``, by the stream's cursor.

        For a stream without a cursor, return the bookmark.
        """
        return value

    def parse_datetime(self, value: str) -> dt.datetime | None:  # noqa: ARG002
        """Parse a date-time in a format of the stream's cursor. Return None for any other text."""
        return None

    # Contexts

    def begin(self, context: Context | None) -> Callable[[Record], bool] | None:  # noqa: ARG002
        """Prepare the sync of a context (partition), and return a filter for its records.

        A record for which the filter returns False is not written, and its children are not synced.
        The filter is called after ``post_process``. None keeps all records.
        """
        return None

    def begin_preview(self, context: Context | None) -> Callable[[Record], bool] | None:  # noqa: ARG002
        """Prepare to read the first records of a context (partition) for a preview to the user.

        A preview changes no state and uses no threads. Return a filter for the records, a function
        that returns False for a record to drop, or None to keep all records.
        """
        return None

    def begin_trial(self, context: Context | None) -> None:
        """Prepare a connection test, which reads only the first records of a partition."""

    def end(self) -> None:
        """Release the resources used to read a context (partition). Called after an error too."""

    def find_intervals(self, context: Context | None) -> Sequence[ReadInterval]:  # noqa: ARG002
        """Return the time windows of a context (partition). Different processes can sync them.

        Return ``()`` if the context is not divided into time windows, which is the default.
        """
        return ()

    def reading_only(self, interval: ReadInterval) -> AbstractContextManager[None]:
        """Return a context manager that restricts reading to the time window ``interval``.

        Raises:
            NotImplementedError: The stream has no time windows.
        """
        raise NotImplementedError(
            f"Stream '{self.stream.name}' has no time windows, so none can be read separately."
        )

    @property
    def has_gap(self) -> bool:
        """True if some records were not read, so that the bookmark must not advance."""
        return False

    @property
    def has_ended(self) -> bool:
        """True if reading can stop, because an earlier sync has read the remaining records.

        This happens if the source returns the newest records first.
        """
        return False

    # End of the stream

    def continues_after(self, error: Exception) -> bool:  # noqa: ARG002
        """Return True to continue with the next partition after ``error``; by default False."""
        return False

    def complete(self, *, saw_all: bool) -> None:
        """Finalize the states of all partitions of the stream at the end of its sync.

        If ``saw_all`` is True, the sync has read all existing partitions. Any other partition is
        then removed from the state if the stream's ``retain_partition`` returns False for it.
        """
        stream = self.stream
        if not stream.parent_stream_type and not is_overridden(stream, "partitions"):
            return  # the stream has no partitions
        may_remove = is_overridden(stream, "retain_partition")
        stream._tap.run.settle()
        if stream.state_manager.complete(
            replication_key=stream.replication_key,
            saw_all=saw_all,
            keeps=stream.retain_partition if may_remove else None,
        ):
            stream._tap.run.checkpoint(required=True)
