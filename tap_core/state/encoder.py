"""Values of a state document to JSON text.

Rules of the room: compact, on one line, in ASCII, keys in the order of the dict; what JSON
cannot hold is written as singer_sdk writes it (date-times in ISO 8601, decimals as numbers,
NaN and infinity as null, anything else as its ``str``), because old states and authors'
own values are in the document too.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

__all__ = ["Encoder", "encode_value"]


def encode_value(value: Any) -> bytes:
    """Return the JSON text of a value, as ASCII bytes. Raises TypeError for odd keys."""
    try:
        return _FAST.encode(value).encode()
    except ValueError:  # NaN, infinity or a Decimal is somewhere in it
        return _careful(value).encode()


def _default(value: Any) -> Any:
    """Write what the json module does not know; ValueError asks for the careful way."""
    if isinstance(value, Decimal):
        raise ValueError("a Decimal")  # noqa: TRY004  the value is fine, only not here
    if isinstance(value, Mapping):
        return dict(value)
    return _to_text(value)


def _to_text(value: Any) -> str:
    return value.isoformat(sep="T") if isinstance(value, dt.datetime) else str(value)


_FAST = json.JSONEncoder(separators=(",", ":"), allow_nan=False, default=_default)


def _careful(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_key(key)}:{_careful(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_careful, value)) + "]"
    if isinstance(value, Decimal):
        return str(value) if value.is_finite() else "null"
    if isinstance(value, float) and not math.isfinite(value):
        return "null"
    return _FAST.encode(value)


def _key(key: Any) -> str:
    """Return the text of a key as the json module makes it from numbers and None too."""
    return _FAST.encode({key: 0})[1:-3]


class Encoder:
    """`encode_value` with a count of the bytes it made, so that costs can be tested."""

    __slots__ = ("made",)

    def __init__(self) -> None:
        self.made = 0

    def value(self, value: Any) -> bytes:
        """Return the JSON text of a value."""
        text = encode_value(value)
        self.made += len(text)
        return text

    def members(self, members: Mapping[str, Any]) -> bytes:
        """Return the JSON text of an object without its braces: ``"a":1,"b":2``."""
        return self.value(members)[1:-1]
