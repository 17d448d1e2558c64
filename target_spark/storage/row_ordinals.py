"""Ordinals of rows that many processes put down at the same time.

The ordinal of a row is its place in the input: it decides which of two rows is newer, and counts in
``_sdc_sequence``, which must not run ahead of the clock. A worker cannot know how many rows others
read before its own, so its lines have the number of their part and of the row in it. When all parts
are read, the loader keeps as many ordinals as there are rows, and a line becomes its ordinal where
it is read. Sources: `target_spark.storage.spool` for lines, `target_spark.frames.sql_plan` for the
sequence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["first_in_part", "resolve_ordinals"]

_PARTS: Final = 1 << 62
"""Where the numbers of such lines begin; no input has so many messages."""

_ROW_BITS: Final = 32
_ROWS: Final = (1 << _ROW_BITS) - 1


def first_in_part(part: int) -> int:
    """Return the number in the line of the first row of a part; ``part`` counts within the run."""
    return _PARTS + (part << _ROW_BITS)


def resolve_ordinals(number: str, starts: Mapping[int, int]) -> str:
    """Return the SQL of the ordinal of a line, from the SQL of its number.

    ``starts`` are the ordinals of the first rows of all parts that may have lines, by part.
    """
    if not starts:
        return number
    first, last = min(starts), max(starts)
    listed = ",".join(str(starts.get(part, 0)) for part in range(first, last + 1))
    known = f"CAST(split('{listed}', ',') AS ARRAY<BIGINT>)"  # made once, and fast to parse
    part = f"CAST(shiftright({number} - {_PARTS}L, {_ROW_BITS}) AS INT)"
    ordinal = f"element_at({known}, {part} - {first - 1}) + ({number} & {_ROWS}L)"
    return f"if({number} < {_PARTS}L, {number}, {ordinal})"
