"""The quarantine of a table: its columns, what goes into it, and how much of it is allowed.

Rules of the room: a record is kept as it came, byte by byte, with every reason why it did
not fit and with where it stood in the input, so that it can be loaded again. What is done
with a quarantine as a table (fitting it, committing to it) is the writers' business.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from target_spark.columns import Array, Column, ColumnType, Integer, Layout, Text, Timestamp
from target_spark.errors import QuarantineError
from target_spark.tables import QUARANTINE, Table
from target_spark.work import Work

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["LAYOUT", "Limit", "examples", "quarantine_of", "values_of"]

_COLUMNS: Final[Mapping[str, ColumnType]] = {
    "raw": Text(),
    "reasons": Array(Text()),
    "ordinal": Integer(),
    "extracted_at": Timestamp(),
    "quarantined_at": Timestamp(),
    "batch": Integer(),
    "run": Text(),
    "version": Integer(),
    "replay": Text(),
}
LAYOUT: Final = Layout(tuple(Column(name, name, type_) for name, type_ in _COLUMNS.items()))
"""The columns of every quarantine. ``replay`` names the run that loads the record again."""

_EXAMPLES: Final = 3


class Limit:
    """How many rows may be set aside in a run, over all tables and threads."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._count = 0
        self._lock = threading.Lock()

    def add(self, count: int, work: Work, examples: str) -> None:
        """Count rows that are about to be set aside.

        Raises:
            QuarantineError: they are too many.
        """
        with self._lock:
            total = self._count + count
            if self._limit is not None and total > self._limit:
                raise QuarantineError(
                    f"{count} of {work.count} rows of stream {work.stream} do not fit their"
                    f" columns, for example: {examples}. That makes {total} in this run, and"
                    f" max_quarantined is {self._limit}; nothing of this batch is committed."
                )
            self._count = total


def quarantine_of(table: Table) -> Table:
    """Return where the rows go that do not fit a table."""
    return table.beside(QUARANTINE)


def values_of(batch: int, run: str) -> tuple[str, ...]:
    """Return SQL for each column, over the rows that `frames.Frame.bad` gives."""
    made = {
        "quarantined_at": "current_timestamp()",
        "batch": f"{batch}L",
        "run": f"'{run}'",
        "replay": "CAST(NULL AS STRING)",
    }
    return tuple(f"{made.get(name, f'`{name}`')} AS `{name}`" for name in _COLUMNS)


def examples(bad: DataFrame) -> str:
    """Return in words what is wrong with the first few rows."""
    rows = bad.select("ordinal", "reasons").orderBy("ordinal").limit(_EXAMPLES).collect()
    return "; ".join(f"message {row.ordinal}: {', '.join(row.reasons)}" for row in rows)
