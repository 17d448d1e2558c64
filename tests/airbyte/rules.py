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
        for number, line in enumerate(_lines(output))
        for fault in _line_faults(line, kinds | _SPOKEN)
    ]


def single_faults(output: bytes, kind: str) -> list[str]:
    """Return the faults of the output of `spec`, `check` or `discover`: one message of one type."""
    found = [message for message in _messages(output) if message["type"] == kind]
    wrong = [] if len(found) == 1 else [f"E14 {len(found)} messages of the type {kind}"]
    return [*envelope_faults(output, {kind}), *wrong]


def read_faults(output: bytes, catalog: Mapping[str, Any], code: int = 0) -> list[str]:
    """Return the faults of the output of `read` for a configured catalog and an exit code."""
    if found := envelope_faults(output, {"RECORD", "STATE"}):
        return found
    reading = _Reading(
        {_named(stream["stream"]): stream["stream"] for stream in catalog["streams"]}
    )
    for number, message in enumerate(_messages(output)):
        found += [f"{fault}: line {number}" for fault in reading.faults(message)]
    return [*found, *reading.end(code)]


def write_faults(fed: bytes, output: bytes, code: int = 0) -> list[str]:
    """Return the faults of the answer of `write` to the messages in ``fed``."""
    if found := envelope_faults(output, {"STATE"}):
        return found
    given = _scoped(_parse_messages(fed))
    answered = _scoped(_messages(output))
    for scope, states in answered.items():
        found += _order_faults(scope, states, given.get(scope, []))
    if code == 0:
        lost = [scope for scope, states in given.items() if not _has_last(states, answered, scope)]
        found += [f"D4 the last state of {scope} did not come out" for scope in lost]
    elif not any(_is_error(message) for message in _messages(output)):
        found.append("D16 it failed and wrote no ERROR trace")
    return found


# One line


def _lines(output: bytes) -> list[bytes]:
    *whole, rest = output.split(b"\n")
    return [*whole, rest] if rest else whole


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
        yield from _only(message, _BODIES, "E4")
        yield from _one_of_a_kind(message)


def _one_of_a_kind(message: Message) -> Iterator[str]:
    if message["type"] == "TRACE":
        yield from _only(message["trace"], _TRACES, "TR1")
        yield from _instant(message["trace"], "TR1")
    elif message["type"] == "STATE":
        yield from _only(message["state"], _STATES, "ST1")
    elif message["type"] == "CONTROL":
        yield from _instant(message["control"], "CT1")


def _only(body: Mapping[str, Any], fields: Mapping[str, str], rule: str) -> Iterator[str]:
    own = fields.get(body.get("type", ""))
    filled = [name for name in fields.values() if body.get(name) is not None]
    if filled != [own]:
        yield f"{rule} type {body.get('type')}, but there are {filled}"


def _instant(body: Mapping[str, Any], rule: str) -> Iterator[str]:
    value = body.get("emitted_at")
    if isinstance(value, bool) or not isinstance(value, int | float) or value < _YEAR_2001_MS:
        yield f"{rule} emitted_at is {value!r}, no time in milliseconds"


def _messages(output: bytes) -> list[Message]:
    return [json.loads(line) for line in _lines(output)]


def _parse_messages(fed: bytes) -> list[Message]:
    """Return the messages among the lines sent to a destination, without invalid lines."""
    found = []
    for line in _lines(fed):
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if isinstance(message, dict):
            found.append(message)
    return found


def _is_error(message: Message) -> bool:
    return message["type"] == "TRACE" and message["trace"]["type"] == "ERROR"


# A source's `read`


