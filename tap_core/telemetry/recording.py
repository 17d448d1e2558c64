"""Spans and metrics of the runs in progress, recorded with OpenTelemetry.

Attributes have names from OpenTelemetry's semantic conventions, if these define one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from tap_core.redaction import Secrets, redact, redact_line, redact_url
from tap_core.telemetry.exporters import Exporters
from tap_core.telemetry.trace import Trace, name_error_type

if TYPE_CHECKING:
    import requests
    from opentelemetry.context import Context
    from opentelemetry.metrics import Counter, Histogram, Meter
    from opentelemetry.trace import Span

__all__ = ["Telemetry"]

logger = logging.getLogger(__name__)

_STREAM: Final = "tap_core.stream.name"

_FLUSH_SECONDS: Final = 5.0
"""Maximum time in seconds to wait at the end of a run until buffered data are sent."""

_REQUEST_BOUNDS: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25),
    *(0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
)
"""Histogram bounds of request durations in seconds, from OpenTelemetry's HTTP conventions."""

_RUN_BOUNDS: Final = (0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 43200.0)

_COUNTERS: Final[Mapping[str, tuple[str, str, str]]] = {
    "record_count": ("tap_core.records", "{record}", "Records sent by a tap, or written."),
    "batch_count": ("tap_core.batches", "{batch}", "Batches sent by a tap."),
    "bytes": ("tap_core.bytes", "By", "Bytes of the rows of commits."),
    "quarantined": ("tap_core.quarantined", "{record}", "Records written to a quarantine."),
    "retries": ("tap_core.retries", "{retry}", "Repeated requests and storage operations."),
}
"""Name, unit and description of each counter, by its name in this package."""

_DURATIONS: Final[Mapping[str, tuple[str, str, tuple[float, ...]]]] = {
    "sync_duration": ("tap_core.stream.duration", "Sync of a stream.", _RUN_BOUNDS),
    "job_duration": ("tap_core.run.duration", "Run of a target.", _RUN_BOUNDS),
    "batch_processing_time": ("tap_core.batch.duration", "Commit of a batch.", _RUN_BOUNDS),
    "request": ("http.client.request.duration", "Duration of HTTP requests.", _REQUEST_BOUNDS),
}
"""Name, description and bounds of each histogram of seconds, by its name in this package."""

_TAGS: Final[Mapping[str, str]] = {"stream": _STREAM, "status": "tap_core.status"}
"""OpenTelemetry attribute for each tag of METRIC lines; tags that are not listed are dropped."""


