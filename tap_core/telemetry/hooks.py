"""The functions by which taps and targets report to OpenTelemetry.

They do something if the extra ``otel`` is installed and OpenTelemetry's environment variables name
an endpoint or the exporter ``otlp``. Otherwise nothing of OpenTelemetry is imported, and each
function returns at once. A failure is a warning and never affects the run.
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
    """Do nothing with the status of a response."""


_OFF: Final = Trace()
_NO_TRACE: Final = nullcontext(_OFF)
_NO_STATUS: Final = nullcontext(_ignore_status)

_lock: Final = threading.Lock()
_active: Telemetry | None = None
"""The telemetry of the runs in progress; None while it is off."""


def trace_run(service: str, find_version: Callable[[], str]) -> AbstractContextManager[Trace]:
    """Return a context manager whose block is a run of a tap or a target.

    The span of a run continues the trace in the environment variable ``TRACEPARENT``. Another run
    that begins before its end is a part of it. At the end of the last of them at most five seconds
    are spent on sending what is left.

    Args:
        service: The name of the plugin; ``service.name`` unless a variable sets another name.
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
    """Return True if this was the last run in progress."""
    global _active  # noqa: PLW0603  the same
    with _lock:
        telemetry.runs -= 1
        if telemetry.runs:
            return False
        _active = None
        return True


def begin_stream(stream: str) -> None:
    """Open the span of a stream that a target receives. It ends with the run."""
    if (telemetry := _active) is not None:
        telemetry.begin_stream("target", stream)


def trace_stream(stream: str) -> AbstractContextManager[object]:
    """Return a context manager whose block reads a stream of a tap."""
    return _NO_TRACE if (telemetry := _active) is None else telemetry.stream_span(stream)


def trace_batch(stream: str, table: str) -> AbstractContextManager[Trace]:
    """Return a context manager whose block commits a batch of a stream to a table."""
    return _NO_TRACE if (telemetry := _active) is None else telemetry.batch_span(stream, table)


def trace_request(
    stream: str, request: requests.PreparedRequest, secrets: Callable[[], Secrets]
) -> AbstractContextManager[Callable[[int], None]]:
    """Return a context manager whose block sends an HTTP request.

    Its value is a function to call with the status of the response.

    Args:
        stream: The stream that sends it.
        request: The request, with its credentials.
        secrets: Function that returns the values to hide in the URL.
    """
    if (telemetry := _active) is None:
        return _NO_STATUS
    return telemetry.request_span(stream, request, secrets)


def record_metric(metric: str, value: Any, tags: Mapping[Any, Any]) -> None:
    """Record a data point of a METRIC line: a count, or a duration in seconds.

    Args:
        metric: The name of the metric in the METRIC line. Unknown names are ignored.
        value: The number.
        tags: The tags of the METRIC line.
    """
    if (telemetry := _active) is not None:
        telemetry.record(metric, value, tags)


def count_commit(stream: str, quarantined: int, nbytes: int) -> None:
    """Count the bytes of a commit's rows, and the rows that it quarantined."""
    if (telemetry := _active) is not None:
        telemetry.count_commit(stream, quarantined, nbytes)


def count_retry(kind: str) -> None:
    """Count a retry; ``kind`` is ``http`` for a request, ``storage`` for a storage operation."""
    if (telemetry := _active) is not None:
        telemetry.count_retry(kind)
