"""State dicts of streams and partitions: their keys, and functions that change them.

- A *state dict* is the entry of one stream, or of one partition, in a state document. Its format is
  that of singer_sdk, so either SDK can resume from a state of the other.
- ``replication_key_value`` is the bookmark: every record up to this value was written.
- ``progress_markers`` contains the highest value of an unsorted stream so far. Records with smaller
  values may still follow. So the value becomes the bookmark only at the end of the stream or
  partition. The next sync deletes markers that an interrupted sync left.
- ``replication_key_signpost`` is the time (or log position) at which the sync began. It is the
  upper limit of the bookmark, because the sync may miss records that changed after this time.
- ``progress_tracking`` is the older name of ``progress_markers``; it is still read.

The functions have the names and arguments of ``singer_sdk.helpers._state``. They search the list of
partitions linearly; a sync uses `StateDocument` instead.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tap_core.exceptions import InvalidStreamSortException
from tap_core.state.partition_index import PartitionIndex
from tap_core.state.replication_key_comparator import (
    NULL_VALUE,
    ReplicationKeyComparator,
    is_missing,
    make_comparator,
)
from tap_core.types import Context, TapState
from tap_core.typing.values import to_json_compatible

__all__ = [
    "ASSUMED_UNSORTED",
    "NOT_RESUMABLE",
    "PROGRESS_MARKERS",
    "PROGRESS_MARKER_NOTE",
    "SIGNPOST_MARKER",
    "STARTING_MARKER",
    "advance_bookmark",
    "finalize_state_progress_markers",
    "format_sort_error",
    "get_progress_markers",
    "get_starting_replication_value",
    "get_state_if_exists",
    "get_state_partitions_list",
    "get_writeable_state_dict",
    "increment_state",
    "is_final",
    "is_state_non_resumable",
    "log_sort_error",
    "open_progress_markers",
    "promote_progress_markers",
    "reset_state_progress_markers",
    "write_replication_key_signpost",
    "write_starting_replication_value",
    "write_stream_state",
]

PROGRESS_MARKERS = "progress_markers"
PROGRESS_MARKER_NOTE = "Note"
SIGNPOST_MARKER = "replication_key_signpost"
STARTING_MARKER = "starting_replication_value"

NOT_RESUMABLE = "Progress is not resumable if interrupted."
"""Note stored with progress markers; other tools search for exactly this text."""

ASSUMED_UNSORTED = (
    "The stream is treated as unsorted: an interrupted sync starts again from its beginning."
)

_OLD_PROGRESS_MARKERS = "progress_tracking"

_KEYS_DURING_SYNC = (PROGRESS_MARKERS, _OLD_PROGRESS_MARKERS, SIGNPOST_MARKER, STARTING_MARKER)

_TEXT_ORDER = make_comparator(None)

logger: logging.Logger = logging.getLogger(__name__)


# Lookup of the state of a stream or partition


def get_state_if_exists(
    tap_state: TapState | dict[str, Any],
    tap_stream_id: str,
    state_partition_context: Context | None = None,
    key: str | None = None,
) -> Any | None:
    """Return the state dict of a stream or partition, or the value of one key in it.

    Return None if the state dict or the key is absent.

    Args:
        tap_state: State dict of the whole tap.
        tap_stream_id: Name of the stream.
        state_partition_context: Values that identify the partition. By default the stream's dict
            is used.
        key: Key of the value to return. By default the whole state dict is returned.

    Raises:
        ValueError: Two partitions in the state have this context.
    """
    state = tap_state.get("bookmarks", {}).get(tap_stream_id)
    if state is not None and state_partition_context:
        state = PartitionIndex(state.get("partitions", [])).find(state_partition_context)
    if state is None or not key:
        return state
    return state.get(key)


def get_state_partitions_list(
    tap_state: TapState | dict[str, Any], tap_stream_id: str
) -> list[dict[str, Any]] | None:
    """Return the list of partition entries in a stream's state, or None if it has no list."""
    state = get_state_if_exists(tap_state, tap_stream_id) or {}
    partitions: list[dict[str, Any]] | None = state.get("partitions")
    return partitions


def get_writeable_state_dict(
    tap_state: TapState | dict[str, Any],
    tap_stream_id: str,
    state_partition_context: Context | None = None,
) -> dict[str, Any]:
    """Return the state dict of a stream or partition, which the caller may change.

    A missing dict is added to ``tap_state``.

    Raises:
        ValueError: Two partitions in the state have this context, or there is no ``tap_state``.
    """
    if tap_state is None:
        raise ValueError("There is no state document to write to.")
    state = tap_state.setdefault("bookmarks", {}).setdefault(tap_stream_id, {})
    if not state_partition_context:
        return state
    return PartitionIndex(state.setdefault("partitions", [])).find_or_add(state_partition_context)


