"""The windows of a stream that is read by date: what a state may say when one begins or ends.

Rules of the room: while a window is read its end is the signpost, so that a record of a later
date (an API whose clock is ahead) moves nothing beyond what was asked for. A window is closed
when whoever pulls its records asks for more: they are written, and their children are synced.
Then what was seen of it is final, and a sync that is killed later goes on from there. A
context that shares its bookmark with others is final with the last of them.
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
    """Note how far a window may move the bookmark of a context; ``last`` is the end of all."""
    if not _keeps_state(stream):
        return
    if not _is_shared(stream, context):
        stream._write_replication_key_signpost(context, end)
        return
    manager = stream.state_manager
    given = manager.get_context_state(context).get("replication_key_signpost")
    earliest = last if given is None else manager.order.minimum(given, last)
    stream._write_replication_key_signpost(context, earliest)


def close_window(
    stream: SyncStream,
    context: Context | None,
    *,
    until: str | None,
    is_last: bool,
    keep: Callable[[], object] | None = None,
) -> None:
    """Make final what a window brought, and send the state, which behind the last one others do.

    ``until`` is what is known to be complete, where that is to be kept. ``keep`` writes more
    into the state, now that everything before it is written.
    """
    if not _keeps_state(stream):
        return
    run, key = stream._tap.run, str(stream.replication_key)
    family: ChildSyncPool | None = run.families.get(stream.name)
    if family is not None:
        family.drain()
    run.settle_bookmarks()
    run.settle_held()
    _promote(stream, context, key, until)
    if keep is not None:
        keep()
    run.reload_bookmarks()
    if family is not None:
        family.reload()
    if is_last:
        return
    if context:
        run.checkpoint(owed=False)
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