class Telemetry:
    """Recorder of the spans and metrics of the runs in progress.

    The parent of each span is passed explicitly. OpenTelemetry's default, the current span of the
    thread, would be wrong, because other threads may send the requests of a stream.
    """

    def __init__(self, exporters: Exporters) -> None:
        self._exporters = exporters
        self._parents: list[Context | None] = [exporters.parent]
        self._streams: dict[tuple[str, str], Span] = {}
        self.runs = 0
        """Number of runs in progress; it is 2 if a target runs a tap in the same process."""

    @contextmanager
    def run_span(self, name: str) -> Iterator[Trace]:
        """Context manager that records a run as a span. Spans of streams become its children."""
        span = self._begin_span(name, self._parents[-1], {})
        parent = _make_parent_context(span)
        self._parents.append(parent)
        try:
            with _end_span(span) as trace:
                yield trace
        finally:
            self._parents.remove(parent)  # runs of several threads end in any order
            if len(self._parents) == 1:
                self._end_streams()

    def _begin_span(self, name: str, parent: Context | None, attributes: Mapping[str, Any]) -> Span:
        """Start and return an OpenTelemetry span. If traces are off, the span records nothing."""
        from opentelemetry.trace import INVALID_SPAN, SpanKind

        if self._exporters.tracer is None:
            return INVALID_SPAN
        kind = SpanKind.CLIENT if "http.request.method" in attributes else SpanKind.INTERNAL
        return self._exporters.tracer.start_span(name, parent, kind, attributes=attributes)

    def begin_stream(self, role: str, stream: str) -> Span:
        """Return the OpenTelemetry span of a stream; start it at the first call.

        ``role`` is ``tap`` or ``target``.
        """
        span = self._streams.get((role, stream))
        if span is None:
            span = self._begin_span(f"{role} stream", self._parents[-1], {_STREAM: stream})
            self._streams[role, stream] = span
        return span

    def _find_parent(self, role: str, stream: str) -> Context | None:
        """Return the parent of new spans of a stream: the stream's own span, or else the run's.

        ``role`` is ``tap`` or ``target``.
        """
        span = self._streams.get((role, stream))
        return self._parents[-1] if span is None else _make_parent_context(span)

    def _end_streams(self) -> None:
        """End the spans of all streams."""
        for key in tuple(self._streams):
            if (span := self._streams.pop(key, None)) is not None:
                span.end()

    @contextmanager
    def stream_span(self, stream: str) -> Iterator[None]:
        """Context manager that records the reading of a tap's stream as an OpenTelemetry span."""
        try:
            with _end_span(self.begin_stream("tap", stream)):
                yield
        finally:
            self._streams.pop(("tap", stream), None)

    def batch_span(self, stream: str, table: str) -> AbstractContextManager[Trace]:
        """Return a context manager that records the commit of a batch of rows as a span."""
        attributes = {_STREAM: stream, "db.collection.name": table}
        return _end_span(
            self._begin_span("commit batch", self._find_parent("target", stream), attributes)
        )

    @contextmanager
    def request_span(
        self, stream: str, request: requests.PreparedRequest, secrets: Callable[[], Secrets]
    ) -> Iterator[Callable[[int], None]]:
        """Context manager that records an HTTP request as a span, and its duration as a metric.

        It yields a function that the caller must call with the response's status code. ``secrets``
        returns the texts to redact in the URL.
        """
        from tap_core.redaction.http import collect_sent_secrets

        method = request.method or "_OTHER"
        full = ""
        with suppress(ValueError):  # invalid URL: sending the request will raise an error
            hidden = secrets() | collect_sent_secrets(request)
            full = redact(hidden.hide(redact_url(request.url or "")))
        common = {"http.request.method": method, **_describe_server(full)}
        span = self._begin_span(
            method, self._find_parent("tap", stream), {**common, _STREAM: stream, "url.full": full}
        )
        outcome: dict[str, Any] = {}

        def record_status(status: int) -> None:
            outcome["http.response.status_code"] = status
            if status >= HTTPStatus.BAD_REQUEST:
                outcome["error.type"] = str(status)

        started = time.monotonic()
        try:
            with _end_span(span) as trace:
                yield record_status
                trace.describe(outcome)
                if "error.type" in outcome:
                    _mark_failed(span)
        except Exception as error:
            outcome["error.type"] = name_error_type(error)
            raise
        finally:
            self._record_seconds("request", time.monotonic() - started, {**common, **outcome})

    def record(self, metric: str, value: Any, tags: Mapping[Any, Any]) -> None:
        """Add the value in a Singer METRIC log line to the corresponding OpenTelemetry metric.

        `tap_core.telemetry.record_metric` describes the arguments.
        """
        attributes = {_TAGS[tag]: str(value) for tag, value in _iterate_tags(tags) if tag in _TAGS}
        if metric in _COUNTERS:
            self._count(metric, value, attributes)
        elif metric in _DURATIONS:
            self._record_seconds(metric, value, attributes)

    def count_commit(self, stream: str, quarantined: int, nbytes: int) -> None:
        """Add the bytes and the number of quarantined records of a commit to a stream's metrics."""
        self._count("bytes", nbytes, {_STREAM: stream})
        self._count("quarantined", quarantined, {_STREAM: stream})

    def count_retry(self, kind: str) -> None:
        """Add a retry to the OpenTelemetry metric of retries.

        ``kind`` is ``http`` for an HTTP request, or ``storage`` for a storage operation.
        """
        self._count("retries", 1, {"tap_core.retry.kind": kind})

    def _count(self, metric: str, value: int, attributes: Mapping[str, Any]) -> None:
        if self._exporters.meter is not None and value:
            _get_counter(self._exporters.meter, metric).add(value, attributes)

    def _record_seconds(self, metric: str, seconds: float, attributes: Mapping[str, Any]) -> None:
        """Add a duration in seconds to an OpenTelemetry histogram.

        ``metric`` is a key of `_DURATIONS`, such as ``sync_duration``.
        """
        if self._exporters.meter is not None:
            _get_histogram(self._exporters.meter, metric).record(seconds, attributes)

    def flush(self) -> None:
        """Send buffered spans and metrics. After five seconds, log a warning and return."""

        def send() -> None:
            try:
                self._exporters.flush()
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


@contextmanager
def _end_span(span: Span) -> Iterator[Trace]:
    """Context manager that ends a span; an exception in the block marks the span as failed."""
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


def _make_parent_context(span: Span) -> Context:
    from opentelemetry.trace import set_span_in_context

    return set_span_in_context(span)


def _describe_server(url: str) -> dict[str, Any]:
    """Return host and port of a URL as span attributes; ``{}`` if the URL has no host."""
    with suppress(ValueError):
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
        if parts.hostname and port:
            return {"server.address": parts.hostname, "server.port": port}
    return {}


def _iterate_tags(tags: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in tags.items():
        yield str(getattr(name, "value", name)), getattr(value, "value", value)


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
