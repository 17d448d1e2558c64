"""Range of replication key values that a backfill reads, as the user writes it.

The range is half-open: it contains its start and not its end. A value is a date-time, a date or
a number; a date means midnight, a value without an offset is UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tap_core.parsing.instants import parse_instant
from tap_core.state.comparison import ReplicationKeyComparator, ValueKind, parse_number

__all__ = ["KeyRange", "ReadRange", "parse_range"]


@dataclass(frozen=True, slots=True)
class ReadRange:
    """Range of replication key values from ``start`` to before ``end``; None: to the last one."""

    start: str
    end: str | None = None


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Range as values of one stream's replication key, by its comparator.

    Attributes:
        start: Start of the range, and the value from which the stream is read.
        end: End of the range; None without one. Records from it on are not written.
        last: Value up to which the stream is read, inclusive; None to read to its end, also for the
            children of later records.
    """

    start: Any
    end: Any | None
    last: Any | None


def parse_range(start: str, end: str) -> ReadRange | None:
    """Return the range of the options ``--from`` and ``--to``; None if neither was passed.

    An empty text is an option that was not passed.

    Raises:
        ValueError: A value is invalid, ``--to`` has no ``--from``, or the range is empty. The
            message names the option.
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
