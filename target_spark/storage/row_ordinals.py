"""Ordinals of rows that several processes spool at the same time.

A row's ordinal is its position in the input: it decides which of two rows is newer, and is part of
``_sdc_sequence``, which must not run ahead of the clock. A worker does not know how many rows
others read before its own, so its lines contain a line number: the number of its part (of the
input) and of the row in it. After all parts are read, the loader reserves one ordinal per row, and
line numbers are converted when the lines are read. See `target_spark.storage.spool` for lines and
`target_spark.frames.sql_plan` for the sequence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["first_in_part", "resolve_ordinals"]

_PARTS: Final = 1 << 62
"""The first number of such lines; larger than the number of messages of any input."""

_ROW_BITS: Final = 32
_ROWS: Final = (1 << _ROW_BITS) - 1


def first_in_part(part: int) -> int:
    """Return the provisional number of the first row of a part of the input.

    Each part is read by one process, which does not know how many rows precede the part.
    `resolve_ordinals` later converts the provisional numbers. Parts are numbered within the run.
    """
    return _PARTS + (part << _ROW_BITS)


def resolve_ordinals(number: str, starts: Mapping[int, int]) -> str:
    """Return the SQL expression that computes a row's ordinal, its position in the input.

    Args:
        number: The SQL expression of the number stored with the row. This is the ordinal or a
            provisional number (see `first_in_part`).
        starts: The ordinal of the first row of each part, by the number of the part.
    """
    if not starts:
        return number
    first, last = min(starts), max(starts)
    listed = ",".join(str(starts.get(part, 0)) for part in range(first, last + 1))
    first_ordinals = (
        f"CAST(split('{listed}', ',') AS ARRAY<BIGINT>)"  # a constant that is fast to parse
    )
    part = f"CAST(shiftright({number} - {_PARTS}L, {_ROW_BITS}) AS INT)"
    ordinal = f"element_at({first_ordinals}, {part} - {first - 1}) + ({number} & {_ROWS}L)"
    return f"if({number} < {_PARTS}L, {number}, {ordinal})"
