"""State of a tap: the bookmarks stored between syncs, and the rules for updating them."""

from __future__ import annotations

from tap_core.state.bookmark_cursor import BookmarkCursor as BookmarkCursor
from tap_core.state.checkpoint_policy import CheckpointPolicy as CheckpointPolicy
from tap_core.state.document import StateDocument as StateDocument
from tap_core.state.manager import StreamStateManager as StreamStateManager
from tap_core.state.reader import read_state as read_state
from tap_core.state.replication_key_comparator import (
    ReplicationKeyComparator as ReplicationKeyComparator,
)
from tap_core.state.replication_key_comparator import make_comparator as make_comparator
