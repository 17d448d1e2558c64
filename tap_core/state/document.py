"""State document of a tap: the state dict, and its JSON text, which is encoded incrementally.

- The dict is authoritative. A tap's code may have references to it and to dicts inside it, so this
  module never replaces or copies it.
- A context is a dict of values that identifies a partition, such as ``{"region": "eu"}``.
- JSON text is cached per partition. Code that changes a state dict calls `touch`. If the tap's code
  may change a dict without a call, `share` disables its cache until the sync ends (`unshare`).
- Appended partitions and replaced lists of partitions are detected without `touch`.
- Top-level keys of the document other than ``bookmarks`` are written too.
- Threads may share a document. Code that changes a state dict must hold ``lock`` from the call of
  `touch` to the end of the change. Otherwise an unfinished change could be cached as current.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping
from typing import Any, Final, cast

from tap_core.state.bookmarks import reset_state_progress_markers, write_stream_state
from tap_core.state.encoded_stream_state import EncodedStreamState
from tap_core.state.encoder import encode_members
from tap_core.state.reader import check_bookmarks
from tap_core.types import Context, TapState

__all__ = ["PER_STREAM_KEYS", "StateDocument"]

PER_STREAM_KEYS: Final = frozenset({"bookmarks", "currently_syncing"})
"""Top-level keys of a state document whose values belong to single streams."""

_BYTES_PER_CHANGE = 100


class StateDocument:
    """State of a whole tap, with a cache of the JSON text of streams and partitions.

    Args:
        tap_state: State dict. It is not copied, so the caller may add values to it later.
    """

    def __init__(self, tap_state: TapState | dict[str, Any]) -> None:
        self.tap_state: dict[str, Any] = cast(dict[str, Any], tap_state)
        self.lock: threading.RLock = threading.RLock()
        self._streams: dict[str, EncodedStreamState] = {}
        self._is_shared = False
        """True if the cache is disabled for the document, a stream or a partition."""
        self._all_shared = False
        self._changes = 0
        self.last_text: bytes | None = None
        """JSON text of the state that was written last, by the sync or by the tap's code."""
        self.runs: int = 0
        """Number of syncs started with this document."""
        self.input_state: Mapping[str, Any] = {}
        """State of an earlier sync that was passed to the tap. It may contain unknown streams."""

    def load(self, state: Mapping[str, Any], *, keep_other_keys: bool) -> None:
        """Merge the state of an earlier sync into the state dict.

        Args:
            state: State of the earlier sync.
            keep_other_keys: True to copy the top-level keys other than ``bookmarks``, too.

        Raises:
            StateFileError: A value in the state has the wrong type.
        """
        self.input_state = state
        if keep_other_keys:
            self.tap_state.update({k: v for k, v in state.items() if k not in PER_STREAM_KEYS})
        check_bookmarks(state)
        for stream, bookmark in (state.get("bookmarks") or {}).items():
            for key, value in (bookmark or {}).items():
                write_stream_state(self.tap_state, stream, key, value)

    # Lookup of state dicts

    def stream_state(self, stream_id: str) -> dict[str, Any]:
        """Return the state dict of a stream; create it if absent."""
        with self.lock:
            return self._get_encoded(stream_id).state

    def context_state(self, stream_id: str, partition_context: Context | None) -> dict[str, Any]:
        """Return the state dict of a partition; if ``partition_context`` is None, of the stream.

        A missing dict is created. The time does not depend on the number of partitions.

        Raises:
            ValueError: Two partitions in the state have this context.
        """
        with self.lock:
            encoded = self._get_encoded(stream_id)
            if not partition_context:
                return encoded.state
            index = encoded.index(add=True)
            count = len(index.entries)
            entry = index.find_or_add(partition_context)
            self._changes += len(index.entries) - count
            return entry

    def has_partition(self, stream_id: str, partition_context: Context) -> bool:
        """Return True if the stream's state contains the partition ``partition_context``.

        The time does not depend on the number of partitions.

        Raises:
            ValueError: Two partitions in the state have this context.
        """
        return self._get_encoded(stream_id).index(add=False).position(partition_context) is not None

    def reset_progress_markers(self) -> None:
        """Delete the progress markers that an interrupted sync left, when a new sync begins."""
        for state in self.tap_state.get("bookmarks", {}).values():
            partitions = state.get("partitions") if isinstance(state, dict) else None
            for entry in (state, *(partitions or ())):
                if isinstance(entry, dict):
                    reset_state_progress_markers(entry)
        self.runs += 1
        self.refresh()

    def replace(self, state: Mapping[str, Any]) -> None:
        """Replace the contents of the state dict by a copy of ``state``, when a sync begins."""
        with self.lock:
            self.tap_state.clear()
            self.tap_state.update(copy.deepcopy(dict(state)))
            self._streams = {}
            self._is_shared = self._all_shared
            self.runs += 1
            self.refresh()

    # Change tracking

    def change(self, stream_id: str, partition_context: Context | None = None) -> dict[str, Any]:
        """Return the state dict of a partition or stream, for the caller to change.

        Without a ``partition_context``, the stream's own dict is returned. A missing dict is
        created. The cached JSON text of the dict is discarded. The caller must hold ``lock`` until
        the change is complete.
        """
        with self.lock:
            self._changes += 1
            return self._get_encoded(stream_id).change(partition_context)

    def touch(self, stream_id: str, partition_context: Context | None = None) -> None:
        """Discard the cached JSON text of a changed state dict.

        It is the dict of the partition ``partition_context`` or, if that is None, of the stream.
        """
        with self.lock:
            self._changes += 1
            self._get_encoded(stream_id).touch(partition_context)

    def share(self, stream_id: str | None = None, partition_context: Context | None = None) -> None:
        """Do not cache the JSON text of a state dict that the tap's code may change at any time.

        From now on, every `encode` encodes the dict again. A missing partition is created.

        Args:
            stream_id: Name of the stream; None for the whole document.
            partition_context: Values that identify the partition; None for the stream with all its
                partitions.
        """
        with self.lock:
            self._is_shared = True
            if stream_id is None:
                self._all_shared = True
            else:
                self._get_encoded(stream_id).share(partition_context)

    def unshare(self) -> None:
        """Cache the JSON text of all state dicts again, after `share` has disabled the cache."""
        if self._is_shared:
            self._is_shared = False
            self._all_shared = False
            self._streams = {}
            self._changes += 1

    def refresh(self) -> None:
        """Discard the cached JSON text and the index of every stream.

        Call this if any part of the state may have changed.
        """
        with self.lock:
            self._changes += 1
            for encoded in self._streams.values():
                encoded.refresh()

    # Encoding

    @property
    def size_estimate(self) -> int:
        """Estimated size of the next JSON text in bytes: the last size plus 100 per change."""
        return len(self.last_text or b"") + self._changes * _BYTES_PER_CHANGE

    def encode(self) -> bytes:
        """Return the whole state document as JSON on one line, without a line end."""
        with self.lock:
            return b"".join(self._encode_parts())

    def encode_if_changed(self) -> bytes | None:
        """Return the state as one line of JSON, or None if it equals the state written last."""
        with self.lock:
            if self.last_text is not None and not self._changes and not self._is_shared:
                return None
            line = self.encode()
            self._changes = 0
            if line == self.last_text:
                return None
            self.last_text = line
            return line

    def record_state(self, line: bytes) -> None:
        """Store a state that the tap's code wrote, so that an equal one is not written again."""
        with self.lock:
            self.last_text = line
            self._changes += 1

    def _encode_parts(self) -> list[bytes]:
        """Return the JSON text of the document in parts."""
        parts: list[bytes] = []
        for key, value in list(self.tap_state.items()):  # the tap's code may add keys meanwhile
            parts.append(b"," if parts else b"{")
            if key == "bookmarks" and isinstance(value, dict):
                parts.append(b'"bookmarks":')
                parts += self._encode_bookmarks(value)
            else:
                parts.append(encode_members({key: value}))
        parts.append(b"}" if parts else b"{}")
        return parts

    def _encode_bookmarks(self, bookmarks: dict[str, Any]) -> list[bytes]:
        """Return the JSON text of the state dicts of all streams, in parts."""
        parts: list[bytes] = []
        for stream_id, state in list(bookmarks.items()):
            parts.append(b"," if parts else b"{")
            if isinstance(state, dict):
                encoded = self._streams.get(stream_id)
                if encoded is None or encoded.state is not state:
                    encoded = self._get_encoded(stream_id)
                parts += encoded.encode(everything=self._all_shared)
            else:
                parts.append(encode_members({stream_id: state}))
        parts.append(b"}" if parts else b"{}")
        return parts

    def _get_encoded(self, stream_id: str) -> EncodedStreamState:
        """Return the object that encodes a stream's state; create the state if it is absent."""
        bookmarks = self.tap_state.get("bookmarks")
        if bookmarks is None:
            bookmarks = self.tap_state["bookmarks"] = {}
        state = bookmarks.get(stream_id)
        if state is None:
            state = bookmarks[stream_id] = {}
            self._changes += 1
        encoded = self._streams.get(stream_id)
        if encoded is None or encoded.state is not state:
            shared = encoded is not None and encoded.is_shared
            encoded = EncodedStreamState(stream_id, state)
            if shared:
                encoded.share(None)
            self._streams[stream_id] = encoded
        return encoded
