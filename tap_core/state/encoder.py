"""JSON encoding of the values in a state document.

The text is compact, on one line, in ASCII, with keys in the order of the dict. A state may contain
values of the tap's own code that JSON does not support. They are encoded as in singer_sdk:
datetimes in ISO 8601, decimals as numbers, NaN and infinity as null, anything else as its ``str``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from tap_core.singerlib.json import as_text

__all__ = ["encode_members", "encode_value"]


def encode_value(value: Any) -> bytes:
    """Return the JSON text of a value as ASCII bytes.

    Raises:
        TypeError: The type of a dict key is not supported.
    """
    try:
        return _FAST.encode(value).encode()
    except ValueError:  # the value contains NaN, infinity or a Decimal
        return _encode_exactly(value).encode()


def encode_members(members: Mapping[str, Any]) -> bytes:
    """Return the JSON text of an object without its braces, such as ``"a":1,"b":2``."""
    return encode_value(members)[1:-1]


def _default(value: Any) -> Any:
    """Convert a value that the json module cannot encode to a value that it can encode.

    Raises:
        ValueError: The value is a Decimal. The caller must use `_encode_exactly` instead.
    """
    if isinstance(value, Decimal):
        raise ValueError("a Decimal")  # noqa: TRY004  the value is valid; the caller uses `_encode_exactly`
    if isinstance(value, Mapping):
        return dict(value)
    return as_text(value)


_FAST = json.JSONEncoder(separators=(",", ":"), allow_nan=False, default=_default)


def _encode_exactly(value: Any) -> str:
    """Return the JSON text of a value that may contain decimals, NaN or infinity."""
    if isinstance(value, Mapping):
        return (
            "{"
            + ",".join(f"{_key(key)}:{_encode_exactly(item)}" for key, item in value.items())
            + "}"
        )
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_encode_exactly, value)) + "]"
    if isinstance(value, Decimal):
        return str(value) if value.is_finite() else "null"
    if isinstance(value, float) and not math.isfinite(value):
        return "null"
    return _FAST.encode(value)


def _key(key: Any) -> str:
    """Return a dict key as JSON text, such as ``"1"`` for the key 1, as the json module does."""
    return _FAST.encode({key: 0})[1:-3]
