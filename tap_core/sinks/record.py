"""`RecordSink`: base class of sinks that write each record individually.

Names and signatures are those of singer_sdk. A record is stored durably when `process_record`
returns, so there are no batches.
"""

from __future__ import annotations

import abc
from typing import Any, final

from tap_core.sinks.core import Sink
from tap_core.types import Record

__all__ = ["RecordSink"]


class RecordSink(Sink):
    """Base class of sinks that write each record individually, in `process_record`."""

    current_size = 0

    def _after_process_record(self, context: dict[str, Any]) -> None:  # noqa: ARG002  a hook
        self.tally_record_written()

    @final
    def process_batch(self, context: dict[str, Any]) -> None:
        """Do nothing: a `RecordSink` has no batches."""

    @final
    def start_batch(self, context: dict[str, Any]) -> None:
        """Do nothing: a `RecordSink` has no batches."""

    @abc.abstractmethod
    def process_record(self, record: Record, context: dict[str, Any]) -> None:
        """Write a record, and return only when it is stored durably."""
