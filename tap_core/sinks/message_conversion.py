"""Conversion of internal events to Singer messages, for the overridden methods of a target.

Numbers with a fraction become `Decimal` and integers keep all digits, as in singer_sdk.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, Final, cast

import msgspec

from tap_core.events import ActivateVersion, BatchFiles, SchemaEvent
from tap_core.exceptions import InvalidInputLine, InvalidRecord
from tap_core.singerlib.json import load_json
from tap_core.types import Record

__all__ = [
    "decode_record",
    "decode_state",
    "make_batch_message",
    "make_record_message",
    "make_schema_message",
    "make_version_message",
]

_decode: Final[Callable[[bytes], Any]] = msgspec.json.Decoder(float_hook=Decimal).decode


def make_record_message(
    stream: str, record: Record, extracted: str | None, version: int | None
) -> dict[str, Any]:
    """Return the RECORD message for a record, as a dict like in singer_sdk.

    ``extracted`` is the extraction time in ISO 8601, and ``version`` the table version. None leaves
    them out of the message.
    """
    message: dict[str, Any] = {"type": "RECORD", "stream": stream, "record": record}
    if version is not None:
        message["version"] = version
    if extracted is not None:
        message["time_extracted"] = extracted
    return message


def decode_record(body: bytes) -> Record:
    """Decode a record from JSON; a number with a fraction becomes a `Decimal`.

    Integers may have up to 4,300 digits.

    Raises:
        InvalidRecord: Python cannot represent the record.
    """
    try:
        try:
            record = _decode(body)
        except (msgspec.MsgspecError, RecursionError, InvalidOperation):
            record = load_json(body)  # Python's own parser accepts values that msgspec rejects
        if record.__class__ is str:  # the JSON text of a record with a lone surrogate
            record = load_json(record)
    except ValueError as error:
        reason = getattr(error, "msg", error)
        raise InvalidRecord(f"the record cannot be read: {reason}", {}) from None
    return cast(Record, record)


def decode_state(body: bytes) -> Any:
    """Decode the value of a STATE message from JSON.

    Raises:
        InvalidInputLine: Python cannot represent the state.
    """
    try:
        return load_json(body)
    except ValueError as error:
        reason = getattr(error, "msg", error)
        raise InvalidInputLine(f"The value of a STATE message cannot be read: {reason}") from None


def make_schema_message(event: SchemaEvent) -> dict[str, Any]:
    """Return the SCHEMA message for an event, as a dict like in singer_sdk.

    Numbers with a fraction in the schema are `Decimal`.
    """
    message: dict[str, Any] = {
        "type": "SCHEMA",
        "stream": event.stream.name,
        "schema": _with_decimals(event.schema),
        "key_properties": list(event.keys),
    }
    if event.cursor is not None:
        message["bookmark_properties"] = event.bookmark_properties
    return message


def _with_decimals(value: Any) -> Any:
    """Return a copy of a JSON value in which each float is a `Decimal`, as in decoded records."""
    if isinstance(value, dict):
        return {key: _with_decimals(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_decimals(item) for item in value]
    return Decimal(repr(value)) if isinstance(value, float) else value


def make_version_message(event: ActivateVersion) -> dict[str, Any]:
    """Return the ACTIVATE_VERSION message for an event, as a dict like in singer_sdk."""
    return {
        "type": "ACTIVATE_VERSION",
        "stream": event.stream.name,
        "version": event.version,
    }


def make_batch_message(event: BatchFiles) -> dict[str, Any]:
    """Return the BATCH message for an event, as a dict like in singer_sdk.

    It contains the encoding and the URLs of the files.
    """
    message: dict[str, Any] = {
        "type": "BATCH",
        "stream": event.stream.name,
        "encoding": dict(event.format),
        "manifest": list(event.paths),
    }
    if event.version is not None:
        message["version"] = event.version
    return message
