"""When a stream has ended, and whether it has seen all of its partitions.

Rules of the room: a child may have several parents, and has ended with the last of
them. It has seen all of its contexts when each parent has read all of its own records:
a parent that goes on from a bookmark names only those children that are below what
changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tap_core.sync.contract import SyncStream

__all__ = ["Endings"]


class Endings:
    """Completes the states of the streams of one run, each at its end."""

    def __init__(self, streams: Iterable[SyncStream]) -> None:
        self._last_root: dict[SyncStream, SyncStream] = {}
        self._parents: dict[SyncStream, list[SyncStream]] = {}
        for stream in streams:
            if not stream.parent_stream_type:
                self._note(stream, stream)

    def after(self, root: SyncStream) -> None:
        """Complete the streams that have ended now that ``root`` and all below it have."""
        for stream, last in self._last_root.items():
            if last is root and stream.selected:
                stream._complete_state(saw_all=self._saw_all(stream))

    def _note(self, stream: SyncStream, root: SyncStream) -> None:
        if stream.selected or stream.has_selected_descendents:
            self._last_root[stream] = root
            for child in stream.child_streams:
                self._parents.setdefault(child, []).append(stream)
                self._note(child, root)

    def _saw_all(self, stream: SyncStream) -> bool:
        return all(
            parent.state_manager.reads_everything and self._saw_all(parent)
            for parent in self._parents.get(stream, ())
        )
