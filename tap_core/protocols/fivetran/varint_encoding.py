"""Encoding of protobuf varints and length-delimited fields.

For speed, the encodings of all 14-bit numbers are precomputed, because the functions run for every
value of every record. Source: Protocol Buffers, "Encoding", base 128 varints.
"""

from __future__ import annotations

from typing import Final

__all__ = ["LOW_BITS", "LOW_BYTES_TABLE", "encode_length_delimited", "encode_varint"]

LOW_BITS: Final = (1 << 14) - 1
"""Mask of the lowest 14 bits of a number, which are two bytes of a varint."""

LOW_BYTES_TABLE: Final = tuple(bytes((n & 0x7F | 0x80, n >> 7 | 0x80)) for n in range(1 << 14))
"""Encodings of the lowest 14 bits of a longer number: two bytes, each with the continuation bit."""

_LAST: Final = tuple(
    bytes((n,)) if n < 1 << 7 else bytes((n & 0x7F | 0x80, n >> 7)) for n in range(1 << 14)
)
"""Encodings of the last one or two bytes of a varint."""


def encode_varint(value: int) -> bytes:
    """Encode a 64-bit integer as a protobuf varint of one to ten bytes; negative ones take ten."""
    if 0 <= value <= LOW_BITS:
        return _LAST[value]
    value %= 1 << 64
    if value < 1 << 28:
        return LOW_BYTES_TABLE[value & LOW_BITS] + _LAST[value >> 14]
    if value < 1 << 42:
        return (
            LOW_BYTES_TABLE[value & LOW_BITS]
            + LOW_BYTES_TABLE[value >> 14 & LOW_BITS]
            + _LAST[value >> 28]
        )
    return (
        LOW_BYTES_TABLE[value & LOW_BITS]
        + LOW_BYTES_TABLE[value >> 14 & LOW_BITS]
        + encode_varint(value >> 28)
    )


def encode_length_delimited(tag: bytes, content: bytes) -> bytes:
    """Encode a protobuf field of variable length: its tag, the length and the content."""
    return tag + encode_varint(len(content)) + content
