"""State functions of `tap_core.Stream`: state manager, start values, bookmarks and partitions.

Before a function reads or changes the state, the sync writes the records that it has read so far.
So the tap's code sees an exact state, and may change a returned dict at any time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from tap_core import sync
from tap_core.exceptions import StreamSetupError
from tap_core.parsing.iso8601 import parse_instant
from tap_core.redaction import is_secret
from tap_core.redaction.config import is_showable, property_schema
from tap_core.redaction.row_values import show_value
from tap_core.singerlib.catalog import REPLICATION_INCREMENTAL
from tap_core.state.bookmarks import get_state_partitions_list
from tap_core.state.manager import StreamStateManager
from tap_core.state.partition_limit import resolve_limit
from tap_core.sync.replication_errors import missing_replication_key, require_replication_key

if TYPE_CHECKING:
    from datetime import datetime

    from tap_core.state.document import StateDocument
    from tap_core.sync.interfaces import SyncStream
    from tap_core.types import Context, Record, TapState

__all__ = [
    "ISO_8601",
    "advance_bookmark",
    "check_tap_state",
    "finalize_state",
    "finalize_with_children",
    "find_first_value",
    "get_partition_state",
    "get_partitions_in_state",
    "get_stream_state",
    "make_start_error",
    "make_state_manager",
    "parse_state_datetime",
]

ISO_8601: Final = "a date or date-time in ISO 8601, such as 2024-01-31 or 2024-01-31T08:00:00Z"
"""Description of a valid date-time, for `make_start_error`."""


def make_state_manager(stream: SyncStream, document: StateDocument) -> StreamStateManager:
    """Return a manager for the bookmarks of a stream in a state document."""
    return StreamStateManager(
        tap_name=stream.tap_name,
        stream_name=stream.name,
        tap_state=cast("TapState", document.tap_state),
        state_partitioning_keys=stream.state_partitioning_keys,
        is_sorted=stream.is_sorted,
        check_sorted=stream.check_sorted,
        document=document,
        order=stream._context_reader.make_comparator(),
        partition_limit=resolve_limit(
            stream.name,
            stream.state_partition_limit,
            stream._config.get("state_partition_limit"),
        ),
    )


def find_first_value(stream: SyncStream) -> Any:
    """Return the replication key value at which a partition without a bookmark starts.

    The value is the start of a backfill, or else the setting ``start_date``. None reads all
    records.
    """
    if stream._read_range is None:
        return stream._context_reader.start_date
    return stream.state_manager.order.to_state_value(stream._read_range.start)


def check_tap_state(stream: SyncStream, state: TapState) -> None:
    """Accept the tap's state, which a copy of singer_sdk's ``Stream.__init__`` assigns to a stream.

    Raises:
        ValueError: The state is another dict, whose bookmarks would not be written.
    """
    if state is not stream._tap.document.tap_state:
        raise ValueError(
            f"_tap_state of stream '{stream.name}' can only be the tap's state: change the dict"
            " tap_state in place, or override Tap.load_state."
        )


def get_stream_state(stream: SyncStream) -> dict[str, Any]:
    """Return the state of a stream, as a mutable dict; create it if it is missing."""
    stream._tap.run.settle()
    state = stream.state_manager.stream_state
    stream._tap.document.share(stream.name)
    return state


def get_partition_state(stream: SyncStream, context: Context | None) -> dict[str, Any]:
    """Return the state of the partition ``context``, as a mutable dict; create a missing one."""
    stream._tap.run.settle()
    state = stream.state_manager.get_context_state(context)
    stream.state_manager.share(context)
    return state


def get_partitions_in_state(
    document: StateDocument, stream_name: str
) -> list[dict[str, Any]] | None:
    """Return the ``context`` (identifying values) of each partition in a stream's state.

    Return None if the state has no partitions.
    """
    entries: Sequence[Any] = get_state_partitions_list(document.tap_state, stream_name) or ()
    contexts = [
        partition["context"]
        for partition in entries
        if isinstance(partition, Mapping) and isinstance(partition.get("context"), Mapping)
    ]
    return contexts or None


def parse_state_datetime(stream: SyncStream, value: str) -> datetime:
    """Parse an ISO 8601 date-time from the state or ``start_date``. The default time zone is UTC.

    Raises:
        StreamSetupError: The value is not a date-time; the message names the setting
            ``start_date`` or says that the value is in the state.
    """
    parsed = parse_instant(value)
    if parsed is None:
        raise make_start_error(stream, value, ISO_8601)
    return parsed[0]


def make_start_error(stream: SyncStream, value: Any, expected: str) -> StreamSetupError:
    """Return the error for a stream that cannot start at ``value``.

    The message names the setting ``start_date``, or says that the value is in the state.

    Args:
        stream: The stream.
        value: The start date or bookmark.
        expected: Description of a valid value, such as "a number".
    """
    if value == stream._config.get("start_date"):
        setting = property_schema(getattr(stream._tap, "config_jsonschema", {}), "start_date")
        is_shown = is_showable(value) and not is_secret("start_date", setting)
        return StreamSetupError(
            f"start_date: stream '{stream.name}' needs {expected}"
            + (f" (it is {value!r})." if is_shown else ".")
        )
    return StreamSetupError(
        f"Stream '{stream.name}': the bookmark in the state is not valid:"
        f" {show_value(value, repr(value))} is not {expected}. Correct it, or remove it to read"
        " the stream in full."
    )


def advance_bookmark(stream: SyncStream, record: Record, context: Context | None) -> None:
    """Advance the bookmark of a partition to the replication key value of a record.

    Raises:
        InvalidStreamSortException: The stream is sorted and the record is out of order.
        InvalidReplicationKeyException: The record has no replication key.
    """
    if not record or stream.replication_method != REPLICATION_INCREMENTAL:
        return
    key = require_replication_key(stream.name, stream.replication_key)
    manager = stream.state_manager
    get_key = sync.plan.get_plan(stream).get_key
    try:
        value = record[key] if get_key is None else get_key(record)
    except KeyError:
        if not manager.order.has_declared_cursor:
            raise missing_replication_key(stream.name, key, record) from None
        value = None
    stream._tap.run.settle_bookmarks()
    manager.increment_state({key: value}, context=context, replication_key=key)
    stream._tap.run.reload_bookmarks()


def finalize_state(stream: SyncStream, state: dict[str, Any] | None) -> None:
    """Replace the progress markers in a state dict by a bookmark with their value.

    Markers are the latest value of an unsorted stream. ``state`` is the state dict of a partition;
    None means that of the stream.
    """
    stream._tap.run.settle_bookmarks()
    stream.state_manager.finalize_state(state)
    stream._tap.run.reload_bookmarks()


def finalize_with_children(stream: SyncStream) -> bool:
    """Store the progress markers of a stream and of its selected children as bookmarks.

    Returns:
        True, or False if the stream is not selected. Its own markers are then unchanged.
    """
    for child in stream.child_streams:
        if child.selected:
            child.finalize_state_progress_markers()
    if not stream.selected:
        return False
    stream._tap.run.settle()
    stream.state_manager.finalize_progress_markers(state=None, partitions=stream.partitions)
    return True
