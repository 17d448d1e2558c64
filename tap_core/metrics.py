"""Metrics as log lines: ``METRIC: {"type":…,"metric":…,"value":…,"tags":…}``.

Names and format are those of singer_sdk, because Meltano parses the lines. The logger is
``tap_core.metrics``. For speed, the SDK increments counters once per chunk of records, not per
record.
"""

from __future__ import annotations

import abc
import enum
import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from time import time
from types import TracebackType
from typing import Any, Final, Generic, TypeVar

from tap_core.telemetry import record_metric
from tap_core.types import Context

__all__ = [
    "DEFAULT_LOG_INTERVAL",
    "METRICS_LOGGER_NAME",
    "Counter",
    "Meter",
    "Metric",
    "MetricExclusionFilter",
    "Point",
    "Status",
    "Tag",
    "Timer",
    "batch_counter",
    "get_metrics_logger",
    "http_request_counter",
    "http_request_duration",
    "log",
    "record_counter",
    "sync_timer",
]

DEFAULT_LOG_INTERVAL = 60.0
"""Seconds between two log lines of the same counter."""

METRICS_LOGGER_NAME = __name__
"""Name of the logger that writes METRIC lines."""

_Value = TypeVar("_Value")
_Meter = TypeVar("_Meter", bound="Meter")
_Counter = TypeVar("_Counter", bound="Counter")
_Timer = TypeVar("_Timer", bound="Timer")


class Status(str, enum.Enum):
    """Outcome of a timed operation, the value of the tag ``status``."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"


class Tag(str, enum.Enum):
    """Names of the tags that are common to several metrics."""

    STREAM = "stream"
    CONTEXT = "context"
    ENDPOINT = "endpoint"
    JOB_TYPE = "job_type"
    HTTP_STATUS_CODE = "http_status_code"
    STATUS = "status"
    PID = "pid"


class Metric(str, enum.Enum):
    """Names of the metrics, which are counts or durations in seconds."""

    RECORD_COUNT = "record_count"
    BATCH_COUNT = "batch_count"
    HTTP_REQUEST_DURATION = "http_request_duration"
    HTTP_REQUEST_COUNT = "http_request_count"
    JOB_DURATION = "job_duration"
    SYNC_DURATION = "sync_duration"
    BATCH_PROCESSING_TIME = "batch_processing_time"


@dataclass
class Point(Generic[_Value]):
    """Data point: the value of a metric at one time, with tags such as the stream's name."""

    metric_type: str
    metric: Metric
    value: _Value
    tags: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the data point as a dict with the keys of a METRIC log line."""
        return {
            "type": self.metric_type,
            "metric": self.metric.value,
            "value": self.value,
            "tags": self.tags,
        }

    def __str__(self) -> str:
        return _ENCODER.encode(self.to_dict())


def _tag_to_json(value: Any) -> Any:
    """Convert the value of a tag for JSON: a mapping to a dict, any other object to text."""
    return dict(value) if isinstance(value, Mapping) else str(value)


_ENCODER: Final = json.JSONEncoder(default=_tag_to_json, separators=(",", ":"))


class MetricExclusionFilter(logging.Filter):
    """Log filter that drops METRIC lines by metric name, metric type or tag value."""

    def __init__(
        self,
        *,
        metrics: Sequence[str | Metric] | None = None,
        types: Sequence[str] | None = None,
        tags: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.metrics: Sequence[str | Metric] = metrics or []
        self.types: Sequence[str] = types or []
        self.tags: dict[str, Any] = tags or {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return False for an excluded metric, and True for any other log record."""
        point = record.args[0] if isinstance(record.args, tuple) and record.args else None
        return not (isinstance(point, Point) and self._excludes(point))

    def _excludes(self, point: Point[Any]) -> bool:
        return (
            point.metric.value in self.metrics
            or point.metric_type in self.types
            or any(point.tags.get(tag) == value for tag, value in self.tags.items())
        )


def get_metrics_logger() -> logging.Logger:
    """Return the logger ``tap_core.metrics``, which writes all metrics."""
    return logging.getLogger(METRICS_LOGGER_NAME)


def log(logger: logging.Logger, point: Point[Any]) -> None:
    """Log a data point at level INFO, and record it with OpenTelemetry if that is enabled."""
    logger.info("METRIC: %s", point)
    record_metric(point.metric.value, point.value, point.tags)


