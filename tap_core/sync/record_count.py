"""Number of records that a stream has sent.

Rows are counted when their chunk is written, so that neither an error nor a signal can
separate a row from its count.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tap_core.metrics import Counter

__all__ = ["Tally"]


class Tally:
    """Thread-safe counter of the records of one stream.

    If ``counts_rows`` is True, each record is one row, and written rows are counted. If it is
    False, records read are counted: stream maps may turn a record into any number of rows, or the
    tap's code writes the rows.
    """

    def __init__(self, counter: Counter, *, counts_rows: bool) -> None:
        self._counter = counter
        self._counts_rows = counts_rows
        self._lock = threading.Lock()
        self._since_state = 0

    def sent(self, rows: int) -> None:
        """Count written rows. Has an effect only if ``counts_rows`` is True."""
        if self._counts_rows:
            self.count(rows)

    def pulled(self, records: int) -> None:
        """Count records that the sync loop has read and processed."""
        with self._lock:
            self._since_state += records
        if not self._counts_rows:
            self.count(records)

    def count(self, records: int) -> None:
        """Add to the record count."""
        with self._lock:
            self._counter.increment(records)

    def is_due(self, frequency: int) -> bool:
        """Return True if at least ``frequency`` records were read since it was last due."""
        with self._lock:
            if self._since_state < frequency:
                return False
            self._since_state %= frequency
            return True
