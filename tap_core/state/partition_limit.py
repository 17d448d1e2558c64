"""Limit on the number of partitions with a separate bookmark.

- Up to ``limit`` partitions have an entry in the state. All others are *beyond the limit*: their
  state dict exists only in memory, while they are synced.
- The first partition beyond the limit sets ``partition_limit_reached`` in the stream's state. From
  then on, a partition without an entry starts from the shared bookmark. It is stored at the top
  level of the stream's state. Without a shared bookmark, such a partition starts from the
  beginning.
- The shared bookmark is set at the end of the stream, and then replaces the entries. It is the
  smallest bookmark of all partitions, with or without an entry. Unless this run has read every
  partition, the previous shared bookmark is included. If a partition has no bookmark, the first
  ``limit`` entries are kept, and all other partitions start from the beginning.
- Therefore no partition is ever read from a later position than its own bookmark.
- After the limit was raised, every partition can have an entry again. Then
  ``partition_limit_reached`` and the shared bookmark are removed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from tap_core.exceptions import ConfigurationError
from tap_core.state.bookmarks import finalize_state_progress_markers, reset_state_progress_markers
from tap_core.state.partition_index import freeze_context
from tap_core.state.replication_key_comparator import ReplicationKeyComparator, is_missing
from tap_core.types import Context

__all__ = ["LIMIT_REACHED", "PartitionLimit", "resolve_limit", "retain_entries"]

LIMIT_REACHED = "partition_limit_reached"
"""Key that is set to True in a stream's state when some partitions have no entry."""

_BOOKMARK_KEYS = ("replication_key", "replication_key_value")

logger: logging.Logger = logging.getLogger(__name__)


def resolve_limit(stream: str, declared: Any, configured: Any) -> int | None:
    """Return the smaller of two limits on the number of partitions; None if there is no limit.

    Args:
        stream: Name of the stream, for the error message.
        declared: Limit from the stream's class, or None.
        configured: Limit from the user's configuration, or None.

    Raises:
        ConfigurationError: A limit is not an integer of at least 1.
    """
    limits = [limit for limit in (declared, configured) if limit is not None]
    for limit in limits:
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            raise ConfigurationError(
                f"Stream '{stream}': state_partition_limit is {limit!r}. It must be an integer of"
                " at least 1, or None for no limit."
            )
    return min(limits, default=None)


