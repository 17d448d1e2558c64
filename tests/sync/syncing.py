"""Runs taps in the test's process and parses their output.

A tap consists of a few stream classes; its messages go to a list instead of standard output, and
its clock is fixed, so that two runs can be compared byte by byte.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from tap_core.protocols.singer.writer import SingerWriter
from tap_core.state.checkpoint_policy import CheckpointPolicy
from tap_core.streams.core import Stream
from tap_core.sync.sync_run import SyncRun
from tap_core.tap_base import Tap

NOW = "2024-05-06T07:08:09.000001+00:00"
STARTED = 1_714_979_289_000

INTEGER = {"type": ["integer", "null"]}
STRING = {"type": ["string", "null"]}
DATETIME = {"type": ["string", "null"], "format": "date-time"}


def schema(**properties: Any) -> dict[str, Any]:
    """Return the schema of an object with these properties."""
    return {"type": "object", "properties": properties}


class FixedClockTap(Tap):
    """A tap of some stream classes with a fixed clock."""

    name = "tap-test"
    kinds: Sequence[type[Stream]] = ()

    def discover_streams(self) -> list[Stream]:
        return [kind(self) for kind in self.kinds]

    def _begin_run(self) -> SyncRun:
        policy = CheckpointPolicy(clock=lambda: 0.0)
        return SyncRun(self.protocol_writer, self.document, policy, clock=lambda: NOW)

    @property
    def initialized_at(self) -> int:
        return STARTED

    def _setup_signal_handlers(self) -> None:
        """Leave the signals to pytest."""


class Output(list[bytes]):
    """The output of a tap, as the list of blocks that it wrote."""

    @property
    def text(self) -> bytes:
        return b"".join(self)

    @property
    def messages(self) -> list[dict[str, Any]]:
        return parse_messages(self.text)

    def select(self, kind: str, stream: str | None = None) -> list[dict[str, Any]]:
        return select_messages(self.messages, kind, stream)

    def records(self, stream: str | None = None) -> list[dict[str, Any]]:
        return [message["record"] for message in self.select("RECORD", stream)]

    @property
    def states(self) -> list[dict[str, Any]]:
        return [message["value"] for message in self.select("STATE")]


def parse_messages(text: bytes) -> list[dict[str, Any]]:
    """Return the documents of complete JSON lines, with exact numbers."""
    assert not text or text.endswith(b"\n"), text[-200:]
    return [json.loads(line, parse_float=Decimal) for line in text.splitlines()]


def select_messages(
    messages: Iterable[dict[str, Any]], kind: str, stream: str | None = None
) -> list[Any]:
    """Return the messages of a type, optionally of one stream."""
    return [
        message
        for message in messages
        if message["type"] == kind and stream in {None, message.get("stream")}
    ]


def metric_points(text: str, metric: str = "record_count") -> list[dict[str, Any]]:
    """Return the points of one metric in the text of a log."""
    lines = [line.split("METRIC: ")[1] for line in text.splitlines() if "METRIC: " in line]
    return [point for point in map(json.loads, lines) if point["metric"] == metric]


def read_counts(text: str) -> dict[str, int]:
    """Return the record counts per stream in a log, without streams that have none."""
    counts: Counter[str] = Counter()
    for point in metric_points(text):
        counts[point["tags"]["stream"]] += point["value"]
    return {name: count for name, count in counts.items() if count}


def count_records(messages: Iterable[dict[str, Any]]) -> dict[str, int]:
    """Return the number of RECORD messages per stream."""
    return dict(Counter(message["stream"] for message in select_messages(messages, "RECORD")))


def make(*kinds: type[Stream], output: Output | None = None, **options: Any) -> FixedClockTap:
    """Return a tap of these streams that writes to ``output``."""
    tap_class = type("OneTap", (FixedClockTap,), {"kinds": kinds})
    tap: FixedClockTap = tap_class(**options)
    tap.protocol_writer = SingerWriter((Output() if output is None else output).append)
    return tap


def sync(*kinds: type[Stream], **options: Any) -> Output:
    """Sync a tap of these streams and return its output."""
    output = Output()
    make(*kinds, output=output, **copy.deepcopy(options)).sync_all()
    return output


def sync_until_error(
    error: type[BaseException], *kinds: type[Stream], **options: Any
) -> tuple[Output, BaseException]:
    """Sync a tap that must end with this error; return its output and the error."""
    output = Output()
    try:
        make(*kinds, output=output, **copy.deepcopy(options)).sync_all()
    except error as caught:
        return output, caught
    raise AssertionError(f"no {error.__name__}: {output.text[-500:]!r}")


def stream(name: str, rows: Any, **members: Any) -> type[Stream]:
    """Return a stream class; ``rows`` is a list of records or a function of stream and context."""
    get_records: Callable[[Stream, Mapping[str, Any] | None], Iterable[Any]] = (
        rows if callable(rows) else lambda _stream, _context: copy.deepcopy(rows)
    )
    attributes = {
        "name": name,
        "schema": schema(id=INTEGER, at=STRING, n=INTEGER),
        "get_records": get_records,
        **members,
    }
    return type(name.title(), (Stream,), attributes)


def with_hook(kind: type[Stream]) -> type[Stream]:
    """Return the stream with a hook that changes nothing, so that the overridable loop syncs it."""

    def _process_record(self: Any, *args: Any, **kwargs: Any) -> None:
        super(subclass, self)._process_record(*args, **kwargs)

    subclass = type(kind.__name__, (kind,), {"_process_record": _process_record})
    return subclass


def bookmarks_with_records(
    messages: Iterable[dict[str, Any]], stream: str, key: str
) -> list[tuple[Any, Any]]:
    """Return per STATE the last record value of a stream before it and its bookmark."""
    last, pairs = None, []
    for message in messages:
        if message["type"] == "RECORD" and message["stream"] == stream:
            last = message["record"][key]
        elif message["type"] == "STATE":
            entry = message["value"].get("bookmarks", {}).get(stream, {})
            bookmark = entry.get("progress_markers", entry).get("replication_key_value")
            pairs.append((last, bookmark))
    return pairs
