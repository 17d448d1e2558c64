"""The end of a context, as a sync makes it."""

from __future__ import annotations

from tap_core.state import StreamStateManager
from tap_core.types import Context


def end_context(manager: StreamStateManager, context: Context | None) -> bool:
    """Make a context final where the bookmark is its alone; return whether it is."""
    if context != manager.get_state_partition_context(context):
        return False
    manager.finalize_state(manager.get_context_state(context))
    return True
