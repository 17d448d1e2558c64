"""Measurements of the target's work, as lines of the log in Singer's format.

Rules of the room: the names are those of singer_sdk's targets, whose readers look for
them: how long a batch took and how many records it brought, per stream, and the whole job.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from tap_core.metrics import Metric, Point, Status, Tag, Timer, get_metrics_logger, log

__all__ = ["batch_timer", "count_records", "job_timer"]

_LOAD: Final = "load"


@contextmanager
def job_timer(faults: Sequence[object]) -> Iterator[None]:
    """Time a run while it is entered; it has failed where faults are found in the end."""
    with Timer(Metric.JOB_DURATION, {Tag.JOB_TYPE: _LOAD}) as timer:
        yield
        if faults:
            timer.tags[Tag.STATUS] = Status.FAILED


def batch_timer(stream: str) -> Timer:
    """Time the commit of a batch while it is entered."""
    return Timer(Metric.BATCH_PROCESSING_TIME, {Tag.STREAM: stream})


def count_records(stream: str, records: int) -> None:
    """Say how many records a commit brought into the table."""
    tags: dict[str, Any] = {Tag.STREAM: stream, Tag.PID: os.getpid()}
    log(get_metrics_logger(), Point("counter", Metric.RECORD_COUNT, records, tags))
