"""Splitting of a Singer state document into Airbyte states: one per stream, or one GLOBAL state.

The bookmark of a stream becomes its Airbyte state. While a stream is being read, its state is
written whenever it has changed. A final state follows its last records. Top-level keys other than
``bookmarks`` are shared state: once there are any, all states are written as one GLOBAL state.
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
from tap_core.state.document import PER_STREAM_KEYS

__all__ = ["StreamStates"]

_NOTHING: Final = b"{}"
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class StreamStates:
    """Builder of Airbyte STATE messages from the Singer state documents that a tap emits.

    It remembers the last state of each stream, so that only changed states become messages.
    """

    def __init__(self, streams: Mapping[str, StreamId], *, shared: bool) -> None:
        """Create a builder without any states.

        Args:
            streams: Identifiers of the streams, by their names in the tap's state document.
            shared: True to write all states together as one GLOBAL state, False to write a separate
                STATE message for each stream.
        """
        self._descriptors = {
            name: encode_json(descriptor(stream)) for name, stream in streams.items()
        }
        self._is_global = shared
        self._shared_state = _NOTHING
        self._newest: dict[str, bytes] = {}
        self._written: dict[str, bytes] = {}
        self._written_global = b""
        self._running: dict[str, bool] = {}
        """For each stream being read: True if a state was emitted since its start."""
        self._ended: set[str] = set()
        self._counts: Counter[str] = Counter()
        """Number of records since the last state, by stream name."""

    def begin(self, name: str) -> None:
        """Mark a stream as started, so that STATE messages are made for its states from now on."""
        self._running.setdefault(name, False)

    def count(self, name: str, records: int) -> None:
        """Add ``records`` to the number of records of a stream since its last STATE message.

        The next STATE message reports this number as ``recordCount``.
        """
        self._counts[name] += records

    def update(self, document: bytes) -> bytes:
        """Return STATE messages, as lines of JSON, for the states that ``document`` changes.

        Return b"" if no stream that is being read has a new state.

        Args:
            document: Newest Singer state document of the tap, as JSON.
        """
        self._store_document(document)
        if self._is_global:
            is_changed = self._build_global_state() != self._written_global
            return self._emit_global() if self._running and is_changed else b""
        return b"".join(
            self._emit_stream(name)
            for name in self._running
            if self._newest.get(name, _NOTHING) != self._written.get(name, _NOTHING)
        )

    def end(self, name: str) -> bytes:
        """Mark a stream as ended, and return its final STATE message as a line of JSON.

        Return b"" if a STATE message was already returned after the stream's last record.
        """
        lines = b""
        if not self._running.get(name) or self._counts[name]:
            lines = self._emit_global() if self._is_global else self._emit_stream(name)
        self._running.pop(name, None)
        self._ended.add(name)
        return lines

    def _store_document(self, document: bytes) -> None:
        members = _parse_members(document)
        bookmarks = _parse_members(members.get("bookmarks", _NOTHING))
        for name in self._descriptors.keys() & bookmarks.keys():
            state = bytes(bookmarks[name])
            self._newest[name] = _NOTHING if state == b"null" else state
            if name not in self._running and name not in self._ended:
                self._written[name] = self._newest[name]  # the platform has this input state
        shared = {name: text for name, text in members.items() if name not in PER_STREAM_KEYS}
        if shared:
            self._is_global = True
            self._shared_state = encode_json(shared)

    def _emit_stream(self, name: str) -> bytes:
        """Return a STATE message with the newest state of a stream, and mark it as written."""
        state = self._written[name] = self._newest.get(name, _NOTHING)
        self._running[name] = True
        return b'{"type":"STATE","state":{"type":"STREAM","stream":%b,"sourceStats":%b}}\n' % (
            self._build_stream_state(name, state),
            _build_statistics(self._counts.pop(name, 0)),
        )

    def _emit_global(self) -> bytes:
        """Return a GLOBAL state with the newest states of all streams, and mark it as written."""
        text = self._written_global = self._build_global_state()
        self._running = dict.fromkeys(self._running, True)
        count = sum(self._counts.values())
        self._counts.clear()
        return b'{"type":"STATE","state":{"type":"GLOBAL","global":%b,"sourceStats":%b}}\n' % (
            text,
            _build_statistics(count),
        )

    def _build_global_state(self) -> bytes:
        return b'{"shared_state":%b,"stream_states":[%b]}' % (
            self._shared_state,
            b",".join(self._iterate_stream_states()),
        )

    def _iterate_stream_states(self) -> Iterator[bytes]:
        for name in self._descriptors:
            state = self._newest.get(name)
            if state is not None or name in self._running or name in self._ended:
                yield self._build_stream_state(name, _NOTHING if state is None else state)

    def _build_stream_state(self, name: str, state: bytes) -> bytes:
        return b'{"stream_descriptor":%b,"stream_state":%b}' % (self._descriptors[name], state)


def _build_statistics(count: int) -> bytes:
    return b'{"recordCount":%d.0}' % count


def _parse_members(text: Any) -> dict[str, msgspec.Raw]:
    """Return the members of a JSON object as raw JSON, or an empty dict for other JSON values.

    Raises:
        DataError: ``text`` is not valid JSON, for example because of a lone surrogate.
    """
    try:
        return _decode_members(text)
    except msgspec.ValidationError:
        return {}
    except msgspec.DecodeError as error:
        raise DataError(f"The state cannot be split into stream states: {error}") from None
