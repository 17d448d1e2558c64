"""The text of one stream's state, kept in pieces: what surrounds its partitions, and each.

Rules of the room: a piece is made when it is first asked for and again after it was said to
have changed. The pieces of partitions after the first begin with their comma, so that the
text of the whole is one join of what is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

from tap_core.state.encoder import Encoder
from tap_core.state.partition_index import PartitionIndex
from tap_core.types import Context

__all__ = ["EncodedStreamState"]

_PARTITIONS = "partitions"


class EncodedStreamState:
    """Keeps the index and the text of one stream's state dict."""

    __slots__ = (
        "_encoder",
        "_entries",
        "_index",
        "_outside",
        "_pieces",
        "_shared",
        "_shared_positions",
        "_stale",
        "name",
        "state",
    )

    def __init__(self, stream_id: str, state: dict[str, Any], encoder: Encoder) -> None:
        self.state: dict[str, Any] = state
        self.name = encoder.value(stream_id)
        self._encoder = encoder
        self._shared = False
        self._shared_positions: set[int] = set()
        self.refresh()

    def refresh(self) -> None:
        """Forget the index and all text."""
        self._index: PartitionIndex | None = None
        self._outside: tuple[bytes, bytes] | None = None
        self._entries: list[Any] | None = None
        self._pieces: list[bytes] = []
        self._stale: set[int] = set()

    def index(self, *, add: bool) -> PartitionIndex:
        """Return the index of the stream's partitions; ``add`` makes the list if it is absent."""
        entries = self.state.get(_PARTITIONS)
        if entries is None:
            entries = []
            if add:
                self.state[_PARTITIONS] = entries
        if self._index is None or self._index.entries is not entries:
            self._index = PartitionIndex(entries)
        return self._index

    def change(self, context: Context | None) -> dict[str, Any]:
        """Return the state dict of a partition, or the stream's, marked as changed."""
        if not context:
            self._outside = None
            return self.state
        index = self.index(add=True)
        position = index.position_or_add(context)
        self._stale.add(position)
        return index.entries[position]

    def touch(self, context: Context | None) -> None:
        """Mark the piece of a partition as changed, or what surrounds them."""
        if not context:
            self._outside = None
        elif (position := self.index(add=False).position(context)) is not None:
            self._stale.add(position)

    def share(self, context: Context | None) -> None:
        """Make a piece afresh at every `encode`; without a context all of them."""
        if context:
            self._shared_positions.add(self.index(add=True).position_or_add(context))
        else:
            self._shared = True

    @property
    def is_shared(self) -> bool:
        """Return whether anything is made afresh at every `encode`."""
        return self._shared or bool(self._shared_positions)

    def encode(self, *, everything: bool = False) -> Iterable[bytes]:
        """Return the pieces whose join is the JSON text of the state dict."""
        if everything or self._shared:
            self.refresh()
        entries = self.state.get(_PARTITIONS)
        if not isinstance(entries, list) or not entries:
            return (self._whole(),)
        self._renew(entries)
        before, after = self._around()
        return chain((before,), self._pieces, (after,))

    def _whole(self) -> bytes:
        if self._outside is None or self._outside[1]:
            self._outside = (self._encoder.value(self.state), b"")
        return self._outside[0]

    def _around(self) -> tuple[bytes, bytes]:
        """Return the text before and after the partitions."""
        if self._outside is None or not self._outside[1]:
            names = list(self.state)
            cut = names.index(_PARTITIONS)
            before = self._encoder.members({name: self.state[name] for name in names[:cut]})
            after = self._encoder.members({name: self.state[name] for name in names[cut + 1 :]})
            self._outside = (
                b"".join((b"{", before, b"," if before else b"", b'"partitions":[')),
                b"".join((b"]", b"," if after else b"", after, b"}")),
            )
        return self._outside

    def _renew(self, entries: list[Any]) -> None:
        """Bring the pieces up to the list."""
        if entries is not self._entries or len(self._pieces) > len(entries):
            self._start_list(entries)
        for position in chain(self._stale, self._shared_positions):
            if position < len(self._pieces):
                self._pieces[position] = self._piece(position, entries[position])
        self._stale.clear()
        for position in range(len(self._pieces), len(entries)):
            self._pieces.append(self._piece(position, entries[position]))

    def _piece(self, position: int, entry: Any) -> bytes:
        text = self._encoder.value(entry)
        return b"," + text if position else text

    def _start_list(self, entries: list[Any]) -> None:
        """Drop what is known by position, now that the list is another one.

        What was shared by position is somewhere else, so everything counts as shared.
        """
        self._shared = self._shared or (bool(self._shared_positions) and bool(self._pieces))
        self._entries = entries
        self._pieces = []
        self._outside = None
