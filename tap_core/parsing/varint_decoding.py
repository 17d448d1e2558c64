"""Decoding of varints: the variable-length integers of Thrift and Protocol Buffers.

Each byte has seven bits of the integer, the lowest bits first. Source: Protocol Buffers,
"Encoding"; Apache Thrift, "Compact protocol".
"""

from __future__ import annotations

from typing import Final

__all__ = ["read_varint"]

_CONTINUATION: Final = 0x80
"""Bit that is set in every byte of an integer except the last."""

_BITS: Final = 64
"""Maximum number of bits of an integer."""


def read_varint(data: bytes, offset: int) -> tuple[int, int]:
    """Decode the unsigned varint at ``offset``; return the integer and the next offset.

    Raises:
        IndexError: The data end within the integer.
        ValueError: The integer has more than 64 bits.
    """
    number = shift = 0
    while (byte := data[offset]) & _CONTINUATION:
        number |= (byte ^ _CONTINUATION) << shift
        shift += 7
        offset += 1
        if shift >= _BITS:
            break
    if shift + 1 >= _BITS and byte > 1:  # the tenth byte has only the highest bit
        raise ValueError("a number does not end within 64 bits")
    return number | byte << shift, offset + 1