def _named(descriptor: Mapping[str, Any]) -> Name:
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
class _Reading:
    """The progress of the configured streams, and the faults in it."""

    streams: Mapping[Name, Mapping[str, Any]]
    lives: dict[Name, _StreamProgress] = field(default_factory=dict)
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
        for name, life in self.lives.items():
            if not life.is_over:
                yield f"TR4 {name} was begun and has no last status"
            if code == 0 and life.uncovered:
                yield f"ST7 {life.uncovered} records of {name} are covered by no state"
            if code == 0 and not life.states:
                yield f"ST6 no state of {name}"
        if code and not self.errors:
            yield "RD10 it failed and wrote no ERROR trace"
        if not code and self.errors:
            yield "E9 an ERROR trace, and the exit is 0"
        unfinished = [name for name, life in self.lives.items() if "COMPLETE" not in life.statuses]
        if code == 0 and unfinished:
            yield f"E9 the exit is 0 and {unfinished} are not complete"

    def _record(self, record: Mapping[str, Any]) -> Iterator[str]:
        name = (record.get("namespace"), record["stream"])
        life = self._alive(name)
        life.records += 1
        life.uncovered += 1
        yield from self._may_speak(name, life)
        yield from _instant(record, "RD3")
        if not isinstance(record["emitted_at"], int):
            yield "RD3 emitted_at is no whole number"
        if not isinstance(record["data"], dict):
            yield "RD3 data is no object"
        known = self.streams.get(name, {}).get("json_schema", {}).get("properties", {})
        if extra := set(record["data"]) - set(known):
            yield f"SM4 {sorted(extra)} of {name} are not in the catalog"

    def _state(self, state: Mapping[str, Any]) -> Iterator[str]:
        if state["type"] == "STREAM":
            names = [_named(state["stream"]["stream_descriptor"])]
            yield from self._may_speak(names[0], self._alive(names[0]))
        else:
            names = list(self.lives)
        count = sum(self.lives[name].uncovered for name in names)
        record_count = (state.get("sourceStats") or {}).get("recordCount")
        if record_count != count:
            yield f"ST11 recordCount is {record_count} after {count} records since the last state"
        for name in names:
            self.lives[name].uncovered = 0
            self.lives[name].states += 1

    def _status(self, trace: Mapping[str, Any]) -> Iterator[str]:
        name, status = _named(trace["stream_descriptor"]), trace["status"]
        if name not in self.streams:
            yield f"RD4 a status of {name}, which is not in the catalog"
        life = self._alive(name)
        before = life.statuses[-1] if life.statuses else None
        may_follow = {None: "STARTED", "STARTED": "RUNNING COMPLETE INCOMPLETE"}
        may_follow["RUNNING"] = "RUNNING COMPLETE INCOMPLETE"
        if status not in may_follow.get(before, "").split():
            yield f"TR4 {status} of {name} after {before}"
        if status == "COMPLETE" and life.records and before != "RUNNING":
            yield f"TR4 {name} had records and was never RUNNING"
        life.statuses.append(status)

    def _may_speak(self, name: Name, life: _StreamProgress) -> Iterator[str]:
        if name not in self.streams:
            yield f"RD4 {name} is not in the catalog"
        elif not life.statuses:
            yield f"TR4 {name} speaks before it is STARTED"
        elif life.is_over:
            yield f"TR4 {name} speaks after {life.statuses[-1]}"

    def _alive(self, name: Name) -> _StreamProgress:
        return self.lives.setdefault(name, _StreamProgress())


# A destination's `write`


def _scoped(messages: Sequence[Message]) -> dict[str, list[Mapping[str, Any]]]:
    """Return the states by stream, with global states under a separate key."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for message in messages:
        if message.get("type") != "STATE":
            continue
        state = message["state"]
        kind = state.get("type") or state.get("state_type")
        stream = state.get("stream") if kind == "STREAM" else None
        scope = repr(_named(stream["stream_descriptor"])) if stream else "all streams"
        found.setdefault(scope, []).append(state)
    return found


def _bare(state: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in state.items() if name != "destinationStats"}


def _order_faults(
    scope: str, answered: Sequence[Mapping[str, Any]], given: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Yield states that were not in the input, or are out of order."""
    left = iter(map(_bare, given))
    for state in map(_bare, answered):
        if not any(one == state for one in left):
            yield f"D4 {scope}: {state} came out, but did not come in, or not in this turn"
            return


def _has_last(
    given: Sequence[Mapping[str, Any]],
    answered: Mapping[str, Sequence[Mapping[str, Any]]],
    scope: str,
) -> bool:
    return bool(answered.get(scope)) and _bare(answered[scope][-1]) == _bare(given[-1])
