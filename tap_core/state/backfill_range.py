"""Range of replication key values that a backfill reads, from the options ``--from`` and ``--to``.

The range includes its start and excludes its end. A value is a date-time, a date (which means
midnight) or a number. A value without an offset is in UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tap_core.parsing.iso8601 import parse_instant
from tap_core.state.replication_key_comparator import (
    ReplicationKeyComparator,
    ValueKind,
    parse_number,
)

__all__ = ["KeyRange", "ReadRange", "parse_range"]


@dataclass(frozen=True, slots=True)
class ReadRange:
    """Range of replication key values from ``start``, inclusive, to ``end``, exclusive, as text.

    With ``end=None``, the range has no end.
    """

    start: str
    end: str | None = None


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Range of a backfill, with values of a stream's replication key type, such as int or text.

    Attributes:
        start: Start of the range, inclusive; the stream is read from this value.
        end: End of the range, exclusive; None if it has no end. Later records are not written.
        last: Equal to ``end`` if reading stops there. None if later records must be read too,
            because their child streams are synced.
    """

    start: Any
    end: Any | None
    last: Any | None


def parse_range(start: str, end: str) -> ReadRange | None:
    """Parse the options ``--from`` and ``--to`` to a range; return None if neither was passed.

    An option that was not passed is an empty string.

    Raises:
        ValueError: A value is invalid, ``--to`` was passed without ``--from``, or the range is
            empty. The message names the option.
    """
    if not (start or end):
        return None
    if not start:
        raise ValueError("--to needs --from, the start of the range.")
    kinds = {
        option: _find_kind(option, text) for option, text in (("--from", start), ("--to", end))
    }
    if not end:
        return ReadRange(start)
    if kinds["--from"] is not kinds["--to"]:
        raise ValueError("--from and --to must both be date-times, or both be numbers.")
    if ReplicationKeyComparator(kinds["--from"]).newer_or_equal(start, end):
        raise ValueError(f"--to {end!r} is not after --from {start!r}.")
    return ReadRange(start, end)


def _find_kind(option: str, text: str) -> ValueKind:
    if not text or parse_instant(text) is not None:
        return ValueKind.INSTANT
    if parse_number(text) is not None:
        return ValueKind.NUMBER
    raise ValueError(f"{option} {text!r} is neither a date-time in ISO 8601 nor a number.")
