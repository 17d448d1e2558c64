"""Encoding of Singer messages with msgspec; names and output are those of singer_sdk."""

from __future__ import annotations

from typing import Any

import msgspec

from tap_core.singerlib.json import as_text

__all__ = ["enc_hook", "encoder", "serialize_jsonl"]


enc_hook = as_text
"""Convert a value that JSON does not support to a string. A datetime becomes ISO 8601."""

encoder = msgspec.json.Encoder(enc_hook=enc_hook, decimal_format="number")


def serialize_jsonl(obj: object, **_kwargs: Any) -> bytearray:
    """Encode a value as one line of JSON, with a line feed at the end."""
    line = bytearray()
    encoder.encode_into(obj, line)
    line += b"\n"
    return line
