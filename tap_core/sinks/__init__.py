"""What an author of a target subclasses."""

from __future__ import annotations

from tap_core.sinks.batch import BatchSink
from tap_core.sinks.core import Sink
from tap_core.sinks.record import RecordSink

__all__ = ["BatchSink", "RecordSink", "Sink"]