class Meter(abc.ABC):
    """Base class of context managers that measure a ``with`` block and log the result."""

    def __init__(self, metric: Metric, tags: dict[str, Any] | None = None) -> None:
        self.metric = metric
        self.tags: dict[str, Any] = tags or {}
        self.tags[Tag.PID] = os.getpid()
        self.logger: logging.Logger = get_metrics_logger()

    @property
    def context(self) -> Context | None:
        """Values that identify the partition being read, logged as tag ``context``, or None."""
        return self.tags.get(Tag.CONTEXT)

    @context.setter
    def context(self, value: Context | None) -> None:
        self.with_context(value)

    def with_context(self, value: Context | None) -> None:
        """Set the tag ``context`` to the values that identify a partition; None removes it."""
        if value is None:
            self.tags.pop(Tag.CONTEXT, None)
        else:
            self.tags[Tag.CONTEXT] = value

    @abc.abstractmethod
    def __enter__(self: _Meter) -> _Meter:
        """Start the count or the time measurement at the start of the ``with`` block."""

    @abc.abstractmethod
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        """Log the count or the duration, at the end of the ``with`` block."""


class Counter(Meter):
    """Counter that logs its count every ``log_interval`` seconds and starts again at 0."""

    def __init__(
        self,
        metric: Metric,
        tags: dict[str, Any] | None = None,
        log_interval: float = DEFAULT_LOG_INTERVAL,
    ) -> None:
        super().__init__(metric, tags)
        self.value: int = 0
        self.log_interval = log_interval
        self.last_log_time: float = time()

    def __enter__(self: _Counter) -> _Counter:  # noqa: PYI019  Self is of 3.11
        self.last_log_time = time()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self.exit()

    def exit(self) -> None:
        """Log the count since the last log line, and reset it to 0."""
        self._pop()

    def increment(self, value: int = 1) -> None:
        """Add ``value`` to the count; log and reset it if ``log_interval`` seconds have passed."""
        self.value += value
        if self._ready_to_log():
            self._pop()

    def _ready_to_log(self) -> bool:
        return time() - self.last_log_time > self.log_interval

    def _pop(self) -> None:
        log(self.logger, Point("counter", self.metric, self.value, dict(self.tags)))
        self.value = 0
        self.last_log_time = time()


class Timer(Meter):
    """Context manager that logs the duration of its ``with`` block in seconds.

    The tag ``status`` is ``failed`` if the block raised an exception, else ``succeeded``. A
    ``status`` in ``tags`` overrides it.
    """

    def __init__(self, metric: Metric, tags: dict[str, Any] | None = None) -> None:
        super().__init__(metric, tags)
        self.start_time: float = time()

    def __enter__(self: _Timer) -> _Timer:  # noqa: PYI019  the same
        self.start_time = time()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        status = Status.SUCCEEDED if exc_type is None else Status.FAILED
        # Not stored in `self.tags`: a sink's timer measures all batches of the sink.
        tags = {**self.tags, Tag.STATUS: self.tags.get(Tag.STATUS, status)}
        log(self.logger, Point("timer", self.metric, self.elapsed(), tags))

    def elapsed(self) -> float:
        """Return the seconds since the timer was started."""
        return time() - self.start_time


def record_counter(
    stream: str | None = None,
    endpoint: str | None = None,
    log_interval: float = DEFAULT_LOG_INTERVAL,
    **tags: Any,
) -> Counter:
    """Return a counter of the records of a stream, for the metric ``record_count``."""
    if stream:
        tags[Tag.STREAM] = stream
    if endpoint:
        tags[Tag.ENDPOINT] = endpoint
    return Counter(Metric.RECORD_COUNT, tags, log_interval=log_interval)


def batch_counter(stream: str, **tags: Any) -> Counter:
    """Return a counter of the batches of a stream, for the metric ``batch_count``."""
    tags[Tag.STREAM] = stream
    return Counter(Metric.BATCH_COUNT, tags)


def http_request_counter(
    stream: str,
    endpoint: str,
    log_interval: float = DEFAULT_LOG_INTERVAL,
    **tags: Any,
) -> Counter:
    """Return a counter of HTTP requests to an endpoint, for the metric ``http_request_count``."""
    tags.update({Tag.STREAM: stream, Tag.ENDPOINT: endpoint})
    return Counter(Metric.HTTP_REQUEST_COUNT, tags, log_interval=log_interval)


def sync_timer(stream: str, **tags: Any) -> Timer:
    """Return a timer for the sync of a stream, for the metric ``sync_duration``."""
    tags[Tag.STREAM] = stream
    return Timer(Metric.SYNC_DURATION, tags)


def http_request_duration(
    stream: str,
    endpoint: str,
    status: int,
    seconds: float,
    context: Context | None = None,
    **tags: Any,
) -> Point[float]:
    """Return a data point with the duration of an HTTP request in seconds.

    Its tag ``status`` is ``failed`` if the response status is 400 or more, else ``succeeded``.
    """
    succeeded = status < HTTPStatus.BAD_REQUEST
    tags = {
        Tag.STREAM: stream,
        Tag.ENDPOINT: endpoint,
        Tag.HTTP_STATUS_CODE: status,
        Tag.STATUS: Status.SUCCEEDED if succeeded else Status.FAILED,
        **tags,
    }
    if context:
        tags[Tag.CONTEXT] = context
    return Point("timer", metric=Metric.HTTP_REQUEST_DURATION, value=seconds, tags=tags)
