"""OpenTelemetry traces and metrics of runs, sent by OTLP over HTTP.

They are on if the extra ``otel`` is installed and OpenTelemetry's environment variables name an
endpoint or the exporter ``otlp``. While they are off, nothing of OpenTelemetry is imported and each
function returns at once. A failure is a warning and never affects the run. Names of attributes are
those of OpenTelemetry's semantic conventions, where there is one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from tap_core.redaction import Secrets, redact, redact_line, redact_url
from tap_core.telemetry.exporters import Exporters, is_configured, start_exporters

if TYPE_CHECKING:
    import requests
    from opentelemetry.context import Context
    from opentelemetry.metrics import Counter, Histogram, Meter
    from opentelemetry.trace import Span

__all__ = [
    "Trace",
    "begin_stream",
    "count_commit",
    "count_retry",
    "record_metric",
    "trace_batch",
    "trace_request",
    "trace_run",
    "trace_stream",
]

logger = logging.getLogger(__name__)

_STREAM: Final = "tap_core.stream.name"

_FLUSH_SECONDS: Final = 5.0
"""Longest wait at the end of a run for the collector to take what is left, in seconds."""

_REQUEST_BOUNDS: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25),
    *(0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
)
"""Buckets in seconds, from the semantic conventions of HTTP."""

_RUN_BOUNDS: Final = (0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 43200.0)

_COUNTERS: Final[Mapping[str, tuple[str, str, str]]] = {
    "record_count": ("tap_core.records", "{record}", "Records sent by a tap, or written."),
    "batch_count": ("tap_core.batches", "{batch}", "Batches sent by a tap."),
    "bytes": ("tap_core.bytes", "By", "Bytes of the rows of commits."),
    "quarantined": ("tap_core.quarantined", "{record}", "Records written to a quarantine."),
    "retries": ("tap_core.retries", "{retry}", "Repeated requests and storage operations."),
}
"""Name, unit and description of each counter, by the metric's name in the code."""

_DURATIONS: Final[Mapping[str, tuple[str, str, tuple[float, ...]]]] = {
    "sync_duration": ("tap_core.stream.duration", "Sync of a stream.", _RUN_BOUNDS),
    "job_duration": ("tap_core.run.duration", "Run of a target.", _RUN_BOUNDS),
    "batch_processing_time": ("tap_core.batch.duration", "Commit of a batch.", _RUN_BOUNDS),
    "request": ("http.client.request.duration", "Duration of HTTP requests.", _REQUEST_BOUNDS),
}
"""Name, description and buckets of each histogram of seconds, by the metric's name in the code."""

_TAGS: Final[Mapping[str, str]] = {"stream": _STREAM, "status": "tap_core.status"}
"""Attributes of metrics by the tag of the METRIC line; other tags may have many values."""


class Trace:
    """A span in progress. Without a span its methods do nothing."""

    __slots__ = ("_span",)

    def __init__(self, span: Span | None = None) -> None:
        self._span = span

    def describe(self, attributes: Mapping[str, Any]) -> None:
        """Add attributes to the span. Values of None are left out."""
        if self._span is not None:
            given = {name: value for name, value in attributes.items() if value is not None}
            self._span.set_attributes(given)

    def fail(self, error: BaseException) -> None:
        """Mark the span as failed, with the error's type and its message without secrets."""
        if self._span is not None:
            from opentelemetry.trace import StatusCode

            self._span.set_attribute("error.type", _name_type(error))
            self._span.set_status(StatusCode.ERROR, redact_line(str(error)))


_OFF: Final = Trace()
_NO_TRACE: Final = nullcontext(_OFF)


