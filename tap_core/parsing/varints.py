"""Numbers of seven bits a byte, the lowest first, as Thrift and Protocol Buffers write them.

Source: Protocol Buffers, "Encoding"; Apache Thrift, "Compact protocol".
"""

from __future__ import annotations

from typing import Final

__all__ = ["read_varint"]

_GOES_ON: Final = 0x80
"""The bit of a byte that others follow."""

_BITS: Final = 64


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number and where it ends.

    Raises:
        IndexError: the data end within it.
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
