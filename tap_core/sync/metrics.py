"""Record counts and sync durations of the streams of one run, logged as METRIC lines.

There is one count and one duration per stream and run. They include all partitions, all parent
records and all threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from tap_core.sync.plan import get_plan
from tap_core.sync.record_count import Tally
from tap_core.telemetry import trace_stream

if TYPE_CHECKING:
    from tap_core.sync.interfaces import SyncStream
    from tap_core.sync.sync_run import SyncRun

__all__ = ["record_metrics"]


@contextmanager
def record_metrics(stream: SyncStream, run: SyncRun) -> Iterator[Tally]:
    """Context manager that counts the records and measures the duration of a stream's sync.

    Yield the record counter. The metrics are logged at the end of the block. If blocks for the same
    stream are nested, as for child streams, they are logged once, at the end of the outer block.
    """
    if run.meter_stack is not None:
        with run.outbox.lock:
            tally = run.tallies.get(stream.name) or _begin(stream, run, run.meter_stack)
        yield tally
        return
    with ExitStack() as stack:
        stack.callback(run.tallies.clear)
        run.meter_stack = stack
        try:
            yield _begin(stream, run, stack)
        finally:
            run.meter_stack = None
            if not (run.is_broken or run.is_hurried):
                run.settle()  # buffered rows are sent, also after an error


def _begin(stream: SyncStream, run: SyncRun, stack: ExitStack) -> Tally:
    stack.enter_context(trace_stream(stream.name))
    counter, timer = stream.get_record_counter(), stream.get_sync_timer()
    for meter in (counter, timer):
        meter.with_context({})
        stack.enter_context(meter)
    plan = get_plan(stream)
    tally = Tally(counter, counts_rows=plan.uses_fast_path and plan.mapped is None)
    run.tallies[stream.name] = tally
    return tally
