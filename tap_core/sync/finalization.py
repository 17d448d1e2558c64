"""When a stream begins and ends, and whether it has seen all of its partitions.

Rules of the room: a child begins with the first of its parents; it may have several, and has
ended with the last of them. It has seen all of its contexts when each parent has read all
of its own records: a parent that goes on from a bookmark names only those children that are
below what changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tap_core.events import Progress, StreamStatus
from tap_core.sync.estimates import estimate_stream
from tap_core.sync.plan import get_stream_id

if TYPE_CHECKING:
    from tap_core.sync.interfaces import SyncStream

__all__ = ["StreamFinalizer"]


class StreamFinalizer:
    """Says how far the streams of one run are, and completes their states, each at its end."""

    def __init__(self, streams: Iterable[SyncStream]) -> None:
        self._last_root: dict[SyncStream, SyncStream] = {}
        self._parents: dict[SyncStream, list[SyncStream]] = {}
        self._begun: set[SyncStream] = set()
        for stream in streams:
            if not stream.parent_stream_type:
                self._note(stream, stream)

    def after(self, root: SyncStream) -> None:
        """Complete the streams that have ended now that ``root`` and all below it have."""
        for stream, last in self._last_root.items():
            if last is root and stream.selected:
                stream._complete_state(saw_all=self._saw_all(stream))
                _tell(stream, Progress.COMPLETE)

    def begin(self, root: SyncStream) -> None:
        """Say that ``root`` and the streams below it begin, those that are selected."""
        for stream in dict.fromkeys((root, *root.descendent_streams)):
            if stream.selected and stream not in self._begun:
                self._begun.add(stream)
                _tell(stream, Progress.STARTED)
                estimate_stream(stream)

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


def _tell(stream: SyncStream, progress: Progress) -> None:
    """Say how far a stream has come, behind all of its rows so far."""
    stream._tap.run.emit(StreamStatus(get_stream_id(stream), progress))
