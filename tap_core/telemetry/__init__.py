"""Traces and metrics of taps and targets, sent with OpenTelemetry."""

from tap_core.telemetry.hooks import (
    begin_stream,
    count_commit,
    count_retry,
    record_metric,
    trace_batch,
    trace_request,
    trace_run,
    trace_stream,
)

__all__ = [
    "begin_stream",
    "count_commit",
    "count_retry",
    "record_metric",
    "trace_batch",
    "trace_request",
    "trace_run",
    "trace_stream",
]
