"""Filter for records that are read again only for the sake of child streams.

A new child stream needs all records of its parents, including those that earlier syncs have
sent. Such records are pulled and their children are synced, but they are not written again.
Records equal to the bookmark are written again, as in any sync.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tap_core.state.replication_key import make_getter

if TYPE_CHECKING:
    from tap_core.sync.interfaces import SyncStream
    from tap_core.types import Context

__all__ = ["make_resend_filter"]


def make_resend_filter(stream: SyncStream, context: Context | None) -> Callable[[Any], bool] | None:
    """Return a function that is True for records that an earlier sync has already sent.

    Such records are read again only to sync their children. Return None if no earlier sync sent
    records.
    """
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


def _get_state(stream: SyncStream, context: Context | None) -> Mapping[str, Any]:
    state: Any = stream.previously_sent_state or {}
    if not isinstance(state, Mapping):  # state of another program
        return {}
    partition = stream._get_state_partition_context(context) if state else None
    if not partition:
        return state
    partitions = state.get("partitions") or ()
    found = (one for one in partitions if isinstance(one, Mapping))
    return next((one for one in found if one.get("context") == partition), {})
