"""Counter of the records of a stream, for the metric ``record_count``.

Rows are counted when they are written to the output. So the count is also right after an error or a
signal.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tap_core.metrics import Counter

__all__ = ["Tally"]


class Tally:
    """Thread-safe counter of the records of one stream.

    Args:
        counter: Metric to increment.
        counts_rows: True to count written rows, for streams whose records are one row each. False
            to count the records that were read, because stream maps may convert a record to any
            number of rows, or because the tap's code writes the rows.
    """

    def __init__(self, counter: Counter, *, counts_rows: bool) -> None:
        self._counter = counter
        self._counts_rows = counts_rows
        self._lock = threading.Lock()
        self._since_state = 0

    def count_written(self, rows: int) -> None:
        """Record that rows were written. The metric counts them if ``counts_rows`` is True."""
        if self._counts_rows:
            self.count(rows)

    def count_read(self, records: int) -> None:
        """Record that records were read. The metric counts them if ``counts_rows`` is False.

        They always count for `is_due`, which says when the next state is due.
        """
        with self._lock:
            self._since_state += records
        if not self._counts_rows:
            self.count(records)

    def count(self, records: int) -> None:
        """Add a number of records to the metric, such as those that other processes have synced."""
        with self._lock:
            self._counter.increment(records)

    def is_due(self, frequency: int) -> bool:
        """Return True if ``frequency`` records were read since the last call that returned True.

        The caller then writes a state.
        """
        with self._lock:
            if self._since_state < frequency:
                return False
            self._since_state %= frequency
            return True
