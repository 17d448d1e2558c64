"""OpenTelemetry collector on loopback, which receives data by OTLP over HTTP."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.http.server import ReceivedRequest, Reply, Server, serving

__all__ = ["Collector", "collecting"]


class Collector:
    """The spans and metrics that a server has received."""

    def __init__(self, server: Server) -> None:
        self.server = server
        server.answers(Reply(headers={"Content-Type": "application/x-protobuf"}))

    def variables(self, **kwargs: str) -> dict[str, str]:
        """Return the environment variables that make a process send to this collector."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.server.url, **kwargs}

    @property
    def resources(self) -> list[dict[str, Any]]:
        """The attributes of the resource of each request with spans."""
        return [read(part.resource.attributes) for part in self._parts()]

    @property
    def spans(self) -> list[Any]:
        """All spans, in the order in which they ended."""
        return [
            span for part in self._parts() for scope in part.scope_spans for span in scope.spans
        ]

    def find(self, name: str) -> Any:
        """Return the only span with a name."""
        (matching_span,) = [span for span in self.spans if span.name == name]
        return matching_span

    @property
    def metrics(self) -> dict[str, list[Any]]:
        """The data points of the last request with metrics, by the name of the metric."""
        request = ExportMetricsServiceRequest()
        request.ParseFromString(self._bodies("/v1/metrics")[-1])
        return {
            metric.name: list(
                (metric.sum if metric.HasField("sum") else metric.histogram).data_points
            )
            for part in request.resource_metrics
            for scope in part.scope_metrics
            for metric in scope.metrics
        }

    @property
    def everything(self) -> bytes:
        """The bodies of all requests."""
        return b"".join(self._bodies("/v1/traces") + self._bodies("/v1/metrics"))

    def _parts(self) -> Iterator[Any]:
        for body in self._bodies("/v1/traces"):
            request = ExportTraceServiceRequest()
            request.ParseFromString(body)
            yield from request.resource_spans

    def _bodies(self, path: str) -> list[bytes]:
        return [_body(request) for request in self.server.requests if request.path == path]


def read(attributes: Any) -> dict[str, Any]:
    """Return the attributes of a span, a resource or a data point."""
    return {
        attribute.key: getattr(attribute.value, attribute.value.WhichOneof("value"))
        for attribute in attributes
    }


def _body(request: ReceivedRequest) -> bytes:
    headers: Mapping[str, str] = {name.lower(): text for name, text in request.headers.items()}
    return (
        gzip.decompress(request.body) if headers.get("content-encoding") == "gzip" else request.body
    )


@contextmanager
def collecting() -> Iterator[Collector]:
    """Context manager: run a collector."""
    with serving() as server:
        yield Collector(server)
