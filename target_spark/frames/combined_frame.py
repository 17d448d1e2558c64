"""Rows of one commit that were received under several table schemas, as one DataFrame."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from target_spark.columns import ORDINAL
from target_spark.frames.spool_frame import Counts, SpoolFrame
from target_spark.tables.identifiers import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["CombinedFrame"]


class CombinedFrame:
    """Good and bad rows of one commit, from one `SpoolFrame` for each table schema of its batches.

    Only an overwrite can have several table schemas, because all rows of a stream are then kept
    until the stream is complete.

    Args:
        parts: The frame and the number of received rows for each table schema.
    """

    def __init__(self, parts: Sequence[tuple[SpoolFrame, int]]) -> None:
        self._parts = parts

    def good(self, strict: bool) -> DataFrame:
        """Return the rows whose values all fit their columns (see `SpoolFrame.good`).

        A column that a table schema does not fill is null in its rows. The last column is the
        ordinal.
        """
        rows = _union([frame.good(strict) for frame, _ in self._parts])
        names = (name for name in rows.columns if name != ORDINAL)
        return rows.select(*map(quote, names), quote(ORDINAL))

    def counts(self, *, all_good: bool = False) -> Counts:
        """Return the row counts of the DataFrame that `good` returned last, after an action on it.

        Args:
            all_good: True if all received rows are good, to check the numbers that Spark collected.
        """
        counts = [frame.counts(count if all_good else None) for frame, count in self._parts]
        zoneless: Counter[str] = Counter()
        for part in counts:
            zoneless.update(part.zoneless)
        return Counts(sum(p.rows for p in counts), zoneless, sum(p.nulled for p in counts))

    def bad(self) -> DataFrame:
        """Return the rows with values that do not fit their columns (see `SpoolFrame.bad`)."""
        return _union([frame.bad() for frame, _ in self._parts])


def _union(parts: Sequence[DataFrame]) -> DataFrame:
    return reduce(
        lambda rows, other_rows: rows.unionByName(other_rows, allowMissingColumns=True), parts
    )
