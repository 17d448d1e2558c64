"""State changes at the start and end of a time window, for streams read in windows.

- While a window is read, its end is the upper limit of the bookmark (the signpost). If an API's
  clock is ahead, a record may have a later date; it does not move the bookmark beyond the window.
- A window is closed when its records are written and their children are synced. Its progress marker
  becomes the bookmark, so that the next sync resumes after this window.
- If several partitions share a bookmark, it becomes final after the last of these partitions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tap_core.singerlib.catalog import REPLICATION_INCREMENTAL

if TYPE_CHECKING:
    from tap_core.sync.child_streams import ChildSyncPool
    from tap_core.sync.interfaces import SyncStream
    from tap_core.types import Context

__all__ = ["begin_window", "close_window"]


def begin_window(stream: SyncStream, context: Context | None, *, end: str, last: str) -> None:
    """Limit the bookmark of a partition to the end of the time window that is read next.

    A record with a later date then does not move the bookmark beyond the window. If several
    partitions share the bookmark, the limit is the earliest end of their last windows.

    Args:
        stream: Stream to read.
        context: Values that identify the partition, or None.
        end: End of the next window.
        last: End of the partition's last window.
    """
    if not _keeps_state(stream):
        return
    if not _is_shared(stream, context):
        stream._write_replication_key_signpost(context, end)
        return
    manager = stream.state_manager
    signpost = manager.get_context_state(context).get("replication_key_signpost")
    earliest = last if signpost is None else manager.order.minimum(signpost, last)
    stream._write_replication_key_signpost(context, earliest)


def close_window(
    stream: SyncStream,
    context: Context | None,
    *,
    until: str | None,
    is_last: bool,
    change_state: Callable[[], object] | None = None,
) -> None:
    """End a time window: advance the bookmark to its end, and write the state.

    Args:
        stream: Stream of the window.
        context: Values that identify the partition, or None.
        until: Value up to which all records are read, stored as the bookmark. None stores no
            bookmark.
        is_last: True for the last window. The state is then written at the end of the sync instead.
        change_state: Function that makes further changes to the state, after the bookmark is set.
    """
    if not _keeps_state(stream):
        return
    run, key = stream._tap.run, str(stream.replication_key)
    child_pool: ChildSyncPool | None = run.child_pools.get(stream.name)
    if child_pool is not None:
        child_pool.drain()
    run.settle_bookmarks()
    run.outbox.settle_deferred_bookmarks()
    _promote(stream, context, key, until)
    if change_state is not None:
        change_state()
    run.reload_bookmarks()
    if child_pool is not None:
        child_pool.reload()
    if is_last:
        return
    if context:
        run.checkpoint(required=False)
    else:
        stream._write_state_message()


def _promote(stream: SyncStream, context: Context | None, key: str, until: str | None) -> None:
    manager = stream.state_manager
    if not _is_shared(stream, context):
        manager.close_window(context, replication_key=key, until=until)
    elif until is not None:
        manager.increment_state({key: until}, context=context, replication_key=key)


def _keeps_state(stream: SyncStream) -> bool:
    return stream.selected and stream.replication_method == REPLICATION_INCREMENTAL


def _is_shared(stream: SyncStream, context: Context | None) -> bool:
    return stream._get_state_partition_context(context) != context