@dataclass
class _Telemetry:
    """The exporters of this process, and the spans of the run in progress.

    OpenTelemetry finds the parent of a span by its thread. Here a request may be sent by another
    thread than the stream's, so the parent of each span is given.
    """

    exporters: Exporters
    parents: list[Context | None]
    """Parents of spans, those of the runs in progress last; a command may run a tap in a target."""
    runs: int = 0
    streams: dict[tuple[str, str], tuple[Span, Context]] = field(default_factory=dict)
    """Spans of the streams in progress, by the role (tap or target) and the stream."""

    @contextmanager
    def run_span(self, name: str) -> Iterator[Trace]:
        """Context manager: open the span of a run, which is the parent of its streams."""
        span = self.begin(name, self.parents[-1], {})
        parent = _as_parent(span)
        self.parents.append(parent)
        try:
            with _ended(span) as trace:
                yield trace
        finally:
            self.parents.remove(parent)  # runs of several threads end in any order
            if len(self.parents) == 1:
                self.end_streams()

    def begin(self, name: str, parent: Context | None, attributes: Mapping[str, Any]) -> Span:
        """Return a new span; without traces, one that records nothing."""
        from opentelemetry.trace import INVALID_SPAN, SpanKind

        if self.exporters.tracer is None:
            return INVALID_SPAN
        kind = SpanKind.CLIENT if "http.request.method" in attributes else SpanKind.INTERNAL
        return self.exporters.tracer.start_span(name, parent, kind, attributes=attributes)

    def begin_stream(self, role: str, stream: str) -> None:
        """Open the span of a stream, unless it is open."""
        if (role, stream) not in self.streams:
            span = self.begin(f"{role} stream", self.parents[-1], {_STREAM: stream})
            self.streams[role, stream] = (span, _as_parent(span))

    def find_parent(self, role: str, stream: str) -> Context | None:
        """Return the parent of what belongs to a stream: its span, else the span of the run."""
        known = self.streams.get((role, stream))
        return self.parents[-1] if known is None else known[1]

    def end_streams(self) -> None:
        """End the spans of all streams."""
        while self.streams:
            self.streams.popitem()[1][0].end()


_lock: Final = threading.Lock()
_active: _Telemetry | None = None
"""The telemetry of the run in progress; None while it is off."""


# Spans


def trace_run(service: str, find_version: Callable[[], str]) -> AbstractContextManager[Trace]:
    """Return a context manager whose block is a run of a tap or a target.

    The span of a run continues the trace in the environment variable ``TRACEPARENT``. Another run
    that begins before its end is a part of it. At the end of the last of them at most five seconds
    are spent on sending what is left.

    Args:
        service: The name of the plugin; ``service.name`` unless a variable sets another name.
        find_version: Function that returns the version of the plugin.
    """
    if _active is None and not is_configured():
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
            _flush(telemetry)


def _begin_run(service: str, find_version: Callable[[], str]) -> _Telemetry | None:
    global _active  # noqa: PLW0603  the hooks are functions, so that they cost nothing when off
    with _lock:
        if _active is None:
            exporters = start_exporters(service, find_version())
            if exporters is None:
                return None
            _active = _Telemetry(exporters, [exporters.parent])
        _active.runs += 1
        return _active


def _end_run(telemetry: _Telemetry) -> bool:
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


@contextmanager
def trace_stream(stream: str) -> Iterator[None]:
    """Context manager: open the span of a tap's stream."""
    if (telemetry := _active) is None:
        yield
        return
    key = ("tap", stream)
    telemetry.begin_stream(*key)
    try:
        with _ended(telemetry.streams[key][0]):
            yield
    finally:
        telemetry.streams.pop(key, None)


def trace_batch(stream: str, table: str) -> AbstractContextManager[Trace]:
    """Return a context manager whose block commits a batch of a stream to a table."""
    if (telemetry := _active) is None:
        return _NO_TRACE
    attributes = {_STREAM: stream, "db.collection.name": table}
    parent = telemetry.find_parent("target", stream)
    return _ended(telemetry.begin("commit batch", parent, attributes))


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
    return _open_request(telemetry, stream, request, secrets)


def _ignore_status(_status: int) -> None:
    """Do nothing with the status of a response."""


_NO_STATUS: Final = nullcontext(_ignore_status)


@contextmanager
def _open_request(
    telemetry: _Telemetry,
    stream: str,
    request: requests.PreparedRequest,
    secrets: Callable[[], Secrets],
) -> Iterator[Callable[[int], None]]:
    from tap_core.redaction.http import collect_sent_secrets

    method, full = request.method or "_OTHER", ""
    with suppress(ValueError):  # sending it will raise an error that names the stream
        hidden = secrets() | collect_sent_secrets(request)
        full = redact(hidden.hide(redact_url(request.url or "")))
    common = {"http.request.method": method, **_describe_server(full)}
    span = telemetry.begin(
        method, telemetry.find_parent("tap", stream), {**common, _STREAM: stream, "url.full": full}
    )
    outcome: dict[str, Any] = {}

    def record_status(status: int) -> None:
        outcome["http.response.status_code"] = status
        if status >= HTTPStatus.BAD_REQUEST:
            outcome["error.type"] = str(status)

    started = time.monotonic()
    try:
        with _ended(span) as trace:
            yield record_status
            trace.describe(outcome)
            if "error.type" in outcome:
                _mark_failed(span)
    except Exception as error:
        outcome["error.type"] = _name_type(error)
        raise
    finally:
        _record_seconds(telemetry, "request", time.monotonic() - started, {**common, **outcome})


