"""Rules of the protocol that models of single messages do not check, such as order and counts.

Each function takes the bytes that a command wrote and returns faults as text, an empty list if
there are none. A fault begins with the number of its rule in docs/airbyte.md. No class of the SDK
is used, so that any connector can be checked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

__all__ = ["envelope_faults", "read_faults", "single_faults", "write_faults"]

Message: TypeAlias = Mapping[str, Any]
Name: TypeAlias = "tuple[str | None, str]"

_BODIES: Final = {
    "RECORD": "record",
    "STATE": "state",
    "LOG": "log",
    "SPEC": "spec",
    "CONNECTION_STATUS": "connectionStatus",
    "CATALOG": "catalog",
    "TRACE": "trace",
    "CONTROL": "control",
}
_TRACES: Final = {
    "ERROR": "error",
    "ESTIMATE": "estimate",
    "STREAM_STATUS": "stream_status",
    "ANALYTICS": "analytics",
}
_STATES: Final = {"STREAM": "stream", "GLOBAL": "global", "LEGACY": "data"}
_SPOKEN: Final = {"LOG", "TRACE", "CONTROL"}
_YEAR_2001_MS: Final = 1_000_000_000_000


def envelope_faults(output: bytes, kinds: set[str]) -> list[str]:
    """Return the lines that are not messages of these types; LOG, TRACE and CONTROL are allowed."""
    return [
        f"{fault}: line {number}, {line[:200]!r}"
        for number, line in enumerate(_split_lines(output))
        for fault in _line_faults(line, kinds | _SPOKEN)
    ]


def single_faults(output: bytes, kind: str) -> list[str]:
    """Return the faults of the output of `spec`, `check` or `discover`: one message of one type."""
    messages = [message for message in _messages(output) if message["type"] == kind]
    wrong = [] if len(messages) == 1 else [f"E14 {len(messages)} messages of the type {kind}"]
    return [*envelope_faults(output, {kind}), *wrong]


def read_faults(output: bytes, catalog: Mapping[str, Any], code: int = 0) -> list[str]:
    """Return the faults of the output of `read` for a configured catalog and an exit code."""
    if faults := envelope_faults(output, {"RECORD", "STATE"}):
        return faults
    reading = _ReadProgress(
        {_stream_name(stream["stream"]): stream["stream"] for stream in catalog["streams"]}
    )
    for number, message in enumerate(_messages(output)):
        faults += [f"{fault}: line {number}" for fault in reading.faults(message)]
    return [*faults, *reading.end(code)]


def write_faults(input_lines: bytes, output: bytes, code: int = 0) -> list[str]:
    """Return the faults of the answer of `write` to the messages in ``input_lines``."""
    if faults := envelope_faults(output, {"STATE"}):
        return faults
    sent = _group_states(_parse_messages(input_lines))
    returned = _group_states(_messages(output))
    for scope, states in returned.items():
        faults += _order_faults(scope, states, sent.get(scope, []))
    if code == 0:
        lost = [scope for scope, states in sent.items() if not _has_last(states, returned, scope)]
        faults += [f"D4 the last state of {scope} was not returned" for scope in lost]
    elif not any(_is_error(message) for message in _messages(output)):
        faults.append("D16 it failed and wrote no ERROR trace")
    return faults


# One line


def _split_lines(output: bytes) -> list[bytes]:
    *complete, last = output.split(b"\n")
    return [*complete, last] if last else complete


def _line_faults(line: bytes, kinds: set[str]) -> Iterator[str]:
    try:
        message = json.loads(line.decode())
    except (ValueError, UnicodeDecodeError):
        yield "E3 not one JSON document in UTF-8"
        return
    if not isinstance(message, dict) or message.get("type") not in _BODIES:
        yield "E2 no message in an envelope"
    elif message["type"] not in kinds:
        yield f"E14 {message['type']} does not belong here"
    else:
        yield from _body_faults(message, _BODIES, "E4")
        yield from _type_faults(message)


def _type_faults(message: Message) -> Iterator[str]:
    if message["type"] == "TRACE":
        yield from _body_faults(message["trace"], _TRACES, "TR1")
        yield from _time_faults(message["trace"], "TR1")
    elif message["type"] == "STATE":
        yield from _body_faults(message["state"], _STATES, "ST1")
    elif message["type"] == "CONTROL":
        yield from _time_faults(message["control"], "CT1")


def _body_faults(body: Mapping[str, Any], fields: Mapping[str, str], rule: str) -> Iterator[str]:
    expected = fields.get(body.get("type", ""))
    filled = [name for name in fields.values() if body.get(name) is not None]
    if filled != [expected]:
        yield f"{rule} type {body.get('type')}, but there are {filled}"


def _time_faults(body: Mapping[str, Any], rule: str) -> Iterator[str]:
    value = body.get("emitted_at")
    if isinstance(value, bool) or not isinstance(value, int | float) or value < _YEAR_2001_MS:
        yield f"{rule} emitted_at is {value!r}, no time in milliseconds"


def _messages(output: bytes) -> list[Message]:
    return [json.loads(line) for line in _split_lines(output)]


def _parse_messages(input_lines: bytes) -> list[Message]:
    """Return the messages among the lines sent to a destination, without invalid lines."""
    messages = []
    for line in _split_lines(input_lines):
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if isinstance(message, dict):
            messages.append(message)
    return messages


def _is_error(message: Message) -> bool:
    return message["type"] == "TRACE" and message["trace"]["type"] == "ERROR"


# A source's `read`


def _stream_name(descriptor: Mapping[str, Any]) -> Name:
    return descriptor.get("namespace"), descriptor["name"]


@dataclass
class _StreamProgress:
    """The messages of one stream so far."""

    statuses: list[str] = field(default_factory=list)
    uncovered: int = 0
    states: int = 0
    records: int = 0

    @property
    def is_over(self) -> bool:
        return self.statuses[-1:] in (["COMPLETE"], ["INCOMPLETE"])


@dataclass
class _ReadProgress:
    """The progress of the configured streams, and the faults in it."""

    streams: Mapping[Name, Mapping[str, Any]]
    progress: dict[Name, _StreamProgress] = field(default_factory=dict)
    errors: int = 0

    def faults(self, message: Message) -> Iterator[str]:
        """Process one message; yield its faults."""
        body = message[_BODIES[message["type"]]]
        if message["type"] == "RECORD":
            yield from self._record(body)
        elif message["type"] == "STATE":
            yield from self._state(body)
        elif message["type"] == "TRACE" and body["type"] == "STREAM_STATUS":
            yield from self._status(body["stream_status"])
        elif _is_error(message):
            self.errors += 1

    def end(self, code: int) -> Iterator[str]:
        """Yield the faults at the end of the output."""
        for name, stream_progress in self.progress.items():
            if not stream_progress.is_over:
                yield f"TR4 {name} was started and has no last status"
            if code == 0 and stream_progress.uncovered:
                yield f"ST7 {stream_progress.uncovered} records of {name} are covered by no state"
            if code == 0 and not stream_progress.states:
                yield f"ST6 no state of {name}"
        if code and not self.errors:
            yield "RD10 it failed and wrote no ERROR trace"
        if not code and self.errors:
            yield "E9 an ERROR trace, and the exit is 0"
        unfinished = [
            name
            for name, stream_progress in self.progress.items()
            if "COMPLETE" not in stream_progress.statuses
        ]
        if code == 0 and unfinished:
            yield f"E9 the exit is 0 and {unfinished} are not complete"

    def _record(self, record: Mapping[str, Any]) -> Iterator[str]:
        name = (record.get("namespace"), record["stream"])
        stream_progress = self._get_progress(name)
        stream_progress.records += 1
        stream_progress.uncovered += 1
        yield from self._activity_faults(name, stream_progress)
        yield from _time_faults(record, "RD3")
        if not isinstance(record["emitted_at"], int):
            yield "RD3 emitted_at is no whole number"
        if not isinstance(record["data"], dict):
            yield "RD3 data is no object"
        known = self.streams.get(name, {}).get("json_schema", {}).get("properties", {})
        if extra := set(record["data"]) - set(known):
            yield f"SM4 {sorted(extra)} of {name} are not in the catalog"

    def _state(self, state: Mapping[str, Any]) -> Iterator[str]:
        if state["type"] == "STREAM":
            names = [_stream_name(state["stream"]["stream_descriptor"])]
            yield from self._activity_faults(names[0], self._get_progress(names[0]))
        else:
            names = list(self.progress)
        count = sum(self.progress[name].uncovered for name in names)
        record_count = (state.get("sourceStats") or {}).get("recordCount")
        if record_count != count:
            yield f"ST11 recordCount is {record_count} after {count} records since the last state"
        for name in names:
            self.progress[name].uncovered = 0
            self.progress[name].states += 1

    def _status(self, trace: Mapping[str, Any]) -> Iterator[str]:
        name, status = _stream_name(trace["stream_descriptor"]), trace["status"]
        if name not in self.streams:
            yield f"RD4 a status of {name}, which is not in the catalog"
        stream_progress = self._get_progress(name)
        before = stream_progress.statuses[-1] if stream_progress.statuses else None
        may_follow = {None: "STARTED", "STARTED": "RUNNING COMPLETE INCOMPLETE"}
        may_follow["RUNNING"] = "RUNNING COMPLETE INCOMPLETE"
        if status not in may_follow.get(before, "").split():
            yield f"TR4 {status} of {name} after {before}"
        if status == "COMPLETE" and stream_progress.records and before != "RUNNING":
            yield f"TR4 {name} had records and was never RUNNING"
        stream_progress.statuses.append(status)

    def _activity_faults(self, name: Name, stream_progress: _StreamProgress) -> Iterator[str]:
        if name not in self.streams:
            yield f"RD4 {name} is not in the catalog"
        elif not stream_progress.statuses:
            yield f"TR4 {name} has a message before it is STARTED"
        elif stream_progress.is_over:
            yield f"TR4 {name} has a message after {stream_progress.statuses[-1]}"

    def _get_progress(self, name: Name) -> _StreamProgress:
        return self.progress.setdefault(name, _StreamProgress())


# A destination's `write`


def _group_states(messages: Sequence[Message]) -> dict[str, list[Mapping[str, Any]]]:
    """Return the states by stream, with global states under a separate key."""
    states_by_scope: dict[str, list[Mapping[str, Any]]] = {}
    for message in messages:
        if message.get("type") != "STATE":
            continue
        state = message["state"]
        kind = state.get("type") or state.get("state_type")
        stream = state.get("stream") if kind == "STREAM" else None
        scope = repr(_stream_name(stream["stream_descriptor"])) if stream else "all streams"
        states_by_scope.setdefault(scope, []).append(state)
    return states_by_scope


def _without_stats(state: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in state.items() if name != "destinationStats"}


def _order_faults(
    scope: str, returned: Sequence[Mapping[str, Any]], sent: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Yield states that were not in the input, or are out of order."""
    remaining = iter(map(_without_stats, sent))
    for state in map(_without_stats, returned):
        if not any(sent_state == state for sent_state in remaining):
            yield f"D4 {scope}: {state} was returned, but was not sent, or not in this order"
            return


def _has_last(
    sent: Sequence[Mapping[str, Any]],
    returned: Mapping[str, Sequence[Mapping[str, Any]]],
    scope: str,
) -> bool:
    return bool(returned.get(scope)) and _without_stats(returned[scope][-1]) == _without_stats(
        sent[-1]
    )
