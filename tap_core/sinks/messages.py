"""Events as the messages that authors' hooks take, and the bodies of records as dicts.

Rules of the room: fractions become `Decimal` and integers keep all their digits, as in
singer_sdk, whose hooks these are.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, cast

import msgspec

from tap_core.documents import load_json
from tap_core.events import Describe, Files, Truncate
from tap_core.types import Record

__all__ = ["batch_message", "record_message", "record_of", "schema_message", "version_message"]

_decode: Final[Callable[[bytes], Any]] = msgspec.json.Decoder(float_hook=Decimal).decode


def record_message(
    stream: str, record: Record, extracted: str | None, version: int | None
) -> dict[str, Any]:
    """Return a RECORD message."""
    message: dict[str, Any] = {"type": "RECORD", "stream": stream, "record": record}
    if version is not None:
        message["version"] = version
    if extracted is not None:
        message["time_extracted"] = extracted
    return message


def record_of(body: bytes) -> Record:
    """Read a record; fractions become `Decimal`, integers keep all their digits."""
    record = _decode(body)
    if record.__class__ is str:  # half of a letter, which only Python's own reader takes
        record = load_json(record)
    return cast(Record, record)


def schema_message(event: Describe) -> dict[str, Any]:
    """Return a SCHEMA message."""
    message: dict[str, Any] = {
        "type": "SCHEMA",
        "stream": event.stream.name,
        "schema": _with_decimals(event.schema),
        "key_properties": list(event.keys),
    }
    if event.cursor is not None:
        message["bookmark_properties"] = [event.cursor]
    return message


def _with_decimals(value: Any) -> Any:
    """Copy, with decimals for floats: decimals of records are measured against them."""
    if isinstance(value, dict):
        return {key: _with_decimals(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_decimals(item) for item in value]
    return Decimal(repr(value)) if isinstance(value, float) else value


def version_message(event: Truncate) -> dict[str, Any]:
    """Return an ACTIVATE_VERSION message."""
    return {
        "type": "ACTIVATE_VERSION",
        "stream": event.stream.name,
        "version": event.version,
    }


def batch_message(event: Files) -> dict[str, Any]:
    """Return a BATCH message."""
    message: dict[str, Any] = {
        "type": "BATCH",
        "stream": event.stream.name,
        "encoding": dict(event.format),
        "manifest": list(event.paths),
    }
    if event.version is not None:
        message["version"] = event.version
    return message
