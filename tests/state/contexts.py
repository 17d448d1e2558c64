"""Finalize the state of a context as a sync does."""

from __future__ import annotations

from tap_core.state import StreamStateManager
from tap_core.types import Context


def end_context(manager: StreamStateManager, context: Context | None) -> bool:
    """Finalize a context that has its own bookmark; return False if it shares one."""
    if context != manager.get_state_partition_context(context):
        return False
    manager.finalize_state(manager.get_context_state(context))
    return True
