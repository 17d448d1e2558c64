"""Filter for records that are read to sync their children, but not written.

- A new child stream needs all records of its parent. Parent records that earlier syncs have written
  are read again, but not written again. Records equal to the bookmark are written again, as in any
  sync.
- A backfill does not write the records outside of its range.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any

from tap_core.state.partition_index import freeze_context
from tap_core.state.replication_key_comparator import is_missing
from tap_core.state.replication_key_path import make_getter

if TYPE_CHECKING:
    from tap_core.state.backfill_range import KeyRange
    from tap_core.sync.interfaces import SyncStream
    from tap_core.types import Context

__all__ = ["make_resend_filter"]

_NO_VALUE = (
    "records without a usable replication key value are not written: a backfill cannot tell if they"
    " are in its range."
)


def make_resend_filter(stream: SyncStream, context: Context | None) -> Callable[[Any], bool] | None:
    """Return a function that returns True for records that are read but must not be written.

    In a backfill, these are the records outside of its range. Otherwise, these are records older
    than the bookmark. An earlier sync has written them, and they are read again only to sync their
    child streams. Return None if all records are written.
    """
    if stream._read_range is not None:
        return _make_range_filter(stream, stream._read_range)
    key = stream.replication_key
    state = _get_state(stream, context)
    bookmark = state.get("replication_key_value") if state.get("replication_key") == key else None
    if key is None or bookmark is None:
        return None
    newer_or_equal = stream.state_manager.order.newer_or_equal
    find = make_getter(stream.replication_path)

    def is_before_bookmark(pulled: Any) -> bool:
        record = pulled[0] if isinstance(pulled, tuple) else pulled
        try:
            value = find(record)
        except KeyError:
            return False
        return value is not None and not newer_or_equal(value, bookmark)

    return is_before_bookmark


def _make_range_filter(stream: SyncStream, limits: KeyRange) -> Callable[[Any], bool]:
    """Return a function that returns True for records that a backfill does not write.

    These are records whose replication key value is outside of the range ``limits``, null, or of a
    wrong type.
    """
    order, find = stream.state_manager.order, make_getter(stream.replication_path)

    def is_outside(pulled: Any) -> bool:
        record = pulled[0] if isinstance(pulled, tuple) else pulled
        if not record:
            return False
        try:
            value = find(record)
        except KeyError:
            if not order.has_declared_cursor:
                return False  # the sync raises an error for the missing key
            value = None  # a declared cursor treats it as null
        if is_missing(value) or not order.is_usable(value):
            order.warn_once(_NO_VALUE, _NO_VALUE)
            return True
        return not order.newer_or_equal(value, limits.start) or (
            limits.end is not None and order.newer_or_equal(value, limits.end)
        )

    return is_outside


def _get_state(stream: SyncStream, context: Context | None) -> Mapping[str, Any]:
    state: Any = stream.previously_sent_state or {}
    if not isinstance(state, Mapping):  # the state was written by another program
        return {}
    partition = stream._get_state_partition_context(context) if state else None
    if not partition:
        return state
    manager = stream.state_manager
    if manager.sent_partitions is None:
        manager.sent_partitions = _index_partitions(state.get("partitions"))
    return manager.sent_partitions.get(freeze_context(partition), {})


def _index_partitions(entries: Any) -> dict[Hashable, Mapping[str, Any]]:
    """Return the entries of a ``partitions`` list by context; of equal contexts, only the first."""
    by_context: dict[Hashable, Mapping[str, Any]] = {}
    for entry in entries or ():
        context = entry.get("context") if isinstance(entry, Mapping) else None
        if isinstance(context, Mapping):
            by_context.setdefault(freeze_context(context), entry)
    return by_context
