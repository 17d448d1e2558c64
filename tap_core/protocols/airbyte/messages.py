"""Single messages of the Airbyte protocol, as lines.

Rules of the room: one message a line, its envelope and nothing but the field of its type.
Records are no business of this room: they are too many. Source of the form of each: the
Airbyte protocol, section "Messages".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from tap_core.events import StreamId

__all__ = [
    "analytics_line",
    "control_line",
    "descriptor",
    "encode_json",
    "estimate_line",
    "line",
    "log_line",
    "now_ms",
    "status_line",
    "trace_line",
]

encode_json: Callable[[Any], bytes] = msgspec.json.Encoder(
    decimal_format="number", enc_hook=str
).encode
"""Encode JSON's own types, decimals with all their digits, anything else as its text."""


def now_ms() -> int:
    """Return the present instant in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def descriptor(stream: StreamId) -> dict[str, str]:
    """Return what names a stream; a namespace only where there is one."""
    named = {"name": stream.name}
    return named if stream.namespace is None else {**named, "namespace": stream.namespace}


def line(kind: str, field: str, body: Mapping[str, Any]) -> bytes:
    """Return a message of a type, whose body stands in the field of that type."""
    return _encoded({"type": kind, field: body}) + b"\n"


def log_line(level: str, message: str, stack_trace: str | None = None) -> bytes:
    """Return a LOG message; ``level`` is one of the protocol's."""
    body = {"level": level, "message": message}
    return line("LOG", "log", {**body, "stack_trace": stack_trace} if stack_trace else body)


def trace_line(kind: str, body: Mapping[str, Any]) -> bytes:
    """Return a TRACE message of a kind, as of now."""
    field = kind.lower()
    return line("TRACE", "trace", {"type": kind, "emitted_at": now_ms(), field: body})


def status_line(stream: StreamId, status: str) -> bytes:
    """Return how far a stream has come: STARTED, RUNNING, COMPLETE or INCOMPLETE."""
    return trace_line("STREAM_STATUS", {"stream_descriptor": descriptor(stream), "status": status})


def estimate_line(
    stream: StreamId, kind: Literal["STREAM", "SYNC"], rows: int | None, nbytes: int | None
) -> bytes:
    """Return about how much a stream, or the whole sync, will bring."""
    known = {"row_estimate": rows, "byte_estimate": nbytes}
    return trace_line(
        "ESTIMATE",
        {
            **descriptor(stream),
            "type": kind,
            **{name: value for name, value in known.items() if value is not None},
        },
    )


def analytics_line(kind: str, value: str) -> bytes:
    """Return a measurement."""
    return trace_line("ANALYTICS", {"type": kind, "value": value})


def control_line(config: Mapping[str, Any]) -> bytes:
    """Return the word that the configuration is another one from now on."""
    body = {"type": "CONNECTOR_CONFIG", "emitted_at": now_ms()}
    return line("CONTROL", "control", {**body, "connectorConfig": {"config": config}})


def _encoded(message: Mapping[str, Any]) -> bytes:
    try:
        return encode_json(message)
    except UnicodeEncodeError:  # half a letter, somewhere in what others have written
        return encode_json(_whole(message))


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, Mapping):
        return {_whole(key): _whole(item) for key, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, list) else value
