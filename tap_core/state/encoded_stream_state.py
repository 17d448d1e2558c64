"""Cached JSON text of one stream's state, with a separate cache entry for each partition.

After a change only the changed partitions are encoded again. The text of each partition except
the first starts with a comma, so that the texts can be concatenated.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

from tap_core.state.encoder import encode_members, encode_value
from tap_core.state.partition_index import PartitionIndex
from tap_core.types import Context

__all__ = ["EncodedStreamState"]

_PARTITIONS = "partitions"


class EncodedStreamState:
    """State dict of one stream, with an index of its partitions and a cache of its JSON text."""

    __slots__ = (
        "_around_partitions",
        "_entries",
        "_index",
        "_name",
        "_shared",
        "_shared_positions",
        "_stale",
        "_texts",
        "state",
    )

    def __init__(self, stream_id: str, state: dict[str, Any]) -> None:
        self.state: dict[str, Any] = state
        self._name = encode_value(stream_id) + b":"
        self._shared = False
        self._shared_positions: set[int] = set()
        self.refresh()

    def refresh(self) -> None:
        """Discard the index of the partitions and all cached JSON text of this state.

        Call this if any part of the state dict may have changed.
        """
        self._index: PartitionIndex | None = None
        self._around_partitions: tuple[bytes, bytes] | None = None
        """Cached text before and after the partitions; without partitions, all text and b""."""
        self._entries: list[Any] | None = None
        self._texts: list[bytes] = []
        self._stale: set[int] = set()

    def index(self, *, add: bool) -> PartitionIndex:
        """Return the index of the stream's partitions. Without partitions, the index is empty.

        Args:
            add: True to store an empty ``partitions`` list in the state if it has no list, so that
                partitions added to the index become part of the state.
        """
        entries = self.state.get(_PARTITIONS)
        if entries is None:
            entries = []
            if add:
                self.state[_PARTITIONS] = entries
        if self._index is None or self._index.entries is not entries:
            self._index = PartitionIndex(entries)
        return self._index

    def change(self, context: Context | None) -> dict[str, Any]:
        """Return the state dict of a partition or stream, for the caller to change.

        ``context`` identifies the partition; None means the stream. The cached JSON text of the
        dict is discarded. A missing partition is created.
        """
        if not context:
            self._around_partitions = None
            return self.state
        index = self.index(add=True)
        position = index.position_or_add(context)
        self._stale.add(position)
        return index.entries[position]

    def touch(self, context: Context | None) -> None:
        """Discard the cached text of a partition after a change of its state dict.

        ``context`` identifies the partition. If it is None, discard only the text of the stream's
        own values.
        """
        if not context:
            self._around_partitions = None
        elif (position := self.index(add=False).position(context)) is not None:
            self._stale.add(position)

    def share(self, context: Context | None) -> None:
        """Disable the cache of JSON text for a partition; with None, for the whole stream.

        Call this when the tap's code gets the state dict, because it may then change the dict at
        any time.
        """
        if context:
            self._shared_positions.add(self.index(add=True).position_or_add(context))
        else:
            self._shared = True

    @property
    def is_shared(self) -> bool:
        """True if the cache of JSON text is disabled for the stream or one of its partitions."""
        return self._shared or bool(self._shared_positions)

    def encode(self, *, everything: bool = False) -> Iterable[bytes]:
        """Return the JSON text of the state dict, as bytes objects to concatenate.

        It begins with the name of the stream and a colon. If ``everything`` is True, all cached
        text is discarded first.
        """
        if everything or self._shared:
            self.refresh()
        entries = self.state.get(_PARTITIONS)
        if not entries or not isinstance(entries, list):
            return self._encode_unpartitioned()
        self._encode_stale(entries)
        before, after = self._encode_around()
        return chain((before,), self._texts, (after,))

    def _encode_unpartitioned(self) -> tuple[bytes, bytes]:
        """Return the name and JSON text of a state dict that has no partitions, and no text."""
        if self._around_partitions is None or self._around_partitions[1]:
            self._around_partitions = (self._name + encode_value(self.state), b"")
        return self._around_partitions

    def _encode_around(self) -> tuple[bytes, bytes]:
        """Return the name and JSON text of the state dict in two parts, around its partitions.

        The items of the list ``partitions`` are in neither part.
        """
        if self._around_partitions is None or not self._around_partitions[1]:
            names = list(self.state)
            cut = names.index(_PARTITIONS)
            before = encode_members({name: self.state[name] for name in names[:cut]})
            after = encode_members({name: self.state[name] for name in names[cut + 1 :]})
            self._around_partitions = (
                b"".join((self._name, b"{", before, b"," if before else b"", b'"partitions":[')),
                b"".join((b"]", b"," if after else b"", after, b"}")),
            )
        return self._around_partitions

    def _encode_stale(self, entries: list[Any]) -> None:
        """Encode and cache the JSON text of new and changed partitions in ``entries``."""
        if entries is not self._entries or len(self._texts) > len(entries):
            self._start_list(entries)
        for position in chain(self._stale, self._shared_positions):
            if position < len(self._texts):
                self._texts[position] = _encode_partition(position, entries[position])
        self._stale.clear()
        for position in range(len(self._texts), len(entries)):
            self._texts.append(_encode_partition(position, entries[position]))

    def _start_list(self, entries: list[Any]) -> None:
        """Discard all cached text, because the state dict now has another ``partitions`` list.

        If the cache was disabled for a partition of the old list, disable it for the whole stream.
        The partition may have another position in the new list.
        """
        self._shared = self._shared or (bool(self._shared_positions) and bool(self._texts))
        self._entries = entries
        self._texts = []
        self._around_partitions = None


def _encode_partition(position: int, entry: Any) -> bytes:
    """Return the JSON text of the partition ``entry``, after a comma unless it is the first."""
    text = encode_value(entry)
    return b"," + text if position else text
