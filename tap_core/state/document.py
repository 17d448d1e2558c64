"""The state document of a tap: its dict, and its text at the price of what changed.

Rules of the room:

- The dict is the truth and keeps its form; authors hold references to it and to parts of
  it. Nothing here ever rebinds or copies it.
- Text is kept per partition. Who changes a state dict says so (`touch`); what an author may
  change unseen is made anew at every `encode` (`share`) until the sync ends (`unshare`).
- Entries that were appended and lists that were replaced are noticed without being told.
- Everything at the top of the document beside ``bookmarks`` is written too.
- Threads may share a document. ``lock`` is held while its text is made, and by whoever changes
  a state dict, from the word that it changes to the change itself: text made in between would
  be taken for the newest.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, cast

from tap_core.state.bookmarks import reset_state_progress_markers
from tap_core.state.encoded_stream_state import EncodedStreamState
from tap_core.state.encoder import Encoder
from tap_core.types import Context, TapState

__all__ = ["StateDocument"]

_BYTES_OF_A_CHANGE = 100


class StateDocument:
    """Wraps ``tap_state``, which stays the caller's own dict and may be filled later."""

    def __init__(self, tap_state: TapState | dict[str, Any]) -> None:
        self.tap_state: dict[str, Any] = cast(dict[str, Any], tap_state)
        self.lock: threading.RLock = threading.RLock()
        self._encoder = Encoder()
        self._streams: dict[str, EncodedStreamState] = {}
        self._all_shared = False
        self._touched = 0
        self._given: bytes | None = None
        self.runs: int = 0
        """How many syncs have begun on this document."""

    # Finding state dicts

    def stream_state(self, stream_id: str) -> dict[str, Any]:
        """Return the state dict of a stream, made if absent."""
        with self.lock:
            return self._text(stream_id).state

    def context_state(self, stream_id: str, partition_context: Context | None) -> dict[str, Any]:
        """Return the state dict of a partition, made if absent; of the stream for no context.

        O(1). Raises ValueError when the document has two entries for the context.
        """
        with self.lock:
            text = self._text(stream_id)
            if not partition_context:
                return text.state
            index = text.index(add=True)
            count = len(index.entries)
            entry = index.find_or_add(partition_context)
            self._touched += len(index.entries) - count
            return entry

    def has_partition(self, stream_id: str, partition_context: Context) -> bool:
        """Return whether a partition has an entry; O(1), raises as `context_state` does."""
        return self._text(stream_id).index(add=False).position(partition_context) is not None

    def partitions(self, stream_id: str) -> list[dict[str, Any]] | None:
        """Return the list of a stream's partitions, None when its state has none."""
        state = self.tap_state.get("bookmarks", {}).get(stream_id) or {}
        found: list[dict[str, Any]] | None = state.get("partitions")
        return found

    def reset_progress_markers(self) -> None:
        """Wipe what an unfinished sync left; the first step of a sync."""
        for state in self.tap_state.get("bookmarks", {}).values():
            partitions = state.get("partitions") if isinstance(state, dict) else None
            for entry in (state, *(partitions or ())):
                if isinstance(entry, dict):
                    reset_state_progress_markers(entry)
        self.runs += 1
        self.refresh()

    def replace(self, state: Mapping[str, Any]) -> None:
        """Let the document say what another one does, as at the start of a run."""
        with self.lock:
            self.tap_state.clear()
            self.tap_state.update(copy.deepcopy(dict(state)))
            self._streams = {}
            self.runs += 1
            self.refresh()

    # What changed

    def change(self, stream_id: str, partition_context: Context | None = None) -> dict[str, Any]:
        """Return a state dict as `context_state` does, for a change that is made at once."""
        with self.lock:
            self._touched += 1
            return self._text(stream_id).change(partition_context)

    def touch(self, stream_id: str, partition_context: Context | None = None) -> None:
        """Say that a state dict was changed."""
        with self.lock:
            self._touched += 1
            self._text(stream_id).touch(partition_context)

    def share(self, stream_id: str | None = None, partition_context: Context | None = None) -> None:
        """Say that someone holds this state dict, so that it may change at any time.

        Without a stream: the whole document. A stream's dict contains its partitions'.
        A partition that is not there yet is made.
        """
        with self.lock:
            if stream_id is None:
                self._all_shared = True
            else:
                self._text(stream_id).share(partition_context)

    def unshare(self) -> None:
        """End every `share`: from now on changes are told by `touch` again."""
        if self._is_shared():
            self._all_shared = False
            self._streams = {}
            self._touched += 1

    def refresh(self) -> None:
        """Forget all kept text and every index: the dict may have been changed anywhere."""
        with self.lock:
            self._touched += 1
            for text in self._streams.values():
                text.refresh()

    # Text

    @property
    def encoded_bytes(self) -> int:
        """Bytes of JSON made afresh until now; kept text that was only joined does not count."""
        return self._encoder.made

    @property
    def size_estimate(self) -> int:
        """About how many bytes the next text has, without making it."""
        return len(self._given or b"") + self._touched * _BYTES_OF_A_CHANGE

    def encode(self) -> bytes:
        """Return the whole document as JSON on one line."""
        with self.lock:
            return b"".join(chain.from_iterable(self._pieces()))

    def encode_if_changed(self) -> bytes | None:
        """Return what `encode` does, or None when that is what this returned the last time."""
        with self.lock:
            if self._given is not None and not self._touched and not self._is_shared():
                return None
            line = self.encode()
            self._touched = 0
            if line == self._given:
                return None
            self._given = line
            return line

    def _pieces(self) -> Iterator[Iterable[bytes]]:
        before = b"{"
        for key, value in list(self.tap_state.items()):  # authors may add to it meanwhile
            if key == "bookmarks" and isinstance(value, dict):
                yield (before, b'"bookmarks":')
                yield from self._bookmarks(value)
            else:
                yield (before, self._encoder.members({key: value}))
            before = b","
        yield (b"{}",) if before == b"{" else (b"}",)

    def _bookmarks(self, bookmarks: dict[str, Any]) -> Iterator[Iterable[bytes]]:
        before = b"{"
        for stream_id, state in list(bookmarks.items()):
            if isinstance(state, dict):
                text = self._text(stream_id)
                yield (before, text.name, b":")
                yield text.encode(everything=self._all_shared)
            else:
                yield (before, self._encoder.members({stream_id: state}))
            before = b","
        yield (b"{}",) if before == b"{" else (b"}",)

    def _text(self, stream_id: str) -> EncodedStreamState:
        bookmarks = self.tap_state.get("bookmarks")
        if bookmarks is None:
            bookmarks = self.tap_state["bookmarks"] = {}
        state = bookmarks.get(stream_id)
        if state is None:
            state = bookmarks[stream_id] = {}
            self._touched += 1
        text = self._streams.get(stream_id)
        if text is None or text.state is not state:
            shared = text is not None and text.is_shared
            text = EncodedStreamState(stream_id, state, self._encoder)
            if shared:
                text.share(None)
            self._streams[stream_id] = text
        return text

    def _is_shared(self) -> bool:
        return self._all_shared or any(text.is_shared for text in self._streams.values())
