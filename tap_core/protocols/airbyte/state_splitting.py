"""The state document cut into what Airbyte keeps: a state for each stream, or one for all.

Rules of the room: what stands in the document for a stream is that stream's state, byte for
byte. A state is told when it differs from the one that the reader has, of streams that have
begun and not ended; what a stream brought last is always behind it. A document that holds
more than bookmarks is one that streams share, and from then on it is told as a whole.
Source: the Airbyte protocol, section "State & Checkpointing".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from tap_core.events import StreamId
from tap_core.exceptions import DataError
from tap_core.protocols.airbyte.messages import descriptor, encode_json

__all__ = ["PER_STREAM_KEYS", "StreamStates"]

PER_STREAM_KEYS: Final = frozenset({"bookmarks", "currently_syncing"})
"""Names at the top of a state document that hold nothing of what streams share."""

_NOTHING: Final = b"{}"
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class StreamStates:
    """Where the streams of one run stand, and what of that the reader was told."""

    def __init__(self, streams: Mapping[str, StreamId], *, shared: bool) -> None:
        """Know the streams, each by the name that the document has for it.

        With ``shared`` the states of all are told together.
        """
        self._names = {name: encode_json(descriptor(stream)) for name, stream in streams.items()}
        self._is_shared = shared
        self._share = b""
        """What stands beside the bookmarks, as the members of an object."""
        self._newest: dict[str, bytes] = {}
        self._told: dict[str, bytes] = {}
        self._told_as_one = b""
        self._open: dict[str, bool] = {}
        """The streams that are being read; whether a state was told since they began."""
        self._ended: set[str] = set()
        self._counts: Counter[str] = Counter()
        """Records since the last state."""

    def begin(self, name: str) -> None:
        """Let the states of a stream go out from now on."""
        self._open.setdefault(name, False)

    def count(self, name: str, records: int) -> None:
        """Count records of a stream that went out."""
        self._counts[name] += records

    def take(self, document: bytes) -> bytes:
        """Take a newer document; return the lines of the states that have changed."""
        self._read(document)
        if self._is_shared:
            return self._as_one() if self._open and self._text() != self._told_as_one else b""
        return b"".join(
            self._get_state(name)
            for name in self._open
            if self._newest.get(name, _NOTHING) != self._told.get(name, _NOTHING)
        )

    def end(self, name: str) -> bytes:
        """Let a stream end: return its last state, where the reader does not have that."""
        was_told = self._open.get(name, False)
        owed = not was_told or self._counts[name] > 0
        lines = (self._as_one() if self._is_shared else self._get_state(name)) if owed else b""
        self._open.pop(name, None)
        self._ended.add(name)
        return lines

    def _read(self, document: bytes) -> None:
        members = _object(document)
        bookmarks = _object(members.get("bookmarks", _NOTHING))
        for name in self._names.keys() & bookmarks.keys():
            state = bytes(bookmarks[name])
            self._newest[name] = _NOTHING if state == b"null" else state
            if name not in self._open and name not in self._ended:
                self._told[name] = self._newest[name]  # as it came in
        share = {name: text for name, text in members.items() if name not in PER_STREAM_KEYS}
        if share:
            self._is_shared = True
            self._share = encode_json(share)

    def _get_state(self, name: str) -> bytes:
        state = self._told[name] = self._newest.get(name, _NOTHING)
        self._open[name] = True
        return b'{"type":"STATE","state":{"type":"STREAM","stream":%b,"sourceStats":%b}}\n' % (
            self._entry(name, state),
            _statistics(self._counts.pop(name, 0)),
        )

    def _as_one(self) -> bytes:
        text = self._told_as_one = self._text()
        self._open = dict.fromkeys(self._open, True)
        count = sum(self._counts.values())
        self._counts.clear()
        return b'{"type":"STATE","state":{"type":"GLOBAL","global":%b,"sourceStats":%b}}\n' % (
            text,
            _statistics(count),
        )

    def _text(self) -> bytes:
        return b'{"shared_state":%b,"stream_states":[%b]}' % (
            self._share or _NOTHING,
            b",".join(self._entries()),
        )

    def _entries(self) -> Iterator[bytes]:
        for name in self._names:
            state = self._newest.get(name)
            if state is not None or name in self._open or name in self._ended:
                yield self._entry(name, _NOTHING if state is None else state)

    def _entry(self, name: str, state: bytes) -> bytes:
        return b'{"stream_descriptor":%b,"stream_state":%b}' % (self._names[name], state)


def _statistics(count: int) -> bytes:
    return b'{"recordCount":%d.0}' % count


def _object(text: Any) -> dict[str, msgspec.Raw]:
    """Return the members of a JSON object; of anything else, which an author wrote, none.

    Raises:
        DataError: a text in it cannot be written as UTF-8.
    """
    try:
        return _members(text)
    except msgspec.ValidationError:
        return {}
    except msgspec.DecodeError as error:
        raise DataError(f"The state cannot be divided into those of its streams: {error}") from None
