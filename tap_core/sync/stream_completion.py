"""Status events at the start and end of each stream, and completion of its state.

- A child stream starts with its first parent stream and ends with its last.
- A child stream has read everything if each parent has read all of its records. An incremental
  parent reads only changed records, so only their children are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from tap_core.events import Progress, StreamId, StreamStatus
from tap_core.singerlib.catalog import REPLICATION_INCREMENTAL
from tap_core.state.bookmarks import get_state_if_exists
from tap_core.sync.estimates import estimate_stream
from tap_core.sync.plan import get_schemas, get_stream_id
from tap_core.sync.stream_selection import is_synced

if TYPE_CHECKING:
    from tap_core.sync.interfaces import SyncStream

__all__ = ["StreamCompletion"]


class StreamCompletion:
    """Emitter of status events at the start and end of each stream.

    At the end of a stream, it also makes the bookmarks of the stream's partitions final.
    """

    def __init__(self, streams: Iterable[SyncStream]) -> None:
        self._roots: dict[SyncStream, list[SyncStream]] = {}
        """Top-level streams that sync a stream, in the order of the sync, by this stream."""
        self._parents: dict[SyncStream, list[SyncStream]] = {}
        self._begun: set[SyncStream] = set()
        self._streams = list(streams)
        for stream in self._streams:
            if not stream.parent_stream_type:
                self._add(stream, stream)

    def complete(self, root: SyncStream, failed: Collection[str] = ()) -> None:
        """Complete the stream ``root`` and its descendants: finalize the states, and emit the end.

        Several top-level streams may sync the same descendant. It is completed after the last of
        them, and not at all if one of them is in ``failed``, the names of the failed streams.
        """
        for stream, roots in self._roots.items():
            if roots[-1] is not root or not stream.selected:
                continue
            if not any(each.name in failed for each in roots):
                stream._context_reader.complete(saw_all=self._saw_all(stream))
                _emit_progress(stream, Progress.COMPLETE)

    def begin(self, root: SyncStream) -> None:
        """Emit the start of the top-level stream ``root`` and its descendants, with size estimates.

        Streams that are not selected, or have started before, are skipped.
        """
        for stream in dict.fromkeys((root, *root.descendent_streams)):
            if stream.selected and stream not in self._begun:
                self._begun.add(stream)
                if self._is_read_in_part(stream):
                    stream._tap.run.outbox.read_in_part.add(stream.name)
                _emit_progress(stream, Progress.STARTED)
                estimate_stream(stream)

    def _add(self, stream: SyncStream, root: SyncStream) -> None:
        """Store that the top-level stream ``root`` syncs ``stream`` and its descendants."""
        if is_synced(stream):
            roots = self._roots.setdefault(stream, [])
            if root not in roots:
                roots.append(root)
            for child in stream.child_streams:
                self._parents.setdefault(child, []).append(stream)
                self._add(child, root)

    def is_complete_after(self, stream: SyncStream, root: SyncStream) -> bool:
        """Return True if ``root`` is the last top-level stream that syncs ``stream``."""
        return self._roots.get(stream, [None])[-1] is root

    def _is_read_in_part(self, stream: SyncStream) -> bool:
        """Return True if a stream's table may contain current rows that this run does not write.

        Such rows belong to parent records before a bookmark, or to other streams that stream maps
        write to the same table. Rows of older table versions must then not be deleted.
        """
        if not stream.emit_activate_version_messages:
            return False
        return not self._reads_all(stream) or any(
            self._outputs[each.stream] > 1 for each in get_schemas(stream)
        )

    @cached_property
    def _outputs(self) -> Counter[StreamId]:
        """Number of selected streams per output stream (the name after stream maps)."""
        selected = [stream for stream in self._streams if stream.selected]
        return Counter(
            name for stream in selected for name in {each.stream for each in get_schemas(stream)}
        )

    def _reads_all(self, stream: SyncStream) -> bool:
        """Return True if no ancestor of a stream has a bookmark, so that all are read in full.

        Call this before the ancestors are read, because reading moves their bookmarks.
        """
        return all(
            not _has_bookmark(parent) and self._reads_all(parent)
            for parent in self._parents.get(stream, ())
        )

    def _saw_all(self, stream: SyncStream) -> bool:
        """Return True if this run has read all records of the stream's ancestors.

        Call this after the ancestors are read.
        """
        return all(
            parent.state_manager.reads_everything and self._saw_all(parent)
            for parent in self._parents.get(stream, ())
        )


def _has_bookmark(stream: SyncStream) -> bool:
    """Return True if an incremental stream has a bookmark in at least one partition."""
    if stream.replication_method != REPLICATION_INCREMENTAL:
        return False
    state = get_state_if_exists(stream.state_manager.document.tap_state, stream.name)
    if not isinstance(state, Mapping):
        return False
    entries = (state, *(state.get("partitions") or ()))
    return any(isinstance(each, Mapping) and each.get("replication_key_value") for each in entries)


def _emit_progress(stream: SyncStream, progress: Progress) -> None:
    """Emit a status of a stream, such as STARTED. Buffered rows are written first."""
    stream._tap.run.emit(StreamStatus(get_stream_id(stream), progress))
