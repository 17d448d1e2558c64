"""Base classes of sinks: `Sink`, `RecordSink` and `BatchSink`."""

from __future__ import annotations

from typing import Any

from tap_core.sinks.batch import BatchSink
from tap_core.sinks.core import Sink
from tap_core.sinks.record import RecordSink

__all__ = ["BatchSink", "RecordSink", "Sink"]


def __getattr__(name: str) -> Any:
    """Return an object of `tap_core.sql`, such as ``SQLSink``, and emit a deprecation warning.

    singer_sdk has these names in its module of sinks.
    """
    from tap_core.compat.deprecation import deprecated_import

    return deprecated_import(name, old=__name__, known=("SQLSink",), new="tap_core.sql")
