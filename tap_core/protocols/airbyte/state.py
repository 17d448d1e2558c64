"""Parsing of an Airbyte ``--state`` file, and its conversion to a Singer state document.

- The file is one JSON document (a state or a list of states), or it has one state or STATE message
  per line. ``null``, ``[]``, ``{}`` and an empty file mean that there is no state.
- The last state of a stream is used. A GLOBAL or LEGACY state replaces all earlier states. A null
  state resets its stream; a null LEGACY state resets all streams. A document without an Airbyte
  type is a Singer state. A LEGACY state contains a Singer state.
- An invalid line, except the first, is skipped with a warning, because the program that wrote the
  line probably crashed. The streams in it resume from an older state, so that no record is lost.
- States of streams that no longer exist, and unknown properties, are ignored.

Source: the Airbyte protocol, section "State & Checkpointing".
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final

from tap_core.events import StreamId
from tap_core.exceptions import StateFileError
from tap_core.protocols.airbyte.catalog import stream_id
from tap_core.protocols.airbyte.json_input import JsonNode
from tap_core.protocols.resume import split_bookmarks
from tap_core.singerlib.catalog import REPLICATION_FULL_TABLE
from tap_core.singerlib.json import describe_json_error
from tap_core.state.document import PER_STREAM_KEYS
from tap_core.state.reader import as_bytes, parse_json
from tap_core.sync.interfaces import SyncStream

__all__ = ["InputState", "parse_states", "to_singer_state", "to_state_document"]

logger: logging.Logger = logging.getLogger(__name__)

_OTHER_MESSAGES: Final = frozenset(
    {
        "CATALOG",
        "CONNECTION_STATUS",
        "CONTROL",
        "DESTINATION_CATALOG",
        "LOG",
        "RECORD",
        "SPEC",
        "TRACE",
    }
)
_GLOBAL: Final = ("global", "global_")
"""Names of the field for a global state. The protocol's Python models use the second one."""


@dataclass(frozen=True, slots=True)
class InputState:
    """Parsed content of an Airbyte state file, from which a tap resumes.

    Attributes:
        streams: State of each stream; None if the stream must be reset.
        shared: State that all streams share.
        legacy: Singer state document for the streams that are not in ``streams``.
    """

    streams: Mapping[StreamId, Mapping[str, Any] | None] = field(default_factory=dict)
    shared: Mapping[str, Any] = field(default_factory=dict)
    legacy: Mapping[str, Any] = field(default_factory=dict)


# Reading


def parse_states(text: str | bytes, source: str) -> InputState:
    """Parse the content of an Airbyte state file. ``source`` is its name in error messages.

    Raises:
        StateFileError: The content is not a valid state. The message names the invalid value.
    """
    newest = _StateAccumulator()
    for document in _parse_documents(as_bytes(text), f"State '{source}'"):
        newest.add(document)
    return InputState(newest.streams, newest.shared, newest.legacy)


def _parse_documents(content: bytes, source: str) -> Iterator[JsonNode]:
    """Yield the JSON documents in a state file: one document, or one per line.

    ``source`` is the file's name in error messages.
    """
    if not content.strip():
        return
    try:
        document = parse_json(content)
    except ValueError as error:
        yield from _parse_lines(content, source, error)
    else:
        yield JsonNode(document, source, StateFileError)


def _parse_lines(content: bytes, source: str, document_error: ValueError) -> Iterator[JsonNode]:
    is_first = True
    for number, line in enumerate(content.split(b"\n"), 1):
        if not line.strip(b" \t\r\0"):
            continue
        location = f"line {number}"
        try:
            yield JsonNode(parse_json(line), source, StateFileError, location)
        except ValueError as line_error:
            if is_first:
                raise JsonNode(None, source, StateFileError).make_error(
                    f"this is not JSON: {describe_json_error(document_error)}"
                ) from None
            logger.warning(
                "%s, %s, is cut off and skipped: %s",
                source,
                location,
                describe_json_error(line_error),
            )
        is_first = False


