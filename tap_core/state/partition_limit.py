"""Which partitions have a bookmark of their own, and the one that all others share.

Rules of the room:

- Up to ``limit`` partitions have an entry in the state. One that comes when there are as
  many is *beyond*: its state dict lives in memory while it is synced and is never written.
- The first partition beyond leaves the word ``partition_limit_reached`` in the stream's
  state. From then on a partition without an entry starts from the stream's own bookmark;
  where there is none, from the beginning.
- That bookmark changes only when the stream has ended, and then replaces the entries. It
  is the minimum over the bookmarks of all partitions that anybody knows of: the entries,
  visited or not, those beyond, and, unless this run has visited every partition that
  there is, the bookmark that stood for those of earlier runs. Where one of them has no
  bookmark there is no minimum: then the first entries stay and the others begin anew.
- So whatever state a run leaves, no partition is read from a later place than its own.
- When every partition has an entry again (the limit was raised), word and bookmark go.

Nothing here reads a record or knows the document; `StreamStateManager` asks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from tap_core.exceptions import ConfigurationError
from tap_core.state.bookmarks import finalize_state_progress_markers, reset_state_progress_markers
from tap_core.state.comparison import ReplicationKeyComparator, is_missing
from tap_core.state.partition_index import freeze_context
from tap_core.types import Context

__all__ = ["LIMIT_REACHED", "PartitionLimit", "resolve_limit", "retain_entries"]

LIMIT_REACHED = "partition_limit_reached"
"""Stands in a stream's state when there are partitions without an entry."""

_BOOKMARK = ("replication_key", "replication_key_value")

logger: logging.Logger = logging.getLogger(__name__)


def resolve_limit(stream: str, declared: Any, configured: Any) -> int | None:
    """Return the smaller of an author's limit and a user's; None for no limit.

    Raises:
        ConfigurationError: one of them is no number above zero.
    """
    limits = [limit for limit in (declared, configured) if limit is not None]
    for limit in limits:
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            raise ConfigurationError(
                f"Stream '{stream}': state_partition_limit is {limit!r}. It is a whole number of"
                " at least 1, or None for no limit."
            )
    return min(limits, default=None)


