"""Streams that a sync reads: the selected streams, and the ancestors of selected streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tap_core.sync.interfaces import SyncStream

__all__ = ["get_synced_children", "is_synced"]


def is_synced(stream: SyncStream) -> bool:
    """Return True if a stream, or one of its descendants, is selected."""
    return stream.selected or stream.has_selected_descendents


def get_synced_children(stream: SyncStream) -> list[SyncStream]:
    """Return the child streams of a stream that are selected or have selected descendants."""
    return [child for child in stream.child_streams if is_synced(child)]
