"""Counting of the records that are skipped because a Jinja template of a manifest fails on them.

After all other records of the partition have been read, the sync of the partition ends with an
error. Its bookmark therefore does not advance, and the next sync reads the skipped records again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final

from tap_core.manifest.errors import FailedRecordsError, ManifestError
from tap_core.redaction.row_values import show_value
from tap_core.types import Record

__all__ = ["FailedRecords"]

_MAX_LOGGED: Final = 10
"""Number of failed records that are logged individually; others are only counted."""

_MAX_FAILED: Final = 1_000
"""Number of failed records of one partition at which reading stops."""


class FailedRecords:
    """Counter of records in one stream slice that are skipped because a Jinja template failed.

    The first ten of these records are logged. The counter is thread-safe.
    """

    def __init__(self, stream: str, keys: Sequence[str], log: Callable[..., None]) -> None:
        self.count = 0
        self._stream = stream
        self._keys = keys
        self._log = log
        self._first = ""
        self._lock = threading.Lock()

    def add(self, record: Record, error: ManifestError, number: int) -> None:
        """Count and log a failed record.

        Args:
            record: Record, which is skipped.
            error: Error of the template.
            number: Number of the record in the response, from 1.

        Raises:
            FailedRecordsError: 1,000 records have failed, so the template itself must be wrong.
        """
        message = f"{self._describe(record, number)}: {error}"
        with self._lock:
            self.count += 1
            count, self._first = self.count, self._first or message
        if count <= _MAX_LOGGED:
            self._log(
                "Stream '%s': a record is skipped, %s",
                self._stream,
                message,
                level=logging.ERROR,
            )
        if count >= _MAX_FAILED:
            raise self._make_error("The context was not read to its end.")

    def check(self) -> None:
        """Raise FailedRecordsError at the end of the slice if any of its records failed."""
        if self.count:
            raise self._make_error("All others were read.")

    def _describe(self, record: Record, number: int) -> str:
        known = {name: record[name] for name in self._keys if record.get(name) is not None}
        if not known:
            return f"number {number} of its response"
        return "the one with " + ", ".join(
            f"{name} {show_value(value, repr(value))}" for name, value in known.items()
        )

    def _make_error(self, consequence: str) -> FailedRecordsError:
        records = "1 record is" if self.count == 1 else f"{self.count:,} records are"
        return FailedRecordsError(
            f"Stream '{self._stream}': {records} skipped, because a template of the manifest fails."
            f" {consequence} The bookmark is unchanged, so that the next sync reads them again."
            " Correct the template, or add a default for such values. The first is"
            f" {self._first}"
        )