class _StateAccumulator:
    """Builder of an `InputState` from the documents of a state file, added in their order."""

    def __init__(self) -> None:
        self.streams: dict[StreamId, dict[str, Any] | None] = {}
        self.shared: dict[str, Any] = {}
        self.legacy: dict[str, Any] = {}

    def add(self, node: JsonNode) -> None:
        """Add the states in ``node``, a JSON document of a state file: one state or a list.

        They override earlier states of the same streams.
        """
        for state in node.items() if isinstance(node.value, list) else [node]:
            if state.value is not None:
                self._add_one(state)

    def _add_one(self, node: JsonNode) -> None:
        kind = node.child("type", "state_type").text() or _infer_type(node.members())
        if kind == "STREAM":
            self._add_stream(node.child("stream"))
        elif kind == "GLOBAL":
            self._add_global(node.child(*_GLOBAL))
        elif kind == "LEGACY":
            self._add_legacy(node.child("data"))
        elif kind == "STATE":
            self._add_message(node)
        elif kind is None or "bookmarks" in node.members():
            self._add_legacy(node)
        elif kind not in _OTHER_MESSAGES:
            raise node.make_error(f"{kind!r} is not a state type: use STREAM, GLOBAL or LEGACY")

    def _add_message(self, node: JsonNode) -> None:
        """Add the state in a STATE message: its ``state`` (Airbyte) or ``value`` (Singer)."""
        state = node.child("state", "value")
        if state.value is None and "value" not in node.members():
            raise state.make_type_error("a state")
        if "state" in node.members():
            self._add_one(state)
        else:
            self._add_legacy(state)

    def _add_stream(self, node: JsonNode) -> None:
        descriptor = node.child("stream_descriptor")
        name = descriptor.child("name").required_text()
        stream = StreamId(name, descriptor.child("namespace").text())
        state = node.child("stream_state").with_name(name)
        self.streams[stream] = None if state.value is None else state.members()

    def _add_global(self, node: JsonNode) -> None:
        if node.value is None:
            raise node.make_type_error("an object")
        self.streams, self.legacy = {}, {}
        self.shared = node.child("shared_state").members()
        for state in node.child("stream_states").items():
            self._add_stream(state)

    def _add_legacy(self, node: JsonNode) -> None:
        while True:  # unwrap the envelopes that Singer targets and orchestrators add to a state
            members = node.members()
            if "singer_state" in members:
                node = node.child("singer_state")
            elif members.get("type") == "STATE" and "value" in members:
                node = node.child("value")
            else:
                break
        node.child("bookmarks").members()  # raise an error if they are no object
        self.streams, self.shared, self.legacy = {}, {}, members


def _infer_type(members: Mapping[str, Any]) -> str | None:
    """Return the type of an Airbyte state without the field ``type``, inferred from ``members``.

    Return "STREAM", "GLOBAL" or "LEGACY", or None for a Singer state.
    """
    if "stream_descriptor" in _object(members.get("stream")):
        return "STREAM"
    if any(isinstance(members.get(name), dict) for name in _GLOBAL):
        return "GLOBAL"
    return "LEGACY" if "data" in members and "bookmarks" not in members else None


# For a tap


def to_state_document(
    input_state: InputState, streams: Mapping[str, SyncStream], full_refresh: Collection[str] = ()
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Convert a parsed Airbyte state to a Singer state document, from which a tap can resume.

    Streams that are read in full get no state. If a selected stream has no state, its parent
    streams get no state either, because otherwise the children of older parent records would be
    missed. A parent stream that is not in the catalog gets no state, because its state is not sent:
    after an interruption, it would not show for which records the children were read. The state
    that all streams share is stored in top-level keys next to ``bookmarks``.

    Args:
        input_state: The parsed state file.
        streams: Streams of the tap by name, with the catalog applied.
        full_refresh: Names of further streams that get no state.

    Returns:
        The state document, and by name the states of parent streams that restart only because a
        child stream restarts. These states show which parent records were sent in earlier syncs.
    """
    document = {
        name: deepcopy(value)
        for name, value in {**input_state.legacy, **input_state.shared}.items()
        if name not in PER_STREAM_KEYS
    }
    kept, previous = split_bookmarks(
        _collect_bookmarks(input_state, streams), streams, _is_restarted, full_refresh
    )
    kept = {
        name: state for name, state in kept.items() if name not in streams or streams[name].selected
    }
    return ({"bookmarks": kept, **document} if kept else document), previous


def to_singer_state(input_state: InputState, streams: Mapping[str, SyncStream]) -> dict[str, Any]:
    """Convert a parsed Airbyte state to a Singer state, for warnings about states without effect.

    Its ``bookmarks`` also contain streams that the tap does not have. Streams that must be reset
    are left out.
    """
    known = {stream_id(stream) for stream in streams.values()}
    unknown = {
        f"{identifier.namespace or ''} {identifier.name}".strip(): state
        for identifier, state in input_state.streams.items()
        if state is not None and identifier not in known
    }
    bookmarks = {**unknown, **_collect_bookmarks(input_state, streams)}
    return {**input_state.legacy, **input_state.shared, "bookmarks": bookmarks}


def _collect_bookmarks(
    input_state: InputState, streams: Mapping[str, SyncStream]
) -> dict[str, Any]:
    """Return the states of the streams in a parsed state file, by the tap's stream names.

    Streams that must be reset are left out.
    """
    names = {stream_id(stream): name for name, stream in streams.items()}
    bookmarks = _object(input_state.legacy.get("bookmarks"))
    for identifier, state in input_state.streams.items():
        if identifier in names:
            bookmarks[names[identifier]] = state
    return {name: state for name, state in bookmarks.items() if state is not None}


def _is_restarted(stream: SyncStream, state: Any) -> bool:
    """Return True if a sync reads a stream from its start instead of resuming it.

    This is the case without a state (None) and with the replication method FULL_TABLE.
    """
    return state is None or stream.replication_method == REPLICATION_FULL_TABLE


def _object(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, dict) else {}
