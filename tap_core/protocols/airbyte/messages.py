"""Encoding of Airbyte messages as lines of JSON, except RECORD and STATE messages.

For speed, `AirbyteWriter` and `StreamStates` build the frequent RECORD and STATE messages from
bytes.
Source of the message formats: the Airbyte protocol, section "Messages".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from tap_core.events import StreamId
from tap_core.records.conform import to_json_compatible

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
"""Encode a value as JSON: decimals as numbers with all their digits, other types as strings."""


def now_ms() -> int:
    """Return the current time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def descriptor(stream: StreamId) -> dict[str, str]:
    """Return Airbyte's StreamDescriptor: the ``name`` and, if there is one, the ``namespace``."""
    named = {"name": stream.name}
    return named if stream.namespace is None else {**named, "namespace": stream.namespace}


def line(kind: str, field: str, body: Mapping[str, Any]) -> bytes:
    """Return the Airbyte message ``{"type": kind, field: body}`` as a line of JSON."""
    return _encode_message({"type": kind, field: body}) + b"\n"


def log_line(level: str, message: str, stack_trace: str | None = None) -> bytes:
    """Return a LOG message as a line of JSON. ``level`` is an Airbyte level, such as WARN."""
    body = {"level": level, "message": message}
    return line("LOG", "log", {**body, "stack_trace": stack_trace} if stack_trace else body)


def trace_line(kind: str, body: Mapping[str, Any]) -> bytes:
    """Return a TRACE message as a line of JSON, with the current time.

    ``kind`` is the trace type, such as ERROR. ``body`` is the content of a trace of this type.
    """
    field = kind.lower()
    return line("TRACE", "trace", {"type": kind, "emitted_at": now_ms(), field: body})


def status_line(stream: StreamId, status: str) -> bytes:
    """Return a STREAM_STATUS trace as a line of JSON. ``status`` is, for example, STARTED."""
    return trace_line("STREAM_STATUS", {"stream_descriptor": descriptor(stream), "status": status})


def estimate_line(
    stream: StreamId, kind: Literal["STREAM", "SYNC"], rows: int | None, nbytes: int | None
) -> bytes:
    """Return an ESTIMATE trace message as a line of JSON. Unknown numbers (None) are omitted.

    ``rows`` and ``nbytes`` are the expected numbers of rows and bytes. They apply to the stream if
    ``kind`` is STREAM, and to the whole sync if ``kind`` is SYNC.
    """
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
    """Return an ANALYTICS trace as a line of JSON. ``kind`` is the name of the metric."""
    return trace_line("ANALYTICS", {"type": kind, "value": value})


def control_line(config: Mapping[str, Any]) -> bytes:
    """Return a CONTROL message, which asks Airbyte to store ``config`` as the new settings.

    The message is a line of JSON.
    """
    body = {"type": "CONNECTOR_CONFIG", "emitted_at": now_ms()}
    return line("CONTROL", "control", {**body, "connectorConfig": {"config": config}})


def _encode_message(message: Mapping[str, Any]) -> bytes:
    try:
        return encode_json(message)
    except UnicodeEncodeError:  # lone surrogate in a string of the tap's code or the source
        return encode_json(to_json_compatible(message))
