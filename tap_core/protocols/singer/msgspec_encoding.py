"""Encoding of Singer messages with msgspec; names and output are those of singer_sdk."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

__all__ = ["enc_hook", "encoder", "serialize_jsonl"]


def enc_hook(obj: Any) -> Any:
    """Convert a value that JSON does not support to a string. A datetime becomes ISO 8601."""
    return obj.isoformat(sep="T") if isinstance(obj, datetime) else str(obj)


encoder = msgspec.json.Encoder(enc_hook=enc_hook, decimal_format="number")


def serialize_jsonl(obj: object, **_kwargs: Any) -> bytearray:
    """Encode a value as one line of JSON, with a line feed at the end."""
    line = bytearray()
    encoder.encode_into(obj, line)
    line += b"\n"
    return line
