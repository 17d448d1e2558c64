"""Records that are read again for the sake of children, and were sent before.

Rules of the room: a stream that begins has to see all records of its parents, also those that
earlier syncs have sent of the parents themselves. These are pulled, their children are synced,
and they are not written once more. What is at the bookmark comes again, as in any sync.
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
    """Return what tells the records of a context that were sent before; None: none were."""
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
    state: Any = stream.sent_before or {}
    if not isinstance(state, Mapping):  # a document of somebody else's making
        return {}
    partition = stream._get_state_partition_context(context) if state else None
    if not partition:
        return state
    partitions = state.get("partitions") or ()
    found = (one for one in partitions if isinstance(one, Mapping))
    return next((one for one in found if one.get("context") == partition), {})
