"""Encoding of dates and datetimes as protobuf Timestamp messages.

A Timestamp has the seconds since 1970, rounded down, and the remaining nanoseconds. Digits beyond
nanoseconds are truncated. A datetime without a time zone is UTC.
Source: Protocol Buffers, ``google.protobuf.Timestamp``.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import Any, Final

from tap_core.parsing.iso8601 import parse_instant
from tap_core.protocols.fivetran.varint_encoding import LOW_BITS, LOW_BYTES_TABLE, encode_varint

__all__ = ["encode_date", "encode_datetime", "encode_datetime_text", "encode_timestamp"]

_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  compared only with UTC values
_EPOCH_UTC: Final = _EPOCH.replace(tzinfo=timezone.utc)
_FIRST_DAY: Final = _EPOCH.toordinal()
_SECONDS_PER_DAY: Final = 86_400
_DATE_LENGTH: Final = len("2024-01-31")
_MAX_FAST_LENGTH: Final = len("2024-01-31T00:00:00.000000")
_UTC_OFFSET: Final = "+00:00"
_MAX_CACHED: Final = 4_096

_parse = datetime.fromisoformat


class _HighBitsCache(dict[int, bytes]):
    """Cache of the protobuf bytes for the upper bits of a timestamp's seconds.

    The keys are the upper bits, which change rarely. The lowest 14 bits are encoded separately.
    """

    def __missing__(self, high: int) -> bytes:
        encoded = encode_varint(high)
        if len(self) < _MAX_CACHED:
            self[high] = encoded
        return encoded


_high_bits: Final = _HighBitsCache()

_SECONDS: Final = tuple(b"\x08" + low for low in LOW_BYTES_TABLE)
"""Tag of the field ``seconds`` and the first two bytes of its varint, by the lowest 14 bits."""
_NANOS: Final = tuple(b"\x10" + low for low in LOW_BYTES_TABLE)
"""The same for the field ``nanos``."""
_FIVE_BYTE_NANOS: Final = 1 << 28
"""Smallest number of nanoseconds whose varint takes five bytes."""


def encode_timestamp(seconds: int, nanos: int = 0) -> bytes:
    """Return the protobuf Timestamp for a time, encoded as bytes.

    Args:
        seconds: Seconds since 1970 in UTC, rounded down.
        nanos: Nanoseconds after that second.
    """
    if seconds > LOW_BITS:
        encoded = _SECONDS[seconds & LOW_BITS] + _high_bits[seconds >> 14]
    else:
        encoded = b"\x08" + encode_varint(seconds) if seconds else b""
    if nanos >= _FIVE_BYTE_NANOS:
        low, middle = _NANOS[nanos & LOW_BITS], LOW_BYTES_TABLE[nanos >> 14 & LOW_BITS]
        return encoded + low + middle + encode_varint(nanos >> 28)
    return encoded + b"\x10" + encode_varint(nanos) if nanos else encoded


def encode_datetime_text(text: str) -> bytes:
    """Encode an ISO 8601 datetime, such as ``2024-01-31T12:00:00Z``, as a protobuf Timestamp.

    Raises:
        ValueError: The string is not a datetime.
    """
    plain = text
    if text[-1:] == "Z":
        plain = text[:-1]
    elif text[-6:] == _UTC_OFFSET:
        plain = text[:-6]
    if len(plain) > _MAX_FAST_LENGTH:
        return _encode_slowly(text)
    try:
        since = _parse(plain) - _EPOCH
    except (ValueError, TypeError):  # TypeError: it has another time zone
        return _encode_slowly(text)
    return encode_timestamp(
        since.days * _SECONDS_PER_DAY + since.seconds, since.microseconds * 1_000
    )


def encode_datetime(value: Any) -> bytes:
    """Encode a datetime, a date or an ISO 8601 datetime string as a protobuf Timestamp.

    Raises:
        ValueError: The value is not a datetime.
    """
    return encode_datetime_text(value) if type(value) is str else _encode_slowly(value)


def encode_date(value: Any) -> bytes:
    """Encode a date, or a datetime at midnight UTC, as a protobuf Timestamp of midnight UTC.

    Raises:
        ValueError: The value is not a date, or has another time than midnight UTC.
    """
    if isinstance(value, str) and len(value) == _DATE_LENGTH:
        value = date.fromisoformat(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        return encode_timestamp((value.toordinal() - _FIRST_DAY) * _SECONDS_PER_DAY)
    parsed = parse_instant(value)
    if parsed is None:
        raise ValueError("not a date")
    moment, beyond = parsed
    offset = moment.utcoffset()
    if beyond or offset or moment.time() != datetime.min.time():
        raise ValueError("a date with a time of day")
    return encode_timestamp((moment.toordinal() - _FIRST_DAY) * _SECONDS_PER_DAY)


def _encode_slowly(value: Any) -> bytes:
    """Encode a datetime, date or ISO 8601 string of any format as a protobuf Timestamp.

    This is the slow path for values that `encode_datetime_text` does not support.

    Raises:
        ValueError: The value is not a datetime.
    """
    parsed = parse_instant(value)
    if parsed is None:
        raise ValueError("not a datetime")
    moment, beyond = parsed
    since: timedelta = moment - _EPOCH_UTC
    nanos = since.microseconds * 1_000 + int(beyond[:3].ljust(3, "0"))
    return encode_timestamp(since.days * _SECONDS_PER_DAY + since.seconds, nanos)