@contextmanager
def _ended(span: Span) -> Iterator[Trace]:
    """Context manager: end a span with the block. An error of the block marks it as failed."""
    trace = Trace(span)
    try:
        yield trace
    except BaseException as error:
        trace.fail(error)
        raise
    finally:
        span.end()


def _mark_failed(span: Span) -> None:
    from opentelemetry.trace import StatusCode

    span.set_status(StatusCode.ERROR)


def _as_parent(span: Span) -> Context:
    from opentelemetry.trace import set_span_in_context

    return set_span_in_context(span)


def _name_type(error: BaseException) -> str:
    kind = type(error)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _describe_server(url: str) -> dict[str, Any]:
    """Return host and port of a URL as attributes."""
    with suppress(ValueError):
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
        if parts.hostname and port:
            return {"server.address": parts.hostname, "server.port": port}
    return {}


# Metrics


def record_metric(metric: str, value: Any, tags: Mapping[Any, Any]) -> None:
    """Record a data point of a METRIC line: a count, or a duration in seconds.

    Args:
        metric: The name of the metric in the METRIC line. Unknown names are ignored.
        value: The number.
        tags: The tags of the METRIC line.
    """
    if (telemetry := _active) is None:
        return
    attributes = {_TAGS[tag]: str(value) for tag, value in _plain_tags(tags) if tag in _TAGS}
    if metric in _COUNTERS:
        _count(telemetry, metric, value, attributes)
    elif metric in _DURATIONS:
        _record_seconds(telemetry, metric, value, attributes)


def count_commit(stream: str, quarantined: int, nbytes: int) -> None:
    """Count the bytes of a commit's rows, and the rows that it quarantined."""
    if (telemetry := _active) is not None:
        _count(telemetry, "bytes", nbytes, {_STREAM: stream})
        _count(telemetry, "quarantined", quarantined, {_STREAM: stream})


def count_retry(kind: str) -> None:
    """Count a retry; ``kind`` is ``http`` for a request, ``storage`` for a storage operation."""
    if (telemetry := _active) is not None:
        _count(telemetry, "retries", 1, {"tap_core.retry.kind": kind})


def _plain_tags(tags: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in tags.items():
        yield str(getattr(name, "value", name)), getattr(value, "value", value)


def _count(telemetry: _Telemetry, metric: str, value: int, attributes: Mapping[str, Any]) -> None:
    if telemetry.exporters.meter is not None and value:
        _get_counter(telemetry.exporters.meter, metric).add(value, attributes)


def _record_seconds(
    telemetry: _Telemetry, metric: str, seconds: float, attributes: Mapping[str, Any]
) -> None:
    if telemetry.exporters.meter is not None:
        _get_histogram(telemetry.exporters.meter, metric).record(seconds, attributes)


@lru_cache
def _get_counter(meter: Meter, metric: str) -> Counter:
    name, unit, description = _COUNTERS[metric]
    return meter.create_counter(name, unit, description)


@lru_cache
def _get_histogram(meter: Meter, metric: str) -> Histogram:
    name, description, bounds = _DURATIONS[metric]
    return meter.create_histogram(
        name, "s", description, explicit_bucket_boundaries_advisory=bounds
    )


# End


def _flush(telemetry: _Telemetry) -> None:
    """Send what is left, for at most `_FLUSH_SECONDS`; a thread of its own may be left behind."""

    def send() -> None:
        try:
            telemetry.exporters.flush()
        except Exception as error:  # noqa: BLE001  telemetry never affects the run
            logger.debug("Traces and metrics were not sent: %s", redact_line(str(error)))

    thread = threading.Thread(target=send, name="telemetry-flush", daemon=True)
    thread.start()
    thread.join(_FLUSH_SECONDS)
    if thread.is_alive():
        logger.warning(
            "The collector did not take all traces and metrics of this run within %g seconds;"
            " the others are dropped.",
            _FLUSH_SECONDS,
        )
