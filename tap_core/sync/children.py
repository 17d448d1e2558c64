"""Sync the children of a parent's record.

Rules of the room: children run before their parent's record is written, each context on
a copy of its own; a record that the parent's map filters out has none. A child that was
aborted by its record limit does not stop its siblings or its parent.
"""

from __future__ import annotations

import copy
import logging
from typing import TYPE_CHECKING

from tap_core.exceptions import AbortedSyncFailedException, AbortedSyncPausedException
from tap_core.sync.plan import plan_of

if TYPE_CHECKING:
    from tap_core.sync.contract import SyncStream
    from tap_core.types import Context, Record

__all__ = ["sync_child_contexts", "sync_children"]


def sync_child_contexts(stream: SyncStream, record: Record, child_context: Context | None) -> None:
    """Sync the children of one record, once for each context that the parent gives."""
    keeps = plan_of(stream).keeps
    for context in stream.generate_child_contexts(record=record, context=child_context):
        if keeps is None or keeps(record):
            stream._sync_children(copy.copy(context))


def sync_children(stream: SyncStream, child_context: Context | None) -> None:
    """Sync each selected child in one context; without a context say so and go on."""
    if child_context is None:
        stream.log(
            "Context for child streams of '%s' is null, skipping sync of any child streams",
            stream.name,
            level=logging.WARNING,
        )
        return
    for child in stream.child_streams:
        if child.selected or child.has_selected_descendents:
            try:
                child.sync(context=child_context)
            except (AbortedSyncFailedException, AbortedSyncPausedException):
                continue
