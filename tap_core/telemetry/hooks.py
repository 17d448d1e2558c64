"""Functions that report spans and metrics of taps and targets to OpenTelemetry.

They have an effect only if the extra ``otel`` is installed and OpenTelemetry's environment
variables set an endpoint or the exporter ``otlp``. Otherwise OpenTelemetry is not imported, and
each function returns at once. A failure is logged as a warning and never affects the run.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final

from tap_core.redaction import Secrets
from tap_core.telemetry.trace import Trace

if TYPE_CHECKING:
    import requests

    from tap_core.telemetry.recording import Telemetry

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


def _ignore_status(_status: int) -> None:
    """Do nothing. `trace_request` yields this function if telemetry is off."""


_OFF: Final = Trace()
_NO_TRACE: Final = nullcontext(_OFF)
_NO_STATUS: Final = nullcontext(_ignore_status)

_lock: Final = threading.Lock()
_active: Telemetry | None = None
"""Recorder of the runs in progress; None if there is no run or telemetry is off."""


def trace_run(service: str, find_version: Callable[[], str]) -> AbstractContextManager[Trace]:
    """Return a context manager that records a run of a tap or a target as an OpenTelemetry span.

    The parent of the span is the run in progress, if there is one. Otherwise it is the span that
    the environment variable ``TRACEPARENT`` identifies. When the last run ends, its buffered data
    are sent, for at most five seconds.

    Args:
        service: The name of the plugin, the default of OpenTelemetry's ``service.name``.
        find_version: Function that returns the version of the plugin.
    """
    if _active is None and not any(name.startswith("OTEL_") for name in os.environ):
        return _NO_TRACE
    return _open_run(service, find_version)


@contextmanager
def _open_run(service: str, find_version: Callable[[], str]) -> Iterator[Trace]:
    telemetry = _begin_run(service, find_version)
    if telemetry is None:
        yield _OFF
        return
    try:
        with telemetry.run_span(f"{service} run") as trace:
            yield trace
    finally:
        if _end_run(telemetry):
            telemetry.flush()


def _begin_run(service: str, find_version: Callable[[], str]) -> Telemetry | None:
    global _active  # noqa: PLW0603  the hooks are functions, so that they cost nothing when off
    with _lock:
        if _active is None:
            from tap_core.telemetry.exporters import is_configured, start_exporters
            from tap_core.telemetry.recording import Telemetry

            exporters = start_exporters(service, find_version()) if is_configured() else None
            if exporters is None:
                return None
            _active = Telemetry(exporters)
        _active.runs += 1
        return _active


def _end_run(telemetry: Telemetry) -> bool:
    """Decrement the number of runs in progress; return True if this was the last one."""
    global _active  # noqa: PLW0603  the same
    with _lock:
        telemetry.runs -= 1
        if telemetry.runs:
            return False
        _active = None
        return True


def begin_stream(stream: str) -> None:
    """Start the OpenTelemetry span of a stream that a target receives.

    The span ends with the run. If the span was started before, nothing is done.
    """
    if (telemetry := _active) is not None:
        telemetry.begin_stream("target", stream)


def trace_stream(stream: str) -> AbstractContextManager[object]:
    """Return a context manager that records the reading of a stream as an OpenTelemetry span."""
    return _NO_TRACE if (telemetry := _active) is None else telemetry.stream_span(stream)


def trace_batch(stream: str, table: str) -> AbstractContextManager[Trace]:
    """Return a context manager that records the commit of a batch as an OpenTelemetry span."""
    return _NO_TRACE if (telemetry := _active) is None else telemetry.batch_span(stream, table)


def trace_request(
    stream: str, request: requests.PreparedRequest, secrets: Callable[[], Secrets]
) -> AbstractContextManager[Callable[[int], None]]:
    """Return a context manager that records an HTTP request as an OpenTelemetry span.

    It yields a function that the caller must call with the status code of the response.

    Args:
        stream: Name of the stream that sends the request.
        request: The request, with its credentials.
        secrets: Function that returns the values to redact in the URL.
    """
    if (telemetry := _active) is None:
        return _NO_STATUS
    return telemetry.request_span(stream, request, secrets)


def record_metric(metric: str, value: Any, tags: Mapping[Any, Any]) -> None:
    """Add the value in a Singer METRIC log line to the corresponding OpenTelemetry metric.

    Args:
        metric: Name of the Singer metric, such as ``record_count``. A name without an OpenTelemetry
            metric is ignored.
        value: A count, or a duration in seconds.
        tags: Tags of the log line; ``stream`` and ``status`` become attributes.
    """
    if (telemetry := _active) is not None:
        telemetry.record(metric, value, tags)


def count_commit(stream: str, quarantined: int, nbytes: int) -> None:
    """Add the size and the quarantined records of a commit to a stream's metrics.

    Args:
        stream: Name of the stream.
        quarantined: Number of records that were written to the quarantine table.
        nbytes: Size of the committed rows in bytes.
    """
    if (telemetry := _active) is not None:
        telemetry.count_commit(stream, quarantined, nbytes)


def count_retry(kind: str) -> None:
    """Count a retry; ``kind`` is ``http`` for a request, ``storage`` for a storage operation."""
    if (telemetry := _active) is not None:
        telemetry.count_retry(kind)
