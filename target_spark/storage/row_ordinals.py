"""Ordinals (positions in the input) of rows that several Spark workers write at the same time.

The ordinal decides which of two rows with the same key is newer, and is part of ``_sdc_sequence``.
Each worker reads one partition of the input and does not know how many rows precede it. So it
writes provisional numbers, made of the partition number and the row number in the partition. After
all partitions are read, the first ordinal of each partition is known, and Spark converts the
provisional numbers when it reads the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["first_in_part", "resolve_ordinals"]

_FIRST_PROVISIONAL: Final = 1 << 62
"""The lowest provisional number. The ordinals of rows are always lower."""

_ROW_BITS: Final = 32
_ROW_MASK: Final = (1 << _ROW_BITS) - 1


def first_in_part(partition: int) -> int:
    """Return the provisional number of the first row that a Spark worker reads from a partition.

    Later rows of the partition count up from it. A provisional number is later converted to the
    row's ordinal (its position in the input), which the worker does not know. ``partition`` is the
    number of the partition, which is unique within the run.
    """
    return _FIRST_PROVISIONAL + (partition << _ROW_BITS)


def resolve_ordinals(number: str, starts: Mapping[int, int]) -> str:
    """Return a SQL expression for a row's ordinal (its position in the input).

    Args:
        number: The SQL expression, such as a column name, of the number stored with the row. This
            is the ordinal, or a provisional number (see `first_in_part`) to convert.
        starts: The ordinal of the first row of each partition, by partition number. Empty if no row
            has a provisional number.
    """
    if not starts:
        return number
    first, last = min(starts), max(starts)
    listed = ",".join(str(starts.get(part, 0)) for part in range(first, last + 1))
    first_ordinals = (
        f"CAST(split('{listed}', ',') AS ARRAY<BIGINT>)"  # a constant that is fast to parse
    )
    part = f"CAST(shiftright({number} - {_FIRST_PROVISIONAL}L, {_ROW_BITS}) AS INT)"
    ordinal = f"element_at({first_ordinals}, {part} - {first - 1}) + ({number} & {_ROW_MASK}L)"
    return f"if({number} < {_FIRST_PROVISIONAL}L, {number}, {ordinal})"