class PartitionLimit:
    """Limit on the number of partitions with a separate bookmark, for one stream and one run.

    If there are more partitions than the limit, one shared bookmark replaces all bookmarks at the
    end of the stream. It is the smallest of them.

    Args:
        stream: Name of the stream, for log messages.
        state: State dict of the stream at the start of the run.
        limit: Maximum number of partitions in the state; None for no limit.
        order: Comparator of replication key values.
    """

    def __init__(
        self, stream: str, state: dict[str, Any], limit: int | None, order: ReplicationKeyComparator
    ) -> None:
        self.limit = limit
        self._stream = stream
        self._was_reached = bool(state.get(LIMIT_REACHED))
        self._shared = {
            key: state[key] for key in _BOOKMARK_KEYS if self._was_reached and key in state
        }
        self._beyond: dict[Hashable, dict[str, Any]] = {}
        self._visited: set[Hashable] = set()
        self._order = order
        self._lowest = _LowestBookmark(order)
        self.was_passed = False
        """True if the source or the state has more partitions than the limit."""
        self.reads_everything: bool | None = None
        """True if this run reads all partitions from the beginning; None before the first one."""

    # State of a partition

    @property
    def is_idle(self) -> bool:
        """True if no limit is set, and no earlier run has replaced bookmarks by a shared one."""
        return self.limit is None and not self._shared

    def has_room(self, entries: int) -> bool:
        """Return True if a state with ``entries`` partitions may get one more."""
        return self.limit is None or entries < self.limit

    def beyond(self, context: Context) -> dict[str, Any]:
        """Return the state dict, in memory only, of a partition beyond the maximum number.

        A missing dict is created with the shared bookmark of an earlier run, if any.
        """
        state = self._beyond.setdefault(freeze_context(context), {})
        if not state:
            state["context"] = dict(context)
            state.update(self._shared)
        return state

    def pass_limit(self, state: dict[str, Any], partitions: int) -> None:
        """Record in a stream's state (``partition_limit_reached``) that it has too many partitions.

        Also log a warning.

        Args:
            state: State dict of the stream.
            partitions: Number of partitions found so far.
        """
        self.was_passed = True
        state[LIMIT_REACHED] = True
        logger.warning(
            "Stream '%s' has more partitions (%d so far) than state_partition_limit = %d."
            " Partitions beyond the limit get no separate bookmark: when the stream has ended,"
            " one bookmark, the oldest of all partitions, replaces all of them, and the next"
            " run reads every partition from there. No record is lost; some are sent again.",
            self._stream,
            partitions,
            self.limit,
        )

    def begin(self, entry: dict[str, Any]) -> None:
        """Set the bookmark of a new partition to the shared bookmark of an earlier run, if any.

        ``entry`` is the partition's entry in the state.
        """
        entry.update(self._shared)

    def is_beyond(self, context: Context) -> bool:
        """Return True if the partition ``context`` is being read but gets no entry in the state."""
        return freeze_context(context) in self._beyond

    def visit(self, context: Context) -> None:
        """Record that this run has started to read a partition."""
        self._visited.add(freeze_context(context))

    def was_visited(self, context: Context) -> bool:
        """Return True if this run has started to read a partition."""
        return freeze_context(context) in self._visited

    # End of partitions

    def finish(self, state: dict[str, Any]) -> None:
        """Include a finished partition in the shared bookmark, if it has no entry in the state.

        ``state``, the partition's state dict, is then discarded.
        """
        context = state.get("context")
        if not self._beyond or not context:
            return
        key = freeze_context(context)
        if self._beyond.get(key) is state:
            del self._beyond[key]
            self._lowest.add(state)

    def finish_all(self, *, ended: bool) -> None:
        """Include all unfinished partitions without an entry in the state in the shared bookmark.

        If ``ended`` is True, the progress marker of a partition (its latest value) first becomes
        its bookmark. Otherwise the marker is deleted.
        """
        for state in list(self._beyond.values()):
            if ended:
                finalize_state_progress_markers(state, order=self._order)
            else:
                reset_state_progress_markers(state)
            self.finish(state)

    def close(self, state: dict[str, Any], *, replication_key: str | None, saw_all: bool) -> bool:
        """Apply the limit on partitions to a stream's state at its end; return True if it changed.

        If the limit is exceeded, one shared bookmark replaces the bookmarks of all partitions.

        Args:
            state: State dict of the stream.
            replication_key: Replication key of the stream, or None.
            saw_all: True if this run has read every existing partition.
        """
        entries = state.get("partitions") or []
        is_exceeded = self.limit is not None and len(entries) > self.limit
        if self.was_passed or is_exceeded:
            self._collapse(state, entries, replication_key, saw_all=saw_all)
            return True
        if self._was_reached and saw_all and self._visited:
            _drop(state, (LIMIT_REACHED, *_BOOKMARK_KEYS))
            return True
        return False

    def _collapse(
        self,
        state: dict[str, Any],
        entries: list[dict[str, Any]],
        replication_key: str | None,
        *,
        saw_all: bool,
    ) -> None:
        """Replace the partitions in a stream's state by one bookmark, the smallest of theirs.

        ``entries`` are the partitions. If one of them has no bookmark, keep the first ``limit``
        partitions instead. If ``saw_all`` is False, an earlier shared bookmark is included.
        """
        if not self.was_passed:
            self.pass_limit(state, len(entries))
        for entry in entries:
            self._lowest.add(entry)
        if self._was_reached and not saw_all:
            self._lowest.add(self._shared)
        lowest = self._lowest.get(replication_key)
        _drop(state, (*_BOOKMARK_KEYS, "partitions"))
        if lowest is not None:
            state.update(zip(_BOOKMARK_KEYS, (replication_key, lowest), strict=True))
        else:  # the limit was exceeded, so there are at least `limit` entries
            state["partitions"] = entries[: self.limit]


class _LowestBookmark:
    """Smallest bookmark of several partitions. `add` is called for each partition."""

    def __init__(self, order: ReplicationKeyComparator) -> None:
        self._order = order
        self._keys: set[Any] = set()
        self._value: Any = None

    def add(self, state: dict[str, Any]) -> None:
        """Compare a partition's bookmark, in its state dict, with the smallest bookmark so far."""
        key, value = (state.get(name) for name in _BOOKMARK_KEYS)
        if is_missing(value) or value == "":
            key = None
        elif self._value is None:
            self._value = value
        else:
            self._value = self._order.minimum(self._value, value)
        self._keys.add(key)

    def get(self, key: str | None) -> Any:
        """Return the smallest bookmark of the partitions added so far.

        Return None if a partition has no bookmark, or if its bookmark is not of the replication key
        ``key``.
        """
        return self._value if key is not None and self._keys == {key} else None


def retain_entries(
    entries: Iterable[dict[str, Any]],
    limit: PartitionLimit,
    keeps: Callable[[Context], bool],
) -> list[dict[str, Any]]:
    """Return the partition entries to keep in the state at the end of a stream.

    An entry is kept if it has no context (the values that identify a partition), if this run has
    read its partition, or if ``keeps`` returns True for its context.

    Args:
        entries: Entries of the list ``partitions`` in the stream's state.
        limit: Partition limit of the run, which records the partitions that were read.
        keeps: Function that returns False for the context of an obsolete partition.
    """
    return [
        entry
        for entry in entries
        if not (context := entry.get("context")) or limit.was_visited(context) or keeps(context)
    ]


def _drop(state: dict[str, Any], keys: Iterable[str]) -> None:
    for key in keys:
        state.pop(key, None)
