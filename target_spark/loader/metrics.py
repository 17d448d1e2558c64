"""Metrics of a load, logged in Singer's format: time and records per batch, duration of the run.

The names are those of singer_sdk's targets, so that existing log parsers find them.
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
    """Context manager that logs the duration of a whole run, its block, as a Singer metric.

    ``faults`` is the list of the run's errors. If it is not empty when the block ends, the run is
    logged as failed.
    """
    with Timer(Metric.JOB_DURATION, {Tag.JOB_TYPE: _LOAD}) as timer:
        yield
        if faults:
            timer.tags[Tag.STATUS] = Status.FAILED


def batch_timer(stream: str) -> Timer:
    """Return a context manager that logs the time a batch's commit takes, as a Singer metric.

    ``stream`` is the name of the batch's stream.
    """
    return Timer(Metric.BATCH_PROCESSING_TIME, {Tag.STREAM: stream})


def count_records(stream: str, records: int) -> None:
    """Log the number of records that a commit wrote for a stream, as a Singer metric."""
    tags: dict[str, Any] = {Tag.STREAM: stream, Tag.PID: os.getpid()}
    log(get_metrics_logger(), Point("counter", Metric.RECORD_COUNT, records, tags))