def write_stream_state(
    tap_state: TapState | dict[str, Any],
    tap_stream_id: str,
    key: str,
    val: Any,
    *,
    state_partition_context: Context | None = None,
) -> None:
    """Set ``key`` to ``val`` in the state dict of a stream or partition.

    A missing dict is created.
    """
    get_writeable_state_dict(tap_state, tap_stream_id, state_partition_context)[key] = val


# Start of a sync


def reset_state_progress_markers(
    stream_or_partition_state: dict[str, Any],
) -> dict[str, Any] | None:
    """Delete the progress markers that an earlier, unfinished sync left in a state dict.

    They contain the latest replication key value of an unsorted stream.

    Returns:
        The deleted markers without their key ``Note``, or None if there were none.
    """
    markers = get_progress_markers(stream_or_partition_state) or {}
    stream_or_partition_state.pop(PROGRESS_MARKERS, None)
    markers.pop(PROGRESS_MARKER_NOTE, None)
    return markers or None


def write_replication_key_signpost(
    stream_or_partition_state: dict[str, Any], new_signpost_value: Any
) -> None:
    """Set the signpost in a state dict: the upper limit of the bookmark."""
    stream_or_partition_state[SIGNPOST_MARKER] = to_json_compatible(new_signpost_value)


def write_starting_replication_value(
    stream_or_partition_state: dict[str, Any], initial_value: Any
) -> None:
    """Store in a state dict the value at which this sync starts; None for the beginning."""
    stream_or_partition_state[STARTING_MARKER] = to_json_compatible(initial_value)


def get_starting_replication_value(stream_or_partition_state: dict[str, Any] | None) -> Any | None:
    """Return from a state dict the value at which this sync starts; None for the beginning."""
    return (stream_or_partition_state or {}).get(STARTING_MARKER)


# Progress during a sync


def increment_state(
    stream_or_partition_state: dict[str, Any],
    *,
    latest_record: Mapping[str, Any],
    replication_key: str,
    is_sorted: bool,
    check_sorted: bool,
    order: ReplicationKeyComparator | None = None,
) -> None:
    """Advance the bookmark of a sorted stream to the replication key value of a record.

    For an unsorted stream a progress marker is advanced. A sync uses `BookmarkCursor` instead: it
    has the same rules and is faster for many records.

    Args:
        stream_or_partition_state: State dict to change.
        latest_record: Record with the replication key.
        replication_key: Name of the replication key.
        is_sorted: True to advance the bookmark itself, False to advance a progress marker.
        check_sorted: False to accept a value that is smaller than the previous value.
        order: Comparator for the replication key's type. By default values are compared as text.

    Raises:
        InvalidStreamSortException: The stream is sorted and the value is smaller than the previous
            value.
        KeyError: The record has no replication key.
    """
    progress = stream_or_partition_state
    if not is_sorted:
        progress = open_progress_markers(
            stream_or_partition_state, partial(_warn_once, order, ASSUMED_UNSORTED)
        )
    old = progress.get("replication_key_value")
    if progress.get("replication_key") != replication_key:
        old = None  # a value of another key cannot be compared
    new = (order or _TEXT_ORDER).to_state_value(latest_record[replication_key])
    if order is not None and not order.is_usable(new):
        order.warn_unusable(new)
    elif is_missing(new):
        _warn_once(order, NULL_VALUE)
    elif old is None or not check_sorted or (order or _TEXT_ORDER).newer_or_equal(new, old):
        progress["replication_key"] = replication_key
        progress["replication_key_value"] = new
    elif is_sorted:
        raise InvalidStreamSortException(format_sort_error(replication_key, new, old))


def open_progress_markers(
    state: dict[str, Any], on_first_marker: Callable[[], object] | None
) -> dict[str, Any]:
    """Return the ``progress_markers`` of a state dict; create them if they are absent.

    ``on_first_marker`` is called if the markers are created.
    """
    markers = get_progress_markers(state)
    if markers is None:
        markers = state[PROGRESS_MARKERS] = {PROGRESS_MARKER_NOTE: NOT_RESUMABLE}
        if on_first_marker is not None:
            on_first_marker()
    return markers


def get_progress_markers(state: dict[str, Any]) -> dict[str, Any] | None:
    """Return the ``progress_markers`` of a state dict, or None if it has none.

    The older key ``progress_tracking`` is renamed. A value that is not a dict is deleted.
    """
    if _OLD_PROGRESS_MARKERS in state:
        state.setdefault(PROGRESS_MARKERS, state.pop(_OLD_PROGRESS_MARKERS))
    markers = state.get(PROGRESS_MARKERS)
    if isinstance(markers, dict):
        return markers
    state.pop(PROGRESS_MARKERS, None)
    return None


