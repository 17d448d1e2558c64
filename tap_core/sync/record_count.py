"""The number of records that a stream has sent.

Rules of the room: rows are counted when their chunk is handed over, so that an error or a
signal leaves neither a row that was not counted nor a count without its row.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tap_core.metrics import Counter

__all__ = ["Tally"]


class Tally:
    """Counts the records of one stream, in all threads.

    ``counts_rows`` tells that each record is one row; else stream maps make any number of rows
    of it, or hooks write it, and it is counted by the loop that pulled it.
    """

    def __init__(self, counter: Counter, *, counts_rows: bool) -> None:
        self._counter = counter
        self._counts_rows = counts_rows
        self._lock = threading.Lock()
        self._since_state = 0

    def sent(self, rows: int) -> None:
        """Count rows that left."""
        if self._counts_rows:
            self.count(rows)

    def pulled(self, records: int) -> None:
        """Note records that a loop is done with."""
        with self._lock:
            self._since_state += records
        if not self._counts_rows:
            self.count(records)

    def count(self, records: int) -> None:
        """Add to the count."""
        with self._lock:
            self._counter.increment(records)

    def is_due(self, frequency: int) -> bool:
        """Return whether so many records were pulled since this was last true."""
        with self._lock:
            if self._since_state < frequency:
                return False
            self._since_state %= frequency
            return True
