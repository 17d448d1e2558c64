"""`StreamSlices`: the slices of a stream in one run, and the state that all slices share.

A slice is a partition, such as the child records of one parent record. A parent stream with
``incremental_dependency`` resumes from a position that the child stream stores in its state. All
copies of a stream, such as that of a worker thread, share the slices.
"""

from __future__ import annotations

import datetime as dt
import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tap_core.manifest.partition_cache import PartitionCache, cartesian_product
from tap_core.manifest.state_translation import GLOBAL_CURSOR, LOOKBACK_WINDOW_KEY
from tap_core.singerlib.catalog import REPLICATION_INCREMENTAL
from tap_core.state.partition_index import freeze_context
from tap_core.streams.state import get_stream_state

if TYPE_CHECKING:
    from tap_core.manifest.stream_components import StreamComponents
    from tap_core.sync.interfaces import SyncStream
    from tap_core.types import Context

__all__ = ["StreamSlices"]


class StreamSlices:
    """Slices of a stream in the current run, such as one for each parent record.

    It also stores the state that all slices share: the states of parent streams, and the global
    cursor (the latest bookmark of all slices).
    """

    def __init__(self, stream: SyncStream) -> None:
        self._stream = stream
        self._run: int | None = None
        """Number of the run for which `_contexts` was created; None before the first run."""
        self._contexts: PartitionCache | None = None
        self._parents: dict[str, Any] = {}
        """State of each parent stream by name, to be stored after the last slice of this stream."""
        self._known_before: frozenset[Any] = frozenset()
        """Slices that had a state when the run began, as hashable partition values."""
        self._started_at: float | None = None
        self._first_ends: dict[int, dt.datetime] = {}
        """End of the period of the first slice, by the number of the run."""

    def find_contexts(
        self, routers: Sequence[Callable[[], Iterable[Context]]]
    ) -> PartitionCache | None:
        """Return the contexts of the slices in the current run, which are generated lazily.

        A context is the dict of a slice's partition values.

        Args:
            routers: One function for each partition router, which yields the router's contexts.

        Returns:
            All combinations of the routers' contexts, or None if there are no routers.
        """
        if not routers:
            return None
        run = self._stream._tap.document.runs
        if self._run != run:
            contexts = cartesian_product(routers)
            if self._stream.replication_key:
                contexts = self._iterate_distinct(contexts)
            entries = self._stream.state_manager.get_state_partitions() or ()
            self._known_before = frozenset(
                freeze_context(entry["context"]) for entry in entries if "context" in entry
            )
            self._run = run
            self._contexts = PartitionCache(contexts)
            self._parents = {}
            self._started_at = time.monotonic()
        return self._contexts

    def _iterate_distinct(self, contexts: Iterable[Context]) -> Iterator[Context]:
        """Yield each context (dict of partition values) only once.

        Equal contexts would share one bookmark. Log a warning with the number of repeated contexts.
        """
        seen: set[Any] = set()
        repeated = 0
        for context in contexts:
            key = freeze_context(context)
            if key in seen:
                repeated += 1
                continue
            seen.add(key)
            yield context
        if repeated:
            self._stream.log(
                "%d repeated slices were read only once: check which parent records have the"
                " same key.",
                repeated,
                level=logging.WARNING,
            )

    def limit_end(self, end: dt.datetime) -> dt.datetime:
        """Return the time at which to end a slice: ``end``, or the first slice's end if earlier.

        All slices share one bookmark, which does not pass the end of the first slice. So records
        after this time would be read again in the next sync.
        """
        return min(end, self._first_ends.setdefault(self._stream._tap.document.runs, end))

    # State

    def find_parent_state(self, parent: str) -> Any:
        """Return the stored state of the parent stream ``parent``; None in the first sync.

        For all parent records up to this state, the child records have been synced.
        """
        states = get_stream_state(self._stream).get("parent_state")
        return states.get(parent) if isinstance(states, Mapping) else None

    def keep_parent_state(self, parent: str, position: Any) -> None:
        """Keep a parent stream's state until `complete` adds it to the state of this stream.

        A stream without a cursor stores no such state: it reads all parent records in each sync.

        Args:
            parent: Name of the parent stream.
            position: State that the parent stream has reached.
        """
        if self._stream.replication_key:
            self._parents[parent] = position

    def set_first_bookmark(self, context: Context | None, components: StreamComponents) -> None:
        """Set the bookmark of a slice that has none, if the slice starts at the global cursor.

        The global cursor is the latest bookmark of all slices, reduced by a lookback window. With
        ``new_slices: global_cursor``, new slices start there. All slices do so if an airbyte-cdk
        state has one cursor for all of them. An invalid global cursor is ignored.
        """
        stream, manager = self._stream, self._stream.state_manager
        if not context or stream.replication_method != REPLICATION_INCREMENTAL:
            return
        stored: Any = manager.stream_state
        if LOOKBACK_WINDOW_KEY not in stored and components.has_global_cursor:
            stored = stored.get(GLOBAL_CURSOR)
        if not isinstance(stored, Mapping) or LOOKBACK_WINDOW_KEY not in stored:
            return
        cursor, entry = components.datetime_cursor, manager.get_context_state(context)
        if (
            cursor is None
            or stored.get("replication_key") != stream.replication_key
            or "replication_key_value" in entry
            or freeze_context(context) in self._known_before
        ):
            return
        try:
            latest = cursor.read(stored.get("replication_key_value"))
            start = latest - dt.timedelta(seconds=stored[LOOKBACK_WINDOW_KEY])
        except (ValueError, TypeError, OverflowError):
            return  # invalid: the slice begins at the start date
        entry["replication_key"] = stream.replication_key
        entry["replication_key_value"] = cursor.format.write(start)
        manager.touch(context)

    def complete(self, *, has_global_cursor: bool) -> None:
        """Store the state that the slices share, after the last slice was read.

        This state consists of the states of parent streams and of the global cursor (the latest
        bookmark of all slices), if the stream has one.
        """
        stream = self._stream
        get_stream_state(stream)  # writes the records that were read
        if self.store_shared_state(has_global_cursor=has_global_cursor):
            stream._tap.document.touch(stream.name)
            stream._tap.run.checkpoint(required=True)

    def store_shared_state(self, *, has_global_cursor: bool) -> bool:
        """Store the parent streams' states and the global cursor; return True if one has changed.

        The lookback window of an airbyte-cdk state is removed, because all slices were read.
        """
        is_kept = has_global_cursor and self._keep_global_cursor()
        state = self._stream.state_manager.stream_state
        if self._parents:
            state["parent_state"] = self._parents
        is_removed = state.pop(LOOKBACK_WINDOW_KEY, None) is not None
        return is_kept or is_removed or bool(self._parents)

    def _keep_global_cursor(self) -> bool:
        """Store the latest bookmark of all slices as the global cursor, and return True.

        New slices start at the global cursor. Return False, and store nothing, if no slice has a
        bookmark.
        """
        manager, key = self._stream.state_manager, self._stream.replication_key
        values = [
            entry["replication_key_value"]
            for entry in manager.get_state_partitions() or ()
            if entry.get("replication_key") == key and "replication_key_value" in entry
        ]
        if not values or self._started_at is None:
            return False
        latest = values[0]
        for value in values[1:]:
            latest = value if manager.order.newer_or_equal(value, latest) else latest
        manager.stream_state[GLOBAL_CURSOR] = {
            "replication_key": key,
            "replication_key_value": latest,
            LOOKBACK_WINDOW_KEY: math.ceil(time.monotonic() - self._started_at),
        }
        return True