def format_sort_error(replication_key: str, new: Any, old: Any) -> str:
    """Return the error message for a record that is out of order.

    ``new`` is the record's replication key value, and smaller than ``old``, the value before it.
    The message advises to set ``is_sorted = False``.
    """
    return (
        f"Unsorted data detected in stream: by '{replication_key}', '{new}' came after '{old}'. "
        "Set is_sorted = False if the source does not send its records in order, or also sends"
        " those before the bookmark."
    )


def _warn_once(order: ReplicationKeyComparator | None, sentence: str) -> None:
    """Log ``sentence`` as a warning: once per comparator ``order``, or at each call if it is None.

    Log nothing if the comparator is that of a declared cursor. Such a stream resumes from a time
    window.
    """
    if order is None:
        logger.warning(sentence)
    elif not order.has_declared_cursor:
        order.warn_once(sentence, sentence)


# End of a stream or partition


def is_state_non_resumable(stream_or_partition_state: Mapping[str, Any]) -> bool:
    """Return True if a state dict has progress markers, which an interruption would lose.

    They contain the latest replication key value of an unsorted stream.
    """
    return (
        PROGRESS_MARKERS in stream_or_partition_state
        or _OLD_PROGRESS_MARKERS in stream_or_partition_state
    )


def is_final(stream_or_partition_state: Mapping[str, Any]) -> bool:
    """Return True if a state dict has no values that exist only during a sync.

    Such values are the progress markers (of an unsorted stream), the signpost (the upper limit of
    the bookmark) and the starting value.
    """
    return stream_or_partition_state.keys().isdisjoint(_KEYS_DURING_SYNC)


def finalize_state_progress_markers(
    stream_or_partition_state: dict[str, Any], *, order: ReplicationKeyComparator | None = None
) -> dict[str, Any] | None:
    """Store the progress marker of a state dict as the bookmark at the end of a stream.

    The marker is the latest value of an unsorted stream. If the signpost (the bookmark's upper
    limit) is smaller than the marker by ``order``, the signpost becomes the bookmark. The signpost,
    the markers and the starting value are deleted.

    Returns:
        The deleted markers other than the replication key and its value, or None.
    """
    stream_or_partition_state.pop(STARTING_MARKER, None)
    return promote_progress_markers(stream_or_partition_state, order=order)


def promote_progress_markers(
    state: dict[str, Any], *, order: ReplicationKeyComparator | None = None
) -> dict[str, Any] | None:
    """Store the progress marker of a state dict as the bookmark while the stream is still read.

    The marker is the latest value of an unsorted stream. If the signpost (the bookmark's upper
    limit) is smaller than the marker by ``order``, the signpost becomes the bookmark. The signpost
    and the markers are deleted. Unlike in `finalize_state_progress_markers`, the starting value is
    kept.

    Returns:
        The deleted markers other than the replication key and its value, or None.
    """
    signpost = state.pop(SIGNPOST_MARKER, None)
    markers = get_progress_markers(state) or {}
    if "replication_key" in markers and "replication_key_value" in markers:
        value = markers.pop("replication_key_value")
        if not is_missing(signpost):
            value = (order or _TEXT_ORDER).minimum(value, signpost)
        advance_bookmark(state, markers.pop("replication_key"), value, order or _TEXT_ORDER)
    return reset_state_progress_markers(state)


def advance_bookmark(
    state: dict[str, Any], key: str, value: Any, order: ReplicationKeyComparator
) -> None:
    """Set the bookmark in a state dict to ``value``; ``key`` is the replication key.

    If the stream declares a cursor (``incremental_sync``), a greater bookmark is kept.
    """
    old = state.get("replication_key_value") if state.get("replication_key") == key else None
    if order.has_declared_cursor and order.is_usable(old) and not order.newer_or_equal(value, old):
        return
    state["replication_key"] = key
    state["replication_key_value"] = value


def log_sort_error(
    *,
    ex: Exception,
    log_fn: Callable[[str], object],
    stream_name: str,
    current_context: Context | None,
    state_partition_context: Context | None,
    record_count: int,
    partition_record_count: int,
) -> None:
    """Log that a record of a sorted stream is out of order, by calling ``log_fn``.

    The message contains the record's number in the stream and in the partition, and the contexts
    (the values that identify the partition or parent record).
    """
    message = f"Sorting error detected in '{stream_name}' on record #{record_count}"
    if partition_record_count != record_count:
        message += f", partition record #{partition_record_count} of {state_partition_context}"
    if current_context:
        message += f", context {dict(current_context)}"
    log_fn(f"{message}: {ex}")
