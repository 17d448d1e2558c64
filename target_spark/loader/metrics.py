"""Metrics of the load, logged in Singer's format.

The names are those of singer_sdk's targets, so that existing log parsers find them: the time and
the number of records of each batch, per stream, and the duration of the job.
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
    """Time the run in a ``with`` block; log it as failed if ``faults`` is not empty at the end."""
    with Timer(Metric.JOB_DURATION, {Tag.JOB_TYPE: _LOAD}) as timer:
        yield
        if faults:
            timer.tags[Tag.STATUS] = Status.FAILED


def batch_timer(stream: str) -> Timer:
    """Return a context manager that logs the duration of a batch commit."""
    return Timer(Metric.BATCH_PROCESSING_TIME, {Tag.STREAM: stream})


def count_records(stream: str, records: int) -> None:
    """Log the number of records that a commit wrote to the table."""
    tags: dict[str, Any] = {Tag.STREAM: stream, Tag.PID: os.getpid()}
    log(get_metrics_logger(), Point("counter", Metric.RECORD_COUNT, records, tags))
