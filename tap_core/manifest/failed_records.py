"""Records of which a template cannot be rendered: left out, and an error when all others were read.

Invariant: what was left out is never acknowledged. No window of its context is closed behind it,
and the context ends with an error, so that its bookmark stays where it was.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from tap_core.manifest.errors import FailedRecordsError, ManifestError
from tap_core.redaction.row_values import show_value
from tap_core.types import Record

__all__ = ["FailedRecords"]

_LOGGED: Final = 10
"""Records that the log names one by one; more of them are counted."""

_MOST: Final = 1_000
"""Records of one context after which it is not read to its end: the template is wrong then."""


class FailedRecords:
    """The failed records of one context of a stream; several threads may add to it."""

    def __init__(self, stream: str, keys: Sequence[str], log: Callable[..., None]) -> None:
        self.count = 0
        self._stream = stream
        self._keys = keys
        self._log = log
        self._first = ""
        self._lock = threading.Lock()

    def add(self, record: Record, error: ManifestError, number: int) -> None:
        """Note a record that is left out; ``number`` is its place in the answer, from 1.

        Raises:
            FailedRecordsError: too many have failed for it to be the records' fault.
        """
        message = f"{self._describe(record, number)}: {error}"
        with self._lock:
            self.count += 1
            count, self._first = self.count, self._first or message
        if count <= _LOGGED:
            self._log(
                "Stream '%s': a record is left out, %s",
                self._stream,
                message,
                level=logging.ERROR,
            )
        if count >= _MOST:
            raise self._error("The context was not read to its end.")

    def check(self) -> None:
        """Raise FailedRecordsError if any record has failed."""
        if self.count:
            raise self._error("All others were read.")

    def _describe(self, record: Record, number: int) -> str:
        known = {name: record[name] for name in self._keys if record.get(name) is not None}
        if not known:
            return f"number {number} of its answer"
        return "the one with " + ", ".join(f"{name} {_show(one)}" for name, one in known.items())

    def _error(self, rest: str) -> FailedRecordsError:
        records = "1 record is" if self.count == 1 else f"{self.count:,} records are"
        return FailedRecordsError(
            f"Stream '{self._stream}': {records} left out, since a template of the manifest fails."
            f" {rest} The bookmark stays where it was, so that the next sync reads them again."
            " Correct the template, or let it give a default for such values. The first is"
            f" {self._first}"
        )


def _show(value: Any) -> str:
    return show_value(value, repr(value))
