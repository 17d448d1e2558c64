"""Variable-length integers (seven bits per byte, lowest first) of Thrift and Protocol Buffers.

Source: Protocol Buffers, "Encoding"; Apache Thrift, "Compact protocol".
"""

from __future__ import annotations

from typing import Final

__all__ = ["read_varint"]

_GOES_ON: Final = 0x80
"""The bit of a byte that others follow."""

_BITS: Final = 64


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the integer at a position and the position after it.

    Raises:
        IndexError: the data end within the integer.
        ValueError: it has more than 64 bits.
    """
    number = shift = 0
    while (byte := data[at]) & _GOES_ON:
        number |= (byte ^ _GOES_ON) << shift
        shift += 7
        at += 1
        if shift >= _BITS:
            raise ValueError("a number does not end within 64 bits")
    return number | byte << shift, at + 1
