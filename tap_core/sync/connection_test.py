"""Connection test that reads the first record of one stream.

No record is written, and the source gets no more requests than the first record needs. A stream
without records or partitions passes the test.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from tap_core.exceptions import SyncLifecycleSignal
from tap_core.sync.engine import begin_partition, get_contexts
from tap_core.sync.record_input import call_get_records
from tap_core.sync.thread_stop_signal import close_records

if TYPE_CHECKING:
    from tap_core.sync.interfaces import SyncStream
    from tap_core.types import Context

__all__ = ["read_one_record"]


def read_one_record(stream: SyncStream) -> None:
    """Read the first record of a stream's first partition, and discard it.

    Errors raised by the tap's code are not caught.
    """
    with suppress(SyncLifecycleSignal):
        for context in islice(get_contexts(stream, None), 1):
            _pull_first(stream, context)


def _pull_first(stream: SyncStream, context: Context | None) -> None:
    begin_partition(stream, context, None)
    stream._context_reader.begin_trial(context)
    records = iter(call_get_records(stream, context))
    try:
        next(records, None)
    finally:
        close_records(records)
        stream._context_reader.end()