class PartitionLimit:
    """The rule for one stream during one run.

    ``state`` is the state dict of the stream as it is when the run begins.
    """

    def __init__(
        self, stream: str, state: dict[str, Any], limit: int | None, order: ReplicationKeyComparator
    ) -> None:
        self.limit = limit
        self._stream = stream
        self._was_reached = bool(state.get(LIMIT_REACHED))
        self._shared = {key: state[key] for key in _BOOKMARK if self._was_reached and key in state}
        self._beyond: dict[Hashable, dict[str, Any]] = {}
        self._visited: set[Hashable] = set()
        self._lowest = _Lowest(order)
        self.was_passed = False
        """Whether a partition of this run is beyond, or too many had an entry before."""
        self.reads_everything: bool | None = None
        """Whether every context of this run was read from its beginning; None before any."""

    # Where a partition's state is

    @property
    def is_idle(self) -> bool:
        """Whether every partition has an entry that begins empty, as without a limit."""
        return self.limit is None and not self._shared

    def has_room(self, entries: int) -> bool:
        """Return whether a partition may get an entry where there are so many."""
        return self.limit is None or entries < self.limit

    def beyond(self, context: Context) -> dict[str, Any]:
        """Return the state dict of a partition that gets no entry; made if absent."""
        state = self._beyond.setdefault(freeze_context(context), {})
        if not state:
            state["context"] = dict(context)
            state.update(self._shared)
        return state

    def pass_limit(self, state: dict[str, Any], partitions: int) -> None:
        """Mark the stream's state, and warn: there are so many partitions, at least."""
        self.was_passed = True
        state[LIMIT_REACHED] = True
        logger.warning(
            "Stream '%s' has more partitions (%d so far) than state_partition_limit = %d."
            " Those beyond the limit get no bookmark of their own: when the stream has ended,"
            " one bookmark, the oldest of all partitions, stands for all of them, and the next"
            " run reads every partition from there. No record is lost; some are sent again.",
            self._stream,
            partitions,
            self.limit,
        )

    def begin(self, entry: dict[str, Any]) -> None:
        """Let a new entry start from where the partitions without one start."""
        entry.update(self._shared)

    def is_beyond(self, context: Context) -> bool:
        """Return whether a partition is beyond and not finished yet."""
        return freeze_context(context) in self._beyond

    def visit(self, context: Context) -> None:
        """Note that this run reads a partition."""
        self._visited.add(freeze_context(context))

    def was_visited(self, context: Context) -> bool:
        """Return whether this run has read a partition, or begun to."""
        return freeze_context(context) in self._visited

    # The end of partitions

    def finish(self, state: dict[str, Any]) -> None:
        """Keep of a partition beyond, which is final now, what the shared bookmark needs."""
        context = state.get("context")
        if not self._beyond or not context:
            return
        key = freeze_context(context)
        if self._beyond.get(key) is state:
            del self._beyond[key]
            self._lowest.add(state)

    def finish_all(self, *, ended: bool, order: ReplicationKeyComparator) -> None:
        """Finish what is left beyond; only what has ``ended`` is promoted."""
        for state in list(self._beyond.values()):
            if ended:
                finalize_state_progress_markers(state, order=order)
            else:
                reset_state_progress_markers(state)
            self.finish(state)

    def close(self, state: dict[str, Any], *, replication_key: str | None, saw_all: bool) -> bool:
        """Bring the stream's state to its final form; return whether it changed.

        ``saw_all`` is whether this run has visited every partition that there is.
        """
        entries = state.get("partitions") or []
        if self.was_passed or not self.has_room(len(entries) - 1):
            self._collapse(state, entries, replication_key, saw_all=saw_all)
            return True
        if self._was_reached and saw_all and self._visited:
            _drop(state, (LIMIT_REACHED, *_BOOKMARK))
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
        if not self.was_passed:
            self.pass_limit(state, len(entries))
        for entry in entries:
            self._lowest.add(entry)
        if self._was_reached and not saw_all:
            self._lowest.add(self._shared)
        lowest = self._lowest.of(replication_key)
        _drop(state, (*_BOOKMARK, "partitions"))
        if lowest is not None:
            state.update(zip(_BOOKMARK, (replication_key, lowest), strict=True))
        else:  # as many as the limit lets, and they are there: it was passed
            state["partitions"] = entries[: self.limit]


class _Lowest:
    """The minimum of bookmarks, of which all must be values of one key."""

    def __init__(self, order: ReplicationKeyComparator) -> None:
        self._order = order
        self._keys: set[Any] = set()
        self._value: Any = None

    def add(self, state: dict[str, Any]) -> None:
        """Take in the bookmark of a state dict, or that it has none."""
        key, value = (state.get(name) for name in _BOOKMARK)
        if is_missing(value) or value == "":
            key = None
        elif self._value is None:
            self._value = value
        else:
            self._value = self._order.minimum(self._value, value)
        self._keys.add(key)

    def of(self, key: str | None) -> Any:
        """Return the minimum; None when anything had no value of this key."""
        return self._value if key is not None and self._keys == {key} else None


def retain_entries(
    entries: Iterable[dict[str, Any]],
    rule: PartitionLimit,
    keeps: Callable[[Context], bool],
) -> list[dict[str, Any]]:
    """Return the entries that stay; ``keeps`` is asked for those that were not visited."""
    return [
        entry
        for entry in entries
        if not (context := entry.get("context")) or rule.was_visited(context) or keeps(context)
    ]


def _drop(state: dict[str, Any], keys: Iterable[str]) -> None:
    for key in keys:
        state.pop(key, None)
