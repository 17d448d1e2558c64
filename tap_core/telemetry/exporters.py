"""OpenTelemetry exporters, configured by OpenTelemetry's environment variables.

Traces and metrics are sent by OTLP over HTTP. Each of the two is enabled if its environment
variables set an endpoint or the exporter ``otlp``.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from tap_core.redaction import Secrets, redact_line, register_secrets

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import Meter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Tracer

__all__ = ["Exporters", "is_configured", "start_exporters"]

logger = logging.getLogger(__name__)

_SCOPE: Final = "tap_core"
_OTLP: Final = "OTEL_EXPORTER_OTLP"
_SIGNALS: Final = ("TRACES", "METRICS")
_PACKAGES: Final = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


@dataclass(frozen=True, slots=True)
class Exporters:
    """OpenTelemetry tracer and meter of this process.

    Attributes:
        tracer: Object that creates spans; None if traces are off.
        meter: Object that creates instruments; None if metrics are off.
        parent: The trace context of the parent process (``TRACEPARENT``), or None.
        flush: Function that sends buffered spans and metrics, and waits for the collector.
    """

    tracer: Tracer | None
    meter: Meter | None
    parent: Context | None
    flush: Callable[[], None]


def is_configured() -> bool:
    """Return True if an environment variable enables telemetry and OpenTelemetry is installed."""
    if not any(map(_is_enabled, _SIGNALS)):
        return False
    try:
        return all(map(find_spec, _PACKAGES))
    except ModuleNotFoundError:
        return False


def _is_enabled(signal: str) -> bool:
    """Return True if the environment variables enable an OpenTelemetry signal.

    ``signal`` is ``TRACES`` or ``METRICS``.
    """
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporters = os.environ.get(f"OTEL_{signal}_EXPORTER", "").strip().lower()
    if exporters:
        return exporters != "none"
    return any(os.environ.get(name) for name in (f"{_OTLP}_ENDPOINT", f"{_OTLP}_{signal}_ENDPOINT"))


@lru_cache(maxsize=1)
def start_exporters(service: str, version: str) -> Exporters | None:
    """Return the OpenTelemetry exporters of this process, which the first call creates.

    ``service`` is the plugin's name, and ``version`` its version. If an exporter cannot be created,
    a warning is logged, and the result is None.
    """
    try:
        _hide_variables()
        _check_variables()
        resource = _describe_service(service, version)
        traces = _make_tracer_provider(resource) if _is_enabled("TRACES") else None
        metrics = _make_meter_provider(resource) if _is_enabled("METRICS") else None
        parent = _read_parent()
    except Exception as error:  # noqa: BLE001  telemetry never affects the run
        reason = redact_line(str(error) or type(error).__name__).rstrip(".")
        logger.warning("Traces and metrics are not sent: %s.", reason)
        return None

    def flush() -> None:
        for provider in (traces, metrics):
            if provider is not None:
                provider.force_flush()

    return Exporters(
        None if traces is None else traces.get_tracer(_SCOPE),
        None if metrics is None else metrics.get_meter(_SCOPE),
        parent,
        flush,
    )


def _hide_variables() -> None:
    """Register the header values in ``OTEL_EXPORTER_OTLP_HEADERS`` as secrets, to redact them."""
    names = (f"{_OTLP}_HEADERS", *(f"{_OTLP}_{signal}_HEADERS" for signal in _SIGNALS))
    values = [
        unquote(pair.partition("=")[2].strip())
        for name in names
        for pair in os.environ.get(name, "").split(",")
    ]
    # Of a value such as "Bearer abc", the part after the scheme is hidden, too.
    secrets = [word for value in values for word in (value, value.rpartition(" ")[2]) if word]
    register_secrets(start_exporters, Secrets.from_values(secrets))


def _check_variables() -> None:
    """Check that the environment selects the exporter ``otlp`` and the protocol ``http/protobuf``.

    Raises:
        ValueError: A variable selects another exporter or protocol; the message names the variable.
    """
    for signal in filter(_is_enabled, _SIGNALS):
        _check_variable(f"OTEL_{signal}_EXPORTER", "otlp", "otlp or none")
        for name in (f"{_OTLP}_PROTOCOL", f"{_OTLP}_{signal}_PROTOCOL"):
            _check_variable(name, "http/protobuf", "http/protobuf")


def _check_variable(name: str, required: str, advice: str) -> None:
    value = os.environ.get(name, "").strip().lower()
    if value and value != required:
        raise ValueError(f"the environment variable {name} is '{value}'; set it to {advice}")


def _describe_service(service: str, version: str) -> Resource:
    """Return the OpenTelemetry resource of the plugin: its name and version.

    OpenTelemetry's environment variables, such as ``OTEL_SERVICE_NAME``, override these values.
    """
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource

    user_attributes = OTELResourceDetector().detect().attributes
    return Resource.create({"service.name": service, "service.version": version, **user_attributes})


def _make_tracer_provider(resource: Resource) -> TracerProvider:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    # The provider's shutdown at exit would wait for a collector that does not respond.
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


def _make_meter_provider(resource: Resource) -> MeterProvider:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    reader = PeriodicExportingMetricReader(OTLPMetricExporter())
    return MeterProvider([reader], resource, shutdown_on_exit=False)


def _read_parent() -> Context | None:
    """Return the trace context in the variables ``TRACEPARENT`` and ``TRACESTATE``, or None."""
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    names = ("traceparent", "tracestate")
    carrier = {name: value for name in names if (value := os.environ.get(name.upper()))}
    return TraceContextTextMapPropagator().extract(carrier) if carrier else None
