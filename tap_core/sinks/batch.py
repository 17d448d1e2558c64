"""`BatchSink`: base class of sinks that collect records and write them in batches.

Names and signatures are those of singer_sdk. A batch begins with its first record and ends when it
is drained (written to the destination).
"""

from __future__ import annotations

import abc
from datetime import datetime, timezone
from typing import Any
from uuid import uuid4

from tap_core.sinks.core import Sink
from tap_core.types import Record

__all__ = ["BatchSink"]


class BatchSink(Sink):
    """Base class of sinks that write records in batches; subclasses override `process_batch`."""

    def _get_context(self, record: Record) -> dict[str, Any]:  # noqa: ARG002  a hook
        if self._pending_batch is None:
            context = {"batch_id": str(uuid4()), "batch_start_time": datetime.now(timezone.utc)}
            self.start_batch(context)
            self._pending_batch = context
        return self._pending_batch

    def start_batch(self, context: dict[str, Any]) -> None:
        """Prepare a new batch. Its ``context`` contains ``batch_id`` and ``batch_start_time``."""

    def process_record(self, record: Record, context: dict[str, Any]) -> None:
        """Append a record to the current batch, in ``context["records"]``."""
        context.setdefault("records", []).append(record)

    @abc.abstractmethod
    def process_batch(self, context: dict[str, Any]) -> None:
        """Write the records in ``context["records"]`` to the destination.

        The records must be stored durably when this method returns, because the target then writes
        the state.
        """
